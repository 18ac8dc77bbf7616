package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/postgres"
)

// objects lists what is in the schemas of a database, to see that nothing was changed.
const objects = `SELECT format('%s.%s %s', n.nspname, c.relname, c.relkind) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema' ORDER BY 1`

// TestBadDatabasesAreRefused opens databases that a store must not use: the error says what to do, and nothing is changed.
func TestBadDatabasesAreRefused(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	base := s.Database(t)
	s.Exec(t, base, "CREATE ROLE reader LOGIN", "ALTER ROLE reader PASSWORD 'of reader'", "ALTER ROLE reader SET default_transaction_read_only = on",
		"CREATE ROLE stranger LOGIN PASSWORD 'of-stranger'", "CREATE SCHEMA foreign_tables", "CREATE TABLE foreign_tables.users (id int)",
		"CREATE SCHEMA same_names", "CREATE TABLE same_names.contexts (id int)", `CREATE SCHEMA "order"`, "CREATE SCHEMA newer", "CREATE SCHEMA closed",
		"CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'", "CREATE SCHEMA views", "CREATE VIEW views.v AS SELECT 1")
	open(t, base+"&search_path=newer")
	s.Exec(t, base, "INSERT INTO newer.ctxfs_version (version_id, is_applied) VALUES (4711, true)")
	as := func(user, password string) string {
		return strings.Replace(base, "ctxfs@", user+":"+password+"@", 1)
	}
	before := s.Query(t, base, objects)
	for _, test := range []struct {
		name, url, want string
	}{
		{"tables of another program", base + "&search_path=foreign_tables", "tables of another program (users)"},
		{"tables with our names", base + "&search_path=same_names", "tables of another program (contexts)"},
		{"views", base + "&search_path=views", "tables of another program (v)"},
		{"a newer schema", base + "&search_path=newer", "4711"},
		{"no such schema", base + "&search_path=absent", "CREATE SCHEMA absent"},
		{"a schema whose name is a keyword", base + "&search_path=order", "name another schema"},
		{"no such database", strings.Replace(base, "/db", "/absent", 1), "createdb"},
		{"a wrong password", as("stranger", "wrong"), "PGPASSFILE"},
		{"no such user", as("nobody_here", "x"), "the user or the password"},
		{"no right to create tables", as("stranger", "of-stranger") + "&search_path=closed", "GRANT CREATE ON SCHEMA closed"},
		{"a read-only user", as("reader", "of%20reader"), "read-only"},
		{"another encoding", s.URL("latin"), "ENCODING 'UTF8'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, err := postgres.Open(t.Context(), parse(t, test.url), postgres.Claim{})
			if err == nil {
				t.Fatal(errors.Join(errors.New("it was opened"), store.Close()))
			}
			if !errors.Is(err, postgres.ErrRefused) || errors.Is(err, metadata.ErrUnavailable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want a refusal that says %q", err, test.want)
			}
		})
	}
	if after := s.Query(t, base, objects); !slices.Equal(before, after) {
		t.Errorf("the database has now %v, had %v", after, before)
	}
}

func TestDatabaseThatDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"postgres://u@127.0.0.1:1/db", "postgres://u@/db?host=/nowhere"} {
		if _, err := postgres.Open(t.Context(), parse(t, address), postgres.Claim{}); !errors.Is(err, metadata.ErrUnavailable) || !strings.Contains(err.Error(), "--metadata") {
			t.Errorf("%s: got %v, want ErrUnavailable with a remedy", address, err)
		}
	}
}

func TestBadURLsAreRefused(t *testing.T) {
	t.Parallel()
	secret := rand.Text()
	for address, want := range map[string]string{
		"mysql://u:" + secret + "@h/db":                               "postgres://",
		"host=h password=" + secret:                                   "postgres://",
		"postgres://u:" + secret + "#x@h/db":                          "special characters",
		"postgres://u:%zz" + secret + "@h/db":                         "special characters",
		"postgres://u:" + secret + "@h:port/db":                       "special characters",
		"postgres://u:" + secret + "@h/db?sslmode=perhaps":            "sslmode",
		"postgres://u:" + secret + "@h/db?connect_timeout=x":          "connect_timeout",
		"postgres://u:" + secret + "@h/db?pool_max_conns=0":           "1 to 64",
		"postgres://u:" + secret + "@h/db?pool_max_conns=65":          "1 to 64",
		"postgres://u:" + secret + "@h/db?search_path=a,b":            "one schema",
		"postgres://u:" + secret + "@h/db?search_path=Upper":          "one schema",
		"postgres://u:" + secret + "@h/db?search_path=a;drop":         "",
		"postgres://u:" + secret + "@h/db?search_path=pg_catalog":     "one schema",
		"postgres://u@h/db?password=" + secret + "&sslmode=sometimes": "sslmode",
	} {
		_, err := postgres.Parse(address)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", address, err, want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the password: %v", address, err)
		}
		if shown := postgres.Redact(address); postgres.IsURL(address) && strings.Contains(shown, secret) {
			t.Errorf("%s is shown as %s", address, shown)
		}
	}
}

// TestPasswordIsNeverShown makes a database fail in many ways, and looks for the password in all that is said.
func TestPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	secret := "p/@#% " + rand.Text()
	base := s.Database(t)
	s.Exec(t, base, fmt.Sprintf("CREATE ROLE guarded LOGIN PASSWORD '%s'", secret), "CREATE SCHEMA ours AUTHORIZATION guarded", "CREATE ROLE weak LOGIN")
	with := func(user string) string {
		return strings.Replace(base, "ctxfs@", url.UserPassword(user, secret).String()+"@", 1) + "&search_path=ours"
	}
	var said []string
	hear := func(err error) {
		for ; err != nil; err = errors.Unwrap(err) {
			said = append(said, err.Error())
		}
	}
	for _, address := range []string{
		with("weak"), with("nobody_here"), strings.Replace(with("guarded"), "/db", "/absent", 1), with("guarded") + "x",
		"postgres://guarded:" + url.QueryEscape(secret) + "@127.0.0.1:1/db", "postgres://guarded@/db?host=/nowhere&password=" + url.QueryEscape(secret),
		"postgres://guarded:" + url.QueryEscape(secret) + "@" + url.QueryEscape(secret) + "/db",
	} {
		at, err := postgres.Parse(address)
		hear(err)
		if err != nil {
			continue
		}
		said = append(said, at.String(), postgres.Redact(address))
		_, err = postgres.Open(t.Context(), at, postgres.Claim{})
		if err == nil {
			t.Errorf("opened %s", at)
		}
		said = append(said, err.Error())
	}
	store := open(t, with("guarded"))
	if _, err := store.Contexts().Get(t.Context(), secret); !errors.Is(err, metadata.ErrNotFound) {
		t.Error(err)
	}
	s.Exec(t, base, "DROP SCHEMA ours CASCADE")
	_, err := store.Panels().List(t.Context())
	said = append(said, err.Error())
	if len(said) < 15 {
		t.Errorf("only %d texts were heard", len(said))
	}
	for _, text := range said {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), secret[len(secret)-20:]} {
			if strings.Contains(text, form) {
				t.Errorf("the password is in %q", text)
			}
		}
	}
}

func TestPoolIsBounded(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	store := open(t, address+"&pool_max_conns=1")
	s := pgtest.Shared(t)
	blocked, err := pgconn.Connect(t.Context(), strings.Split(address, "&")[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blocked.Close(context.Background()) }()
	schema := address[strings.LastIndex(address, "=")+1:]
	if err := blocked.Exec(t.Context(), "BEGIN; LOCK TABLE "+schema+".contexts").Close(); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() {
			_, err := store.Contexts().Get(t.Context(), "c")
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, metadata.ErrUnavailable) {
			t.Errorf("a call on a full pool: %v, want ErrUnavailable", err)
		}
	}
	if err := blocked.Exec(t.Context(), "ROLLBACK").Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Contexts().Get(t.Context(), "c"); !errors.Is(err, metadata.ErrNotFound) {
		t.Errorf("after that: %v", err)
	}
	if n := s.Query(t, s.URL("postgres"), "SELECT count(*)::text FROM pg_stat_activity WHERE application_name = 'ctxfs' AND query LIKE '%"+schema+".%'"); n[0] != "1" {
		t.Errorf("a pool of one has %s connections", n[0])
	}
}
