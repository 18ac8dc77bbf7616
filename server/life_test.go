package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}

func TestSecondServerIsToldOfTheFirst(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	r := start(t, cfg)
	_, err := New(t.Context(), cfg, Deps{})
	var served *AlreadyServedError
	if !errors.As(err, &served) || served.PID != os.Getpid() || served.Address != r.Info().Addresses.Target() || exitCode(err) != 75 {
		t.Fatalf("second server: %v", err)
	}
	if !strings.Contains(err.Error(), "; connect to unix:///") {
		t.Errorf("message: %s", err)
	}
	if _, err := ctxfsv1.NewPanelServiceClient(r.host(t)).ListPanels(t.Context(), &ctxfsv1.ListPanelsRequest{}); err != nil {
		t.Errorf("the first server after the second was refused: %v", err)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	state := filepath.Join(cfg.Workspace, ".contexts", ".ctxfs")
	write(t, filepath.Join(state, "FORMAT"), `{"format":2,"written_by":"0.3.0"}`)
	_, err := New(t.Context(), cfg, Deps{Version: "0.1.0"})
	if exitCode(err) != 78 || !strings.Contains(err.Error(), "state format 2 needs ctxfs 0.3.0 or later") {
		t.Errorf("got %v, exit %d", err, exitCode(err))
	}
	if entries, _ := os.ReadDir(state); len(entries) != 1 {
		t.Errorf("something was made: %v", entries)
	}
}

func TestWhatAKilledServerLeftIsNotInTheWay(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	l, err := contexts.NewLayout(cfg.Workspace, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Make("1"); err != nil {
		t.Fatal(err)
	}
	write(t, l.ServerJSON, `{"pid":1,"socket":"/gone"}`)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.Socket})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	r := start(t, cfg)
	if rec, err := readRecord(l.ServerJSON); err != nil || rec.PID != os.Getpid() || rec.Socket != l.Socket {
		t.Errorf("server.json: %+v, %v", rec, err)
	}
	for path, mode := range map[string]os.FileMode{l.Socket: 0o600, l.HostToken: 0o600, l.ServerJSON: 0o600, l.State: 0o700} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %04o", path, st.Mode(), err, mode)
		}
	}
	r.openPanel(t, "p")
	r.stop()
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{l.Socket, l.ServerJSON} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

func TestFileInTheSocketsPlaceIsKept(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "s"), "precious")
	if _, err := listenUnix(t.Context(), path); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("got %v", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "precious" {
		t.Error("the file was touched")
	}
}

func TestLongSocketPath(t *testing.T) {
	tmp := testConfig(t).Workspace
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(tmp, strings.Repeat("r", 100)))
	t.Setenv("TMPDIR", tmp)
	cfg := testConfig(t)
	cfg.ContextsDir = filepath.Join(cfg.Workspace, strings.Repeat("d", 90))
	r := start(t, cfg)
	socket := r.Info().Addresses.Socket
	if !strings.HasPrefix(socket, tmp) || len(socket) > maxSocketPath {
		t.Errorf("socket at %s", socket)
	}
	r.openPanel(t, "p")
	if err := os.Chmod(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := socketPath(filepath.Join(cfg.ContextsDir, "ctxfs.sock")); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("a directory that others can enter was taken: %v", err)
	}
	if err := errors.Join(os.Chmod(filepath.Dir(socket), 0o700), os.Chmod(tmp, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, err := socketPath(filepath.Join(cfg.ContextsDir, "ctxfs.sock")); err == nil || !strings.Contains(err.Error(), "is open to other users") {
		t.Errorf("a directory that others can exchange was taken: %v", err)
	}
}

func watchRoot(t *testing.T, r *running, md ...string) (next func() error) {
	t.Helper()
	next, err := tryWatchRoot(t, r, md...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func tryWatchRoot(t *testing.T, r *running, md ...string) (next func() error, err error) {
	t.Helper()
	stream, err := ctxfsv1.NewFsServiceClient(r.host(t)).Watch(with(t, md...), &ctxfsv1.WatchRequest{Path: "/"})
	if err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err == nil && first.GetReady() == nil {
		err = fmt.Errorf("the first message is %v", first)
	}
	return func() error {
		_, err := stream.Recv()
		return err
	}, err
}

func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	ps := ctxfsv1.NewPanelServiceClient(r.host(t))
	ends := func(name string, next func() error, code codes.Code, words string) {
		t.Helper()
		if err := next(); status.Code(err) != code || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v; want %s, %q", name, err, code, words)
		}
	}
	r.openPanel(t, "p")
	var expires func() error
	shortLived(t, r, func(token string) (err error) {
		expires, err = tryWatchRoot(t, r, "authorization", bearerOf(token))
		return err
	})
	ends("expiry", expires, codes.Unauthenticated, "expired")

	closing, staying := r.openPanel(t, "closing"), r.openPanel(t, "staying")
	closed := watchRoot(t, r, "authorization", bearerOf(closing.GetToken()))
	stays := watchRoot(t, r, "authorization", bearerOf(staying.GetToken()))
	if _, err := ps.ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "closing"}); err != nil {
		t.Fatal(err)
	}
	ends("ClosePanel", closed, codes.Unauthenticated, "closed")
	r.stop()
	ends("stop", stays, codes.Unavailable, "stopping")
	if err := r.wait(); err != nil {
		t.Error(err)
	}
}

// TestStuckStreamEnds has a client that neither sends nor reads: its handler hangs
// in RecvMsg, which no context of ours reaches.
func TestStuckStreamEnds(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	r.openPanel(t, "p")
	stream, err := ctxfsv1.NewFsServiceClient(r.host(t)).WriteStream(with(t, panelKey, "p"))
	if err != nil {
		t.Fatal(err)
	}
	open := &ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: &ctxfsv1.WriteStreamOpen{Path: "/f"}}}
	if err := stream.Send(open); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream runs", func() bool { return r.streams.count() > 0 })
	r.stop()
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	if _, err := stream.CloseAndRecv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the client got %v", err)
	}
}

func TestHostHandlesEndWithTheConnection(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	r.openPanel(t, "p")
	cc := r.host(t)
	if _, err := ctxfsv1.NewFsServiceClient(cc).Open(t.Context(), &ctxfsv1.OpenRequest{ContextId: "ctx_p", Path: "/"}); err != nil {
		t.Fatal(err)
	}
	if n := r.parts.handles.Count(); n != 1 {
		t.Fatalf("%d handles", n)
	}
	_ = cc.Close()
	eventually(t, "the handle ends with its connection", func() bool { return r.parts.handles.Count() == 0 })
}

func TestTooLargeRequestNamesWriteStream(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	req := func(n int) *ctxfsv1.WriteFileRequest {
		return &ctxfsv1.WriteFileRequest{Path: "/f", Content: &ctxfsv1.WriteFileRequest_Data{Data: make([]byte, n)}}
	}
	if _, err := fs.WriteFile(with(t, panelKey, "p"), req(16<<20)); err != nil {
		t.Errorf("16 MiB: %v", err)
	}
	_, err := fs.WriteFile(with(t, panelKey, "p"), req(17<<20))
	wantError(t, err, codes.ResourceExhausted, "EFBIG", "FsService/WriteStream")
	wantRejections(t, r, map[string]int{"request_bytes": 1})
	_, err = fs.WriteFile(with(t, panelKey, "p"), req(32<<20))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("32 MiB: %v", err)
	}
}

func TestTheSizeOfRequestsIsASetting(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.MaxRequest = 2 << 20
	r := start(t, cfg)
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	for size, says := range map[int]string{2 << 20: "", 9 << 18: "request of 2.3 MiB exceeds 2MiB"} {
		_, err := fs.WriteFile(with(t, panelKey, "p"), &ctxfsv1.WriteFileRequest{Path: "/f", Content: &ctxfsv1.WriteFileRequest_Data{Data: make([]byte, size)}})
		if says != "" {
			wantError(t, err, codes.ResourceExhausted, "EFBIG", says)
		} else if err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestEnsureTellsProgressAndThenReady(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.SeedRoot = "."
	write(t, filepath.Join(cfg.Workspace, "a.txt"), "hello")
	r := start(t, cfg)
	if p := r.Info().Plan; p == nil || p.Files != 1 || p.Bytes != 5 {
		t.Errorf("plan %+v, %s", p, r.Info().PlanError)
	}
	stream, err := ctxfsv1.NewContextServiceClient(r.host(t)).EnsureContext(t.Context(), &ctxfsv1.EnsureContextRequest{ContextId: "ctx_x"})
	if err != nil {
		t.Fatal(err)
	}
	var last, before *ctxfsv1.EnsureContextResponse
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		before, last = last, m
	}
	if before.GetProgress() == nil || !last.GetReady().GetSeeded() || last.GetReady().GetContext().GetFiles() != 1 {
		t.Errorf("ended in %v, %v", before, last)
	}
}

func TestHealthIsOpen(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Listen = []string{"127.0.0.1:0"}
	r := start(t, cfg)
	resp, err := grpc_health_v1.NewHealthClient(dial(t, r.Info().Addresses.TCP[0], nil)).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "ctxfs.v1.FsService"})
	if err != nil || resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestStopIsBounded keeps what docs/how-to/upgrade.md and the unit of systemd count on. A timer ends the stop after both times.
func TestStopIsBounded(t *testing.T) {
	if total := drainTime + stopTime; total > 10*time.Second {
		t.Errorf("a stop may take %v, and the documentation says 10 s", total)
	}
}

func TestStopsWithItsParentAndTellsWhenReady(t *testing.T) {
	cfg := testConfig(t)
	cfg.ExitOnStdinClose = true
	cfg.ReadyFile = filepath.Join(cfg.Workspace, "ready")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(cfg.Workspace, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = systemd.Close() }()
	t.Setenv("NOTIFY_SOCKET", systemd.LocalAddr().String())
	in, parent := io.Pipe()
	s, err := New(t.Context(), cfg, Deps{Stdin: in})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background()) }()
	buf := make([]byte, 100)
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		n, err := systemd.Read(buf)
		if err != nil || !strings.HasPrefix(string(buf[:n]), want) {
			t.Errorf("systemd got %q, %v; want %s", buf[:n], err, want)
		}
		if want == "READY=1" {
			if data, err := os.ReadFile(cfg.ReadyFile); err != nil || !strings.HasPrefix(string(data), "unix:///") {
				t.Errorf("ready file %q, %v", data, err)
			}
		}
		_ = parent.Close()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(cfg.ReadyFile); !os.IsNotExist(err) {
		t.Error("the ready file is left")
	}
}

// count returns how many streams run.
func (t *streamTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.live)
}

// TestDrainLetsACallEnd stops the server while a call runs.
func TestDrainLetsACallEnd(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	r.openPanel(t, "p")
	// Deleting waits for the gate that the test holds.
	access, err := r.parts.contexts.Acquire(t.Context(), "ctx_p", contexts.Write)
	if err != nil {
		t.Fatal(err)
	}
	cs := ctxfsv1.NewContextServiceClient(r.host(t))
	deleted := make(chan error, 1)
	go func() {
		_, err := cs.DeleteContext(context.Background(), &ctxfsv1.DeleteContextRequest{ContextId: "ctx_p", DiscardChanges: true})
		deleted <- err
	}()
	eventually(t, "the call runs", func() bool { return r.metrics.running() > 0 })
	r.stop()
	eventually(t, "the server stops", func() bool { return r.notReady() != "" })
	select {
	case err := <-deleted:
		t.Fatalf("the call ended too early: %v", err)
	default:
	}
	access.Release()
	if err := <-deleted; err != nil {
		t.Errorf("a call that ran was cut off: %v", err)
	}
	if err := r.wait(); err != nil {
		t.Error(err)
	}
}

// running returns the calls in flight.
func (m *metrics) running() float64 {
	var out dto.Metric
	if err := m.inFlight.Write(&out); err != nil {
		return 0
	}
	return out.GetGauge().GetValue()
}

func TestPanicIsCaughtAndSaysNothing(t *testing.T) {
	t.Parallel()
	in := newInterceptors(zap.NewNop(), &authenticator{}, newMetrics("1"), newStreamTable())
	_, err := in.unary(t.Context(), grpc_health_v1.Health_Check_FullMethodName, func(context.Context, *call, *any, grpc.UnaryServerInterceptor) (any, error) {
		panic("secret /srv/x")
	})
	wantError(t, err, codes.Internal, "EIO", "internal error")
	if strings.Contains(err.Error(), "secret") {
		t.Error("the panic's text travels")
	}
}

func TestDefaultDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		method string
		req    any
		want   bool
	}{
		{"stat", ctxfsv1.FsService_Stat_FullMethodName, &ctxfsv1.StatRequest{}, true},
		{"readdir", ctxfsv1.FsService_Readdir_FullMethodName, &ctxfsv1.ReaddirRequest{}, true},
		{"recursive readdir", ctxfsv1.FsService_Readdir_FullMethodName, &ctxfsv1.ReaddirRequest{Recursive: true}, false},
		{"cp", ctxfsv1.FsService_Cp_FullMethodName, &ctxfsv1.CpRequest{}, false},
		{"OpenPanel", ctxfsv1.PanelService_OpenPanel_FullMethodName, &ctxfsv1.OpenPanelRequest{}, false},
		{"ExplainTemplate", ctxfsv1.TemplateService_ExplainTemplate_FullMethodName, &ctxfsv1.ExplainTemplateRequest{}, false},
	} {
		ctx, cancel := withDefaultDeadline(t.Context(), time.Now(), method.Of(c.method), c.req)
		if _, got := ctx.Deadline(); got != c.want {
			t.Errorf("%s: deadline %v, want %v", c.name, got, c.want)
		}
		cancel()
	}
}
