package gate_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// closingRoot counts its closings.
type closingRoot struct {
	rootfs.Root
	closed atomic.Int32
}

func (r *closingRoot) Close() error {
	r.closed.Add(1)
	return nil
}

func TestViewsCloseWhenNobodyUsesThem(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var views gate.Views
		var roots []*closingRoot
		kept := gate.Kept{Context: "ctx_a", Name: "s", Taken: 7}
		acquire := func() *gate.Access {
			t.Helper()
			a, err := views.Acquire(t.Context(), kept, func(context.Context) (string, rootfs.Root, error) {
				roots = append(roots, &closingRoot{})
				return dir, roots[len(roots)-1], nil
			})
			if err != nil || a.Generation != 7 {
				t.Fatal(a, err)
			}
			return a
		}
		want := func(when string, closed ...int32) {
			t.Helper()
			synctest.Wait()
			for i, r := range roots {
				if len(closed) != len(roots) || r.closed.Load() != closed[i] {
					t.Fatalf("%s: %d opened, number %d closed %d times; want %v", when, len(roots), i, r.closed.Load(), closed)
				}
			}
		}
		a, b := acquire(), acquire()
		a.Release()
		a.Release()
		time.Sleep(time.Hour)
		want("one uses it", 0)
		b.Release()
		time.Sleep(59 * time.Second)
		acquire().Release()
		time.Sleep(59 * time.Second)
		want("within a minute", 0)
		time.Sleep(2 * time.Second)
		want("after a minute", 1)

		a = acquire()
		views.Drop(func(k gate.Kept) bool { return k != kept })
		want("another was dropped", 1, 0)
		views.Drop(func(k gate.Kept) bool { return k == kept })
		want("dropped while it is used", 1, 0)
		b = acquire()
		a.Release()
		want("the last user of the dropped one left", 1, 1, 0)
		views.Close()
		b.Release()
		want("closed", 1, 1, 1)
		_, err := views.Acquire(t.Context(), kept, func(context.Context) (string, rootfs.Root, error) { return dir, &closingRoot{}, nil })
		if fserr.CodeOf(err) != fserr.ECANCELED {
			t.Errorf("after Close: %v", err)
		}
	})
}
