package lifecycle

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

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata"
)

// Snapshot is a copy of a context at some time. It is a directory
//
//	<snapshots>/<context>/<name>/{data/,snapshot.json}
//
// The context's driver makes contexts from its data. It is made in staging and renamed, so one that has its name is complete.
type Snapshot struct {
	Name    string
	TakenAt time.Time
	// Bytes is its space on disk; extents that files share count for each, and what it shares with its context (driver.Sharer) does not.
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

// NoSnapshot (ENOENT): a context has no snapshot of a name.
func NoSnapshot(id catalog.ID, name string) error {
	return &fserr.Error{
		Code: fserr.ENOENT, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' has no snapshot %q", id, name),
		Hint: "ListSnapshots lists them",
	}
}

// snapshots keeps copies of contexts, and restores them.
type snapshots struct{ *changes }

// Snapshot takes a snapshot of a context.
func (s *snapshots) Snapshot(ctx context.Context, id catalog.ID, name string) (Snapshot, error) {
	var out snapshotRecord
	asked, done := s.points.request(id)
	defer done()
	err := s.with(ctx, s.lock, id, name, "could not be kept as a snapshot", func(ctx context.Context, rec metadata.Context) (err error) {
		out, err = s.take(ctx, rec, name, asked)
		return err
	})
	return out.snapshot(), err
}

// with calls f with the record of a context that is ready, and whose lock is held.
func (s *snapshots) with(ctx context.Context, lock func(context.Context, ...catalog.ID) (func(), error), id catalog.ID, name, what string, f func(ctx context.Context, rec metadata.Context) error) error {
	if err := checkSnapshotName(name); err != nil {
		return err
	}
	ctx, ended, err := s.life.Begin(ctx, id)
	if err != nil {
		return err
	}
	defer ended()
	unlock, err := lock(ctx, id)
	if err != nil {
		return catalog.Wrap(id, what, err)
	}
	defer unlock()
	rec, err := s.withFolder(ctx, id)
	if err != nil {
		return err
	}
	if err := f(ctx, rec); err != nil {
		return catalog.Wrap(id, what, err)
	}
	return nil
}

// withFolder returns the record of a context that can have snapshots.
func (s *snapshots) withFolder(ctx context.Context, id catalog.ID) (metadata.Context, error) {
	rec, err := s.gates.Existing(ctx, id)
	if err == nil {
		err = s.cat.OwnFolder(id, "direct zones are directories that other programs use, and have no snapshots")
	}
	return rec, err
}

func (r snapshotRecord) snapshot() Snapshot {
	return Snapshot{Name: r.Name, TakenAt: r.TakenAt, Bytes: r.Bytes}
}

func (s *snapshots) take(ctx context.Context, rec metadata.Context, name string, asked uint64) (snapshotRecord, error) {
	id := catalog.ID(rec.ID)
	out := snapshotRecord{Format: snapshotFormat, Name: name, Driver: rec.Driver}
	if err := s.free(id, name); err != nil {
		return out, err
	}
	return out, s.cat.Staging.With("snapshot", func(dir string) error {
		data := filepath.Join(dir, snapshotData)
		err := s.copyOf(ctx, rec, data, asked)
		if err != nil {
			return err
		}
		out.TakenAt = s.cat.Now().UTC()
		if out.Bytes, err = disk.Use(ctx, data); err != nil {
			return err
		}
		text, err := json.Marshal(out)
		if err == nil {
			err = statedir.WriteFile(filepath.Join(dir, snapshotFile), append(text, '\n'), 0o600)
		}
		if err == nil {
			err = durable.MkdirAll(s.cat.Layout.SnapshotsOf(id), 0o700)
		}
		if err == nil {
			s.carryMarks(ctx, rec, data)
			err = s.cat.Events.Copied(rec.ID, copyName(id, name), "")
		}
		if err != nil {
			return err
		}
		of := s.cat.Layout.SnapshotsOf(id)
		if err := durable.Tree(dir); err != nil {
			return err
		}
		s.cat.Events.Step("snapshot-made")
		if err := disk.RenameNoReplace(dir, s.cat.Layout.Snapshot(id, name)); err != nil {
			return err
		}
		return durable.Names(of)
	})
}

// free fails with EEXIST if a name is taken; names that differ only by case count as one.
func (s *snapshots) free(id catalog.ID, name string) error {
	names, err := s.names(id)
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

func (s *snapshots) names(id catalog.ID) ([]string, error) {
	entries, err := os.ReadDir(s.cat.Layout.SnapshotsOf(id))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// ListSnapshots lists the snapshots of a context, oldest first.
func (s *snapshots) ListSnapshots(ctx context.Context, id catalog.ID) ([]Snapshot, error) {
	if _, err := s.gates.Existing(ctx, id); err != nil {
		return nil, err
	}
	names, err := s.names(id)
	if err != nil {
		return nil, catalog.Wrap(id, "has snapshots that could not be listed", err)
	}
	out := make([]Snapshot, 0, len(names))
	for _, name := range names {
		r, err := s.read(id, name)
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

func (s *snapshots) read(id catalog.ID, name string) (snapshotRecord, error) {
	r, err := readSnapshot(s.cat.Layout.Snapshot(id, name))
	if errors.Is(err, os.ErrNotExist) {
		return r, NoSnapshot(id, name)
	}
	if err != nil {
		return r, catalog.Wrap(id, "has a snapshot that could not be read", err)
	}
	r.Name = name
	return r, nil
}

// readSnapshot reads the record of the snapshot in dir.
func readSnapshot(dir string) (r snapshotRecord, err error) {
	data, err := statedir.ReadFile(filepath.Join(dir, snapshotFile), statedir.MaxRecord)
	if err == nil && (json.Unmarshal(data, &r) != nil || r.Format != snapshotFormat) {
		err = &fserr.Error{
			Code: fserr.EIO, Kind: fserr.KindContext,
			Detail: fmt.Sprintf("snapshot %q of context '%s' is damaged, or of a newer ctxfs", filepath.Base(dir), filepath.Base(filepath.Dir(dir))),
		}
	}
	return r, err
}

// Stored is a snapshot on disk.
type Stored struct {
	// Driver can make a context from Data.
	Driver  string
	Data    string
	TakenAt time.Time
	check   func() error
}

// Check fails with ENOENT if the snapshot was deleted since FindSnapshot returned it: what was read of it may then be a part of it.
func (s Stored) Check() error { return s.check() }

// FindSnapshot returns a snapshot of a context that exists.
func (s *snapshots) FindSnapshot(id catalog.ID, name string) (Stored, error) {
	if err := checkSnapshotName(name); err != nil {
		return Stored{}, err
	}
	r, err := s.read(id, name)
	check := func() error {
		now, err := s.read(id, name)
		if err == nil && now != r {
			err = NoSnapshot(id, name)
		}
		return err
	}
	return Stored{Driver: r.Driver, Data: filepath.Join(s.cat.Layout.Snapshot(id, name), snapshotData), TakenAt: r.TakenAt, check: check}, err
}

// Restore replaces the content of a context by a snapshot, and returns its new record.
func (s *snapshots) Restore(ctx context.Context, id catalog.ID, name string, unless Unless) (metadata.Context, error) {
	var out metadata.Context
	err := checkSnapshotName(name)
	if err == nil {
		_, err = s.withFolder(ctx, id)
	}
	if err == nil {
		_, err = s.read(id, name)
	}
	if err == nil {
		err = s.ask(ctx, id, unless)
	}
	if err == nil {
		soon := func(ctx context.Context, _ ...catalog.ID) (func(), error) { return s.lockSoon(ctx, id) }
		err = s.with(ctx, soon, id, name, "could not be restored", func(ctx context.Context, rec metadata.Context) (err error) {
			out, err = s.restore(ctx, rec, name, unless)
			return err
		})
	}
	if err != nil {
		return metadata.Context{}, err
	}
	s.cat.Log.Info("context restored", zap.String("context", string(id)), zap.String("snapshot", name))
	s.show(ctx, out)
	return out, nil
}

// restore copies the snapshot while the context is still in use, then swaps both.
func (s *snapshots) restore(ctx context.Context, rec metadata.Context, name string, unless Unless) (metadata.Context, error) {
	id := catalog.ID(rec.ID)
	snapshot, err := s.read(id, name)
	if err != nil {
		return rec, err
	}
	d, place, err := s.cat.Drivers.Held(rec)
	if err != nil {
		return rec, err
	}
	if snapshot.Driver != d.Name() {
		return rec, &fserr.Error{Code: fserr.EIO, Detail: fmt.Sprintf("the snapshot is of the driver %q, the context of %q", snapshot.Driver, d.Name())}
	}
	data := filepath.Join(s.cat.Layout.Snapshot(id, name), snapshotData)
	if err := s.room(ctx, id, data); err != nil {
		return rec, err
	}
	var generation uint64
	err = s.cat.Staging.With("restore", func(dir string) error {
		made := filepath.Join(dir, "folder")
		if err := s.duplicate(ctx, id, d, data, made, nil); err != nil {
			return err
		}
		s.carryMarksOf(ctx, id, d, data, seed.MarksFile(data), made)
		if err := durable.Tree(made); err != nil {
			return err
		}
		s.cat.Events.Step("restoring")
		generation, err = s.swap(ctx, d, id, name, made, place, unless)
		return err
	})
	if err != nil {
		return rec, err
	}
	return s.regenerated(context.WithoutCancel(ctx), id, generation)
}

// regenerated records a context's new generation. Its first panel may have become its owner while the copy was made.
func (s *snapshots) regenerated(ctx context.Context, id catalog.ID, generation uint64) (metadata.Context, error) {
	unlock, err := s.gates.Opening(ctx, id)
	if err != nil {
		return metadata.Context{}, err
	}
	defer unlock()
	rec, err := s.cat.Find(ctx, id)
	if err != nil {
		return rec, err
	}
	rec.Generation = generation
	s.gates.Opened(id) // the restored content is not idle
	return rec, s.cat.Store.Contexts().Update(ctx, rec)
}

// swap exchanges a staged copy and the context, once the operations inside the context have ended. It returns the new generation.
func (s *snapshots) swap(ctx context.Context, d driver.Driver, id catalog.ID, name, made, place string, unless Unless) (generation uint64, err error) {
	taken, err := s.gates.Take(ctx, id)
	if err != nil {
		return 0, err
	}
	if unless != nil {
		err = taken.Ask(ctx, unless)
	}
	if mounter, ok := d.(driver.Mounter); ok && err == nil {
		err = taken.Hide(ctx, mounter)
	}
	if err == nil {
		err = unswappable(disk.Exchange(made, place))
	}
	if err == nil {
		if err = durable.Names(filepath.Dir(place), filepath.Dir(made)); err != nil {
			err = errors.Join(err, disk.Exchange(made, place))
		}
	}
	if err == nil {
		if err = s.cat.Events.Copied(copyName(id, name), string(id), seed.MarksFile(made)); err != nil {
			err = errors.Join(err, disk.Exchange(made, place))
		}
	}
	if err != nil {
		taken.GiveBack()
		return 0, err
	}
	s.cat.Events.Step("swapped")
	taken.Evict()
	taken.Retire()
	return taken.Generation() + 1, nil
}

// copyName names a snapshot for Events.Copied.
func copyName(id catalog.ID, snapshot string) string { return string(id) + "@" + snapshot }

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

// DeleteSnapshot removes a snapshot.
func (s *snapshots) DeleteSnapshot(ctx context.Context, id catalog.ID, name string) error {
	err := s.with(ctx, s.lock, id, name, "has a snapshot that could not be deleted", func(context.Context, metadata.Context) error {
		return s.cat.Staging.With("trash", func(dir string) error {
			err := disk.RenameNoReplace(s.cat.Layout.Snapshot(id, name), filepath.Join(dir, "snapshot"))
			if errors.Is(err, os.ErrNotExist) {
				return NoSnapshot(id, name)
			}
			if err == nil {
				err = durable.Names(s.cat.Layout.SnapshotsOf(id))
			}
			if err == nil { // before its files go
				s.cat.Events.SnapshotDeleted(id, name)
				s.gates.Views.Drop(func(k gate.Kept) bool { return k.Context == id && k.Name == name })
			}
			return err
		})
	})
	if err == nil {
		s.dropParts(ctx)
	}
	return err
}
