package exec

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/internal/outputtest"
)

// numbersSize is how much output the tests of this file read, in bytes.
func numbersSize() int64 {
	if testing.Short() {
		return 48 << 20
	}
	return 1 << 30
}

// awaitWritten waits until a process has written so many bytes to standard output.
func (s *site) awaitWritten(p *Process, n int64) {
	s.t.Helper()
	for {
		grown, ended := p.spools[Stdout].growth(n - 1)
		if ended {
			s.t.Errorf("the process ended after %d of %d bytes", p.Written(Stdout), n)
		}
		if grown == nil {
			return
		}
		<-grown
	}
}

// stalled begins a process, and a blocking reader that takes nothing before its context ends. It returns when the process waits.
func (s *site) stalled(cmd Command) (p *Process, end func()) {
	s.t.Helper()
	p = s.begin(cmd)
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- p.Output(ctx, [2]int64{}, Blocking, func(Output) error {
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	s.awaitWritten(p, outputtest.Ahead)
	return p, func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.t.Error("the reader ended with ", err)
		}
	}
}

// TestSlowReaderGetsAllOutput has a reader that takes a part only when the process is as far ahead as it may be.
func TestSlowReaderGetsAllOutput(t *testing.T) { // not beside other tests: it counts what the process allocates
	s := newSite(t, "copy")
	size, h := numbersSize(), sha256.New()
	script, want := outputtest.Numbers(size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := s.begin(Command{Argv: []string{"sh", "-c", script}, Awaited: true})
	var got int64
	err := p.Output(t.Context(), [2]int64{}, Blocking, func(o Output) error {
		s.awaitWritten(p, min(size, o.Offset+outputtest.Ahead))
		if n := p.Written(Stdout); n > o.Offset+window {
			t.Fatalf("the process is %d bytes ahead", n-o.Offset)
		}
		h.Write(o.Data)
		got += int64(len(o.Data))
		return nil
	})
	runtime.ReadMemStats(&after)
	if err != nil || got != size || outputtest.Sum(h) != want {
		t.Errorf("got %d of %d bytes, and not the same: %v", got, size, err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 {
		t.Errorf("%d MiB were allocated", allocated>>20)
	}
}

// TestSlowestBlockingReaderGoverns has two blocking readers and a watcher, one of which takes nothing at first.
func TestSlowestBlockingReaderGoverns(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	script, want := outputtest.Numbers(48 << 20)
	p := s.begin(Command{Argv: []string{"sh", "-c", script}, Awaited: true})
	type result struct {
		sum     string
		dropped int64
		err     error
	}
	read := func(how Reading, before func(o Output)) chan result {
		done := make(chan result, 1)
		go func() {
			h, dropped := sha256.New(), int64(0)
			err := p.Output(t.Context(), [2]int64{}, how, func(o Output) error {
				before(o)
				h.Write(o.Data)
				dropped += o.Dropped
				return nil
			})
			done <- result{outputtest.Sum(h), dropped, err}
		}()
		return done
	}
	proceed, begun, far := make(chan struct{}), make(chan struct{}, 1), make(chan struct{}, 1)
	slow := read(Blocking, func(o Output) {
		if o.Offset == 0 {
			begun <- struct{}{}
			<-proceed
		}
	})
	<-begun
	watcher := read(Watching, func(o Output) {
		if o.Offset == 0 {
			_ = p.Wait(t.Context())
		}
	})
	fast := read(Blocking, func(o Output) {
		if o.Offset+int64(len(o.Data)) >= outputtest.Ahead {
			select {
			case far <- struct{}{}:
			default:
			}
		}
	})
	<-far
	if n := p.Written(Stdout); n > window {
		t.Errorf("the process is %d bytes ahead of the slow reader", n)
	}
	close(proceed)
	for name, done := range map[string]chan result{"slow": slow, "fast": fast} {
		if r := <-done; r.err != nil || r.sum != want || r.dropped != 0 {
			t.Errorf("the %s reader: %+v", name, r)
		}
	}
	if r := <-watcher; r.err != nil || r.dropped == 0 {
		t.Errorf("the watcher, which the process must not wait for: %+v", r)
	}
}

// TestPipeBreaksWhenCallersLeave has callers that leave a process which writes, waits for them, or does not write.
func TestPipeBreaksWhenCallersLeave(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	s.breakTime = waitTime // SIGPIPE alone must end what writes
	const sigpipe = 128 + int(unix.SIGPIPE)
	for name, sandbox := range map[string]string{"own sandbox": "", "shared sandbox": "shared"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			p, end := s.stalled(Command{Argv: []string{"yes"}, Sandbox: sandbox, KillAlone: true})
			leave := p.Connect()
			end()
			leave(false)
			s.wantReason(p, Exited)
			if code := p.Ended().Code; code != sigpipe {
				t.Errorf("a process that waits for its reader: code %d", code)
			}
			p = s.begin(Command{Argv: []string{"sh", "-c", "trap '' PIPE; yes; exit 7"}, Sandbox: sandbox, KillAlone: true})
			leave = p.Connect()
			s.awaitOutput(p, "y\n")
			leave(false)
			s.wantReason(p, Exited)
			if code := p.Ended().Code; code != 7 {
				t.Errorf("a process that ignores SIGPIPE: code %d", code)
			}
		})
	}
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "copy")
		s.breakTime = time.Millisecond
		p := s.start("sleep 1000")
		p.cmd.KillAlone = true
		p.Connect()(false)
		s.wantReason(p, Killed)
	})
}

// TestProcessThatWaitsForReaderCanBeEnded ends processes whose reader takes nothing.
func TestProcessThatWaitsForReaderCanBeEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for name, c := range map[string]struct {
		limits Limits
		end    func(s *site, p *Process)
		want   Reason
	}{
		"kill":  {Limits{}, func(s *site, p *Process) { s.killGently(p) }, Killed},
		"limit": {Limits{Wall: 2 * time.Second}, func(*site, *Process) {}, TimedOut},
		"pause": {Limits{}, func(s *site, p *Process) {
			resume, err := p.Pause(s.t.Context())
			if err != nil {
				s.t.Fatal(err)
			}
			resume()
			s.killGently(p)
		}, Killed},
		"signal": {Limits{}, func(s *site, p *Process) {
			if err := p.Signal(int(unix.SIGTERM)); err != nil {
				s.t.Error(err)
			}
		}, Exited},
		"server": {Limits{}, func(s *site, p *Process) {
			p.kills <- kill{} // SIGKILL
		}, Killed},
	} {
		for _, sandbox := range []string{"", "shared-" + name} {
			if sandbox != "" && name != "kill" && name != "limit" {
				continue
			}
			t.Run(name+sandbox, func(t *testing.T) {
				t.Parallel()
				s := s.in(t)
				p, end := s.stalled(Command{Argv: []string{"yes"}, Limits: c.limits, Sandbox: sandbox})
				defer end()
				if p.Ended() != nil {
					t.Error("it does not run while it waits")
				}
				c.end(s, p)
				s.wantReason(p, c.want)
				if n := p.Written(Stdout); n > window+1<<20 {
					t.Errorf("it wrote %d bytes", n)
				}
				var dropped int64
				err := p.Output(t.Context(), [2]int64{}, Present, func(o Output) error {
					dropped += o.Dropped
					return nil
				})
				if err != nil || dropped != 0 {
					t.Errorf("after its end %d bytes are dropped, %v", dropped, err)
				}
			})
		}
	}
}

// TestReaderThatComesBackMissesNothing loses a reader, with what it had not received yet, while the process writes.
func TestReaderThatComesBackMissesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	s.awayTime = waitTime
	const size, lost = 40 << 20, 6 << 20
	script, want := outputtest.Numbers(size)
	p := s.begin(Command{Argv: []string{"sh", "-c", script}, Awaited: true})
	h := sha256.New()
	var at int64
	for _, until := range []int64{0, 12 << 20, 20 << 20, size} {
		ctx, cancel := context.WithCancel(t.Context())
		var sent int64
		err := p.Output(ctx, [2]int64{at}, Blocking, func(o Output) error {
			if o.Dropped > 0 {
				t.Fatalf("%d bytes before %d are dropped", o.Dropped, o.Offset)
			}
			sent = o.Offset + int64(len(o.Data))
			if o.Offset < max(until-lost, at) || until == size {
				h.Write(o.Data)
				at = sent
			}
			if sent > until {
				cancel()
			}
			return nil
		})
		cancel()
		if until < size {
			s.awaitWritten(p, sent+outputtest.Ahead)
			if n := p.Written(Stdout); n > sent+window {
				t.Errorf("it does not wait for its reader: %d bytes ahead", n-sent)
			}
		} else if err != nil {
			t.Error(err)
		}
	}
	if outputtest.Sum(h) != want {
		t.Errorf("%d bytes, and not the same", at)
	}
}

// TestReaderIsBackBeforeItIsLost has a reader come back before its first connection has ended.
func TestReaderIsBackBeforeItIsLost(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	s.awayTime = waitTime
	script, want := outputtest.Numbers(24 << 20)
	p, end := s.stalled(Command{Argv: []string{"sh", "-c", script}})
	h := sha256.New()
	var once sync.Once
	if err := p.Output(t.Context(), [2]int64{}, Blocking, func(o Output) error {
		once.Do(end)
		h.Write(o.Data)
		return nil
	}); err != nil || outputtest.Sum(h) != want {
		t.Errorf("it misses output, %v", err)
	}
}

// TestProcessWaitsForFirstReader has readers that come late, detach, or do not come back.
func TestProcessWaitsForFirstReader(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	s.awayTime = waitTime
	script, want := outputtest.Numbers(24 << 20)
	cmd := Command{Argv: []string{"sh", "-c", script}, KillAlone: true}
	p := s.begin(cmd)
	s.awaitWritten(p, outputtest.Ahead)
	s.result(s.start(script))
	if n := p.Written(Stdout); n > window {
		t.Errorf("it wrote %d bytes without a reader", n)
	}
	h := sha256.New()
	leave := p.Connect()
	defer leave(true)
	if err := p.Output(t.Context(), [2]int64{}, Blocking, func(o Output) error {
		h.Write(o.Data)
		return nil
	}); err != nil || outputtest.Sum(h) != want {
		t.Errorf("a reader that comes late misses output, %v", err)
	}

	cmd.KillAlone = false
	detach := func(p *Process, cause error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := p.Output(ctx, [2]int64{}, Blocking, func(Output) error {
			cancel(cause)
			return nil
		}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	p = s.begin(cmd)
	detach(p, ErrDetached)
	s.wantReason(p, Exited)

	s = newSite(t, "copy")
	s.awayTime = time.Millisecond
	p = s.begin(cmd)
	detach(p, nil)
	s.wantReason(p, Exited)
}

// TestOutputIsWholeAfterTheDrainDeadline ends commands whose output waits for a slow reader, on a machine so slow that the time to read what is
// left has passed before it begins.
func TestOutputIsWholeAfterTheDrainDeadline(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	s.drainTime = -time.Hour
	size := int64(window + 60<<10) // the last part waits in the pipe, which has room for 64 KiB
	script, _ := outputtest.Numbers(size)
	for name, cmd := range map[string]Command{"own sandbox": {}, "shared sandbox": {Sandbox: "dev"}} {
		cmd.Argv = []string{"sh", "-c", script + "; exit 7"}
		p, end := s.stalled(cmd)
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit := p.Ended(); exit.Reason != Exited || exit.Code != 7 || p.Written(Stdout) != size {
			t.Errorf("%s: %+v, and %d bytes of %d", name, exit, p.Written(Stdout), size)
		}
		end()
	}
}

// TestDrainedReadsWhatIsThere reads a pipe whose other end stays open, after its deadline.
func TestDrainedReadsWhatIsThere(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := r.SetReadDeadline(time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	d := &drained{File: r}
	buf := make([]byte, 64<<10)
	if n, err := d.Read(buf); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without output: %d, %v", n, err)
	}
	total := 0
	for { // a writer that does not end
		if _, err := w.Write(buf); err != nil {
			t.Fatal(err)
		}
		n, err := d.Read(buf)
		if total += n; err != nil {
			break
		}
	}
	if total < mostLeft || total > mostLeft+len(buf) {
		t.Errorf("got %d bytes", total)
	}
}
