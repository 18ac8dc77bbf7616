package contexts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// Snapshot is what a context held at some time. A directory
//
//	<snapshots>/<context>/<name>/{data/,snapshot.json}
//
// whose data is what the context's driver makes contexts of. It is made in staging and
// renamed, so one that has its name is complete.
type Snapshot struct {
	Name    string
	TakenAt time.Time
	// Bytes is what it takes on disk; extents that files share count for each.
	Bytes int64
}

// Names within a snapshot's directory.
const (
	snapshotData = "data"
	snapshotFile = "snapshot.json"
)

type snapshotRecord struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Driver  string    `json:"driver"`
	TakenAt time.Time `json:"taken_at"`
	Bytes   int64     `json:"bytes"`
}

// snapshotFormat is the format of snapshots that this version reads and writes.
const snapshotFormat = 1

var snapshotName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

func checkSnapshotName(name string) error {
	if snapshotName.MatchString(name) {
		return nil
	}
	return &fserr.Error{
		Code: fserr.EINVAL, Detail: fmt.Sprintf("bad name of a snapshot %.80q", name),
		Hint: "use 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with a dot",
	}
}

func noSnapshot(id ID, name string) error {
	return &fserr.Error{
		Code: fserr.ENOENT, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' has no snapshot %q", id, name),
		Hint: "ListSnapshots lists them",
	}
}

// Snapshot implements Admin.
func (m *Manager) Snapshot(ctx context.Context, id ID, name string) (Snapshot, error) {
	var out snapshotRecord
	err := m.onSnapshot(ctx, id, name, "could not be kept as a snapshot", func(ctx context.Context, rec metadata.Context) (err error) {
		out, err = m.takeSnapshot(ctx, rec, name)
		return err
	})
	return out.snapshot(), err
}

// onSnapshot runs f while nobody else changes the life of a context that is there.
func (m *Manager) onSnapshot(ctx context.Context, id ID, name, what string, f func(ctx context.Context, rec metadata.Context) error) error {
	if err := checkSnapshotName(name); err != nil {
		return err
	}
	ctx, ended, err := m.begun(ctx, id)
	if err != nil {
		return err
	}
	defer ended()
	unlock, err := m.lockFor(ctx, id)
	if err != nil {
		return contextError(id, what, err)
	}
	defer unlock()
	rec, err := m.existing(ctx, id)
	if err != nil {
		return err
	}
	if err := f(ctx, rec); err != nil {
		return contextError(id, what, err)
	}
	return nil
}

func (r snapshotRecord) snapshot() Snapshot {
	return Snapshot{Name: r.Name, TakenAt: r.TakenAt, Bytes: r.Bytes}
}

func (m *Manager) takeSnapshot(ctx context.Context, rec metadata.Context, name string) (snapshotRecord, error) {
	id := ID(rec.ID)
	out := snapshotRecord{Format: snapshotFormat, Name: name, Driver: rec.Driver}
	if err := m.freeSnapshot(id, name); err != nil {
		return out, err
	}
	return out, m.staged("snapshot", func(dir string) error {
		data := filepath.Join(dir, snapshotData)
		err := m.copyOf(ctx, rec, data)
		if err != nil {
			return err
		}
		out.TakenAt = m.cfg.now().UTC()
		if out.Bytes, err = diskUse(ctx, data); err != nil {
			return err
		}
		text, err := json.Marshal(out)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, snapshotFile), append(text, '\n'), 0o600)
		}
		if err == nil {
			err = os.MkdirAll(m.layout.SnapshotsOf(id), 0o700)
		}
		if err != nil {
			return err
		}
		m.cfg.onPhase("snapshot-made")
		return renameNoReplace(dir, m.layout.Snapshot(id, name))
	})
}

func (m *Manager) freeSnapshot(id ID, name string) error {
	names, err := m.snapshotNames(id)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return &fserr.Error{
				Code: fserr.EEXIST, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' has a snapshot %q already", id, n),
				Hint: "choose another name, or delete it first",
			}
		}
	}
	return nil
}

func (m *Manager) snapshotNames(id ID) ([]string, error) {
	entries, err := os.ReadDir(m.layout.SnapshotsOf(id))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Snapshots implements Admin.
func (m *Manager) Snapshots(ctx context.Context, id ID) ([]Snapshot, error) {
	if _, err := m.existing(ctx, id); err != nil {
		return nil, err
	}
	names, err := m.snapshotNames(id)
	if err != nil {
		return nil, contextError(id, "has snapshots that could not be listed", err)
	}
	out := make([]Snapshot, 0, len(names))
	for _, name := range names {
		r, err := m.readSnapshot(id, name)
		if fserr.CodeOf(err) == fserr.ENOENT { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r.snapshot())
	}
	slices.SortFunc(out, func(a, b Snapshot) int {
		return cmp.Or(a.TakenAt.Compare(b.TakenAt), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func (m *Manager) readSnapshot(id ID, name string) (r snapshotRecord, err error) {
	data, err := os.ReadFile(filepath.Join(m.layout.Snapshot(id, name), snapshotFile))
	if errors.Is(err, os.ErrNotExist) {
		return r, noSnapshot(id, name)
	}
	if err == nil && (json.Unmarshal(data, &r) != nil || r.Format != snapshotFormat) {
		err = &fserr.Error{
			Code: fserr.EIO, Kind: fserr.KindContext, Detail: fmt.Sprintf("snapshot %q of context '%s' is damaged, or of a newer ctxfs", name, id),
		}
	}
	if err != nil {
		return r, contextError(id, "has a snapshot that could not be read", err)
	}
	r.Name = name
	return r, nil
}

// Restore implements Admin.
func (m *Manager) Restore(ctx context.Context, id ID, name string) (Info, error) {
	var out metadata.Context
	err := m.onSnapshot(ctx, id, name, "could not be restored", func(ctx context.Context, rec metadata.Context) (err error) {
		out, err = m.restore(ctx, rec, name)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	m.cfg.Log.Info("context restored", zap.String("context", string(id)), zap.String("snapshot", name))
	return m.shown(ctx, out), nil
}

// restore makes a copy of the snapshot while the context is still used, then swaps both.
func (m *Manager) restore(ctx context.Context, rec metadata.Context, name string) (metadata.Context, error) {
	id := ID(rec.ID)
	snapshot, err := m.readSnapshot(id, name)
	if err != nil {
		return rec, err
	}
	d, place, err := m.held(rec)
	if err != nil {
		return rec, err
	}
	if snapshot.Driver != d.Name() {
		return rec, &fserr.Error{Code: fserr.EIO, Detail: fmt.Sprintf("the snapshot is of the driver %q, the context of %q", snapshot.Driver, d.Name())}
	}
	data := filepath.Join(m.layout.Snapshot(id, name), snapshotData)
	if err := m.room(ctx, id, data); err != nil {
		return rec, err
	}
	var generation uint64
	err = m.staged("restore", func(dir string) error {
		made := filepath.Join(dir, "folder")
		if err := m.duplicate(ctx, id, d, data, made); err != nil {
			return err
		}
		m.cfg.onPhase("restoring")
		generation, err = m.swap(ctx, d, id, made, place)
		return err
	})
	if err != nil {
		return rec, err
	}
	return m.regenerated(context.WithoutCancel(ctx), id, generation)
}

// regenerated records a context's new generation. Its first panel may have become its owner while the copy was made.
func (m *Manager) regenerated(ctx context.Context, id ID, generation uint64) (metadata.Context, error) {
	unlock, err := m.openingOf(ctx, id)
	if err != nil {
		return metadata.Context{}, err
	}
	defer unlock()
	rec, err := m.find(ctx, id)
	if err != nil {
		return rec, err
	}
	rec.Generation = generation
	return rec, m.cfg.Store.Contexts().Update(ctx, rec)
}

// swap puts made in place of what the context is, when nobody is inside; generation is the new one.
func (m *Manager) swap(ctx context.Context, d driver.Driver, id ID, made, place string) (generation uint64, err error) {
	g, err := m.takeGate(ctx, id)
	if err != nil {
		return 0, err
	}
	if mounter, ok := d.(driver.Mounter); ok {
		err = m.hide(ctx, mounter, id, g)
	}
	if err == nil {
		err = unswappable(renameExchange(made, place))
	}
	if err != nil {
		m.giveBack(id, g)
		return 0, err
	}
	m.cfg.onPhase("swapped")
	m.evict(id, g)
	m.retire(id, g)
	return g.generation + 1, nil
}

func unswappable(err error) error {
	switch fserr.CodeOf(err) {
	case fserr.EINVAL, fserr.ENOSYS, fserr.EOPNOTSUPP:
		return &fserr.Error{
			Code: fserr.EOPNOTSUPP, Err: err, Detail: "the file system of the contexts directory cannot swap two folders in one step",
			Hint: "put it on another one (--contexts-dir)",
		}
	}
	return err
}

// DeleteSnapshot implements Admin.
func (m *Manager) DeleteSnapshot(ctx context.Context, id ID, name string) error {
	return m.onSnapshot(ctx, id, name, "has a snapshot that could not be deleted", func(_ context.Context, _ metadata.Context) error {
		return m.staged("trash", func(dir string) error {
			err := renameNoReplace(m.layout.Snapshot(id, name), filepath.Join(dir, "snapshot"))
			if errors.Is(err, os.ErrNotExist) {
				return noSnapshot(id, name)
			}
			return err
		})
	})
}

// dropSnapshots removes all snapshots at an ID, of a context that is gone.
func (m *Manager) dropSnapshots(id ID) error {
	if _, err := os.Lstat(m.layout.SnapshotsOf(id)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return m.staged("trash", func(dir string) error {
		return moveIfThere(m.layout.SnapshotsOf(id), filepath.Join(dir, "snapshots"))
	})
}
