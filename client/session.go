package client

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// beginTimeout is how long a server has to begin a session.
const beginTimeout = 30 * time.Second

// maxShared is the most content, in bytes, that goes by a session: more keeps the others
// waiting, and is no slower as an RPC of its own (measured: a session takes half as long
// for 4 KiB, and as long for 128 KiB).
const maxShared = 128 << 10

// errNoSession says that a call must be made as an RPC of its own.
var errNoSession = errors.New("no session serves this call")

// fsClient is FsService as one identity calls it. Unary operations and watches go by a
// session, which begins with the first of them and anew after it was lost; all of them
// name the same client instance, so that handles outlive a lost connection. Opendir, Glob,
// Grep, ReadStream and WriteStream, whose answers are long, are RPCs of their own: each
// is slowed down by its own reader, and by nobody else's. So are calls with more content
// than a session should carry, and all calls when the server knows no sessions.
type fsClient struct {
	ctxfsv1.FsServiceClient
	id       identity
	instance string
	// web is nil where sessions go by gRPC; the one who begins a session may change it.
	web *webDialer
	// bulk makes the connections for content.
	bulk    *webDialer
	base    context.Context //nolint:containedctx // sessions outlive the calls that begin them
	stop    context.CancelFunc
	running sync.WaitGroup

	current atomic.Pointer[session]
	mu      sync.Mutex
	// begins is the session that is about to be; nil when none is.
	begins *beginning
	// off says that there will be no further session: none is wanted, the server knows none, or Close was called.
	off bool
}

// beginning is a session that several calls may wait for. The results are set before done is closed.
type beginning struct {
	done    chan struct{}
	session *session
	err     error
}

// newFSClient returns FsService by conn, and by web where that is not nil; with sessions
// off each call is an RPC of its own.
func newFSClient(conn identityConn, web *webDialer, off bool) *fsClient {
	base, stop := context.WithCancel(context.Background())
	bulk := web
	if conn.id.panel == "" && conn.id.token() == "" {
		web = nil // as greet finds out of others
	}
	return &fsClient{
		FsServiceClient: ctxfsv1.NewFsServiceClient(conn), id: conn.id, instance: rand.Text(), web: web, bulk: bulk, base: base, stop: stop, off: off,
	}
}

// close ends the session and waits for its end. Later calls are RPCs of their own.
func (c *fsClient) close() {
	c.mu.Lock()
	c.off = true
	c.mu.Unlock()
	c.stop()
	c.running.Wait()
}

// session returns the session to use, beginning one if need be. Errors: errNoSession, a
// *brokenError of nothing sent, ctx's.
func (c *fsClient) session(ctx context.Context) (*session, error) {
	if s := c.current.Load(); s != nil {
		return s, nil
	}
	b := c.begin()
	if b == nil {
		return nil, errNoSession
	}
	select {
	case <-b.done:
		return b.session, b.err
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// begin returns the session that begins now; nil when none may.
func (c *fsClient) begin() *beginning {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off || c.begins != nil {
		return c.begins
	}
	b := &beginning{done: make(chan struct{})}
	c.begins = b
	c.running.Go(func() {
		defer close(b.done)
		b.session, b.err = c.open()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.begins = nil
		if status.Code(b.err) == codes.Unimplemented {
			c.off = true
		}
		b.err = beginError(b.err)
	})
	return b
}

// beginError returns what a call that waited for a session's beginning is told: that the
// server was not reached, or to go without a session and to be told there what is wrong.
func beginError(err error) error {
	if err == nil {
		return nil
	}
	if _, told := fserrpb.FromStatus(err); !told && status.Code(err) == codes.Unavailable {
		return &brokenError{why: err}
	}
	return errNoSession
}

// open begins a session and has its messages received.
func (c *fsClient) open() (*session, error) {
	token := c.id.token()
	ctx, stop := context.WithCancel(c.base)
	timer := time.AfterFunc(beginTimeout, stop)
	defer timer.Stop()
	stream, ready, err := c.greet(ctx, token)
	if err != nil {
		stop()
		return nil, err
	}
	s := newSession(stream, ready, stop)
	c.current.Store(s)
	c.running.Go(func() {
		why := s.receive()
		c.current.CompareAndSwap(s, nil)
		if c.base.Err() != nil {
			why = status.Error(codes.Canceled, "the client was closed")
		}
		s.end(why)
	})
	if c.id.token() != token {
		c.running.Go(func() { c.refresh(ctx) })
	}
	return s, nil
}

// sessionStream carries a session's messages: a gRPC stream, or a WebSocket.
type sessionStream interface {
	// SendMsg takes a *together or a *SessionRequest. After an error RecvMsg has the reason.
	SendMsg(m any) error
	// RecvMsg takes a *SessionResponse. Errors: io.EOF, gRPC statuses.
	RecvMsg(m any) error
}

// greet begins a session by WebSocket, which is quicker, or else by gRPC: the server may
// know no WebSocket, or something between may not let it pass.
func (c *fsClient) greet(ctx context.Context, token string) (sessionStream, *ctxfsv1.SessionReady, error) {
	if c.web != nil {
		link, err := c.web.dial(ctx, c.id.panel)
		if err == nil {
			ready, err := begin(link, &ctxfsv1.SessionOpen{ClientInstance: c.instance, Batches: true, Token: token})
			if err != nil || ready.GetContextId() != "" {
				return link, ready, err
			}
			link.close()
			c.web = nil // a host that names no panel: its handles are its connection's, which all its calls must share
		}
	}
	stream, err := c.FsServiceClient.Session(ctx, grpc.ForceCodecV2(newWireCodec()))
	if err != nil {
		return nil, nil, err
	}
	ready, err := begin(stream, &ctxfsv1.SessionOpen{ClientInstance: c.instance, Batches: true})
	return stream, ready, err
}

// begin opens a session on stream.
func begin(stream sessionStream, open *ctxfsv1.SessionOpen) (*ctxfsv1.SessionReady, error) {
	_ = stream.SendMsg(&ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: open}}) // RecvMsg has the reason
	m := &ctxfsv1.SessionResponse{}
	if err := stream.RecvMsg(m); err != nil {
		return nil, err
	}
	switch {
	case m.GetClosing() != nil:
		return nil, fserrpb.FromSession(m.GetClosing().GetError())
	case m.GetReady() == nil:
		return nil, status.Error(codes.Internal, "the session's first message is not ready")
	}
	return m.GetReady(), nil
}

// refresh gives the session, if there is one, the current token. One that the server
// refuses changes nothing: the session ends with the token that it has, and the next
// begins with the current one.
func (c *fsClient) refresh(ctx context.Context) {
	if s := c.current.Load(); s != nil {
		_ = s.refresh(ctx, c.id.token())
	}
}

// traits are what matters of an operation to whoever sends it.
type traits struct {
	// content is how much a session would have to carry at once, in bytes, either way.
	content int
	// repeats says that the operation may be done twice: it changes nothing.
	repeats bool
}

// do does an operation on a session. One that was not sent is tried on another session,
// and once one that was and may be repeated. Errors: errNoSession, a *brokenError, the server's.
func (c *fsClient) do(ctx context.Context, op *ctxfsv1.Operation, t traits) (*ctxfsv1.OperationResult, error) {
	for try := 1; ; try++ {
		s, err := c.session(ctx)
		if err != nil {
			return nil, err
		}
		if t.content > min(s.maxContent, maxShared) {
			return nil, errNoSession
		}
		res, err := s.do(ctx, op)
		if err == nil {
			return res, nil
		}
		if err = s.orEnd(ctx, err); !again(err, t.repeats, try) {
			return nil, err
		}
		<-s.over // which it is, or is about to be
	}
}

// again says whether a call that failed at its try with a broken session is made on another.
func again(err error, repeats bool, try int) bool {
	var broken *brokenError
	if !errors.As(err, &broken) {
		return false
	}
	if broken.sent {
		broken.may = !repeats
		return repeats && try == 1
	}
	return try < 3
}

// brokenError is a call whose session ended before its answer.
type brokenError struct {
	// why is a gRPC status.
	why error
	// sent says that the server may have got the call; may that it may have changed something.
	sent, may bool
}

// Error is why's.
func (e *brokenError) Error() string { return e.why.Error() }

// Unwrap returns why.
func (e *brokenError) Unwrap() error { return e.why }
