package fsservice

import (
	"cmp"
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

// session is one stream's operations. One goroutine receives; it does quick operations
// itself, and has a goroutine begun for each other one. Whoever has a reply sends it, one
// at a time: a client that does not read stops all of them, and then nothing more is received.
type session struct {
	service   *Service
	link      Link
	replies   *replies
	transport string
	// base ends with the session; ctx is base with the identity that operations get, which the receiver alone changes.
	base context.Context //nolint:containedctx // a session outlives the calls of its methods
	ctx  context.Context //nolint:containedctx // as base
	stop context.CancelFunc

	// warm tells that an operation has passed the gate: the context is there, and quick operations are quick.
	warm atomic.Bool
	// slots bounds what is under way.
	slots chan struct{}
	tasks sync.WaitGroup

	mu       sync.Mutex
	underway map[uint64]*task
	watches  int
	// lanes holds, for each handle in use, what waits for it.
	lanes map[int32][]*task
}

func newSession(ctx context.Context, s *Service, id panels.Identity, link Link, together bool, transport string) *session {
	base, stop := context.WithCancel(ctx)
	return &session{
		service: s, link: link, replies: newReplies(link, together), transport: transport, base: base, stop: stop, ctx: panels.WithIdentity(base, id),
		slots: make(chan struct{}, MaxInFlight), underway: map[uint64]*task{}, lanes: map[int32][]*task{},
	}
}

// end ends what is under way, and waits for it.
func (se *session) end() {
	se.stop()
	se.tasks.Wait()
}

// reply answers an operation. Its error is the link's.
func (se *session) reply(id uint64, res *ctxfsv1.OperationResult, err error) error {
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
	err := se.receive()
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

// receive takes messages until there are no more and all is answered. Its error ends the session.
func (se *session) receive() error {
	for {
		m, err := se.link.Recv()
		if errors.Is(err, io.EOF) {
			se.tasks.Wait()
			return nil
		}
		if err == nil {
			err = se.handleAll(m)
		}
		if err != nil {
			return err
		}
	}
}

// handleAll handles what came together; quick replies go together too.
func (se *session) handleAll(m *ctxfsv1.SessionRequest) error {
	if len(m.GetAlso()) == 0 {
		return se.handle(m)
	}
	if n := 1 + len(m.GetAlso()); n > maxTogether {
		return invalid("%d requests came together, the limit is %d", n, maxTogether)
	}
	se.replies.cork()
	err := se.handle(m)
	for _, further := range m.GetAlso() {
		if err == nil && len(further.GetAlso()) > 0 {
			err = invalid("a request in also has one itself")
		}
		if err == nil {
			err = se.handle(further)
		}
	}
	return cmp.Or(err, se.replies.uncork())
}

func (se *session) handle(m *ctxfsv1.SessionRequest) error {
	switch r := m.GetRequest().(type) {
	case *ctxfsv1.SessionRequest_Operation:
		return se.operate(m.GetId(), r.Operation)
	case *ctxfsv1.SessionRequest_Cancel:
		se.cancel(m.GetId())
		return nil
	case *ctxfsv1.SessionRequest_RefreshToken:
		return se.refresh(m.GetId(), r.RefreshToken.GetToken())
	case *ctxfsv1.SessionRequest_Open:
		return invalid("the session is open already")
	}
	return invalid("message %d is of no kind that this server knows", m.GetId())
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
func (se *session) operate(id uint64, env *ctxfsv1.Operation) error {
	op := operationOf(env)
	switch {
	case id == 0:
		return invalid("an operation's id is 0")
	case op == nil:
		return se.reply(id, nil, &fserr.Error{
			Code: fserr.EOPNOTSUPP, Detail: "the operation is none that this server knows", Hint: "ctxfs.v1.Operation, by reflection, lists them",
		})
	}
	req := op.request(env)
	if err := checkContent(req); err != nil {
		return se.reply(id, nil, err)
	}
	if op.quick && se.warm.Load() && se.isFree(id, fdOf(req)) {
		res, err := se.do(se.ctx, op, env, nil)
		return se.reply(id, res, err)
	}
	return se.begin(&task{id: id, operation: op, env: env, fd: fdOf(req)})
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
