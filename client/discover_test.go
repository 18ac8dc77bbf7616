package client_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/peercred"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

func noEnv(string) string { return "" }

func TestFindsTheServerFromBelow(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	address := servertest.Start(t, ws, nil)
	// A server.json that a panel writes into its own folder must not mislead a client that is started there.
	inside := filepath.Join(ws, ".contexts", "ctx_x", "deep")
	trap := filepath.Join(ws, ".contexts", "ctx_x", ".contexts", ".ctxfs")
	for _, dir := range []string{inside, trap} {
		must(t, os.MkdirAll(dir, 0o700))
	}
	must(t, os.WriteFile(filepath.Join(trap, "server.json"), []byte(`{"socket":"/nowhere"}`), 0o600))
	for _, dir := range []string{ws, filepath.Join(ws, "src"), inside} {
		c, err := client.Dial(t.Context(), client.WithDir(dir), client.WithGetenv(noEnv))
		if err != nil {
			t.Errorf("from %s: %v", dir, err)
			continue
		}
		if c.Address() != address {
			t.Errorf("from %s: %s, want %s", dir, c.Address(), address)
		}
		must(t, c.Health(t.Context()))
		must(t, c.Close())
	}
}

func TestFindsTheServerOfAContainer(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	address := servertest.Start(t, ws, nil)
	record := filepath.Join(ws, ".contexts", ".ctxfs", "server.json")
	seen := `{"pid":1,"socket":"/workspace/.contexts/.ctxfs/ctxfs.sock"}`
	must(t, os.WriteFile(record, []byte(seen), 0o600))
	c, err := client.Dial(t.Context(), client.WithDir(ws), client.WithGetenv(noEnv))
	must(t, err)
	if c.Address() != address {
		t.Errorf("%s, want the socket beside server.json, %s", c.Address(), address)
	}
	if got := c.Server().PID; peercred.HasPID && got != os.Getpid() {
		t.Errorf("pid %d, want that of the process that listens, %d", got, os.Getpid())
	}
	must(t, c.Close())
	// A socket of another name, as a long path gets, is the recorded one whatever is beside server.json.
	must(t, os.WriteFile(record, []byte(`{"pid":1,"socket":"/run/ctxfs-0/0123.sock"}`), 0o600))
	if _, err := client.Dial(t.Context(), client.WithDir(ws), client.WithGetenv(noEnv)); err == nil || !strings.Contains(err.Error(), "/run/ctxfs-0/0123.sock") {
		t.Errorf("%v, want the recorded socket", err)
	}
}

func TestNoServerNamesTheRemedy(t *testing.T) {
	t.Parallel()
	_, err := client.Dial(t.Context(), client.WithDir(t.TempDir()), client.WithGetenv(noEnv))
	var none *client.NoServerError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "ctxfs serve") || !strings.Contains(err.Error(), "CTXFS_ADDRESS") {
		t.Errorf("%v", err)
	}
}

func TestDeadServerIsNamed(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	state := filepath.Join(ws, ".contexts", ".ctxfs")
	must(t, os.MkdirAll(state, 0o700))
	must(t, os.WriteFile(filepath.Join(state, "server.json"), []byte(`{"pid":4121,"socket":"`+filepath.Join(state, "x.sock")+`"}`), 0o600))
	_, err := client.Dial(t.Context(), client.WithDir(ws), client.WithGetenv(noEnv))
	var dead *client.UnreachableError
	if !errors.As(err, &dead) || dead.PID != 4121 || !strings.Contains(err.Error(), "pid 4121") {
		t.Errorf("%v", err)
	}
	must(t, os.Chmod(state, 0o755))
	if _, err := client.Dial(t.Context(), client.WithDir(ws), client.WithGetenv(noEnv)); err == nil || !strings.Contains(err.Error(), "not believed") {
		t.Errorf("a state directory open to others: %v", err)
	}
}

func TestTokenDoesNotTravelInTheClear(t *testing.T) {
	t.Parallel()
	_, err := client.Dial(t.Context(), client.WithAddress("192.0.2.1:7420"), client.WithToken("secret"), client.WithGetenv(noEnv))
	if err == nil || !strings.Contains(err.Error(), "in the clear") {
		t.Errorf("%v", err)
	}
}

func TestEnvironmentGoesBeforeTheSearch(t *testing.T) {
	t.Parallel()
	address := servertest.Start(t, servertest.Workspace(t), nil)
	env := map[string]string{"CTXFS_ADDRESS": strings.TrimPrefix(address, "unix://")}
	c, err := client.Dial(t.Context(), client.WithDir(t.TempDir()), client.WithGetenv(func(k string) string { return env[k] }))
	must(t, err)
	must(t, c.Health(t.Context()))
	must(t, c.Close())
}

// TestHealthCheckHasNoToken checks a server that was only named, and that need not be one of ctxfs.
func TestHealthCheckHasNoToken(t *testing.T) {
	t.Parallel()
	var got []string
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		got = append(got, metadata.ValueFromIncomingContext(ctx, "authorization")...)
		return handler(ctx, req)
	}))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	c, err := client.Dial(t.Context(), client.WithAddress(l.Addr().String()), client.WithToken("secret"), client.WithGetenv(noEnv))
	must(t, err)
	must(t, c.Health(t.Context()))
	must(t, c.Close())
	if len(got) > 0 {
		t.Errorf("the check has the token: %q", got)
	}
}
