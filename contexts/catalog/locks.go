package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Locks keeps apart the processes that serve one workspace. A lock is released at the latest when its holder dies. Locks are
// named; names have only the characters of IDs. All waits end with the caller's context.
type Locks interface {
	// Share waits while a process holds the lock alone, then takes a share of it.
	Share(ctx context.Context, name string) (release func(), err error)
	// Alone waits until no process holds the lock or a share of it, then takes it.
	Alone(ctx context.Context, name string) (release func(), err error)
	// TryAlone takes the lock if no process holds it or a share of it; otherwise ok is false.
	TryAlone(name string) (release func(), ok bool, err error)
	// Held reports whether a process holds the lock alone.
	Held(name string) bool
	// Forget frees the resources of a lock that the caller holds alone and that will hardly be used again.
	Forget(name string)
	// Sweep is Forget for all locks whose names unused selects. The caller ensures that no process takes one meanwhile.
	Sweep(unused func(name string) bool)
}

// The locks of a workspace, besides one for each context.
const (
	// WorkLock is shared by everything that uses staging or layers. A sweep or a garbage collection holds it alone while it
	// decides what is garbage and renames it away.
	WorkLock = "work.lock"
	// MountedLock is shared by every process that has mounted a context, until the process stops. A process that stops
	// takes it alone before it unmounts contexts that no process uses any more.
	MountedLock = "mounted.lock"
	// UsingLock is shared by every process that has contexts open. UsingStart is held while a process decides whether it is
	// the first one.
	UsingLock, UsingStart = "using.lock", "using-start.lock"
)

// contextSuffix ends the names of the locks of contexts.
const contextSuffix = ".context.lock"

// lockOf names a context's lock. A process holds it while it makes, copies, replaces or removes the context's folder. IDs
// that differ only by case share a lock.
func lockOf(id ID) string { return strings.ToLower(string(id)) + contextSuffix }

// IsContextLock reports whether a lock is that of a context.
func IsContextLock(name string) bool { return strings.HasSuffix(name, contextSuffix) }

// lockPoll is how often a process retries a lock that another process holds.
const lockPoll = 25 * time.Millisecond

// FileLocks are locks on files (flock(2)) in a directory.
type FileLocks struct{ Dir string }

var _ Locks = FileLocks{}

func (l FileLocks) path(name string) string { return filepath.Join(l.Dir, name) }

func (l FileLocks) file(name string) *flock.Flock {
	return flock.New(l.path(name), flock.SetPermissions(0o600), flock.SetFlag(statedir.LockFlags))
}

// Share implements Locks.
func (l FileLocks) Share(ctx context.Context, name string) (release func(), err error) {
	return named(func() *flock.Flock { return l.file(name) }, func(f *flock.Flock) (bool, error) { return f.TryRLockContext(ctx, lockPoll) })
}

// Alone implements Locks.
func (l FileLocks) Alone(ctx context.Context, name string) (release func(), err error) {
	return named(func() *flock.Flock { return l.file(name) }, func(f *flock.Flock) (bool, error) { return f.TryLockContext(ctx, lockPoll) })
}

// TryAlone implements Locks.
func (l FileLocks) TryAlone(name string) (release func(), ok bool, err error) {
	release, err = named(func() *flock.Flock { return l.file(name) }, (*flock.Flock).TryLock)
	switch {
	case errors.Is(err, errLocked):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("lock the state: %w", fserr.CodeOf(err))
	}
	return release, true, nil
}

// Held implements Locks.
func (l FileLocks) Held(name string) bool {
	f := l.file(name)
	if _, err := os.Stat(f.Path()); err != nil {
		return false
	}
	ok, err := f.TryRLock()
	_ = f.Close() // nothing was written
	return err == nil && !ok
}

// Forget implements Locks.
func (l FileLocks) Forget(name string) { _ = os.Remove(l.path(name)) } // an empty file that stays does no harm

// Sweep implements Locks.
func (l FileLocks) Sweep(unused func(name string) bool) {
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if unused(e.Name()) {
			l.Forget(e.Name())
		}
	}
}

// LockDirectory locks a directory itself, so that the lock moves with the directory. It fails with ENOENT if there is none.
// Such locks keep processes of one machine apart, whatever Locks are in use.
func LockDirectory(ctx context.Context, dir string) (release func(), err error) {
	return named(func() *flock.Flock { return directoryLock(dir) }, func(f *flock.Flock) (bool, error) { return f.TryLockContext(ctx, lockPoll) })
}

// IsDirectoryLocked reports whether a process holds the lock of a directory.
func IsDirectoryLocked(dir string) bool {
	f := directoryLock(dir)
	ok, err := f.TryLock()
	_ = f.Close() // nothing was written
	return err == nil && !ok
}

func directoryLock(dir string) *flock.Flock {
	return flock.New(dir, flock.SetFlag(os.O_RDONLY|statedir.Flags))
}

// errLocked reports that another process holds a lock.
var errLocked = &fserr.Error{Op: "flock", Code: fserr.EAGAIN, Err: fserr.EAGAIN}

// named takes a lock whose file another process may remove or rename. A lock on a file that has lost its name excludes no
// other process, so named retries until the file that it has locked is the file of that name.
func named(open func() *flock.Flock, take func(*flock.Flock) (bool, error)) (release func(), err error) {
	for {
		f := open()
		ok, err := take(f)
		switch {
		case err == nil && ok && hasName(f):
			return func() { _ = f.Close() }, nil
		case err == nil && ok:
			_ = f.Close() // the lock on it counts for nothing
			continue
		}
		_ = f.Close() // it was not locked
		if err == nil {
			return nil, errLocked
		}
		return nil, &fserr.Error{Op: "flock", Code: fserr.CodeOf(err), Err: err}
	}
}

func hasName(f *flock.Flock) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	st, err := os.Lstat(f.Path())
	return err == nil && os.SameFile(mine, st)
}

// LockContext takes a context's lock. It calls waiting once if another holder has the lock. If there is no context at release,
// the lock is forgotten.
func (c *Catalog) LockContext(ctx context.Context, id ID, waiting func()) (unlock func(), err error) {
	name := lockOf(id)
	release, ok, err := c.Locks.TryAlone(name)
	if !ok {
		if err == nil {
			waiting()
		}
		release, err = c.Locks.Alone(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	return func() {
		if there, err := c.FolderState(id); err == nil && !there {
			c.Locks.Forget(name)
		}
		release()
	}, nil
}

// IsLocked reports whether some process makes, copies, replaces or removes a context.
func (c *Catalog) IsLocked(id ID) bool { return c.Locks.Held(lockOf(id)) }

// CompareLocks orders IDs as callers must lock them that lock several.
func CompareLocks(a, b ID) int { return strings.Compare(lockOf(a), lockOf(b)) }

// isGone reports that a path, or a directory on the way to it, does not exist.
func isGone(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ENOENT || code == fserr.ENOTDIR
}

// removeFile removes a file, which need not exist.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
