package review

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// modesOf returns the permissions of everything in a directory, by path.
func modesOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir || d.Type() == fs.ModeSymlink {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[name[len(dir)+1:]] = fmt.Sprintf("%v", info.Mode())
		}
		return err
	}))
	return out
}

// TestUndoRestoresModes has files and directories with unusual modes. A call changes or removes them, and its undo restores them.
func TestUndoRestoresModes(t *testing.T) {
	t.Parallel()
	undo := func(w *world, e *Entry) *Entry {
		u, err := w.undo(e.ID)
		must(w.t, err)
		return u
	}
	modes := []os.FileMode{0o600, 0o644, 0o664, 0o700, 0o711, 0o744, 0o755}
	dirs := []os.FileMode{0o700, 0o750, 0o755, 0o555, 0o770}
	// put gives a tree a file with each mode, and one in a directory with each mode.
	put := func(t *testing.T, dir, text string) {
		for _, m := range modes {
			name := filepath.Join(dir, fmt.Sprintf("f%o", m))
			must(t, os.WriteFile(name, []byte(text), 0o600))
			must(t, os.Chmod(name, m))
		}
		for _, m := range dirs {
			name := filepath.Join(dir, fmt.Sprintf("d%o", m))
			must(t, os.MkdirAll(filepath.Join(name, "inner"), 0o755))
			must(t, os.WriteFile(filepath.Join(name, "inner", "f"), []byte(text), 0o600))
			must(t, os.Chmod(filepath.Join(name, "inner"), m))
			must(t, os.Chmod(name, m))
		}
	}
	names := func(m map[string]string) files {
		out := files{}
		for name := range m {
			out[name] = "base\n"
			if name[0] == 'd' {
				out[name+"/inner/f"] = "base\n"
				delete(out, name)
			}
		}
		return out
	}
	flat := map[string]string{}
	for _, m := range modes {
		flat[fmt.Sprintf("f%o", m)] = ""
	}
	for _, m := range dirs {
		flat[fmt.Sprintf("d%o", m)] = ""
	}
	base := names(flat)
	// executable is base with the executable bits of the modes.
	executable := files{}
	for p, text := range base {
		if p == "f700" || p == "f711" || p == "f744" || p == "f755" {
			text = "+x " + text
		}
		executable[p] = text
	}
	for name, c := range map[string]struct {
		base files
		// begin changes the world; do is what is undone in the tree.
		begin func(w *world)
		do    func(w *world) *Entry
		tree  string
	}{
		"discard of new files":                           {files{"x": "x\n"}, func(w *world) { put(t, w.in(id), "agent\n") }, func(w *world) *Entry { return w.discard() }, id},
		"discard of changed files":                       {base, func(w *world) { put(t, w.in(id), "agent\n") }, func(w *world) *Entry { return w.discard() }, id},
		"discard of files with the same executable bits": {executable, func(w *world) { put(t, w.in(id), "agent\n") }, func(w *world) *Entry { return w.discard() }, id},
		"rebase that changes files": {executable, func(w *world) {
			put(t, w.in(id), "base\n")
			changed := files{}
			for p := range base {
				changed[p] = "+x user\n"
			}
			write(t, w.in("workspace"), changed)
		}, func(w *world) *Entry { return w.rebase(RebaseRequest{}).Entry }, id},
		"rebase that removes files": {executable, func(w *world) {
			put(t, w.in(id), "base\n")
			for p := range base {
				remove(t, w.in("workspace"), p)
			}
		}, func(w *world) *Entry { return w.rebase(RebaseRequest{}).Entry }, id},
		"apply that changes files": {executable, func(w *world) {
			put(t, w.in("workspace"), "base\n")
			changed := files{}
			for p := range base {
				changed[p] = "+x agent\n"
			}
			write(t, w.in(id), changed)
		}, func(w *world) *Entry { return w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true}) }, "workspace"},
		"apply that removes files": {executable, func(w *world) {
			put(t, w.in("workspace"), "base\n")
			for p := range base {
				remove(t, w.in(id), p)
			}
		}, func(w *world) *Entry { return w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true}) }, "workspace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.base)
			c.begin(w)
			before, content := modesOf(t, w.in(c.tree)), read(t, w.in(c.tree))
			e := c.do(w)
			after := modesOf(t, w.in(c.tree))
			wantModes := func(what string, want map[string]string) {
				t.Helper()
				got := modesOf(t, w.in(c.tree))
				for p := range want {
					if got[p] != want[p] {
						t.Errorf("%s: %s has mode %s, want %s", what, p, got[p], want[p])
					}
				}
				if !maps.Equal(got, want) {
					t.Errorf("%s: %d paths, want %d", what, len(got), len(want))
				}
			}
			u := undo(w, e)
			wantModes("undone", before)
			same(t, "undone", read(t, w.in(c.tree)), content)
			again := undo(w, u)
			wantModes("done again", after)
			undo(w, again)
			wantModes("undone again", before)
		})
	}
}

// discard discards all changes. The entry is nil if there are none.
func (w *world) discard() *Entry {
	w.t.Helper()
	if len(w.changes(Query{}).Changes) == 0 {
		return nil
	}
	e, err := w.reviews.Discard(w.t.Context(), id, *w.allPaths(), "", "panel")
	must(w.t, err)
	return e
}

// TestKilledServerClosesDirectories has directories that permit nothing to be written. An entry makes them, or opens them, and the server is
// killed at a phase. A program has put a file there, so that they stay. The next start gives them their modes back.
func TestKilledServerClosesDirectories(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	base := files{"dir/sub/x": "x\n", "a": "a\n"}
	closeDirs := func(w *world, tree string) {
		must(w.t, os.Chmod(w.in(tree)+"/dir/sub", 0o555))
		must(w.t, os.Chmod(w.in(tree)+"/dir", 0o511))
	}
	undo := func(do func(w *world) *Entry) func(w *world) func() {
		return func(w *world) func() {
			e := do(w)
			return func() { _, _ = w.undo(e.ID) }
		}
	}
	applied := undo(func(w *world) *Entry {
		closeDirs(w, "workspace")
		remove(w.t, w.in(id), "dir/sub/x")
		return w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true})
	})
	rebased := undo(func(w *world) *Entry {
		closeDirs(w, id)
		remove(w.t, w.in("workspace"), "dir/sub/x")
		return w.rebase(RebaseRequest{}).Entry
	})
	for _, c := range []struct {
		tree, phase string
		// begin returns what the kill ends.
		begin func(w *world) func()
		open  bool
	}{
		{"workspace", "intended", applied, false},
		{"workspace", "all taken", applied, false},
		{"workspace", "finished", applied, false},
		{"workspace", "done", applied, true}, // a user has opened the directories since
		{id, "intended", rebased, false},
		{id, "all taken", rebased, false},
		{id, "finished", rebased, false},
		{id, "done", rebased, true},
		{id, "written", undo(func(w *world) *Entry { // of a discard that has removed a new file
			write(w.t, w.in(id), files{"dir/sub/y": "y\n"})
			remove(w.t, w.in(id), "dir/sub/x")
			w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: "dir/sub/x"}}}, Approve: true})
			closeDirs(w, id)
			return w.discard()
		}), false},
		{id, "written", func(w *world) func() { // the server had opened the directories that are there
			write(w.t, w.in(id), files{"dir/sub/x": "y\n"})
			closeDirs(w, id)
			return func() { w.discard() }
		}, false},
	} {
		t.Run(c.tree+" "+c.phase, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, base)
			act := c.begin(w)
			w.at(c.phase, func() {
				for _, dir := range []string{"/dir", "/dir/sub"} {
					st, err := os.Stat(w.in(c.tree) + dir)
					must(t, err)
					must(t, os.Chmod(w.in(c.tree)+dir, st.Mode()|writable))
				}
				write(t, w.in(c.tree), files{"dir/sub/theirs": "theirs\n"})
				panic(killed)
			})
			func() {
				defer func() {
					if err, ok := recover().(error); !ok || !errors.Is(err, killed) {
						t.Errorf("it ended with %v", err)
					}
				}()
				act()
			}()
			must(t, w.reviews.Close())
			w.open()
			modes := modesOf(t, w.in(c.tree))
			want := [2]string{"dr-x--x--x", "dr-xr-xr-x"}
			if c.open {
				want = [2]string{"drwx--x--x", "drwxr-xr-x"}
			}
			if modes["dir"] != want[0] || modes["dir/sub"] != want[1] {
				t.Errorf("the directories have the modes %q and %q", modes["dir"], modes["dir/sub"])
			}
		})
	}
}
