package attack

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// race runs an operation against a mover for a while, and until another context has answered meanwhile. It returns what got out.
func (w *world) race(p pairing, long time.Duration) (found []string, did tally) {
	w.Helper()
	w.replant(row{})
	w.file("src/file", "inside")
	w.must(p.mover.plant(w))
	ctx, cancel := context.WithCancel(w.attacker.ctx)
	defer cancel()
	c := &racer{w: w, fs: ctxfsv1.NewFsServiceClient(w.cc), ctx: ctx}
	var asked int64
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ctx.Err() == nil && !w.leaking(); n++ {
			p.race.do(c, p.mover.paths[n%len(p.mover.paths)], n/len(p.mover.paths))
		}
		cancel()
	})
	all.Go(func() {
		asked = w.askVictim(ctx, long, p.String())
		cancel()
	})
	turned := w.move(ctx, p.mover)
	all.Wait()
	c.did.turned, c.did.asked = turned, asked
	w.checkInside(p.String(), nil)
	w.replant(row{})
	w.remove(w.gone()) // which an operation may have kept from coming back
	w.checkAll(p.String())
	return w.takeLeaks(), c.did
}

// pairing is a race and its mover.
type pairing struct {
	race  race
	mover mover
}

func (p pairing) String() string { return p.race.name + ", " + p.mover.name }

// pairings are all operations by the movers that fit.
func pairings(cfg config) (all []pairing) {
	for _, m := range movers() {
		for _, r := range races() {
			if m.fits(cfg) {
				all = append(all, pairing{race: r, mover: m})
			}
		}
	}
	return all
}

// TestRaces runs every operation against every mover, by every driver and implementation.
func TestRaces(t *testing.T) {
	all := configs(t)
	long := attackTime() / time.Duration(len(all))
	cases, leaks, sums := 0, 0, map[string]*tally{}
	for _, cfg := range all {
		t.Run(cfg.String(), func(t *testing.T) {
			w := newWorld(t, cfg)
			w.race(pairings(cfg)[0], time.Millisecond)
			base := w.resources()
			for _, p := range pairings(cfg) {
				found, did := w.race(p, long)
				w.checkHeld(p.String(), base)
				found = append(found, w.takeLeaks()...)
				cases, leaks = cases+1, leaks+len(found)
				for _, l := range found {
					t.Errorf("%s: %s", p, l)
				}
				if sums[p.String()] == nil {
					sums[p.String()] = &tally{}
				}
				sums[p.String()].add(did)
			}
			w.checkResources(base)
			w.report()
		})
	}
	calls := int64(0)
	for name, sum := range sums {
		calls += sum.tried()
		t.Logf("%s: %d turns, another context asked %d times, calls %v", name, sum.turned, sum.asked, sum.calls)
		for _, idle := range sum.idle() {
			t.Errorf("%s: %s", name, idle)
		}
	}
	fmt.Printf("attack: %d races (%d calls), %d leaks\n", cases, calls, leaks)
}

// TestNaiveRaces shows that the races can fail. A busy machine gets further, longer rounds.
func TestNaiveRaces(t *testing.T) {
	w := newWorld(t, config{driver: "copy", implementation: "naive", transport: "unary", open: openNaive})
	all := pairings(w.cfg)
	missed := w.missed(all, attackTime()/3) // most are caught at once
	enough := func() bool { return (len(all)-len(missed))*10 >= len(all)*6 }
	for round := 0; !enough() && round < 8; round++ {
		missed = w.missed(missed, 4*attackTime())
	}
	fmt.Printf("attack: naive rootfs: caught in %d of %d race rows\n", len(all)-len(missed), len(all))
	t.Logf("not caught: %v", missed)
	if !enough() {
		t.Errorf("the naive rootfs was not caught in %d of %d races", len(missed), len(all))
	}
}

// missed returns the races in which nothing was found.
func (w *world) missed(all []pairing, long time.Duration) (missed []pairing) {
	for _, p := range all {
		if found, _ := w.race(p, long); len(found) == 0 {
			missed = append(missed, p)
			continue
		}
		w.repair()
	}
	return missed
}
