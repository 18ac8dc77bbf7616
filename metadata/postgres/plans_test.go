package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/metadata"
)

// heard keeps the statements of a store.
type heard struct {
	sync.Mutex
	queries []pgx.QueuedQuery
}

func (h *heard) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	h.Lock()
	defer h.Unlock()
	for _, q := range data.Batch.QueuedQueries {
		h.queries = append(h.queries, *q)
	}
	return ctx
}
func (h *heard) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (h *heard) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (h *heard) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (h *heard) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// many fills each table with 10,000 records.
const many = `INSERT INTO @.contexts SELECT 'ctx_'||i, 'ctx_'||i, false, 'p'||i, 'ready', '', 'copy', 'sha256:'||i, 1, 1, 1, now(), 0, false, '', now(), '{}' FROM generate_series(1, 10000) i;
	INSERT INTO @.panels SELECT 'p'||i, 'p'||i, 'ctx_'||i, 'ctx_'||i, false, 0, now(), NULL, '{}' FROM generate_series(1, 10000) i;
	INSERT INTO @.tokens SELECT sha256(i::text::bytea), 'p'||i, 'ctx_'||i, false, 0, now(), now() + i * interval '1 h' FROM generate_series(1, 10000) i;
	INSERT INTO @.layers SELECT 'sha256:'||i, 'workspace', 1, 1, now() FROM generate_series(1, 10000) i;
	INSERT INTO @.sites SELECT 'site_'||i, sha256(i::text::bytea), 'ctx_'||i, 'p'||i, '{}', now(), now() FROM generate_series(1, 10000) i;
	ANALYZE @.contexts; ANALYZE @.panels; ANALYZE @.tokens; ANALYZE @.layers; ANALYZE @.sites`

// opened opens a store with a tracer.
func opened(t *testing.T, tracer pgx.QueryTracer) *Store {
	t.Helper()
	at, err := Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	at.pool.ConnConfig.Tracer = tracer
	s, err := Open(t.Context(), at, Claim{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// call calls every method but the lists of all records. Errors do not matter: the statements do.
func call(ctx context.Context, s *Store) {
	c, p := metadata.Context{ID: "ctx_5"}, metadata.Panel{ID: "p5", ContextID: "ctx_5"}
	now := time.Now()
	for _, f := range []func() error{
		func() error { return s.Contexts().Create(ctx, c) },
		func() error { _, err := s.Contexts().Get(ctx, c.ID); return err },
		func() error { _, err := s.Contexts().Folded(ctx, c.ID); return err },
		func() error { return s.Contexts().Update(ctx, c) },
		func() error { return s.Contexts().Used(ctx, c.ID, now) },
		func() error { return s.Contexts().Delete(ctx, c.ID) },
		func() error { return s.Panels().Bind(ctx, p) },
		func() error { _, err := s.Panels().Get(ctx, p.ID); return err },
		func() error { _, err := s.Panels().Folded(ctx, p.ID); return err },
		func() error { _, err := s.Panels().OfContext(ctx, c.ID); return err },
		func() error { return s.Panels().Update(ctx, p) },
		func() error { return s.Tokens().Add(ctx, metadata.Token{PanelID: p.ID}, now) },
		func() error { _, err := s.Tokens().Get(ctx, [32]byte{}); return err },
		func() error { _, err := s.Tokens().List(ctx, p.ID); return err },
		func() error { _, err := s.Tokens().DeletePanel(ctx, p.ID); return err },
		func() error { return s.Layers().Put(ctx, metadata.Layer{Digest: "sha256:5"}) },
		func() error { _, err := s.Layers().Get(ctx, "sha256:5"); return err },
		func() error { return s.Layers().Delete(ctx, "sha256:5") },
		func() error { return s.Sites().Add(ctx, metadata.Site{ID: "site_5", Options: []byte("{}")}) },
		func() error { return s.Sites().Renew(ctx, "site_5", now) },
		func() error { return s.Sites().Delete(ctx, "site_5") },
	} {
		_ = f()
	}
}

// TestEveryLookUpUsesAnIndex asks PostgreSQL how it would run each statement on many records.
func TestEveryLookUpUsesAnIndex(t *testing.T) {
	t.Parallel()
	h := &heard{}
	s := opened(t, h)
	for statement := range strings.SplitSeq(s.sql(many), ";") {
		if _, err := s.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	h.queries = nil
	call(t.Context(), s)
	h.Lock()
	queries := h.queries
	h.Unlock()
	seen := 0
	for _, q := range queries {
		if strings.Contains(q.SQL, "set_config") {
			continue
		}
		seen++
		rows, err := s.pool.Query(t.Context(), "EXPLAIN "+q.SQL, q.Arguments...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if text := strings.Join(plan, "\n"); err != nil || strings.Contains(text, "Seq Scan") {
			t.Errorf("%v: %s\n%s", err, q.SQL, text)
		}
	}
	if seen < 21 {
		t.Errorf("only %d statements were heard", seen)
	}
}

// TestNothingStaysOnAConnection looks at a connection after calls: a pooler gives it to another program.
func TestNothingStaysOnAConnection(t *testing.T) {
	t.Parallel()
	s := opened(t, nil)
	settings := `SELECT current_setting('statement_timeout') || current_setting('synchronous_commit') || current_setting('search_path') ||
		(SELECT count(*) FROM pg_prepared_statements) || (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) || (SELECT count(*) FROM pg_listening_channels())`
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SET synchronous_commit = off"); err != nil { // as a role's default is
		t.Fatal(err)
	}
	var before, within, after string
	err = conn.QueryRow(t.Context(), settings).Scan(&before)
	conn.Release()
	if err != nil {
		t.Fatal(err)
	}
	call(t.Context(), s)
	read := func(row pgx.CollectableRow) error { return row.Scan(&within) }
	if err := s.do(t.Context(), writes, statement{sql: `SELECT current_setting('synchronous_commit') || current_setting('statement_timeout')`, row: read}); err != nil || within != "on5s" {
		t.Errorf("a transaction has %q, %v, want synchronous_commit on and a timeout of 5s", within, err)
	}
	if err := s.pool.QueryRow(t.Context(), settings).Scan(&after); err != nil || after != before {
		t.Errorf("the connection has %q, %v; it had %q", after, err, before)
	}
}

// TestConflictingTransactionsAreRetried has two transactions lock two rows in opposite orders. Each takes its second row when both have
// their first.
func TestConflictingTransactionsAreRetried(t *testing.T) {
	t.Parallel()
	s := opened(t, nil)
	for _, id := range []string{"a", "b"} {
		if err := s.Contexts().Create(t.Context(), metadata.Context{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	touch := func(id string) statement {
		return statement{sql: `UPDATE @.contexts SET files = files + 1 WHERE id = $1`, args: []any{id}}
	}
	var begun, tries atomic.Int32
	met := make(chan struct{})
	meet := func() {
		if tries.Add(1); begun.Add(1) == 2 {
			close(met)
		}
		select {
		case <-met: // at once for a further try
		case <-t.Context().Done():
		}
	}
	errs := make(chan error, 2)
	for _, order := range [][]statement{{touch("a"), touch("b")}, {touch("b"), touch("a")}} {
		go func() {
			errs <- s.retry(t.Context(), time.Minute, writes, func(ctx context.Context) error {
				return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
					for i, st := range order {
						if _, err := tx.Exec(ctx, s.sql(st.sql), st.args...); err != nil {
							return err
						}
						if i == 0 {
							meet()
						}
					}
					return nil
				})
			})
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if c, err := s.Contexts().Get(t.Context(), "a"); err != nil || c.Files != 2 {
		t.Errorf("%d changes, %v, want 2", c.Files, err)
	}
	if n := tries.Load(); n < 3 {
		t.Errorf("%d tries: no transaction was in conflict", n)
	}
}

// TestReplicaAtTheAddressIsAway: after a failover the address may lead to a server that takes no writes.
func TestReplicaAtTheAddressIsAway(t *testing.T) {
	t.Parallel()
	at, err := Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	at.pool.ConnConfig.ValidateConnect = func(context.Context, *pgconn.PgConn) error { return refuse("it is a replica") }
	pool, err := pgxpool.NewWithConfig(t.Context(), at.pool.Copy())
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{pool: pool, at: at}
	defer func() { _ = s.Close() }()
	if _, err := s.Contexts().Get(t.Context(), "ctx_a"); !errors.Is(err, metadata.ErrUnavailable) || !strings.Contains(err.Error(), "takes no writes") {
		t.Errorf("a call got %v, want ErrUnavailable", err)
	}
	if _, err := Open(t.Context(), at, Claim{}); !errors.Is(err, ErrRefused) {
		t.Errorf("a start got %v, want a refusal", err)
	}
}

// TestConcurrentStartsMigrateOnce opens one empty schema by many processes' worth of stores.
func TestConcurrentStartsMigrateOnce(t *testing.T) {
	t.Parallel()
	at, err := Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	stores, errs := make(chan *Store, 5), make(chan error, 5)
	for range cap(errs) {
		go func() {
			s, err := Open(t.Context(), at, Claim{})
			stores <- s
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
		if s := <-stores; s != nil {
			defer func() { _ = s.Close() }()
			var applied, versionsApplied int
			err := s.pool.QueryRow(t.Context(), s.sql(`SELECT count(*), count(DISTINCT version_id) FROM @.`+versions)).Scan(&applied, &versionsApplied)
			if err != nil || applied != versionsApplied {
				t.Errorf("%d migrations of %d versions ran: %v", applied, versionsApplied, err)
			}
		}
	}
}
