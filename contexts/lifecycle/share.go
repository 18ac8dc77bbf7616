package lifecycle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/metadata"
)

// share makes dst a copy of a context that shares what the context changed, if that is worth it and nothing is open in the context. It
// returns false if the caller must copy the changes.
func (c *changes) share(ctx context.Context, rec metadata.Context, d driver.Sharer, state, dst string) (shared bool, err error) {
	if d.Small(ctx, state) {
		return false, nil
	}
	err = c.gates.Freeze(ctx, rec, d, func(part string) error { return d.OnPart(part, dst) })
	if _, begun := os.Lstat(dst); err == nil || begun == nil || ctx.Err() != nil {
		return true, err
	}
	c.cat.Log.Debug("a context is copied file by file", zap.String("context", rec.ID), zap.Error(err))
	return false, nil
}

// unusedParts lists the directories of parts that no context and no snapshot leads to. The caller holds the work lock alone, so that no
// copy is being made. If something cannot be read, no part is unused.
func (c *changes) unusedParts() ([]string, error) {
	var unused []string
	for _, d := range c.cat.Drivers.Sharers() {
		entries, err := os.ReadDir(d.Parts())
		if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
			continue
		}
		if err != nil {
			return nil, catalog.NotListed("the parts of contexts", err)
		}
		used, err := c.partsInUse(d)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !used[e.Name()] {
				unused = append(unused, filepath.Join(d.Parts(), e.Name()))
			}
		}
	}
	return unused, nil
}

// partsInUse names the parts that the states of contexts and snapshots lead to.
func (c *changes) partsInUse(d driver.Sharer) (map[string]bool, error) {
	states, err := c.statesOf(d)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, state := range states {
		names, err := d.PartsOf(state)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			used[name] = true
		}
	}
	return used, nil
}

// statesOf lists the states of the contexts and snapshots of a driver.
func (c *changes) statesOf(d driver.Sharer) ([]string, error) {
	states, err := entriesOf(c.cat.Layout.DriverState(d.Name(), ""))
	if err != nil {
		return nil, err
	}
	contexts, err := entriesOf(c.cat.Layout.Snapshots)
	if err != nil {
		return nil, err
	}
	for _, dir := range contexts {
		kept, err := entriesOf(dir)
		if err != nil {
			return nil, err
		}
		for _, snapshot := range kept {
			r, err := readSnapshot(snapshot)
			if err != nil {
				return nil, err
			}
			if r.Driver == d.Name() { // the data of others is what a panel wrote
				states = append(states, filepath.Join(snapshot, snapshotData))
			}
		}
	}
	return states, nil
}

// entriesOf lists the paths in a directory, which need not exist.
func entriesOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, catalog.NotListed("the state of contexts", err)
	}
	paths := make([]string, len(entries))
	for i, e := range entries {
		paths[i] = filepath.Join(dir, e.Name())
	}
	return paths, nil
}

// dropParts removes the parts that only a deleted context or snapshot led to. It leaves them to the next collection if contexts are being made, or if
// it fails.
func (c *changes) dropParts(ctx context.Context) {
	release, ok, err := c.cat.Locks.TryAlone(catalog.WorkLock)
	if err != nil || !ok {
		return
	}
	unused, err := c.unusedParts()
	var t *trash
	if err == nil && len(unused) > 0 {
		t, err = c.newTrash(ctx)
	}
	for i := 0; err == nil && i < len(unused); i++ {
		err = disk.RenameNoReplace(unused[i], filepath.Join(t.dir, strconv.Itoa(i)))
	}
	release()
	if err != nil {
		c.cat.Log.Warn("parts of a deleted context stay until the next collection", zap.Error(catalog.Cause(err)))
	}
	if t != nil {
		_, _ = c.empty(ctx, t) // the next sweep removes what is left
	}
}
