package review

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"go.uber.org/zap"
)

// second makes another context, and lists its changes.
func (w *world) second(content files) {
	w.t.Helper()
	must(w.t, os.MkdirAll(w.in("ctx_b"), 0o755))
	write(w.t, w.in("ctx_b"), content)
	l, err := w.reviews.Changes(w.t.Context(), Query{Context: "ctx_b"})
	must(w.t, err)
	must(w.t, l.Close())
}

func (w *world) wantOthers(what string, want ...Path) {
	w.t.Helper()
	var got []Path
	for _, o := range w.changes(Query{Drift: true}).Others {
		if o.Context != "ctx_b" || o.Count != len(o.Paths) || o.At.IsZero() {
			w.t.Errorf("%s: the other context is %+v", what, o)
		}
		got = append(got, o.Paths...)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: the paths that another context changes too are %q, want %q", what, got, want)
	}
}

func TestOtherContextsOfTheSamePathsAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "1\n", "b": "1\n", "c": "1\n", "d": "1\n"})
	write(t, w.in(id), files{"a": "mine\n", "b": "mine\n", "new": "mine\n"})
	w.wantOthers("alone")
	w.second(files{"a": "theirs\n", "b": "theirs\n", "c": "theirs\n", "d": "1\n", "new": "theirs\n"})
	must(t, os.RemoveAll(w.in("ctx_b"))) // nothing reads it
	w.wantOthers("both", "a", "b", "new")
	if l := w.changes(Query{}); len(l.Others) != 0 {
		t.Errorf("the panel itself learns of %v", l.Others)
	}
	must(t, w.reviews.Close())
	w.open()
	w.wantOthers("after a start", "a", "b", "new")

	w.second(files{"a": "theirs\n", "b": "theirs\n", "c": "1\n", "d": "1\n"})
	w.wantOthers("listed again", "a", "b")
	_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: "ctx_b", Selection: &Selection{Changes: []Selected{{Path: "b"}}}, Approve: true, Actor: "host"})
	must(t, err)
	w.wantOthers("b is applied", "a")
	must(t, w.reviews.Deleted("ctx_b"))
	w.wantOthers("deleted")
	must(t, w.reviews.Close())
	w.open()
	w.wantOthers("deleted, after a start")
}

func TestOtherContextsAreBounded(t *testing.T) {
	t.Parallel()
	l, err := openListings(t.TempDir(), zap.NewNop())
	must(t, err)
	var many []*Change
	for i := range listedPaths + 50 {
		many = append(many, &Change{Difference: Difference{Path: Path(fmt.Sprintf("f%05d", i))}})
	}
	l.put("ctx_b", many)
	for i := range maxOthers + 5 {
		l.put(fmt.Sprintf("ctx_%d", i), many[:1])
	}
	others := l.others(id, many)
	if len(others) != maxOthers {
		t.Fatalf("%d contexts are named, want %d", len(others), maxOthers)
	}
	if o := others[0]; o.Context != "ctx_b" || o.Count != listedPaths || len(o.Paths) != maxNamed {
		t.Errorf("the first is %s with %d paths, of which %d are named", o.Context, o.Count, len(o.Paths))
	}
}
