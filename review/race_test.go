package review

import (
	"errors"
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
	rounds := 20
	if os.Getenv(killsEnv) != "" {
		rounds = 200
	}
	w := newWorld(t, files{"a": "original\n"})
	write(t, w.in(id), files{"a": "reviewed\n"})
	reviewed := w.changes(Query{}).Changes[0].ID
	name := filepath.Join(w.in(id), "a")
	st, err := os.Stat(name)
	must(t, err)
	var stop atomic.Bool
	var wg sync.WaitGroup
	flips := 0
	wg.Go(func() {
		for ; !stop.Load(); flips++ {
			for _, text := range []string{"EVIL one\n", "reviewed\n"} {
				if err := errors.Join(overwrite(name, text), os.Chtimes(name, st.ModTime(), st.ModTime())); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	refused := 0
	for range rounds {
		for !w.approves(reviewed) {
			refused++
		}
		e := w.apply(ApplyRequest{})
		same(t, "applied", read(t, w.in("workspace")), files{"a": "reviewed\n"})
		_, err := w.undo(e.ID)
		must(t, err)
	}
	t.Logf("%d flips, %d decisions refused", flips, refused)
	if refused == 0 {
		t.Error("no decision met a flip")
	}
}

// approves reports whether a change could be approved; another content may stand there now.
func (w *world) approves(change string) bool {
	w.t.Helper()
	_, err := w.reviews.Decide(w.t.Context(), DecideRequest{
		Context: id, Selection: Selection{Changes: []Selected{{Path: "a", ChangeID: change}}}, Decision: Approved, Actor: "host",
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
