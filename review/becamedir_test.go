package review

import (
	"fmt"
	"maps"
	"testing"
)

// TestRebaseOverAFileThatBecameADirectory has a file that the context and the workspace changed, and whose conflict may be recorded. Then one side, or
// both, makes a directory of its file. A rebase for the workspace takes its files. Those that only the context has stay, unless a file stands in their way.
func TestRebaseOverAFileThatBecameADirectory(t *testing.T) {
	t.Parallel()
	agent, user := files{"a/x": "agent\n", "a/y/z": "agent\n"}, files{"a/x": "user\n", "a/u": "user\n"}
	for name, c := range map[string]struct {
		context, workspace files
		// want are the files of the context, by what happens to conflicts.
		want map[OnConflict]files
	}{
		"the context's file":   {agent, files{"a": "user\n"}, map[OnConflict]files{TakeWorkspace: {"a": "user\n"}, KeepContext: agent, RecordConflicts: agent}},
		"the workspace's file": {files{"a": "agent\n"}, user, map[OnConflict]files{TakeWorkspace: user, KeepContext: {"a": "agent\n"}, RecordConflicts: {"a": "agent\n"}}},
		"the files of both": {agent, user, map[OnConflict]files{
			TakeWorkspace:   {"a/x": "user\n", "a/u": "user\n", "a/y/z": "agent\n"},
			KeepContext:     {"a/x": "agent\n", "a/u": "user\n", "a/y/z": "agent\n"},
			RecordConflicts: {"a/x": "agent\n", "a/u": "user\n", "a/y/z": "agent\n"},
		}},
		"the context's, and the workspace has none":   {agent, files{}, map[OnConflict]files{TakeWorkspace: agent, KeepContext: agent, RecordConflicts: agent}},
		"the context's, and the workspace has a link": {agent, files{"a": "-> b"}, map[OnConflict]files{TakeWorkspace: {"a": "-> b"}, KeepContext: agent, RecordConflicts: agent}},
	} {
		for how, want := range c.want {
			for _, recorded := range []OnConflict{RefuseConflicts, RecordConflicts, WriteMarkers} {
				t.Run(fmt.Sprint(name, ", ", how, ", recorded ", recorded), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, files{"a": "base\n", "b": "b\n"})
					write(t, w.in(id), files{"a": "agent\n"})
					write(t, w.in("workspace"), files{"a": "user\n"})
					if recorded != RefuseConflicts {
						w.rebase(RebaseRequest{OnConflict: recorded})
					}
					for tree, now := range map[string]files{id: c.context, "workspace": c.workspace} {
						remove(t, w.in(tree), "a")
						write(t, w.in(tree), now)
					}
					before := read(t, w.in(id))
					r := w.rebase(RebaseRequest{OnConflict: how})
					after := maps.Clone(want)
					after["b"] = "b\n"
					same(t, "rebased", read(t, w.in(id)), after)
					if how == TakeWorkspace {
						if again := w.rebase(RebaseRequest{}); again.ID != 0 || len(w.conflicts()) != 0 {
							t.Errorf("a second rebase did %v, and the conflicts are %v", again.Files(), w.conflicts())
						}
					}
					if r.ID != 0 {
						_, err := w.undo(r.ID)
						must(t, err)
						same(t, "undone", read(t, w.in(id)), before)
					}
				})
			}
		}
	}
}

// TestPullOverAFileThatBecameADirectory has a file that the context made a directory of, and that is gone from the tree that is pulled.
func TestPullOverAFileThatBecameADirectory(t *testing.T) {
	t.Parallel()
	base := files{"a": "base\n", "b": "b\n"}
	for name, how := range map[string]OnPullConflict{"ours": PullKeepsOurs, "theirs": PullTakesTheirs} {
		w := newWorld(t, base)
		remove(t, w.in(id), "a")
		write(t, w.in(id), files{"a/x": "agent\n"})
		req := pulling(files{"b": "b\n"})
		req.OnConflict, req.Tracked = how, map[Path]bool{"a": true, "b": true}
		if _, err := w.reviews.Pull(t.Context(), req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		same(t, name, read(t, w.in(id)), files{"a/x": "agent\n", "b": "b\n"})
	}
}
