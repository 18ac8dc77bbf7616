package gateway

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/memory"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/session"
	"github.com/ctxfs/ctxfs/sites"
)

// fuzzed is a Gateway to the files of one panel, whose token is "x".
type fuzzed struct {
	*Gateway
	calls *session.Calls
	rpcs  map[string]func(grpc.ServerStream) error
	root  rootfs.Root
	// own, shared and pages are its addresses: of RPCs and sessions, of connections that were taken, and of sites.
	own, shared, pages string
	// site is the host of a site with live reload and a hub, and listing the one of a site that lists.
	site, listing string
	// log is what it has logged.
	log *observer.ObservedLogs
}

// startFuzzed serves until the target ends.
func startFuzzed(f *testing.F) *fuzzed {
	f.Helper()
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "ctxfs")
	must(err)
	f.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(os.WriteFile(filepath.Join(dir, "index.html"), []byte("<!doctype html><html><head><title>t</title></head><body>text</body></html>"), 0o600))
	core, log := observer.New(zapcore.InfoLevel)
	z := &fuzzed{log: log, calls: session.NewCalls(codec.New(codec.NewPool())), rpcs: map[string]func(grpc.ServerStream) error{}}
	z.root, err = rootfs.Open(dir, rootfs.Options{})
	must(err)
	leases := panels.NewLeases(0, func(string, string) {})
	sessions := session.New(session.Config{Leases: leases, Calls: z.calls, Batches: func(ctx context.Context) (context.Context, session.Batches) { return fsservice.WithLookups(ctx) }})
	table := handles.New(handles.Config{PerOwner: 8})
	files := fsservice.New(fsservice.Config{Gate: z, Handles: table, Leases: leases, Sessions: sessions})
	ctxfsv1.RegisterFsServiceServer(z, files)
	store := memory.New()
	must(store.Contexts().Create(f.Context(), metadata.Context{ID: "ctx_p"}))
	must(store.Panels().Bind(f.Context(), metadata.Panel{ID: "p", ContextID: "ctx_p"}))
	registry, err := sites.New(f.Context(), sites.Config{Store: store})
	must(err)
	listen := func() net.Listener {
		l, err := (&net.ListenConfig{}).Listen(f.Context(), "tcp", "127.0.0.1:0")
		must(err)
		return l
	}
	own, shared, pages := listen(), listen(), listen()
	z.own, z.shared, z.pages = own.Addr().String(), shared.Addr().String(), pages.Addr().String()
	z.Gateway = New(Config{
		Calls: z, Files: files, Sessions: sessions, Log: zap.New(core), Keepalive: time.Minute, Sites: registry, PagesAt: LocalPlace(pages.Addr().(*net.TCPAddr).Port),
	})
	for host, options := range map[*string]sites.Options{
		&z.site: {LiveReload: true, Base: true, SPA: true, Hub: true, Form: sites.FormHost, Parents: []string{"http://localhost:1"}}, &z.listing: {Listing: true, Hidden: true, Index: "none", Form: sites.FormHost},
	} {
		_, capability, err := registry.Open(f.Context(), sites.Request{Context: "ctx_p", Panel: "p", Options: options})
		must(err)
		*host = capability + z.cfg.PagesAt.suffix()
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = z.Gateway.Serve(own) })
	serving.Go(func() { _ = z.ServeTaken() })
	serving.Go(func() { _ = z.ServePages(pages, nil) })
	serving.Go(func() {
		for {
			conn, err := shared.Accept()
			if err != nil {
				return
			}
			z.Take(conn)
		}
	})
	f.Cleanup(func() {
		_ = shared.Close()
		z.Stop(0, fserr.ECANCELED)
		serving.Wait()
		sessions.Wait()
		leases.Close()
		_ = table.Close()
		files.Stop()
		_ = z.root.Close()
	})
	z.serves(f)
	return z
}

// serves checks that the files are in reach of all that a target says.
func (z *fuzzed) serves(f *testing.F) {
	f.Helper()
	get := "GET /v1/content?path=/index.html HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n"
	for _, c := range []struct {
		addr, want string
		parts      [][]byte
	}{
		{z.pages, "<title>", [][]byte{z.named([]byte("GET / HTTP/1.1\r\nHost: site\r\n\r\n"))}},
		{z.own, "<title>", [][]byte{[]byte(get)}}, {z.shared, "<title>", [][]byte{[]byte(get)}},
		{z.own, "ctx_p", [][]byte{[]byte(shake), openFrame(f)}}, // the session is ready
	} {
		if reply := z.say(f, c.addr, c.parts...); !strings.Contains(reply, c.want) {
			f.Fatalf("%q was answered with %q, want %q in it", c.parts, reply, c.want)
		}
	}
}

// RegisterService implements grpc.ServiceRegistrar.
func (z *fuzzed) RegisterService(desc *grpc.ServiceDesc, impl any) {
	z.calls.RegisterService(desc, impl)
	for _, m := range desc.Methods {
		z.rpcs["/"+desc.ServiceName+"/"+m.MethodName] = func(s grpc.ServerStream) error {
			reply, err := m.Handler(impl, s.Context(), s.RecvMsg, nil)
			if err != nil {
				return err
			}
			return s.SendMsg(reply)
		}
	}
	for _, m := range desc.Streams {
		z.rpcs["/"+desc.ServiceName+"/"+m.StreamName] = func(s grpc.ServerStream) error { return m.Handler(impl, s) }
	}
}

// identified returns the context of the panel's calls, and of a visitor's.
func identified(ctx context.Context) (context.Context, error) {
	if md, _ := grpcmetadata.FromIncomingContext(ctx); len(md.Get("authorization")) == 1 && md.Get("authorization")[0] == "Bearer x" {
		return panels.WithIdentity(ctx, panels.Identity{Role: panels.RolePanel, Panel: "p", Context: "ctx_p", Owner: "p"}), nil
	}
	if panels.IdentityFrom(ctx).Role != panels.RolePanel {
		return nil, status.Error(codes.Unauthenticated, "no such token")
	}
	return ctx, nil
}

// The methods of Calls.

func (*fuzzed) ConnContext(ctx context.Context, _ net.Conn) context.Context { return ctx }
func (*fuzzed) Conn(context.Context, bool) (info credentials.AuthInfo, done func()) {
	return nil, func() {}
}
func (*fuzzed) Hold(context.Context) (*budget.Hold, error)  { return nil, nil }
func (*fuzzed) MayReadMetrics(context.Context, string) bool { return false }
func (*fuzzed) Status() (string, bool)                      { return "ready", true }

func (*fuzzed) Call(ctx context.Context, _ string, _ any, do func(context.Context, *atomic.Int64) error) error {
	ctx, err := identified(ctx)
	if err != nil {
		return err
	}
	return do(ctx, new(atomic.Int64))
}

func (z *fuzzed) Serve(rpc string, stream grpc.ServerStream) error {
	serve, ctx := z.rpcs[rpc], stream.Context()
	if serve == nil {
		return fserr.ENOSYS
	}
	ctx, err := identified(ctx)
	if err != nil {
		return err
	}
	return serve(receiving{stream.(*rpcStream), ctx})
}

// receiving is a call over HTTP that receives its request as over gRPC.
type receiving struct {
	*rpcStream
	ctx context.Context //nolint:containedctx // grpc.ServerStream has one
}

func (s receiving) Context() context.Context { return s.ctx }
func (s receiving) RecvMsg(m any) error {
	_, err := s.ReceiveRequest(s.ctx, m.(proto.Message), 16<<20, func(int64) error { return nil })
	return err
}

func (*fuzzed) AsVisitor(ctx context.Context, site sites.Site) context.Context {
	return panels.WithIdentity(ctx, site.Visitor())
}

func (*fuzzed) ExchangeConsole(context.Context, string, string) (ConsoleToken, error) {
	return ConsoleToken{}, fserr.EACCES
}

// The methods of fsservice.Gate.

func (z *fuzzed) Acquire(_ context.Context, id contexts.ID, _ contexts.Use) (*contexts.Access, error) {
	if id != "ctx_p" {
		return nil, &fserr.Error{Code: fserr.ESTALE, Kind: fserr.KindContext}
	}
	return gate.NewAccess(z.root, 1, func() {}), nil
}

func (*fuzzed) AcquireSnapshot(context.Context, contexts.ID, string, int64) (*contexts.Access, error) {
	return nil, fserr.ENOENT
}

func (*fuzzed) Ensure(context.Context, contexts.ID, contexts.EnsureOptions, func(contexts.Progress)) (contexts.Ensured, error) {
	return contexts.Ensured{}, nil
}

func (*fuzzed) Batch(context.Context, contexts.ID, contexts.BatchOptions) (contexts.Batched, error) {
	return contexts.Batched{}, fserr.EOPNOTSUPP
}

// say sends bytes to an address, half-closes, and reads to the end. A conversation that the gateway keeps open is cut. The end of what a
// client sends cancels its requests: a whole one gets its answer first.
func (z *fuzzed) say(t testing.TB, addr string, parts ...[]byte) (reply string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // clock: it cuts a conversation that has no end, and judges nothing
	for _, p := range parts {
		if _, err := conn.Write(p); err != nil {
			break // it was refused before
		}
	}
	var heard strings.Builder
	r := bufio.NewReader(io.TeeReader(conn, &heard))
	if req := requestOf(parts[0]); req != nil {
		resp, err := http.ReadResponse(r, req)
		if err == nil && resp.ContentLength > 0 {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	}
	_ = CloseWrite(conn)
	_, _ = io.Copy(io.Discard, r)
	for _, e := range z.log.TakeAll() {
		if e.Level >= zapcore.ErrorLevel || strings.Contains(e.Message, "panic") {
			t.Errorf("the gateway failed: %s %v", e.Message, e.ContextMap())
		}
	}
	return heard.String()
}

// requestOf returns the request with which data begins; nil if it is not whole.
func requestOf(data []byte) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data)))
	if err != nil || r.ProtoMajor != 1 {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil
	}
	return r
}

// FuzzConnection says anything at all to the addresses of RPCs and sessions, of connections that were taken, and of sites.
func FuzzConnection(f *testing.F) {
	z := startFuzzed(f)
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	for _, s := range []string{
		"", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /v1/session HTTP/1.1\r\nHost: localhost\r\n" + upgrade + "\r\n",
		"GET /v1/session HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n" + upgrade + "\r\n", "PUT /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"PUT /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "\x16\x03\x01", "GET / HTTP/9.9\r\n\r\n",
		"PUT /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"GET /v1/content?path=%00 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-\r\nAuthorization: Bearer x\r\nAuthorization: Bearer y\r\n\r\n",
		"GET /v1/content?path=/index.html HTTP/1.1\r\nHost: localhost\r\nRange: bytes=1-2,5-\r\nAuthorization: Bearer x\r\n\r\n",
		"POST /v1/FsService/Stat HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"path\":\"/\"}",
		"POST /v1/FsService/Glob HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nCtxfs-Timeout: 1s\r\n\r\nf\r\n{\"patterns\":[\"*\r\n",
		"POST /v1/mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 46\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}",
		"GET / HTTP/1.1\r\nHost: site\r\nSec-Fetch-Dest: document\r\nRange: bytes=0-1,5-\r\nIf-None-Match: *\r\n\r\nGET /x HTTP/1.1\r\nHost: site\r\nSec-Fetch-Mode: navigate\r\n\r\n",
		"GET /__ctxfs/hub.html HTTP/1.1\r\nHost: site\r\n\r\n", "GET /__ctxfs/sw.js HTTP/1.1\r\nHost: site\r\nService-Worker: script\r\n\r\n",
		"HEAD /%2e%2e/%00 HTTP/1.1\r\nHost: site\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: site\r\n\r\n", "GET http://site/ HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: list\r\nAccept: application/json\r\nAccept-Encoding: gzip;q=0.5, zstd\r\n\r\n", "GET /index.html HTTP/1.1\r\nHost: list\r\nContent-Length: 3\r\n\r\nabc",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		z.say(t, z.pages, z.named(data))
		z.say(t, z.own, data)
		z.say(t, z.shared, data)
	})
}

// named gives the sites in a request the names that they have this time.
func (z *fuzzed) named(data []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("Host: site"), []byte("Host: "+z.site)), []byte("Host: list"), []byte("Host: "+z.listing))
}

// shake asks for a session.
const shake = "GET /v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// openFrame opens a session.
func openFrame(f *testing.F) []byte {
	f.Helper()
	data, err := proto.Marshal(&ctxfsv1.SessionRequest{Id: 1, Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{Token: "x", Batches: true}}})
	if err != nil {
		f.Fatal(err)
	}
	return frame(0x82, data)
}

// FuzzWebSocket says anything after the handshake: first as frames, then as a message of an open session.
func FuzzWebSocket(f *testing.F) {
	z := startFuzzed(f)
	for _, m := range []*ctxfsv1.SessionRequest{
		{}, sessiontest.Call(2, &ctxfsv1.StatRequest{Path: "/"}), sessiontest.Call(2, &ctxfsv1.HoldRequest{}), {Id: 2, Request: &ctxfsv1.SessionRequest_Cancel{}},
		{Id: 1, Request: &ctxfsv1.SessionRequest_RefreshToken{RefreshToken: &ctxfsv1.SessionRefreshToken{Token: "x"}}}, {Id: 2, Request: &ctxfsv1.SessionRequest_Call{}},
		{Also: []*ctxfsv1.SessionRequest{sessiontest.Call(3, &ctxfsv1.WatchRequest{Path: "/"}), {Also: []*ctxfsv1.SessionRequest{{}}}}},
		sessiontest.Call(2, &ctxfsv1.ReadFileRequest{Path: "/index.html"}), sessiontest.Call(2, &ctxfsv1.GlobRequest{Patterns: []string{"**"}}),
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(frame(0x82, data))
	}
	for _, s := range []string{"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x02\x80\x00\x00\x00\x00", "\x80\x80\x00\x00\x00\x00", "\x88\x80\x00\x00\x00\x00", "\x89\xfe\xff\xff", "\xf2\x80", "\x82\x01x"} {
		f.Add([]byte(s))
	}
	open := openFrame(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		z.say(t, z.own, []byte(shake), data)
		z.say(t, z.own, []byte(shake), open, frame(0x82, data))
	})
}

// frame is a WebSocket's frame of a client, masked by zeros.
func frame(head byte, data []byte) []byte {
	n := len(data)
	b := []byte{head, 0x80 | 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0}
	return append(b, data...)
}
