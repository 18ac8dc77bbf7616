//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/ctxfs/ctxfs/client"
)

// follow keeps the command's terminal at the size of this one, and gives this one back while this program is stopped.
func (t *terminal) follow(at *client.Attachment) (stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for s := range signals {
			switch s {
			case syscall.SIGTSTP:
				_ = t.restore()                                // the shell sets its own mode
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // always permitted
			case syscall.SIGCONT:
				_ = t.raw() // a terminal that is gone ends the input
				t.tell(at)
			default:
				t.tell(at)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-ended
	}
}
