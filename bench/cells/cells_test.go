package cells

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/peers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake does everything at once, and fails when told.
type fake struct {
	peers.Conn
	calls atomic.Int64
	err   error
}

func (f *fake) Close() error { return nil }

func (f *fake) Stat(int, string) error {
	f.calls.Add(1)
	return f.err
}

func (f *fake) List(_ int, dir string) (int, []string, error) {
	if dir == "top" {
		return 3, []string{"a", "b"}, f.err
	}
	return 5, nil, f.err
}

func peer(name string, f *fake) *peers.Peer {
	return &peers.Peer{Name: name, Dial: func(context.Context, int) (peers.Conn, error) { return f, nil }}
}

func statCell() *Cell {
	return &Cell{Name: "stat", Concurrency: 4, Workers: 4, Parts: 1, Bind: Quick().stat}
}

func TestEveryRoundRunsEveryPeerThatCan(t *testing.T) {
	cannot := &peers.Peer{Name: "cannot", Dial: func(context.Context, int) (peers.Conn, error) { return closer{}, nil }}
	rs, err := Run(t.Context(), statCell(), []*peers.Peer{peer("a", &fake{}), cannot, peer("b", &fake{})}, Options{Rounds: 3, Time: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(rs) != 2 || rs[0].Peer.Name != "a" || rs[1].Peer.Name != "b" {
		t.Fatalf("%d results", len(rs))
	}
	for _, r := range rs {
		if len(r.Rounds) != 3 || r.Median.Rate <= 0 {
			t.Errorf("%s: %d rounds, rate %g", r.Peer.Name, len(r.Rounds), r.Median.Rate)
		}
	}
}

type closer struct{}

func (closer) Close() error { return nil }

func TestAFailureIsToldWithItsPeer(t *testing.T) {
	broken := errors.New("broken")
	_, err := Run(t.Context(), statCell(), []*peers.Peer{peer("a", &fake{err: broken})}, Options{Rounds: 1, Time: time.Millisecond})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestAStopEndsARun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, statCell(), []*peers.Peer{peer("a", &fake{})}, Options{Rounds: 1, Time: time.Hour})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestDivideDoesEachPartOnce(t *testing.T) {
	var sum atomic.Int64
	share, err := divide(1000, 7, func(_, i int) error { sum.Add(int64(i)); return nil })
	if err != nil || share != 1 || sum.Load() != 999*1000/2 {
		t.Errorf("share %g, sum %d, %v", share, sum.Load(), err)
	}
}

func TestListAllDescends(t *testing.T) {
	for _, workers := range []int{1, 8} {
		if n, err := listAll(&fake{}, "top", workers); n != 3+5+5 || err != nil {
			t.Errorf("%d workers: %d entries, %v", workers, n, err)
		}
		broken := errors.New("broken")
		if _, err := listAll(&fake{err: broken}, "top", workers); !errors.Is(err, broken) {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}

func TestMakeTreeMakesWhatTheCellsUse(t *testing.T) {
	root := t.TempDir()
	s := Sizes{Files: 64, Entries: 3, StatusDirs: 30, StatusFiles: 2, GrepFiles: 120, Large: 1 << 20}
	local := &peers.Local{}
	all, err := local.Start(t.Context(), peers.Env{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	if err := MakeTree(root, s, []string{"local"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range All(s) {
		if _, err := Run(t.Context(), c, all, Options{Rounds: 1, Time: time.Nanosecond}); err != nil {
			t.Errorf("%s: %v", c.Key(), err)
		}
	}
}
