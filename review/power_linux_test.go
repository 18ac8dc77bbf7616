package review

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// losePower loses contents, and opens the reviews again.
func (w *world) losePower() {
	w.t.Helper()
	w.loseContents()
	must(w.t, w.reviews.Close())
	w.open()
}

// loseContents empties the contents that were not flushed, as a power failure does on ext4. It also empties those that
// an earlier server has flushed.
func (w *world) loseContents() {
	w.t.Helper()
	s := w.reviews.store
	contents, err := filepath.Glob(filepath.Join(s.dir, "??", "*"))
	must(w.t, err)
	for _, name := range contents {
		if !s.isFlushed(filepath.Base(name)) {
			must(w.t, os.Chmod(name, 0o600))
			must(w.t, os.Truncate(name, 0))
		}
	}
}

// TestBranchHasChangesOfKindAfterAPowerFailure applies to a branch, loses the power, undoes that and applies again.
// Where files and directories replace each other, a commit of some changes without the others cannot be made.
func TestBranchHasChangesOfKindAfterAPowerFailure(t *testing.T) {
	t.Parallel()
	base, changed := files{"file": "f\n", "dir/x": "x\n"}, files{"file/x": "new f\n", "dir": "new x\n"}
	w := newRepos(t, base)
	remove(t, w.in(id), "file", "dir/x")
	write(t, w.in(id), changed)
	e := w.mustCommit("side")
	w.losePower()
	w.mustUndo(e.ID)
	if e := w.mustCommit("other"); len(e.LeftOut) > 0 {
		t.Errorf("the apply left out %v", e.LeftOut)
	}
	for p, text := range changed {
		w.wantGit(strings.TrimSpace(text), "show", "other:"+p)
	}
}

// TestUndoWritesNoDamagedContent undoes what a command did, after a power failure took the content that the file had.
// It fails, and the file stays.
func TestUndoWritesNoDamagedContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "old\n"})
	done := w.command(func() { write(t, w.in(id), files{"a": "new\n"}) }, nobody)
	w.losePower()
	if err := w.takeBack(done.Entry); fserr.CodeOf(err) != fserr.EIO {
		t.Errorf("the undo ended with %v", err)
	}
	same(t, "the context", read(t, w.in(id)), files{"a": "new\n"})
}

// TestWhatRecordsReferToSurvives loses the power after each call that records something. All contents that the records
// refer to are there.
func TestWhatRecordsReferToSurvives(t *testing.T) {
	t.Parallel()
	text := numbered(30)
	agents, users := byAgent(text), strings.Replace(text, "line 2\n", "the user's\n", 1)
	another := strings.Replace(text, "line 25\n", "another\n", 1)
	both := byAgent(another)
	all := &Selection{All: true}
	rebase := func(how OnConflict) func(w repos, used map[string]bool) {
		return func(w repos, _ map[string]bool) { w.rebase(RebaseRequest{OnConflict: how}) }
	}
	// Each call adds the contents to used that it returns, and that no record has.
	for name, do := range map[string]func(w repos, used map[string]bool){
		"apply":                func(w repos, _ map[string]bool) { w.apply(ApplyRequest{Approve: true, Selection: all}) },
		"apply with a commit":  func(w repos, _ map[string]bool) { w.mustCommit("") },
		"apply to a branch":    func(w repos, _ map[string]bool) { w.mustCommit("side") },
		"undo of a branch":     func(w repos, _ map[string]bool) { w.mustUndo(w.mustCommit("side").ID) },
		"discard":              func(w repos, _ map[string]bool) { w.discard() },
		"decide":               func(w repos, _ map[string]bool) { w.decide(Approved, *all) },
		"rebase":               rebase(TakeWorkspace),
		"recorded conflicts":   rebase(RecordConflicts),
		"conflicts in markers": rebase(WriteMarkers),
		"resolve": func(w repos, _ map[string]bool) {
			w.rebase(RebaseRequest{OnConflict: RecordConflicts})
			to := Resolution{Side: SideContent, Content: []byte("resolved\n")}
			_, err := w.reviews.Resolve(w.t.Context(), id, "a", to, "host")
			must(w.t, err)
		},
		"merged base": func(w repos, _ map[string]bool) {
			first := w.mustCommit("side", "b")
			write(w.t, w.in(id), files{"b": both})
			w.mustCommit("side", "b")
			w.mustUndo(first.ID) // the base has the other change alone, which no version had
		},
		"what the workspace has of a base that a branch has": func(w repos, _ map[string]bool) {
			w.mustCommit("side", "b")
			write(w.t, w.in(id), files{"b": both})
			write(w.t, w.in("workspace"), files{"b": strings.Replace(text, "line 15\n", "the user's\n", 1)})
			w.apply(ApplyRequest{Approve: true, Selection: &Selection{Changes: []Selected{{Path: "b"}}}})
		},
		"pull": func(w repos, _ map[string]bool) {
			w.mustPull(files{"b": another, "pulled": "pulled\n"}, files{"b": text, "gone": "gone\n"})
		},
		"push": func(w repos, _ map[string]bool) {
			w.gitIn("workspace", "branch", "side")
			_, err := w.push(w.pushing(ToBranch, "side"))
			must(w.t, err)
		},
		"submit": func(w repos, _ map[string]bool) {
			_, err := w.reviews.Submit(w.t.Context(), id, "title", "", "panel")
			must(w.t, err)
		},
		"pick": func(w repos, used map[string]bool) {
			picked, err := w.reviews.Pick(w.t.Context(), PickRequest{Context: id})
			must(w.t, err)
			for _, c := range picked.Changes {
				used[c.Before.Hash], used[c.After.Hash] = true, true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepos(t, files{"a": text, "b": text, "gone": "gone\n"})
			w.manifest.Repos = []seed.Repository{{Path: "."}}
			write(t, w.in(id), files{"a": agents, "b": agents, "new": "new\n"})
			remove(t, w.in(id), "gone")
			if name != "push" && name != "apply" && name != "apply with a commit" {
				write(t, w.in("workspace"), files{"a": users, "own": "own\n"})
			}
			used := map[string]bool{}
			do(w, used)
			st, err := w.reviews.states.read(id)
			must(t, err)
			st.use(used)
			must(t, errors.Join(w.reviews.revisions.use(used), w.reviews.journal.use(t.Context(), used)))
			w.loseContents()
			next, err := OpenStore(w.reviews.store.dir)
			must(t, err)
			for hash := range used {
				if hash != "" && !next.has(t.Context(), hash) {
					t.Errorf("content %s is lost", hash)
				}
			}
		})
	}
}

// TestContentThatAPowerFailureTook puts a content into a store that has its name, but not all of its bytes: it is written again.
func TestContentThatAPowerFailureTook(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]string{"empty": "", "zeros": "\x00\x00\x00\x00\x00\x00\x00", "a beginning": "con"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before, err := OpenStore(dir)
			must(t, err)
			hash, _, err := before.Put(t.Context(), strings.NewReader("content"))
			must(t, err)
			must(t, os.Chmod(before.path(hash), 0o600))
			must(t, os.WriteFile(before.path(hash), []byte(left), 0o600))
			s, err := OpenStore(dir) // that of the next server
			must(t, err)
			if s.has(t.Context(), hash) {
				t.Error("the store takes it for whole")
			}
			_, _, err = s.Put(t.Context(), strings.NewReader("content"))
			must(t, err)
			data, err := os.ReadFile(s.path(hash))
			must(t, err)
			if string(data) != "content" || !s.has(t.Context(), hash) {
				t.Errorf("the store has %q", data)
			}
		})
	}
}

// TestMixesOfVersions shows which contents an interrupted overwrite leaves.
func TestMixesOfVersions(t *testing.T) {
	t.Parallel()
	page := func(b byte) string { return strings.Repeat(string(b), pageSize) }
	for _, c := range []struct {
		name, now, head, tail string
		want                  bool
	}{
		{"a kill", "newer old", "newer text", "elder old", true},
		{"a kill in the second page", page('a') + "bbcc", page('a') + page('b'), page('w') + "xxcc", true},
		{"a kill beyond the tail", page('a') + "bb", page('a') + page('b'), "w", true},
		{"a kill after the tail's start", page('a') + "cc", page('a') + "b", page('w') + "xc", false},
		{"more than the head", "head and", "head", "tail", false},
		{"pages of either", page('a') + page('x') + page('c'), page('a') + page('b') + page('c'), page('w') + page('x') + page('y'), true},
		{"an empty page", page('a') + page(0), page('a') + page('b'), page('w') + page('x'), true},
		{"the length without the content", strings.Repeat("\x00", 7), "content", "old", true},
		{"a page of neither", page('a') + page('z'), page('a') + page('b'), page('w') + page('x'), false},
		{"another length", page('a') + "z", page('a') + page('b'), page('w') + page('x'), false},
		{"shorter than both", page('a'), page('a') + page('b'), page('w') + page('x'), false},
		{"longer than both", page('a') + page('b') + page(0), page('a') + page('b'), page('w') + page('x'), false},
		{"the length of the tail without the content", page('a') + page(0), page('a'), page('w') + page('x'), true},
		{"the head's page where it has none", page('a') + page('a'), page('a'), page('w') + page('x'), false},
		{
			"the head again after a kill", page('a') + page('b')[:10] + page('x')[10:] + page('c'), page('a') + page('b') + page('c'), page('w') + page('x') + page('y'),
			false,
		},
		{"a save", "by the user", "head", "tail", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := OpenStore(t.TempDir())
			must(t, err)
			var versions [3]Version
			for i, text := range []string{c.now, c.head, c.tail} {
				v := &versions[i]
				v.Hash, v.Size, err = s.Put(t.Context(), bytes.NewReader([]byte(text)))
				must(t, err)
			}
			got, err := s.isMix(versions[0], versions[1], versions[2])
			must(t, err)
			if got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestFlushedContentIsFlushedOnce flushes a content again after nothing, and after another process has removed it and written it again.
func TestFlushedContentIsFlushedOnce(t *testing.T) {
	t.Parallel()
	s, err := OpenStore(t.TempDir())
	must(t, err)
	put := func(s *Store) string {
		hash, _, err := s.Put(t.Context(), strings.NewReader("content"))
		must(t, err)
		return hash
	}
	hash := put(s)
	if s.isFlushed(hash) {
		t.Error("it counts as flushed when it was written")
	}
	must(t, s.flush(map[string]bool{hash: true}))
	if put(s); !s.isFlushed(hash) {
		t.Error("it does not count as flushed")
	}
	must(t, os.Remove(s.path(hash)))
	other, err := OpenStore(s.dir)
	must(t, err)
	past := time.Unix(1, 0)
	if put(other); os.Chtimes(s.path(hash), past, past) != nil || s.isFlushed(hash) {
		t.Error("the file of another process counts as flushed")
	}
}
