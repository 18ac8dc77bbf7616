package gate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// markSuffix ends the name of the mark of an open context, an empty file among the locks. A process removes its marks when it
// stops. If no process has contexts open, a killed process has left the marks that are there.
const markSuffix = ".using"

// marks knows which contexts a killed process had open. Such a process may have left files of interrupted atomic writes, under
// reserved names.
type marks struct {
	cat *catalog.Catalog
	// release gives up the share of the lock.
	release func()

	mu sync.Mutex
	// left are the contexts that a killed process had open, and that this one has not opened since.
	left map[catalog.ID]bool
	// mine are the contexts that this process has marked.
	mine map[catalog.ID]bool
}

// openMarks takes a share of the lock, and reads the marks if no other process has one.
func openMarks(ctx context.Context, cat *catalog.Catalog) (*marks, error) {
	m := &marks{cat: cat, left: map[catalog.ID]bool{}, mine: map[catalog.ID]bool{}}
	started, err := cat.Locks.Alone(ctx, catalog.UsingStart)
	if err == nil {
		defer started()
		err = m.read()
	}
	if err == nil {
		m.release, err = cat.Locks.Share(ctx, catalog.UsingLock)
	}
	if err != nil {
		return nil, catalog.LayoutError(fserr.CodeOf(err), err, "the marks of open contexts could not be read")
	}
	return m, nil
}

func (m *marks) read() error {
	release, alone, err := m.cat.Locks.TryAlone(catalog.UsingLock)
	if err != nil || !alone {
		return err
	}
	defer release()
	entries, err := os.ReadDir(m.cat.Layout.Locks)
	for _, e := range entries {
		if id, ok := markedBy(e.Name()); ok {
			m.left[id] = true
		}
	}
	return err
}

func markedBy(name string) (catalog.ID, bool) {
	id, ok := strings.CutSuffix(name, markSuffix)
	return catalog.ID(id), ok
}

func (m *marks) path(id catalog.ID) string {
	return filepath.Join(m.cat.Layout.Locks, string(id)+markSuffix)
}

// use marks a context that is being opened. First it removes the reserved names that a killed process left in it, which only
// take space: no caller sees them. It fails only if ctx ends, so that readers can open contexts on a disk that is full or
// read-only. The context is locked by Gates.Opening.
func (m *marks) use(ctx context.Context, id catalog.ID, root rootfs.Root) error {
	log := m.cat.Log.With(zap.String("context", string(id)))
	if m.isLeft(id) {
		n, err := tree.Sweep(ctx, root)
		if n > 0 || err != nil {
			log.Info("removed what a crash left of atomic writes", zap.Int("entries", n), zap.Error(err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := m.add(id); err != nil {
		log.Warn("a context could not be marked as open: what a kill leaves in it will not be swept", zap.Error(err))
	}
	return nil
}

func (m *marks) isLeft(id catalog.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left[id]
}

// add marks a context. It makes the mark anew each time: another process may have removed it with an earlier context of this ID.
func (m *marks) add(id catalog.ID) error {
	f, err := statedir.OpenFile(m.path(id), os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.left, id)
	if err == nil {
		m.mine[id] = true
	}
	return err
}

// drop removes the mark of a context that is gone.
func (m *marks) drop(id catalog.ID) error {
	m.mu.Lock()
	delete(m.left, id)
	delete(m.mine, id)
	m.mu.Unlock()
	if err := os.Remove(m.path(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// close removes this process's marks. Nothing is open any more. A mark that stays costs a walk through its context.
func (m *marks) close() {
	for id := range m.mine {
		if err := m.drop(id); err != nil {
			m.notRemoved(id, err)
		}
	}
	m.release()
}

func (m *marks) notRemoved(id catalog.ID, err error) {
	m.cat.Log.Warn("the mark of an open context could not be removed", zap.String("context", string(id)), zap.Error(err))
}

// SweepMarks removes the marks of contexts that are gone. The caller holds the work lock alone.
func (t *Gates) SweepMarks() {
	entries, err := os.ReadDir(t.cat.Layout.Locks)
	if err != nil {
		return
	}
	for _, e := range entries {
		if id, ok := markedBy(e.Name()); ok && t.cat.IsGone(string(id)) {
			_ = os.Remove(t.marks.path(id)) // an empty file that stays does no harm
		}
	}
}
