package fsservice

import (
	"context"
	"fmt"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// task is an operation under way.
type task struct {
	*operation
	id  uint64
	env *ctxfsv1.Operation
	// fd is the handle that it uses, 0 for none.
	fd     int32
	ctx    context.Context //nolint:containedctx // a task may wait for its turn
	cancel context.CancelFunc
}

// fdOf returns the handle that a request names, 0 when it names none.
func fdOf(req any) int32 {
	if r, ok := req.(interface{ GetFd() int32 }); ok {
		return r.GetFd()
	}
	return 0
}

// isFree reports whether nothing under way has the id or uses the handle.
func (se *session) isFree(id uint64, fd int32) bool {
	se.mu.Lock()
	defer se.mu.Unlock()
	_, busy := se.lanes[fd]
	return se.underway[id] == nil && !busy
}

// begin lets a task run when its handle is free; while too many are under way it waits.
func (se *session) begin(t *task) error {
	if err := se.takeSlot(); err != nil {
		return err
	}
	t.ctx, t.cancel = context.WithCancel(se.ctx)
	first, err := se.enter(t)
	if err != nil {
		t.cancel()
		<-se.slots
		if fserr.CodeOf(err) == fserr.EMFILE {
			return se.reply(t.id, nil, err)
		}
		return err
	}
	if first {
		go se.run(t)
	}
	return nil
}

// takeSlot waits for a slot, and holds no reply back meanwhile.
func (se *session) takeSlot() error {
	select {
	case se.slots <- struct{}{}:
		return nil
	default:
	}
	if err := se.replies.uncork(); err != nil {
		return err
	}
	select {
	case se.slots <- struct{}{}:
		return nil
	case <-se.base.Done():
		return context.Cause(se.base)
	}
}

// enter makes a task known by its id, and reports whether it need not wait for others.
func (se *session) enter(t *task) (first bool, err error) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.underway[t.id] != nil {
		return false, invalid("id %d is in use", t.id)
	}
	if t.isWatch() {
		if se.watches >= MaxWatches {
			return false, &fserr.Error{Op: "watch", Code: fserr.EMFILE, Detail: fmt.Sprintf("%d watches are open on this session, its limit", MaxWatches), Hint: "cancel some"}
		}
		se.watches++
	}
	se.underway[t.id] = t
	se.tasks.Add(1)
	if t.fd == 0 {
		return true, nil
	}
	waiting, busy := se.lanes[t.fd]
	if busy {
		waiting = append(waiting, t)
	}
	se.lanes[t.fd] = waiting
	return !busy, nil
}

func (t *task) isWatch() bool { return t.method == ctxfsv1.FsService_Watch_FullMethodName }

// run does a task, then those that waited for its handle.
func (se *session) run(t *task) {
	for t != nil {
		res, err := se.do(t.ctx, t.operation, t.env, func(part *ctxfsv1.OperationResult) error {
			return se.replies.send(&ctxfsv1.SessionResponse{Id: t.id, More: true, Response: &ctxfsv1.SessionResponse_Result{Result: part}})
		})
		next := se.leave(t)
		_ = se.reply(t.id, res, err) // a broken link ends the receiver too
		<-se.slots
		se.tasks.Done()
		t = next
	}
}

// leave makes a task's id free, before the client can know of its reply, and returns
// what waited for its handle.
func (se *session) leave(t *task) (next *task) {
	t.cancel()
	se.mu.Lock()
	defer se.mu.Unlock()
	delete(se.underway, t.id)
	if t.isWatch() {
		se.watches--
	}
	if t.fd == 0 {
		return nil
	}
	waiting := se.lanes[t.fd]
	if len(waiting) == 0 {
		delete(se.lanes, t.fd)
		return nil
	}
	se.lanes[t.fd] = waiting[1:]
	return waiting[0]
}

// cancel ends a task; one that is not there has its reply on the way.
func (se *session) cancel(id uint64) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if t := se.underway[id]; t != nil {
		t.cancel()
	}
}
