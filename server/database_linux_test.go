package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/postgres"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// databaseCalls counts calls of a store by the RPC that makes them; "" is for those of no RPC.
type databaseCalls struct {
	sync.Mutex
	by map[string]int
}

// wrap is Deps.Store.
func (c *databaseCalls) wrap(raw metadata.Store) (metadata.Store, func(context.Context) (string, error)) {
	return metadata.Wrap(raw, func(ctx context.Context, _ string, f func(context.Context) error) error {
		method, _ := grpc.Method(ctx)
		c.Lock()
		c.by[method]++
		c.Unlock()
		return f(ctx)
	}), raw.(*postgres.Store).Identity
}

func (c *databaseCalls) of(method string) int {
	c.Lock()
	defer c.Unlock()
	return c.by[method]
}

func (c *databaseCalls) forget(method string) {
	c.Lock()
	defer c.Unlock()
	delete(c.by, method)
}

// TestFileOperationsDoNotWaitForTheDatabase does file operations while a proxy delays, cuts and holds back what a server and PostgreSQL
// send to each other. They succeed, and none calls the database: one that does fails, or waits for it.
func TestFileOperationsDoNotWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	database := pgtest.Shared(t)
	proxy := pgtest.NewProxy(t, database)
	cfg := testConfig(t)
	cfg.Metadata = proxy.Through(database.Schema(t))
	calls := &databaseCalls{by: map[string]int{}}
	r := startDeps(t, cfg, Deps{Store: calls.wrap}, func(*Server) {})
	opened := r.openPanel(t, "editor")
	host := r.host(t)
	files, ctx := ctxfsv1.NewFsServiceClient(host), with(t, "authorization", bearerOf(opened.GetToken()))
	operations := map[string]func() error{
		ctxfsv1.FsService_WriteFile_FullMethodName: func() error {
			_, err := files.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/file", Content: &ctxfsv1.WriteFileRequest_Data{Data: make([]byte, 4096)}})
			return err
		},
		ctxfsv1.FsService_Stat_FullMethodName: func() error {
			_, err := files.Stat(ctx, &ctxfsv1.StatRequest{Path: "/file"})
			return err
		},
		ctxfsv1.FsService_ReadFile_FullMethodName: func() error {
			_, err := files.ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: "/file"})
			return err
		},
	}
	write := ctxfsv1.FsService_WriteFile_FullMethodName
	if err := operations[write](); err != nil {
		t.Fatal(err)
	}
	calls.forget(write) // the first operation reads the record of its context
	for _, c := range []struct {
		name     string
		disorder pgtest.Disorder
	}{{"delayed", pgtest.Disorder{Delay: time.Second / 10}}, {"cut", pgtest.Disorder{Cut: true}}, {"silent", pgtest.Disorder{Silent: true}}} {
		proxy.Set(c.disorder)
		newPanel := make(chan error, 1)
		go func() { newPanel <- openAt(t.Context(), host, c.name) }()
		for range 60 {
			for name, operate := range operations {
				if err := operate(); err != nil {
					t.Fatalf("%s while the database was %s: %v", name, c.name, err)
				}
			}
		}
		if code := status.Code(<-newPanel); code != codes.Unavailable && (code != codes.OK || c.name != "delayed") {
			t.Errorf("%s: a new panel got %s", c.name, code)
		}
		proxy.Set(pgtest.Disorder{})
		awaitPanel(t, host, c.name)
	}
	for name := range operations {
		if n := calls.of(name); n > 0 {
			t.Errorf("%s called the database %d times", name, n)
		}
	}
	if calls.of(ctxfsv1.PanelService_OpenPanel_FullMethodName) == 0 {
		t.Error("no call of the database was seen")
	}
}

func openAt(ctx context.Context, host grpc.ClientConnInterface, panel string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := ctxfsv1.NewPanelServiceClient(host).OpenPanel(ctx, &ctxfsv1.OpenPanelRequest{PanelId: panel})
	return err
}

// awaitPanel waits until a panel can be opened.
func awaitPanel(t *testing.T, host grpc.ClientConnInterface, panel string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clocktest.Patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for err := openAt(ctx, host, panel); err != nil; err = openAt(ctx, host, panel) {
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("a new panel after the database came back: %v", err)
		}
		<-ticker.C
	}
}

func TestStartWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	postgres := pgtest.Shared(t)
	proxy := pgtest.NewProxy(t, postgres)
	cfg := testConfig(t)
	cfg.Metadata = proxy.Through(postgres.Schema(t))
	proxy.Set(pgtest.Disorder{Cut: true})
	s, err := New(t.Context(), cfg, Deps{})
	if err == nil {
		_ = s.Close()
		t.Fatal("it started")
	}
	if exitCode(err) != ExitNoDatabase {
		t.Errorf("got %v, exit code %d, want %d", err, exitCode(err), ExitNoDatabase)
	}
	proxy.Set(pgtest.Disorder{})
	start(t, cfg)
}

// losing is a server with its records in a PostgreSQL that can lose commits.
type losing struct {
	*faulty
	cfg      Config
	postgres *pgtest.Server
	schema   string
}

func startLosing(t *testing.T) *losing {
	t.Helper()
	l := &losing{cfg: testConfig(t), postgres: pgtest.Shared(t)}
	l.cfg.Metadata, l.cfg.Gateway, l.cfg.Driver = l.postgres.Schema(t), "127.0.0.1:0", DriverCopy
	_, l.schema, _ = strings.Cut(l.cfg.Metadata, "search_path=")
	l.restart(t)
	return l
}

// restart starts the server, after the one before if there is one.
func (l *losing) restart(t *testing.T) {
	t.Helper()
	if l.faulty != nil {
		l.stop()
		if err := l.wait(); err != nil {
			t.Fatal(err)
		}
	}
	core, log := observer.New(zapcore.InfoLevel)
	l.faulty = &faulty{t: t, log: log, running: startDeps(t, l.cfg, Deps{Log: zap.New(core)}, func(*Server) {})}
}

// lose has the database be as it was before a context was made, and before its server raised the epoch above this one.
func (l *losing) lose(t *testing.T, context string, epoch int) {
	t.Helper()
	l.postgres.Exec(t, l.cfg.Metadata,
		"DELETE FROM "+l.schema+".contexts WHERE id = '"+context+"'",
		"DELETE FROM "+l.schema+".panels WHERE context_id = '"+context+"'",
		fmt.Sprintf("UPDATE %s.directory SET epoch = %d, holder = '', expires_at = NULL", l.schema, epoch))
}

func TestCommitsThatPostgresLostAreRestored(t *testing.T) {
	t.Parallel()
	l := startLosing(t)
	lost, kept := l.openPanel(t, "lost"), l.openPanel(t, "kept")
	l.lose(t, "ctx_lost", 0)
	l.until("the lost commits are restored", func() bool { return l.log.FilterMessage(lostLine).Len() == 1 })
	l.until("the server is ready", func() bool { return l.notReady() == "" })
	l.restart(t)
	for _, p := range []*ctxfsv1.OpenPanelResponse{lost, kept} {
		if err := l.stat(p.GetToken()); err != nil {
			t.Errorf("the token of panel %s after a restart: %v", p.GetPanelId(), err)
		}
	}
	l.logged(lostLine, 0)
}

// TestServerThatLostItsLeaseRestoresNothing: the records are another server's by then.
func TestServerThatLostItsLeaseRestoresNothing(t *testing.T) {
	t.Parallel()
	l := startLosing(t)
	l.openPanel(t, "lost")
	l.postgres.Exec(t, l.cfg.Metadata,
		"UPDATE "+l.schema+".directory SET epoch = epoch + 1, holder = 'other', held_host = 'other-machine', expires_at = clock_timestamp() + interval '1 h'",
		"DELETE FROM "+l.schema+".contexts")
	l.database.guard.Load().Recover(errLostCommits)
	if err := l.wait(); !errors.Is(err, postgres.ErrLeaseLost) {
		t.Errorf("Serve returned %v, want ErrLeaseLost", err)
	}
	if n := l.postgres.Query(t, l.cfg.Metadata, "SELECT count(*)::text FROM "+l.schema+".contexts"); n[0] != "0" {
		t.Errorf("it wrote %s records", n[0])
	}
}

func TestStartAfterLostCommitsRevokesTokens(t *testing.T) {
	t.Parallel()
	l := startLosing(t)
	lost, kept := l.openPanel(t, "lost"), l.openPanel(t, "kept")
	// The database knows nothing of the deletion of a context with a panel and a site.
	gone := l.openPanel(t, "gone")
	if _, err := gatewayOf(t, l.running).OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: gone.GetContextId()}); err != nil {
		t.Fatal(err)
	}
	l.stop()
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(l.claim.layout.Dir, gone.GetContextId())); err != nil {
		t.Fatal(err)
	}
	l.lose(t, "ctx_lost", 1) // it has the lease of the server, and not its end
	l.restart(t)
	for _, p := range []*ctxfsv1.OpenPanelResponse{lost, kept, gone} {
		wantError(t, l.stat(p.GetToken()), codes.Unauthenticated, "EACCES", "token is unknown")
	}
	list, err := ctxfsv1.NewContextServiceClient(l.host(t)).ListContexts(t.Context(), &ctxfsv1.ListContextsRequest{})
	if err != nil || len(list.GetContexts()) != 2 {
		t.Errorf("the contexts are %v, %v", list, err)
	}
	if _, settling := l.running.database.settling(time.Now()); !settling {
		t.Error("timed collections do not wait for hosts to open their panels again")
	}
	if again := l.openPanel(t, "lost"); again.GetContextId() != "ctx_lost" || l.stat(again.GetToken()) != nil {
		t.Errorf("opened again: %v", again)
	}
}

// TestLostCommitsOutliveAFailedStart: the start that finds them gives the database a later epoch, and then fails.
func TestLostCommitsOutliveAFailedStart(t *testing.T) {
	t.Parallel()
	l := startLosing(t)
	kept := l.openPanel(t, "kept")
	l.openPanel(t, "lost")
	l.stop()
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	l.lose(t, "ctx_lost", 0)
	broken := errors.New("no token can be deleted")
	s, err := New(t.Context(), l.cfg, Deps{Store: func(raw metadata.Store) (metadata.Store, func(context.Context) (string, error)) {
		return metadata.Wrap(raw, func(ctx context.Context, call string, f func(context.Context) error) error {
			if call == "Tokens.DeletePanel" {
				return broken
			}
			return f(ctx)
		}), func(context.Context) (string, error) { return "same", nil }
	}})
	if !errors.Is(err, broken) {
		t.Fatal(errors.Join(fmt.Errorf("the start got %w", err), s.Close()))
	}
	l.restart(t)
	wantError(t, l.stat(kept.GetToken()), codes.Unauthenticated, "EACCES", "token is unknown")
	if _, err := os.Stat(lostMarker(l.claim.layout)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the marker after the repair: %v", err)
	}
}

func TestRepairAfterLostCommitsRevokesTokens(t *testing.T) {
	t.Parallel()
	l := startLosing(t)
	lost := l.openPanel(t, "lost")
	l.stop()
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	l.lose(t, "ctx_lost", 0)
	if r, err := Repair(t.Context(), l.cfg, Deps{Log: zap.NewNop()}); err != nil || len(r.Recovered) != 1 || r.Revoked != 0 {
		t.Errorf("repaired %+v, %v", r, err) // the only token went with its panel
	}
	l.restart(t)
	wantError(t, l.stat(lost.GetToken()), codes.Unauthenticated, "EACCES", "token is unknown")
	kept := l.openPanel(t, "kept")
	l.stop()
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	l.lose(t, "ctx_lost", 0)
	if r, err := Repair(t.Context(), l.cfg, Deps{Log: zap.NewNop()}); err != nil || r.Revoked != 1 {
		t.Errorf("repaired %+v, %v", r, err)
	}
	l.restart(t)
	wantError(t, l.stat(kept.GetToken()), codes.Unauthenticated, "EACCES", "token is unknown")
	if _, err := l.open("kept"); err != nil {
		t.Error(err)
	}
}
