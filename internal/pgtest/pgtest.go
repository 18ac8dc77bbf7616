// Package pgtest starts a real PostgreSQL for tests: Debian's package, in a temporary directory, as an ordinary user, on a
// unix socket alone.
//
// The tests of a process share one server (URL), whose TestMain runs Main. A test that kills its server starts one (Start).
package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser owns the server and needs no password. Every other role needs one.
const superuser = "ctxfs"

// startTime bounds a start and a stop. Machines that run tests are busy.
const startTime = 2 * time.Minute

// Server is a PostgreSQL that runs.
type Server struct {
	dir, bin string
	// durable says that what was committed survives a kill.
	durable bool
	names   atomic.Int64
	mu      sync.Mutex
	running *process
}

// shared is the server of the tests of this process.
var shared struct {
	sync.Mutex
	server *Server
}

// TestingM is a *testing.M.
type TestingM interface{ Run() int }

// Main returns m with a Run that stops the shared server at its end.
func Main(m TestingM) TestingM { return stopping{m} }

type stopping struct{ TestingM }

// Run runs the tests.
func (m stopping) Run() int {
	code := m.TestingM.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return code
	}
	if err := shared.server.remove(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(code, 1)
	}
	return code
}

// Programs returns the directory of PostgreSQL's programs. Debian does not have it in PATH.
func Programs() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.Sort(found)
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, path)
	}
	for _, path := range slices.Backward(found) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "initdb")); err == nil {
			return filepath.Dir(path), nil
		}
	}
	return "", errors.New("there are no postgres and initdb in PATH or /usr/lib/postgresql: scripts/setup postgres installs them")
}

// need skips a test with -short, and on a machine without PostgreSQL.
func need(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("run without -short: it starts PostgreSQL")
	}
	bin, err := Programs()
	if err != nil {
		t.Skip(err)
	}
	return bin
}

// URL makes a schema on the shared server, and returns its URL.
func URL(t testing.TB) string {
	t.Helper()
	return Shared(t).Schema(t)
}

// Shared returns the server that the tests of this process share. Nobody may stop it.
func Shared(t testing.TB) *Server {
	t.Helper()
	need(t)
	s, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sharedServer() (*Server, error) {
	bin, err := Programs()
	if err != nil {
		return nil, err
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		shared.server, err = newServer(bin, false)
	}
	return shared.server, err
}

// Launch starts a server outside of a test, as Start does. Close ends it.
func Launch() (*Server, error) {
	bin, err := Programs()
	if err != nil {
		return nil, err
	}
	return newServer(bin, true)
}

// Close ends the server and removes its files.
func (s *Server) Close() error { return s.remove() }

// MakeSchema is Schema outside of a test.
func (s *Server) MakeSchema(ctx context.Context) (url string, err error) {
	name := fmt.Sprintf("schema%d", s.names.Add(1))
	return s.URL("postgres") + "&search_path=" + name, execute(ctx, s.URL("postgres"), "CREATE SCHEMA "+name)
}

// Start starts a server of the test's own, which keeps what was committed when it is killed.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := newServer(need(t), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Database makes an empty database, which ends with the server, and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("db%d", s.names.Add(1))
	s.Exec(t, s.URL("postgres"), "CREATE DATABASE "+name)
	return s.URL(name)
}

// Schema makes an empty schema, which is quicker than a database, and returns its URL.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("schema%d", s.names.Add(1))
	s.Exec(t, s.URL("postgres"), "CREATE SCHEMA "+name)
	return s.URL("postgres") + "&search_path=" + name
}

// URL returns the URL of a database for the superuser. Append "&search_path=NAME" for another schema than public.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s", superuser, database, url.QueryEscape(s.dir))
}

// Dir is the directory of the server's unix socket.
func (s *Server) Dir() string { return s.dir }

// Exec runs SQL on a database.
func (s *Server) Exec(t testing.TB, url string, statements ...string) {
	t.Helper()
	if err := execute(t.Context(), url, statements...); err != nil {
		t.Fatal(err)
	}
}

func execute(ctx context.Context, url string, statements ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, e := conn.Exec(ctx, statement); e != nil && err == nil {
			err = fmt.Errorf("%s: %w", statement, e)
		}
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// newServer makes a server's directory and starts it.
func newServer(bin string, durable bool) (*Server, error) {
	dir, err := os.MkdirTemp("", "ctxpg")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, durable: durable}
	if err := s.initialize(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.run(); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

func (s *Server) initialize() error {
	if len(s.dir) > 80 {
		return fmt.Errorf("%s is too long for a unix socket: set TMPDIR", s.dir)
	}
	// Programs of other users find the socket there.
	if err := errors.Join(os.Chmod(s.dir, 0o711), giveAway(s.dir)); err != nil {
		return err
	}
	init := s.command("initdb", "-D", s.data(), "-U", superuser, "-A", "scram-sha-256", "--auth-local=trust", "-E", "UTF8", "--locale=C", "--no-sync")
	var out bytes.Buffer
	init.Stdout, init.Stderr = &out, &out
	p, err := startProcess(init)
	if err == nil {
		if <-p.done; !init.ProcessState.Success() {
			err = errors.New(init.ProcessState.String())
		}
	}
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out.String())
	}
	rules := fmt.Sprintf("local all %s trust\nlocal all all scram-sha-256\n", superuser)
	return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(rules), 0o600)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, program), args...) // remove ends it
	cmd.Dir = s.dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = ordinary()
	return cmd
}

// run starts the server and waits until it answers.
func (s *Server) run() error {
	settings := []string{"listen_addresses=", "unix_socket_directories=" + s.dir, "shared_buffers=16MB", "max_connections=200", "max_wal_size=256MB",
		"dynamic_shared_memory_type=mmap"} // a server that is killed leaves no segment in /dev/shm
	if !s.durable {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	args := []string{"-D", s.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	cmd, log := s.command("postgres", args...), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	s.running = p
	deadline := time.Now().Add(startTime)
	for ticker := time.NewTicker(20 * time.Millisecond); ; <-ticker.C {
		err := s.answers()
		if err == nil {
			ticker.Stop()
			return nil
		}
		if p.ended() || time.Now().After(deadline) {
			ticker.Stop()
			return fmt.Errorf("postgres does not answer: %w\n%s", err, p.stop(log))
		}
	}
}

func (s *Server) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// Kill kills the server, all its processes, as a power failure would.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running.kill()
	s.running = nil
}

// Restart starts the server again after Kill, on the same data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// remove ends the server and removes its directory.
func (s *Server) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.running.kill()
	}
	return os.RemoveAll(s.dir)
}

// Query returns the first column of a query's rows, as text.
func (s *Server) Query(t testing.TB, url, query string) (column []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), query)
	if err == nil {
		column, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatalf("%s: %v", strings.TrimSpace(query), err)
	}
	return column
}

// LongLeases has each renewal of a lease in the schema of a URL last an hour longer, so that a test which runs slowly does not lose it.
func (s *Server) LongLeases(t testing.TB, url string) {
	t.Helper()
	_, schema, _ := strings.Cut(url, "search_path=")
	s.Exec(t, url, strings.ReplaceAll(`CREATE FUNCTION @.extend() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN NEW.expires_at := NEW.expires_at + interval '1 h'; RETURN NEW; END $$`, "@", schema),
		strings.ReplaceAll(`CREATE TRIGGER extend BEFORE UPDATE ON @.directory FOR EACH ROW
		WHEN (NEW.expires_at IS DISTINCT FROM OLD.expires_at) EXECUTE FUNCTION @.extend()`, "@", schema))
}

// Env is "postgres" if servers of tests keep their records in PostgreSQL. It is the URL of a database in a process of the tests that
// cannot start PostgreSQL.
const Env = "CTXFS_TEST_METADATA"

// Setting returns the setting --metadata for the server of a test, "" unless Env is set. It is the same for the same key, such as a
// workspace. The package's TestMain runs Main.
func Setting(key string) (string, error) {
	where := os.Getenv(Env)
	if where == "" {
		return "", nil
	}
	settings.Lock()
	defer settings.Unlock()
	if made := settings.of[key]; made != "" {
		return made, nil
	}
	if where == "postgres" {
		s, err := sharedServer()
		if err != nil {
			return "", err
		}
		where = s.URL("postgres")
	}
	name := "test_" + strings.ToLower(rand.Text())
	if err := execute(context.Background(), where, "CREATE SCHEMA "+name); err != nil {
		return "", err
	}
	if settings.of == nil {
		settings.of = map[string]string{}
	}
	settings.of[key] = where + "&search_path=" + name
	return settings.of[key], nil
}

// Serve has Setting return a new schema of this server for a key.
func (s *Server) Serve(t testing.TB, key string) {
	t.Helper()
	url := s.Schema(t)
	settings.Lock()
	defer settings.Unlock()
	if settings.of == nil {
		settings.of = map[string]string{}
	}
	settings.of[key] = url
}

var settings struct {
	sync.Mutex
	of map[string]string
}

// Reachable is an entry of the environment for a process of the tests that cannot start PostgreSQL; "" if Env is not set.
func Reachable() (string, error) {
	if os.Getenv(Env) != "postgres" {
		return "", nil
	}
	s, err := sharedServer()
	if err != nil {
		return "", err
	}
	return Env + "=" + s.URL("postgres"), nil
}
