package contexts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// usingLock is shared by every process that has contexts open, for as long as it may.
const usingLock = "using.lock"

// usingSuffix ends the name of the mark of a context that a process has opened, an empty file among the locks. It goes when
// the process ends in order: one that is there when nobody has a context open was left by a process that was killed.
const usingSuffix = ".using"

// using knows which contexts a killed process had open. Such a process may have left files of interrupted atomic writes, under
// reserved names. Manager.opening guards it.
type using struct {
	// dir holds the marks.
	dir string
	// left are the contexts that nobody has looked at since.
	left map[ID]bool
	// mine are those that this process has marked.
	mine map[ID]bool
	// release gives up the share of the lock.
	release func()
}

// openUsing takes a share of the lock, and reads the marks if nobody else has one.
func openUsing(l locks) (*using, error) {
	u := &using{dir: l.dir, left: map[ID]bool{}, mine: map[ID]bool{}}
	f := l.file(usingLock)
	alone, err := f.TryLock()
	if err == nil && alone {
		err = u.read()
	}
	if err == nil {
		err = f.RLock()
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

// use marks a context that is being opened, after what a killed process left in it was removed. What cannot be removed only
// takes space: nobody is shown it. Nor is a disk that is full or read-only in the way of who only reads. m.opening is held.
func (m *Manager) use(id ID, root rootfs.Root) {
	log := m.cfg.Log.With(zap.String("context", string(id)))
	if m.using.left[id] {
		n, err := rootfs.SweepReserved(m.ctx, root)
		if n > 0 || err != nil {
			log.Info("what a crash left of atomic writes was removed", zap.Int("entries", n), zap.Error(err))
		}
		delete(m.using.left, id)
	}
	if m.using.mine[id] {
		return
	}
	f, err := os.OpenFile(m.using.mark(id), os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		log.Warn("a context could not be marked as open: what a kill leaves in it will not be swept", zap.Error(err))
		return
	}
	m.using.mine[id] = true
}

// unuse takes the marks away, once nothing is open any more. One that stays costs a walk through its context.
func (m *Manager) unuse() {
	m.opening.Lock()
	defer m.opening.Unlock()
	for id := range m.using.mine {
		if err := os.Remove(m.using.mark(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.cfg.Log.Warn("the mark of an open context could not be removed", zap.String("context", string(id)), zap.Error(err))
		}
	}
	m.using.release()
}
