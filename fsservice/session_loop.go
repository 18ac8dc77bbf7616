package fsservice

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
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
	// base ends with the session; ctx is base with the identity that operations get, which the receiver alone changes.
	base context.Context //nolint:containedctx // a session outlives the calls of its methods
	ctx  context.Context //nolint:containedctx // as base
	stop context.CancelFunc

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
		service: s, link: link, replies: newReplies(link, together), transport: transport,
		finished: make(chan error, 1), slots: make(chan struct{}, MaxInFlight), underway: map[uint64]*task{}, lanes: map[int32][]*task{},
	}
	se.base, se.stop = context.WithCancel(withLookups(ctx, &se.lookups))
	se.ctx = panels.WithIdentity(se.base, id)
	return se
}

// end ends what is under way, and waits for it.
func (se *session) end() {
	se.stop()
	se.tasks.Wait()
	se.service.watchdog.forget(se)
	se.lookups.end()
}

// reply answers an operation, unless it failed because the session ends, of which the client
// is told the reason. Its error is the link's.
func (se *session) reply(id uint64, res *ctxfsv1.OperationResult, err error) error {
	if err != nil && se.base.Err() != nil {
		return context.Cause(se.base)
	}
	if err != nil {
		return se.replies.send(&ctxfsv1.SessionResponse{Id: id, Response: &ctxfsv1.SessionResponse_Error{Error: fserrpb.ToSession(err)}})
	}
	return se.replies.send(&ctxfsv1.SessionResponse{Id: id, Response: &ctxfsv1.SessionResponse_Result{Result: res}})
}

// goodbye tells the client why the server ends the session.
func (se *session) goodbye(why error) {
	se.replies.last(&ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Closing{
		Closing: &ctxfsv1.SessionClosing{Error: fserrpb.ToSession(why)},
	}})
}

// serve receives until the end, whose reason the client is told if the server has one.
func (se *session) serve() error {
	told := make(chan struct{})
	cancelled := context.AfterFunc(se.base, func() {
		defer close(told)
		if why := context.Cause(se.base); !errors.Is(why, context.Canceled) {
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
				se.finished <- err
				return
			}
		}
		var err error
		if rest, err = se.next(); err != nil {
			se.finished <- unlessEOF(err)
			return
		}
	}
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
	case *ctxfsv1.SessionRequest_Operation:
		return se.operate(m.GetId(), r.Operation, rest)
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
		return se.reply(id, nil, fail(err, "refresh_token", "", ""))
	}
	now.Instance = was.Instance
	se.ctx = panels.WithIdentity(se.base, now)
	return se.replies.send(&ctxfsv1.SessionResponse{Id: id, Response: &ctxfsv1.SessionResponse_Refreshed{
		Refreshed: &ctxfsv1.SessionRefreshed{ExpiresNs: expiresNs(now)},
	}})
}

// operate does an operation, or has it done.
func (se *session) operate(id uint64, env *ctxfsv1.Operation, rest []*ctxfsv1.SessionRequest) (replaced bool, err error) {
	op := operationOf(env)
	switch {
	case id == 0:
		return false, invalid("an operation's id is 0")
	case op == nil:
		return false, se.reply(id, nil, &fserr.Error{
			Code: fserr.EOPNOTSUPP, Detail: "the operation is none that this server knows", Hint: "ctxfs.v1.Operation, by reflection, lists them",
		})
	}
	req := op.request(env)
	if err := checkContent(req); err != nil {
		return false, se.reply(id, nil, err)
	}
	if err := se.takeSlot(); err != nil {
		return false, err
	}
	t := &task{operation: op, id: id, env: env, fd: fdOf(req), ctx: se.ctx}
	if !op.long && se.warm.Load() && se.keep(t, rest) {
		return se.doNow(t)
	}
	return false, se.begin(t)
}

// do does an operation as its RPC would.
func (se *session) do(ctx context.Context, op *operation, env *ctxfsv1.Operation, send func(*ctxfsv1.OperationResult) error) (*ctxfsv1.OperationResult, error) {
	info := OperationInfo{Transport: se.transport, Method: op.method, Request: op.request(env)}
	res, err := se.service.sessions.Around(ctx, info, func(ctx context.Context) (any, error) {
		return op.do(ctx, se.service, env, send)
	})
	if err != nil {
		return nil, err
	}
	se.warm.Store(true)
	result, _ := res.(*ctxfsv1.OperationResult)
	return result, nil
}

// checkContent refuses more content at once than a session carries.
func checkContent(req any) error {
	n := int64(0)
	switch r := req.(type) {
	case *ctxfsv1.ReadRequest:
		n = r.GetLength()
	case *ctxfsv1.ReadvRequest:
		for _, l := range r.GetLengths() {
			n += min(max(l, 0), MaxContent+1)
		}
	case *ctxfsv1.WritevRequest:
		for _, b := range r.GetBuffers() {
			n += int64(len(b))
		}
	case contentRequest:
		n = int64(len(r.GetData()) + len(r.GetText()))
	}
	if n <= MaxContent {
		return nil
	}
	return &fserr.Error{
		Code: fserr.EFBIG, Detail: "content of more than 256 KiB in one message of a session",
		Hint: "read and write ranges on a handle, or use FsService/ReadStream and WriteStream",
	}
}
