package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// forwardSignals passes signals on to p until the returned function is called. On a
// terminal an interrupt reaches the child by itself; twice would kill many a program.
func forwardSignals(p *os.Process, terminal bool) (stop func()) {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	var wg sync.WaitGroup
	wg.Go(func() {
		for sig := range ch {
			if sig != os.Interrupt || !terminal {
				_ = p.Signal(sig) // it may have just ended
			}
		}
	})
	return func() {
		signal.Stop(ch)
		close(ch)
		wg.Wait()
	}
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

// hostToken presents the host token, which a server with host-auth=token wants on its socket too.
func hostToken(file string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if secret, err := os.ReadFile(file); err == nil {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(secret)))
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}
