package contexts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
)

// lockPoll is how often a lock that another process holds is tried again.
const lockPoll = 25 * time.Millisecond

// locks keeps processes apart. The kernel lets go of a lock when its holder dies.
//
//   - work is shared by everything that uses staging or layers, and taken alone by
//     the sweep at start, which therefore never removes what somebody alive is making;
//   - each context has a lock, held while its folder is made or removed. IDs that
//     differ only by case share one;
//   - mounting is held while something is mounted or unmounted, a few milliseconds;
//   - mounted is shared by every process that uses a mounted context, for as long as it
//     may, and taken alone by one that stops, before it unmounts what nobody uses;
//   - using is shared by every process that has contexts open (see using).
type locks struct{ dir string }

const (
	workLock     = "work.lock"
	mountingLock = "mounting.lock"
	mountedLock  = "mounted.lock"
)

func (l locks) file(name string) *flock.Flock {
	return flock.New(filepath.Join(l.dir, name), flock.SetPermissions(0o600))
}

func contextLock(id ID) string { return strings.ToLower(string(id)) + ".context.lock" }

// work takes a share of the work lock.
func (l locks) work(ctx context.Context) (release func(), err error) {
	f := l.file(workLock)
	ok, err := f.TryRLockContext(ctx, lockPoll)
	return l.held(f, ok, err)
}

// quiet takes the work lock alone, once nobody has it.
func (l locks) quiet(ctx context.Context) (release func(), err error) {
	f := l.file(workLock)
	ok, err := f.TryLockContext(ctx, lockPoll)
	return l.held(f, ok, err)
}

// sweep takes the work lock alone, if nobody has it.
func (l locks) sweep() (release func(), ok bool, err error) { return l.alone(workLock) }

func (l locks) alone(name string) (release func(), ok bool, err error) {
	f := l.file(name)
	if ok, err = f.TryLock(); err != nil {
		return nil, false, fmt.Errorf("lock the state: %w", fserr.CodeOf(err))
	}
	return func() { _ = f.Close() }, ok, nil
}

// mounting keeps everybody else from mounting and unmounting.
func (l locks) mounting(ctx context.Context) (release func(), err error) {
	f := l.file(mountingLock)
	ok, err := f.TryLockContext(ctx, lockPoll)
	return l.held(f, ok, err)
}

// mounted takes a share of the lock of those who use what is mounted.
func (l locks) mounted(ctx context.Context) (release func(), err error) {
	f := l.file(mountedLock)
	ok, err := f.TryRLockContext(ctx, lockPoll)
	return l.held(f, ok, err)
}

// context takes a context's lock; waiting is called once when another process has it.
func (l locks) context(ctx context.Context, id ID, waiting func()) (release func(), err error) {
	f := l.file(contextLock(id))
	ok, err := f.TryLock()
	if err == nil && !ok {
		waiting()
		ok, err = f.TryLockContext(ctx, lockPoll)
	}
	return l.held(f, ok, err)
}

// busy reports whether somebody holds a context's lock.
func (l locks) busy(id ID) bool {
	f := l.file(contextLock(id))
	if _, err := os.Stat(f.Path()); err != nil {
		return false
	}
	ok, err := f.TryRLock()
	_ = f.Close() // nothing was written
	return err == nil && !ok
}

func (l locks) held(f *flock.Flock, ok bool, err error) (func(), error) {
	if err == nil && !ok {
		err = fserr.EAGAIN
	}
	if err != nil {
		_ = f.Close() // it was not locked
		return nil, &fserr.Error{Op: "flock", Code: fserr.CodeOf(err), Err: err}
	}
	return func() { _ = f.Close() }, nil
}

// removeUnused removes the lock files of contexts and templates. Only under sweep's lock: nobody waits for one then.
func (l locks) removeUnused() {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".context.lock") || strings.HasPrefix(e.Name(), template.LockPrefix) {
			_ = os.Remove(filepath.Join(l.dir, e.Name())) // an empty file that stays does no harm
		}
	}
}
