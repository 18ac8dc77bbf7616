//go:build !linux

package exec

import (
	"context"
	"math"
	"os"
	"runtime"
	"time"

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
type box struct{ first identity }

type rooms struct{}

func (*rooms) close() {}

// Init does nothing: no program runs inside of a sandbox here.
func Init([]string) (code int, is bool) { return 0, false }

// console is never made.
type console struct{ *os.File }

func (console) resize(Pty) error { return notHere() }

func (*box) outOfMemory() bool      { return false }
func (*box) account(*Exit) error    { return nil }
func (*box) limitsMemory() bool     { return false }
func (*box) cpuTime() time.Duration { return 0 }

// LimitsMemory returns "": commands do not run here.
func LimitsMemory([]string) (string, error) { return "", nil }

// Protections returns "": commands do not run here.
func Protections() string { return "" }

// Version returns "".
func Version(context.Context) string { return "" }

type cgroups struct{}

func openCgroups([]string) (*cgroups, error) { return &cgroups{}, nil }

func (*cgroups) by() map[string]string { return nil }
func (*cgroups) memoryAbove() int64    { return math.MaxInt64 }

func (*Processes) limitsIn(*Command, *plan) (Limits, error) { return Limits{}, notHere() }

func (*box) kept(*survey) {}

func (*box) pause(context.Context) (func(), error) { return nil, notHere() }
func (*box) halt(context.Context) (func(), error)  { return nil, notHere() }

func readPresent(*os.File, []byte) int { return 0 }

func (*Process) launch(context.Context, *contexts.Access) error { return notHere() }

// end does nothing: no process was started.
func (identity) end(context.Context) error { return nil }

func explain(complaint string) string { return complaint }
