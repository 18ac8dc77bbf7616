package contexts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
)

// lockPoll is how often a process retries a lock that another process holds.
const lockPoll = 25 * time.Millisecond

// locks keeps processes apart. The kernel releases a lock when its holder dies.
//
//   - work is shared by everything that uses staging or layers. A sweep and a garbage collection take
//     it alone, for as long as they decide what is garbage and rename that away.
//   - Each context has a lock, held while its folder is made, copied, replaced or removed. IDs that
//     differ only by case share one.
//   - The state of a context that a driver mounts is locked, as a directory, while the driver mounts or unmounts it.
//   - mounted is shared by every process that has mounted a context, until it stops. A process that
//     stops takes it alone before it unmounts what no process uses any more.
//   - using is shared by every process that has contexts open (see using).
type locks struct{ dir string }

const (
	workLock    = "work.lock"
	mountedLock = "mounted.lock"
)

// contextSuffix ends the names of the locks of contexts.
const contextSuffix = ".context.lock"

func contextLock(id ID) string { return strings.ToLower(string(id)) + contextSuffix }

func (l locks) path(name string) string { return filepath.Join(l.dir, name) }

func (l locks) file(name string) *flock.Flock {
	return flock.New(l.path(name), flock.SetPermissions(0o600))
}

// work takes a share of the work lock.
func (l locks) work(ctx context.Context) (release func(), err error) {
	return l.share(ctx, workLock)
}

// quiet takes the work lock alone, once no process has it.
func (l locks) quiet(ctx context.Context) (release func(), err error) {
	f := l.file(workLock)
	ok, err := f.TryLockContext(ctx, lockPoll)
	return held(f, ok, err)
}

// sweep takes the work lock alone, if no process has it.
func (l locks) sweep() (release func(), ok bool, err error) { return l.alone(workLock) }

func (l locks) alone(name string) (release func(), ok bool, err error) {
	f := l.file(name)
	if ok, err = f.TryLock(); err != nil {
		return nil, false, fmt.Errorf("lock the state: %w", fserr.CodeOf(err))
	}
	return func() { _ = f.Close() }, ok, nil
}

// share takes a share of a lock whose file is never removed.
func (l locks) share(ctx context.Context, name string) (release func(), err error) {
	f := l.file(name)
	ok, err := f.TryRLockContext(ctx, lockPoll)
	return held(f, ok, err)
}

// context takes a context's lock. It calls waiting once if another holder has it.
func (l locks) context(ctx context.Context, id ID, waiting func()) (release func(), err error) {
	return named(ctx, func() *flock.Flock { return l.file(contextLock(id)) }, waiting)
}

// directory locks a directory itself, so that the lock goes where the directory goes. It is ENOENT when there is none.
func (l locks) directory(ctx context.Context, dir string) (release func(), err error) {
	return named(ctx, func() *flock.Flock { return directoryLock(dir) }, func() {})
}

func directoryLock(dir string) *flock.Flock { return flock.New(dir, flock.SetFlag(os.O_RDONLY)) }

// named takes a lock whose file may be removed or renamed by its holder. A lock on a file that lost its name
// excludes no other process, so named tries again until the file that it has locked is the one that has the name.
func named(ctx context.Context, open func() *flock.Flock, waiting func()) (release func(), err error) {
	for {
		f := open()
		ok, err := f.TryLock()
		if err == nil && !ok {
			waiting()
			ok, err = f.TryLockContext(ctx, lockPoll)
		}
		if err != nil || !ok || hasName(f) {
			return held(f, ok, err)
		}
		_ = f.Close() // it locked nothing that counts
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

// busy reports whether a context's lock is held.
func (l locks) busy(id ID) bool {
	f := l.file(contextLock(id))
	if _, err := os.Stat(f.Path()); err != nil {
		return false
	}
	ok, err := f.TryRLock()
	_ = f.Close() // nothing was written
	return err == nil && !ok
}

func held(f *flock.Flock, ok bool, err error) (func(), error) {
	if err == nil && !ok {
		err = fserr.EAGAIN
	}
	if err != nil {
		_ = f.Close() // it was not locked
		return nil, &fserr.Error{Op: "flock", Code: fserr.CodeOf(err), Err: err}
	}
	return func() { _ = f.Close() }, nil
}

// removeUnused removes the lock files of contexts and templates, and the marks of contexts that are gone. The caller holds
// the work lock alone, without which no process takes such a lock.
func (l locks) removeUnused(gone func(name string) bool) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		id, isMark := strings.CutSuffix(e.Name(), usingSuffix)
		if (isMark && gone(id)) || strings.HasSuffix(e.Name(), contextSuffix) || strings.HasPrefix(e.Name(), template.LockPrefix) {
			_ = os.Remove(l.path(e.Name())) // an empty file that stays does no harm
		}
	}
}

// keyed is a set of locks by name, within this process. A caller waits for a name no longer than its context lives.
// A name that is not locked takes no memory.
type keyed struct {
	mu    sync.Mutex
	names map[string]*keyedLock
}

// keyedLock has a turn for one of its users: callers that hold it or wait for it.
type keyedLock struct {
	users int
	turn  chan struct{}
}

// lock takes the lock of a name.
func (k *keyed) lock(ctx context.Context, name string) (unlock func(), err error) {
	k.mu.Lock()
	l := k.names[name]
	if l == nil {
		if k.names == nil {
			k.names = map[string]*keyedLock{}
		}
		l = &keyedLock{turn: make(chan struct{}, 1)}
		k.names[name] = l
	}
	l.users++
	k.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		return func() {
			<-l.turn
			k.left(name, l)
		}, nil
	case <-ctx.Done():
		k.left(name, l)
		return nil, ctx.Err()
	}
}

func (k *keyed) left(name string, l *keyedLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.users--
	if l.users == 0 {
		delete(k.names, name)
	}
}
