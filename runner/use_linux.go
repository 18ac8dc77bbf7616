package runner

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// What a command needs of the server while it runs: to be paused for a fork, the quota of its context, and checkpoints.

// remoteUse is the use of a context by a command of the runner. It implements contexts.Remote.
type remoteUse struct {
	gate *remoteGate
	held *heldLease
}

// Yield implements contexts.Remote.
func (u *remoteUse) Yield(p contexts.Pauser) {
	u.gate.mu.Lock()
	u.held.pauser, u.held.Yields = p, true
	l := u.gate.link
	u.gate.mu.Unlock()
	if l != nil {
		l.note(opYield, u.held.ID)
	}
}

// HasQuota implements contexts.Remote.
func (u *remoteUse) HasQuota() bool { return u.held.Quota }

// Baseline implements contexts.Remote.
func (u *remoteUse) Baseline(ctx context.Context) contexts.Usage { return u.usage(ctx, opBaseline) }

// Usage implements contexts.Remote.
func (u *remoteUse) Usage(ctx context.Context) contexts.Usage { return u.usage(ctx, opUsage) }

// usage asks the server. Without a server nothing is known, and nothing is exceeded.
func (u *remoteUse) usage(ctx context.Context, op string) (usage contexts.Usage) {
	if l := u.gate.server(); l != nil {
		if _, err := l.call(ctx, op, u.held.ID, &usage); err != nil {
			return contexts.Usage{}
		}
	}
	return usage
}

// server returns the link to the server; nil if there is none.
func (g *remoteGate) server() *link {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.link
}

// pausing is the request of opPause.
type pausing struct {
	ID uint64
	// Limit bounds how long the command takes to stop.
	Limit time.Duration
}

// pause pauses the command of a lease until the server resumes it, or has ended.
func (g *remoteGate) pause(l *link, body json.RawMessage) error {
	var req pausing
	if err := json.Unmarshal(body, &req); err != nil {
		return err
	}
	g.mu.Lock()
	h := g.leases[req.ID]
	if h == nil || h.pausing {
		g.mu.Unlock()
		return nil // it has ended; or a call that its caller gave up pauses it
	}
	h.pausing, h.abandoned = true, false
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(h.closing, req.Limit)
	defer cancel()
	resume, err := h.pauser.Pause(ctx)
	g.mu.Lock()
	gone := g.link != l || h.abandoned
	if h.pausing = false; err == nil && !gone {
		h.resume = resume
	}
	g.mu.Unlock()
	if err == nil && gone {
		resume()
		err = errGone
	}
	return err
}

// resume returns what continues the command of a lease; nil if it is not paused. That signals many processes, or waits for the sandbox's init.
func (g *remoteGate) resume(body json.RawMessage) (resume func()) {
	id, err := number(body)
	if err != nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.leases[id]; h != nil {
		resume, h.resume, h.abandoned = h.resume, nil, true
	}
	return resume
}

// remoteCheckpoints implements exec.Checkpoints by those of the server.
type remoteCheckpoints struct{ gate *remoteGate }

// remoteCheckpoint is one of them. A server that ends forgets it.
type remoteCheckpoint struct {
	link *link
	id   uint64
}

// recording is the request of opRecord.
type recording struct {
	ID   uint64
	Argv []string
}

// Begin implements exec.Checkpoints.
func (c remoteCheckpoints) Begin(ctx context.Context, id contexts.ID) (exec.Checkpoint, error) {
	l := c.gate.server()
	if l == nil {
		return nil, noServer()
	}
	p := remoteCheckpoint{link: l}
	_, err := l.call(ctx, opBegin, id, &p.id)
	return p, err
}

// End implements exec.Checkpoint.
func (p remoteCheckpoint) End(ctx context.Context, argv []string) (done exec.Recorded, err error) {
	size := 0
	for i, arg := range argv {
		if size += len(arg); size > maxRecordedArgs {
			argv = argv[:i]
			break
		}
	}
	_, err = p.link.call(ctx, opRecord, recording{p.id, []string{fserrpb.Valid(strings.Join(argv, " "))}}, &done) // the text of JSON is UTF-8
	return done, err
}

// maxRecordedArgs bounds the arguments that a server gets for the journal, in bytes. The journal keeps fewer.
const maxRecordedArgs = 4 << 10

// Drop implements exec.Checkpoint.
func (p remoteCheckpoint) Drop() { p.link.note(opDrop, p.id) }

// The server's side.

// remotePauser pauses a command of a runner. It implements contexts.Pauser.
type remotePauser struct {
	link *link
	id   uint64
}

// Pause implements contexts.Pauser.
func (p remotePauser) Pause(ctx context.Context) (resume func(), err error) {
	limit := sendTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	_, err = p.link.call(ctx, opPause, pausing{p.id, limit}, nil)
	resume = func() { p.link.note(opResume, p.id) }
	if err != nil {
		resume() // it may have been paused when ctx ended
		return nil, err
	}
	return resume, nil
}

// yields makes a lease one that the server pauses.
func (r *remote) yields(id uint64) {
	if access := r.accessOf(id); access != nil {
		access.Yield(remotePauser{r.link, id})
	}
}

func (r *remote) accessOf(id uint64) *contexts.Access {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.leases[id]; g != nil {
		return g.access
	}
	return nil
}

// usage answers a call with what a context takes.
func (r *remote) usage(body json.RawMessage, reply func(any, *os.File, error), of func(*contexts.Access, context.Context) contexts.Usage) {
	id, err := number(body)
	access := r.accessOf(id)
	if err != nil || access == nil {
		reply(contexts.Usage{}, nil, err)
		return
	}
	reply(of(access, r.life), nil, nil)
}

// begin begins a checkpoint.
func (r *remote) begin(body json.RawMessage) (id uint64, err error) {
	var context contexts.ID
	if err := json.Unmarshal(body, &context); err != nil {
		return 0, err
	}
	p, err := r.checkpoints.Begin(r.life, context)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.life.Err(); err != nil {
		p.Drop()
		return 0, err
	}
	r.lastPoint++
	r.points[r.lastPoint] = p
	return r.lastPoint, nil
}

// point takes a checkpoint out of the table; nil if there is none.
func (r *remote) point(id uint64) exec.Checkpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.points[id]
	delete(r.points, id)
	return p
}

func (r *remote) record(body json.RawMessage) (exec.Recorded, error) {
	var req recording
	if err := json.Unmarshal(body, &req); err != nil {
		return exec.Recorded{}, err
	}
	p := r.point(req.ID)
	if p == nil {
		return exec.Recorded{}, &fserr.Error{Code: fserr.ESTALE, Detail: "the server that began the checkpoint has ended"}
	}
	return p.End(r.life, req.Argv)
}

func (r *remote) drop(id uint64) {
	if p := r.point(id); p != nil {
		p.Drop()
	}
}

// dropAll forgets all checkpoints: their runner has ended, or the server has left it.
func (r *remote) dropAll() {
	r.mu.Lock()
	points := r.points
	r.points = nil
	r.mu.Unlock()
	for _, p := range points {
		p.Drop()
	}
}
