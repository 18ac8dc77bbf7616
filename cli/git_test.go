package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/servertest"
)

func TestStageFromTheShell(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	servertest.Git(t, ws, "config", "user.name", "Owner")
	servertest.Git(t, ws, "config", "user.email", "owner@example.com")
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "panels/a"}}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("put", file, "/src/main.go")
	s.ok("put", file, "/src/new\x1b[31m.go")
	s.expect("/: 1 created, 1 updated, 0 deleted\n M  src/main.go           +2\n A  \"src/new\\x1b[31m.go\"  +3\n\n", "git", "status")
	if out := s.ok("git", "diff", "--repo", "/", "src/main.go"); !strings.Contains(out, "diff --git a/src/main.go b/src/main.go\n") || strings.Contains(out, "new") {
		t.Errorf("git diff printed %q", out)
	}
	if out := s.ok("git", "repositories"); !strings.Contains(out, "/           main    ") {
		t.Errorf("git repositories printed %q", out)
	}
	for want, args := range map[string][]string{
		"-m MESSAGE":                      {"git", "stage"},
		"'ctxfs git status' lists":        {"git", "stage", "-m", "m", "README.md"},
		"there are: /":                    {"git", "status", "--repo", "/none"},
		"which context?":                  {"git", "status", "--panel", ""},
		"there is no staged commit \"x\"": {"git", "show", "x"},
		"unknown command \"stagd\"":       {"git", "stagd"},
	} {
		shell := *s
		if want == "which context?" {
			shell.env = nil
		}
		code, _, errs := shell.run(args...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %q, want %q", args, code, errs, want)
		}
	}
	out := s.ok("git", "stage", "-m", "Say hello\n\nAt length.", "src/main.go")
	id, rest, _ := strings.Cut(out, "  ")
	if len(id) != 26 || !strings.Contains(rest, " on ctxfs/a/say-hello of /, 1 file\n") || !strings.Contains(rest, "'ctxfs git show "+id+"'") {
		t.Errorf("git stage printed %q", out)
	}
	show := s.ok("git", "show", id)
	for _, want := range []string{"Branch: ctxfs/a/say-hello of /\n", "Author: Owner <owner@example.com>\n", "\n\n    Say hello\n\n    At length.\n\n    Ctxfs-Panel: panels/a\n", "+func main() {}\n"} {
		if !strings.Contains(show, want) {
			t.Errorf("git show printed\n%s\nwithout %q", show, want)
		}
	}
	if out := s.ok("git", "show", "--stat", id); !strings.Contains(out, " M  src/main.go  +2\n") || strings.Contains(out, "diff --git") {
		t.Errorf("git show --stat printed %q", out)
	}
	host := &shell{t: t, dir: ws}
	if out := host.ok("git", "staged"); !strings.Contains(out, id+"  ctx_panels~a  /") || !strings.Contains(out, "Say hello\n") {
		t.Errorf("git staged printed %q", out)
	}
	if out := host.ok("git", "staged", "--json"); !strings.Contains(out, `"id": "`+id+`"`) {
		t.Errorf("git staged --json printed %q", out)
	}
	if out := s.ok("git", "branches"); !strings.HasPrefix(out, "* ") || !strings.HasSuffix(out, "  main\n") {
		t.Errorf("git branches printed %q", out)
	}
	if _, out, _ := s.run("__complete", "git", "discard", ""); !strings.Contains(out, id+"\n") {
		t.Errorf("completing git discard: %q", out)
	}
	s.expect("discarded "+id+"\n", "git", "discard", id)
	code, out, errs := s.run("--json", "git", "show", id)
	if code != 1 || out != "" || !strings.Contains(errs, `"code":"GIT_NO_STAGED"`) {
		t.Errorf("git show of a discarded one: exit %d, %q, %q", code, out, errs)
	}
}
