package git_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/git/gittest"
)

// TestStatusRunsNoProgram asks for the state of a repository whose configuration names filters and more.
func TestStatusRunsNoProgram(t *testing.T) {
	w := newWorkspace(t)
	w.Repo("r", "f=1", "g=1", ".gitattributes=f filter=one\ng filter=two.x=y\n")
	sprung, program := filepath.Join(w.State, "sprung"), filepath.Join(w.State, "program")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch '"+sprung+"'\n"), 0o755))
	for key, value := range map[string]string{
		"filter.one.clean": program, "filter.one.required": "true", "filter.two.x=y.process": program, "filter.two.x=y.clean": program,
		"filter.two.x=y.required": "true", "core.fsmonitor": program, "core.hooksPath": w.State, "alias.status": "!" + program,
	} {
		w.Git("r", nil, "config", key, value)
	}
	later := time.Now().Add(time.Hour)
	for _, name := range []string{"r/f", "r/g"} { // status must read them
		must(t, os.Chtimes(w.In(name), later, later))
	}
	tr := gittest.Trap{Workspace: w.Workspace}
	tr.Careless("--no-optional-locks", "-c", "core.fsmonitor=false", "status") // its filter fails
	must(t, os.Remove(sprung))                                                 // the trap is armed
	got, err := git.Status(context.Background(), w.In("r"))
	if _, err := os.Stat(sprung); err == nil {
		t.Error("a program of the repository ran")
	}
	if err != nil || got.Branch != "main" || len(got.Head) != 40 || got.Dirty {
		t.Errorf("got %+v, %v; it is clean, on main", got, err)
	}
	w.Write("r/f", "2")
	if got, err := git.Status(context.Background(), w.In("r")); err != nil || !got.Dirty {
		t.Errorf("got %+v, %v; it has changed", got, err)
	}
}

// TestWorkingTreeFetchesNothing reads a working tree whose objects are missing and whose
// configuration names a program as the remote to fetch them from.
func TestWorkingTreeFetchesNothing(t *testing.T) {
	tr := gittest.NewTrap(t)
	tr.LoseBlob()
	tr.Write("r/f", "1 changed")
	tr.WasSprung()
	if _, err := git.Status(context.Background(), tr.In("r")); err != nil {
		t.Logf("status: %v", err)
	}
	if names, err := git.ListFiles(context.Background(), tr.In("r"), true); err != nil || !slices.Contains(names, "f") {
		t.Errorf("listed %q, %v", names, err)
	}
	if tr.WasSprung() {
		t.Error("a program of the repository ran")
	}
}

func TestListFiles(t *testing.T) {
	w := newWorkspace(t)
	w.Repo("r", "a=1", "d/b\n=1", ".gitignore=*.log\n")
	w.Write("r/new", "")
	w.Write("r/x.log", "")
	for _, c := range []struct {
		untracked bool
		want      []string
	}{{false, []string{".gitignore", "a", "d/b\n"}}, {true, []string{".gitignore", "a", "d/b\n", "new"}}} {
		got, err := git.ListFiles(context.Background(), w.In("r"), c.untracked)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("listed %q, want %q: %v", got, c.want, err)
		}
	}
}

// TestExcluderSeesEachChange changes, one after the other, what an Excluder may remember.
func TestExcluderSeesEachChange(t *testing.T) {
	w := gittest.New(t)
	w.Repo("r", "f=1\n")
	home := w.In("home")
	w.Must(os.MkdirAll(home, 0o755))
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	for _, name := range []string{"one", "two", "three", "four"} {
		w.Write(name, name)
	}
	var x git.Excluder
	check := func(what, want string) {
		t.Helper()
		for range 2 { // what is read, and what is remembered
			got, err := x.Read(t.Context(), w.In("r"), 1<<20)
			w.Must(err)
			var texts []string
			for _, text := range got.Texts {
				texts = append(texts, string(text))
			}
			if all := strings.TrimSpace(strings.Join(texts, " ")); all != want {
				t.Errorf("%s: the excludes are %q, want %q", what, all, want)
			}
		}
	}
	w.Must(os.RemoveAll(w.In("r/.git/info/exclude")))
	check("nothing is set", "")
	w.Write("home/.gitconfig", "[core]\n\texcludesFile = "+w.In("one")+"\n")
	check("the user's configuration", "one")
	w.Write("home/.gitconfig", "[core]\n\texcludesFile = "+w.In("two")+"\n")
	check("another file of the user's", "two")
	w.Git("r", nil, "config", "core.excludesFile", w.In("three"))
	check("the repository's configuration", "three")
	w.Write("r/.git/info/exclude", "info\n")
	check("info/exclude", "three info")
	w.Git("r", nil, "config", "--unset", "core.excludesFile")
	w.Write("included", "[core]\n\texcludesFile = "+w.In("four")+"\n")
	w.Git("r", nil, "config", "include.path", w.In("included"))
	check("an included file", "four info")
	w.Write("included", "[core]\n\texcludesFile = "+w.In("one")+"\n")
	check("another included file", "one info")
}
