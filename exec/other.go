//go:build !linux

package exec

import (
	"context"
	"runtime"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

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

func (*sandboxes) explain(*Explanation, *plan, rootfs.Root) error { return notHere() }

// box is never made.
type box struct{}

type rooms struct{}

// Init does nothing: no program runs inside of a sandbox here.
func Init([]string) (code int, is bool) { return 0, false }

func (*Process) launch(context.Context, *contexts.Access) error { return notHere() }

func explain(complaint string) string { return complaint }
