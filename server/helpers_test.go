package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/runner"
	"github.com/ctxfs/ctxfs/server/services"
)

func TestMain(m *testing.M) {
	if code, is := exec.Init(os.Args); is {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "runner" {
		os.Exit(beRunner())
	}
	namespacestest.Main()
	goleak.VerifyTestMain(pgtest.Main(m))
}

// beRunner makes this program a runner.
func beRunner() int {
	err := runner.Serve(context.Background(), os.Stdin, zap.NewNop(), func(registry grpc.ServiceRegistrar, processes *exec.Processes) {
		ctxfsv1.RegisterExecServiceServer(registry, &services.Exec{Processes: processes})
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// testConfig serves an empty workspace.
func testConfig(t *testing.T) Config {
	t.Helper()
	cfg := DefaultConfig()
	// t.TempDir's path holds the test's name, and may be too long for a socket.
	dir, err := os.MkdirTemp("", "ctxfs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg.Workspace = dir
	cfg.DiskReserve = 0
	if cfg.Metadata, err = pgtest.Setting(dir); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// running is a server that serves.
type running struct {
	*Server
	stop context.CancelFunc
	done chan error
}

// start serves until the test ends.
func start(t *testing.T, cfg Config) *running {
	t.Helper()
	return startWith(t, cfg, func(*Server) {})
}

// startWith is start after change changed the server.
func startWith(t *testing.T, cfg Config, change func(*Server)) *running {
	t.Helper()
	return startLogging(t, cfg, zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), change)
}

// startLogging is startWith with a log of the test's own.
func startLogging(t *testing.T, cfg Config, log *zap.Logger, change func(*Server)) *running {
	t.Helper()
	return startDeps(t, cfg, Deps{Log: log}, change)
}

// startDeps is startWith with parts of the test's own.
func startDeps(t *testing.T, cfg Config, deps Deps, change func(*Server)) *running {
	t.Helper()
	deps.Version = "1.2.3"
	if deps.DrainTime == 0 {
		deps.DrainTime = time.Hour // a stop that waits for what it should end is found, on a machine of any speed
	}
	s, err := New(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Server: s, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := r.wait(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

// wait returns what Serve returned. A server that does not end is left.
func (r *running) wait() (err error) {
	select {
	case err = <-r.done:
	case <-time.After(clocktest.Patience):
		err = errors.New("the server does not end")
	}
	r.done <- nil
	return err
}

func dial(t *testing.T, target string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// host connects over the unix socket.
func (r *running) host(t *testing.T) *grpc.ClientConn {
	t.Helper()
	return dial(t, r.Info().Addresses.Target(), nil)
}

func (r *running) openPanel(t *testing.T, id string) *ctxfsv1.OpenPanelResponse {
	t.Helper()
	resp, err := ctxfsv1.NewPanelServiceClient(r.host(t)).OpenPanel(t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: id})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func with(t *testing.T, pairs ...string) context.Context {
	t.Helper()
	return metadata.NewOutgoingContext(t.Context(), metadata.Pairs(pairs...))
}

func bearerOf(token string) string { return "Bearer " + token }

// wantError checks an error's gRPC code, errno and words.
func wantError(t *testing.T, err error, code codes.Code, errno, words string) {
	t.Helper()
	if status.Code(err) != code || fserrpb.ReasonOf(err) != errno || !strings.Contains(status.Convert(err).Message(), words) {
		t.Errorf("got %v (errno %q), want %s, errno %q, %q", err, fserrpb.ReasonOf(err), code, errno, words)
	}
}

func readToken(t *testing.T, r *running) string {
	t.Helper()
	data, err := os.ReadFile(r.Info().Addresses.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
