package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// task is a call under way.
type task struct {
	method *method.Method
	// long says that the call may take long: it gets a goroutine and a context of its own.
	long bool
	// heavy says that the reply may be larger than budget.Small, so it counts as memory.
	heavy bool
	id    uint64
	// do runs the call. It calls begin with the request, and send with each part of a reply. It returns the reply as it travels and as
	// the RPC returned it.
	do func(ctx context.Context, begin func(any), send func(*ctxfsv1.SessionResponse) error) (*ctxfsv1.SessionResponse, any, error)
	// fd is the handle that the call uses, 0 for none.
	fd     int32
	ctx    context.Context //nolint:containedctx // a task may wait for its turn
	cancel context.CancelFunc
	// reply and content are the holds of the reply and of the request on the session's memory; nil when they are small.
	reply, content *budget.Hold
	// window is nil if the client has set none.
	window *window
}

// window bounds the responses of a call that its client has not used.
type window struct {
	size int64

	mu sync.Mutex
	// left is how many bytes may be sent. The last response may exceed it.
	left int64
	// renewed is closed when left grows; nil when the call does not wait.
	renewed chan struct{}
}

// mostWindow is no bound, and small enough not to overflow.
const mostWindow = 1 << 60

// newWindow returns a window of so many bytes; nil, which has no bound, if they are not positive.
func newWindow(size int64) *window {
	if size <= 0 {
		return nil
	}
	size = min(size, mostWindow)
	return &window{size: size, left: size}
}

// take waits until a response of n bytes may be sent.
func (w *window) take(ctx context.Context, n int) error {
	for w != nil {
		w.mu.Lock()
		if w.left > 0 {
			w.left -= int64(n)
			w.mu.Unlock()
			return nil
		}
		if w.renewed == nil {
			w.renewed = make(chan struct{})
		}
		renewed := w.renewed
		w.mu.Unlock()
		select {
		case <-renewed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// renew notes that the client has used n bytes.
func (w *window) renew(n int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left += min(n, w.size-w.left)
	if w.renewed != nil {
		close(w.renewed)
		w.renewed = nil
	}
}

// open removes the bound.
func (w *window) open() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.size = mostWindow
	w.mu.Unlock()
	w.renew(mostWindow)
}

// keep makes t the task that the receiver runs itself, unless its id or its handle is in use.
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
		se.server.watchdog.watch(se)
	}
	return true
}

// doing returns the task that the receiver runs itself; nil when there is none.
func (se *session) doing() *task {
	se.mu.Lock()
	defer se.mu.Unlock()
	return se.current
}

// unwatched reports whether the watchdog may forget the session, since the receiver runs no task.
func (se *session) unwatched() bool {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.current == nil {
		se.watched = false
	}
	return !se.watched
}

// doNow runs the task that was kept. If it took too long, another goroutine has become the receiver, and the caller runs on as the
// goroutine of a task.
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

// replace makes the calling goroutine the receiver, if the present one still runs t.
func (se *session) replace(t *task) {
	se.mu.Lock()
	if se.current != t {
		se.mu.Unlock()
		return
	}
	rest := se.rest
	se.current, se.rest = nil, nil
	t.cancel = t.reply.Cancel // so short a call has no loop to end, but may wait for memory
	_ = se.add(t)             // keep has seen that it is the first on its handle
	se.mu.Unlock()
	if err := se.replies.uncork(); err != nil {
		se.over(err)
		return
	}
	se.receive(rest)
}

// begin runs a task in a goroutine, once its handle is free.
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

// takeSlot waits for a slot. While it waits, no replies are held back.
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

// enter registers a task by its id, and reports whether it is the first on its handle.
func (se *session) enter(t *task) (first bool, err error) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.underway[t.id] != nil {
		return false, fserr.Invalid("id %d is in use", t.id)
	}
	if t.isWatch() {
		if se.watches >= maxWatches {
			return false, &fserr.Error{Op: "watch", Code: fserr.EMFILE, Detail: fmt.Sprintf("%d watches are open on this session, its limit", maxWatches), Hint: "cancel some"}
		}
		se.watches++
	}
	return se.add(t), nil
}

// add registers a task, and reports whether it is the first on its handle. se.mu is held.
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

// run runs a task, then the tasks that waited for its handle; nil is none.
func (se *session) run(t *task) {
	for t != nil {
		res, err := se.do(t, func(part *ctxfsv1.SessionResponse) error {
			if err := t.window.take(t.ctx, len(part.GetReply().GetData())); err != nil {
				return err
			}
			part.Id, part.More = t.id, true
			return se.replies.send(part, nil)
		})
		t = se.finish(t, res, err)
	}
}

// finish answers a task, and returns the next task on its handle.
func (se *session) finish(t *task, res *ctxfsv1.SessionResponse, err error) (next *task) {
	next = se.leave(t)
	t.content.Release()
	_ = se.reply(t.id, res, t.reply, err) // a broken link ends the receiver too
	<-se.slots
	se.tasks.Done()
	return next
}

// leave frees a task's id, before the client can see its reply, and returns the next task on its handle.
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

// cancel cancels a task. If there is none, its reply was sent already.
func (se *session) cancel(id uint64) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if t := se.underway[id]; t != nil {
		t.cancel()
	}
}

// credit renews the window of a task. If there is none, its reply was sent already.
func (se *session) credit(id uint64, n int64) error {
	if n < 1 {
		return fserr.Invalid("credit of %d bytes", n)
	}
	se.mu.Lock()
	defer se.mu.Unlock()
	if t := se.underway[id]; t != nil {
		t.window.renew(n)
	}
	return nil
}

// openWindows removes the bounds of all tasks. The client sends no credit any more, and still reads: the link holds up the replies to a
// client that is slow.
func (se *session) openWindows() {
	se.mu.Lock()
	defer se.mu.Unlock()
	for _, t := range se.underway {
		t.window.open()
	}
}

const (
	// watchdogInterval is how often the watchdog checks: a task that it sees twice has kept its receiver for too long.
	watchdogInterval = time.Millisecond
	// idleChecks is how many checks must find a session idle before the watchdog forgets it.
	idleChecks = 8
)

// watchdog replaces the receivers of sessions that run a task for too long. A timer for each task would cost more than most tasks.
// This is one goroutine, which runs only while a session is busy.
type watchdog struct {
	mu      sync.Mutex
	watched map[*session]*lastCheck
	runs    bool
	running sync.WaitGroup
}

// lastCheck is the state of a session at the watchdog's last check.
type lastCheck struct {
	doing *task
	idle  int
}

// watch adds a session that has become busy.
func (w *watchdog) watch(se *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched == nil {
		w.watched = map[*session]*lastCheck{}
	}
	w.watched[se] = &lastCheck{}
	if !w.runs {
		w.runs = true
		w.running.Go(w.run)
	}
}

// forget drops a session that has ended.
func (w *watchdog) forget(se *session) {
	w.mu.Lock()
	delete(w.watched, se)
	w.mu.Unlock()
}

func (w *watchdog) run() {
	tick := time.NewTicker(watchdogInterval)
	defer tick.Stop()
	for range tick.C {
		if !w.check() {
			return
		}
	}
}

// check checks each session once. It returns false when there is none left.
func (w *watchdog) check() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for se, seen := range w.watched {
		t := se.doing()
		switch {
		case t != nil && t == seen.doing:
			go se.replace(t)
		case t != nil:
			seen.idle = 0
		case seen.idle < idleChecks:
			seen.idle++
		case se.unwatched():
			delete(w.watched, se)
		}
		seen.doing = t
	}
	w.runs = len(w.watched) > 0
	return w.runs
}
