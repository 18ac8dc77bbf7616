package template

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Repo("r", "f=1")
	w.template("t", "deps: {/r: {repo: r}}")
	built, err := w.build("t")
	must(t, err)
	b, ctx := w.builder(), context.Background()
	unused := func() (bool, error) { return false, nil }
	remove := func(hash string, needed func() (bool, error)) bool {
		t.Helper()
		removed, err := b.Remove(hash, filepath.Join(t.TempDir(), "trash"), needed)
		must(t, err)
		return removed
	}
	if remove(built.Hash, func() (bool, error) { return true, nil }) {
		t.Error("what is needed was removed")
	}
	broken := errors.New("broken")
	if removed, err := b.Remove(built.Hash, "", func() (bool, error) { return false, broken }); removed || !errors.Is(err, broken) {
		t.Errorf("removed: %v, %v", removed, err)
	}
	release, err := b.lock(ctx, built.Hash)
	must(t, err)
	if remove(built.Hash, func() (bool, error) { t.Error("asked while somebody builds"); return false, nil }) {
		t.Error("what somebody is at work on was removed")
	}
	release()
	if again, err := b.Settled(ctx, built.Hash[:12]); err != nil || again == nil || again.Hash != built.Hash {
		t.Errorf("settled: %+v, %v", again, err)
	}
	if !remove(built.Hash, unused) || remove(built.Hash, unused) {
		t.Error("it should be removed, once")
	}
	if again, err := b.Settled(ctx, built.Hash); err != nil || again != nil {
		t.Errorf("settled: %+v, %v", again, err)
	}
	if _, err := w.build("t"); err != nil {
		t.Error(err)
	}
	for _, hash := range []string{"", "..", built.Hash[:12], built.Hash + "0"} {
		_, err := b.Remove(hash, "", unused)
		w.RefusedAs(err, fserr.EINVAL)
	}
}

// TestSettledWaits asks for a layer that somebody is about to remove.
func TestSettledWaits(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Repo("r", "f=1")
	w.template("t", "deps: {/r: {repo: r}}")
	built, err := w.build("t")
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		b := w.builder()
		release, err := b.lock(t.Context(), built.Hash)
		must(t, err)
		go func() {
			time.Sleep(10 * lockPoll)
			if _, err := b.drop(built.Hash, filepath.Join(w.Dir, "trash")); err != nil {
				t.Error(err)
			}
			release()
		}()
		if got, err := b.Settled(t.Context(), built.Hash); err != nil || got != nil {
			t.Errorf("settled: %+v, %v; it was being removed", got, err)
		}
	})
}
