package review

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// withLine8 is a text with another line than byAgent's.
func withLine8(text, line string) string { return strings.Replace(text, "line 8\n", line+"\n", 1) }

// newBehind makes a repository and a context whose changes a branch has, and nothing else.
func newBehind(t *testing.T) repos {
	t.Helper()
	w := newRepos(t, files{"a": numbered(9), "gone": "gone\n"})
	write(t, w.in(id), files{"a": byAgent(numbered(9)), "new": "new\n"})
	remove(t, w.in(id), "gone")
	return w
}

// behind returns the paths whose base the workspace does not have.
func (w *world) behind() string {
	w.t.Helper()
	st, err := w.reviews.states.read(id)
	must(w.t, err)
	var out []string
	for _, p := range slices.Sorted(maps.Keys(st.Behind)) {
		out = append(out, string(p))
	}
	return strings.Join(out, " ")
}

// mustUndo undoes entries, and returns the last entry that this makes.
func (w *world) mustUndo(entries ...int64) (undo int64) {
	w.t.Helper()
	for _, n := range entries {
		e, err := w.undo(n)
		must(w.t, err)
		undo = e.ID
	}
	return undo
}

// TestRebaseKeepsWhatOnlyABranchHas commits the changes of a context to a branch, does something else, and rebases.
// It takes seconds: each row makes a repository.
func TestRebaseKeepsWhatOnlyABranchHas(t *testing.T) {
	t.Parallel()
	const all = "a gone new"
	agents := files{"a": byAgent(numbered(9)), "new": "new\n"}
	users := files{"a": strings.Replace(agents["a"], "the agent's", "user", 1), "new": "new\nuser\n", "gone": "user\n"}
	byUser := func(text string) string { return strings.Replace(text, "line 5", "user", 1) }
	merge := func(w repos) { w.gitIn("workspace", "merge", "-q", "side") }
	inWorkspace := func(content files) func(w repos, entry int64) {
		return func(w repos, _ int64) { write(w.t, w.in("workspace"), content) }
	}
	rebase := func(w repos) int64 { return w.rebase(RebaseRequest{}).ID }
	apply := func(w repos) int64 { return w.mustCommit("side").ID }
	push := func(branch string) func(w repos) int64 {
		return func(w repos) int64 {
			w.gitIn("workspace", "branch", "side")
			e, err := w.push(w.pushing(ToBranch, branch))
			must(w.t, err)
			return e.ID
		}
	}
	for name, row := range map[string]struct {
		// by is what moves the base, apply if it is nil; do gets its entry.
		by func(w repos) int64
		do func(w repos, entry int64)
		// conflict is the path at which the rebase is refused.
		conflict Path
		context  files
		// changes and behind are paths.
		changes, behind string
	}{
		"nothing":               {do: func(repos, int64) {}, context: agents, behind: all},
		"a start":               {do: func(w repos, _ int64) { must(w.t, w.reviews.Close()); w.open() }, context: agents, behind: all},
		"another rebase":        {do: func(w repos, _ int64) { rebase(w) }, context: agents, behind: all},
		"a push":                {by: push("side"), do: func(repos, int64) {}, context: agents, behind: all},
		"a push that is undone": {by: push("side"), do: func(w repos, n int64) { w.mustUndo(n) }, context: agents, changes: all},
		"a push that is merged": {by: push("side"), do: func(w repos, _ int64) { merge(w) }, context: agents},
		"a push to a remote":    {by: push(""), do: func(repos, int64) {}, context: agents, behind: all},
		"the agent edits": {
			do: func(w repos, _ int64) {
				write(w.t, w.in(id), files{"a": withLine8(agents["a"], "more"), "new": "newer\n"})
			},
			context: files{"a": withLine8(agents["a"], "more"), "new": "newer\n"}, changes: "a new", behind: all,
		},
		"the agent takes it back": {
			do:      func(w repos, _ int64) { write(w.t, w.in(id), files{"a": numbered(9), "gone": "gone\n"}) },
			context: files{"a": numbered(9), "gone": "gone\n", "new": "new\n"}, changes: "a gone", behind: all,
		},
		"the branch is merged": {do: func(w repos, _ int64) { merge(w) }, context: agents},
		"the branch is merged, and the agent edits": {
			do: func(w repos, _ int64) {
				merge(w)
				write(w.t, w.in(id), files{"a": byAgent(withLine8(numbered(9), "more"))})
			},
			context: files{"a": withLine8(agents["a"], "more"), "new": "new\n"}, changes: "a",
		},
		"the branch is merged, and the user edits its lines": {
			do: func(w repos, _ int64) {
				merge(w)
				write(w.t, w.in("workspace"), users)
			},
			context: users,
		},
		"a push that is merged, and the user edits its lines": {
			by: push("side"),
			do: func(w repos, _ int64) {
				merge(w)
				write(w.t, w.in("workspace"), files{"new": "new\nuser\n"})
			},
			context: files{"a": agents["a"], "new": "new\nuser\n"},
		},
		"one of two branches is merged, and the user edits its lines": {
			do: func(w repos, _ int64) {
				write(w.t, w.in(id), files{"new": "newer\n"})
				w.gitIn("workspace", "branch", "side2", "side")
				w.mustCommit("side2")
				merge(w)
				write(w.t, w.in("workspace"), files{"new": "new\nuser\n"})
			},
			conflict: "new", context: files{"a": agents["a"], "new": "newer\n"}, behind: all,
		},
		"the branch is merged, that of another context is not, and the user edits its lines": {
			do: func(w repos, _ int64) {
				must(w.t, os.Mkdir(w.in("ctx_b"), 0o755))
				write(w.t, w.in("ctx_b"), files{"a": numbered(9), "gone": "gone\n", "new": "other\n"})
				req := w.committing("other")
				req.Context = "ctx_b"
				_, err := w.reviews.Apply(w.t.Context(), req)
				must(w.t, err)
				merge(w)
				write(w.t, w.in("workspace"), files{"new": "new\nuser\n"})
			},
			context: files{"a": agents["a"], "new": "new\nuser\n"},
		},
		"the second of two branches is merged, and the user edits a line of the first": {
			do: func(w repos, _ int64) {
				write(w.t, w.in(id), files{"a": withLine8(agents["a"], "more")})
				w.mustCommit("side2")
				w.gitIn("workspace", "merge", "-q", "side2")
				write(w.t, w.in("workspace"), files{"a": withLine8(strings.Replace(numbered(9), "line 2", "user", 1), "more")})
			},
			conflict: "a", context: files{"a": withLine8(agents["a"], "more"), "new": "new\n"}, behind: all,
		},
		"the branch is squashed, and the agent edits its lines": {
			do: func(w repos, _ int64) {
				w.gitIn("workspace", "merge", "-q", "--squash", "side")
				write(w.t, w.in(id), files{"a": strings.Replace(agents["a"], "the agent's", "more", 1), "new": "newer\n"})
			},
			context: files{"a": strings.Replace(agents["a"], "the agent's", "more", 1), "new": "newer\n"}, changes: "a new",
		},
		"the branch is squashed, and the user edits its lines": {
			do: func(w repos, _ int64) {
				w.gitIn("workspace", "merge", "-q", "--squash", "side")
				w.gitIn("workspace", "commit", "-qm", "squashed")
				write(w.t, w.in("workspace"), files{"new": "new\nuser\n"})
			},
			conflict: "new", context: agents, behind: all,
		},
		"the branch is merged, and the merge is taken back": {
			do: func(w repos, _ int64) {
				merge(w)
				rebase(w)
				w.gitIn("workspace", "reset", "-q", "--hard", "HEAD^")
			},
			context: files{"a": numbered(9), "gone": "gone\n"},
		},
		"the rebase after the merge is undone": {
			do: func(w repos, _ int64) {
				merge(w)
				done := rebase(w)
				w.gitIn("workspace", "reset", "-q", "--hard", "HEAD^")
				w.mustUndo(done)
			},
			context: agents, behind: all,
		},
		"the user edits another line": {
			do:      inWorkspace(files{"a": withLine8(numbered(9), "user")}),
			context: files{"a": withLine8(agents["a"], "user"), "new": "new\n"}, changes: "a", behind: "gone new",
		},
		"the user edits the same line": {
			do: inWorkspace(files{"a": strings.Replace(numbered(9), "line 2", "user", 1)}), conflict: "a", context: agents, behind: all,
		},
		"the user edits what is gone": {do: inWorkspace(files{"gone": "user\n"}), conflict: "gone", context: agents, behind: all},
		"the user adds what is new":   {do: inWorkspace(files{"new": "user\n"}), conflict: "new", context: agents, behind: all},
		"the user adds the same":      {do: inWorkspace(files{"new": "new\n"}), context: agents, behind: "a gone"},
		"the user removes it": {
			do: func(w repos, _ int64) { remove(w.t, w.in("workspace"), "a") }, conflict: "a", context: agents, behind: all,
		},
		"the user removes what is gone": {
			do: func(w repos, _ int64) { remove(w.t, w.in("workspace"), "gone") }, context: agents, behind: "a new",
		},
		"the user adds again what is gone": {
			do: func(w repos, _ int64) {
				remove(w.t, w.in("workspace"), "gone")
				rebase(w)
				write(w.t, w.in("workspace"), files{"gone": "gone\n"})
			},
			context: files{"a": agents["a"], "new": "new\n", "gone": "gone\n"}, behind: "a new",
		},
		"the user edits, and the rebase is undone": {
			do: func(w repos, _ int64) {
				write(w.t, w.in("workspace"), files{"a": withLine8(numbered(9), "user")})
				done := rebase(w)
				write(w.t, w.in("workspace"), files{"a": numbered(9)})
				w.mustUndo(done)
			},
			context: agents, behind: all,
		},
		"an earlier rebase is undone": {
			do: func(w repos, n int64) {
				w.mustUndo(n)
				write(w.t, w.in("workspace"), files{"a": withLine8(numbered(9), "user")})
				done := rebase(w)
				w.mustCommit("side2")
				w.mustUndo(done)
			},
			context: files{"a": withLine8(agents["a"], "user"), "new": "new\n"}, changes: "a", behind: "gone new",
		},
		"the apply is undone": {do: func(w repos, n int64) { w.mustUndo(n) }, context: agents, changes: all},
		"the branch is merged, and the apply is undone": {
			do:      func(w repos, n int64) { merge(w); rebase(w); w.mustUndo(n) },
			context: agents, changes: all, behind: all,
		},
		"the apply is undone and redone": {do: func(w repos, n int64) { w.mustUndo(w.mustUndo(n)) }, context: agents, behind: all},
		"more goes to the branch": {
			do: func(w repos, _ int64) {
				write(w.t, w.in(id), files{"a": withLine8(agents["a"], "more")})
				w.mustCommit("side")
			},
			context: files{"a": withLine8(agents["a"], "more"), "new": "new\n"}, behind: all,
		},
		"more goes to the branch, and the user edits": {
			do: func(w repos, _ int64) {
				write(w.t, w.in(id), files{"a": withLine8(agents["a"], "more")})
				w.mustCommit("side")
				write(w.t, w.in("workspace"), files{"a": byUser(numbered(9))})
			},
			context: files{"a": byUser(withLine8(agents["a"], "more")), "new": "new\n"}, changes: "a", behind: "gone new",
		},
		"more goes to the branch, and the first is undone": {
			do: func(w repos, n int64) {
				write(w.t, w.in(id), files{"a": withLine8(agents["a"], "more")})
				w.mustCommit("side")
				w.mustUndo(n)
			},
			context: files{"a": withLine8(agents["a"], "more"), "new": "new\n"}, changes: all, behind: "a",
		},
		"more goes to the branch, and both are undone": {
			do: func(w repos, n int64) {
				write(w.t, w.in(id), files{"a": withLine8(agents["a"], "more")})
				w.mustUndo(w.mustCommit("side").ID, n)
			},
			context: files{"a": withLine8(agents["a"], "more"), "new": "new\n"}, changes: all,
		},
		"more goes to the workspace": {
			do: func(w repos, _ int64) {
				write(w.t, w.in(id), files{"a": withLine8(agents["a"], "more")})
				w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true})
				same(w.t, "the workspace", files{"a": read(w.t, w.in("workspace"))["a"]}, files{"a": withLine8(numbered(9), "more")})
			},
			context: files{"a": withLine8(agents["a"], "more"), "new": "new\n"}, behind: all,
		},
		"more goes to the workspace, which has lines of the user": {
			do: func(w repos, _ int64) {
				write(w.t, w.in("workspace"), files{"a": byUser(numbered(9))})
				write(w.t, w.in(id), files{"a": withLine8(agents["a"], "more")})
				w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true})
			},
			context: files{"a": byUser(withLine8(agents["a"], "more")), "new": "new\n"}, changes: "a", behind: "gone new",
		},
		"more goes to the workspace, and is undone": {
			do: func(w repos, _ int64) {
				write(w.t, w.in(id), files{"a": withLine8(agents["a"], "more")})
				w.mustUndo(w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true}).ID)
			},
			context: files{"a": withLine8(agents["a"], "more"), "new": "new\n"}, changes: "a", behind: all,
		},
		"the branch is merged, and more goes to the workspace": {
			do: func(w repos, _ int64) {
				merge(w)
				write(w.t, w.in(id), files{"a": strings.Replace(agents["a"], "the agent's", "more", 1)})
				w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true})
			},
			context: files{"a": strings.Replace(agents["a"], "the agent's", "more", 1), "new": "new\n"},
		},
		"a pull": {
			do: func(w repos, _ int64) {
				w.mustPull(files{"a": withLine8(agents["a"], "pulled"), "new": "new\n"}, files{"a": "", "gone": ""})
			},
			context: files{"a": withLine8(agents["a"], "pulled"), "new": "new\n"}, behind: all,
		},
		"a pull, and the user edits": {
			do: func(w repos, _ int64) {
				w.mustPull(files{"a": withLine8(agents["a"], "pulled"), "new": "new\n"}, files{"a": "", "gone": ""})
				write(w.t, w.in("workspace"), files{"a": byUser(numbered(9))})
			},
			context: files{"a": byUser(withLine8(agents["a"], "pulled")), "new": "new\n"}, changes: "a", behind: "gone new",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBehind(t)
			if row.by == nil {
				row.by = apply
			}
			row.do(w, row.by(w))
			_, err := w.tryRebase(RebaseRequest{})
			if row.conflict == "" {
				must(t, err)
			} else if e := wantReason(t, err, Conflicting); len(e.Conflicts) != 1 || e.Conflicts[0].Path != row.conflict {
				t.Errorf("the conflicts are %v", e.Conflicts)
			}
			same(t, "the context", read(t, w.in(id)), row.context)
			if got := w.changed(); got != row.changes {
				t.Errorf("the changes are %q, want %q", got, row.changes)
			}
			if got := w.behind(); got != row.behind {
				t.Errorf("the workspace is behind at %q, want %q", got, row.behind)
			}
			if d := w.drifted(); row.conflict == "" && len(d) > 0 {
				t.Errorf("after the rebase %v is drifted", d)
			}
		})
	}
}

// TestConflictWithABranchIsRecorded: its base is what the workspace had, and the resolution moves the base to what the workspace has.
func TestConflictWithABranchIsRecorded(t *testing.T) {
	t.Parallel()
	user := strings.Replace(numbered(9), "line 2", "user", 1)
	for name, row := range map[string]struct {
		do      func(w repos)
		a       string
		changes string
	}{
		"ours":   {func(w repos) { w.rebase(RebaseRequest{OnConflict: KeepContext}) }, byAgent(numbered(9)), "a"},
		"theirs": {func(w repos) { w.rebase(RebaseRequest{OnConflict: TakeWorkspace}) }, user, ""},
		"recorded, with the context": {func(w repos) {
			w.rebase(RebaseRequest{OnConflict: RecordConflicts})
			if got := w.version("a", OfConflictWorkspace); got != user {
				t.Errorf("the conflict's workspace is %q", got)
			}
			if u := w.conflicts()[0].Unresolved; u.Base.Hash != hashOfText(numbered(9)) {
				t.Errorf("the base of the conflict is %v", u.Base)
			}
			w.resolve("a", SideContext)
		}, byAgent(numbered(9)), "a"},
		"recorded, with the workspace": {func(w repos) {
			w.rebase(RebaseRequest{OnConflict: RecordConflicts})
			w.resolve("a", SideWorkspace)
		}, user, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBehind(t)
			w.mustCommit("side")
			write(t, w.in("workspace"), files{"a": user})
			row.do(w)
			check := func(what, a, changes, behind string) {
				t.Helper()
				same(t, what, read(t, w.in(id)), files{"a": a, "new": "new\n"})
				if w.changed() != changes || w.behind() != behind {
					t.Errorf("%s: the changes are %q, and the workspace is behind at %q", what, w.changed(), w.behind())
				}
			}
			check("settled", row.a, row.changes, "gone new")
			entries, _, err := w.reviews.Journal(t.Context(), func(*Entry) bool { return true }, 0, 10)
			must(t, err)
			for _, e := range entries[:len(entries)-1] {
				w.mustUndo(e.ID)
				if got := w.behind(); got != "a gone new" {
					t.Errorf("after the undo of entry %d the workspace is behind at %q", e.ID, got)
				}
			}
			check("undone", byAgent(numbered(9)), "", "a gone new")
			if len(w.conflicts()) != 0 {
				t.Errorf("after the undo the conflicts are %v", w.conflicts())
			}
		})
	}
}

func (w *world) resolve(p Path, with Side) {
	w.t.Helper()
	_, err := w.reviews.Resolve(w.t.Context(), id, p, Resolution{Side: with}, "host")
	must(w.t, err)
}

// TestApplyNeedsTheLinesOfABranch: what only a branch has goes to the workspace through that branch.
func TestApplyNeedsTheLinesOfABranch(t *testing.T) {
	t.Parallel()
	edits := files{"a": strings.Replace(numbered(9), "line 2", "more", 1), "new": "newer\n", "gone": "here again\n"}
	for p, text := range edits {
		for _, target := range []Target{ToWorkingTree, ToCommit} {
			t.Run(fmt.Sprintf("%s %q", p, target), func(t *testing.T) {
				t.Parallel()
				w := newBehind(t)
				w.mustCommit("side")
				write(t, w.in(id), files{p: text})
				if d := w.drifted(); len(d) > 0 {
					t.Errorf("%v is drifted: the user changed nothing", d)
				}
				req := w.committing("")
				if req.Target = target; target == ToWorkingTree {
					req.Commit = CommitOptions{}
				}
				_, err := w.reviews.Apply(t.Context(), req)
				if e := wantReason(t, err, Conflicting); !strings.Contains(e.Hint, "merge that branch first") || strings.Contains(e.Detail, "changed") {
					t.Errorf("the apply is refused with %v", e)
				}
				w.gitIn("workspace", "merge", "-q", "side")
				w.apply(req)
				same(t, "the workspace", files{p: read(t, w.in("workspace"))[p]}, files{p: text})
				if w.changed() != "" || strings.Contains(w.behind(), p) {
					t.Errorf("the changes are %q, and the workspace is behind at %q", w.changed(), w.behind())
				}
			})
		}
	}
}

// TestUndoIsNoApply: no merge of a branch helps an undo.
func TestUndoIsNoApply(t *testing.T) {
	t.Parallel()
	w := newBehind(t)
	w.mustCommit("side")
	write(t, w.in(id), files{"a": withLine8(byAgent(numbered(9)), "more")})
	e := w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true})
	write(t, w.in("workspace"), files{"a": withLine8(numbered(9), "user")})
	_, err := w.undo(e.ID)
	if refused := wantReason(t, err, Conflicting); strings.Contains(refused.Hint, "branch") {
		t.Errorf("the undo is refused with %v", refused)
	}
}

// TestContentsBehindABranchAreKept: nothing but the state refers to them once the journal has forgotten the entry.
func TestContentsBehindABranchAreKept(t *testing.T) {
	t.Parallel()
	w := newBehind(t)
	w.mustCommit("side")
	kept := func(id string) bool {
		st, err := w.reviews.states.read(id)
		must(t, err)
		used := map[string]bool{}
		st.use(used)
		return used[hashOfText(numbered(9))] && used[hashOfText("gone\n")]
	}
	must(t, w.reviews.Copied(id, "ctx_b", ""))
	if !kept(id) || !kept("ctx_b") {
		t.Error("what the workspace has may be collected")
	}
	w.gitIn("workspace", "merge", "-q", "side")
	w.rebase(RebaseRequest{})
	must(t, os.Remove(w.reviews.journal.file(1, doneSuffix)))
	used := map[string]bool{}
	must(t, w.reviews.journal.use(t.Context(), used))
	if !used[hashOfText(numbered(9))] {
		t.Error("what an undo of the rebase needs may be collected")
	}
}

// TestKilledRebaseOntoABranch: the journal and the state say the same of what the workspace has.
func TestKilledRebaseOntoABranch(t *testing.T) {
	t.Parallel()
	for phase, done := range map[string]bool{
		phaseBegun: false, phaseIntended: false, phaseTaken: false, phaseFinished: true, "done": true, "base moved": true,
	} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			w := newBehind(t)
			w.mustCommit("side")
			w.gitIn("workspace", "merge", "-q", "side")
			old := read(t, w.in(id))
			w.world.killed(phase, old, func() { _, _ = w.tryRebase(RebaseRequest{}) })
			want := "a gone new"
			if done {
				want = ""
			}
			if got := w.behind(); got != want {
				t.Errorf("after the start the workspace is behind at %q, want %q", got, want)
			}
			w.rebase(RebaseRequest{})
			if got := w.behind(); got != "" {
				t.Errorf("after another rebase the workspace is behind at %q", got)
			}
			same(t, "the context", read(t, w.in(id)), old)
		})
	}
}

// A context that started empty takes what was applied from it, and nothing else.
func TestRebaseOfAnEmptyContextKeepsWhatOnlyABranchHas(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"a": "a\n"})
	w.manifest, w.digest = nil, ""
	must(t, os.Remove(w.in(id+"/a")))
	write(t, w.in(id), files{"new": "new\n"})
	w.mustCommit("side")
	if done := w.rebase(RebaseRequest{}); len(done.Steps) > 0 {
		t.Errorf("the rebase did %v", done.Files())
	}
	write(t, w.in("workspace"), files{"new": "new\nuser\n"})
	if _, err := w.tryRebase(RebaseRequest{}); err == nil {
		t.Error("what both added is no conflict")
	}
	same(t, "the context", read(t, w.in(id)), files{"new": "new\n"})
}
