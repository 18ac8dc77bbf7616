package review

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// remainsOf returns the modes, owners and an extended attribute of everything in a directory, by path.
func remainsOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		value := make([]byte, 99)
		n, err := unix.Lgetxattr(name, "user.note", value)
		if err != nil {
			n = 0
		}
		out[name[len(dir)+1:]] = fmt.Sprintf("%v %d:%d %s", info.Mode(), st.Uid, st.Gid, value[:n])
		return nil
	}))
	return out
}

// withRemains makes a directory that has more than plain files: x, of a git repository, with empty directories, another owner and an attribute.
func withRemains(t testing.TB, dir string) {
	t.Helper()
	must(t, os.RemoveAll(dir+"/x"))
	write(t, dir, files{"x/a": "agent\n", "x/.git/HEAD": "ref: refs/heads/main\n", "x/run": "+x agent\n"})
	for _, empty := range []string{"x/.git/refs/heads", "x/.git/refs/tags", "x/cache/deep", "x/private", "x/closed/inner"} {
		must(t, os.MkdirAll(filepath.Join(dir, empty), 0o755))
	}
	must(t, os.Chmod(dir+"/x/private", 0o700))
	must(t, os.Chmod(dir+"/x/closed", 0o555))
	t.Cleanup(func() { _ = os.Chmod(dir+"/x/closed", 0o755) }) // it may be gone
	must(t, unix.Setxattr(dir+"/x/a", "user.note", []byte("the agent's"), 0))
	if os.Geteuid() == 0 {
		must(t, os.Chown(dir+"/x/a", 1234, 2345))
		must(t, os.Chown(dir+"/x/run", 1234, 2345))
	}
}

// TestUndoRestoresWhatWasTakenAway has files and directories in the place of which an entry puts a file, or which it removes. The undo restores the
// empty directories, the owners and the extended attributes of files as well.
func TestUndoRestoresWhatWasTakenAway(t *testing.T) {
	t.Parallel()
	taken := func(w *world) *Entry {
		write(t, w.in("workspace"), files{"x": "user\n"})
		return w.rebase(RebaseRequest{OnConflict: TakeWorkspace}).Entry
	}
	cases := map[string]struct {
		tree string
		base files
		do   func(w *world) *Entry
	}{
		"rebase over a directory": {id, files{"f": "1\n"}, taken},
		"rebase over a directory without files": {id, files{"f": "1\n"}, func(w *world) *Entry {
			remove(t, w.in(id), "x/a", "x/run", "x/.git/HEAD")
			return taken(w)
		}},
		"resolve for the workspace": {id, files{"f": "1\n"}, func(w *world) *Entry {
			write(t, w.in("workspace"), files{"x": "user\n"})
			w.rebase(RebaseRequest{OnConflict: RecordConflicts})
			e, err := w.reviews.Resolve(t.Context(), id, "x", Resolution{Side: SideWorkspace}, "host")
			must(t, err)
			return e
		}},
		"rebase that removes files": {id, files{"x/a": "agent\n", "x/run": "+x agent\n"}, func(w *world) *Entry {
			remove(t, w.in("workspace"), "x/a", "x/run")
			return w.rebase(RebaseRequest{}).Entry
		}},
		"rebase to a link": {id, files{"x/a": "agent\n"}, func(w *world) *Entry {
			write(t, w.in("workspace"), files{"x/a": "-> ../f"})
			return w.rebase(RebaseRequest{OnConflict: TakeWorkspace}).Entry
		}},
		"discard of new files": {id, files{"f": "1\n"}, func(w *world) *Entry { return w.discard() }},
		"discard of a directory for a file": {id, files{"x": "1\n"}, func(w *world) *Entry {
			remove(t, w.in(id), "x/.git/HEAD") // no discard removes it
			return w.discard()
		}},
		"apply that removes files": {"workspace", files{"x/a": "agent\n", "x/run": "+x agent\n"}, func(w *world) *Entry {
			remove(t, w.in(id), "x/a", "x/run")
			return w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true})
		}},
		"apply of a file for a directory": {"workspace", files{"x/a": "agent\n", "x/run": "+x agent\n"}, func(w *world) *Entry {
			remove(t, w.in("workspace"), "x/.git/HEAD") // no apply removes it
			remove(t, w.in(id), "x/a", "x/run")
			write(t, w.in(id), files{"x": "agent\n"})
			return w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true})
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.base)
			w.options.AllowChown = true
			withRemains(t, w.in(c.tree))
			var before map[string]string
			w.at("begun", func() { before = remainsOf(t, w.in(c.tree)) })
			e := c.do(w)
			after := remainsOf(t, w.in(c.tree))
			if maps.Equal(before, after) {
				t.Fatalf("the entry changed nothing: %v", after)
			}
			w.at("", func() {})
			undo := func(of int64) int64 {
				u, err := w.undo(of)
				must(t, err)
				return u.ID
			}
			u := undo(e.ID)
			wantRemains(t, "undone", remainsOf(t, w.in(c.tree)), before)
			again := undo(u)
			wantRemains(t, "done again", remainsOf(t, w.in(c.tree)), after)
			u = undo(again)
			wantRemains(t, "undone again", remainsOf(t, w.in(c.tree)), before)

			u = undo(u) // the entry's steps are taken again
			phases := []string{"intended", "all taken", "moved"}
			if e.Kind == EntryDiscard {
				phases = []string{"written"}
			}
			for _, phase := range phases {
				w.killedAt(phase, func() { _, _ = w.undo(u) })
				wantRemains(t, "an undo that was killed at "+phase, remainsOf(t, w.in(c.tree)), after)
			}
		})
	}
}

// killedAt calls act, which is killed at the first time of a phase, and starts again.
func (w *world) killedAt(phase string, act func()) {
	w.t.Helper()
	killed := errors.New("killed")
	w.at(phase, func() { panic(killed) })
	func() {
		defer func() {
			if err := recover(); err != nil && !errors.Is(err.(error), killed) {
				panic(err)
			}
		}()
		act()
	}()
	must(w.t, w.reviews.Close())
	w.open()
}

func wantRemains(t *testing.T, when string, got, want map[string]string) {
	t.Helper()
	for p := range want {
		if got[p] != want[p] {
			t.Errorf("%s: %s is %q, want %q", when, p, got[p], want[p])
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: %s is there", when, p)
		}
	}
}

// unopened is a root whose files cannot be opened.
type unopened struct{ rootfs.Root }

func (unopened) OpenNoFollow(string, rootfs.Flags) (rootfs.File, rootfs.Stat, error) {
	return nil, rootfs.Stat{}, unix.EIO
}

// TestErrorOfARemovedFileNamesTheOperation has an entry of each kind remove a file that cannot be read.
func TestErrorOfARemovedFileNamesTheOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{})
	tree := &workspace{root: unopened{w.reviews.ws.root}, store: w.reviews.store}
	for _, kind := range []EntryKind{EntryApply, EntryUndo, EntryRebase} {
		e := &Entry{Kind: kind, Steps: []step{{Path: "a", Before: Version{Type: rootfs.TypeFile}}}}
		err := tree.keepRemains(t.Context(), e)
		if failed := (*fserr.Error)(nil); !errors.As(err, &failed) || failed.Op != string(kind) || failed.Code != fserr.EIO {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
