package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/internal/statedir"
)

// stopSignals are the signals that ask a program to stop. A terminal sends SIGHUP when it is closed. SIGHUP stays ignored in
// a program that was started so, as by nohup.
func stopSignals() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
}

// UntilSignal returns a context that is cancelled at the first signal that asks the program to stop: SIGINT, SIGTERM, SIGHUP or, for a server
// that should leave commands running, SIGUSR1. Its cause then has the exit code that a shell expects. Call stop to let signals end the process again.
func UntilSignal(ctx context.Context) (_ context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, append(stopSignals(), keepSignals()...)...)
	go func() {
		select {
		case s := <-ch:
			cancel(stoppedError{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		cancel(nil)
	}
}

// stoppedError says which signal stopped the program.
type stoppedError struct{ signal os.Signal }

func (e stoppedError) Error() string {
	if e.signal == os.Interrupt {
		return "interrupted"
	}
	return "stopped by a signal (" + e.signal.String() + ")"
}

// KeepCommands reports whether the commands in contexts should continue.
func (e stoppedError) KeepCommands() bool { return slices.Contains(keepSignals(), e.signal) }

// ExitCode is 128 and the signal's number: 130 after Ctrl-C.
func (e stoppedError) ExitCode() int {
	if n, ok := e.signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

// forwardSignals collects signals from now on, and forwards them to the process that start is called with, until stop is called. It
// forwards no interrupt on a terminal, which sends it to the child too: a second one would kill many programs.
func forwardSignals(terminal bool) (start func(*os.Process), stop func()) {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, stopSignals()...)
	var wg sync.WaitGroup
	start = func(p *os.Process) {
		wg.Go(func() {
			for sig := range ch {
				if sig != os.Interrupt || !terminal {
					_ = p.Signal(sig) // it may have just ended
				}
			}
		})
	}
	return start, func() {
		signal.Stop(ch)
		close(ch)
		wg.Wait()
	}
}

// takeBrokenPipes makes a write to a closed pipe an error until the returned function is called. Go ends a program that writes to one
// as its standard output or standard error, which is no reason for a server to end. Children are not affected.
func takeBrokenPipes() (stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGPIPE)
	return func() { signal.Stop(ch) }
}

func isTerminalReader(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// exitCode is a child's exit code as a shell gives it: 128 and the signal's number when one killed it.
func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// hostToken presents the host token, which a server with host-auth=token requires on its socket too.
func hostToken(file string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if secret, err := statedir.ReadFile(file, statedir.MaxRecord); err == nil {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(secret)))
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}
