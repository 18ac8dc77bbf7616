package review

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// A path that leads through a link of the context is no path of its own: what lies behind the link is at another one.
func TestChangesDoNotFollowLinksAboveAPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"real/f": "1\n", "dir/f": "2\n"})
	remove(t, w.in(id), "dir/f")
	write(t, w.in(id), files{"real/f": "changed\n", "dir": "-> real", "loop": "-> loop"})
	for _, q := range []Path{"loop/f", "loop/f/g"} {
		if l := w.changes(Query{Paths: []Path{q}}); len(l.Changes) != 0 {
			t.Errorf("%s: the changes are %v", q, l.Changes)
		}
	}
	l := w.changes(Query{Paths: []Path{"dir/f"}})
	if len(l.Changes) != 1 || l.Changes[0].Kind != Deleted {
		t.Errorf("dir/f: the changes are %+v", l.Changes)
	}
	wantReason(t, func() error {
		_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Approve: true, Actor: "host", Selection: &Selection{Changes: []Selected{{Path: "loop/f"}}}})
		return err
	}(), StaleRevision)
}

// TestOtherNamesOfAFileKeepTheirContent has a file with several names in the context, or in the workspace. A call that names some of them leaves the
// content of the others alone, as its undo does.
func TestOtherNamesOfAFileKeepTheirContent(t *testing.T) {
	t.Parallel()
	discard := func(paths ...Path) func(w *world) *Entry {
		return func(w *world) *Entry {
			var sel Selection
			for _, p := range paths {
				sel.Changes = append(sel.Changes, Selected{Path: p})
			}
			e, err := w.reviews.Discard(w.t.Context(), id, sel, "", "panel")
			must(w.t, err)
			return e
		}
	}
	link := func(w *world, tree string, names ...string) {
		for _, name := range names[1:] {
			must(w.t, errors.Join(ignoring(os.Remove(w.in(tree)+"/"+name), fs.ErrNotExist), os.Link(w.in(tree)+"/"+names[0], w.in(tree)+"/"+name)))
		}
	}
	ran := func(do func(w *world)) func(w *world) *Entry {
		return func(w *world) *Entry {
			return &Entry{ID: w.command(func() { do(w) }, nobody).Entry}
		}
	}
	base := files{"a": "base\n", "b": "base\n", "other": "other\n"}
	// inPlace writes to all names of a file.
	inPlace := func(w *world, tree, name, text string) {
		must(w.t, os.WriteFile(w.in(tree)+"/"+name, []byte(text), 0o600))
	}
	for name, c := range map[string]struct {
		begin func(w *world)
		do    func(w *world) *Entry
		tree  string
		// want is after do; linked are names that are one file then, and also after the undo.
		want   files
		linked []string
	}{
		"discard of one, with a name that the agent made": {
			func(w *world) { link(w, id, "a", "new"); inPlace(w, id, "a", "agent\n") }, discard("a"), id, files{"a": "base\n", "b": "base\n", "new": "agent\n", "other": "other\n"}, nil,
		},
		"discard of the new name": {
			func(w *world) { link(w, id, "a", "new"); inPlace(w, id, "a", "agent\n") }, discard("new"), id, files{"a": "agent\n", "b": "base\n", "other": "other\n"}, nil,
		},
		"discard of both, one of which is removed": {
			func(w *world) { link(w, id, "a", "new"); inPlace(w, id, "a", "agent\n") }, discard("a", "new"), id, base, nil,
		},
		"discard of one of two": {
			func(w *world) { link(w, id, "a", "b"); inPlace(w, id, "a", "agent\n") }, discard("b"), id, files{"a": "agent\n", "b": "base\n", "other": "other\n"}, nil,
		},
		"discard of both": {
			func(w *world) { link(w, id, "a", "b"); inPlace(w, id, "a", "agent\n") }, discard("a", "b"), id, base, []string{"a", "b"},
		},
		"discard of two of three": {
			func(w *world) { link(w, id, "a", "b", "new"); inPlace(w, id, "a", "agent\n") }, discard("a", "b"), id, files{"a": "base\n", "b": "base\n", "new": "agent\n", "other": "other\n"}, nil,
		},
		"discard of two that were different": {
			func(w *world) { link(w, id, "a", "other"); inPlace(w, id, "a", "agent\n") }, discard("a", "other"), id, base, nil,
		},
		"discard of a mode": {
			func(w *world) { link(w, id, "a", "new"); must(w.t, os.Chmod(w.in(id)+"/a", 0o755)) }, discard("a"), id, files{"a": "base\n", "b": "base\n", "new": "+x base\n", "other": "other\n"}, nil,
		},
		"a command that links and writes": {
			func(*world) {}, ran(func(w *world) { link(w, id, "a", "new"); inPlace(w, id, "a", "agent\n") }), id,
			files{"a": "agent\n", "b": "base\n", "new": "agent\n", "other": "other\n"}, nil,
		},
		"a command that writes to both": {
			func(w *world) { link(w, id, "a", "b") }, ran(func(w *world) { inPlace(w, id, "a", "agent\n") }), id,
			files{"a": "agent\n", "b": "agent\n", "other": "other\n"}, []string{"a", "b"},
		},
		"rebase of one": {
			func(w *world) { link(w, id, "a", "new"); inPlace(w, "workspace", "a", "user\n") },
			func(w *world) *Entry { return w.rebase(RebaseRequest{}).Entry }, id, files{"a": "user\n", "b": "base\n", "new": "base\n", "other": "other\n"}, nil,
		},
		"apply to one": {
			func(w *world) { link(w, "workspace", "a", "b", "theirs"); inPlace(w, id, "a", "agent\n") },
			func(w *world) *Entry { return w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true}) }, "workspace",
			files{"a": "agent\n", "b": "base\n", "theirs": "base\n", "other": "other\n"}, []string{"b", "theirs"},
		},
		"apply of a removal": {
			func(w *world) { link(w, "workspace", "a", "theirs"); remove(w.t, w.in(id), "a") },
			func(w *world) *Entry { return w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true}) }, "workspace",
			files{"b": "base\n", "theirs": "base\n", "other": "other\n"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, base)
			c.begin(w)
			before := read(t, w.in(c.tree))
			areLinked := func(what string) {
				for i := range c.linked {
					one, err := os.Stat(w.in(c.tree) + "/" + c.linked[0])
					must(t, err)
					other, err := os.Stat(w.in(c.tree) + "/" + c.linked[i])
					must(t, err)
					if !os.SameFile(one, other) {
						t.Errorf("%s: %s and %s are two files", what, c.linked[0], c.linked[i])
					}
				}
			}
			e := c.do(w)
			same(t, "done", read(t, w.in(c.tree)), c.want)
			areLinked("done")
			u, err := w.undo(e.ID)
			must(t, err)
			same(t, "undone", read(t, w.in(c.tree)), before)
			areLinked("undone")
			_, err = w.undo(u.ID)
			must(t, err)
			same(t, "done again", read(t, w.in(c.tree)), c.want)
		})
	}
}

// TestKilledDiscardKeepsOtherNames kills a discard of two names of three after each of its steps. The next start puts back what was begun.
func TestKilledDiscardKeepsOtherNames(t *testing.T) {
	t.Parallel()
	for _, third := range []bool{false, true} {
		for kill := 1; kill <= 2; kill++ {
			w := newWorld(t, files{"a": "base\n", "b": "base\n"})
			dir := w.in(id)
			must(t, errors.Join(os.Remove(dir+"/b"), os.Link(dir+"/a", dir+"/b")))
			if third {
				must(t, os.Link(dir+"/a", dir+"/new"))
			}
			must(t, os.WriteFile(dir+"/a", []byte("agent\n"), 0o600))
			before := read(t, dir)
			written, killed := 0, errors.New("killed")
			w.at("written", func() {
				if written++; written == kill {
					panic(killed)
				}
			})
			func() {
				defer func() {
					if err, ok := recover().(error); !ok || !errors.Is(err, killed) {
						t.Errorf("the discard ended with %v", err)
					}
				}()
				_, _ = w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: "a"}, {Path: "b"}}}, "", "panel")
			}()
			if third {
				same(t, "killed", files{"new": read(t, dir)["new"]}, files{"new": "agent\n"})
			}
			must(t, w.reviews.Close())
			w.open()
			same(t, "after the start", read(t, dir), before)
		}
	}
}

// ignoring drops an error that is expected.
func ignoring(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// TestDiscardKeepsToTheQuota discards changes of a file of 1,000 bytes and of one of 500, where there is room for 600 bytes.
func TestDiscardKeepsToTheQuota(t *testing.T) {
	t.Parallel()
	base := files{"a": strings.Repeat("a", 1000), "b": strings.Repeat("b", 500)}
	at := func(w *world, name string) string { return w.in(id) + "/" + name }
	for name, c := range map[string]struct {
		agent   func(w *world)
		discard []Path
		refused bool
	}{
		"an edited file":         {func(w *world) { write(t, w.in(id), files{"a": "edited\n"}) }, []Path{"a"}, true},
		"a small one":            {func(w *world) { write(t, w.in(id), files{"b": "edited\n"}) }, []Path{"b"}, false},
		"a deleted file":         {func(w *world) { remove(t, w.in(id), "a") }, []Path{"a"}, true},
		"a renamed file":         {func(w *world) { must(t, os.Rename(at(w, "a"), at(w, "new"))) }, []Path{"a"}, true},
		"both of its names":      {func(w *world) { must(t, os.Rename(at(w, "a"), at(w, "new"))) }, []Path{"a", "new"}, false},
		"a file that was longer": {func(w *world) { write(t, w.in(id), files{"a": strings.Repeat("x", 5000)}) }, []Path{"a"}, false},
		"one of two names":       {func(w *world) { must(t, os.Link(at(w, "a"), at(w, "new"))); write(t, w.in(id), files{"a": "edited\n"}) }, []Path{"a"}, true},
		"two names": {func(w *world) {
			must(t, os.Link(at(w, "a"), at(w, "new")))
			write(t, w.in(id), files{"a": base["a"] + "x"})
		}, []Path{"a", "new"}, false},
		"the new one of two names": {func(w *world) { must(t, os.Link(at(w, "a"), at(w, "new"))) }, []Path{"new"}, false},
		"a sparse file, too": {func(w *world) {
			remove(t, w.in(id), "a")
			write(t, w.in(id), files{"sparse": ""})
			must(t, os.Truncate(at(w, "sparse"), 1<<20))
		}, []Path{"a", "sparse"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, base)
			c.agent(w)
			before := read(t, w.in(id))
			var sel Selection
			for _, p := range c.discard {
				sel.Changes = append(sel.Changes, Selected{Path: p})
			}
			w.quota = 600
			_, err := w.reviews.Discard(t.Context(), id, sel, "", "panel")
			if refused := fserr.CodeOf(err) == fserr.EDQUOT; refused != c.refused || err != nil && !refused {
				t.Errorf("the discard ended with %v", err)
			}
			if begun, err := w.reviews.journal.ids(intentSuffix); err != nil || len(begun) != 0 {
				t.Errorf("the journal has the intents %v (%v)", begun, err)
			}
			if c.refused {
				same(t, "the context", read(t, w.in(id)), before)
			}
		})
	}
}

// TestManifestIsWalkedOnceForNames has lists of contexts with several layers: each walks a manifest of up to 100,000 entries for files with several names, and
// the next ones do not, while the layers are few.
func TestManifestIsWalkedOnceForNames(t *testing.T) {
	t.Parallel()
	manifest := func(n int) *seed.Manifest {
		entries := make([]seed.Entry, n)
		for i := range entries {
			entries[i] = seed.Entry{Path: fmt.Sprintf("d%03d/f%06d", i%500, i), Type: rootfs.TypeFile, Ino: uint64(i + 1), Dev: 1}
		}
		entries[n-1].Ino, entries[n-2].Ino = 1, 1 // three names of one file
		return seed.NewManifest(nil, entries)
	}
	for _, n := range []int{10_000, 100_000} {
		m, known := manifest(n), fileNames{}
		b := &base{manifest: m}
		for p, want := range map[Path]int{"d000/f000000": 3, "d000": 3, "": 3, "d001/f000001": 0, "d001": 0, "none": 0} {
			if got := b.namesOfFiles(known.of(m), []Path{p, p}); len(got) != want {
				t.Errorf("at %q are %d names, want %d", p, len(got), want)
			}
		}
		if known.walked != n {
			t.Errorf("%d entries were walked, want %d", known.walked, n)
		}
	}
	known, all := fileNames{}, make([]*seed.Manifest, namesKept+1)
	for i := range all {
		all[i] = manifest(10)
		known.of(all[i])
	}
	if known.of(all[namesKept]); len(known.kept) != namesKept || known.walked != 10*len(all) {
		t.Errorf("%d are kept after a walk of %d entries", len(known.kept), known.walked)
	}
	if known.of(all[0]); known.walked != 10*len(all)+10 {
		t.Errorf("the oldest was not walked again: %d", known.walked)
	}
	if known.of(nil) != nil {
		t.Error("no manifest has names")
	}
}
