package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/servertest"
)

func TestApplyWithACommit(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	servertest.Git(t, ws, "config", "user.name", "Owner")
	servertest.Git(t, ws, "config", "user.email", "owner@example.com")
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "a"}}
	file := filepath.Join(t.TempDir(), "file")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.ok("put", file, "/src/new.go")
	}
	put("one\n")
	for want, args := range map[string][]string{
		"both":             {"--commit", "--branch", "x", "-m", "m"},
		"-m MESSAGE":       {"--commit"},
		"need --commit":    {"-m", "m"},
		"'Name <email>'":   {"--commit", "-m", "m", "--author", "me"},
		"no trailer":       {"--commit", "-m", "m", "--trailer", "x"},
		"is checked out":   {"--branch", "main", "-m", "m"},
		"name of a branch": {"--branch", "a..b", "-m", "m"},
		"--hooks needs":    {"--branch", "x", "-m", "m", "--hooks"},
	} {
		code, _, errs := s.run(append([]string{"apply", "a", "--all", "--unseen"}, args...)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("apply %v: exit %d, %q, want %q", args, code, errs, want)
		}
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"/  would be committed to main, by Owner <owner@example.com>", []string{"--commit", "-m", "m", "--dry-run"}},
		{" on side, by Owner <owner@example.com>", []string{"--branch", "side", "-m", "m", "--trailer", "Reviewed-by: R <r@example.com>"}},
	} {
		if out := s.ok(append([]string{"apply", "a", "--all", "--unseen"}, c.args...)...); !strings.Contains(out, c.want) {
			t.Errorf("apply %v printed %q", c.args, out)
		}
	}
	put("two\n")
	code, _, errs := s.run("apply", "a", "--all", "--unseen", "--commit", "-m", "m") // main does not have what side has
	if code == 0 || !strings.Contains(errs, "src/new.go") {
		t.Errorf("a commit of a change of another branch: exit %d, %q", code, errs)
	}
	if out := s.ok("log"); !strings.Contains(out, "(side)") {
		t.Errorf("the log is %q", out)
	}
	if out := s.ok("undo", "1"); !strings.Contains(out, "undone") {
		t.Errorf("undo printed %q", out)
	}
	if out := s.ok("apply", "a", "--all", "--unseen", "--commit", "-m", "m", "--author", "A <a@example.com>"); !strings.Contains(out, " on main, by A <a@example.com>") {
		t.Errorf("apply --commit printed %q", out)
	}
	if code, _, errs := s.run("undo", "3", "-m", "m"); code == 0 || !strings.Contains(errs, "need --commit") {
		t.Errorf("undo -m: exit %d, %q", code, errs)
	}
	if out := s.ok("undo", "3", "--commit", "--dry-run"); !strings.Contains(out, "would be committed to main, by Owner") {
		t.Errorf("undo --commit --dry-run printed %q", out)
	}
	if out := s.ok("undo", "3", "--commit"); !strings.Contains(out, " on main, by Owner") {
		t.Errorf("undo --commit printed %q", out)
	}
	hook := filepath.Join(ws, ".git", "hooks", "pre-commit")
	for _, c := range []struct{ script, want string }{{"echo no; exit 1", "hook pre-commit failed: no"}, {"true", ", after its hooks pre-commit, by Owner"}} {
		if err := os.WriteFile(hook, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, out, errs := s.run("apply", "a", "--all", "--unseen", "--commit", "-m", "m", "--hooks"); !strings.Contains(out+errs, c.want) {
			t.Errorf("apply --hooks printed %q and %q, want %q", out, errs, c.want)
		}
	}
}
