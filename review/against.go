package review

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
)

// Against names what a context is compared with. The zero Against is its base; otherwise one field is set.
type Against struct {
	// Workspace compares at the paths that the base or the context has: the workspace has files that no context is seeded with.
	Workspace bool
	// Revision is one that Submit returned.
	Revision string
	// Snapshot is a snapshot of the context.
	Snapshot string
	// Context is the ID of another context.
	Context string
}

// SnapshotView is a snapshot that can be read.
type SnapshotView struct {
	// Root is its content. Whoever receives the view closes it.
	Root rootfs.Root
	Origin
	// Check fails with ENOENT if the snapshot was deleted since: what was read of it may then be a part of it.
	Check func() error
}

// otherSide is what a context is compared with instead of its base.
type otherSide struct {
	*base
	// beside are the ignored directories and the barred paths, which base does not have.
	beside map[Path]Difference
}

// against compares a context with something else than its base. The changes have no IDs: they cannot be decided on.
func (r *Reviews) against(ctx context.Context, q Query) (l *List, err error) {
	origin, err := r.cfg.Contexts.Origin(ctx, q.Context)
	if err != nil {
		return nil, err
	}
	other, err := r.otherSide(ctx, q, origin)
	if err != nil {
		return nil, err
	}
	l = &List{context: q.Context, state: &state{}, base: other.base, room: newRoom(ctx)}
	err = r.frozen(ctx, q.Context, func(ctx context.Context, root rootfs.Root) error {
		l.room.reset()
		diffs, err := r.compare(ctx, q, origin, other.base, root, l.room)
		diffs = slices.DeleteFunc(diffs, other.hasBeside)
		if err == nil {
			l.Changes, err = r.describeAll(ctx, diffs, other.base, root, l.room)
		}
		if err == nil {
			err = linked(ctx, l.Changes, diffs, other.base, root, r.cfg.Workspace)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	for _, c := range l.Changes {
		c.withoutIDs()
	}
	return l, nil
}

// withoutIDs removes what a decision would name.
func (c *Change) withoutIDs() {
	c.ID = ""
	if c.Text != nil {
		clear(c.Text.ids)
		for i := range c.Text.Hunks {
			c.Text.Hunks[i].ID = ""
		}
	}
}

// hasBeside reports whether the other side has the same ignored directory or barred path.
func (o *otherSide) hasBeside(d Difference) bool {
	b, ok := o.beside[d.Path]
	switch {
	case !ok || d.Barred != b.Barred || (d.Tree == nil) != (b.Tree == nil):
		return false
	case d.Tree != nil:
		return *d.Tree == *b.Tree
	}
	return d.Barred != ""
}

// otherSide finds what q.Against names. The caller closes its base.
func (r *Reviews) otherSide(ctx context.Context, q Query, own Origin) (*otherSide, error) {
	switch a := q.Against; {
	case a.Revision != "":
		return r.revisionSide(q, own)
	case a.Workspace:
		return r.workspaceSide(ctx, q, own)
	case a.Snapshot != "":
		view, err := r.cfg.Contexts.Snapshot(ctx, q.Context, a.Snapshot)
		if err != nil {
			return nil, err
		}
		return r.snapshotSide(ctx, q, view)
	}
	return r.contextSide(ctx, q)
}

// revisionSide is what a context held when it was submitted.
func (r *Reviews) revisionSide(q Query, own Origin) (*otherSide, error) {
	rev, err := r.revisions.read(q.Context, q.Against.Revision)
	if err != nil {
		return nil, err
	}
	if rev.Digest != own.Digest {
		return nil, refuse(StaleRevision, nil, "revision "+q.Against.Revision+" was submitted before the context was seeded anew", "submit the changes again")
	}
	b, err := r.baseOf(own, &state{Overrides: rev.Overrides})
	return &otherSide{b, rev.Beside}, err
}

// workspaceSide is the workspace at the paths that the base or the context has. Files whose inode and ctime are those of the layer's
// manifest are not read.
func (r *Reviews) workspaceSide(ctx context.Context, q Query, own Origin) (_ *otherSide, err error) {
	st, err := r.states.read(q.Context)
	if err != nil {
		return nil, err
	}
	changed, err := r.differences(ctx, q, own, st)
	if err != nil {
		return nil, err
	}
	b, err := r.baseOf(own, &state{Overrides: map[Path]Version{}})
	if err != nil {
		return nil, err
	}
	b.elsewhere = func(e entry) (io.ReadCloser, error) { return openIn(r.ws.root, e) }
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	moved, err := r.changedSince(ctx, q, own.Manifest)
	if err != nil {
		return nil, err
	}
	for p := range st.Overrides {
		moved = append(moved, p)
	}
	for _, d := range changed {
		if d.Barred == "" && d.Tree == nil {
			moved = append(moved, d.Path)
		}
	}
	for _, p := range moved {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if b.overrides[p], err = r.versionIn(ctx, p); err != nil {
			return nil, err
		}
	}
	return &otherSide{base: b}, nil
}

// differences compares a context with its base.
func (r *Reviews) differences(ctx context.Context, q Query, o Origin, st *state) (diffs []Difference, err error) {
	b, err := r.baseOf(o, st)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	err = r.frozen(ctx, q.Context, func(ctx context.Context, root rootfs.Root) (err error) {
		diffs, err = r.compare(ctx, q, o, b, root, nil)
		return err
	})
	return diffs, err
}

// changedSince lists the files and links of a manifest whose stat in the workspace is another one.
func (r *Reviews) changedSince(ctx context.Context, q Query, m *seed.Manifest) ([]Path, error) {
	if m == nil {
		return nil, nil
	}
	var out []Path
	for i := range m.Entries {
		e := &m.Entries[i]
		p := Path(e.Path)
		if e.Type == rootfs.TypeDirectory || !slices.ContainsFunc(q.scope(), func(s Path) bool { return isWithin(p, s) }) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch same, err := r.ws.unmoved(e); {
		case err != nil:
			return nil, err
		case !same:
			out = append(out, p)
		}
	}
	return out, nil
}

// unmoved reports whether the workspace has what the layer has, by its stat: no program can set the ctime.
func (w *workspace) unmoved(e *seed.Entry) (bool, error) {
	st, err := lstat(w.root, Path(e.Path))
	if isAbsent(err) {
		return false, nil
	}
	return err == nil && seed.NewEntry(e.Path, st, e.Target).Same(*e), err
}

// versionIn reads the version of a file or link of the workspace; a zero one if there is neither.
func (r *Reviews) versionIn(ctx context.Context, p Path) (Version, error) {
	v, _, err := readVersion(ctx, r.ws.root, p, r.store.hashing())
	if isAbsent(err) || (err == nil && v.Type != rootfs.TypeFile && v.Type != rootfs.TypeSymlink) {
		return Version{}, nil
	}
	if errors.Is(err, errUnstable) { // the hash is of what was read: describe finds that the content is another one
		err = nil
	}
	return v, err
}

// snapshotSide is the content of a snapshot. It owns the view.
func (r *Reviews) snapshotSide(ctx context.Context, q Query, view SnapshotView) (*otherSide, error) {
	q.Context += "@" + q.Against.Snapshot
	b, err := r.baseOf(view.Origin, &state{})
	if err != nil {
		return nil, errors.Join(err, view.Root.Close())
	}
	b.closers = append(b.closers, view.Root.Close)
	side := &otherSide{base: b}
	diffs, err := r.compare(ctx, q, view.Origin, b, view.Root, nil)
	if err == nil {
		err = view.Check()
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	side.hold(diffs)
	b.elsewhere = func(e entry) (io.ReadCloser, error) { return openIn(view.Root, e) }
	return side, nil
}

// contextSide is what another context holds.
func (r *Reviews) contextSide(ctx context.Context, q Query) (*otherSide, error) {
	q.Context = q.Against.Context
	o, err := r.cfg.Contexts.Origin(ctx, q.Context)
	if err != nil {
		return nil, err
	}
	diffs, err := r.differences(ctx, q, o, &state{})
	if err != nil {
		return nil, err
	}
	b, err := r.baseOf(o, &state{})
	if err != nil {
		return nil, err
	}
	side := &otherSide{base: b}
	side.hold(diffs)
	b.elsewhere = func(e entry) (io.ReadCloser, error) {
		var data []byte
		err := r.cfg.Contexts.Reading(ctx, q.Context, func(_ context.Context, root rootfs.Root) (err error) {
			data, err = whole(e.path, e.Version, func() (io.ReadCloser, error) { return openIn(root, e) })
			return err
		})
		return io.NopCloser(bytes.NewReader(data)), err
	}
	return side, nil
}

// openIn opens an entry's content in a tree. It fails with errUnstable if there is no such file or link anymore.
func openIn(root rootfs.Root, e entry) (io.ReadCloser, error) {
	content, err := openerIn(root, Difference{Path: e.path, After: e.Version})()
	if isAbsent(err) {
		err = errUnstable
	}
	return content, err
}

// hold makes the differences between a tree and its layer a part of the side.
func (o *otherSide) hold(diffs []Difference) {
	o.overrides, o.beside = after(diffs, nil)
	o.sorted = nil
}

// after returns what a tree has that differs so from a base with these overrides: overrides for its files and links, and what else there is.
func after(diffs []Difference, overrides map[Path]Version) (versions map[Path]Version, beside map[Path]Difference) {
	versions, beside = map[Path]Version{}, map[Path]Difference{}
	for p, v := range overrides {
		versions[p] = v
	}
	for _, d := range diffs {
		if d.Barred != "" || d.Tree != nil {
			beside[d.Path] = d
		} else {
			versions[d.Path] = d.After
		}
	}
	return versions, beside
}
