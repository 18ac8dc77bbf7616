package review

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestFlippedFileIsAppliedAsReviewed flips a file between the reviewed content and another one of the same size and times, all the while a reviewer
// lists, decides and applies.
func TestFlippedFileIsAppliedAsReviewed(t *testing.T) {
	t.Parallel()
	rounds := 10
	if os.Getenv(killsEnv) != "" {
		rounds = 200
	}
	w := newWorld(t, files{"a": "original\n"})
	write(t, w.in(id), files{"a": "safe 000\n"})
	name := filepath.Join(w.in(id), "a")
	st, err := os.Stat(name)
	must(t, err)
	var round, stop atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		for stop.Load() == 0 {
			for _, text := range []string{"EVIL %03d\n", "safe %03d\n"} {
				if err := errors.Join(overwrite(name, fmt.Sprintf(text, round.Load())), os.Chtimes(name, st.ModTime(), st.ModTime())); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	defer wg.Wait()
	defer stop.Store(1)
	refused := 0
	for n := range rounds {
		round.Store(int32(n))
		text := fmt.Sprintf("safe %03d\n", n)
		for !w.approves(text) {
			refused++
		}
		e := w.apply(ApplyRequest{})
		same(t, "applied", read(t, w.in("workspace")), files{"a": text})
		_, err := w.undo(e.ID)
		must(t, err)
	}
	t.Logf("%d decisions refused", refused)
	if refused == 0 {
		t.Error("no decision met a flip")
	}
}

// approves reports whether it could list a content and approve it; another one may stand there now.
func (w *world) approves(text string) bool {
	w.t.Helper()
	changes := w.changes(Query{}).Changes
	if len(changes) == 0 || changes[0].After.Hash != hashOfText(text) {
		return false
	}
	_, err := w.reviews.Decide(w.t.Context(), DecideRequest{
		Context: id, Selection: Selection{Changes: []Selected{{Path: "a", ChangeID: changes[0].ID}}}, Decision: Approved, Actor: "host",
	})
	var stale *Error
	if fserr.CodeOf(err) == fserr.EBUSY || (errors.As(err, &stale) && stale.Reason == StaleRevision) {
		return false
	}
	must(w.t, err)
	return true
}

// overwrite writes a file in place, with no moment in which it is shorter.
func overwrite(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
