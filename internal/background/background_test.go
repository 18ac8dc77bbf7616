package background

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProcessorsAreThereForTheThreads(t *testing.T) {
	own := runtime.GOMAXPROCS(0)
	a, b := newPool(3, true), newPool(2, true)
	leave := a.Join()
	again := a.Join()
	other := b.Join()
	if got := runtime.GOMAXPROCS(0); got != own+5 {
		t.Errorf("%d processors, want %d", got, own+5)
	}
	leave()
	other()
	b.Close()
	a.end() // as the timer does that came too late
	if got := runtime.GOMAXPROCS(0); got != own+3 {
		t.Errorf("%d processors while one is there, want %d", got, own+3)
	}
	again()
	a.Close()
	if got := runtime.GOMAXPROCS(0); got != own {
		t.Errorf("%d processors are left, want %d", got, own)
	}
}

// TestASetNumberOfProcessorsStays has a program that chose its own.
func TestASetNumberOfProcessorsStays(t *testing.T) {
	before := runtime.GOMAXPROCS(runtime.NumCPU() + 1)
	defer runtime.GOMAXPROCS(before)
	p := newPool(2, true)
	p.Join()()
	p.Close()
	if got, want := runtime.GOMAXPROCS(0), runtime.NumCPU()+1; got != want {
		t.Errorf("%d processors are left of %d", got, want)
	}
}

func TestPartOfAMachineStaysAPart(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("a machine of one processor has no part")
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	p := New(4, 16)
	defer p.Close()
	leave := p.Join()
	defer leave()
	if got := runtime.GOMAXPROCS(0); got != 1 || p.size != 1 {
		t.Errorf("%d threads, and %d processors instead of 1", p.size, got)
	}
}

func TestThreadsEndAfterAWhile(t *testing.T) {
	p := newPool(2, true)
	p.linger = time.Millisecond
	for range 3 {
		leave := p.Join()
		done := make(chan struct{})
		if err := p.Do(t.Context(), func() { close(done) }); err != nil {
			t.Fatal(err)
		}
		<-done
		leave()
		p.threads.Wait() // the threads end without Close
	}
}

func TestAllTasksRun(t *testing.T) {
	p := newPool(4, true)
	defer p.Close()
	var joined sync.WaitGroup
	for range 8 {
		joined.Go(func() {
			leave := p.Join()
			defer leave()
			var tasks sync.WaitGroup
			defer tasks.Wait()
			for range 100 {
				tasks.Add(1)
				if err := p.Do(t.Context(), tasks.Done); err != nil {
					t.Error(err)
				}
			}
		})
	}
	joined.Wait()
}

func TestWhoWaitsCanGiveUp(t *testing.T) {
	p := newPool(1, true)
	p.patience = time.Hour
	hold(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Do(ctx, func() { t.Error("it ran") }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestHangingTaskDelaysNoCaller does a task although no thread becomes free.
func TestHangingTaskDelaysNoCaller(t *testing.T) {
	p := newPool(1, true)
	p.patience = time.Hour // hold needs the thread
	hold(t, p)
	p.patience = time.Millisecond
	ran := false
	if err := p.Do(t.Context(), func() { ran = true }); err != nil || !ran {
		t.Errorf("ran %v, %v", ran, err)
	}
}

// hold keeps the only thread of p busy until the test ends.
func hold(t *testing.T, p *Pool) {
	t.Helper()
	leave := p.Join()
	release, begun := make(chan struct{}), make(chan struct{})
	if err := p.Do(t.Context(), func() { close(begun); <-release }); err != nil {
		t.Fatal(err)
	}
	<-begun
	t.Cleanup(func() {
		close(release)
		leave()
		p.Close()
	})
}
