package contexts

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// usingLock is shared by every process that has contexts open, for as long as it may.
const usingLock = "using.lock"

// usingSuffix ends the name of the mark of a context that a process has opened, an empty file among the locks. It goes when
// the process ends in order: one that is there when nobody has a context open was left by a process that was killed.
const usingSuffix = ".using"

// using knows which contexts a killed process had open. Such a process may have left files of interrupted atomic writes, under
// reserved names.
type using struct {
	// dir holds the marks.
	dir string
	// release gives up the share of the lock.
	release func()

	mu sync.Mutex
	// left are the contexts that were not opened since.
	left map[ID]bool
	// mine are the contexts that this process has marked.
	mine map[ID]bool
}

// openUsing takes a share of the lock, and reads the marks if no other process has one.
func openUsing(ctx context.Context, l locks) (*using, error) {
	u := &using{dir: l.dir, left: map[ID]bool{}, mine: map[ID]bool{}}
	f := l.file(usingLock)
	alone, err := f.TryLock()
	if err == nil && alone {
		err = u.read()
	}
	if err == nil {
		_, err = f.TryRLockContext(ctx, lockPoll) // fails if ctx ends first
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, layoutError(fserr.CodeOf(err), err, "the marks of open contexts could not be read")
	}
	u.release = func() { _ = f.Close() }
	return u, nil
}

func (u *using) read() error {
	entries, err := os.ReadDir(u.dir)
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), usingSuffix); ok {
			u.left[ID(id)] = true
		}
	}
	return err
}

func (u *using) mark(id ID) string { return filepath.Join(u.dir, string(id)+usingSuffix) }

// use marks a context that is being opened. First it removes what a killed process left in it, which only takes space: no
// caller sees a reserved name. It fails only when ctx ends, so that a disk that is full or read-only keeps no reader out.
// The context's opening lock is held.
func (m *Manager) use(ctx context.Context, id ID, root rootfs.Root) error {
	log := m.cfg.Log.With(zap.String("context", string(id)))
	if m.using.isLeft(id) {
		n, err := tree.Sweep(ctx, root)
		if n > 0 || err != nil {
			log.Info("what a crash left of atomic writes was removed", zap.Int("entries", n), zap.Error(err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := m.using.add(id); err != nil {
		log.Warn("a context could not be marked as open: what a kill leaves in it will not be swept", zap.Error(err))
	}
	return nil
}

func (u *using) isLeft(id ID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left[id]
}

// add marks a context. It makes the mark anew each time: another process may have removed it with an earlier context of this ID.
func (u *using) add(id ID) error {
	f, err := os.OpenFile(u.mark(id), os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.left, id)
	if err == nil {
		u.mine[id] = true
	}
	return err
}

// drop removes the mark of a context that is gone.
func (u *using) drop(id ID) error {
	u.mu.Lock()
	delete(u.left, id)
	delete(u.mine, id)
	u.mu.Unlock()
	err := os.Remove(u.mark(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unuse removes this process's marks. Close calls it when nothing is open any more. A mark that stays costs a walk through
// its context.
func (m *Manager) unuse() {
	for id := range m.using.mine {
		if err := m.using.drop(id); err != nil {
			m.cfg.Log.Warn("the mark of an open context could not be removed", zap.String("context", string(id)), zap.Error(err))
		}
	}
	m.using.release()
}
