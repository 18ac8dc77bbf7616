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

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/sqlite"
)

// manyRecords passes n contexts and panels to add, with tokens, layers and sites, in the order of metadata.Mover.
func manyRecords(n int64, add func(record any) error) (err error) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.UTC)
	put := func(record any) {
		if err == nil {
			err = add(record)
		}
	}
	id := func(kind string, i int) string { return fmt.Sprintf("%s%06d", kind, i) }
	for i := range int(n) {
		put(metadata.Context{
			ID: id("ctx_", i), OwnerPanel: id("p", i), State: metadata.ContextReady, Driver: "copy", Layer: "sha256:" + id("", i%100), Generation: ^uint64(i), Files: int64(i),
			Bytes: 1 << 40, CreatedAt: at.Add(time.Duration(i) * time.Millisecond), SeededIn: time.Duration(i), UsedAt: at, LastError: []string{"", "straße \"x\"\n"}[i%2],
		})
	}
	for i := range int(n) {
		p := metadata.Panel{ID: id("p", i), ContextID: id("ctx_", i), Rights: metadata.Rights(i), ReadOnly: i%2 == 0, OpenedAt: at}
		if i%3 == 0 {
			p.ClosedAt = at.Add(time.Hour)
		}
		put(p)
	}
	for i := range 100 {
		put(metadata.Token{Hash: [32]byte{byte(i), 1}, PanelID: id("p", i), ContextID: id("ctx_", i), IssuedAt: at, ExpiresAt: at.Add(time.Hour)})
	}
	for i := range 100 {
		put(metadata.Layer{Digest: "sha256:" + id("", i), Kind: "workspace", Files: 1, CreatedAt: at})
	}
	for i := range 100 {
		put(metadata.Site{ID: id("site_", i), Hash: [32]byte{byte(i)}, ContextID: id("ctx_", i), Options: []byte{0, 0xff, byte(i)}, OpenedAt: at, ExpiresAt: at.Add(time.Hour)})
	}
	return err
}

// listed reads all records of a SQLite file.
func listed(t *testing.T, path string) (list []any) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path)
	if err == nil {
		err = store.Each(t.Context(), func(record any) error { list = append(list, record); return nil })
	}
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	return list
}

func copyRecords(t *testing.T, cfg Config, from, to string) (Moved, error) {
	t.Helper()
	return CopyRecords(t.Context(), cfg, Deps{Version: "1.2.3"}, from, to)
}

func TestRecordsAreTheSameThereAndBack(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Metadata = ""
	url, back := pgtest.URL(t), filepath.Join(t.TempDir(), "back.db")
	layout, err := contexts.NewLayout(cfg.Workspace, "")
	if err == nil {
		err = layout.Make("1.2.3")
	}
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), layout.DB)
	if err != nil {
		t.Fatal(err)
	}
	var n int64 = 1000
	if os.Getenv(pgtest.Env) != "" { // make test-postgres, without the race detector, which makes SQLite slow
		n = 10_000
	}
	if err := errors.Join(store.Fill(t.Context(), func(add func(any) error) error { return manyRecords(n, add) }), store.Close()); err != nil {
		t.Fatal(err)
	}
	want := metadata.Counts{Contexts: n, Panels: n, Tokens: 100, Layers: 100, Sites: 100}
	if m, err := copyRecords(t, cfg, "sqlite", url); err != nil || m.Counts != want || m.From != "sqlite" {
		t.Fatalf("there: %+v, %v", m, err)
	}
	if m, err := copyRecords(t, cfg, url, back); err != nil || m.Counts != want || m.To != back {
		t.Fatalf("back: %+v, %v", m, err)
	}
	if d := cmp.Diff(listed(t, layout.DB), listed(t, back)); d != "" {
		t.Errorf("what came back differs:\n%.2000s", d)
	}
	for _, full := range []string{url, back} {
		if _, err := copyRecords(t, cfg, "sqlite", full); err == nil || !strings.Contains(err.Error(), "has records already") {
			t.Errorf("a copy to %s, which has records: %v", full, err)
		}
	}
}

func TestCopyThatFailsLeavesTheTargetEmpty(t *testing.T) {
	t.Parallel()
	failed := errors.New("the source failed")
	url := pgtest.URL(t)
	store := openPostgres(t, url)
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, target := range []metadata.Mover{store, file} {
		err := target.Fill(t.Context(), func(add func(any) error) error { return errors.Join(manyRecords(2000, add), failed) })
		if !errors.Is(err, failed) {
			t.Errorf("got %v", err)
		}
		if list, err := target.Contexts().List(context.Background()); err != nil || len(list) != 0 {
			t.Errorf("the target has %d contexts, %v", len(list), err)
		}
	}
}

// TestServersUseTheRecordsThatTheyHad moves the records of a workspace, and starts servers with the old and the new ones.
func TestServersUseTheRecordsThatTheyHad(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Metadata = ""
	moved := cfg
	moved.Metadata = pgtest.URL(t)
	refused := func(cfg Config, want string) {
		t.Helper()
		s, err := New(t.Context(), cfg, Deps{Version: "1.2.3"})
		if err == nil {
			t.Fatal(errors.Join(errors.New("it started"), s.Close()))
		}
		if !strings.Contains(err.Error(), want) || exitCode(err) != ExitFormat {
			t.Errorf("got %v, exit code %d, want %q", err, exitCode(err), want)
		}
	}
	stopped := func(r *running) {
		t.Helper()
		r.stop()
		if err := r.wait(); err != nil {
			t.Fatal(err)
		}
	}
	first := start(t, cfg)
	first.openPanel(t, "editor")
	if _, err := copyRecords(t, cfg, "sqlite", moved.Metadata); exitCode(err) != ExitBusy {
		t.Errorf("a copy beside a server: %v", err)
	}
	neighbour := testConfig(t)
	if _, err := copyRecords(t, neighbour, first.claim.layout.DB, filepath.Join(t.TempDir(), "x.db")); exitCode(err) != ExitBusy || !strings.Contains(err.Error(), "a server uses") {
		t.Errorf("a copy of a file that a server of another directory uses: %v", err)
	}
	stopped(first)
	refused(moved, "metadata copy --from sqlite")
	if m, err := copyRecords(t, cfg, "sqlite", moved.Metadata); err != nil || m.Contexts != 1 || m.Panels != 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	refused(cfg, "CTXFS_METADATA")
	second := start(t, moved)
	if got := second.openPanel(t, "editor"); got.GetSeeded() {
		t.Error("the panel's context was made again")
	}
	stopped(second)
	elsewhere := moved
	elsewhere.Metadata = pgtest.URL(t)
	if f := ExamineRecords(t.Context(), elsewhere, second.claim.layout); f == nil || !f.Bad || !strings.Contains(f.Text, "and not in") {
		t.Errorf("doctor finds %+v", f)
	}
	refused(elsewhere, "are in "+second.Info().Metadata+", and not in ")
	if err := os.WriteFile(second.claim.layout.Records, []byte("postgres://ctxfs@renamed/ctxfs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stopped(start(t, moved)) // the same database by another name
	if err := os.Remove(second.claim.layout.DB); err != nil {
		t.Fatal(err)
	}
	if _, err := copyRecords(t, cfg, moved.Metadata, "sqlite"); err != nil {
		t.Fatal(err)
	}
	if got := start(t, cfg).openPanel(t, "editor"); got.GetSeeded() {
		t.Error("the panel's context was made again")
	}
}
