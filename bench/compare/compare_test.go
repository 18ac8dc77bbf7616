package compare

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/stand"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a peer that describes files at once, or fails.
func fake(name string, err error) *peers.Peer {
	return &peers.Peer{Name: name, Dial: func(context.Context, int) (*peers.Conn, error) {
		return &peers.Conn{Stat: func(int, string) error { return err }, Close: func() error { return nil }}, nil
	}}
}

func options(rounds int, d time.Duration) *stand.Options {
	return &stand.Options{Rounds: rounds, Time: d, Log: io.Discard}
}

var statCell = []*Cell{{Name: "stat", Concurrency: 4, Bind: quick.stat}}

func TestEveryRoundRunsEveryPeerThatCan(t *testing.T) {
	cannot := &peers.Peer{Name: "cannot", Dial: func(context.Context, int) (*peers.Conn, error) {
		return &peers.Conn{Close: func() error { return nil }}, nil
	}}
	rs, err := Measure(t.Context(), options(3, time.Millisecond), statCell, []*peers.Peer{fake("a", nil), cannot, fake("b", nil)})
	if err != nil {
		t.Fatal(err)
	}
	if len(rs) != 2 || rs[0].Peer.Name != "a" || rs[1].Peer.Name != "b" || rs[0].Rate <= 0 || rs[1].Rate <= 0 {
		t.Fatalf("%+v", rs)
	}
}

func TestAFailureIsToldWithItsPeer(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Measure(t.Context(), options(1, time.Millisecond), statCell, []*peers.Peer{fake("a", broken)}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "with a") {
		t.Errorf("%v", err)
	}
}

func TestAStopEndsARun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, options(1, time.Hour), statCell, []*peers.Peer{fake("a", nil)}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestDivideDoesEachPartOnce(t *testing.T) {
	var sum atomic.Int64
	share, err := divide(1000, 7, time.Hour, func(_, i int) error { sum.Add(int64(i)); return nil })
	if err != nil || share != 1 || sum.Load() != 999*1000/2 {
		t.Errorf("share %g, sum %d, %v", share, sum.Load(), err)
	}
}

func TestListAllDescends(t *testing.T) {
	for _, workers := range []int{1, 8} {
		var broken error
		list := func(_ int, dir string) (int, []string, error) {
			if dir == "top" {
				return 3, []string{"a", "b"}, broken
			}
			return 5, nil, nil
		}
		if n, err := listAll(list, "top", workers); n != 3+5+5 || err != nil {
			t.Errorf("%d workers: %d entries, %v", workers, n, err)
		}
		broken = errors.New("broken")
		if _, err := listAll(list, "top", workers); !errors.Is(err, broken) {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}

func TestMakeTreeMakesWhatTheCellsUse(t *testing.T) {
	s := Sizes{Files: 64, Entries: 3, StatusDirs: 30, StatusFiles: 2, GrepFiles: 120, Large: 1 << 20}
	e := &peers.Env{Options: options(1, time.Nanosecond), Root: t.TempDir()}
	var all []*peers.Peer
	for _, f := range peers.Rivals() {
		if f.Name == "local" {
			all, _, _ = e.Join(t.Context(), f)
		}
	}
	if err := MakeTree(e.Root, s, "local"); err != nil {
		t.Fatal(err)
	}
	if rs, err := Measure(t.Context(), e.Options, s.cells(), all); len(rs) != len(s.cells()) || err != nil {
		t.Errorf("%d of %d cells, %v", len(rs), len(s.cells()), err)
	}
}

var (
	own    = &peers.Peer{Name: "ctxfs", Role: peers.Product}
	tcp    = &peers.Peer{Name: "ctxfs-tcp", Role: peers.Product}
	slow   = &peers.Peer{Name: "slow", Role: peers.Rival}
	fast   = &peers.Peer{Name: "fast", Role: peers.Rival}
	echo   = &peers.Peer{Name: "echo-stream", Role: peers.Limit}
	stat1  = &Cell{Name: "stat", Concurrency: 1}
	stat32 = &Cell{Name: "stat", Concurrency: 32}
)

func result(c *Cell, p *peers.Peer, rate float64, p50 time.Duration) Result {
	return Result{Cell: c, Peer: p, Round: report.Round{Rate: rate, P50: p50}}
}

func TestRules(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		name, rule string
		results    Results
		want       string
	}{
		{"nothing measured", "stat, 32", nil, "not measured"},
		{"no peer measured", "stat, 32", Results{result(stat32, own, 10, 0)}, "not measured"},
		{"the best peer counts", "stat, 32", Results{result(stat32, own, 249, 0), result(stat32, slow, 10, 0), result(stat32, fast, 100, 0)}, "**no**"},
		{"exactly enough", "stat, 32", Results{result(stat32, own, 250, 0), result(stat32, fast, 100, 0)}, "yes"},
		{"limits are no peers", "stat, 32", Results{result(stat32, own, 250, 0), result(stat32, fast, 100, 0), result(stat32, echo, 1000, 0)}, "yes"},
		{"another concurrency is another cell", "stat, 32", Results{result(stat1, own, 250, 0), result(stat1, fast, 100, 0)}, "not measured"},
		{"at the floor", "stat, 1, unix socket", Results{result(stat1, own, 0, 120*us), result(stat1, echo, 0, 100*us)}, "yes"},
		{"above the floor", "stat, 1, unix socket", Results{result(stat1, own, 0, 121*us), result(stat1, echo, 0, 100*us)}, "**no**"},
	} {
		for _, r := range rules {
			if got := r.judge(c.results); r.Title == c.rule && got[2] != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	}
}

func TestTheTableComparesEveryPeerWithCtxfs(t *testing.T) {
	rs := Results{result(stat1, own, 300, time.Millisecond), result(stat1, tcp, 150, time.Millisecond), result(stat1, fast, 100, time.Millisecond)}
	var ratios []string
	for _, r := range rs.Table().Rows {
		ratios = append(ratios, r[len(r)-1])
	}
	if got, want := strings.Join(ratios, " "), " 2.00x 3.00x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if bars := rs.chart().Plots[0].Bars; len(bars) != 3 || bars[0].Name != "ctxfs" {
		t.Errorf("the chart has other bars: %v", bars)
	}
}
