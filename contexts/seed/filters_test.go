package seed

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// inRepo runs git in a repository as it comes; whether it succeeds is the caller's business.
func inRepo(t *testing.T, src Source, args ...string) error {
	t.Helper()
	args = append([]string{"-C", filepath.Join(src.Dir, "r"), "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)
	return exec.CommandContext(t.Context(), "git", args...).Run()
}

// TestDescribeRunsNoProgramOfARepository describes one whose configuration names programs as filters and more.
func TestDescribeRunsNoProgramOfARepository(t *testing.T) {
	src := source(t, "r/f=1", "r/.gitattributes=f filter=one\ng filter=two.x=y\n", "r/g=1")
	must(t, inRepo(t, src, "init", "-q", "-b", "main"))
	must(t, inRepo(t, src, "add", "-A"))
	must(t, inRepo(t, src, "commit", "-qm", "1"))
	dir := t.TempDir()
	sprung, program := filepath.Join(dir, "sprung"), filepath.Join(dir, "program")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch '"+sprung+"'\n"), 0o755))
	for key, value := range map[string]string{
		"filter.one.clean": program, "filter.one.required": "true", "filter.two.x=y.process": program, "filter.two.x=y.clean": program,
		"filter.two.x=y.required": "true", "core.fsmonitor": program, "core.hooksPath": dir, "alias.status": "!" + program,
	} {
		must(t, inRepo(t, src, "config", key, value))
	}
	later := time.Now().Add(time.Hour)
	for _, name := range []string{"r/f", "r/g"} { // status must read them
		must(t, os.Chtimes(filepath.Join(src.Dir, name), later, later))
	}
	_ = inRepo(t, src, "--no-optional-locks", "-c", "core.fsmonitor=false", "status") // its filter fails
	must(t, os.Remove(sprung))                                                        // the trap is armed
	got := Describe(context.Background(), src, []string{"r"})
	if _, err := os.Stat(sprung); err == nil {
		t.Error("a program of the repository ran")
	}
	if len(got) != 1 || got[0].Branch != "main" || len(got[0].Head) != 40 || got[0].Dirty {
		t.Errorf("described %+v; it is clean, on main", got)
	}
	must(t, os.WriteFile(filepath.Join(src.Dir, "r/f"), []byte("2"), 0o644))
	if got := Describe(context.Background(), src, []string{"r"}); !got[0].Dirty {
		t.Errorf("described %+v; it has changed", got)
	}
}
