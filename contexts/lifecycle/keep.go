package lifecycle

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// zoneFiles removes files of zones that keep them for some time only. A context that cannot be looked at is reported, and stops nothing.
func (c *collection) zoneFiles(ctx context.Context) error {
	recs, err := c.cat.Store.Contexts().List(ctx)
	if err != nil {
		return catalog.NotListed("the records of contexts", err)
	}
	for _, rec := range recs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		id := catalog.ID(rec.ID)
		spec, err := c.cat.Spec(id)
		if err != nil {
			c.report(Garbage{Kind: GarbageZone, Name: rec.ID, Err: err})
		}
		for _, z := range spec.Zones.Zones {
			if z.Keep > 0 && z.NeverCommit && rec.State == metadata.ContextReady {
				c.zone(ctx, id, z)
			}
		}
	}
	return nil
}

// zone removes the old files of one zone.
func (c *collection) zone(ctx context.Context, id catalog.ID, z zones.Zone) {
	old := &oldFiles{before: c.cat.Now().Add(-z.Keep).UnixNano()}
	err := c.inZone(ctx, id, z, gate.Read, func(ctx context.Context, root rootfs.Root, _ *gate.Access) error { return old.find(ctx, root) })
	if err == nil && !c.opts.DryRun && len(old.paths) > 0 {
		err = c.inZone(ctx, id, z, gate.Write, func(ctx context.Context, root rootfs.Root, a *gate.Access) error {
			return old.remove(ctx, root, a, z.Path)
		})
	}
	name := string(id) + z.Path
	if old.files > 0 {
		c.report(Garbage{Kind: GarbageZone, Name: name, Bytes: old.bytes, Files: old.files})
	}
	if err != nil && fserr.CodeOf(err) != fserr.ESTALE { // deleted meanwhile
		c.report(Garbage{Kind: GarbageZone, Name: name, Err: catalog.Wrap(id, "has a zone that could not be collected", err)})
	}
}

// inZoneFunc looks at a zone, or changes it.
type inZoneFunc func(ctx context.Context, root rootfs.Root, a *gate.Access) error

// inZone calls f with the root of a zone. That is no use of the context, and ends when another caller asks for the context alone.
func (c *collection) inZone(ctx context.Context, id catalog.ID, z zones.Zone, use gate.Use, f inZoneFunc) error {
	a, err := c.gates.Acquire(gate.Observe(ctx), id, use)
	if err != nil {
		return err
	}
	defer a.Release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.Closing(), cancel)()
	zoned, ok := a.Root.(*rootfs.Zoned)
	if !ok {
		return nil
	}
	if root := zoned.Zone(z.Path[1:]); root != nil {
		err := f(ctx, root, a)
		if a.Closing().Err() != nil { // the next collection looks again
			err = nil
		}
		return err
	}
	return nil
}

// maxOldFiles bounds the names that one collection of a zone holds. The next collection removes the others.
const maxOldFiles = 100_000

// oldFiles are files and links of a zone that were modified before a time, in ns.
type oldFiles struct {
	before       int64
	paths        []string
	files, bytes int64
}

// is reports whether a file is old. A file whose attributes changed lately may have been put there lately.
func (o *oldFiles) is(st rootfs.Stat) bool {
	kind := st.Type()
	return (kind == rootfs.TypeFile || kind == rootfs.TypeSymlink) && max(st.MtimeNs, st.CtimeNs) < o.before
}

func (o *oldFiles) find(ctx context.Context, root rootfs.Root) error {
	return root.Walk(ctx, "/", tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		if err != nil || e.Stat == nil || !o.is(*e.Stat) || len(o.paths) >= maxOldFiles {
			return nil // what cannot be read stays
		}
		o.paths, o.files, o.bytes = append(o.paths, rel), o.files+1, o.bytes+e.Stat.Blocks*512
		return nil
	})
}

// remove removes the files that are still old, and counts them anew.
func (o *oldFiles) remove(ctx context.Context, root rootfs.Root, a *gate.Access, zone string) error {
	o.files, o.bytes = 0, 0
	for _, p := range o.paths {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		st, err := root.Lstat(p)
		if err != nil || !o.is(st) {
			continue
		}
		a.Touch(zone+"/"+p, false)
		switch err := root.Unlink(p); fserr.CodeOf(err) {
		case 0:
			o.files, o.bytes = o.files+1, o.bytes+st.Blocks*512
		case fserr.ENOENT:
		default:
			return err
		}
	}
	return nil
}
