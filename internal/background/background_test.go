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
	a, b := New(3), New(2)
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

func TestThreadsEndAfterAWhile(t *testing.T) {
	p := New(2)
	p.linger = time.Millisecond
	for range 3 {
		leave := p.Join()
		done := make(chan struct{})
		if err := p.Do(t.Context(), func() { close(done) }); err != nil {
			t.Fatal(err)
		}
		<-done
		leave()
		p.threads.Wait() // ends by itself
	}
}

func TestAllTasksRun(t *testing.T) {
	p := New(4)
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
	p := New(1)
	defer p.Close()
	leave := p.Join()
	defer leave()
	release := make(chan struct{})
	block := func() { <-release }
	for range 2 { // one runs, one waits
		if err := p.Do(t.Context(), block); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Do(ctx, func() { t.Error("it ran") }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
}
