package postgres

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/metadata"
)

// later is the migrations of a later version of this program.
func later(t *testing.T, second string) fs.FS {
	t.Helper()
	const initial = "00001_initial.sql"
	text, err := fs.ReadFile(own(), initial)
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{initial: {Data: text}, "00002_next.sql": {Data: []byte("-- +goose Up\n" + second)}}
}

const next = `ALTER TABLE @.contexts ADD COLUMN next bigint; UPDATE @.contexts SET next = generation;`

// TestSchemaInUseIsNotMigrated: a later version of this program brings neither the schema of a running server up to date, nor that
// of another directory.
func TestSchemaInUseIsNotMigrated(t *testing.T) {
	t.Parallel()
	s := opened(t, nil)
	pgtest.Shared(t).LongLeases(t, s.at.String())
	want := metadata.Context{ID: "Kept", State: metadata.ContextReady, Generation: 7}
	if err := s.Contexts().Create(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	claim := Claim{Directory: strings.Repeat("d", 32), Path: "/srv/contexts", Holder: "server", Host: "server", PID: 1, Note: func(int64) error { return nil }}
	lease, err := s.Take(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	kept := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { kept <- lease.Keep(ctx) }()

	following := claim
	following.Holder, following.Host = "following", "following"
	foreign := following
	foreign.Directory = strings.Repeat("e", 32)
	var held *HeldError
	if _, err := open(t.Context(), s.at, following, later(t, next)); !errors.As(err, &held) || held.Host != "server" {
		t.Errorf("beside a running server: %v, want a *HeldError that names it", err)
	}
	stop()
	if err := errors.Join(<-kept, lease.Release(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), s.at, foreign, later(t, next)); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "/srv/contexts") {
		t.Errorf("for another directory: %v, want ErrRefused, and where the records belong", err)
	}
	wantVersion(t, s, 1)

	if _, err := open(t.Context(), s.at, following, later(t, next+"INSERT INTO @.absent VALUES (1);")); err == nil {
		t.Error("a migration that fails: no error")
	}
	wantVersion(t, s, 1)

	store, err := open(t.Context(), s.at, following, later(t, next)) // fails if the first try left its column
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	wantVersion(t, s, 2)
	var n int64
	if err := s.pool.QueryRow(t.Context(), s.sql(`SELECT next FROM @.contexts`)).Scan(&n); err != nil || n != 7 {
		t.Errorf("the migration wrote %d, %v, want 7", n, err)
	}
	if got, err := store.Contexts().Get(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the record is %+v, %v, want %+v", got, err, want)
	}
	if _, err := Open(t.Context(), s.at, following); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("this version on the later schema: %v, want ErrRefused", err)
	}
}

func wantVersion(t *testing.T, s *Store, want int64) {
	t.Helper()
	var version int64
	if err := s.pool.QueryRow(t.Context(), s.sql(`SELECT max(version_id) FROM @.`+versions)).Scan(&version); err != nil || version != want {
		t.Errorf("the schema has version %d, %v, want %d", version, err, want)
	}
}
