package server

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/metadatatest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// faulty is a server whose database another process seems to have.
type faulty struct {
	*running
	t *testing.T
	// db is the database as the server reaches it, raw without faults.
	db  *metadatatest.Faulty
	raw metadata.Store
	log *observer.ObservedLogs

	mu       sync.Mutex
	identity string
}

func startFaulty(t *testing.T, cfg Config, runner ...string) *faulty {
	t.Helper()
	f := &faulty{t: t, identity: "first"}
	core, log := observer.New(zapcore.InfoLevel)
	f.log = log
	f.running = startDeps(t, cfg, Deps{Log: zap.New(core), Runner: runner, Store: func(raw metadata.Store) (metadata.Store, func(context.Context) (string, error)) {
		f.raw, f.db = raw, metadatatest.NewFaulty(raw)
		return f.db, func(ctx context.Context) (string, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.identity, f.db.Check(ctx)
		}
	}}, func(*Server) {})
	return f
}

func (f *faulty) stat(token string) error {
	f.t.Helper()
	_, err := ctxfsv1.NewFsServiceClient(f.host(f.t)).Stat(with(f.t, "authorization", bearerOf(token)), &ctxfsv1.StatRequest{Path: "/"})
	return err
}

// open opens a panel with an empty context.
func (f *faulty) open(id string) (*ctxfsv1.OpenPanelResponse, error) {
	f.t.Helper()
	return ctxfsv1.NewPanelServiceClient(f.host(f.t)).OpenPanel(f.t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: id})
}

// unavailable checks that a call failed for the database, and says when to try again.
func (f *faulty) unavailable(what string, err error) {
	f.t.Helper()
	retry := false
	for _, d := range status.Convert(err).Details() {
		info, ok := d.(*errdetails.RetryInfo)
		retry = retry || ok && info.GetRetryDelay().AsDuration() > 0
	}
	if !retry {
		f.t.Errorf("%s: %v says not when to try again", what, err)
	}
	wantError(f.t, err, codes.Unavailable, "EAGAIN", "PostgreSQL")
}

// until waits until a condition holds.
func (f *faulty) until(what string, holds func() bool) {
	f.t.Helper()
	clocktest.Await(f.t, what, holds)
}

func (f *faulty) mend() {
	f.t.Helper()
	f.db.Set(metadatatest.Fault{})
	f.until("the server is ready", func() bool { return f.notReady() == "" })
}

// logged checks how many lines say something.
func (f *faulty) logged(line string, want int) {
	f.t.Helper()
	if got := f.log.FilterMessage(line).Len(); got != want {
		f.t.Errorf("%d lines say %q, want %d", got, line, want)
	}
}

const (
	awayLine = "the database with the records does not answer: open panels are served on, new ones wait for it"
	backLine = "the database with the records answers again"
	lostLine = "the database had lost commits: what this server knew of them was restored"
)

func TestOpenPanelsOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	f := startFaulty(t, testConfig(t))
	opened := f.openPanel(t, "editor")
	if err := f.stat(opened.GetToken()); err != nil {
		t.Fatal(err)
	}
	f.db.Set(metadatatest.Fault{Silent: true})
	for range 50 {
		if err := f.stat(opened.GetToken()); err != nil {
			t.Fatalf("stat while the database is silent: %v", err)
		}
	}
	_, err := f.open("other")
	f.unavailable("a new panel", err)
	f.unavailable("a token that was never seen", f.stat("unknown"))
	_, err = ctxfsv1.NewPanelServiceClient(f.host(t)).RenewToken(t.Context(), &ctxfsv1.RenewTokenRequest{PanelId: "editor"})
	f.unavailable("a further token", err)
	_, err = ctxfsv1.NewContextServiceClient(f.host(t)).ListContexts(t.Context(), &ctxfsv1.ListContextsRequest{})
	f.unavailable("a list", err)
	f.until("the server is not ready", func() bool { return f.notReady() != "" })
	panel := with(t, "authorization", bearerOf(opened.GetToken()))
	if _, err := ctxfsv1.NewReviewServiceClient(f.host(t)).ListChanges(panel, &ctxfsv1.ListChangesRequest{}); err != nil {
		t.Errorf("the changes of an open context: %v", err)
	}
	if _, err := ctxfsv1.NewZoneServiceClient(f.host(t)).ListZones(panel, &ctxfsv1.ListZonesRequest{}); err != nil {
		t.Errorf("the zones of an open context: %v", err)
	}
	f.mend()
	if _, err := f.open("other"); err != nil {
		t.Errorf("a new panel, once the database is back: %v", err)
	}
	wantError(t, f.stat("unknown"), codes.Unauthenticated, "EACCES", "token is unknown")
	f.logged(awayLine, 1)
	f.logged(backLine, 1)
	f.logged(lostLine, 0)
	if n := f.database.guard.Load().Outages(); n != 1 {
		t.Errorf("%d outages are counted", n)
	}
}

// TestSeedingOutlivesTheDatabase loses the database when a context's folder is made and its record is not complete.
func TestSeedingOutlivesTheDatabase(t *testing.T) {
	t.Parallel()
	f := startFaulty(t, testConfig(t))
	f.db.After(func(call string) bool { return call == "Contexts.Update" }, metadatatest.Fault{Err: metadata.ErrUnavailable})
	_, err := f.open("editor")
	f.unavailable("a panel whose context could not be recorded", err)
	f.mend()
	opened, err := f.open("editor")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.stat(opened.GetToken()); err != nil {
		t.Error(err)
	}
	rec, err := f.raw.Contexts().Get(t.Context(), "ctx_editor")
	if err != nil || rec.State != metadata.ContextReady || rec.Driver == "" {
		t.Errorf("the record is %+v, %v", rec, err)
	}
}

func TestLostCommitsAreRestored(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	f := startFaulty(t, cfg)
	ctx := t.Context()
	host := f.host(t)
	kept, closed, deleted := f.openPanel(t, "kept"), f.openPanel(t, "closed"), f.openPanel(t, "deleted")
	// What the database will show again.
	stale := staleOf(t, f.raw, "closed", "deleted")
	if _, err := ctxfsv1.NewPanelServiceClient(host).ClosePanel(ctx, &ctxfsv1.ClosePanelRequest{PanelId: "closed"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ctxfsv1.NewContextServiceClient(host).DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: "ctx_deleted", DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	f.db.Set(metadatatest.Fault{Err: metadata.ErrUnavailable})
	_, err := f.open("other")
	f.unavailable("a new panel", err)
	f.until("the server is not ready", func() bool { return f.notReady() != "" })
	if err := f.raw.Contexts().Delete(ctx, "ctx_kept"); err != nil {
		t.Fatal(err)
	}
	stale.putBack(f.raw)
	f.mu.Lock()
	f.identity = "second"
	f.mu.Unlock()
	f.mend()
	f.logged(lostLine, 1)
	f.stop()
	if err := f.wait(); err != nil {
		t.Fatal(err)
	}
	after := startFaulty(t, cfg)
	if err := after.stat(kept.GetToken()); err != nil {
		t.Errorf("a token that the database had lost: %v", err)
	}
	wantError(t, after.stat(closed.GetToken()), codes.Unauthenticated, "EACCES", "token is unknown")
	wantError(t, after.stat(deleted.GetToken()), codes.Unauthenticated, "EACCES", "token is unknown")
	if _, err := after.raw.Contexts().Get(ctx, "ctx_deleted"); err == nil {
		t.Error("a deleted context has a record again")
	}
	rec, err := after.raw.Panels().Get(ctx, "closed")
	if err != nil || rec.ClosedAt.IsZero() {
		t.Errorf("the closed panel is %+v, %v", rec, err)
	}
}

// TestFailoverWithoutAnOutageIsNoticed has another database answer the first check.
func TestFailoverWithoutAnOutageIsNoticed(t *testing.T) {
	t.Parallel()
	f := startFaulty(t, testConfig(t))
	closed := f.openPanel(t, "closed")
	stale := staleOf(t, f.raw, "closed")
	if _, err := ctxfsv1.NewPanelServiceClient(f.host(t)).ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "closed"}); err != nil {
		t.Fatal(err)
	}
	stale.putBack(f.raw)
	f.mu.Lock()
	f.identity = "second"
	f.mu.Unlock()
	f.database.guard.Load().Doubt()
	f.until("the lost commits are restored", func() bool { return f.log.FilterMessage(lostLine).Len() == 1 })
	f.until("the server is ready", func() bool { return f.notReady() == "" })
	wantError(t, f.stat(closed.GetToken()), codes.Unauthenticated, "EACCES", "token is unknown")
	f.database.guard.Load().Doubt()
	f.database.answered("second")
	f.logged(lostLine, 1)
}

// stale are records as they were before something was acknowledged.
type stale struct {
	t        *testing.T
	contexts []metadata.Context
	panels   []metadata.Panel
	tokens   []metadata.Token
}

func staleOf(t *testing.T, store metadata.Store, panels ...string) (s stale) {
	t.Helper()
	s.t = t
	for _, id := range panels {
		p, err := store.Panels().Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		c, err := store.Contexts().Get(t.Context(), p.ContextID)
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := store.Tokens().List(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		s.contexts, s.panels, s.tokens = append(s.contexts, c), append(s.panels, p), append(s.tokens, tokens...)
	}
	return s
}

func (s stale) putBack(store metadata.Store) {
	s.t.Helper()
	put := func(create, update error) {
		s.t.Helper()
		if create != nil && update != nil {
			s.t.Fatal(create, update)
		}
	}
	ctx := s.t.Context()
	for _, c := range s.contexts {
		put(store.Contexts().Create(ctx, c), store.Contexts().Update(ctx, c))
	}
	for _, p := range s.panels {
		put(store.Panels().Bind(ctx, p), store.Panels().Update(ctx, p))
	}
	for _, t := range s.tokens {
		put(store.Tokens().Add(ctx, t, t.IssuedAt), nil)
	}
}

func TestReadinessNamesTheDatabase(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.HTTP = "127.0.0.1:0"
	f := startFaulty(t, cfg)
	f.db.Set(metadatatest.Fault{Err: metadata.ErrUnavailable})
	_, err := f.open("other")
	f.unavailable("a new panel", err)
	get := func(path string) int {
		resp, err := http.Get("http://" + f.Info().Addresses.HTTP + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	f.until("/readyz is not OK", func() bool { return get("/readyz") == http.StatusServiceUnavailable })
	if got := get("/livez"); got != http.StatusOK {
		t.Errorf("/livez is %d", got)
	}
	f.mend()
	if got := get("/readyz"); got != http.StatusOK {
		t.Errorf("/readyz is %d", got)
	}
}
