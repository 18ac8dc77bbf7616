package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/ctxfs/ctxfs/metadata"
)

// later is the migrations of a later version of this program.
func later(second string) fstest.MapFS {
	return fstest.MapFS{
		"00001_initial.sql": {Data: []byte(initial)},
		"00002_next.sql":    {Data: []byte("-- +goose Up\n" + second)},
	}
}

// openLater opens a file as Open does, with other migrations.
func openLater(t *testing.T, path string, migrations fstest.MapFS) (*Store, error) {
	t.Helper()
	existed, err := prepareFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, s.migrate(t.Context(), migrations, existed)
}

// version is the version of an open file's schema.
func version(t *testing.T, s *Store) int64 {
	t.Helper()
	v, err := versions{}.GetLatestVersion(t.Context(), s.write)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestNextVersionCopiesTheDatabase brings a database with a record to a version 2 of the schema.
func TestNextVersionCopiesTheDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	want := metadata.Context{ID: "Kept", Generation: 7}
	first, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Contexts().Create(t.Context(), want), first.Close()); err != nil {
		t.Fatal(err)
	}
	const next = "CREATE TABLE more (n INTEGER NOT NULL) STRICT;\nINSERT INTO more SELECT generation FROM contexts;"

	failed, err := openLater(t, path, later(next+"\nINSERT INTO absent VALUES (1);"))
	if err == nil || version(t, failed) != 1 {
		t.Fatalf("a migration that fails: %v, version %d, want an error and version 1", err, version(t, failed))
	}
	if err := failed.Close(); err != nil {
		t.Fatal(err)
	}

	second, err := openLater(t, path, later(next)) // fails if the first try left its table
	if err != nil || version(t, second) != 2 {
		t.Fatalf("the next version: %v, version %d, want 2", err, version(t, second))
	}
	var n int
	if err := second.read.QueryRowContext(t.Context(), `SELECT n FROM more`).Scan(&n); err != nil || n != 7 {
		t.Errorf("the migration wrote %d, %v, want 7", n, err)
	}
	if got, err := second.Contexts().Get(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the record is %+v, %v, want %+v", got, err, want)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), path); !errors.Is(err, ErrNewer) {
		t.Errorf("this version opened the later schema: %v, %v", s, err)
	}

	old, err := Open(t.Context(), path+".bak-1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	if got, err := old.Contexts().Get(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the copy has %+v, %v, want %+v", got, err, want)
	}
}

func TestNewDatabaseGetsTheNewestSchemaWithoutACopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	s, err := openLater(t, path, later("CREATE TABLE more (n INTEGER NOT NULL) STRICT;"))
	if err != nil || version(t, s) != 2 {
		t.Errorf("%v, version %d, want 2", err, version(t, s))
	}
	if copies, _ := filepath.Glob(path + ".bak-*"); len(copies) > 0 {
		t.Errorf("a new database was copied: %v", copies)
	}
}

// TestBothWaysToTheSchemaAreOne compares a new file with one that goose made, which is how an empty database gets its tables.
func TestBothWaysToTheSchemaAreOne(t *testing.T) {
	t.Parallel()
	var schemas []string
	for _, existed := range []bool{false, true} {
		s, err := connect(filepath.Join(t.TempDir(), "ctxfs.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if err := s.ready(t.Context(), existed); err != nil {
			t.Fatal(err)
		}
		var schema string
		row := s.read.QueryRowContext(t.Context(), `SELECT group_concat(name || coalesce(sql, ''), ';' ORDER BY name) FROM sqlite_schema`)
		if err := row.Scan(&schema); err != nil {
			t.Fatal(err)
		}
		schemas = append(schemas, schema)
		if v := version(t, s); v != 1 {
			t.Errorf("existed %t: version %d, want 1", existed, v)
		}
	}
	if schemas[0] != schemas[1] {
		t.Errorf("the schemas differ:\n%s\n%s", schemas[0], schemas[1])
	}
}

// TestFailedCopyStopsTheMigration has a directory in the place of the copy.
func TestFailedCopyStopsTheMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	first, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Close(), os.Mkdir(path+".bak-1", 0o700)); err != nil {
		t.Fatal(err)
	}
	s, err := openLater(t, path, later("CREATE TABLE more (n INTEGER NOT NULL) STRICT;"))
	if err == nil || version(t, s) != 1 {
		t.Errorf("%v, version %d, want an error and version 1", err, version(t, s))
	}
}
