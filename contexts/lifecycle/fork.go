package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

// forks makes contexts from others.
type forks struct{ *changes }

// Fork makes the context to a copy of from, and returns its record. owner is the panel that its ID was derived from, or "". The copy has the
// labels of from, and those of put.
func (f *forks) Fork(ctx context.Context, from, to catalog.ID, owner string, put map[string]string) (metadata.Context, error) {
	if err := mayFork(from, to); err != nil {
		return metadata.Context{}, err
	}
	ctx, ended, err := f.life.Begin(ctx, to)
	if err != nil {
		return metadata.Context{}, err
	}
	defer ended()
	asked, done := f.points.request(from)
	defer done()
	unlock, err := f.lock(ctx, from, to)
	if err != nil {
		return metadata.Context{}, catalog.Wrap(from, "could not be forked", err)
	}
	defer unlock()
	rec, err := f.fork(ctx, from, to, owner, put, asked)
	if err != nil {
		return metadata.Context{}, catalog.Wrap(from, "could not be forked", err)
	}
	f.gates.Opened(to) // the copy may have taken long
	f.cat.Log.Info("context forked", zap.String("context", string(to)), zap.String("from", string(from)), zap.Duration("took", rec.SeededIn))
	f.show(ctx, rec)
	return rec, nil
}

// mayFork refuses an ID whose form would be wrong for the copy.
func mayFork(from, to catalog.ID) error {
	a, err := catalog.ParseID(string(from))
	if err != nil {
		return err
	}
	b, err := catalog.ParseID(string(to))
	switch {
	case err != nil:
		return err
	case from == to:
		return catalog.Taken(to)
	case metadata.Fold(string(from)) == metadata.Fold(string(to)):
		return catalog.Collides(to, from)
	case a.Mode == b.Mode && (b.TemplateHash == "" || a.TemplateHash == b.TemplateHash):
		return nil
	}
	return &fserr.Error{
		Code: fserr.EINVAL, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' cannot be a copy of '%s': it would say of itself what is not so", to, from),
		Hint: "fork ctx_ and safe_tpl_ contexts to ctx_NAME or to the same template, unsafe_noctx_ contexts to unsafe_noctx_NAME",
	}
}

// fork makes the copy, and records it once it exists: a fork that fails leaves nothing.
func (f *forks) fork(ctx context.Context, from, to catalog.ID, owner string, put map[string]string, asked uint64) (metadata.Context, error) {
	start := f.cat.Now()
	rec, err := f.gates.Existing(ctx, from)
	if err == nil {
		err = f.cat.OwnFolder(from, "direct zones are directories that other programs use, and cannot be copied as of one moment")
	}
	if err != nil {
		return rec, err
	}
	old, recorded, err := f.free(ctx, to, owner)
	if err != nil {
		return rec, err
	}
	set, err := labels.Apply(rec.Labels, put, nil)
	if err != nil {
		return rec, err
	}
	fork := metadata.Context{
		ID: string(to), Explicit: owner == "", OwnerPanel: owner, State: metadata.ContextReady, Driver: rec.Driver, Layer: rec.Layer,
		Generation: max(1, old.Generation+1, f.gates.Floor(to)), Files: rec.Files, Bytes: rec.Bytes, CreatedAt: f.cat.Now().UTC(), ForkedFrom: rec.ID,
		Labels: set,
	}
	// The record of a deletion that was cut short names another layer. It would count if the server were killed after the rename. Until then the
	// record is that of a context whose folder is gone: a seeding takes no labels from it.
	if recorded {
		if _, err := f.keepRecord(ctx, fork, old, recorded); err != nil {
			return rec, err
		}
	}
	if err := f.forkFolder(ctx, rec, fork, asked); err != nil {
		return rec, err
	}
	fork.SeededIn = f.cat.Now().Sub(start)
	found, err := f.keepRecord(context.WithoutCancel(ctx), fork, old, recorded)
	if errors.Is(err, metadata.ErrUnavailable) && !found {
		err = errors.Join(err, f.unmake(fork))
	}
	return fork, err
}

// unmake removes a fork that could not be recorded, so that the caller can fork again. Nobody uses it yet: that takes its record.
func (f *forks) unmake(rec metadata.Context) error {
	id := catalog.ID(rec.ID)
	_, dir, err := f.cat.Drivers.Held(rec)
	if err != nil {
		return err
	}
	return f.cat.Staging.With("trash", func(trash string) error {
		return disk.MoveIfThere(dir, filepath.Join(trash, string(id)))
	})
}

// free fails if a context of an ID exists, or if another panel owns the ID. old is the record of a context that is gone.
func (f *forks) free(ctx context.Context, id catalog.ID, owner string) (old metadata.Context, recorded bool, err error) {
	there, err := f.cat.FolderState(id)
	if err == nil && there {
		err = catalog.Taken(id)
	}
	if err == nil {
		err = f.cat.Distinct(ctx, id)
	}
	if err == nil {
		err = f.cat.MayOwn(ctx, id, owner)
	}
	if err != nil {
		return old, false, err
	}
	return f.cat.Record(ctx, id)
}

// forkFolder makes the folder or state of a context as a copy of another one. The base of the fork is that of its parent.
func (f *forks) forkFolder(ctx context.Context, from, fork metadata.Context, asked uint64) error {
	to := catalog.ID(fork.ID)
	spec, err := f.cat.Spec(catalog.ID(from.ID))
	if err != nil {
		return err
	}
	spec.Labels = fork.Labels
	return f.cat.Staging.With("fork", func(dir string) error {
		made := filepath.Join(dir, "folder")
		if err := f.copyOf(ctx, from, made, asked); err != nil {
			return err
		}
		f.cat.Events.Step("forked")
		manifest := f.cat.Layout.Manifest(catalog.ID(from.ID))
		if _, err := os.Lstat(manifest); errors.Is(err, os.ErrNotExist) { // it started empty
			manifest = ""
		}
		place, err := f.cat.Drivers.PlaceFor(from.Driver, to)
		if err == nil {
			f.carryMarks(ctx, from, made)
			err = f.cat.Events.Copied(from.ID, string(to), seed.MarksFile(made))
		}
		if err != nil {
			return err
		}
		err = f.cat.Publish(ctx, to, spec, made, place, manifest, false)
		f.cat.Events.Step("fork-renamed")
		return err
	})
}

// keepRecord writes the record of a context that is made. found means that another caller found the folder, and recorded it: it may be in use.
func (f *forks) keepRecord(ctx context.Context, rec, old metadata.Context, recorded bool) (found bool, err error) {
	if !recorded {
		err := f.cat.Store.Contexts().Create(ctx, rec)
		if !errors.Is(err, metadata.ErrConflict) {
			return false, err
		}
		found = true
	}
	if old.OwnerPanel != "" && rec.OwnerPanel == "" {
		rec.OwnerPanel, rec.Explicit = old.OwnerPanel, old.Explicit
	}
	if err := f.cat.Store.Contexts().Update(ctx, rec); err != nil {
		return found, err
	}
	_, err = f.cat.Store.Contexts().SetLabels(ctx, rec.ID, func(map[string]string) (map[string]string, error) { return rec.Labels, nil })
	return found, err
}
