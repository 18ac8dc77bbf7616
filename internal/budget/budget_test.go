package budget

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/mem"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

const kib = 1 << 10

// hold is a hold of n bytes, which must fit.
func hold(t *testing.T, s *Share, n int64) *Hold {
	t.Helper()
	h := s.Hold()
	if !h.Try(n) {
		t.Fatalf("%d bytes do not fit", n)
	}
	return h
}

func TestSpareMemoryLeavesHalfOfTheAccount(t *testing.T) {
	t.Parallel()
	a := New(1000*kib, time.Hour, nil).Account(100 * kib)
	h := a.Share(0, nil).Hold()
	if !h.TrySpare(50*kib) || h.TrySpare(51*kib) || h.Held() != 50*kib {
		t.Errorf("%d bytes are held", h.Held())
	}
	hold(t, a.Share(0, nil), 50*kib)
	if more := a.Share(0, nil).Hold(); more.TrySpare(5 * kib) {
		t.Error("more than half of the account is spare")
	}
}

// TestLargeReservationLeavesTheLastQuarter reserves more than the budget in each way.
func TestLargeReservationLeavesTheLastQuarter(t *testing.T) {
	const total, huge = 1000 * kib, 5000 * kib
	ended, cancel := context.WithCancel(t.Context())
	cancel() // what would wait ends at once
	for name, reserve := range map[string]func(h *Hold) bool{
		"Try":  func(h *Hold) bool { return h.Try(huge) },
		"Wait": func(h *Hold) bool { return h.Wait(ended, huge) == nil },
		"Grow": func(h *Hold) bool { return h.Try(10*kib) && h.Grow(ended, huge) == nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := New(total, time.Hour, nil)
			h := b.Account(100*kib).Share(10*kib, nil).Hold()
			if !reserve(h) {
				t.Fatal("an empty budget does not take what is larger than it")
			}
			hold(t, b.Account(100*kib).Share(0, nil), 64*kib)
			if want := int64(total*3/4 + 64*kib); b.Held() != want {
				t.Errorf("%d bytes are held, want %d", b.Held(), want)
			}
			h.Release()
			if b.Held() != 64*kib {
				t.Errorf("%d bytes are held at the end", b.Held())
			}
		})
	}
	h := New(total, time.Hour, nil).Account(0).Share(0, nil).Hold()
	if most := h.Most(); most != total*3/4 || h.TrySpare(most+1) || !h.TrySpare(most) {
		t.Errorf("%d bytes are held, and the most is %d", h.Held(), most)
	}
}

// TestRefusalNamesTheLimitThatIsShort has a panel that holds nothing ask for memory while another holds what they share.
func TestRefusalNamesTheLimitThatIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1000*kib, time.Hour, nil)
		taker, victim := b.Account(0), b.Account(800*kib)
		hold(t, taker.Share(0, nil), 700*kib)
		h := victim.Share(0, nil).Hold()
		if h.Try(100*kib) || !strings.Contains(h.Refuse("it").Error(), "what all panels may hold") {
			t.Errorf("it was refused with %v", h.Refuse("it"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _ = victim.Share(0, nil).Hold().Wait(ctx, 100*kib) }()
		synctest.Wait()
		if small := victim.Share(0, nil).Hold(); small.Try(10*kib) || !strings.Contains(small.Refuse("it").Error(), "what all panels may hold") {
			t.Errorf("behind a reservation that waits it was refused with %v", small.Refuse("it"))
		}
		sooner, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		err := victim.Share(0, nil).Hold().Wait(sooner, 10*kib)
		if short, ok := errors.AsType[*ShortError](err); !ok || short.Level != LevelBudget {
			t.Errorf("behind a reservation that waits the wait ended with %v", err)
		}
		<-ctx.Done()
		synctest.Wait()
		own := New(1000*kib, time.Hour, nil).Account(100 * kib)
		hold(t, own.Share(0, nil), 80*kib)
		if h := own.Share(0, nil).Hold(); h.Try(50*kib) || !strings.Contains(h.Refuse("it").Error(), "what this panel may hold") {
			t.Errorf("it was refused with %v", h.Refuse("it"))
		}
	})
}

// TestBytesThatCountSeveralTimes checks what such bytes take and give back, by each way.
func TestBytesThatCountSeveralTimes(t *testing.T) {
	b := New(1000*kib, time.Hour, nil)
	s := b.Account(0).Share(100*kib, nil)
	h := s.Hold()
	h.Times(8)
	check := func(what string, held int64) {
		t.Helper()
		if h.Held() != held || b.Held() != held {
			t.Errorf("%s: the hold has %d, the budget %d, want %d", what, h.Held(), b.Held(), held)
		}
	}
	if !h.Try(10 * kib) {
		t.Fatal("80 KiB do not fit")
	}
	check("held", 80*kib)
	if h.More().Try(5 * kib) {
		t.Error("40 KiB more fit in 100")
	}
	h.Keep(5 * kib)
	check("half is kept", 40*kib)
	h.Release()
	check("released", 0)
	other := hold(t, s, 50*kib)
	if h.Try(10*kib) || h.Wanted() != 10*kib {
		t.Error("80 KiB fit beside 50, or something else was wanted")
	}
	// clock: Wait is served before or after this moment
	time.AfterFunc(time.Millisecond, other.Release)
	if err := h.Wait(t.Context(), 10*kib); err != nil {
		t.Fatal(err)
	}
	check("waited for", 80*kib)
}

func TestLimitsOfEachLevel(t *testing.T) {
	b := New(100*kib, time.Hour, nil)
	a := b.Account(60 * kib)
	s := a.Share(20*kib, nil)
	first := hold(t, s, 15*kib)
	for name, test := range map[string]struct {
		share *Share
		n     int64
		want  bool
	}{
		"fits the share":                 {s, 5 * kib, true},
		"does not fit the share":         {s, 6 * kib, false},
		"fits the account":               {a.Share(0, nil), 45 * kib, true},
		"does not fit the account":       {a.Share(0, nil), 46 * kib, false},
		"larger than an empty share":     {a.Share(20*kib, nil), 30 * kib, true},
		"larger than an empty account":   {b.Account(10*kib).Share(0, nil), 60 * kib, true},
		"leaves less than a quarter":     {b.Account(0).Share(0, nil), 70 * kib, false},
		"a little of the last quarter":   {b.Account(0).Share(0, nil), 64 * kib, true},
		"small ones need no room at all": {s, Small, true},
		"no account":                     {nil, 1 << 40, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := test.share.Hold()
			if got := h.Try(test.n); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if want := h.Wanted(); (want == 0) != test.want {
				t.Errorf("it wanted %d", want)
			}
			h.Release()
		})
	}
	first.Keep(10 * kib)
	if got := b.Held(); got != 10*kib {
		t.Errorf("%d bytes are held", got)
	}
	first.Release()
	first.Release()
	if !New(kib, time.Hour, nil).Account(0).Share(0, nil).Hold().Try(100 * kib) {
		t.Error("an empty budget does not take what is larger than it")
	}
	if got := b.Held(); got != 0 {
		t.Errorf("%d bytes are held at the end", got)
	}
}

// TestHoldersThatGiveNothingBackLeaveRoom has many accounts take all that they get.
func TestHoldersThatGiveNothingBackLeaveRoom(t *testing.T) {
	b := New(1<<30, time.Hour, nil)
	for range 100 {
		s := b.Account(64<<20).Share(0, nil)
		for s.Hold().Try(300 * kib) {
		}
	}
	for range 900 {
		hold(t, b.Account(64<<20).Share(8<<20, nil), 256*kib)
	}
}

// TestStalledConnectionsAreCutWhenMemoryIsShort has one connection give something back now and then, and another nothing.
func TestStalledConnectionsAreCutWhenMemoryIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1<<20, time.Minute, nil)
		share := func(cut func(*Share)) (s *Share) {
			s = b.Account(0).Share(0, func() { cut(s) })
			return s
		}
		stalled := share(func(s *Share) { s.Close() })
		slow := share(func(*Share) { t.Error("a connection that is only slow was cut") })
		hold(t, stalled, 300*kib)
		some := hold(t, slow, 200*kib)
		time.Sleep(50 * time.Second)
		some.Keep(190 * kib)
		time.Sleep(5 * time.Second)
		begun := time.Now()
		if err := share(func(*Share) {}).Hold().Wait(t.Context(), 500*kib); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 4*time.Second || took > 10*time.Second {
			t.Errorf("it waited %v", took)
		}
	})
}

// TestWaitersAreServedInOrder has reservations of different sizes wait in one share.
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1<<30, time.Hour, nil).Account(0).Share(100*kib, nil)
		first := hold(t, s, 100*kib)
		var mu sync.Mutex
		var order []int64
		var waits sync.WaitGroup
		for i := range int64(4) {
			n := (95 - 10*i) * kib // a later one is smaller
			waits.Go(func() {
				h := s.Hold()
				if err := h.Wait(t.Context(), n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, n)
				mu.Unlock()
				h.Release()
			})
			synctest.Wait()
		}
		if late := s.Hold(); late.Try(5 * kib) {
			t.Error("one that came later was served first")
		}
		first.Keep(30 * kib) // room for the last, but not for the first
		synctest.Wait()
		if len(order) > 0 {
			t.Errorf("%v were served before the first", order)
		}
		first.Release()
		waits.Wait()
		if !slices.Equal(order, []int64{95 * kib, 85 * kib, 75 * kib, 65 * kib}) {
			t.Errorf("the order was %v", order)
		}
	})
}

// TestShareThatWaitsHoldsUpNoOther fills one share of an account, whose next reservation waits.
func TestShareThatWaitsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waited []Level
		b := New(1<<30, time.Hour, func(l Level) { waited = append(waited, l) })
		a := b.Account(100 * kib)
		full, other := a.Share(20*kib, nil), a.Share(20*kib, nil)
		held := hold(t, full, 20*kib)
		done := make(chan error, 1)
		go func() { done <- full.Hold().Wait(t.Context(), 10*kib) }()
		synctest.Wait()
		hold(t, other, 20*kib)
		hold(t, b.Account(0).Share(0, nil), 100*kib)
		held.Release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !slices.Equal(waited, []Level{LevelShare}) {
			t.Errorf("waits were counted as %v", waited)
		}
	})
}

// TestEndsOfAWait are the ways in which one ends without room.
func TestEndsOfAWait(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(h *Hold, s *Share, cancel context.CancelFunc)
		want func(error) bool
	}{
		// clock: each case has a bubble
		"deadline": {func(*Hold, *Share, context.CancelFunc) { time.Sleep(time.Hour) }, func(err error) bool {
			var short *ShortError
			return errors.As(err, &short) && short.Level == LevelShare && short.Limit == 20*kib && errors.Is(err, context.DeadlineExceeded)
		}},
		"context": {func(_ *Hold, _ *Share, cancel context.CancelFunc) { cancel() }, func(err error) bool { return errors.Is(err, context.Canceled) }},
		"cancel":  {func(h *Hold, _ *Share, _ context.CancelFunc) { h.Cancel() }, func(err error) bool { return err == context.Canceled }}, //nolint:errorlint // it is that one
		"share":   {func(_ *Hold, s *Share, _ context.CancelFunc) { s.Close() }, func(err error) bool { return errors.As(err, new(ClosedError)) }},
		"account": {func(_ *Hold, s *Share, _ context.CancelFunc) { s.account.Close() }, func(err error) bool { return errors.As(err, new(ClosedError)) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(1<<30, time.Hour, nil)
				s := b.Account(0).Share(20*kib, nil)
				first := hold(t, s, 20*kib)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				h := s.Hold()
				done := make(chan error, 1)
				go func() { done <- h.Wait(ctx, 10*kib) }()
				synctest.Wait()
				test.end(h, s, cancel)
				if err := <-done; !test.want(err) {
					t.Errorf("got %v", err)
				}
				if h.Held() != 0 {
					t.Errorf("%d bytes are held", h.Held())
				}
				first.Release()
				if got := b.Held(); got != 0 {
					t.Errorf("%d bytes are held at the end", got)
				}
			})
		})
	}
}

// TestHoldsGrowOneByOne fills a share with two holds that need more, and has a third wait for room.
func TestHoldsGrowOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1<<30, time.Hour, nil).Account(200 * kib)
		s := a.Share(100*kib, nil)
		first, second, third := hold(t, s, 50*kib), hold(t, s, 50*kib), s.Hold()
		grown, served := make(chan error, 1), make(chan error, 1)
		go func() { served <- third.Wait(t.Context(), 30*kib) }()
		synctest.Wait()
		if err := first.Grow(t.Context(), 500*kib); err != nil || a.Held() != 550*kib {
			t.Fatalf("the first did not grow: %v; %d bytes are held", err, a.Held())
		}
		go func() { grown <- second.Grow(t.Context(), 60*kib) }()
		synctest.Wait()
		if len(grown) > 0 || second.Held() != 50*kib {
			t.Errorf("the second grew beside the first, or gave back: it holds %d bytes", second.Held())
		}
		first.Keep(20 * kib)
		if err := <-grown; err != nil || second.Held() != 60*kib {
			t.Errorf("the second did not grow after the first: %v", err)
		}
		second.Release()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if first.Release(); a.Held() != 30*kib || a.grower != nil {
			t.Errorf("%d bytes are held at the end", a.Held())
		}
	})
}

// TestEndsOfGrowth are the ways in which a wait to grow ends.
func TestEndsOfGrowth(t *testing.T) {
	for name, test := range map[string]struct {
		n    int64
		end  func(s *Share, first *Hold, cancel context.CancelFunc)
		want func(error) bool
	}{
		"budget":  {2000 * kib, func(*Share, *Hold, context.CancelFunc) {}, func(err error) bool { return fserr.CodeOf(Refusal(err, "it")) == fserr.EAGAIN }},
		"context": {70 * kib, func(_ *Share, _ *Hold, cancel context.CancelFunc) { cancel() }, func(err error) bool { return errors.Is(err, context.Canceled) }},
		"share":   {70 * kib, func(s *Share, _ *Hold, _ context.CancelFunc) { s.Close() }, func(err error) bool { return errors.As(err, new(ClosedError)) }},
		"account": {70 * kib, func(s *Share, _ *Hold, _ context.CancelFunc) { s.account.Close() }, func(err error) bool { return errors.As(err, new(ClosedError)) }},
		"grower":  {70 * kib, func(_ *Share, first *Hold, _ context.CancelFunc) { first.Release() }, func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(1000*kib, time.Hour, nil).Account(0).Share(100*kib, nil)
				first, second := hold(t, s, 50*kib), hold(t, s, 50*kib)
				if err := first.Grow(t.Context(), 90*kib); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- second.Grow(ctx, test.n) }()
				synctest.Wait()
				test.end(s, first, cancel)
				if err := <-done; !test.want(err) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestCloseGivesAllBackAtOnce(t *testing.T) {
	b := New(1<<30, time.Hour, nil)
	a := b.Account(0)
	cut := 0
	s := a.Share(0, func() { cut++ })
	h := hold(t, s, 100*kib)
	a.Cut()
	a.Close()
	if s.IsOver() {
		t.Error("a share that holds something is over")
	}
	if cut != 1 || b.Held() != 100*kib || s.Hold().Try(10*kib) {
		t.Errorf("a closed account: cut %d times, %d bytes held", cut, b.Held())
	}
	s.Close()
	if !s.IsOver() || len(b.accounts) != 0 || len(a.shares) != 0 {
		t.Errorf("a closed share leaves %d accounts, %d shares", len(b.accounts), len(a.shares))
	}
	if got := b.Held(); got != 0 {
		t.Errorf("a closed share holds %d bytes", got)
	}
	h.Release()
	if got := b.Held(); got != 0 {
		t.Errorf("a late release left %d bytes", got)
	}
}

// TestLostBufferIsGivenBack drops a buffer without freeing it.
func TestLostBufferIsGivenBack(t *testing.T) {
	b := New(1<<30, time.Hour, nil)
	s := b.Account(0).Share(0, nil)
	func() {
		h := hold(t, s, 100*kib)
		buf := make([]byte, 100*kib)
		_ = mem.NewBuffer(&buf, h.From(mem.NopBufferPool{}))
		h.ReleaseWhenLost()
	}()
	clocktest.Await(t, "the buffer is given back", func() bool {
		runtime.GC()
		return b.Held() == 0
	})
}

// TestBudgetNeverHoldsTooMuch does what calls do, in any order, and looks at the sums.
func TestBudgetNeverHoldsTooMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const total, perAccount, perShare = 1000 * kib, 400 * kib, 100 * kib
		b := New(total, time.Hour, nil)
		var accounts []*Account
		var shares []*Share
		var holds []*Hold
		for range 3 {
			a := b.Account(perAccount)
			accounts = append(accounts, a)
			for range 3 {
				shares = append(shares, a.Share(perShare, nil))
			}
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel() // what would wait ends at once
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(holds) > 0 && rapid.Bool().Draw(t, "give back") {
				i := rapid.IntRange(0, len(holds)-1).Draw(t, "which")
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					holds[i].Release()
					holds = slices.Delete(holds, i, i+1)
				case 1:
					_ = holds[i].Grow(ended, rapid.Int64Range(0, 2*perAccount).Draw(t, "more")) // as far as that can be
				default:
					holds[i].Keep(holds[i].Held() / 2)
				}
			} else {
				h := rapid.SampledFrom(shares).Draw(t, "share").Hold()
				h.Try(rapid.Int64Range(0, perShare).Draw(t, "n"))
				holds = append(holds, h)
			}
			var sum int64
			largestOf, largestIn := map[*Account]int64{}, map[*Share]int64{}
			for _, h := range holds {
				sum += h.Held()
				largestOf[h.share.account] = max(largestOf[h.share.account], h.Held())
				largestIn[h.share] = max(largestIn[h.share], h.Held())
			}
			if b.Held() != sum || sum > total {
				t.Fatalf("%d bytes are held, the holds have %d", b.Held(), sum)
			}
			for _, a := range accounts {
				if a.Held() > perAccount && a.Held()-largestOf[a] > perAccount {
					t.Fatalf("an account holds %d, %d in one hold", a.Held(), largestOf[a])
				}
			}
			for _, s := range shares {
				if s.used > perShare && s.used-largestIn[s] > perShare {
					t.Fatalf("a share holds %d, %d in one hold", s.used, largestIn[s])
				}
			}
		}
	})
}

// BenchmarkHold is what counting costs one reply.
func BenchmarkHold(b *testing.B) {
	s := New(1<<30, time.Hour, nil).Account(0).Share(0, nil)
	for name, n := range map[string]int64{"small": 200, "large": 64 * kib} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx := With(b.Context(), s.Hold())
				h := Of(ctx)
				h.Try(n)
				h.Release()
			}
		})
	}
}
