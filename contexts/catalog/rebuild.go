package catalog

import (
	"context"
	"os"
	"slices"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/internal/recent"
	"github.com/ctxfs/ctxfs/metadata"
)

// maxForgotten is how many deleted contexts stay in memory at least.
const maxForgotten = 4096

// forgotten are contexts whose folders were deleted. Their records may still be there: the database may not have answered, or may have lost
// its last commits.
type forgotten struct {
	mu  sync.Mutex
	ids recent.Map[ID, bool]
}

func (f *forgotten) add(id ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids.Put(id, true)
}

func (f *forgotten) remove(id ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids.Delete(func(other ID, _ bool) bool { return other == id })
}

func (f *forgotten) has(id ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _, ok := f.ids.Get(id)
	return ok
}

// inspector knows the layers that manifests name. Contexts of one layer share a manifest's file, which is read once.
type inspector map[disk.Inode]string

func (in inspector) layerOf(manifest string) (string, error) {
	st, err := os.Lstat(manifest)
	if err != nil {
		return "", err
	}
	at, known := disk.InodeOf(st)
	if digest, ok := in[at]; ok && known {
		return digest, nil
	}
	_, digest, err := seed.Inspect(manifest)
	if err == nil && known {
		in[at] = digest
	}
	return digest, err
}

// outdated reports whether the manifest of a ready context names another layer than its record. The database has then lost the record of a
// later context of the ID: a manifest is written before its folder.
func (c *Catalog) outdated(rec metadata.Context, in inspector) bool {
	if rec.State != metadata.ContextReady || rec.Layer == "" || c.IsLocked(ID(rec.ID)) {
		return false
	}
	if there, err := c.FolderState(ID(rec.ID)); err != nil || !there {
		return false // an unusable folder is reported when it is used
	}
	layer, err := in.layerOf(c.Layout.Manifest(ID(rec.ID)))
	return err == nil && layer != rec.Layer
}

// CorrectRecords makes the records of ready contexts name the layers that the contexts were made from, and returns those that it changed.
// A wrong one shows a context on another's layer.
func (c *Catalog) CorrectRecords(ctx context.Context, recs map[ID]metadata.Context) ([]ID, error) {
	var out []ID
	in := inspector{}
	for id, rec := range recs {
		if !c.outdated(rec, in) {
			continue
		}
		rec, ok, err := c.Record(ctx, id) // it may have changed since it was listed
		if err == nil && ok && c.outdated(rec, in) {
			_, err = c.Settle(ctx, rec)
			out = append(out, id)
		}
		if err != nil {
			return out, err
		}
	}
	slices.Sort(out)
	return out, nil
}

// Rebuilt is what Rebuild repaired.
type Rebuilt struct {
	// Recorded are contexts whose record was lost, or was that of an earlier context of the ID. Deleted were deleted but had a record.
	Recorded, Deleted []ID
	// Settled counts the records of seedings that ended while the database was away.
	Settled int
}

// Rebuild brings the records in line with the folders after the database was away, or lost its last commits. It leaves out the contexts
// that are being made or removed, whose records follow.
func (c *Catalog) Rebuild(ctx context.Context) (Rebuilt, error) {
	var out Rebuilt
	recs, err := c.ByID(ctx)
	if err != nil {
		return out, err
	}
	ids, err := c.IDs(recs)
	if err != nil {
		return out, err
	}
	for _, id := range ids {
		rec, recorded := recs[id]
		if there, err := c.FolderState(id); err != nil || recorded && there && rec.State == metadata.ContextReady || c.IsLocked(id) {
			continue // an unusable folder is reported when it is used
		} else if err := c.rebuild(ctx, id, there, recorded, &out); err != nil {
			return out, err
		}
	}
	corrected, err := c.CorrectRecords(ctx, recs)
	out.Recorded = append(out.Recorded, corrected...)
	return out, err
}

// rebuild repairs the record of one context.
func (c *Catalog) rebuild(ctx context.Context, id ID, there, recorded bool, out *Rebuilt) error {
	switch {
	case there:
		rec, err := c.Find(ctx, id)
		switch {
		case err != nil:
			return err
		case recorded:
			out.Settled++
		case rec.Recovered:
			out.Recorded = append(out.Recorded, id)
		}
	case recorded && c.forgotten.has(id):
		if err := c.Forget(ctx, id); err != nil {
			return err
		}
		out.Deleted = append(out.Deleted, id)
	}
	return nil
}

// Lost reports whether Rebuild found that the database had lost commits.
func (r Rebuilt) Lost() bool { return len(slices.Concat(r.Recorded, r.Deleted)) > 0 }
