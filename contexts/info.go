package contexts

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/metadata"
)

// State is a context's state.
type State string

// The states of a context.
const (
	StateMissing State = "missing"
	StateSeeding State = State(metadata.ContextSeeding)
	StateReady   State = State(metadata.ContextReady)
	StateFailed  State = State(metadata.ContextFailed)
)

// Info describes a context.
type Info struct {
	ID    ID
	State State
	// LastError is the reason for StateFailed.
	LastError string
	// Folder is the server path, for hosts only.
	Folder     string
	Driver     string
	Layer      string
	Generation uint64
	// Files and Bytes count what was seeded.
	Files, Bytes int64
	CreatedAt    time.Time
	// SeededIn is how long seeding took.
	SeededIn time.Duration
	// Panels lists the panels bound to it.
	Panels []string
	// OwnerPanel is the panel that the ID was derived from, "" if the ID was named explicitly or the panel is unknown.
	OwnerPanel string
	// Progress is set while State is StateSeeding in this process.
	Progress *Progress
	// Recovered means that the record was rebuilt from the folder.
	Recovered bool
	// ForkedFrom is the context that it is a copy of, "" for others.
	ForkedFrom ID
	// UsedAt is when it was last used, to a few minutes; zero if unknown.
	UsedAt time.Time
	// Labels are those that the host gave it. The map is not to be modified.
	Labels map[string]string
}

// Sizes is the space of a context on disk, in bytes. Extents that files share (reflinks) count for each file.
type Sizes struct {
	// Own is the space of the context alone, Snapshots that of its snapshots.
	Own, Snapshots int64
	// Shared is the part of its layer that it reads, as other contexts do, and what a fork or a snapshot has frozen of it.
	Shared int64
}

// info describes a record.
func (m *Manager) info(rec metadata.Context, state State) Info {
	return Info{
		ID: ID(rec.ID), State: state, LastError: rec.LastError, Folder: m.cat.Layout.Folder(ID(rec.ID)),
		Driver: rec.Driver, Layer: rec.Layer, Generation: rec.Generation, Files: rec.Files, Bytes: rec.Bytes,
		CreatedAt: rec.CreatedAt, SeededIn: rec.SeededIn, OwnerPanel: rec.OwnerPanel, Recovered: rec.Recovered,
		ForkedFrom: ID(rec.ForkedFrom), UsedAt: m.gates.LastUse(rec), Labels: rec.Labels,
	}
}

// Get describes a context; its state is StateMissing, and there is no error, if it does not exist. Get changes nothing.
func (m *Manager) Get(ctx context.Context, id ID) (Info, error) {
	if _, err := ParseID(string(id)); err != nil {
		return Info{}, err
	}
	rec, _, err := m.cat.Record(ctx, id)
	if err != nil {
		return Info{}, err
	}
	panels, err := m.cat.PanelsOf(ctx, id)
	if err != nil {
		return Info{}, err
	}
	return m.describe(id, rec, panels)
}

// describe finds a context's state in its folder, its record (which may be zero) and the seedings of this process.
func (m *Manager) describe(id ID, rec metadata.Context, panels []string) (Info, error) {
	there, err := m.cat.FolderState(id)
	if err != nil {
		return Info{}, err
	}
	if there && rec.ID == "" {
		rec = m.cat.DescribeFolder(id)
	}
	rec.ID = string(id)
	info := m.info(rec, StateMissing)
	info.Panels = panels
	progress := m.seeder.Flights.Progress(id)
	switch {
	case progress != nil:
		info.State, info.Progress = StateSeeding, progress
	case there:
		info.State, info.LastError = StateReady, ""
	case rec.State == metadata.ContextFailed:
		info.State = StateFailed
	case rec.State == metadata.ContextSeeding && m.cat.IsLocked(id):
		info.State = StateSeeding
	}
	return info, nil
}

// List describes all contexts, by ID.
func (m *Manager) List(ctx context.Context) ([]Info, error) {
	recs, err := m.cat.ByID(ctx)
	if err != nil {
		return nil, err
	}
	all, err := m.cat.Store.Panels().List(ctx)
	if err != nil {
		return nil, catalog.NotListed("the panels", err)
	}
	panels := map[ID][]string{}
	for _, p := range all {
		panels[ID(p.ContextID)] = append(panels[ID(p.ContextID)], p.ID)
	}
	ids, err := m.cat.IDs(recs)
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(ids))
	for _, id := range ids {
		info, err := m.describe(id, recs[id], panels[id])
		if err != nil {
			m.cat.Log.Debug("not listed", zap.String("context", string(id)), zap.Error(err))
			continue
		}
		if info.State != StateMissing {
			out = append(out, info)
		}
	}
	return out, nil
}

// Sizes measures a context on disk, which reads all its directories.
func (m *Manager) Sizes(ctx context.Context, id ID) (Sizes, error) {
	rec, err := m.gates.Existing(ctx, id)
	if err != nil {
		return Sizes{}, err
	}
	d, dir, err := m.cat.Drivers.Held(rec)
	if err != nil {
		return Sizes{}, err
	}
	var out Sizes
	if _, mounts := d.(driver.Mounter); mounts {
		out.Shared = rec.Bytes
	}
	parts, err := m.cat.Drivers.Parts(d, dir)
	for _, part := range parts {
		bytes, e := disk.Use(ctx, part)
		out.Shared, err = out.Shared+bytes, errors.Join(err, e)
	}
	if err == nil {
		out.Own, err = disk.Use(ctx, dir)
	}
	if err == nil {
		out.Snapshots, err = disk.Use(ctx, m.cat.Layout.SnapshotsOf(id))
	}
	if err != nil {
		return out, catalog.Wrap(id, "could not be measured", err)
	}
	return out, nil
}
