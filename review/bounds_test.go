package review

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// large returns a content of 100 KiB that no other number has.
func large(n int) string { return strings.Repeat(fmt.Sprintf("%09d\n", n), 10<<10) }

// stored returns the space that the store takes.
func (w *world) stored() (n int64) {
	w.t.Helper()
	w.reviews.tidying.Wait()
	must(w.t, filepath.WalkDir(w.in("state/blobs"), func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		n += info.Size()
		return err
	}))
	return n
}

// entries returns the IDs of the journal's entries.
func (w *world) entries() []int64 {
	w.t.Helper()
	ids, err := w.reviews.journal.ids(doneSuffix)
	must(w.t, err)
	return ids
}

// TestJournalOfPanelsIsBounded lets a panel rewrite a file of 100 KiB 40 times, each in an entry of one kind. The entries that are left keep what
// the bound says, the newest of them can be undone, and the store has no content of the others.
func TestJournalOfPanelsIsBounded(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	discard := func(w *world, _ int) {
		_, err := w.reviews.Discard(t.Context(), id, Selection{All: true}, "", "panels/a")
		must(t, err)
	}
	none := func(*world, int) {}
	for name, c := range map[string]struct {
		bounds      bounds
		within, end func(w *world, i int)
		kept        int
	}{
		"commands, of a context": {bounds{entries: 1000, entryBytes: most, allEntryBytes: 1 << 40}, none, none, 5},
		"commands, in all":       {bounds{entries: 1000, entryBytes: 1 << 40, allEntryBytes: most}, none, none, 5},
		"commands, by number":    {bounds{entries: 3, entryBytes: 1 << 40, allEntryBytes: 1 << 40}, none, none, 3},
		"the newest stays":       {bounds{entries: 1000, entryBytes: 1, allEntryBytes: 1}, none, none, 1},
		"discards":               {bounds{entries: 1000, entryBytes: most, allEntryBytes: 1 << 40}, nil, discard, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"a": "base\n"})
			c.bounds.checkpointBytes, c.bounds.garbage = 1<<40, 200<<10
			w.reviews.bounds = c.bounds
			peak := int64(0)
			for i := range 40 {
				change := func() { write(t, w.in(id), files{"a": large(i)}) }
				if c.within == nil {
					change()
				} else {
					w.command(change, nobody)
				}
				c.end(w, i)
				peak = max(peak, w.stored())
			}
			ids := w.entries()
			if len(ids) != c.kept {
				t.Errorf("%d entries are kept, want %d", len(ids), c.kept)
			}
			if want := int64(c.kept+1)*2*100<<10 + 500<<10; peak > want {
				t.Errorf("the store took %d bytes, want at most %d", peak, want)
			}
			before := read(t, w.in(id))
			must(t, w.takeBack(ids[len(ids)-1]))
			if after := read(t, w.in(id)); after["a"] == before["a"] || len(after["a"]) < 5 {
				t.Errorf("the undo left %.20q", after["a"])
			}
			err := w.takeBack(1)
			if fserr.CodeOf(err) != fserr.ENOENT || !strings.Contains(err.Error(), "does not keep entry 1 any more") {
				t.Errorf("undo of a dropped entry: %v", err)
			}
			if err := w.takeBack(1000); fserr.CodeOf(err) != fserr.ENOENT || !strings.Contains(err.Error(), "has no entry") {
				t.Errorf("undo of no entry: %v", err)
			}
		})
	}
}

// TestPanelsDoNotDisplaceWhatHostsDid has a host apply, and panels run commands beyond every bound. The apply can be undone then.
func TestPanelsDoNotDisplaceWhatHostsDid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n", "b": "base\n"})
	w.reviews.bounds = bounds{entries: 2, entryBytes: 300 << 10, allEntryBytes: 400 << 10, checkpointBytes: 1 << 40, garbage: 1}
	write(t, w.in(id), files{"b": "applied\n"})
	applied := w.apply(ApplyRequest{Selection: &Selection{All: true}, Approve: true})
	for i := range 10 {
		w.command(func() { write(t, w.in(id), files{"a": large(i)}) }, nobody)
	}
	if ids := w.entries(); len(ids) != 2 || ids[0] != applied.ID {
		t.Errorf("kept are the entries %v, want the apply %d and one command", ids, applied.ID)
	}
	_, err := w.undo(applied.ID)
	must(t, err)
	same(t, "the workspace", read(t, w.in("workspace")), files{"a": "base\n", "b": "base\n"})
}

// TestPanelsDoNotDisplaceEachOther has a panel of one context run many commands. The command of another context, which is older, can be undone.
func TestPanelsDoNotDisplaceEachOther(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]bounds{
		"bytes":  {entries: 1000, entryBytes: 1 << 40, allEntryBytes: 1 << 20},
		"number": {entries: 4, entryBytes: 1 << 40, allEntryBytes: 1 << 40},
	} {
		w := newWorld(t, files{"a": "base\n"})
		must(t, os.CopyFS(w.in("ctx_b"), os.DirFS(w.in(id))))
		b.checkpointBytes, b.garbage = 1<<40, 1
		w.reviews.bounds = b
		before, err := w.reviews.Checkpoint(t.Context(), "ctx_b")
		must(t, err)
		write(t, w.in("ctx_b"), files{"a": "of b\n"})
		done, err := w.reviews.Record(t.Context(), before, "host", "make", nobody)
		must(t, err)
		for i := range 12 {
			w.command(func() { write(t, w.in(id), files{"a": large(i)}) }, nobody)
		}
		if ids := w.entries(); len(ids) > 6 || ids[0] != done.Entry {
			t.Errorf("%s: kept are %v, want %d among them", name, ids, done.Entry)
		}
		must(t, w.takeBack(done.Entry))
		same(t, name, read(t, w.in("ctx_b")), files{"a": "base\n"})
	}
}

// TestWhatRunsKeepsItsContents removes contents while a command with a checkpoint runs, and between the steps of a call.
func TestWhatRunsKeepsItsContents(t *testing.T) {
	t.Parallel()
	for _, ends := range []string{"recorded", "dropped"} {
		w := newWorld(t, files{"a": "base\n"})
		w.reviews.bounds.garbage = 1
		write(t, w.in(id), files{"a": large(1)})
		before, err := w.reviews.Checkpoint(t.Context(), id)
		must(t, err)
		write(t, w.in(id), files{"a": "short\n"})
		must(t, w.reviews.collect(t.Context()))
		if ends == "dropped" {
			before.Drop()
			must(t, w.reviews.collect(t.Context()))
			if n := w.stored(); n != 0 {
				t.Errorf("the store has %d bytes after the drop", n)
			}
			continue
		}
		done, err := w.reviews.Record(t.Context(), before, "host", "make", nobody)
		must(t, err)
		must(t, w.takeBack(done.Entry))
		same(t, "after the undo", read(t, w.in(id)), files{"a": large(1)})
	}
	w := newWorld(t, files{"a": "base\n"})
	release := w.reviews.Hold()
	hash, _, err := w.reviews.store.Put(t.Context(), strings.NewReader("of a call that runs"))
	must(t, err)
	later := w.reviews.Hold()
	release()
	must(t, w.reviews.collect(t.Context()))
	if w.reviews.store.has(t.Context(), hash) {
		t.Error("the content of a call that has ended stays")
	}
	hash, _, err = w.reviews.store.Put(t.Context(), strings.NewReader("of a call that runs"))
	must(t, err)
	must(t, w.reviews.collect(t.Context()))
	if !w.reviews.store.has(t.Context(), hash) {
		t.Error("the content of a call that runs was removed")
	}
	later()
}

// TestManyTouchedContentsStay has a call put more contents than uses remembers.
func TestManyTouchedContentsStay(t *testing.T) {
	t.Parallel()
	var u uses
	call := u.begin()
	for i := range maxTouched + 2 {
		u.touch(fmt.Sprint(i))
	}
	for _, name := range []string{"0", fmt.Sprint(maxTouched + 1)} {
		must(t, u.unless(name, u.oldest(), func() error { return fmt.Errorf("%s may be removed", name) }))
	}
	if len(u.at) > maxTouched {
		t.Errorf("it has %d names", len(u.at))
	}
	u.end(call)
	removed := false
	must(t, u.unless("0", u.oldest(), func() error { removed = true; return nil }))
	if !removed {
		t.Error("a content stays although no call runs")
	}
}

// TestRunningCheckpointsAreBounded begins checkpoints of commands that run on, each with another content of 100 KiB.
func TestRunningCheckpointsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n"})
	w.reviews.bounds.checkpointBytes = 250 << 10
	var running []*Checkpoint
	var err error
	for i := 0; err == nil && i < 10; i++ {
		write(t, w.in(id), files{"a": large(i)})
		var c *Checkpoint
		if c, err = w.reviews.Checkpoint(t.Context(), id); err == nil {
			running = append(running, c)
		}
	}
	if fserr.CodeOf(err) != fserr.EDQUOT || len(running) != 2 || !strings.Contains(err.Error(), "300 KiB of 250 KiB") {
		t.Errorf("after %d checkpoints: %v", len(running), err)
	}
	must(t, os.CopyFS(w.in("ctx_b"), os.DirFS(w.in(id))))
	other, err := w.reviews.Checkpoint(t.Context(), "ctx_b")
	must(t, err) // another context has its own bound
	other.Drop()
	running[0].Drop()
	c, err := w.reviews.Checkpoint(t.Context(), id)
	must(t, err)
	c.Drop()
	running[1].Drop()
	w.reviews.bounds.checkpointBytes = 1
	c, err = w.reviews.Checkpoint(t.Context(), id)
	must(t, err) // one always may run
	c.Drop()
	must(t, os.Remove(filepath.Join(w.in(id), "a")))
	none, err := w.reviews.Checkpoint(t.Context(), id)
	must(t, err)
	write(t, w.in(id), files{"a": large(1)})
	c, err = w.reviews.Checkpoint(t.Context(), id)
	must(t, err) // the other one keeps nothing
	none.Drop()
	c.Drop()
}

// TestRevisionsAreBoundedInBytes submits contents of 100 KiB. The newest revision stays, however large it is.
func TestRevisionsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	for most, kept := range map[int64]int{1: 1, 350 << 10: 3, 1 << 40: 6} {
		w := newWorld(t, files{"a": "base\n"})
		w.reviews.bounds.revisionBytes, w.reviews.bounds.garbage = most, 100<<10
		var ids []string
		for i := range 6 {
			write(t, w.in(id), files{"a": large(i)})
			ids = append(ids, w.submit())
		}
		for i, rev := range ids {
			l, err := w.reviews.Changes(t.Context(), Query{Context: id, Against: Against{Revision: rev}})
			if is := i >= len(ids)-kept; is != (err == nil) || !is && fserr.CodeOf(err) != fserr.ENOENT {
				t.Errorf("bound %d: revision %d of %d: %v", most, i, len(ids), err)
			}
			if err == nil {
				must(t, l.Close())
			}
		}
		if n := w.stored(); n > int64(kept+1)*100<<10 {
			t.Errorf("bound %d: the store has %d bytes", most, n)
		}
	}
}

// TestSparseContentsCountWhatTheyTake: a file of 1 GiB of holes keeps nothing from being undone.
func TestSparseContentsCountWhatTheyTake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n"})
	w.reviews.bounds.entryBytes = 1 << 20
	w.command(func() { write(t, w.in(id), files{"a": "second\n"}) }, nobody)
	w.command(func() { must(t, os.Truncate(filepath.Join(w.in(id), "a"), 1<<30)) }, nobody)
	if ids := w.entries(); !slices.Equal(ids, []int64{1, 2}) {
		t.Errorf("kept are %v", ids)
	}
}

// TestCommentsAreBounded decides on three files with comments that fit, then with longer ones, and without any.
func TestCommentsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "1\n", "b": "1\n", "c": "1\n"})
	w.reviews.bounds.commentBytes = 300
	write(t, w.in(id), files{"a": "2\n", "b": "2\n", "c": "2\n"})
	for n, want := range map[int]fserr.Code{100: 0, 101: fserr.EDQUOT, 0: 0} {
		_, err := w.reviews.Decide(t.Context(), DecideRequest{Context: id, Selection: Selection{All: true}, Decision: Rejected, Comment: strings.Repeat("x", n)})
		if (err != nil) != (want != 0) || err != nil && fserr.CodeOf(err) != want {
			t.Errorf("comments of %d bytes: %v", n, err)
		}
	}
}

// TestCallsKeepTheirContentsWhileOthersAreRemoved has another call begin and end while contents are removed. What it has recorded is there then.
func TestCallsKeepTheirContentsWhileOthersAreRemoved(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(w *world){
		"decides": func(w *world) {
			write(t, w.in(id), files{"a": "approved\n"})
			w.decide(Approved, Selection{All: true})
		},
		"copies a context, and deletes it": func(w *world) {
			must(t, w.reviews.Copied("ctx_b", "ctx_c", ""))
			must(t, w.reviews.Deleted("ctx_b"))
		},
	} {
		w := newWorld(t, files{"a": "base\n"})
		hash, _, err := w.reviews.store.Put(t.Context(), strings.NewReader("override\n"))
		must(t, err)
		override := Version{Type: rootfs.TypeFile, Mode: 0o644, Size: 9, Hash: hash}
		must(t, w.reviews.states.write("ctx_b", &state{Format: stateFormat, Overrides: pathMap[Version]{"a": override}}))
		point := w.reviews.point
		w.at("states listed", func() {
			call(w)
		})
		must(t, w.reviews.collect(t.Context()))
		w.reviews.point = point
		used := map[string]bool{}
		names, err := filepath.Glob(w.in("state/contexts/*.json"))
		must(t, err)
		for _, name := range names {
			st, err := w.reviews.states.read(strings.TrimSuffix(filepath.Base(name), ".json"))
			must(t, err)
			st.use(used)
		}
		if len(used) == 0 {
			t.Errorf("%s: no state refers to a content", name)
		}
		for hash := range used {
			if !w.reviews.store.has(t.Context(), hash) {
				t.Errorf("%s: content %.8s was removed", name, hash)
			}
		}
	}
}

// TestUndoOfAnEntryThatIsDroppedMeanwhile has a command of another context drop the entry that an undo has just read. The undo has all contents.
func TestUndoOfAnEntryThatIsDroppedMeanwhile(t *testing.T) {
	t.Parallel()
	base := files{"a": large(0), "b": "base\n"}
	for name, do := range map[string]func(w *world){
		"command": func(w *world) { w.command(func() { write(t, w.in(id), files{"a": large(1)}) }, nobody) },
		"discard": func(w *world) {
			write(t, w.in(id), files{"a": large(1)})
			_, err := w.reviews.Discard(t.Context(), id, Selection{All: true}, "", "panels/a")
			must(t, err)
		},
		"pull": func(w *world) {
			req := pulling(files{"a": large(1), "b": "base\n"})
			req.Actor, req.Tracked = "panels/a", map[Path]bool{"a": true, "b": true}
			_, err := w.reviews.Pull(t.Context(), req)
			must(t, err)
		},
	} {
		w := newWorld(t, base)
		must(t, os.CopyFS(w.in("ctx_b"), os.DirFS(w.in(id))))
		do(w)
		want := large(0)
		if name == "discard" {
			want = large(1)
		}
		if read(t, w.in(id))["a"] == want {
			t.Errorf("%s: nothing was done", name)
		}
		w.reviews.bounds.allEntryBytes, w.reviews.bounds.garbage = 1, 1
		dropped := false
		w.through = func(root rootfs.Root) rootfs.Root {
			w.through = nil
			from, err := w.reviews.Checkpoint(t.Context(), "ctx_b")
			must(t, err)
			write(t, w.in("ctx_b"), files{"b": "of b\n"})
			_, err = w.reviews.Record(t.Context(), from, "host", "make", nobody)
			must(t, err)
			w.reviews.tidying.Wait()
			dropped = !slices.Contains(w.entries(), 1)
			return root
		}
		if err := w.takeBack(1); err != nil || !dropped {
			t.Errorf("%s: the entry was dropped: %v; the undo: %v", name, dropped, err)
		}
		same(t, name, read(t, w.in(id)), files{"a": want, "b": "base\n"})
	}
}

// TestEntriesAreDroppedWhileTheyAreListed removes an entry after the journal has listed it.
func TestEntriesAreDroppedWhileTheyAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n"})
	for i := range 3 {
		w.command(func() { write(t, w.in(id), files{"a": large(i)}) }, nobody)
	}
	out, _, err := w.reviews.Journal(t.Context(), func(e *Entry) bool {
		if e.ID == 3 {
			must(t, os.Remove(w.reviews.journal.file(2, doneSuffix)))
		}
		return true
	}, 0, 10)
	if err != nil || len(out) != 2 || out[1].ID != 1 {
		t.Errorf("got %v, %v", out, err)
	}
}

// TestUndoWithoutItsContentsDoesNothing removes what an undo needs from the store. The undo says so, and puts back what it has begun.
func TestUndoWithoutItsContentsDoesNothing(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(w *world) int64{
		"in place": func(w *world) int64 {
			return w.command(func() { write(t, w.in(id), files{"a": "2\n", "b": "2\n"}) }, nobody).Entry
		},
		"exchanged": func(w *world) int64 {
			return w.mustPull(files{"a": "2\n", "b": "2\n"}, files{"a": "1\n", "b": "1\n"}).ID
		},
	} {
		w := newWorld(t, files{"a": "1\n", "b": "1\n"})
		done := do(w)
		must(t, os.Remove(w.reviews.store.path(hashOfText("1\n"))))
		err := w.takeBack(done)
		if fserr.CodeOf(err) != fserr.EIO || !strings.Contains(err.Error(), "a reviewed content is missing") {
			t.Errorf("%s: %v", name, err)
		}
		same(t, name, read(t, w.in(id)), files{"a": "2\n", "b": "2\n"})
	}
}

// TestJournalKeepsRepeatableCalls has calls with a RequestID, and more others than the journal keeps. The bounds hold, and the entries of calls that a
// client may repeat stay longest, but for the newest entry.
func TestJournalKeepsRepeatableCalls(t *testing.T) {
	t.Parallel()
	now := time.Now()
	long, lately := now.Add(-2*requestsKept), now.Add(-time.Minute)
	free := bounds{entries: 1000, entryBytes: 1 << 40, allEntryBytes: 1 << 40}
	of := func(change func(b *bounds)) bounds {
		b := free
		change(&b)
		return b
	}
	in := func(at time.Time) cost { return cost{context: "a", ofPanel: true, bytes: 10, requested: at} }
	other := func(at time.Time) cost { return cost{requested: at} }
	for name, c := range map[string]struct {
		most    bounds
		entries []cost // from ID 1
		dropped []int64
	}{
		"within the bounds":            {free, []cost{in(lately), in(time.Time{})}, nil},
		"bytes of a context":           {of(func(b *bounds) { b.entryBytes = 20 }), []cost{in(lately), in(time.Time{}), in(time.Time{}), in(time.Time{})}, []int64{2, 3}},
		"bytes in all":                 {of(func(b *bounds) { b.allEntryBytes = 20 }), []cost{in(lately), in(time.Time{}), in(time.Time{})}, []int64{2}},
		"number":                       {of(func(b *bounds) { b.entries = 2 }), []cost{in(lately), in(time.Time{}), in(time.Time{})}, []int64{2}},
		"long ago":                     {of(func(b *bounds) { b.entryBytes = 20 }), []cost{in(long), in(time.Time{}), in(time.Time{})}, []int64{1}},
		"all repeatable":               {of(func(b *bounds) { b.entryBytes = 20 }), []cost{in(lately), in(lately), in(lately)}, []int64{1}},
		"the newest stays":             {of(func(b *bounds) { b.entryBytes = 10 }), []cost{in(lately), in(time.Time{})}, []int64{1}},
		"of hosts":                     {of(func(b *bounds) { b.entries = 2 }), []cost{other(lately), other(time.Time{}), other(time.Time{})}, []int64{2}},
		"of hosts, all repeatable":     {of(func(b *bounds) { b.entries = 2 }), []cost{other(lately), other(lately), other(lately)}, []int64{1}},
		"of hosts, the newest of many": {of(func(b *bounds) { b.entries = 1 }), []cost{other(lately), other(time.Time{})}, []int64{1}},
	} {
		k, costs := keptEntries{of: map[string][]int64{}, bytes: map[string]int64{}, now: now}, map[int64]cost{}
		for i, e := range c.entries {
			costs[int64(i+1)] = e
			k.add(int64(i+1), e)
		}
		if got := k.surplus(c.most, costs); !slices.Equal(got, c.dropped) {
			t.Errorf("%s: %v are dropped, want %v", name, got, c.dropped)
		}
	}
}

// TestLatePushIsNotRepeated has a panel run many commands after a push. The push is called again then, and does nothing.
func TestLatePushIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n"})
	w.reviews.bounds.entryBytes = 1 << 20
	push := PushRequest{Context: id, Actor: "panel", RequestID: "request", Target: ToBranch}
	first, err := w.reviews.Push(t.Context(), push)
	must(t, err)
	for i := range 10 {
		w.command(func() { write(t, w.in(id), files{"a": large(i)}) }, nobody)
	}
	if ids := w.entries(); len(ids) > 6 {
		t.Errorf("%d entries are kept", len(ids))
	}
	again, err := w.reviews.Push(t.Context(), push)
	must(t, err)
	if again.ID != first.ID {
		t.Errorf("the push was repeated as entry %d, the first one was %d", again.ID, first.ID)
	}
}

// TestNoContentWaitsForTheRemovalOfAnother has the disk keep the removal of a content waiting. Other contents are found meanwhile; the one that is
// removed is not, before the removal has ended.
func TestNoContentWaitsForTheRemovalOfAnother(t *testing.T) {
	t.Parallel()
	var u uses
	defer u.end(u.begin())
	begun, removed, found := make(chan bool), make(chan bool), make(chan bool)
	oldest := u.oldest() + 1
	go func() { _ = u.unless("a", oldest, func() error { close(begun); <-removed; return nil }) }()
	<-begun
	u.touch("b")
	must(t, u.unless("c", oldest, func() error { return nil }))
	must(t, u.unless("a", oldest, func() error { t.Error("a content is removed twice"); return nil }))
	u.end(u.begin())
	go func() { u.touch("a"); close(found) }()
	select {
	case <-found:
		t.Error("a content is found while it is removed")
	case <-time.After(20 * time.Millisecond): // clock: a touch that does not wait has ended
	}
	close(removed)
	<-found
}

// TestCallDoesNotPayForTidying has a call write so much that contents are removed. The call ends before that, and Close ends it.
func TestCallDoesNotPayForTidying(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n"})
	w.reviews.bounds.garbage = 1
	begun, goOn := make(chan bool), make(chan bool)
	w.reviews.point = func(phase string) {
		if phase == "states listed" {
			close(begun)
			<-goOn
		}
	}
	write(t, w.in(id), files{"a": large(1)})
	w.decide(Approved, Selection{All: true})
	<-begun
	w.changes(Query{}) // another call does not wait, and begins no other collection
	close(goOn)
	must(t, w.reviews.Close())
	w.open()
}

// TestListWhoseContentsGo has other calls move the base of a change that was listed, and remove what it was. Each call that reads the change then says to try
// again.
func TestListWhoseContentsGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second, third string
	}{
		"text":     {"one\n", "two\n", "three\n"},
		"binary":   {"\x00one", "\x00two", "\x00three"},
		"deletion": {"one\n", "two\n", ""},
	} {
		w := newWorld(t, files{"a": c.first})
		write(t, w.in(id), files{"a": c.second})
		w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true}) // the base is of the store
		if c.third == "" {
			remove(t, w.in(id), "a")
		} else {
			write(t, w.in(id), files{"a": c.third})
		}
		l, err := w.reviews.Changes(t.Context(), Query{Context: id})
		must(t, err)
		change := l.Changes[0]
		if change.Text != nil {
			change.Text.drop() // as if the list had too many lines
		}
		must(t, os.RemoveAll(w.in("state/blobs")))
		must(t, os.Mkdir(w.in("state/blobs"), 0o700))
		wantBusy := func(call string, err error) {
			t.Helper()
			var e *fserr.Error
			if !errors.As(err, &e) || e.Code != fserr.EBUSY || e.Path != "/a" || e.Hint == "" {
				t.Errorf("%s: %s ended with %v", name, call, err)
			}
		}
		wantBusy("a patch", w.reviews.Patch(t.Context(), l, change, 3, io.Discard))
		if change.Text != nil {
			_, err = w.reviews.Text(t.Context(), l, change)
			wantBusy("a text", err)
		}
		must(t, l.Close())
	}
}
