//go:build linux

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/servertest"
)

// TestReviewOfNamesThatAreNotUTF8 uses a name with a byte of Latin-1.
func TestReviewOfNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "p"}}
	const name = "caf\xe9"
	for _, text := range []string{"a\n", "b\n"} {
		s.stdin = text
		s.ok("put", "-", name)
		if out := s.ok("diff", "p", name); !strings.Contains(out, "+"+text) {
			t.Errorf("the difference is %q", out)
		}
		if text == "a\n" {
			s.ok("approve", "p", name)
			s.ok("discard", "p", name)
		}
	}
	if err := os.WriteFile(filepath.Join(ws, name), []byte("the user's\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := s.run("apply", "p", name)
	if code != 1 || strings.Contains(errs, "disk") || !strings.Contains(errs, `"caf\xe9": add add`) || !strings.Contains(errs, `changed these files too: caf\xe9`) {
		t.Errorf("a conflict: exit %d, %q", code, errs)
	}
	if code, _, errs := s.run("--json", "apply", "p", name); code != 1 || !strings.Contains(errs, `"code":"CONFLICT"`) || !strings.Contains(errs, `"rawPath":"L2NhZuk="`) {
		t.Errorf("a conflict in JSON: exit %d, %q", code, errs)
	}
	if err := os.Remove(filepath.Join(ws, name)); err != nil {
		t.Fatal(err)
	}
	s.ok("apply", "p", name)
	if data, err := os.ReadFile(filepath.Join(ws, name)); string(data) != "b\n" {
		t.Errorf("the workspace has %q, %v", data, err)
	}
}
