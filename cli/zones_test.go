package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever opens a panel sees that it works in real directories, which a file of the workspace cannot give it.
func TestPanelOpenShowsDirectZones(t *testing.T) {
	s := serve(t)
	layout := filepath.Join(s.dir, "panels", "editor", "context-zones.yml")
	if err := os.MkdirAll(filepath.Dir(layout), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layout, []byte("mode: direct\nzones:\n  /workspace: {dir: .}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := s.run("panel", "open", "panels/editor"); code != 1 || !strings.Contains(errs, "panels/editor/context-zones.yml asks for direct zones") || !strings.Contains(errs, "--trust-zone-files") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if got := s.ok("zones", "explain", "panels/editor"); !strings.Contains(got, "note: panels/editor/context-zones.yml asks for direct zones") {
		t.Errorf("zones explain: %s", got)
	}
	if got := s.ok("panel", "open", "--zones", layout, "panels/editor"); !strings.Contains(got, "direct: the panel writes real directories, unreviewed") {
		t.Errorf("panel open: %s", got)
	}
}
