package review

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// pulling is the request that pulls a tree into the context's root.
func pulling(tree files) PullRequest {
	req := PullRequest{Context: id, Actor: "panel", Label: "main", Scope: []Path{""}, Tracked: map[Path]bool{}}
	for _, p := range slices.Sorted(maps.Keys(tree)) {
		f := PullFile{Path: Path(p), Type: rootfs.TypeFile, Mode: 0o644, ID: tree[p]}
		if target, ok := strings.CutPrefix(f.ID, "-> "); ok {
			f.Type, f.ID = rootfs.TypeSymlink, target
		} else if text, ok := strings.CutPrefix(f.ID, "+x "); ok {
			f.Mode, f.ID = 0o755, text
		}
		req.Files = append(req.Files, f)
	}
	req.Open = func(f PullFile) (io.Reader, int64, error) { return strings.NewReader(f.ID), int64(len(f.ID)), nil }
	return req
}

// pull pulls a tree. The context was seeded with the base's paths from the same repository.
func (w *world) pull(tree, base files) (*Pulled, error) {
	w.t.Helper()
	req := pulling(tree)
	for p := range base {
		req.Tracked[Path(p)] = true
	}
	return w.reviews.Pull(w.t.Context(), req)
}

func (w *world) mustPull(tree, base files) *Pulled {
	w.t.Helper()
	done, err := w.pull(tree, base)
	must(w.t, err)
	return done
}

func TestPullKeepsToTheQuota(t *testing.T) {
	t.Parallel()
	base := files{"a": "old\n"}
	w := newWorld(t, base)
	w.quota = 1000
	_, err := w.pull(files{"a": "new\n", "large": strings.Repeat("x", 2000)}, base)
	if fserr.CodeOf(err) != fserr.EDQUOT {
		t.Errorf("the pull ended with %v", err)
	}
	same(t, "the context", read(t, w.in(id)), base)
}

// A program writes to the context between the plan and the exchange, or right after that. Its file stays.
func TestPullBesideAWriter(t *testing.T) {
	t.Parallel()
	base := files{"a": numbered(9), "b": "old\n", "c": "old\n"}
	for phase, a := range map[string]string{"begun": base["a"], "all taken": "theirs\n"} {
		w := newWorld(t, base)
		saved := false
		w.at(phase, func() {
			if !saved {
				write(t, w.in(id), files{"b": "saved meanwhile\n"})
			}
			saved = true
		})
		_, err := w.pull(files{"a": "theirs\n", "b": "theirs\n", "c": "theirs\n"}, base)
		got := read(t, w.in(id))
		if (err == nil) != (a == "theirs\n") || got["b"] != "saved meanwhile\n" || got["a"] != a {
			t.Errorf("%s: the pull ended with %v, and the context has %v", phase, err, got)
		}
		if !saved {
			t.Errorf("there is no phase %q", phase)
		}
	}
}

// A rebase leaves what was pulled as it is, until the workspace changes these files.
func TestRebaseKeepsWhatWasPulled(t *testing.T) {
	t.Parallel()
	base := files{"a": "old\n", "gone": "old\n", "other": "old\n"}
	w := newWorld(t, base)
	w.mustPull(files{"a": "pulled\n", "new": "pulled\n", "other": "old\n"}, base)
	want := files{"a": "pulled\n", "new": "pulled\n", "other": "old\n"}
	same(t, "pulled", read(t, w.in(id)), want)
	if done := w.rebase(RebaseRequest{}); len(done.Steps) != 0 {
		t.Errorf("the rebase did %v", done.Files())
	}
	write(t, w.in("workspace"), files{"other": "new\n"})
	w.rebase(RebaseRequest{})
	want["other"] = "new\n"
	same(t, "rebased", read(t, w.in(id)), want)
	write(t, w.in("workspace"), files{"a": "pulled\n"}) // the user pulled too
	if done := w.rebase(RebaseRequest{}); len(done.Steps) != 0 {
		t.Errorf("the rebase did %v", done.Files())
	}
	write(t, w.in("workspace"), files{"a": "the user's\n"})
	w.rebase(RebaseRequest{})
	want["a"] = "the user's\n"
	same(t, "rebased again", read(t, w.in(id)), want)
}

func TestPullRefusesRecordedConflicts(t *testing.T) {
	t.Parallel()
	w, before, _ := conflicted(t)
	w.rebase(RebaseRequest{OnConflict: RecordConflicts})
	before["fine"] = "y\n"
	_, err := w.pull(files{"a": "theirs\n", "fine": "z\n"}, nil)
	if e := wantReason(t, err, IsUnresolved); !slices.Equal(e.Paths, []Path{"a"}) {
		t.Errorf("the paths are %v", e.Paths)
	}
	same(t, "the context", read(t, w.in(id)), before)
	if done := w.mustPull(files{"fine": "z\n"}, nil); len(done.Paths) != 1 {
		t.Errorf("the pull did %v", done.Paths)
	}
}

// The state is written and read again between the calls.
func TestBaseHasPathsOfAnyBytes(t *testing.T) {
	t.Parallel()
	names := []string{"odd\xff\nname", "=begins", "plain"}
	base := files{}
	tree := files{}
	for _, name := range names {
		base[name], tree[name] = "old\n", "pulled\n"
	}
	w := newWorld(t, base)
	w.mustPull(tree, base)
	must(t, w.reviews.Close())
	w.open()
	if l := w.changes(Query{}); len(l.Changes) != 0 {
		t.Errorf("after a pull %v is changed", l.Changes[0].Path)
	}
	must(t, w.reviews.Copied(id, "ctx_b", ""))
	st, err := w.reviews.states.read("ctx_b")
	must(t, err)
	if got := slices.Sorted(maps.Keys(st.Pulled)); !slices.Equal(got, []Path{"=begins", "odd\xff\nname", "plain"}) {
		t.Errorf("a copy has %q", got)
	}
}

// What was pulled into another place, and merged with the context's lines, is in no version but that which the next pull merges from.
func TestContentsOfAPullAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "old\n"})
	pull := func(text string) *Pulled {
		t.Helper()
		req := pulling(files{"out/a": text})
		req.Into = "out"
		done, err := w.reviews.Pull(t.Context(), req)
		must(t, err)
		return done
	}
	pull(numbered(9))
	write(t, w.in(id), files{"out/a": byAgent(numbered(9))})
	theirs := numbered(9) + "theirs\n"
	done := pull(theirs)
	inJournal, inState := map[string]bool{}, map[string]bool{}
	must(t, w.reviews.journal.use(t.Context(), inJournal))
	st, err := w.reviews.states.read(id)
	must(t, err)
	if st.use(inState); !inJournal[hashOfText(theirs)] || !inState[hashOfText(theirs)] {
		t.Error("what was pulled may be collected")
	}
	undone, err := w.undo(done.ID)
	must(t, err)
	if st, err = w.reviews.states.read(id); err != nil || st.Pulled["out/a"].Hash != hashOfText(numbered(9)) {
		t.Errorf("after the undo this is pulled: %v (%v)", st.Pulled["out/a"], err)
	}
	_, err = w.undo(undone.ID)
	must(t, err)
	same(t, "redone", read(t, w.in(id)), files{"a": "old\n", "out/a": byAgent(numbered(9)) + "theirs\n"})
}
