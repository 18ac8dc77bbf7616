package review

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// TestPathsBelowLinksOfOtherTreesAreNotThere has a tree in which a directory of another one is a link, or a file: nothing is below it. The base and the
// workspace have real, with a file, a link and a directory of the same names.
func TestPathsBelowLinksOfOtherTreesAreNotThere(t *testing.T) {
	t.Parallel()
	real := files{"real/t": "t\n", "real/l": "-> t", "real/sub/t": "t\n", "other": "other\n"}
	with := func(base files, more files) files {
		out := files{}
		for _, from := range []files{base, more} {
			for p, text := range from {
				out[p] = text
			}
		}
		return out
	}
	below := files{"in/t": "agent\n", "in/l": "-> agent", "in/sub/t": "agent\n", "in/sub/new/t": "agent\n"}
	for name, c := range map[string]struct {
		base, context, workspace files
		// conflicts says that nothing can be applied.
		conflicts bool
	}{
		"a link of both":                {with(real, files{"in": "-> real"}), with(real, below), nil, false},
		"a link in the middle of both":  {with(real, files{"d/in": "-> ../real"}), with(real, files{"d/in/t": "agent\n", "d/in/sub/t": "agent\n"}), nil, false},
		"a link to itself":              {with(real, files{"in": "-> in"}), with(real, below), nil, false},
		"a dangling link":               {with(real, files{"in": "-> none"}), with(real, below), nil, false},
		"a file of both":                {with(real, files{"in": "file\n"}), with(real, below), nil, false},
		"a link of the workspace":       {real, with(real, below), with(real, files{"in": "-> real"}), true},
		"a link instead of a directory": {with(real, files{"in/t": "t\n", "in/l": "-> t"}), with(real, files{"in/t": "agent\n", "in/l": "-> agent"}), with(real, files{"in": "-> real"}), true},
		"a file instead of a directory": {with(real, files{"in/t": "t\n", "in/l": "-> t"}), with(real, files{"in/t": "agent\n", "in/l": "-> agent"}), with(real, files{"in": "file\n"}), true},
		"a link of the context":         {with(real, files{"in/t": "t\n", "in/l": "-> t", "in/sub/t": "t\n"}), with(real, files{"in": "-> real"}), nil, false},
		"a link of both, not the base":  {with(real, files{"in/t": "t\n", "in/l": "-> t"}), with(real, files{"in": "-> real"}), with(real, files{"in": "-> real"}), false},
	} {
		c.context["hello"] = "hello\n"
		begin := func(t *testing.T) *world {
			w := newWorld(t, c.base)
			replaceTree(t, w.in(id), c.context)
			if c.workspace != nil {
				replaceTree(t, w.in("workspace"), c.workspace)
			}
			return w
		}
		all := &Selection{Changes: []Selected{{Path: ""}}}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begin(t)
			for _, q := range []Query{{}, {Drift: true}, {Drift: true, Paths: []Path{"in/t"}}, {Against: Against{Workspace: true}}} {
				for _, ch := range w.changes(q).Changes {
					var out strings.Builder
					l, err := w.reviews.Changes(t.Context(), Query{Context: id, Against: q.Against, Drift: q.Drift})
					must(t, err)
					must(t, errors.Join(w.reviews.Patch(t.Context(), l, ch, 3, &out), l.Close()))
					now, was := c.context[string(ch.Path)], c.base[string(ch.Path)]
					if q.Against.Workspace && c.workspace != nil {
						was = c.workspace[string(ch.Path)]
					}
					if now == was || (was == "") != (ch.Kind == Added) || (now == "") != (ch.Kind == Deleted) {
						t.Errorf("%+v: change %s is of kind %d, from %q to %q", q, ch.Path, ch.Kind, was, now)
					}
					if q.Drift && ch.Drifted != (c.workspace != nil && c.workspace[string(ch.Path)] != was) {
						t.Errorf("%+v: %s drifted: %t", q, ch.Path, ch.Drifted)
					}
				}
			}
			w.submit()
			_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: all, Approve: true, Actor: "host"})
			var left []Selected
			for _, ch := range w.changes(Query{}).Changes {
				left = append(left, Selected{Path: ch.Path})
			}
			if err == nil && len(left) > 0 { // sensitive ones are named
				_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &Selection{Changes: left}, Approve: true, Actor: "host"})
			}
			if c.conflicts {
				wantReason(t, err, Conflicting)
				_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &Selection{Changes: []Selected{{Path: "hello"}}}, Approve: true, Actor: "host"})
				must(t, err)
				same(t, "the workspace", read(t, w.in("workspace")), with(c.workspace, files{"hello": "hello\n"}))
				return
			}
			must(t, err)
			same(t, "the workspace", read(t, w.in("workspace")), c.context)
		})
		t.Run(name+", rebase and discard", func(t *testing.T) {
			t.Parallel()
			w := begin(t)
			for _, how := range []OnConflict{TakeWorkspace, KeepContext} {
				if _, err := w.reviews.Rebase(t.Context(), RebaseRequest{Context: id, OnConflict: how, DryRun: true, Actor: "host"}); err != nil {
					t.Errorf("rebase %v: %v", how, err)
				}
			}
			var named []Selected
			for _, ch := range w.changes(Query{}).Changes {
				named = append(named, Selected{Path: ch.Path})
			}
			_, err := w.reviews.Discard(t.Context(), id, Selection{Changes: named}, "", "host")
			must(t, err)
			same(t, "the context", read(t, w.in(id)), c.base)
			_, err = w.reviews.Rebase(t.Context(), RebaseRequest{Context: id, OnConflict: TakeWorkspace, Actor: "host"})
			must(t, err)
			same(t, "the rebased context", read(t, w.in(id)), read(t, w.in("workspace")))
		})
	}
}

// replaceTree makes a directory hold these files alone.
func replaceTree(t testing.TB, dir string, content files) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		must(t, os.RemoveAll(dir+"/"+e.Name()))
	}
	write(t, dir, content)
}

// TestNamesThatATreeCannotHaveAreNotThere reads a name that is longer than the file system has them.
func TestNamesThatATreeCannotHaveAreNotThere(t *testing.T) {
	t.Parallel()
	root, err := rootfs.Open(t.TempDir(), rootfs.Options{})
	must(t, err)
	defer func() { must(t, root.Close()) }()
	for _, p := range []Path{Path(strings.Repeat("x", 300)), Path(strings.Repeat("x", 300)) + "/y", Path(strings.Repeat("x/", 3000)) + "y"} {
		_, _, err := readVersion(t.Context(), root, p, reader{read: hashOf})
		_, statErr := lstat(root, p)
		if fserr.CodeOf(err) != fserr.ENOENT || fserr.CodeOf(statErr) != fserr.ENOENT {
			t.Errorf("%.10s…: %v, %v", p, err, statErr)
		}
	}
}
