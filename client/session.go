package client

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/method"
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

// fsClient is FsService as one identity calls it. Unary RPCs and watches go by a
// session, which begins with the first of them and anew after it was lost; all of them
// name the same client instance, so that handles outlive a lost connection. RPCs that stream, whose responses are long, are calls of
// their own: each is slowed down by its own reader, and by no other call's. So are calls with more content
// than a session should carry, and all calls when the server knows no sessions.
type fsClient struct {
	// FsServiceClient calls Invoke and NewStream.
	ctxfsv1.FsServiceClient
	conn     grpc.ClientConnInterface
	id       identity
	instance string
	// web is nil where sessions go by gRPC. Only the goroutine that begins a session changes it.
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
	c := &fsClient{conn: conn, id: conn.id, instance: rand.Text(), web: web, bulk: bulk, base: base, stop: stop, off: off}
	c.FsServiceClient = ctxfsv1.NewFsServiceClient(c)
	return c
}

// Invoke implements grpc.ClientConnInterface: by a session, or else as a call of its own.
func (c *fsClient) Invoke(ctx context.Context, name string, args, reply any, opts ...grpc.CallOption) error {
	in, ok1 := args.(proto.Message)
	out, ok2 := reply.(proto.Message)
	err := errNoSession
	if ok1 && ok2 && plain(opts) {
		err = c.call(ctx, name, in, out)
	}
	if err == errNoSession { //nolint:errorlint // it is never wrapped
		return c.conn.Invoke(ctx, name, args, reply, opts...)
	}
	return err
}

// plain reports whether the options are those that generated code gives to every call.
func plain(opts []grpc.CallOption) bool {
	return !slices.ContainsFunc(opts, func(o grpc.CallOption) bool {
		_, static := o.(grpc.StaticMethodCallOption)
		return !static
	})
}

// NewStream implements grpc.ClientConnInterface.
func (c *fsClient) NewStream(ctx context.Context, desc *grpc.StreamDesc, name string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.conn.NewStream(ctx, desc, name, opts...)
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

// beginError returns the error of a call that waited for a session to begin: a *brokenError if the server was not reached, else
// errNoSession. An RPC without a session then reports the server's reason.
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
	link, ready, err := c.greet(ctx, token)
	if err != nil {
		stop()
		return nil, err
	}
	s := newSession(link, ready, ctx.Done(), stop)
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

// sessionLink carries a session's messages: a gRPC stream, or a WebSocket. One goroutine at a time sends, and one receives.
type sessionLink interface {
	// send sends requests as one message. After an error receive has the reason.
	send(t together) error
	// receive returns the next message. owned says that the caller may keep it; else it is valid until the next receive. Errors: io.EOF,
	// gRPC statuses, os.ErrDeadlineExceeded after an interrupt.
	receive() (message []byte, owned bool, err error)
	// interruptible says that interrupt ends receive, once, without loss.
	interruptible() bool
	interrupt()
}

// greet begins a session by WebSocket, which is quicker, or else by gRPC: the server may
// know no WebSocket, or something between may not let it pass.
func (c *fsClient) greet(ctx context.Context, token string) (sessionLink, *ctxfsv1.SessionReady, error) {
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
	link := grpcLink{stream}
	ready, err := begin(link, &ctxfsv1.SessionOpen{ClientInstance: c.instance, Batches: true})
	return link, ready, err
}

// begin opens a session on link.
func begin(link sessionLink, open *ctxfsv1.SessionOpen) (*ctxfsv1.SessionReady, error) {
	request, err := proto.Marshal(&ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: open}})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	_ = link.send(together{request}) // receive has the reason
	data, _, err := link.receive()
	if err != nil {
		return nil, err
	}
	m := &ctxfsv1.SessionResponse{}
	if proto.Unmarshal(data, m) != nil {
		return nil, errMalformed
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

// call calls a unary RPC on a session. One that was not sent is tried on another session,
// and once one that was and may be repeated. Errors: errNoSession, a *brokenError, the server's.
func (c *fsClient) call(ctx context.Context, name string, in, out proto.Message) error {
	for try := 1; ; try++ {
		s, err := c.session(ctx)
		if err != nil {
			return err
		}
		size := proto.Size(in)
		if max(size, expected(in)) > min(s.maxContent, maxShared) {
			return errNoSession
		}
		if err = s.call(ctx, name, in, size, out); err == nil {
			return nil
		}
		if err = s.orEnd(ctx, err); !again(err, func() bool { return method.Of(name).Repeatable(in) }, try) {
			return err
		}
		<-s.over // which it is, or is about to be
	}
}

// expected returns how much content a request asks for, in bytes, as far as it says.
func expected(in proto.Message) (n int) {
	switch r := in.(type) {
	case interface{ GetLength() int64 }:
		return int(r.GetLength())
	case interface{ GetLengths() []int64 }:
		for _, l := range r.GetLengths() {
			n += int(l)
		}
	}
	return n
}

// replies decodes replies. Large content of a reply refers to its encoding.
var replies = codec.New(mem.DefaultBufferPool())

func decode(data []byte, out proto.Message) error {
	if err := replies.UnmarshalOwned(data, out); err != nil {
		return status.Errorf(codes.Internal, "the session's reply cannot be decoded: %v", err)
	}
	return nil
}

// again says whether a call that failed at its try with a broken session is made on another.
func again(err error, repeatable func() bool, try int) bool {
	var broken *brokenError
	if !errors.As(err, &broken) {
		return false
	}
	if broken.sent {
		broken.may = !repeatable()
		return !broken.may && try == 1
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
