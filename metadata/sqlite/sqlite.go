// Package sqlite keeps metadata in one SQLite file: the default store.
//
// It owns the file, its mode, its schema and the copies made before a schema
// changes. One connection writes, so that writers queue in this process instead
// of failing with SQLITE_BUSY; a few others read beside it (WAL).
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata"
)

// readers bounds the reading connections; look-ups take microseconds.
const readers = 4

// busyTimeout is how long a connection waits for another process (doctor, a backup) to let go.
const busyTimeout = 5 * time.Second

// Store is a metadata.Store in a SQLite file.
type Store struct {
	path        string
	write, read *sql.DB
	cramped     bool
}

var _ metadata.Store = (*Store)(nil)

// Open opens the database at path, a server path, making it (mode 0600) when it
// is missing, and brings its schema up to date; an existing database is copied
// to path+".bak-<version>" before that. The errors wrap ErrNewer or ErrCorrupt
// when that is the reason; the file is then left as it was. A symbolic link in the
// place of the file, or of one that SQLite keeps beside it, is an error.
//
// On a full disk an existing database opens as well: see Store.Cramped.
func Open(ctx context.Context, path string) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if err := refuseLinks(abs); err != nil {
		return nil, err
	}
	existed, err := prepareFile(abs)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", abs, err)
	}
	s, err := open(ctx, abs, existed, connect)
	if existed && lacksSpace(err) {
		if cramped, e := open(ctx, abs, existed, connectCramped); e == nil {
			return cramped, nil
		}
	}
	return s, err
}

func open(ctx context.Context, path string, existed bool, connect func(path string) (*Store, error)) (*Store, error) {
	s, err := connect(path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if err := s.ready(ctx, existed); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, translate(err)), s.Close())
	}
	return s, nil
}

// refuseLinks looks at the names that SQLite opens. It would follow a link, and change a file elsewhere.
func refuseLinks(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		st, err := os.Lstat(path + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("open database %s: %w", path, err)
		case !st.Mode().IsRegular():
			return fmt.Errorf("open database %s: %s is not a regular file (%s): remove it, or put the file itself in its place",
				path, path+suffix, st.Mode().Type())
		}
	}
	return nil
}

// prepareFile makes the file with mode 0600 before SQLite would make it with the
// umask's; SQLite gives its -wal and -shm files the mode of the database.
func prepareFile(path string) (existed bool, err error) {
	f, err := statedir.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != 0o600 {
		err = f.Chmod(0o600)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	return info.Size() > 0, nil
}

func connect(path string) (*Store, error) {
	write, err := sql.Open("sqlite", dsn(path, "journal_mode(WAL)", "synchronous(FULL)")+"&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	read, err := sql.Open("sqlite", dsn(path, "query_only(1)"))
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read.SetMaxOpenConns(readers)
	return &Store{path: path, write: write, read: read}, nil
}

// connectCramped opens a database in WAL mode without its -shm file. That takes a connection that has the file for itself.
func connectCramped(path string) (*Store, error) {
	db, err := sql.Open("sqlite", dsn(path, "locking_mode(EXCLUSIVE)", "synchronous(FULL)")+"&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &Store{path: path, write: db, read: db, cramped: true}, nil
}

// Cramped reports that the disk had no room for the file that readers share (-shm). The store then has one connection for
// everything, and no other process can open the file. Records that need new space fail with ENOSPC until there is some.
func (s *Store) Cramped() bool { return s.cramped }

// dsn names the file as a URI, so that no character of path is taken for a parameter.
func dsn(path string, pragmas ...string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a Windows drive: file:///C:/…
	}
	query := url.Values{
		"_pragma":       append([]string{"foreign_keys(1)"}, pragmas...),
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_dqs":          {"false"},
		"_defensive":    {"true"},
	}
	return (&url.URL{Scheme: "file", Path: slashed, RawQuery: query.Encode()}).String()
}

func (s *Store) ready(ctx context.Context, existed bool) error {
	if existed {
		if err := check(ctx, s.write); err != nil {
			return err
		}
	}
	migrations, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return err
	}
	return s.migrate(ctx, migrations, existed)
}

// Contexts returns the context records.
func (s *Store) Contexts() metadata.Contexts { return contexts{s} }

// Panels returns the panel records.
func (s *Store) Panels() metadata.Panels { return panels{s} }

// Tokens returns the token records.
func (s *Store) Tokens() metadata.Tokens { return tokens{s} }

// Layers returns the layer records.
func (s *Store) Layers() metadata.Layers { return layers{s} }

// Close ends all connections. The writing one goes last: it folds the WAL back into the file.
func (s *Store) Close() error { return errors.Join(s.read.Close(), s.write.Close()) }
