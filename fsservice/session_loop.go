package fsservice

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

// session is one stream's operations. One goroutine at a time is the receiver. It does
// short operations itself, since handing each to another goroutine costs more than most
// of them; when one takes long after all, another goroutine becomes the receiver (see
// replace). Long ones have a goroutine each. Whoever has a reply sends it: a client that
// does not read stops all of them, and then nothing more is received.
type session struct {
	service   *Service
	link      Link
	replies   *replies
	transport string
	// base ends with the session, work already when the receiver ends. ctx is work with the identity that operations get, which
	// the receiver alone changes.
	base           context.Context //nolint:containedctx // a session outlives the calls of its methods
	work           context.Context //nolint:containedctx // as base
	ctx            context.Context //nolint:containedctx // as base
	stop, stopWork context.CancelFunc

	// shares are what the session may hold of its panel's memory.
	shares Shares

	// lookups is shared by what came together; messages counts.
	lookups  lookups
	messages uint64
	// warm tells that an operation has passed the gate: the context is there, and short operations are short.
	warm atomic.Bool
	// finished gets the receiver's end.
	finished chan error
	// slots bounds what is under way.
	slots chan struct{}
	tasks sync.WaitGroup

	mu sync.Mutex
	// current is what the receiver does itself, and rest what came with it. watched says that the watchdog knows of the session.
	current  *task
	rest     []*ctxfsv1.SessionRequest
	watched  bool
	underway map[uint64]*task
	watches  int
	// lanes holds, for each handle in use, what waits for it.
	lanes map[int32][]*task
}

func newSession(ctx context.Context, s *Service, id panels.Identity, link Link, together bool, transport string) *session {
	se := &session{
		service: s, link: link, replies: newReplies(link, together, s.sessions.Calls.recycle), transport: transport, shares: s.sessions.Shares(ctx),
		finished: make(chan error, 1), slots: make(chan struct{}, MaxInFlight), underway: map[uint64]*task{}, lanes: map[int32][]*task{},
	}
	se.base, se.stop = context.WithCancel(withLookups(ctx, &se.lookups))
	se.work, se.stopWork = context.WithCancel(se.base)
	se.ctx = panels.WithIdentity(se.work, id)
	return se
}

// end ends what is under way, and waits for it.
func (se *session) end() {
	se.stopWork()
	se.stop()
	se.tasks.Wait()
	se.service.watchdog.forget(se)
	se.lookups.end()
}

// reply answers an operation, unless it failed because the session ends, of which the client
// is told the reason. h is what a result holds. Its error is the link's.
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

// goodbye tells the client why the server ends the session.
func (se *session) goodbye(why error) {
	se.replies.last(&ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Closing{
		Closing: &ctxfsv1.SessionClosing{Error: fserrpb.ToSession(why)},
	}})
}

// settleTime bounds how long the end of a session waits for operations under way.
const settleTime = 400 * time.Millisecond

// settle waits until the operations under way have replied, and lets no other begin: the client learns of what took effect
// before the session ended.
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

// serve receives until the end, whose reason the client is told if the server has one.
func (se *session) serve() error {
	told := make(chan struct{})
	cancelled := context.AfterFunc(se.base, func() {
		defer close(told)
		if why := context.Cause(se.base); !errors.Is(why, context.Canceled) {
			se.settle()
			se.goodbye(why)
		}
	})
	se.receive(nil)
	err := <-se.finished
	if !cancelled() {
		<-told
		return context.Cause(se.base)
	}
	var refused *fserr.Error
	if errors.As(err, &refused) {
		se.goodbye(err)
	}
	return fail(err, "session", "", "")
}

// receive is the receiver: it handles the requests that are left of a message, then takes
// more, until the session's end, which it tells, or until it was replaced.
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

// over ends the receiver with the session's error. It cancels the operations under way, among which serve itself may be, if it
// was the receiver once and was replaced.
func (se *session) over(err error) {
	se.finished <- err
	se.stopWork()
}

// next returns the requests of the next message. After the last one it waits until all is answered: io.EOF.
func (se *session) next() ([]*ctxfsv1.SessionRequest, error) {
	se.lookups.end()
	if err := se.replies.uncork(); err != nil {
		return nil, err
	}
	m, err := se.link.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			se.tasks.Wait()
		}
		return nil, err
	}
	if n := 1 + len(m.GetAlso()); n > maxTogether {
		return nil, invalid("%d requests came together, the limit is %d", n, maxTogether)
	}
	if len(m.GetAlso()) > 0 {
		se.messages++
		se.lookups.begin(se.messages)
	}
	for _, further := range m.GetAlso() {
		if len(further.GetAlso()) > 0 {
			return nil, invalid("a request in also has one itself")
		}
	}
	return append([]*ctxfsv1.SessionRequest{m}, m.GetAlso()...), nil
}

// handle handles one request of a message. replaced tells that the caller is no longer the receiver.
func (se *session) handle(m *ctxfsv1.SessionRequest, rest []*ctxfsv1.SessionRequest) (replaced bool, err error) {
	switch r := m.GetRequest().(type) {
	case *ctxfsv1.SessionRequest_Call:
		return se.call(m.GetId(), r.Call, rest)
	case *ctxfsv1.SessionRequest_Cancel:
		se.cancel(m.GetId())
		return false, nil
	case *ctxfsv1.SessionRequest_RefreshToken:
		return false, se.refresh(m.GetId(), r.RefreshToken.GetToken())
	case *ctxfsv1.SessionRequest_Open:
		return false, invalid("the session is open already")
	}
	return false, invalid("message %d is of no kind that this server knows", m.GetId())
}

// refresh goes on with a further token, or as before.
func (se *session) refresh(id uint64, token string) error {
	was := panels.IdentityFrom(se.ctx)
	now, err := se.service.sessions.Refresh(se.ctx, token)
	if err != nil {
		return se.reply(id, nil, nil, fail(err, "refresh_token", "", ""))
	}
	now.Instance = was.Instance
	se.ctx = panels.WithIdentity(se.work, now)
	return se.replies.send(&ctxfsv1.SessionResponse{Id: id, Response: &ctxfsv1.SessionResponse_Refreshed{
		Refreshed: &ctxfsv1.SessionRefreshed{ExpiresNs: expiresNs(now)},
	}}, nil)
}

// start does a task whose request carries n bytes of content, or has it done.
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

// do does a task as its RPC would.
func (se *session) do(t *task, send func(*ctxfsv1.SessionResponse) error) (res *ctxfsv1.SessionResponse, err error) {
	_, err = se.service.sessions.Around(t.ctx, se.transport, t.method, func(begin func(any)) (any, error) {
		var said any
		var err error
		res, said, err = t.do(t.ctx, begin, send)
		return said, err
	})
	if err == nil {
		se.warm.Store(true)
	}
	return res, err
}

// account makes the holds of a task whose request has n bytes beside what surrounds small content. While there is no room for these, it waits, and
// the session receives nothing more.
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

// contentWait bounds how long a request's content waits for memory. Meanwhile the session receives nothing, not even its end.
const contentWait = 30 * time.Second

var errMuchContent = &fserr.Error{
	Code: fserr.EFBIG, Detail: "content of more than 256 KiB in one message of a session",
	Hint: "read and write ranges on a handle, or use FsService/ReadStream and WriteStream",
}
