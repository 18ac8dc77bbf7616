package server

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/metadata/postgres"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestRecordsInPostgresSurviveTheServer(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Metadata = pgtest.URL(t)
	first := start(t, cfg)
	opened := first.openPanel(t, "editor")
	if got := first.Info().Metadata; got != cfg.Metadata[:len("postgres://")]+"ctxfs@/postgres?"+got[strings.Index(got, "host="):] {
		t.Errorf("the server says that its records are in %s", got)
	}
	first.stop()
	if err := first.wait(); err != nil {
		t.Fatal(err)
	}
	second := start(t, cfg)
	fs := ctxfsv1.NewFsServiceClient(second.host(t))
	if _, err := fs.Readdir(with(t, "authorization", bearerOf(opened.GetToken())), &ctxfsv1.ReaddirRequest{Path: "/"}); err != nil {
		t.Errorf("the panel's token after a restart: %v", err)
	}
	info, err := ctxfsv1.NewContextServiceClient(second.host(t)).GetInfo(with(t, "ctxfs-panel", "editor"), &ctxfsv1.GetInfoRequest{})
	if err != nil || info.GetMetadata() != second.Info().Metadata {
		t.Errorf("GetInfo says that the records are in %q, %v", info.GetMetadata(), err)
	}
	_, err = fs.Readdir(with(t, "authorization", bearerOf("wrong")), &ctxfsv1.ReaddirRequest{Path: "/"})
	wantError(t, err, codes.Unauthenticated, "EACCES", "token is unknown")
}

func TestSchemaServesOneContextsDirectory(t *testing.T) {
	t.Parallel()
	cfg, other := testConfig(t), testConfig(t)
	cfg.Metadata = pgtest.URL(t)
	other.Metadata = cfg.Metadata
	start(t, cfg)
	s, err := New(t.Context(), other, Deps{})
	if err == nil {
		t.Fatal(errors.Join(errors.New("another directory's server started"), s.Close()))
	}
	if !errors.Is(err, postgres.ErrRefused) || !strings.Contains(err.Error(), "search_path=NAME") || exitCode(err) != ExitFormat {
		t.Errorf("got %v, exit code %d, want a refusal that names search_path", err, exitCode(err))
	}
}

// openPostgres opens a store beside a server's.
func openPostgres(t *testing.T, url string) *postgres.Store {
	t.Helper()
	at, err := postgres.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	store, err := postgres.Open(t.Context(), at, postgres.Claim{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// otherMachine is a server of the same contexts directory on another machine, as the database sees it.
func otherMachine(t *testing.T, cfg Config) postgres.Claim {
	t.Helper()
	layout, err := contexts.NewLayout(cfg.Workspace, "")
	if err != nil {
		t.Fatal(err)
	}
	claim, err := claimOf(layout)
	if err != nil {
		t.Fatal(err)
	}
	claim.Holder, claim.Host, claim.PID, claim.Place = "other", "other-machine", 77, "elsewhere"
	claim.Note = func(int64) error { return nil }
	return claim
}

func TestServerOfAnotherMachineKeepsTheDirectory(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Metadata = pgtest.URL(t)
	first := start(t, cfg)
	first.stop()
	if err := first.wait(); err != nil {
		t.Fatal(err)
	}
	pgtest.Shared(t).LongLeases(t, cfg.Metadata)
	lease, err := openPostgres(t, cfg.Metadata).Take(t.Context(), otherMachine(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() { kept <- lease.Keep(ctx) }()
	s, err := New(t.Context(), cfg, Deps{})
	if err == nil {
		t.Error(errors.Join(errors.New("it started"), s.Close()))
	} else if !strings.Contains(err.Error(), "host other-machine, pid 77") || exitCode(err) != ExitBusy {
		t.Errorf("got %v, exit code %d, want one that names the other server", err, exitCode(err))
	}
	stop()
	if err := errors.Join(<-kept, lease.Release(t.Context())); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
}

func TestServerStopsWhenAnotherMachineTakesTheDirectory(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Metadata = pgtest.URL(t)
	s, err := New(t.Context(), cfg, Deps{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	schema := cfg.Metadata[strings.LastIndex(cfg.Metadata, "=")+1:]
	other, claim := openPostgres(t, cfg.Metadata), otherMachine(t, cfg)
	var lease *postgres.Lease
	for held := (*postgres.HeldError)(nil); lease == nil; {
		pgtest.Shared(t).Exec(t, cfg.Metadata, "UPDATE "+schema+".directory SET expires_at = NULL")
		// The server may renew the lease first.
		if lease, err = other.Take(t.Context(), claim); err != nil && !errors.As(err, &held) {
			t.Fatal(err)
		}
	}
	if err := <-served; !errors.Is(err, postgres.ErrLeaseLost) || !strings.Contains(err.Error(), "other-machine") {
		t.Errorf("Serve returned %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the other server's lease: %v", err)
	}
}
