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
	"time"

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
	query(t, path, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (4711, 1)`)
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
	closeStore(t, open(t, path))
	backup := path + ".bak-0"
	if info, err := os.Stat(backup); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatalf("the copy: %v, %v, want a file of mode 600", info, err)
	}
	query(t, backup, `UPDATE older SET n = n + 1 WHERE n = 42`)
}

// TestContextsOfTheFirstVersionCountAsUsed when they are met: that version did not note it.
func TestContextsOfTheFirstVersionCountAsUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	s := open(t, path)
	begun := time.Now()
	old := metadata.Context{ID: "ctx_a", State: metadata.ContextReady, CreatedAt: begun.AddDate(-1, 0, 0)}
	if err := errors.Join(s.Contexts().Create(t.Context(), old), s.Close()); err != nil {
		t.Fatal(err)
	}
	query(t, path, `ALTER TABLE contexts DROP COLUMN used_at; ALTER TABLE contexts DROP COLUMN forked_from;
		`+undoRights+undoFoldedKeys+`DELETE FROM goose_db_version WHERE version_id = 2`)
	s = open(t, path)
	defer closeStore(t, s)
	got, err := s.Contexts().Get(t.Context(), "ctx_a")
	if age := got.UsedAt.Sub(begun); err != nil || age < -2*time.Second || age > time.Minute {
		t.Errorf("used at %v, %v, want about %v", got.UsedAt, err, begun)
	}
}

// undoLabels takes a database back to version 5.
const undoLabels = `ALTER TABLE panels DROP COLUMN labels; ALTER TABLE contexts DROP COLUMN labels; DELETE FROM goose_db_version WHERE version_id >= 6;`

// undoRights takes a database back to version 3.
const undoRights = undoLabels + `DROP TABLE sites; ALTER TABLE panels DROP COLUMN rights; ALTER TABLE tokens DROP COLUMN rights; DELETE FROM goose_db_version WHERE version_id >= 4;`

// A panel and a token of a database without rights keep working, and have none.
func TestPanelsOfOlderVersionsHaveNoRights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	s := open(t, path)
	ctx, opened, hash := t.Context(), time.UnixMilli(1000).UTC(), [32]byte{1}
	panel := metadata.Panel{ID: "p", ContextID: "ctx_p", ReadOnly: true, Rights: 1, OpenedAt: opened, ClosedAt: opened.Add(time.Second)}
	token := metadata.Token{Hash: hash, PanelID: "p", ContextID: "ctx_p", ReadOnly: true, Rights: 1, IssuedAt: opened, ExpiresAt: opened.Add(time.Hour)}
	if err := errors.Join(s.Panels().Bind(ctx, panel), s.Tokens().Add(ctx, token, opened), s.Close()); err != nil {
		t.Fatal(err)
	}
	query(t, path, undoRights)
	s = open(t, path)
	defer closeStore(t, s)
	if _, err := os.Stat(path + ".bak-3"); err != nil {
		t.Errorf("the database was not copied: %v", err)
	}
	panel.Rights, token.Rights = 0, 0
	if got, err := s.Panels().Get(ctx, "p"); err != nil || !reflect.DeepEqual(got, panel) {
		t.Errorf("the panel is %+v, %v, want %+v", got, err, panel)
	}
	if got, err := s.Tokens().Get(ctx, hash); err != nil || got != token {
		t.Errorf("the token is %+v, %v, want %+v", got, err, token)
	}
}

// Contexts and panels of a database without labels have none, and can get some.
func TestRecordsOfOlderVersionsHaveNoLabels(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	s := open(t, path)
	ctx, set := t.Context(), map[string]string{"owner": "ada"}
	err := errors.Join(s.Contexts().Create(ctx, metadata.Context{ID: "ctx_a", Labels: set}), s.Panels().Bind(ctx, metadata.Panel{ID: "a", ContextID: "ctx_a", Labels: set}), s.Close())
	if err != nil {
		t.Fatal(err)
	}
	query(t, path, undoLabels)
	s = open(t, path)
	defer closeStore(t, s)
	c, err := s.Contexts().Get(ctx, "ctx_a")
	p, e := s.Panels().Get(ctx, "a")
	if err = errors.Join(err, e); err != nil || c.Labels != nil || p.Labels != nil {
		t.Errorf("labels are %v and %v, %v, want none", c.Labels, p.Labels, err)
	}
	if got, err := s.Contexts().SetLabels(ctx, "ctx_a", func(map[string]string) (map[string]string, error) { return set, nil }); err != nil || got["owner"] != "ada" {
		t.Errorf("set to %v, %v", got, err)
	}
}

// undoFoldedKeys takes a database back to version 2.
const undoFoldedKeys = `DROP INDEX panels_context_folded; ALTER TABLE panels DROP COLUMN context_folded; DELETE FROM goose_db_version WHERE version_id >= 3;`

// TestKeysOfOlderVersionsAreFoldedAgain opens a database whose keys were lower-cased. It holds two
// panels whose IDs are kept apart by that, and differ only by case.
func TestKeysOfOlderVersionsAreFoldedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctxfs.db")
	s := open(t, path)
	ctx, opened := t.Context(), time.UnixMilli(1000).UTC()
	err := s.Contexts().Create(ctx, metadata.Context{ID: "ctx_A"})
	for _, p := range []metadata.Panel{{ID: "later", OpenedAt: opened.Add(time.Second)}, {ID: "s", OpenedAt: opened}, {ID: "Åse"}} {
		p.ContextID = "ctx_A"
		err = errors.Join(err, s.Panels().Bind(ctx, p))
	}
	hash := [32]byte{1}
	err = errors.Join(err, s.Tokens().Add(ctx, metadata.Token{Hash: hash, PanelID: "s", ExpiresAt: opened.Add(time.Hour)}, opened))
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	query(t, path, undoRights+undoFoldedKeys+`UPDATE contexts SET id_folded = 'ctx_a'; UPDATE panels SET id = 'ſ', id_folded = 'ſ' WHERE id = 'later'`)
	s = open(t, path)
	defer closeStore(t, s)
	if _, err := os.Stat(path + ".bak-2"); err != nil {
		t.Errorf("the database was not copied: %v", err)
	}
	if got, err := s.Contexts().Folded(ctx, "CTX_a"); err != nil || got.ID != "ctx_A" {
		t.Errorf("found context %q, %v", got.ID, err)
	}
	for id, want := range map[string]string{"S": "s", "ſ": "s", "åSE": "Åse"} {
		if got, err := s.Panels().Folded(ctx, id); err != nil || got.ID != want {
			t.Errorf("%s is %q, want the older one, %q: %v", id, got.ID, want, err)
		}
	}
	list, err := s.Panels().OfContext(ctx, "ctx_a")
	if err != nil || len(list) != 3 {
		t.Errorf("the context has the panels %v, %v", list, err)
	}
	// Both panels keep working; a third one like them is refused.
	kept, err := s.Panels().Get(ctx, "ſ")
	kept.ReadOnly = true
	if err = errors.Join(err, s.Panels().Update(ctx, kept)); err != nil {
		t.Error(err)
	}
	if _, err := s.Tokens().Get(ctx, hash); err != nil {
		t.Errorf("the token of a panel: %v", err)
	}
	if err := s.Panels().Bind(ctx, metadata.Panel{ID: "S"}); !errors.Is(err, metadata.ErrConflict) {
		t.Errorf("a third one: %v, want a conflict", err)
	}
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

// query runs statements on the file behind the store's back; the last must change a row unless it makes a table.
func query(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if result, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Error(err)
		} else if n, _ := result.RowsAffected(); n == 0 && !strings.HasPrefix(statement, "CREATE") {
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
