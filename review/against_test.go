package review

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// submit submits the context's changes and returns their revision.
func (w *world) submit() string {
	w.t.Helper()
	l, err := w.reviews.Submit(w.t.Context(), id, "", "", "test")
	must(w.t, err)
	return l.Revision
}

// paths returns a letter and the path of each change.
func (l *List) paths() []string {
	var out []string
	for _, c := range l.Changes {
		out = append(out, string(" AMDTX"[c.Kind])+" "+string(c.Path))
	}
	return out
}

func (w *world) wantAgainst(what string, a Against, want ...string) {
	w.t.Helper()
	if got := w.changes(Query{Against: a}).paths(); !slices.Equal(got, want) {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestRevisionOutlivesWhatTheContextHeld(t *testing.T) {
	w := newWorld(t, files{"a": "one\n", "b": "b\n"})
	write(t, w.in(id), files{"a": "two\n", "new": "only in the revision\n"})
	first := w.submit()
	if k, err := Measure(t.Context(), w.in("state")); err != nil || k.Contents != 2 || k.Revisions != 1 || k.Bytes < 30 {
		t.Errorf("after the first revision %+v are kept, %v", k, err)
	}
	remove(t, w.in(id), "new")
	write(t, w.in(id), files{"a": "three\n"})
	must(t, w.reviews.collect(t.Context()))
	l := w.changes(Query{Against: Against{Revision: first}})
	if got := l.paths(); !slices.Equal(got, []string{"M a", "D new"}) {
		t.Fatalf("since the revision: %q", got)
	}
	if h := l.Changes[0].Text.Hunks; len(h) != 1 || h[0].Removed[0] != "two\n" || h[0].Added[0] != "three\n" || h[0].ID != "" {
		t.Errorf("the hunks are %+v", h)
	}
	must(t, w.reviews.Deleted(id))
	must(t, w.reviews.collect(t.Context()))
	if n := len(read(t, w.in("state/blobs"))); n != 0 {
		t.Errorf("%d contents of a deleted context are kept", n)
	}
}

func TestOldestRevisionsAreRemoved(t *testing.T) {
	w := newWorld(t, files{"a": "0\n"})
	var ids []string
	for i := range defaultBounds.revisions + 2 {
		write(t, w.in(id), files{"a": fmt.Sprintln("change", i)})
		ids = append(ids, w.submit())
	}
	for i, rev := range ids {
		_, err := w.reviews.Changes(t.Context(), Query{Context: id, Against: Against{Revision: rev}, Paths: []Path{"none"}})
		if want := i < 2; want != (fserr.CodeOf(err) == fserr.ENOENT) || (err != nil) != want {
			t.Errorf("revision %d of %d: %v", i, len(ids), err)
		}
	}
}

func TestIgnoredDirectoryIsShownWhenItChanged(t *testing.T) {
	w := newWorld(t, files{".gitignore": "node_modules/\n", "a": "a\n"})
	write(t, w.in(id), files{"node_modules/x/index.js": "1\n"})
	rev := Against{Revision: w.submit()}
	must(t, os.CopyFS(w.in(id+"@s"), os.DirFS(w.in(id))))
	must(t, os.CopyFS(w.in("ctx_b"), os.DirFS(w.in(id))))
	all := []Against{rev, {Snapshot: "s"}, {Context: "ctx_b"}}
	for _, a := range all {
		w.wantAgainst(fmt.Sprintf("%+v, unchanged", a), a)
	}
	write(t, w.in(id), files{"node_modules/x/more.js": "2\n"})
	for _, a := range all {
		w.wantAgainst(fmt.Sprintf("%+v", a), a, "A node_modules")
	}
}

// TestWorkspaceThatMovedOnIsRead compares with files of the workspace whose stat is not the manifest's, and with the contents of those only.
func TestWorkspaceThatMovedOnIsRead(t *testing.T) {
	w := newWorld(t, files{"both": "one\ntwo\n", "theirs": "t\n", "ours": "o\n", "gone": "g\n", "same": "s\n"})
	write(t, w.in(id), files{"both": "one\n2\n", "ours": "O\n", "same": "S\n", "added": "a\n"})
	write(t, w.in("workspace"), files{"both": "1\ntwo\n", "theirs": "T\n", "same": "S\n", "unseeded": "u\n", "added": "a\n"})
	remove(t, w.in("workspace"), "gone")
	w.wantAgainst("workspace", Against{Workspace: true}, "M both", "A gone", "M ours", "M theirs")
	write(t, w.in("workspace"), files{"dir/in": "x\n"})
	w.wantAgainst("workspace with more files", Against{Workspace: true}, "M both", "A gone", "M ours", "M theirs")
}

func TestRevisionOfAnotherLayerIsRefused(t *testing.T) {
	w := newWorld(t, files{"a": "a\n"})
	rev := w.submit()
	w.digest = "another"
	_, err := w.reviews.Changes(context.Background(), Query{Context: id, Against: Against{Revision: rev}})
	wantReason(t, err, StaleRevision)
}
