package session

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// session is one session. One goroutine at a time is the receiver. It runs short calls itself, since passing each to another
// goroutine costs more than most of them. When such a call takes long after all, another goroutine becomes the receiver (replace).
// Each long call has a goroutine. Every goroutine sends its own reply, so a client that does not read blocks all of them, and then
// nothing more is received.
type session struct {
	server    *Server
	link      Link
	replies   *replies
	transport string
	// base ends with the session, work already with the receiver. ctx is work with the identity of calls; only the receiver changes
	// it.
	base           context.Context //nolint:containedctx // a session outlives the calls of its methods
	work           context.Context //nolint:containedctx // as base
	ctx            context.Context //nolint:containedctx // as base
	stop, stopWork context.CancelFunc

	shares  Shares
	batches Batches
	// warm says that a call has succeeded: the context exists, so short calls are short.
	warm atomic.Bool
	// finished receives the receiver's error.
	finished chan error
	// slots bounds the calls under way.
	slots chan struct{}
	tasks sync.WaitGroup

	mu sync.Mutex
	// current is the task that the receiver runs itself, and rest the requests after it in its message. watched says that the
	// watchdog checks the session.
	current  *task
	rest     []*ctxfsv1.SessionRequest
	watched  bool
	underway map[uint64]*task
	watches  int
	// lanes has, for each handle in use, the tasks that wait for it.
	lanes map[int32][]*task
}

func newSession(ctx context.Context, s *Server, id panels.Identity, link Link, together bool, transport string) *session {
	se := &session{
		server: s, link: link, replies: newReplies(link, together, s.cfg.Calls.recycle), transport: transport, shares: s.cfg.Shares(ctx),
		finished: make(chan error, 1), slots: make(chan struct{}, maxInFlight), underway: map[uint64]*task{}, lanes: map[int32][]*task{},
	}
	ctx, se.batches = s.cfg.Batches(ctx)
	se.base, se.stop = context.WithCancel(ctx)
	se.work, se.stopWork = context.WithCancel(se.base)
	se.ctx = panels.WithIdentity(se.work, id)
	return se
}

// end cancels the calls under way and waits for them.
func (se *session) end() {
	se.stopWork()
	se.stop()
	se.tasks.Wait()
	se.server.watchdog.forget(se)
	se.batches.End()
}

// reply answers a call with a result, which holds h, or with an error. A call that failed because the session ends gets no answer:
// goodbye sends the reason. reply returns the link's error.
func (se *session) reply(id uint64, res *ctxfsv1.SessionResponse, h *budget.Hold, err error) error {
	if err != nil {
		h.Release()
	}
	if err != nil && se.base.Err() != nil {
		return context.Cause(se.base)
	}
	if err != nil {
		return se.replies.send(&ctxfsv1.SessionResponse{Id: id, Response: &ctxfsv1.SessionResponse_Error{Error: fserrpb.ToSession(err)}}, nil)
	}
	res.Id = id
	return se.replies.send(res, h)
}

// goodbye sends the reason for which the server ends the session.
func (se *session) goodbye(why error) {
	se.replies.last(&ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Closing{
		Closing: &ctxfsv1.SessionClosing{Error: fserrpb.ToSession(why)},
	}})
}

// settleTime bounds how long the end of a session waits for calls under way.
const settleTime = 400 * time.Millisecond

// settle waits until the calls under way have replied, and lets no other begin. So the client learns what took effect before the
// session ended.
func (se *session) settle() {
	deadline := time.NewTimer(settleTime)
	defer deadline.Stop()
	for range cap(se.slots) {
		select {
		case se.slots <- struct{}{}:
		case <-deadline.C:
			return
		}
	}
}

// serve handles the requests that came with the first message, and receives until the session ends. If the server ends it, it sends the reason.
func (se *session) serve(first *ctxfsv1.SessionRequest) error {
	sent := make(chan struct{})
	cancelled := context.AfterFunc(se.base, func() {
		defer close(sent)
		if why := context.Cause(se.base); !errors.Is(why, context.Canceled) {
			se.settle()
			se.goodbye(why)
		}
	})
	if together, err := se.requests(first); err != nil {
		se.over(err)
	} else {
		se.receive(together[1:])
	}
	err := <-se.finished
	if !cancelled() {
		<-sent
		return context.Cause(se.base)
	}
	var refused *fserr.Error
	if errors.As(err, &refused) {
		se.goodbye(err)
	}
	return fail(err, "session")
}

// receive is the receiver: it handles the requests that are left of a message, then receives more. It returns when the session
// ends or another goroutine replaces it.
func (se *session) receive(rest []*ctxfsv1.SessionRequest) {
	for {
		if len(rest) > 0 {
			se.replies.cork()
		}
		for len(rest) > 0 {
			m := rest[0]
			rest = rest[1:]
			replaced, err := se.handle(m, rest)
			if replaced {
				return
			}
			if err != nil {
				se.over(err)
				return
			}
		}
		var err error
		if rest, err = se.next(); err != nil {
			se.over(unlessEOF(err))
			return
		}
	}
}

// over ends the receiver with the session's error. It cancels the calls under way. serve may run one of them, if it was the receiver
// and was replaced.
func (se *session) over(err error) {
	se.finished <- err
	se.stopWork()
}

// next returns the requests of the next message. After the last message it waits until all calls are answered, and returns io.EOF.
func (se *session) next() ([]*ctxfsv1.SessionRequest, error) {
	se.batches.End()
	if err := se.replies.uncork(); err != nil {
		return nil, err
	}
	m, err := se.link.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			se.openWindows()
			se.tasks.Wait()
		}
		return nil, err
	}
	return se.requests(m)
}

// requests returns a message's request and those that came with it.
func (se *session) requests(m *ctxfsv1.SessionRequest) ([]*ctxfsv1.SessionRequest, error) {
	if n := 1 + len(m.GetAlso()); n > maxTogether {
		return nil, fserr.Invalid("%d requests came together, the limit is %d", n, maxTogether)
	}
	if len(m.GetAlso()) > 0 {
		se.batches.Begin()
	}
	for _, further := range m.GetAlso() {
		if len(further.GetAlso()) > 0 {
			return nil, fserr.Invalid("a request in also has one itself")
		}
	}
	return append([]*ctxfsv1.SessionRequest{m}, m.GetAlso()...), nil
}

// handle handles one request of a message. replaced says that the caller is no longer the receiver.
func (se *session) handle(m *ctxfsv1.SessionRequest, rest []*ctxfsv1.SessionRequest) (replaced bool, err error) {
	switch r := m.GetRequest().(type) {
	case *ctxfsv1.SessionRequest_Call:
		return se.call(m.GetId(), r.Call, rest)
	case *ctxfsv1.SessionRequest_Cancel:
		se.cancel(m.GetId())
		return false, nil
	case *ctxfsv1.SessionRequest_Credit:
		return false, se.credit(m.GetId(), r.Credit.GetBytes())
	case *ctxfsv1.SessionRequest_RefreshToken:
		return false, se.refresh(m.GetId(), r.RefreshToken.GetToken())
	case *ctxfsv1.SessionRequest_Open:
		return false, fserr.Invalid("the session is open already")
	}
	return false, fserr.Invalid("message %d is of no kind that this server knows", m.GetId())
}

// refresh gives the session a further token's identity, or reports why not.
func (se *session) refresh(id uint64, token string) error {
	was := panels.IdentityFrom(se.ctx)
	now, err := se.server.cfg.Refresh(se.ctx, token)
	if err != nil {
		return se.reply(id, nil, nil, fail(err, "refresh_token"))
	}
	now.Instance = was.Instance
	se.ctx = panels.WithIdentity(se.work, now)
	return se.replies.send(&ctxfsv1.SessionResponse{Id: id, Response: &ctxfsv1.SessionResponse_Refreshed{
		Refreshed: &ctxfsv1.SessionRefreshed{ExpiresNs: expiresNs(now)},
	}}, nil)
}

// start runs a task whose request carries n bytes of content, or starts a goroutine that does.
func (se *session) start(t *task, n int64, rest []*ctxfsv1.SessionRequest) (replaced bool, err error) {
	if err := se.takeSlot(); err != nil {
		return false, err
	}
	t.ctx = se.ctx
	if err := se.account(t, n); err != nil {
		<-se.slots
		return false, se.reply(t.id, nil, nil, err)
	}
	if !t.long && se.warm.Load() && se.keep(t, rest) {
		return se.doNow(t)
	}
	return false, se.begin(t)
}

// do runs a task as gRPC would run its RPC.
func (se *session) do(t *task, send func(*ctxfsv1.SessionResponse) error) (res *ctxfsv1.SessionResponse, err error) {
	_, err = se.server.cfg.Around(t.ctx, se.transport, t.method, func(begin func(any)) (any, error) {
		var resp any
		var err error
		res, resp, err = t.do(t.ctx, begin, send)
		return resp, err
	})
	if err == nil {
		se.warm.Store(true)
	}
	return res, err
}

// account makes a task's holds on memory, n bytes for its request. While there is no room, it waits, and the session receives
// nothing more.
func (se *session) account(t *task, n int64) error {
	if t.heavy {
		t.reply = se.shares.Replies.Hold()
		t.ctx = budget.With(t.ctx, t.reply)
	}
	if n <= budget.Small {
		return nil
	}
	t.content = se.shares.Requests.Hold()
	if t.content.Try(n) {
		return nil
	}
	if err := se.replies.uncork(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(se.work, contentWait)
	defer cancel()
	if err := t.content.Wait(ctx, n); err != nil {
		return budget.Refusal(err, "the request")
	}
	return nil
}

// contentWait bounds how long a request waits for memory. Meanwhile the session receives nothing, not even the client's end.
const contentWait = 30 * time.Second

var errTooMuchContent = &fserr.Error{
	Code: fserr.EFBIG, Detail: "content of more than 256 KiB in one message of a session",
	Hint: "read and write ranges on a handle, or use FsService/ReadStream and WriteStream",
}
