// Package catalog knows which contexts exist: their IDs, where their folders and files are, their records, and the locks that
// keep processes apart. It opens no context and changes nothing in one.
//
// A context exists if its folder exists, or its state if its driver mounts. Records only add what the folders do not show: a
// lost record is rebuilt from the folder. Beside its folder a context has files of its own, which go with it: the manifest
// (what it was seeded with, the base of later diffs), its Spec and its snapshots.
package catalog

import (
	"context"
	"errors"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/recent"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata"
)

// Catalog knows the contexts of one workspace. Any number of processes may have one. It also carries what all packages of
// contexts share; its exported fields are set once.
type Catalog struct {
	Layout  Layout
	Drivers Drivers
	Store   metadata.Store
	Locks   Locks
	Staging *disk.Staging
	Events  Events
	Log     *zap.Logger
	// Now is the clock.
	Now func() time.Time
	// state is the state directory as New found it.
	state os.FileInfo
	// forgotten are the contexts that were deleted last.
	forgotten *forgotten
	folders   *folders
}

// Events receives what happens to contexts. Each function is called in the goroutine that acts, which waits for it.
type Events struct {
	// Taken is called for a context that is about to be deleted or replaced, when all operations on it have ended. It must
	// close what is still open in the context: a mount that is in use can neither be ended nor made again.
	Taken func(id ID)
	// Deleted is called after a context was deleted, with the panels that were bound to it.
	Deleted func(id ID, panels []string)
	// SnapshotDeleted is called after a snapshot was deleted, before its files are removed.
	SnapshotDeleted func(id ID, name string)
	// Copied is called before a copy becomes a context's or a snapshot's content, with the names of both: an ID, or an ID, "@" and the
	// name of a snapshot. from is "" for a name that gets new content. marks is the file with the copy's marks (seed.Marks), which Copied may
	// take; it may be missing. Its error ends the change.
	Copied func(from, to, marks string) error
	// Marks returns the file with the marks of a context, which may be missing.
	Marks func(id ID) string
	// Seeded is called after a seeding by a driver, which took some time and failed with err, or succeeded.
	Seeded func(driver string, took time.Duration, err error)
	// Step is called at each step of a change, by name. Tests stop there.
	Step func(step string)
}

// WithDefaults returns the events with a function for each.
func (e Events) WithDefaults() Events {
	if e.Taken == nil {
		e.Taken = func(ID) {}
	}
	if e.Deleted == nil {
		e.Deleted = func(ID, []string) {}
	}
	if e.SnapshotDeleted == nil {
		e.SnapshotDeleted = func(ID, string) {}
	}
	if e.Copied == nil {
		e.Copied = func(string, string, string) error { return nil }
	}
	if e.Marks == nil {
		e.Marks = func(ID) string { return "" }
	}
	if e.Seeded == nil {
		e.Seeded = func(string, time.Duration, error) {}
	}
	if e.Step == nil {
		e.Step = func(string) {}
	}
	return e
}

// New returns a copy of c that has read the state directory, which must exist.
func New(c Catalog) (*Catalog, error) {
	var err error
	c.folders = &folders{seed: maphash.MakeSeed()}
	c.forgotten = &forgotten{ids: recent.Map[ID, bool]{Max: maxForgotten}}
	c.state, err = os.Stat(c.Layout.State)
	return &c, err
}

// Moved fails with EIO if the contexts directory is no longer the one that New found: somebody moved or removed it, alone or
// with the workspace.
func (c *Catalog) Moved() error {
	st, err := os.Stat(c.Layout.State)
	if err == nil && os.SameFile(st, c.state) || err != nil && !isGone(err) {
		return nil
	}
	return &fserr.Error{
		Code: fserr.EIO, Kind: fserr.KindContext, Detail: "the contexts directory was moved or removed after the server started",
		Hint: "stop the server, and run 'ctxfs serve' where the workspace is now", Err: err,
	}
}

// FolderState reports whether a context exists. The folder of a context that is mounted is only its mount point, so its state
// decides. It fails with EEXIST if something else has the context's name.
func (c *Catalog) FolderState(id ID) (exists bool, err error) {
	st, err := os.Lstat(c.Layout.Folder(id))
	switch {
	case isGone(err):
		if err := c.Moved(); err != nil {
			return false, err
		}
		return c.Drivers.MounterAt(id) != nil, nil
	case err != nil:
		return false, Wrap(id, "could not be looked at", err)
	case !st.IsDir():
		return false, notAFolder(id)
	}
	return true, nil
}

// IsGone reports whether a name is the ID of a context that does not exist.
func (c *Catalog) IsGone(name string) bool {
	if _, err := ParseID(name); err != nil {
		return false
	}
	there, err := c.FolderState(ID(name))
	return err == nil && !there
}

// Record reads a context's record; ok is false if there is none.
func (c *Catalog) Record(ctx context.Context, id ID) (rec metadata.Context, ok bool, err error) {
	rec, err = c.Store.Contexts().Get(ctx, string(id))
	switch {
	case errors.Is(err, metadata.ErrNotFound):
		return rec, false, nil
	case err != nil:
		return rec, false, Wrap(id, "has a record that could not be read", err)
	}
	return rec, true, nil
}

// Find returns the record of a context that is ready, or the reason why it is not: EINVAL, ESTALE or EAGAIN. A folder that
// exists is complete whatever its record says: it got its name by one rename.
func (c *Catalog) Find(ctx context.Context, id ID) (metadata.Context, error) {
	if _, err := ParseID(string(id)); err != nil {
		return metadata.Context{}, err
	}
	exists, err := c.FolderState(id)
	if err != nil {
		return metadata.Context{}, err
	}
	rec, ok, err := c.Record(ctx, id)
	switch {
	case err != nil:
		return rec, err
	case exists && ok && rec.State != metadata.ContextReady && !c.IsLocked(id):
		return c.settleLate(ctx, rec)
	case exists && ok:
		return rec, nil
	case exists:
		return c.recover(ctx, id)
	case ok && rec.State == metadata.ContextFailed:
		return rec, failedBefore(id, rec.LastError)
	case ok && rec.State == metadata.ContextSeeding && c.IsLocked(id):
		return rec, BeingSeeded(id, 0, 0)
	}
	return rec, Missing(id)
}

// recover creates a record for a folder that has none.
func (c *Catalog) recover(ctx context.Context, id ID) (metadata.Context, error) {
	if err := c.Distinct(ctx, id); err != nil {
		return metadata.Context{}, err
	}
	rec := c.DescribeFolder(id)
	rec.UsedAt = c.Now().UTC() // its last use is lost: without this a collection would take it at once
	err := c.Store.Contexts().Create(ctx, rec)
	if errors.Is(err, metadata.ErrConflict) {
		return c.Store.Contexts().Get(ctx, string(id)) // another caller was faster
	}
	if err != nil {
		return rec, Wrap(id, "could not be recorded", err)
	}
	c.Log.Warn("record rebuilt from the folder", zap.String("context", string(id)))
	return rec, nil
}

// DescribeFolder returns the record that a context's folder, manifest and Spec suggest.
func (c *Catalog) DescribeFolder(id ID) metadata.Context {
	rec := metadata.Context{
		ID: string(id), State: metadata.ContextReady, Driver: c.Drivers.madeBy(id), Generation: 1,
		CreatedAt: c.Now().UTC(), Recovered: true,
	}
	if st, err := os.Lstat(c.Layout.Folder(id)); err == nil {
		rec.CreatedAt = st.ModTime().UTC()
	}
	if man, digest, err := seed.Inspect(c.Layout.Manifest(id)); err == nil {
		rec.Layer, rec.Files, rec.Bytes = digest, man.Files, man.Bytes
	}
	if spec, err := c.Spec(id); err == nil { // another error is reported when the context is used
		rec.Labels = spec.Labels
	}
	return rec
}

// settleLate is Settle for a context whose seeding has ended, if the database did not take the record of that end.
func (c *Catalog) settleLate(ctx context.Context, rec metadata.Context) (metadata.Context, error) {
	rec, ok, err := c.Record(ctx, ID(rec.ID)) // the seeding may have ended since rec was read
	if err != nil || ok && rec.State == metadata.ContextReady {
		return rec, err
	}
	return c.Settle(ctx, rec)
}

// Settle makes a folder's record ready that a crash left in another state.
func (c *Catalog) Settle(ctx context.Context, rec metadata.Context) (metadata.Context, error) {
	found := c.DescribeFolder(ID(rec.ID))
	rec.State, rec.LastError, rec.Driver = metadata.ContextReady, "", found.Driver
	rec.Layer, rec.Files, rec.Bytes = found.Layer, found.Files, found.Bytes
	if err := c.Store.Contexts().Update(ctx, rec); err != nil {
		return rec, Wrap(ID(rec.ID), "could not be recorded", err)
	}
	return rec, nil
}

// Distinct fails with EEXIST if another context has an ID that differs from id only by case.
func (c *Catalog) Distinct(ctx context.Context, id ID) error {
	rec, err := c.Store.Contexts().Folded(ctx, string(id))
	switch {
	case err == nil && rec.ID != string(id):
		return Collides(id, ID(rec.ID))
	case err != nil && !errors.Is(err, metadata.ErrNotFound):
		return Wrap(id, "could not be compared with the others", err)
	}
	return c.folders.distinct(c, id) // a folder may have no record
}

// Names lists the entries of the contexts directory, and the contexts whose folder is missing there.
func (c *Catalog) Names() ([]string, error) {
	entries, err := os.ReadDir(c.Layout.Dir)
	if err != nil {
		return nil, NotListed("the contexts directory", err)
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	states := slices.Compact(slices.Sorted(slices.Values(c.Drivers.stateNames())))
	return append(out, slices.DeleteFunc(states, func(name string) bool {
		_, found := slices.BinarySearch(out, name) // ReadDir sorts
		return found
	})...), nil
}

// ByID returns all records by ID.
func (c *Catalog) ByID(ctx context.Context) (map[ID]metadata.Context, error) {
	recs, err := c.Store.Contexts().List(ctx)
	if err != nil {
		return nil, NotListed("the records of contexts", err)
	}
	out := make(map[ID]metadata.Context, len(recs))
	for _, r := range recs {
		out[ID(r.ID)] = r
	}
	return out, nil
}

// IDs lists the IDs that have one of the records, or a folder, sorted.
func (c *Catalog) IDs(recs map[ID]metadata.Context) ([]ID, error) {
	names, err := c.Names()
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

// Own makes a panel the owner of a context that has none. It fails with EEXIST if another panel is the owner. panel is "" for a
// caller that named the context explicitly.
func (c *Catalog) Own(ctx context.Context, rec metadata.Context, panel string) (metadata.Context, error) {
	switch {
	case panel == "" || rec.OwnerPanel == panel:
		return rec, nil
	case rec.OwnerPanel != "":
		return rec, owned(ID(rec.ID), rec.OwnerPanel, panel)
	}
	rec.OwnerPanel = panel
	if err := c.Store.Contexts().Update(ctx, rec); err != nil {
		return rec, Wrap(ID(rec.ID), "could not be recorded", err)
	}
	return rec, nil
}

// MayOwn fails with EEXIST if a context is missing but its record names another owner.
func (c *Catalog) MayOwn(ctx context.Context, id ID, panel string) error {
	rec, ok, err := c.Record(ctx, id)
	if err != nil || !ok || panel == "" || rec.OwnerPanel == "" || rec.OwnerPanel == panel {
		return err
	}
	return owned(id, rec.OwnerPanel, panel)
}

// PanelsOf lists the panels that are bound to a context.
func (c *Catalog) PanelsOf(ctx context.Context, id ID) ([]string, error) {
	recs, err := c.Store.Panels().OfContext(ctx, string(id))
	if err != nil {
		return nil, NotListed("the panels", err)
	}
	var out []string
	for _, p := range recs {
		if p.ContextID == string(id) {
			out = append(out, p.ID)
		}
	}
	return out, nil
}

// LayersInUse returns the digests of the layers that contexts were made from. It reads the records and the manifests: a layer is the base
// of a context even after the database was lost, or lost the commit that named it.
func (c *Catalog) LayersInUse(ctx context.Context) (map[string]bool, error) {
	recs, err := c.ByID(ctx)
	if err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for _, rec := range recs {
		keep[rec.Layer] = true
	}
	entries, err := os.ReadDir(c.Layout.Manifests)
	if err != nil {
		return nil, NotListed("the manifests", err)
	}
	in := inspector{}
	for _, e := range entries {
		if digest, err := in.layerOf(filepath.Join(c.Layout.Manifests, e.Name())); err == nil {
			keep[digest] = true
		}
	}
	return keep, nil
}

// Publish renames a complete context from staging to its place, with its Spec and a manifest, or without one for "". The lock of the
// context is held. Files that an earlier context of the ID has left are removed first. isFlushed says that what the folder holds is on the disk.
func (c *Catalog) Publish(ctx context.Context, id ID, spec Spec, made, place, manifest string, isFlushed bool) error {
	if err := errors.Join(c.KeepSpec(id, spec), c.keepManifest(id, manifest)); err != nil {
		return err
	}
	// The folder and what describes it are on the disk before it has its name: one that has it is complete, also after a power failure.
	var flushes errgroup.Group // together, so that the file system's journal commits once
	flushes.Go(func() error {
		return durable.Names(filepath.Dir(c.Layout.Manifest(id)), filepath.Dir(c.Layout.Spec(id)))
	})
	if !isFlushed {
		flushes.Go(func() error { return durable.Tree(made) })
	}
	if err := flushes.Wait(); err != nil {
		return err
	}
	c.Events.Step("manifested")
	if err := c.dropSnapshots(id); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.forgotten.remove(id)
	if err := disk.RenameNoReplace(made, place); err != nil {
		return err
	}
	return durable.Names(filepath.Dir(place))
}

// keepManifest gives a context its own name for a manifest, since the layer or context that has it may go.
func (c *Catalog) keepManifest(id ID, from string) error {
	file := c.Layout.Manifest(id)
	if err := removeFile(file); err != nil || from == "" {
		return err
	}
	if os.Link(from, file) == nil {
		return nil
	}
	data, err := statedir.ReadFile(from, statedir.MaxList)
	if err != nil {
		return err
	}
	return durable.WriteFile(file, data, 0o600)
}

func (c *Catalog) dropSnapshots(id ID) error {
	if _, err := os.Lstat(c.Layout.SnapshotsOf(id)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return c.Staging.With("trash", func(dir string) error {
		return disk.MoveIfThere(c.Layout.SnapshotsOf(id), filepath.Join(dir, "snapshots"))
	})
}

// Forget removes the manifest, the Spec, the feed and the record of a context whose folder is gone, with its panels' bindings and their tokens.
func (c *Catalog) Forget(ctx context.Context, id ID) error {
	c.forgotten.add(id) // first: Rebuild forgets it again if this fails
	panels, err := c.PanelsOf(ctx, id)
	if err != nil {
		return err
	}
	if err := errors.Join(removeFile(c.Layout.Manifest(id)), removeFile(c.Layout.Spec(id)), os.RemoveAll(c.Layout.Batch(id)), os.RemoveAll(c.Layout.Feed(id))); err != nil {
		return Wrap(id, "was deleted but for its manifest", err)
	}
	if err := c.Store.Contexts().Delete(ctx, string(id)); err != nil && !errors.Is(err, metadata.ErrNotFound) {
		return Wrap(id, "was deleted but for its record", err)
	}
	c.Events.Deleted(id, panels)
	c.Log.Info("context deleted", zap.String("context", string(id)))
	return nil
}
