package contexts

import (
	"context"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// info describes a record.
func (m *Manager) info(rec metadata.Context, state State) Info {
	return Info{
		ID: ID(rec.ID), State: state, LastError: rec.LastError, Folder: m.layout.Folder(ID(rec.ID)),
		Driver: rec.Driver, Layer: rec.Layer, Generation: rec.Generation, Files: rec.Files, Bytes: rec.Bytes,
		CreatedAt: rec.CreatedAt, SeededIn: rec.SeededIn, OwnerPanel: rec.OwnerPanel, Recovered: rec.Recovered,
		ForkedFrom: ID(rec.ForkedFrom), UsedAt: m.lastUse(rec),
	}
}

// Get implements Admin.
func (m *Manager) Get(ctx context.Context, id ID) (Info, error) {
	if _, err := ParseID(string(id)); err != nil {
		return Info{}, err
	}
	rec, _, err := m.record(ctx, id)
	if err != nil {
		return Info{}, err
	}
	panels, err := m.panelsOf(ctx, id)
	if err != nil {
		return Info{}, err
	}
	return m.describe(id, rec, panels)
}

// describe tells a context's state from its folder, its record (which may be
// zero) and the seedings of this process.
func (m *Manager) describe(id ID, rec metadata.Context, panels []string) (Info, error) {
	there, err := m.folderState(id)
	if err != nil {
		return Info{}, err
	}
	if there && rec.ID == "" {
		rec = m.describeFolder(id)
	}
	rec.ID = string(id)
	info := m.info(rec, StateMissing)
	info.Panels = panels
	f := m.flightOf(id)
	switch {
	case f != nil:
		p := f.snapshot()
		info.State, info.Progress = StateSeeding, &p
	case there:
		info.State, info.LastError = StateReady, ""
	case rec.State == metadata.ContextFailed:
		info.State = StateFailed
	case rec.State == metadata.ContextSeeding && m.locks.busy(id):
		info.State = StateSeeding
	}
	return info, nil
}

// panelsOf lists the panels bound to a context.
func (m *Manager) panelsOf(ctx context.Context, id ID) ([]string, error) {
	recs, err := m.cfg.Store.Panels().OfContext(ctx, string(id))
	if err != nil {
		return nil, panelsNotListed(err)
	}
	return byContext(recs)[id], nil
}

func panelsNotListed(err error) error {
	return &fserr.Error{Code: fserr.CodeOf(err), Detail: "the panels could not be listed", Err: err}
}

// byContext returns the IDs of panels by their context.
func byContext(recs []metadata.Panel) map[ID][]string {
	out := map[ID][]string{}
	for _, p := range recs {
		out[ID(p.ContextID)] = append(out[ID(p.ContextID)], p.ID)
	}
	return out
}

// List implements Admin.
func (m *Manager) List(ctx context.Context) ([]Info, error) {
	recs, err := m.byID(ctx)
	if err != nil {
		return nil, err
	}
	all, err := m.cfg.Store.Panels().List(ctx)
	if err != nil {
		return nil, panelsNotListed(err)
	}
	panels := byContext(all)
	ids, err := m.allIDs(recs)
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(ids))
	for _, id := range ids {
		info, err := m.describe(id, recs[id], panels[id])
		if err != nil {
			m.cfg.Log.Debug("not listed", zap.String("context", string(id)), zap.Error(err))
			continue
		}
		if info.State != StateMissing {
			out = append(out, info)
		}
	}
	return out, nil
}

func (m *Manager) byID(ctx context.Context) (map[ID]metadata.Context, error) {
	recs, err := m.cfg.Store.Contexts().List(ctx)
	if err != nil {
		return nil, &fserr.Error{Code: fserr.CodeOf(err), Detail: "the records of contexts could not be listed", Err: err}
	}
	out := make(map[ID]metadata.Context, len(recs))
	for _, r := range recs {
		out[ID(r.ID)] = r
	}
	return out, nil
}

// allIDs lists the IDs that have a record or a folder, sorted.
func (m *Manager) allIDs(recs map[ID]metadata.Context) ([]ID, error) {
	names, err := m.names()
	if err != nil {
		return nil, err
	}
	var out []ID
	for id := range recs {
		out = append(out, id)
	}
	for _, name := range names {
		if _, ok := recs[ID(name)]; ok {
			continue
		}
		if _, err := ParseID(name); err == nil {
			out = append(out, ID(name))
		}
	}
	slices.Sort(out)
	return out, nil
}

// PlanSeed implements Admin.
func (m *Manager) PlanSeed(ctx context.Context, opts PlanOptions) (Plan, error) {
	return PlanSeed(ctx, m.source, m.cfg.Seed, opts)
}

// PlanSeed says what seeding a context from a workspace now would copy. It needs no Manager and changes nothing.
func PlanSeed(ctx context.Context, source seed.Source, settings seed.Options, opts PlanOptions) (Plan, error) {
	scan, err := seed.Walk(ctx, source, settings, nil)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Files: scan.Files, Bytes: scan.Bytes}
	for _, r := range seed.Describe(ctx, source, scan.Repos) {
		p.Repositories = append(p.Repositories, Repository(r))
	}
	if opts.Largest <= 0 {
		opts.Largest = 10
	}
	for _, d := range scan.Dirs[:min(opts.Largest, len(scan.Dirs))] {
		p.Largest = append(p.Largest, DirSize(d))
	}
	for _, s := range scan.Skipped {
		p.Skipped = append(p.Skipped, Skipped(s))
	}
	if err := seed.Guard(scan, settings); err != nil {
		p.TooLarge = strings.TrimPrefix(err.Error(), fserr.EFBIG.String()+": ")
	}
	return p, nil
}
