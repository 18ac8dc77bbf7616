//go:build !linux

package exec

import (
	"context"
	"os"
	"runtime"
	"syscall"

	"github.com/ctxfs/ctxfs/contexts"
)

const home = "/context"

func notHere() error {
	return &Unavailable{"ctxfs isolates commands on Linux only, and this is " + runtime.GOOS, ""}
}

// Check fails with *Unavailable.
func Check(context.Context, *User) error { return notHere() }

type starter struct{}

func newStarter() *starter { return &starter{} }

func (*starter) close() {}

type sandboxes struct{ user *User }

func (*sandboxes) probe(context.Context, *starter) error { return notHere() }

// box is never made.
type box struct{ tty *os.File }

func (*box) wait() Exit                  { return Exit{Reason: SandboxFailed} }
func (*box) signal(syscall.Signal) error { return notHere() }
func (*box) kill() error                 { return notHere() }
func (*box) terminate() error            { return notHere() }
func (*box) resize(Pty) error            { return notHere() }

func (*Process) launch(context.Context, *contexts.Access) error { return notHere() }

func explain(complaint string) string { return complaint }
