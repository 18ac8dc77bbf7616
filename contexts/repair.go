package contexts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// stoppedMidway is the last error of a context whose seeding a crash ended.
const stoppedMidway = "ctxfs stopped during the seeding"

// reconcile brings staging, records and layers in line with the folders, when no
// other process is at work on them.
func (m *Manager) reconcile(ctx context.Context) error {
	release, ok, err := m.locks.sweep()
	if err != nil || !ok {
		return err
	}
	defer release()
	m.locks.removeUnused()
	m.dropOrphans(ctx)
	if _, err := m.sweep(ctx); err != nil {
		return err
	}
	if err := m.settleRecords(ctx); err != nil {
		return err
	}
	if err := m.dropLeftSnapshots(ctx); err != nil {
		return err
	}
	return m.collect(ctx)
}

// dropLeftSnapshots removes the snapshots of contexts that are gone.
func (m *Manager) dropLeftSnapshots(ctx context.Context) error {
	left, err := m.leftSnapshots(ctx)
	for _, id := range left {
		err = errors.Join(err, m.dropSnapshots(id))
	}
	return err
}

// sweep empties staging. What cannot be removed is left and logged: it is in nobody's way.
func (m *Manager) sweep(ctx context.Context) (int, error) {
	entries, err := os.ReadDir(m.layout.Staging)
	if err != nil {
		return 0, &fserr.Error{Code: fserr.CodeOf(err), Detail: "staging could not be listed", Err: err}
	}
	n := 0
	for _, e := range entries {
		if e.Name() == "CACHEDIR.TAG" {
			continue
		}
		if err := m.removeStaged(ctx, e.Name()); err != nil {
			m.cfg.Log.Warn("staging could not be swept", zap.String("entry", e.Name()), zap.Error(err))
			continue
		}
		n++
	}
	return n, ctx.Err()
}

// settleRecords ends what a crash left in "seeding": with a folder it is ready,
// since the rename is the last step; without one the next access seeds anew. The
// record stays, for it keeps whom the ID belongs to.
func (m *Manager) settleRecords(ctx context.Context) error {
	recs, err := m.byID(ctx)
	if err != nil {
		return err
	}
	for id, rec := range recs {
		if rec.State == metadata.ContextReady {
			continue
		}
		there, err := m.folderState(id)
		switch {
		case err != nil:
			m.cfg.Log.Warn("a context is not usable", zap.String("context", string(id)), zap.Error(err))
			continue
		case there:
			_, err = m.settleRecord(ctx, rec)
		case rec.State == metadata.ContextSeeding:
			rec.State, rec.LastError = metadata.ContextFailed, stoppedMidway
			err = m.cfg.Store.Contexts().Update(ctx, rec)
		}
		if err != nil {
			return contextError(id, "could not be recorded", err)
		}
	}
	return nil
}

// collect removes layers that no context was made from, except the newest.
func (m *Manager) collect(ctx context.Context) error {
	m.dropSpares(ctx)
	keep, err := m.layersInUse(ctx)
	if err != nil {
		return err
	}
	unused, err := m.layers.Unused(keep)
	if err != nil {
		return err
	}
	for _, digest := range unused {
		if err := m.removeLayer(ctx, digest); err != nil {
			m.cfg.Log.Warn("a layer could not be removed", zap.String("layer", digest), zap.Error(err))
		}
	}
	return ctx.Err()
}

// removeLayer removes a layer that nobody uses.
func (m *Manager) removeLayer(ctx context.Context, digest string) error {
	if err := m.layers.Remove(ctx, digest); err != nil {
		return err
	}
	if err := m.cfg.Store.Layers().Delete(ctx, digest); err != nil {
		m.cfg.Log.Debug("a removed layer had no record", zap.String("layer", digest), zap.Error(err))
	}
	return nil
}

// layersInUse asks the records, and the manifests of folders without one: after a lost
// database a layer is still some context's base.
func (m *Manager) layersInUse(ctx context.Context) (map[string]bool, error) {
	recs, err := m.byID(ctx)
	if err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for _, rec := range recs {
		keep[rec.Layer] = true
	}
	entries, err := os.ReadDir(m.layout.Manifests)
	if err != nil {
		return nil, &fserr.Error{Code: fserr.CodeOf(err), Detail: "the manifests could not be listed", Err: err}
	}
	for _, e := range entries {
		if rec, ok := recs[ID(e.Name())]; ok && rec.Layer != "" {
			continue
		}
		if _, digest, err := seed.Inspect(filepath.Join(m.layout.Manifests, e.Name())); err == nil {
			keep[digest] = true
		}
	}
	return keep, nil
}

// Repair rebuilds the records of folders that have none, drops records without
// folder (with their panels), and says what the folders could not tell. It
// refuses (EAGAIN) while another process seeds or deletes.
func (m *Manager) Repair(ctx context.Context) (RepairReport, error) {
	var r RepairReport
	defer m.pool.halt()()
	release, ok, err := m.locks.sweep()
	if err != nil {
		return r, err
	}
	if !ok {
		return r, &fserr.Error{Code: fserr.EAGAIN, Detail: "contexts are being seeded or deleted", Hint: "retry when that has ended", RetryAfter: retryAfter}
	}
	defer release()
	if r.Swept, err = m.sweep(ctx); err != nil {
		return r, err
	}
	recs, err := m.byID(ctx)
	if err != nil {
		return r, err
	}
	if err := m.recoverFolders(ctx, recs, &r); err != nil {
		return r, err
	}
	if err := m.dropRecords(ctx, recs, &r); err != nil {
		return r, err
	}
	if err := m.settleRecords(ctx); err != nil {
		return r, err
	}
	return r, m.collect(ctx)
}

func (m *Manager) recoverFolders(ctx context.Context, recs map[ID]metadata.Context, r *RepairReport) error {
	names, err := m.names()
	if err != nil {
		return err
	}
	m.opening.Lock()
	defer m.opening.Unlock()
	for _, name := range names {
		id := ID(name)
		if _, ok := recs[id]; ok || strings.HasPrefix(name, ".") {
			continue
		}
		if _, err := ParseID(name); err != nil {
			r.Ignored = append(r.Ignored, name)
			continue
		}
		if there, err := m.folderState(id); err != nil || !there {
			r.Ignored = append(r.Ignored, name)
			continue
		}
		rec, err := m.recover(ctx, id)
		if err != nil {
			r.Ignored = append(r.Ignored, name)
			r.Unknown = append(r.Unknown, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		r.Recovered = append(r.Recovered, id)
		r.Unknown = append(r.Unknown, unknownOf(rec)...)
	}
	return nil
}

// unknownOf says what a folder does not tell of its context.
func unknownOf(rec metadata.Context) []string {
	out := []string{fmt.Sprintf("%s: which panels were bound to it (their tokens are gone; the first panel whose ID leads to it becomes its owner)%s",
		rec.ID, ambiguity(rec.ID))}
	if rec.Layer == "" {
		out = append(out, rec.ID+": what it was seeded from, if anything")
	}
	return out
}

// ambiguity tells when the owner's ID cannot be derived back: "~" stands for "/", ":" or itself.
func ambiguity(id string) string {
	if strings.Contains(id, "~") {
		return "; its name does not tell whether '~' was '/', ':' or '~'"
	}
	return ""
}

func (m *Manager) dropRecords(ctx context.Context, recs map[ID]metadata.Context, r *RepairReport) error {
	for id := range recs {
		there, err := m.folderState(id)
		if err != nil || there || m.flightOf(id) != nil {
			continue
		}
		if err := m.forget(ctx, id); err != nil {
			return err
		}
		r.Dropped = append(r.Dropped, id)
	}
	slices.Sort(r.Dropped)
	return nil
}
