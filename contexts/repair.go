package contexts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// stoppedMidway is the last error of a context whose seeding a crash ended.
const stoppedMidway = "ctxfs stopped during the seeding"

// reconcile brings staging, records and layers in line with the folders, unless another process is at work on them.
// What nothing refers to is out of the way when it returns; it is removed in the background, until Close.
func (m *Manager) reconcile(ctx context.Context) error {
	release, ok, err := m.locks.sweep()
	if err != nil || !ok {
		return err
	}
	swept := m.sweep(ctx)
	err = m.settleRecords(ctx)
	release()
	m.wg.Go(func() { swept.clear(m.ctx) })
	if err != nil {
		return err
	}
	swept.mounts(ctx)
	swept.checks(ctx)
	return ctx.Err()
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

// forgetLayer removes the record of a layer that was removed.
func (m *Manager) forgetLayer(ctx context.Context, digest string) {
	if err := m.cfg.Store.Layers().Delete(ctx, digest); err != nil {
		m.cfg.Log.Debug("a removed layer had no record", zap.String("layer", digest), zap.Error(err))
	}
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
	resume, err := m.pool.halt(ctx)
	if err != nil {
		return r, err
	}
	defer resume()
	release, ok, err := m.locks.sweep()
	if err != nil {
		return r, err
	}
	if !ok {
		return r, &fserr.Error{Code: fserr.EAGAIN, Detail: "contexts are being seeded or deleted", Hint: "retry when that has ended", RetryAfter: retryAfter}
	}
	swept, err := m.repair(ctx, &r)
	release()
	if err != nil {
		return r, err
	}
	swept.clear(ctx)
	swept.mounts(ctx)
	swept.checks(ctx)
	for _, g := range swept.found {
		if g.Kind == GarbageStaging && g.Err == nil {
			r.Swept++
		}
	}
	return r, ctx.Err()
}

// repair does what the work lock is needed for, and gathers what nothing refers to then.
func (m *Manager) repair(ctx context.Context, r *RepairReport) (*collection, error) {
	recs, err := m.byID(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.recoverFolders(ctx, recs, r); err != nil {
		return nil, err
	}
	if err := m.dropRecords(ctx, recs, r); err != nil {
		return nil, err
	}
	if err := m.settleRecords(ctx); err != nil {
		return nil, err
	}
	if err := m.acceptLost(ctx, r); err != nil {
		return nil, err
	}
	return m.sweep(ctx), nil
}

// LostState is a context, or a snapshot of one, that came back from a backup without its extended attributes.
type LostState struct {
	// Name is the context's ID, with the snapshot's name if it is one.
	Name string
	// context is the folder at which it may be mounted, "" for a snapshot's.
	context ID
	dir     string
	driver  driver.Mounter
}

// LostStates lists what drivers keep in l that is lost (driver.Mounter.Lost). It changes nothing.
func LostStates(l Layout, mounters []driver.Mounter) []LostState {
	var out []LostState
	add := func(d driver.Mounter, name string, id ID, dir string) {
		if d.Lost(dir) {
			out = append(out, LostState{Name: name, context: id, dir: dir, driver: d})
		}
	}
	for _, d := range mounters {
		for _, id := range idsIn(l.DriverState(d.Name(), "")) {
			add(d, string(id), id, l.DriverState(d.Name(), id))
		}
		for _, id := range idsIn(l.Snapshots) {
			entries, _ := os.ReadDir(l.SnapshotsOf(id)) // what cannot be listed cannot be told
			for _, e := range entries {
				var r snapshotRecord
				dir := l.Snapshot(id, e.Name())
				data, err := os.ReadFile(filepath.Join(dir, snapshotFile))
				if err == nil && json.Unmarshal(data, &r) == nil && r.Driver == d.Name() {
					add(d, fmt.Sprintf("snapshot %s of %s", e.Name(), id), "", filepath.Join(dir, snapshotData))
				}
			}
		}
	}
	return out
}

// idsIn lists the entries of a directory that are named after contexts.
func idsIn(dir string) []ID {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // nothing was made there
	}
	var ids []ID
	for _, e := range entries {
		if _, err := ParseID(e.Name()); err == nil && e.IsDir() {
			ids = append(ids, ID(e.Name()))
		}
	}
	return ids
}

// acceptLost makes what is lost usable as it is.
func (m *Manager) acceptLost(ctx context.Context, r *RepairReport) error {
	for _, s := range LostStates(m.layout, m.mounters()) {
		mounted, err := s.driver.Mounts(m.layout.Dir)
		if err != nil {
			return err
		}
		if s.context != "" && slices.Contains(mounted, string(s.context)) {
			r.Unknown = append(r.Unknown, s.Name+" lost its extended attributes, and is mounted: unmount it and repair again")
			continue
		}
		if err := s.driver.Accept(ctx, s.dir); err != nil {
			return contextError(s.context, "could not be repaired", err)
		}
		r.Accepted = append(r.Accepted, s.Name)
	}
	return nil
}

func (m *Manager) recoverFolders(ctx context.Context, recs map[ID]metadata.Context, r *RepairReport) error {
	names, err := m.names()
	if err != nil {
		return err
	}
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
		rec, err := m.existing(ctx, id)
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
