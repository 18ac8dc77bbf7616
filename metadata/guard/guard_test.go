package guard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/memory"
	"github.com/ctxfs/ctxfs/metadata/metadatatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGuardedStoreIsAStore(t *testing.T) {
	t.Parallel()
	metadatatest.Run(t, func(*testing.T) metadata.Store {
		db := metadatatest.NewFaulty(memory.New())
		return New(Config{Store: db, Check: db.Check, Name: "a database"})
	})
}

// play is a guard, its database and what was reported of it, in a bubble with a clock of its own.
type play struct {
	*testing.T
	*Store
	db *metadatatest.Faulty
	// back is what Config.Back does.
	back func(ctx context.Context) error

	mu      sync.Mutex
	changes []error
}

func begin(t *testing.T) *play {
	p := &play{T: t, db: metadatatest.NewFaulty(memory.New())}
	p.Store = New(Config{
		Store: p.db, Check: p.db.Check, Name: "a database",
		Back: func(ctx context.Context) error {
			if p.back == nil {
				return nil
			}
			return p.back(ctx)
		},
		Changed: func(reason error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.changes = append(p.changes, reason)
		},
	})
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// look is a call of the guarded store that takes the database.
func (p *play) look(ctx context.Context) (took time.Duration, err error) {
	begun := time.Now()
	_, err = p.Contexts().List(ctx)
	return time.Since(begun), err
}

// refused checks that a call fails as one of a database that is away, after a time.
func (p *play) refused(after time.Duration) {
	p.Helper()
	took, err := p.look(p.Context())
	var e *fserr.Error
	if took != after || !errors.Is(err, metadata.ErrUnavailable) || !errors.As(err, &e) || e.Code != fserr.EAGAIN || e.RetryAfter != RetryAfter {
		p.Errorf("a call took %s and returned %v, want EAGAIN with ErrUnavailable after %s", took, err, after)
	}
}

func (p *play) answered(after time.Duration) {
	p.Helper()
	if took, err := p.look(p.Context()); took != after || err != nil {
		p.Errorf("a call took %s and returned %v, want an answer after %s", took, err, after)
	}
}

// outages checks how often the database went away, each time with one report of it and one of its return.
func (p *play) outages(want int) {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Outages() != want || len(p.changes) != 2*want {
		p.Errorf("%d outages with the reports %v, want %d", p.Outages(), p.changes, want)
	}
	for i, reason := range p.changes {
		if away := i%2 == 0; away != (reason != nil) {
			p.Errorf("report %d is %v", i, reason)
		}
	}
}

func TestCallsOfASilentDatabaseEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		p.db.Set(metadatatest.Fault{Silent: true})
		p.refused(Limit)
		time.Sleep(CheckLimit) // of the bubble's clock
		synctest.Wait()
		calls := p.db.Calls()
		for range 100 {
			p.refused(0)
		}
		if got := p.db.Calls(); got != calls {
			t.Errorf("%d calls reached a database that is away", got-calls)
		}
		p.db.Set(metadatatest.Fault{})
		time.Sleep(CheckEvery + CheckLimit)
		synctest.Wait()
		p.answered(0)
		p.outages(1)
	})
}

func TestAbsentDatabaseIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		p.db.Set(metadatatest.Fault{Err: metadata.ErrUnavailable})
		p.refused(0)
		synctest.Wait()
		if p.Away() == nil {
			t.Error("it is not reported to be away")
		}
		p.db.Set(metadatatest.Fault{})
		time.Sleep(CheckEvery)
		synctest.Wait()
		p.answered(0)
		p.outages(1)
	})
}

func TestSlowDatabaseIsNotAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		p.db.Set(metadatatest.Fault{Delay: time.Second})
		p.answered(time.Second)
		// One more than can be answered in time, since each of the Calls at a time takes a second.
		most := Calls * int(Limit/time.Second)
		var wg sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for range most {
			wg.Go(func() {
				if took, err := p.look(p.Context()); err != nil {
					mu.Lock()
					defer mu.Unlock()
					refused++
					if took > Limit || !errors.Is(err, metadata.ErrUnavailable) {
						t.Errorf("a call took %s and returned %v", took, err)
					}
				}
			})
		}
		wg.Wait()
		if refused > Calls {
			t.Errorf("%d of %d calls were refused", refused, most)
		}
		p.outages(0)
	})
}

// TestCallerThatLeavesLearnsNothing: the end of a caller's own time is no error of the database, which is asked all the same.
func TestCallerThatLeavesLearnsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p.db.Set(metadatatest.Fault{Silent: true})
		if took, err := p.look(ctx); took != time.Second || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, metadata.ErrUnavailable) {
			t.Errorf("a call took %s and returned %v", took, err)
		}
		time.Sleep(CheckLimit)
		synctest.Wait()
		p.refused(0)
	})
}

// TestRecoveryComesFirst: what the database lost is repaired before any other call sees it.
func TestRecoveryComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		failures := 2
		p.back = func(ctx context.Context) error {
			p.refused(0)
			switch failures--; failures {
			case 1:
				return metadata.ErrUnavailable
			case 0:
				return errors.New("not all was repaired")
			}
			return p.Contexts().Create(ctx, metadata.Context{ID: "ctx_rebuilt"})
		}
		p.db.Set(metadatatest.Fault{Err: metadata.ErrUnavailable})
		p.refused(0)
		synctest.Wait()
		p.db.Set(metadatatest.Fault{})
		time.Sleep(3 * CheckEvery)
		synctest.Wait()
		if _, err := p.Contexts().Get(t.Context(), "ctx_rebuilt"); err != nil || failures != -1 {
			t.Errorf("the record that the recovery made: %v; %d failures are left", err, failures)
		}
		p.outages(1)
	})
}

// TestRecoveryMayTakeLonger than a caller would wait: it lists all records.
func TestRecoveryMayTakeLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		p.back = func(ctx context.Context) error {
			p.db.Set(metadatatest.Fault{Delay: 2 * Limit})
			defer p.db.Set(metadatatest.Fault{})
			_, err := p.look(ctx)
			return err
		}
		p.db.Set(metadatatest.Fault{Err: metadata.ErrUnavailable})
		p.refused(0)
		synctest.Wait()
		p.db.Set(metadatatest.Fault{})
		time.Sleep(CheckEvery + 2*Limit + CheckEvery)
		synctest.Wait()
		p.answered(0)
		p.outages(1)
	})
}

func TestMeaningfulErrorsPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		full := &fserr.Error{Code: fserr.ENOSPC}
		for _, want := range []error{metadata.ErrNotFound, metadata.ErrConflict, full} {
			p.db.Set(metadatatest.Fault{Err: want})
			if _, err := p.look(t.Context()); !errors.Is(err, want) || errors.Is(err, metadata.ErrUnavailable) {
				t.Errorf("%v became %v", want, err)
			}
		}
		p.outages(0)
	})
}

func TestCloseEndsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t) // whose clean-up would hang
		p.db.Set(metadatatest.Fault{Silent: true})
		p.refused(Limit)
	})
}
