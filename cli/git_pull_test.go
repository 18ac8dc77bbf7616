package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/servertest"
)

func TestGitPull(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(ws, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commit := func() {
		t.Helper()
		servertest.Git(t, ws, "add", "-A")
		servertest.Git(t, ws, "commit", "-q", "-m", "c")
	}
	servertest.Git(t, ws, "config", "user.name", "Owner")
	servertest.Git(t, ws, "config", "user.email", "owner@example.com")
	put("f", "1\n2\n3\n")
	commit()
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "a"}}
	s.ok("panel", "open", "a")
	servertest.Git(t, ws, "checkout", "-q", "-b", "next")
	put("f", "1\n2\ntheirs\n")
	put("new", "new\n")
	commit()
	servertest.Git(t, ws, "checkout", "-q", "-")

	if out := s.ok("git", "pull", "/", "--ref", "next", "--dry-run"); !strings.Contains(out, "updated   f\n") || !strings.Contains(out, "dry run of 2 files") {
		t.Errorf("a dry run printed %q", out)
	}
	out := s.ok("git", "pull", "/", "--ref", "next")
	if !strings.Contains(out, "created   new\n") || !strings.Contains(out, "pulled 2 files of ") || !strings.Contains(out, "to take it back: ctxfs undo 1\n") {
		t.Errorf("git pull printed %q", out)
	}
	if out := s.ok("git", "pull", "/", "--ref", "next"); !strings.Contains(out, "nothing was done") {
		t.Errorf("a second pull printed %q", out)
	}
	if out := s.ok("cat", "/f"); out != "1\n2\ntheirs\n" {
		t.Errorf("the file is %q", out)
	}
	if out := s.ok("log"); !strings.Contains(out, "pull") {
		t.Errorf("the log is %q", out)
	}
	s.ok("undo", "1")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("1\n2\nmine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("put", file, "/f")
	for want, args := range map[string][]string{
		"changed the same files: f": {"/", "--ref", "next"},
		"is none of fail":           {"/", "--conflict", "all"},
		"no branch, tag or commit":  {"/", "--ref", "gone"},
		"there are: /":              {"/nothing"},
		"has no remote":             {"/", "--remote", "origin"},
		"REPOSITORY":                {},
	} {
		code, _, errs := s.run(append([]string{"git", "pull"}, args...)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("git pull %v: exit %d, %q, want %q", args, code, errs, want)
		}
	}
	if out := s.ok("git", "pull", "/", "f", "--ref", "next", "--conflict", "markers"); !strings.Contains(out, "conflict  f\n") {
		t.Errorf("git pull --conflict printed %q", out)
	}
	if out := s.ok("cat", "/f"); !strings.Contains(out, "<<<<<<< context\nmine\n") || !strings.Contains(out, ">>>>>>> next\n") {
		t.Errorf("the file is %q", out)
	}
	if out := s.ok("git", "pull", "/", "new", "--ref", "next", "--dest", "/copy", "--json"); !strings.Contains(out, `"path": "/copy/new"`) && !strings.Contains(out, `"path":"/copy/new"`) {
		t.Errorf("git pull --json printed %q", out)
	}
}
