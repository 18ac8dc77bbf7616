package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata"
)

// RepairReport is the result of Repair.
type RepairReport struct {
	// Recovered lists contexts whose record was rebuilt from the folder.
	Recovered []catalog.ID
	// Dropped lists records without a folder.
	Dropped []catalog.ID
	// Accepted names contexts and snapshots that came back from a backup without their extended attributes, and are used as
	// they are: directories that were renamed lack the files that were not changed in them, and directories that replaced
	// others show the files of those too.
	Accepted []string
	// GaveUp has a sentence for each context whose interrupted batch could not be undone, and is left half made.
	GaveUp []string
	// Swept counts the entries of unfinished seedings that were removed.
	Swept int
	// Ignored lists names in the contexts directory that are no contexts.
	Ignored []string
	// Unknown has a sentence for each fact that the folders do not show.
	Unknown []string
}

// repairs brings records, layers and staging in line with the folders.
type repairs struct {
	*changes
	collector *collector
}

// stoppedMidway is the last error of a context whose seeding a crash ended.
const stoppedMidway = "ctxfs stopped during the seeding"

// Reconcile repairs what a crash left, unless another process is making or deleting contexts. When it returns, garbage is out of
// the way; it is removed in the background until the server stops.
func (p *repairs) Reconcile(ctx context.Context) error {
	release, ok, err := p.cat.Locks.TryAlone(catalog.WorkLock)
	if err != nil || !ok {
		return err
	}
	swept := p.collector.sweep(ctx)
	err = p.settleRecords(ctx)
	release()
	p.life.Go(func() { swept.clear(p.life.Context) })
	if err != nil {
		return err
	}
	swept.mounts(ctx)
	swept.checks(ctx)
	return ctx.Err()
}

// settleRecords ends the seedings that a crash interrupted. With a folder the context is ready, since the rename is the last
// step; without one the next access seeds anew. The record stays, because it names the owner of the ID.
func (p *repairs) settleRecords(ctx context.Context) error {
	recs, err := p.cat.ByID(ctx)
	if err != nil {
		return err
	}
	for id, rec := range recs {
		if rec.State == metadata.ContextReady {
			continue
		}
		there, err := p.cat.FolderState(id)
		switch {
		case err != nil:
			p.cat.Log.Warn("a context is not usable", zap.String("context", string(id)), zap.Error(err))
			continue
		case there:
			_, err = p.cat.Settle(ctx, rec)
		case rec.State == metadata.ContextSeeding:
			rec.State, rec.LastError = metadata.ContextFailed, stoppedMidway
			err = p.cat.Store.Contexts().Update(ctx, rec)
		}
		if err != nil {
			return catalog.Wrap(id, "could not be recorded", err)
		}
	}
	return nil
}

// Repair rebuilds the records of folders that have none, drops records without folder (with their panels), and reports what the
// folders do not show. It fails with EAGAIN while another process seeds or deletes.
func (p *repairs) Repair(ctx context.Context) (RepairReport, error) {
	var r RepairReport
	resume, err := p.seeder.Pool.Halt(ctx)
	if err != nil {
		return r, err
	}
	defer resume()
	release, ok, err := p.cat.Locks.TryAlone(catalog.WorkLock)
	if err != nil {
		return r, err
	}
	if !ok {
		return r, &fserr.Error{
			Code: fserr.EAGAIN, Detail: "contexts are being seeded or deleted", Hint: "retry when that has ended", RetryAfter: catalog.RetryAfter,
		}
	}
	swept, err := p.repair(ctx, &r)
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

// repair does what needs the work lock, and gathers the garbage.
func (p *repairs) repair(ctx context.Context, r *RepairReport) (*collection, error) {
	recs, err := p.cat.ByID(ctx)
	if err != nil {
		return nil, err
	}
	corrected, err := p.cat.CorrectRecords(ctx, recs)
	if r.Recovered = append(r.Recovered, corrected...); err != nil {
		return nil, err
	}
	if err := p.recoverFolders(ctx, recs, r); err != nil {
		return nil, err
	}
	if err := p.dropRecords(ctx, recs, r); err != nil {
		return nil, err
	}
	if err := p.settleRecords(ctx); err != nil {
		return nil, err
	}
	if err := p.acceptLost(ctx, r); err != nil {
		return nil, err
	}
	p.giveUpBatches(ctx, r)
	return p.collector.sweep(ctx), nil
}

// giveUpBatches ends the interrupted batches that cannot be undone.
func (p *repairs) giveUpBatches(ctx context.Context, r *RepairReport) {
	for _, id := range idsIn(p.cat.Layout.Batches) {
		kept, ended, err := p.gates.GiveUpBatch(ctx, id)
		switch {
		case err != nil:
			r.Unknown = append(r.Unknown, fmt.Sprintf("%s: %v", id, err))
		case ended && len(kept) > 0:
			r.GaveUp = append(r.GaveUp, fmt.Sprintf("%s has a batch that is half made; what could not be put back is in %s", id, strings.Join(kept, ", ")))
		case ended:
			r.GaveUp = append(r.GaveUp, fmt.Sprintf("%s has a batch that is half made", id))
		}
	}
}

func (p *repairs) recoverFolders(ctx context.Context, recs map[catalog.ID]metadata.Context, r *RepairReport) error {
	names, err := p.cat.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		id := catalog.ID(name)
		if _, ok := recs[id]; ok || strings.HasPrefix(name, ".") {
			continue
		}
		if _, err := catalog.ParseID(name); err != nil {
			r.Ignored = append(r.Ignored, name)
			continue
		}
		if there, err := p.cat.FolderState(id); err != nil || !there {
			r.Ignored = append(r.Ignored, name)
			continue
		}
		rec, err := p.gates.Existing(ctx, id)
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

// unknownOf lists the facts about a context that its folder does not show.
func unknownOf(rec metadata.Context) []string {
	out := []string{fmt.Sprintf("%s: which panels were bound to it (their tokens are gone; the first panel whose ID leads to it becomes its owner)%s",
		rec.ID, ambiguity(rec.ID))}
	if rec.Layer == "" {
		out = append(out, rec.ID+": what it was seeded from, if anything")
	}
	return out
}

// ambiguity says that the owner's ID cannot be derived back: "~" stands for "/", ":" or itself.
func ambiguity(id string) string {
	if strings.Contains(id, "~") {
		return "; its name does not tell whether '~' was '/', ':' or '~'"
	}
	return ""
}

func (p *repairs) dropRecords(ctx context.Context, recs map[catalog.ID]metadata.Context, r *RepairReport) error {
	for id := range recs {
		there, err := p.cat.FolderState(id)
		if err != nil || there || p.seeder.Flights.Progress(id) != nil {
			continue
		}
		if err := p.forget(ctx, id); err != nil {
			return err
		}
		r.Dropped = append(r.Dropped, id)
	}
	slices.Sort(r.Dropped)
	return nil
}

// lostState is a context, or a snapshot of one, that came back from a backup without its extended attributes.
type lostState struct {
	// name is the context's ID, with the snapshot's name if it is one.
	name string
	// context is the context that may be mounted, "" for a snapshot.
	context catalog.ID
	dir     string
	driver  driver.Mounter
}

// LostStates names the contexts and snapshots in l that have lost their extended attributes. It changes nothing.
func LostStates(l catalog.Layout, mounters ...driver.Mounter) []string {
	var names []string
	for _, s := range lostStates(l, mounters) {
		names = append(names, s.name)
	}
	return names
}

// lostStates lists the states in l that have lost their extended attributes (driver.Mounter.Lost).
func lostStates(l catalog.Layout, mounters []driver.Mounter) []lostState {
	var out []lostState
	add := func(d driver.Mounter, name string, id catalog.ID, dir string) {
		if d.Lost(dir) {
			out = append(out, lostState{name: name, context: id, dir: dir, driver: d})
		}
	}
	for _, d := range mounters {
		for _, id := range idsIn(l.DriverState(d.Name(), "")) {
			add(d, string(id), id, l.DriverState(d.Name(), id))
		}
		for _, id := range idsIn(l.Snapshots) {
			entries, _ := os.ReadDir(l.SnapshotsOf(id)) // a directory that cannot be listed is skipped
			for _, e := range entries {
				var r snapshotRecord
				dir := l.Snapshot(id, e.Name())
				data, err := statedir.ReadFile(filepath.Join(dir, snapshotFile), statedir.MaxRecord)
				if err == nil && json.Unmarshal(data, &r) == nil && r.Driver == d.Name() {
					add(d, fmt.Sprintf("snapshot %s of %s", e.Name(), id), "", filepath.Join(dir, snapshotData))
				}
			}
		}
	}
	return out
}

// WithoutLayers names the contexts in l that were seeded with a layer that is missing. Such a context cannot be reviewed, since nothing says what it changed.
func WithoutLayers(l catalog.Layout) []string {
	var names []string
	entries, _ := os.ReadDir(l.Manifests) // nothing was seeded
	layers := layer.New(l.Layers, nil)
	digests := map[disk.Inode]string{}
	for _, e := range entries {
		if _, err := catalog.ParseID(e.Name()); err != nil {
			continue
		}
		if digest, err := digestIn(l.Manifest(catalog.ID(e.Name())), digests); err == nil && !layers.Has(digest) {
			names = append(names, e.Name())
		}
	}
	return names
}

// digestIn returns the digest of the layer that a manifest is of. Contexts of one layer share the file of their manifest, which is read once.
func digestIn(file string, known map[disk.Inode]string) (digest string, err error) {
	st, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	inode, ok := disk.InodeOf(st)
	if digest = known[inode]; ok && digest != "" {
		return digest, nil
	}
	if _, digest, err = seed.Inspect(file); err == nil && ok {
		known[inode] = digest
	}
	return digest, err
}

// idsIn lists the entries of a directory that are named after contexts.
func idsIn(dir string) []catalog.ID {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // nothing was made there
	}
	var ids []catalog.ID
	for _, e := range entries {
		if _, err := catalog.ParseID(e.Name()); err == nil && e.IsDir() {
			ids = append(ids, catalog.ID(e.Name()))
		}
	}
	return ids
}

// acceptLost makes lost states usable as they are.
func (p *repairs) acceptLost(ctx context.Context, r *RepairReport) error {
	for _, s := range lostStates(p.cat.Layout, p.cat.Drivers.Mounters()) {
		mounted, err := s.driver.Mounts(p.cat.Layout.Dir)
		if err != nil {
			return err
		}
		if s.context != "" && slices.Contains(mounted, string(s.context)) {
			r.Unknown = append(r.Unknown, s.name+" lost its extended attributes, and is mounted: unmount it and repair again")
			continue
		}
		if err := s.driver.Accept(ctx, s.dir); err != nil {
			return catalog.Wrap(s.context, "could not be repaired", err)
		}
		r.Accepted = append(r.Accepted, s.name)
	}
	return nil
}
