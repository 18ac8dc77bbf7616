package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
)

func TestSlowListenerGetsOneEventForSeveral(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kinds []string
		want  string
	}{
		{[]string{eventCSS}, eventCSS},
		{[]string{eventCSS, eventCSS, eventCSS}, eventCSS},
		{[]string{eventCSS, eventReload}, eventReload},
		{[]string{eventReload, eventCSS}, eventReload},
	} {
		listener := make(chan event, 1)
		for _, kind := range c.kinds {
			offer(listener, event{kind: kind})
		}
		if got := (<-listener).kind; got != c.want || len(listener) != 0 {
			t.Errorf("%v: got %s and %d more, want %s", c.kinds, got, len(listener), c.want)
		}
	}
}

// TestBuildReloadsPagesFourTimesASecond checks how changes become events, in simulated time.
func TestBuildReloadsPagesFourTimesASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := make(chan event, 1)
		f := &feed{listeners: map[chan event]bool{listener: true}}
		changes := make(chan watch.Event)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go (&feeds{}).follow(ctx, f, changes)
		begun := time.Now()
		changes <- watch.Event{Kind: watch.Change, Name: "a.css"}
		changes <- watch.Event{Kind: watch.Change, Name: "b/c.css"}
		if got := <-listener; got.kind != eventCSS || time.Since(begun) != gather {
			t.Errorf("two style sheets: %v after %s", got, time.Since(begun))
		}
		changes <- watch.Event{Kind: watch.Overflow}
		if got := <-listener; got.kind != eventReload || time.Since(begun) != gather+calm {
			t.Errorf("an overflow right after: %v after %s", got, time.Since(begun))
		}
		heard := 0
		for range 1000 {
			changes <- watch.Event{Kind: watch.Rename, Name: "dist/chunk.js"}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			select {
			case <-listener:
				heard++
			default:
			}
		}
		if heard < 38 || heard > 41 {
			t.Errorf("%d events in 10 s of changes", heard)
		}
	})
}
