package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/metadatatest"
	"github.com/ctxfs/ctxfs/metadata/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

func parse(t *testing.T, url string) *postgres.Address {
	t.Helper()
	at, err := postgres.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// open opens the store of a database; the test closes it.
func open(t *testing.T, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), parse(t, url), postgres.Claim{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	metadatatest.Run(t, func(t *testing.T) metadata.Store { return open(t, pgtest.URL(t)) })
}

// TestRepeatedListHasEachRecordOnce: a list that the server ended midway (57P01) is read again from its beginning.
func TestRepeatedListHasEachRecordOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, url)
	for _, id := range []string{"ctx_a", "ctx_b", "ctx_c"} {
		if err := s.Contexts().Create(t.Context(), metadata.Context{ID: id, State: metadata.ContextReady}); err != nil {
			t.Fatal(err)
		}
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	var schema string
	if err := db.QueryRow(t.Context(), `SELECT current_schema()`).Scan(&schema); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`CREATE SEQUENCE rows_read`,
		`CREATE FUNCTION second_row_fails() RETURNS boolean LANGUAGE plpgsql AS
			$$ BEGIN IF nextval('@.rows_read') = 2 THEN RAISE SQLSTATE '57P01'; END IF; RETURN true; END $$`,
		`ALTER TABLE contexts RENAME TO contexts_kept`,
		`CREATE VIEW contexts AS SELECT * FROM contexts_kept WHERE @.second_row_fails()`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET enable_sort = off', current_database()); END $$`,
	} {
		if _, err := db.Exec(t.Context(), strings.ReplaceAll(sql, "@.", schema+".")); err != nil {
			t.Fatal(err)
		}
	}
	list, err := open(t, url).Contexts().List(t.Context())
	if err != nil || len(list) != 3 {
		t.Errorf("the list has %d records, %v, want 3", len(list), err)
	}
	var reads int64
	if err := db.QueryRow(t.Context(), `SELECT last_value FROM rows_read`).Scan(&reads); err != nil || reads != 5 {
		t.Errorf("%d rows were read, %v, want 2 of the list that was ended, and 3", reads, err)
	}
}
