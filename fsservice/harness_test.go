package fsservice_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
	"github.com/ctxfs/ctxfs/contexts/feed"
	contextgate "github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/codec/codectest"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/session"
)

// grace of client instances: long enough to come back in, short enough to wait for.
const grace = 200 * time.Millisecond

func TestMain(m *testing.M) {
	overlaytest.Main()
	goleak.VerifyTestMain(m)
}

// gate knows the contexts ctx_a and ctx_b; ctx_b is missing until somebody ensures it.
type gate struct {
	mu         sync.Mutex
	roots      map[contexts.ID]rootfs.Root
	ready      map[contexts.ID]bool
	generation uint64
	// used is what the last Acquire asked for.
	used contexts.Use
	// acquired is called by Acquire, which then replaces the contexts if it says so; nil is not called.
	acquired func() (replace bool)
}

func (g *gate) Acquire(_ context.Context, id contexts.ID, use contexts.Use) (*contexts.Access, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used = use
	if !g.ready[id] {
		return nil, &fserr.Error{Code: fserr.ESTALE, Kind: fserr.KindContext, Detail: "context '" + string(id) + "' does not exist"}
	}
	a := contextgate.NewAccess(g.roots[id], g.generation, func() {})
	if g.acquired != nil && g.acquired() {
		g.generation++
	}
	return a, nil
}

// afterAcquire sets what Acquire calls.
func (g *gate) afterAcquire(acquired func() (replace bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acquired = acquired
}

// AcquireSnapshot knows the snapshot s of ctx_a, which has the files of ctx_b.
func (g *gate) AcquireSnapshot(_ context.Context, id contexts.ID, name string, taken int64) (*contexts.Access, error) {
	if id != "ctx_a" || name != "s" || taken != 7 {
		return nil, &fserr.Error{Code: fserr.ENOENT, Detail: "no snapshot"}
	}
	return contextgate.NewAccess(g.roots["ctx_b"], uint64(taken), func() {}), nil
}

func (g *gate) Ensure(_ context.Context, id contexts.ID, _ contexts.EnsureOptions, _ func(contexts.Progress)) (contexts.Ensured, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ready[id] = true
	return contexts.Ensured{}, nil
}

// Batch keeps nobody out.
func (g *gate) Batch(ctx context.Context, id contexts.ID, opts contexts.BatchOptions) (out contexts.Batched, err error) {
	a, err := g.Acquire(ctx, id, contexts.Write)
	if err != nil {
		return out, err
	}
	steps, err := opts.Steps(a)
	if err != nil {
		return out, err
	}
	b, err := batch.New(context.Background(), a.Root, steps)
	if err != nil {
		return out, err
	}
	dir, err := os.MkdirTemp("", "fssb")
	if err != nil {
		return out, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err = b.Stage(ctx, dir, false); err == nil {
		out.Written, err = b.Flip()
	}
	if err == nil {
		err = b.Clean(ctx)
	}
	return out, err
}

// world is a server with two contexts and a client.
type world struct {
	*testing.T
	gate    *gate
	handles *handles.Table
	client  ctxfsv1.FsServiceClient
	// gone gets the client instances whose leases have ended, after their handles were closed.
	gone chan string
	// content is where the server keeps content on its way; the transport has another such pool.
	content *codectest.Pool
	// dir is the folder of ctx_a.
	dir string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base := overlaytest.Dir(t, func(base string) {
		for _, name := range []string{"a", "b"} {
			if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	})
	w := &world{T: t, dir: filepath.Join(base, "a"), handles: handles.New(handles.Config{PerOwner: 8}), content: codectest.NewPool(), gone: make(chan string, 8)}
	w.gate = &gate{roots: map[contexts.ID]rootfs.Root{}, ready: map[contexts.ID]bool{"ctx_a": true}, generation: 1}
	for id, name := range map[contexts.ID]string{"ctx_a": "a", "ctx_b": "b"} {
		root, err := rootfs.Open(filepath.Join(base, name), rootfs.Options{})
		w.must(err)
		t.Cleanup(func() { _ = root.Close() })
		w.gate.roots[id] = root
	}
	t.Cleanup(func() { _ = w.handles.Close() })
	w.serve()
	return w
}

// serve listens on a unix socket; its path is short, as the system demands.
func (w *world) serve() {
	dir, err := os.MkdirTemp("", "fss")
	w.must(err)
	w.Cleanup(func() { _ = os.RemoveAll(dir) })
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	w.must(err)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(17<<20), grpc.ForceServerCodecV2(codec.New(w.content)), experimental.BufferPool(codectest.NewPool()),
		grpc.UnaryInterceptor(asUnary), grpc.StreamInterceptor(asStream))
	leases := panels.NewLeases(grace, func(owner, instance string) {
		w.handles.CloseInstance(owner, instance)
		w.gone <- instance
	})
	w.Cleanup(leases.Close)
	calls := session.NewCalls(codec.New(w.content))
	sessions := session.New(session.Config{
		Leases: leases, Calls: calls, Batches: func(ctx context.Context) (context.Context, session.Batches) { return fsservice.WithLookups(ctx) },
	})
	feeds, err := feed.Open(feed.Config{Dir: filepath.Join(w.TempDir(), "feeds"), Interrupted: fsservice.Interrupted})
	w.must(err)
	service := fsservice.New(fsservice.Config{Gate: w.gate, Handles: w.handles, Leases: leases, Sessions: sessions, Buffers: w.content, Feeds: feeds})
	ctxfsv1.RegisterFsServiceServer(calls, service)
	ctxfsv1.RegisterFsServiceServer(server, service)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(lis) }()
	conn, err := grpc.NewClient("unix://"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	w.must(err)
	w.client = ctxfsv1.NewFsServiceClient(conn)
	w.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-done
		sessions.Wait()
		service.Stop()
		w.must(feeds.Close())
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// identities are the callers of tests, by the metadata "as".
var identities = map[string]panels.Identity{
	"a":          {Role: panels.RolePanel, Panel: "a", Context: "ctx_a", Owner: "a"},
	"b":          {Role: panels.RolePanel, Panel: "b", Context: "ctx_b", Owner: "b"},
	"a-readonly": {Role: panels.RolePanel, Panel: "a", Context: "ctx_a", Owner: "a", ReadOnly: true},
	"a-snapshot": {Role: panels.RolePanel, Panel: "a", Context: "ctx_a", Owner: "a", Snapshot: "s", SnapshotTaken: 7},
	"host":       {Role: panels.RoleHost, Owner: "host/1"},
}

func identified(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, name := range md.Get("as") {
		ctx = panels.WithIdentity(ctx, identities[name])
	}
	for _, limit := range md.Get("memory") {
		ctx = budget.With(ctx, holdOf(limit))
	}
	return ctx
}

// holdOf returns what a call holds of a panel's account of limit bytes: a quarter, since an account that holds nothing has no limit.
func holdOf(limit string) *budget.Hold {
	n, err := strconv.ParseInt(limit, 10, 64)
	if err != nil {
		panic(err)
	}
	h := budget.New(8*n, time.Minute, nil).Account(n).Share(0, nil).Hold()
	h.Try(n / 4)
	return h
}

func asUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(identified(ctx), req)
}

type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

func asStream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, stream{ss, identified(ss.Context())})
}

// callTime bounds a call of a test. On a machine that is busy a search, which has low priority, gets a twentieth of a processor.
const callTime = 2 * time.Minute

// as returns a call's context for an identity.
func (w *world) as(name string) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	w.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "as", name)
}

func (w *world) put(name, content string) {
	w.Helper()
	w.must(os.MkdirAll(filepath.Dir(filepath.Join(w.dir, name)), 0o755))
	w.must(os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o644))
}

func (w *world) wantContent(name, want string) {
	w.Helper()
	got, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil || string(got) != want {
		w.Errorf("%s holds %.60q (%v), want %.60q", name, got, err, want)
	}
}

// wantError checks an error's message, which begins with its code.
func (w *world) wantError(err error, want string) {
	w.Helper()
	e, ok := fserrpb.FromStatus(err)
	switch {
	case want == "" && err != nil:
		w.Errorf("got %v, want no error", err)
	case want == "":
	case !ok:
		w.Errorf("got %v, want %s", err, want)
	case e.Error() != want:
		w.Errorf("got  %s\nwant %s", e.Error(), want)
	}
}
