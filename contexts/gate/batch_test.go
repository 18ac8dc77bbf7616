package gate

import (
	"testing"
	"testing/synctest"
	"time"
)

// secludedGate is a gate with a batch that waits until it is alone, and a user that stays. The error of alone arrives on the channel.
func secludedGate(t *testing.T) (*gate, <-chan error) {
	t.Helper()
	g := newGate(nil, 1, nil, time.Now())
	for range 2 {
		if closing, _ := g.enter(Read); closing == nil {
			t.Fatal("an open gate does not admit a reader")
		}
	}
	<-g.freeze()
	r := &batchRun{gates: &Gates{cfg: Config{DrainTime: time.Minute}}, access: &Access{id: "ctx_a"}}
	done := make(chan error, 1)
	go func() { done <- r.alone(t.Context(), g) }()
	synctest.Wait()
	return g, done
}

// read enters as a reader, and leaves. It returns how long it was blocked.
func (g *gate) read() time.Duration {
	start := time.Now()
	for {
		closing, wait := g.enter(Read)
		if closing != nil {
			g.leave()
			return time.Since(start)
		}
		<-wait
	}
}

func TestReadersWaitForOneAttemptOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, done := secludedGate(t)
		blocked := 0
		for range 50 {
			waited := g.read()
			if waited > 0 {
				blocked++
			}
			if waited > secludeTime {
				t.Fatalf("a reader waited for %s, and an attempt takes %s", waited, secludeTime)
			}
			time.Sleep(secludeTime / 3)
		}
		if blocked == 0 {
			t.Error("no reader was blocked")
		}
		_, turn := g.enter(Write)
		select {
		case <-turn:
			t.Error("a writer is admitted before the batch ends")
		default:
		}
		g.leave() // the user that stayed
		if err := <-done; err != nil {
			t.Errorf("alone: %v", err)
		}
		g.thaw()
		<-turn
	})
}

func TestBatchDoesNotWaitForAUserThatRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, done := secludedGate(t)
		resume := (&Access{gate: g}).Rest()
		if err := <-done; err != nil {
			t.Fatalf("alone: %v", err)
		}
		resumed := make(chan error, 1)
		go func() { resumed <- resume(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-resumed:
			t.Fatalf("the user continues while the batch is alone: %v", err)
		default:
		}
		g.thaw()
		if err := <-resumed; err != nil {
			t.Error(err)
		}
		if g.resting != 0 {
			t.Errorf("%d users rest", g.resting)
		}
	})
}
