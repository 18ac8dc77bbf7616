// Package client is the Go client of ctxfs: it finds a server, opens panels, and
// gives a context's folder as an FS, which is an io/fs.FS with a write side in the
// manner of package os.
//
//	c, err := client.Dial(ctx)
//	p, err := c.OpenPanel(ctx, "panels/editor")
//	err = p.FS().WriteFile("notes.md", []byte("hi"), 0o644)
//	err = fs.WalkDir(p.FS(), ".", visit)
//
// Failed file operations are *fs.PathError or *os.LinkError around a *fserr.Error, so
// errors.Is(err, fs.ErrNotExist) and errors.Is(err, fserr.ENOENT) hold. A call that the
// transport could not finish holds a *TransportError, which says what may have happened.
//
// # Sessions
//
// The Client and each Panel send their operations through a session of their own, which the
// first operation opens. A stat takes half of the time that a separate RPC takes, and 32
// callers get three times as many done (BenchmarkStat). The session is a WebSocket at the
// address of the gRPC connection, which is faster than a gRPC stream. It is a gRPC stream if no
// WebSocket is available, or if the caller is a host that names no panel: the handles of such a
// host belong to its connection. A caller that waits alone reads its own reply from the
// WebSocket. What a Go program should know of sessions:
//
//   - The session is the lease of this Client or Panel: handles (File) that it opened close
//     on the server when it is gone for longer than the server's grace, 30 s by default. Two
//     Clients for one panel, as two windows, have a lease each.
//   - When the connection is lost, calls that change nothing are made again, once, and
//     calls that were not sent as well. The others fail with a *TransportError whose
//     MayHaveHappened is true. The next call begins a new session. Handles stay valid, except
//     those of a host that names no panel: they belong to the connection.
//   - A call that ends with its context returns at once, and is cancelled on the server.
//     On a session the server sets no deadline: a call whose context never ends waits
//     until it is answered. An RPC of its own ends after 30 s where the context has none.
//   - At most 128 calls (the server's to say) are under way, watches included; more wait.
//     A watch beyond 64 has a stream of its own.
//   - The client keeps up to 1,024 unread events of a watch; one EventOverflow replaces
//     the rest. Other calls do not wait for the reader of a watch.
//   - Writes, and reads of a File, of more than 128 KiB, Glob, Grep, large listings,
//     ReadStream and WriteStream have RPCs of their own on the same connection: they do not
//     hold up small calls. ReadFile does for as long as a file of up to 3.5 MiB takes.
//   - A Panel passes its renewed token to the running session, which stays open.
//
// With WithoutSession, or if the server does not support sessions, every operation is a separate RPC.
//
// The package depends on the protos, fserr, internal/codec, internal/method, internal/peercred, internal/statedir and
// internal/webconn alone; it must never import a server's package.
package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health/grpc_health_v1"
	grpckeepalive "google.golang.org/grpc/keepalive"

	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/peercred"
)

const (
	// bufferSize of the transport's reads and writes; 128 KiB measured 15% faster than the default.
	bufferSize = 128 << 10
	// maxMessage is the largest message taken or sent, in bytes.
	maxMessage = 17 << 20
	// dialTimeout bounds Dial when its context has no deadline.
	dialTimeout = 10 * time.Second
)

// Client is a connection to a server. It is safe for concurrent use; Close it.
type Client struct {
	Exec

	target target
	cc     *grpc.ClientConn
	conn   identityConn
	fs     *fsClient
	// web makes the connections of sessions and of content.
	web *webDialer
	// unary says that no sessions are wanted.
	unary bool
	// buffers keeps content on its way.
	buffers *codec.Pool

	mu     sync.Mutex
	panels map[*Panel]struct{}
	closed bool
}

// Dial connects to a server: the one of WithAddress, else of the environment's
// CTXFS_ADDRESS, else the one whose workspace the working directory is in. It waits until
// the server answers. Errors: *NoServerError, *UnreachableError.
func Dial(ctx context.Context, opts ...Option) (*Client, error) {
	cfg := newConfig(opts)
	t, err := cfg.locate()
	if err != nil {
		return nil, err
	}
	buffers := codec.NewPool()
	cc, err := grpc.NewClient(t.grpcTarget(), cfg.dialOptions(t, buffers)...)
	if err != nil {
		return nil, &UnreachableError{Address: t.address, Source: t.source, Err: err}
	}
	if err := awaitReady(ctx, cc); err != nil {
		_ = cc.Close()
		return nil, &UnreachableError{Address: t.address, Source: t.source, PID: t.pid, Err: err}
	}
	id := identity{token: func() string { return t.token }, panel: cfg.panel}
	conn := identityConn{cc: cc, id: id}
	web := newWebDialer(t, cfg.tls)
	return &Client{Exec: Exec{conn}, target: t, cc: cc, conn: conn, web: web, fs: newFSClient(conn, web, cfg.unary), unary: cfg.unary, buffers: buffers, panels: map[*Panel]struct{}{}}, nil
}

func (c config) dialOptions(t target, buffers *codec.Pool) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if c.tls != nil {
		creds = credentials.NewTLS(c.tls)
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithUnaryInterceptor(sayUnaryText),
		grpc.WithStreamInterceptor(sayStreamText),
		grpc.WithReadBufferSize(bufferSize),
		grpc.WithWriteBufferSize(bufferSize),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage), grpc.ForceCodecV2(codec.New(buffers))),
		experimental.WithBufferPool(buffers),
		grpc.WithKeepaliveParams(grpckeepalive.ClientParameters{Time: keepalive, Timeout: keepalive / 3}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}, MinConnectTimeout: 5 * time.Second}),
		grpc.WithIdleTimeout(0),
	}
	if _, ok := t.socket(); ok {
		opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return t.dial(ctx, "tcp", addr) }))
	}
	if t.local() {
		opts = append(opts, grpc.WithNoProxy())
	}
	return opts
}

// awaitReady waits for the first connection, and gives up at the first failure: a server
// that is not there should be told at once.
func awaitReady(ctx context.Context, cc *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for {
		cc.Connect()
		state := cc.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return connectError(ctx, cc)
		}
		if !cc.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

// connectError asks the broken connection for its reason by a call, which fails with it.
func connectError(ctx context.Context, cc *grpc.ClientConn) error {
	_, err := grpc_health_v1.NewHealthClient(cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		return errors.New("the connection failed once and came back; try again")
	}
	return err
}

// Server is what server.json says of the server, if it was found there, and empty if it was named by an address. Where the
// system reports it, the PID is that of the process that listens at the socket, and 0 if that is in another PID namespace,
// such as a container's.
func (c *Client) Server() Server {
	s := c.target.server
	if peer := c.target.peer; peercred.HasPID && peer != nil && peer.Load() >= 0 {
		s.PID = int(peer.Load())
	}
	return s
}

// Address is where the server was reached, e.g. "unix:///…/ctxfs.sock" or "127.0.0.1:7420".
func (c *Client) Address() string { return c.target.address }

// Conn is the connection with this client's credentials on every call, for generated
// stubs, reflection and the like. Its errors are gRPC's.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Health returns nil when the server serves. It presents no token: the call is open to all.
func (c *Client) Health(ctx context.Context) error {
	r, err := grpc_health_v1.NewHealthClient(c.cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return convert("health", err)
	}
	if r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return errors.New("the server at " + c.Address() + " is not serving: " + r.GetStatus().String())
	}
	return nil
}

// FS is the caller's own folder: of a client with a panel's token that panel's context.
// A host names one with Context or WithPanel.
func (c *Client) FS() *FS { return c.Context("") }

// Context is the folder of a context by its ID; it makes no call.
func (c *Client) Context(id string) *FS {
	return &FS{ctx: context.Background(), rpc: c.fs, buffers: c.buffers, id: id}
}

// Close ends the sessions and the renewals of all panels, and the connection. Calls under
// way fail with a *TransportError. Panels stay open on the server.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	panels := c.panels
	c.panels = nil
	c.mu.Unlock()
	for p := range panels {
		p.end()
	}
	c.fs.close()
	c.web.close()
	return c.cc.Close()
}
