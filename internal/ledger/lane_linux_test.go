package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// step is one call, and what it changes.
type step struct {
	// name is as in the summary.
	name string
	do   func() error
	// after is the expected tree after the step. do may set it if the result depends on the answer.
	after tree
	// partly allows what is neither before nor after.
	partly partial
	// reads says that it changes nothing: it is no acknowledgement that could be lost.
	reads bool
}

// shown is the name in the table: those that read are one row.
func (s *step) shown() string {
	if s.reads {
		return "(reads)"
	}
	return s.name
}

// lane is a directory of a panel's context in which one worker does one operation after the other. Its fields are the
// worker's until that has ended.
type lane struct {
	// name is the directory, from the context's root.
	name string
	rng  *rand.Rand
	// fsys is the directory as the panel sees it; raw is FsService, for what the client has no method for.
	fsys *client.FS
	raw  ctxfsv1.FsServiceClient
	ctx  context.Context
	// prefix is the lane's virtual path, for raw.
	prefix string
	// state is what was acknowledged.
	state tree
	// doing is the operation, flight its call that was not answered, err what that failed with.
	doing  string
	flight *step
	err    error
	// acknowledged counts calls that were, by name.
	acknowledged map[string]int
	// done counts those of all lanes.
	done *atomic.Int64
	// serial makes content and names differ.
	serial int
	// choose picks the next operation.
	choose func(rng *rand.Rand) operation
	// log is the last calls, for a failure's report.
	log []acknowledgedCall
}

// attach gives the lane a panel on a server that has just started.
func (l *lane) attach(ctx context.Context, c *client.Client, p *client.Panel) {
	token, _ := p.Token()
	l.ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	l.fsys = p.FS().With(ctx)
	l.raw = ctxfsv1.NewFsServiceClient(tokenConn{c.Conn()})
	l.prefix = "/" + l.name
	l.err, l.log = nil, nil
}

// tokenConn is a connection whose caller brings its own credentials.
type tokenConn struct{ grpc.ClientConnInterface }

// at is a lane's name as the client takes it.
func (l *lane) at(name string) string { return path.Join(l.name, name) }

// work does operations until one fails, or stop is set.
func (l *lane) work(stop *atomic.Bool, pause func()) {
	for !stop.Load() {
		l.once()
		if l.err != nil {
			return
		}
		pause()
	}
}

// once does one operation that is possible now.
func (l *lane) once() {
	for {
		o := l.choose(l.rng)
		if steps := o.plan(l); len(steps) > 0 {
			l.doing = o.name
			l.run(steps)
			return
		}
	}
}

// run does the steps of an operation in order. A step without an after leaves the state as it was.
func (l *lane) run(steps []step) {
	for i := range steps {
		s := &steps[i]
		if s.after == nil {
			s.after = l.state
		}
		l.flight = s
		if l.err = s.do(); l.err != nil {
			return
		}
		l.note(acknowledgedCall{s.name, l.state, s.after})
		l.state, l.flight = s.after, nil
		if !s.reads {
			l.acknowledged[s.name]++
		}
		l.done.Add(1)
	}
}

func (l *lane) note(c acknowledgedCall) {
	if l.log = append(l.log, c); len(l.log) > 40 {
		l.log = l.log[1:]
	}
}

// acknowledgedCall is a call with what was there before and after it.
type acknowledgedCall struct {
	name          string
	before, after tree
}

// String is the call's name with the paths that it changed, and how it left them.
func (c acknowledgedCall) String() string {
	out := c.name
	for _, p := range slices.Sorted(maps.Keys(c.before)) {
		if _, ok := c.after[p]; !ok {
			out += " -" + p
		}
	}
	for _, p := range slices.Sorted(maps.Keys(c.after)) {
		if n := c.after[p]; c.before[p] != n {
			out += fmt.Sprintf(" %s=%s(id %d)", p, n, n.id)
		}
	}
	return out
}

// verdict is what became of a call in flight.
type verdict string

const (
	nothing  verdict = "did not happen"
	happened verdict = "happened"
	partly   verdict = "happened in part"
	// unseen is the verdict on calls that leave no trace on disk: fsync, and all that only read.
	unseen verdict = "left no trace"
)

// settle compares what is there after a restart with the ledger, and makes it the new state of the ledger. The verdict is "" if
// no call was in flight.
func (l *lane) settle(got tree) (verdict, error) {
	d := differ(l.state, got)
	s := l.flight
	l.flight = nil
	switch {
	case s == nil && d == "":
		return "", nil
	case s == nil:
		return "", fmt.Errorf("lost: %s; the last calls were %q", d, l.log)
	case d == "" && s.partly == nil && maps.Equal(l.state, s.after):
		return unseen, nil
	case d == "":
		return nothing, nil
	case untouched(l.err):
		return "", fmt.Errorf("%s: the client said that nothing happened (%w), but %s", s.name, l.err, d)
	case same(s.after, got):
		l.state = s.after
		return happened, nil
	case s.partly != nil && s.partly(l.state, got):
		l.state = got.asModel()
		return partly, nil
	}
	return "", fmt.Errorf("%s in flight left what it must not: beside before, %s; beside after, %s; the last calls were %q", s.name, d, differ(s.after, got), l.log)
}

// untouched reports whether an error promises that nothing happened.
func untouched(err error) bool {
	var t *client.TransportError
	return errors.As(err, &t) && !t.MayHaveHappened
}
