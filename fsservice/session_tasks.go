package fsservice

import (
	"context"
	"fmt"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// task is an operation under way.
type task struct {
	method *method.Method
	// long says that it may take long: it gets a goroutine, and a context of its own.
	long bool
	// heavy says that its reply may be larger than budget.Small, so that it counts as memory.
	heavy bool
	id    uint64
	// do runs it. It calls begin with the request, and send with each part of a reply. It returns the reply for the client, and for
	// those that observe the call.
	do func(ctx context.Context, begin func(any), send func(*ctxfsv1.SessionResponse) error) (*ctxfsv1.SessionResponse, any, error)
	// fd is the handle that it uses, 0 for none.
	fd     int32
	ctx    context.Context //nolint:containedctx // a task may wait for its turn
	cancel context.CancelFunc
	// reply is what the reply holds of the session's memory, content what the request does; nil when they are small.
	reply, content *budget.Hold
}

// keep makes t what the receiver does itself, unless its id is in use or its handle is.
func (se *session) keep(t *task, rest []*ctxfsv1.SessionRequest) bool {
	se.mu.Lock()
	_, busy := se.lanes[t.fd]
	if busy || se.underway[t.id] != nil {
		se.mu.Unlock()
		return false
	}
	se.current, se.rest = t, rest
	unwatched := !se.watched
	se.watched = true
	se.mu.Unlock()
	if unwatched {
		se.service.watchdog.watch(se)
	}
	return true
}

// doing is what the receiver does itself, nil when that is nothing.
func (se *session) doing() *task {
	se.mu.Lock()
	defer se.mu.Unlock()
	return se.current
}

// unwatched lets the watchdog look elsewhere, if the receiver does nothing.
func (se *session) unwatched() bool {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.current == nil {
		se.watched = false
	}
	return !se.watched
}

// doNow does what was kept. When it took too long there is another receiver now, and the
// caller goes on as any goroutine with a task.
func (se *session) doNow(t *task) (replaced bool, err error) {
	res, opErr := se.do(t, nil)
	se.mu.Lock()
	replaced = se.current != t
	if !replaced {
		se.current, se.rest = nil, nil
	}
	se.mu.Unlock()
	if replaced {
		se.run(se.finish(t, res, opErr))
		return true, nil
	}
	t.content.Release()
	err = se.reply(t.id, res, t.reply, opErr)
	<-se.slots
	return false, err
}

// replace makes the calling goroutine the receiver, if t still keeps the present one: t
// becomes a task like others.
func (se *session) replace(t *task) {
	se.mu.Lock()
	if se.current != t {
		se.mu.Unlock()
		return
	}
	rest := se.rest
	se.current, se.rest = nil, nil
	t.cancel = t.reply.Cancel // what is this short has no loop to end, but may wait for memory
	_ = se.add(t)             // keep has seen that it is the first on its handle
	se.mu.Unlock()
	if err := se.replies.uncork(); err != nil {
		se.over(err)
		return
	}
	se.receive(rest)
}

// begin lets a task that has its slot run when its handle is free.
func (se *session) begin(t *task) error {
	t.ctx, t.cancel = context.WithCancel(t.ctx)
	first, err := se.enter(t)
	if err != nil {
		t.cancel()
		t.content.Release()
		<-se.slots
		if fserr.CodeOf(err) == fserr.EMFILE {
			return se.reply(t.id, nil, nil, err)
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
	return se.add(t), nil
}

// add makes a task known; false when it has to wait for its handle. se.mu is held.
func (se *session) add(t *task) (first bool) {
	se.underway[t.id] = t
	se.tasks.Add(1)
	if t.fd == 0 {
		return true
	}
	waiting, busy := se.lanes[t.fd]
	if busy {
		waiting = append(waiting, t)
	}
	se.lanes[t.fd] = waiting
	return !busy
}

func (t *task) isWatch() bool { return t.method.Limit() == ctxfsv1.Limit_LIMIT_WATCHES }

// run does a task, then those that waited for its handle; nil is none.
func (se *session) run(t *task) {
	for t != nil {
		res, err := se.do(t, func(part *ctxfsv1.SessionResponse) error {
			part.Id, part.More = t.id, true
			return se.replies.send(part, nil)
		})
		t = se.finish(t, res, err)
	}
}

// finish answers a task, and returns what waited for its handle.
func (se *session) finish(t *task, res *ctxfsv1.SessionResponse, err error) (next *task) {
	next = se.leave(t)
	t.content.Release()
	_ = se.reply(t.id, res, t.reply, err) // a broken link ends the receiver too
	<-se.slots
	se.tasks.Done()
	return next
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
