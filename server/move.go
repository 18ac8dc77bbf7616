package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/postgres"
	"github.com/ctxfs/ctxfs/metadata/sqlite"
)

// Moved is what CopyRecords did. From and To have no passwords.
type Moved struct {
	From, To string
	metadata.Counts
}

// CopyRecords copies all records of the workspace's contexts directory from one store to another, which must be empty, and compares both.
// A store is the URL of a PostgreSQL database, "sqlite" for the workspace's own file, or the path of another SQLite file. While a server
// uses the workspace or one of the stores it returns an error, and changes nothing.
func CopyRecords(ctx context.Context, cfg Config, deps Deps, from, to string) (m Moved, err error) {
	s := &Server{cfg: cfg, deps: deps}
	if err := s.takeWorkspace(ctx); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.claim.release()) }()
	l := s.claim.layout
	source, err := openSide(ctx, l, "from", from)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, source.close()) }()
	target, err := openSide(ctx, l, "to", to)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	m = Moved{From: source.where, To: target.where}
	if m.From == m.To {
		return m, &ConfigError{Origin: "flag --to", Key: "to", Problem: "it is the same as --from"}
	}
	m.Counts, err = metadata.Copy(ctx, source, target)
	if err == nil {
		err = errors.Join(source.held(), target.held())
	}
	if errors.Is(err, metadata.ErrNotEmpty) {
		return m, fmt.Errorf("%s has records already: name an empty one; nothing was changed", m.To)
	}
	if err != nil {
		return m, err
	}
	return m, target.noted(l)
}

// side is one of the stores of a copy.
type side struct {
	metadata.Mover
	where string
	close func() error
	// held returns an error if another server uses the store by now.
	held func() error
	// noted notes in the state directory that its records are here now.
	noted func(l contexts.Layout) error
}

// openSide opens the store that a flag names. A source must be there.
func openSide(ctx context.Context, l contexts.Layout, flag, name string) (*side, error) {
	wrong := func(problem string) error {
		return &ConfigError{Origin: "flag --" + flag, Key: flag, Problem: problem}
	}
	if postgres.IsURL(name) {
		at, err := postgres.Parse(name)
		if err != nil {
			return nil, wrong(err.Error())
		}
		return openSharedSide(ctx, l, at, flag == "from")
	}
	path := name
	if name == InFile {
		path = l.DB
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); flag == "from" && err != nil {
		return nil, wrong(fmt.Sprintf("there is no database %s: give a URL, 'sqlite' or the path of a SQLite file", path))
	}
	release, err := lockFile(path, l)
	if err != nil {
		return nil, err
	}
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, errors.Join(err, release())
	}
	e := &side{store, path, func() error { return errors.Join(store.Close(), release()) }, func() error { return nil }, func(contexts.Layout) error { return nil }}
	if path == l.DB {
		e.where, e.noted = InFile, noteInFile
	}
	return e, nil
}

// openSharedSide opens a database. A source that has lost commits is noted, so that the next start repairs what was copied. The epoch of a
// target counts only once it has the records: until then the source's does.
func openSharedSide(ctx context.Context, l contexts.Layout, at *postgres.Address, source bool) (*side, error) {
	claim, err := claimOf(l)
	if err != nil {
		return nil, err
	}
	note := claim.Note
	if source {
		claim.LostCommits = func(int64, int64) error { return markLost(l) }
	} else {
		claim.Note = func(int64) error { return nil }
	}
	store, err := postgres.Open(ctx, at, claim)
	if err != nil {
		return nil, coded(err)
	}
	lease, err := store.Take(ctx, claim)
	if err != nil {
		return nil, errors.Join(coded(err), store.Close())
	}
	r := &records{Store: store, where: at.String(), lease: keepLease(lease)}
	noted := func(l contexts.Layout) error {
		if err := durable.WriteFile(l.Records, []byte(r.where+"\n"), 0o600); err != nil {
			return err
		}
		return note(lease.Epoch())
	}
	return &side{store, r.where, r.Close, r.held, noted}, nil
}

// lockFile keeps servers from a database in the state directory of another contexts directory.
func lockFile(path string, l contexts.Layout) (release func() error, err error) {
	lock := filepath.Join(filepath.Dir(path), filepath.Base(l.Locks), serverLock)
	if _, err := os.Stat(lock); err != nil || filepath.Dir(path) == l.State {
		return func() error { return nil }, nil //nolint:nilerr // no server can be there, or this process has the lock
	}
	f := flock.New(lock, flock.SetPermissions(0o600), flock.SetFlag(statedir.LockFlags))
	ok, err := f.TryLock()
	if err == nil && !ok {
		err = &stateError{fmt.Errorf("a server uses %s: stop it first", path), ExitBusy}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// noteInFile notes that the records are in SQLite from now on.
func noteInFile(l contexts.Layout) error {
	if err := os.Remove(l.Records); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note that the records are in SQLite: %w", err)
	}
	return nil
}
