package catalog

import (
	"context"
	"slices"
	"sync"

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

// Rebuilt is what Rebuild repaired.
type Rebuilt struct {
	// Recorded are contexts whose record was lost, Deleted those that were deleted but had a record.
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
	return out, nil
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
