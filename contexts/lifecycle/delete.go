package lifecycle

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/metadata"
)

// Deleted is the result of Delete: the number of entries removed.
type Deleted struct{ Entries int64 }

// deletions deletes contexts.
type deletions struct {
	*changes
	// reserve is space for deletions on a full disk.
	reserve disk.Reserve
}

// KeepReserve keeps as much space for deletions on a full disk as there is room for.
func (d *deletions) KeepReserve() {
	if err := d.reserve.Keep(); err != nil {
		d.cat.Log.Warn("no space could be reserved for deletions on a full disk", zap.Error(err))
	}
}

// Unless is asked whether the content of a context may be lost; its error says why not. It may enter the context. It is called while the context is
// in use, so that a refusal disturbs no caller, and again when no caller is in the context. nil refuses nothing.
type Unless func(ctx context.Context) error

// ask calls unless for a context that is in use, and opens it for the second call. A context without a folder has no content to lose.
func (c *changes) ask(ctx context.Context, id catalog.ID, unless Unless) error {
	if unless == nil {
		return nil
	}
	there, err := c.cat.FolderState(id)
	if err != nil || !there {
		return err
	}
	return unless(gate.Observe(ctx))
}

// Delete deletes a context with its snapshots, record, panels' bindings and tokens.
func (d *deletions) Delete(ctx context.Context, id catalog.ID, unless Unless) (Deleted, error) {
	if _, err := catalog.ParseID(string(id)); err != nil {
		return Deleted{}, err
	}
	ctx, ended, err := d.life.Begin(ctx, id)
	if err != nil {
		return Deleted{}, err
	}
	defer ended()
	if err := d.ask(ctx, id, unless); err != nil {
		return Deleted{}, err
	}
	out, err := d.delete(ctx, id, unless)
	if !disk.NoSpace(err) {
		return out, err
	}
	d.reserve.Spend()
	defer d.KeepReserve()
	again, err := d.delete(ctx, id, unless)
	out.Entries += again.Entries
	return out, err
}

// delete removes a context under its locks. It empties the trash after it released them, so that the next context of this ID
// does not wait.
func (d *deletions) delete(ctx context.Context, id catalog.ID, unless Unless) (Deleted, error) {
	unlock, err := d.lockSoon(ctx, id)
	if err != nil {
		return Deleted{}, catalog.Wrap(id, "could not be deleted", err)
	}
	t, err := d.remove(ctx, id, unless)
	unlock()
	if t == nil {
		return Deleted{}, err
	}
	out, e := d.empty(ctx, t)
	if t.shared {
		d.dropParts(ctx)
	}
	if e != nil {
		err = errors.Join(err, catalog.Wrap(id, "was deleted, but not all of its files", e))
	}
	return out, err
}

// remove moves a context, whose lock is held, to the trash. The caller empties the trash after it released the lock; the trash is
// nil if there is nothing to empty. If there is trash the context is gone, even if err says that its record is not. check is as of removeFolder.
func (d *deletions) remove(ctx context.Context, id catalog.ID, check Unless) (*trash, error) {
	there, err := d.cat.FolderState(id)
	if err != nil {
		return nil, err
	}
	rec, recorded, err := d.cat.Record(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !there && !recorded:
		return nil, catalog.Missing(id)
	case !there:
		return nil, d.forget(context.WithoutCancel(ctx), id)
	case !recorded:
		rec = d.cat.DescribeFolder(id)
	}
	t, err := d.removeFolder(ctx, rec, check)
	var s *stays
	if errors.As(err, &s) {
		return nil, err
	}
	if err != nil {
		return t, catalog.Wrap(id, "could not be deleted", err)
	}
	return t, nil
}

// forget removes the mark, the manifest and the record of a context whose folder is gone.
func (c *changes) forget(ctx context.Context, id catalog.ID) error {
	c.gates.Forget(id)
	return c.cat.Forget(ctx, id)
}

// removeFolder takes the gate alone and moves the folder out of sight by one rename: a crash leaves garbage for a sweep, not half
// a context. The gate stays shut until the panels' tokens are gone too: a call that waits there must not be admitted as a
// panel's first access, which would make the context anew. check, if not nil, is called when no operation is in the context any more; its error
// keeps the context.
func (d *deletions) removeFolder(ctx context.Context, rec metadata.Context, check Unless) (*trash, error) {
	id := catalog.ID(rec.ID)
	taken, err := d.gates.Take(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := d.moveUnless(ctx, rec, taken, check)
	if err != nil {
		taken.GiveBack()
		if t != nil {
			d.cat.Staging.Discard(t.dir)
			t.release()
		}
		return nil, err
	}
	d.cat.Events.Step("trashed")
	err = d.forget(context.WithoutCancel(ctx), id)
	taken.Retire()
	// The trash is emptied even if the context is not forgotten: its record may lack the very space.
	return t, err
}

// moveUnless is moveAway unless check fails. No panel opens the context between the two: Ensure takes the same lock, and notes the opening as a
// use.
func (d *deletions) moveUnless(ctx context.Context, rec metadata.Context, taken *gate.Taken, check Unless) (*trash, error) {
	if check != nil {
		unlock, err := d.gates.Opening(ctx, catalog.ID(rec.ID))
		if err != nil {
			return nil, err
		}
		defer unlock()
		if err := taken.Ask(ctx, check); err != nil {
			return nil, err
		}
	}
	return d.moveAway(ctx, rec, taken, check != nil)
}

// moveAway moves a context to the trash. The state of one that is mounted moves last: the context exists as long as its state. If careful, it refuses to move
// files that the mount hid.
func (d *deletions) moveAway(ctx context.Context, rec metadata.Context, taken *gate.Taken, careful bool) (t *trash, err error) {
	id, l := catalog.ID(rec.ID), d.cat.Layout
	mounter, err := d.cat.Drivers.MounterOf(rec)
	if err != nil {
		return nil, err
	}
	if mounter != nil {
		if err := taken.Hide(ctx, mounter); err != nil {
			return nil, err
		}
		if err := d.hidden(id); careful && err != nil {
			return nil, err
		}
	}
	if t, err = d.newTrash(ctx); err != nil {
		return nil, err
	}
	if mounter != nil {
		// The mount point is read-only, and only root can move a read-only directory.
		_ = os.Chmod(l.Folder(id), 0o755) // the rename reports what is wrong
	}
	gone := []string{l.Dir}
	err = disk.RenameNoReplace(l.Folder(id), filepath.Join(t.dir, "folder"))
	if mounter != nil && (err == nil || errors.Is(err, os.ErrNotExist)) {
		d.cat.Events.Step("hidden")
		parts, _ := d.cat.Drivers.Parts(mounter, l.DriverState(mounter.Name(), id)) // a collection finds those of a damaged state
		t.shared = len(parts) > 0
		state := l.DriverState(mounter.Name(), id)
		err = disk.MoveIfThere(state, filepath.Join(t.dir, "state"))
		gone = append(gone, filepath.Dir(state))
	}
	if err != nil {
		return t, err
	}
	err = disk.MoveIfThere(l.SnapshotsOf(id), filepath.Join(t.dir, "snapshots"))
	if err == nil { // before the record goes: a folder without a record would count as a context
		err = durable.Names(append(gone, filepath.Dir(l.SnapshotsOf(id)))...)
	}
	d.gates.Views.Drop(func(k gate.Kept) bool { return k.Context == id })
	return t, err
}

// hidden fails with ENOTEMPTY if the folder of a context that is not mounted has files. They were written while it was not mounted either, and no call shows them.
func (d *deletions) hidden(id catalog.ID) error {
	entries, err := os.ReadDir(d.cat.Layout.Folder(id))
	if err != nil || len(entries) == 0 {
		return nil //nolint:nilerr // the rename reports what is wrong
	}
	var names []string
	for _, e := range entries[:min(len(entries), fserr.FewNames)] {
		names = append(names, e.Name())
	}
	return &fserr.Error{
		Code: fserr.ENOTEMPTY, Kind: fserr.KindContext,
		Detail: "the folder has files that were written while the context was not mounted, and that its mount hides" + fserr.Names(names, len(entries)),
		Hint:   "stop the server, and move them out of the folder; or set discard_changes",
	}
}

// empty removes trash and counts its entries. The removal continues if the caller leaves, and then logs its error. The server's stop
// ends it, and the next sweep removes the rest.
func (c *changes) empty(ctx context.Context, t *trash) (Deleted, error) {
	type emptied struct {
		Deleted
		err error
	}
	done := make(chan emptied)
	c.life.Go(func() {
		defer t.release()
		n, err := c.cat.Staging.Empty(t.dir)
		select {
		case done <- emptied{Deleted{n}, err}:
		case <-ctx.Done():
			c.left(t, err)
		}
	})
	select {
	case e := <-done:
		return e.Deleted, e.err
	case <-ctx.Done():
		return Deleted{}, nil
	}
}

// left logs why trash could not be emptied; its callers are gone.
func (c *changes) left(t *trash, err error) {
	if err != nil {
		c.cat.Log.Warn("trash could not be emptied; the next collection removes it", zap.String("dir", t.dir), zap.Error(err))
	}
}

// trash is a directory in staging that is being emptied. Its lock, where directories can be locked, keeps the sweeps of other
// processes away.
type trash struct {
	dir     string
	release func()
	// shared says that the trash has a context that shared parts with others.
	shared bool
}

// newTrash makes a trash directory. The caller holds the work lock, or a share of it.
func (c *changes) newTrash(ctx context.Context) (*trash, error) {
	dir, err := c.cat.Staging.Make("trash")
	if err != nil {
		return nil, err
	}
	release, err := catalog.LockDirectory(ctx, dir)
	if err != nil { // NFS and Windows lock no directories: another process's sweep may help to empty it
		release = func() {}
	}
	return &trash{dir: dir, release: release}, nil
}
