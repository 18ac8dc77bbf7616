package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestContextsOfChosenFolders(t *testing.T) {
	s := serve(t)
	for _, name := range []string{"src/core/a", "src/b", "docs/c"} {
		file := filepath.Join(s.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.ok("seed", "plan", "--seed-from", "src/core", "--seed-from", "docs"); !strings.HasPrefix(got, "2 files") {
		t.Errorf("seed plan: %s", got)
	}
	s.ok("panel", "open", "--seed-from", "src/core", "p")
	if top, src := s.ok("ls", "--panel", "p", "/"), s.ok("ls", "--panel", "p", "/src"); strings.TrimSpace(top) != "src" || strings.TrimSpace(src) != "core" {
		t.Errorf("the context has %s, and there %s", top, src)
	}
	for want, args := range map[string][]string{
		"bad --seed-from 'src/cor': there is no such folder in the workspace; did you mean 'src/core'?": {"panel", "open", "--seed-from", "src/cor", "q"},
		"is made of src/core, not of docs; leave out --seed-from and --zones, or delete the context":    {"panel", "open", "--seed-from", "docs", "p"},
		"leave out one of --seed-from and --unsafe":                                                     {"panel", "open", "--unsafe", "--seed-from", "docs", "u"},
	} {
		if code, _, errs := s.run(args...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %s; want %q", args, code, errs, want)
		}
	}
}
