package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/metadatatest"
	"github.com/ctxfs/ctxfs/metadata/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	metadatatest.Run(t, func(t *testing.T) metadata.Store {
		return open(t, filepath.Join(t.TempDir(), "ctxfs.db"))
	})
}

func TestRecordsSurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a %41?b#c&d.db") // nothing in a path is taken for a parameter
	first := open(t, path)
	want := metadata.Context{ID: "Kept", State: metadata.ContextReady, Generation: 7}
	if err := errors.Join(first.Contexts().Create(t.Context(), want), first.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	second := open(t, path)
	defer closeStore(t, second)
	if got, err := second.Contexts().Get(t.Context(), "Kept"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if err := second.Contexts().Create(t.Context(), metadata.Context{ID: "KEPT"}); !errors.Is(err, metadata.ErrConflict) {
		t.Errorf("a conflict by case after reopening: %v", err)
	}
	if copies, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.bak-*")); len(copies) != 0 {
		t.Errorf("a database that needed no migration was copied: %v", copies)
	}
}

func TestFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no permission bits")
	}
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	defer closeStore(t, s)
	if err := s.Contexts().Create(t.Context(), metadata.Context{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", filepath.Base(name), info.Mode().Perm())
		}
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	closeStore(t, open(t, path))
	query(t, path, `PRAGMA user_version = 4711`)
	before := read(t, path)
	_, err := sqlite.Open(t.Context(), path)
	if !errors.Is(err, sqlite.ErrNewer) || !strings.Contains(err.Error(), "4711") {
		t.Errorf("got %v, want ErrNewer naming version 4711", err)
	}
	if read(t, path) != before {
		t.Error("a refused database was changed")
	}
}

func TestCorruptDatabaseIsRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(sound string) string
	}{
		{"no database at all", func(string) string { return strings.Repeat("not a database. ", 1000) }},
		{"short garbage", func(string) string { return "garbage" }},
		{"cut off", func(sound string) string { return sound[:len(sound)/2] }},
		{"overwritten pages", func(sound string) string {
			return sound[:4096] + strings.Repeat("\xff", len(sound)-4096)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ctxfs.db")
			closeStore(t, open(t, path))
			damaged := test.damage(read(t, path))
			if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := sqlite.Open(t.Context(), path)
			if !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(err.Error(), "ctxfs doctor --repair") {
				t.Errorf("got %v, want ErrCorrupt with its remedy", err)
			}
			if read(t, path) != damaged {
				t.Error("a damaged database was changed")
			}
		})
	}
}

func TestExistingDatabaseIsCopiedBeforeMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	query(t, path, `CREATE TABLE older (n INTEGER)`, `INSERT INTO older VALUES (42)`)
	s := open(t, path)
	if err := errors.Join(s.Contexts().Create(t.Context(), metadata.Context{ID: "c"}), s.Close()); err != nil {
		t.Errorf("the tables: %v", err)
	}
	backup := path + ".bak-0"
	if info, err := os.Stat(backup); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatalf("the copy: %v, %v, want a file of mode 600", info, err)
	}
	query(t, backup, `UPDATE older SET n = n + 1 WHERE n = 42`)
}

func TestUnopenable(t *testing.T) {
	if _, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "absent", "ctxfs.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	if _, err := sqlite.Open(t.Context(), t.TempDir()); err == nil {
		t.Error("a directory was opened as a database")
	}
}

func closeStore(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// query runs statements on the file behind the store's back; each must change a row unless it makes a table or sets the version.
func query(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if result, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Error(err)
		} else if n, _ := result.RowsAffected(); n == 0 && strings.HasPrefix(statement, "UPDATE") {
			t.Errorf("%s changed nothing", statement)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
