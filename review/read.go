package review

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Which names a version of a file.
type Which int

// The versions, in the order of the proto's.
const (
	OfBase Which = iota + 1
	OfContext
	OfWorkspace
	OfApproved
	OfMerged
	OfConflictContext
	OfConflictWorkspace
)

// Read calls use with one version of a file as a whole, and its content. It fails with ENOENT if the version does not exist.
func (r *Reviews) Read(ctx context.Context, id string, p Path, which Which, use func(ctx context.Context, v Version, content io.Reader) error) (err error) {
	switch which {
	case OfBase, OfApproved:
		return r.readReviewed(ctx, id, p, which, use)
	case OfMerged, OfConflictContext, OfConflictWorkspace:
		return r.readConflict(ctx, id, p, which, use)
	case OfContext:
		return r.cfg.Contexts.Beside(ctx, id, func(ctx context.Context, root rootfs.Root) error { return readTree(ctx, root, p, use) })
	case OfWorkspace:
		if BarredName(p) != "" {
			return noVersion(p)
		}
		return readTree(ctx, r.ws.root, p, use)
	}
	return &fserr.Error{Code: fserr.EINVAL, Detail: "unknown version"}
}

// Concerns reports whether a path is part of the review of a context: a change that is not barred, or one that was decided on.
func (r *Reviews) Concerns(ctx context.Context, id string, p Path) (bool, error) {
	l, err := r.Changes(ctx, Query{Context: id, Paths: []Path{p}, Ignored: true})
	if err != nil {
		return false, err
	}
	is := l.state.Decided[p] != nil || slices.ContainsFunc(l.Changes, func(c *Change) bool { return c.Path == p && c.Barred == "" })
	return is, l.Close()
}

func noVersion(p Path) error {
	return &fserr.Error{Code: fserr.ENOENT, Op: "read", Path: "/" + string(p)}
}

func readTree(ctx context.Context, root rootfs.Root, p Path, use func(ctx context.Context, v Version, content io.Reader) error) error {
	v, _, err := readVersion(ctx, root, p, reader{read: func(context.Context, io.Reader) (string, int64, error) { return "", 0, nil }})
	if isAbsent(err) {
		return noVersion(p)
	}
	if err == nil && v.Type != rootfs.TypeFile && v.Type != rootfs.TypeSymlink {
		err = &fserr.Error{Code: fserr.EINVAL, Op: "read", Path: "/" + string(p), Detail: "it is neither a file nor a link"}
	}
	if err != nil && !errors.Is(err, errUnstable) {
		return err
	}
	content, err := openerIn(root, Difference{Path: p, After: v})()
	if err != nil {
		return err
	}
	return errors.Join(use(ctx, v, content), content.Close())
}

// readReviewed reads the base's version, or the approved one.
func (r *Reviews) readReviewed(ctx context.Context, id string, p Path, which Which, use func(ctx context.Context, v Version, content io.Reader) error) (err error) {
	release := r.Hold() // what is approved may be a text that only this call has put
	defer release()
	st, err := r.states.read(id)
	if err != nil {
		return err
	}
	if d := st.Decided[p]; which == OfApproved && d != nil {
		v, ok, err := r.approved(p, d)
		switch {
		case err != nil:
			return err
		case ok && !v.Exists():
			return noVersion(p)
		case ok:
			r.point("approved found")
			f, err := r.store.content(v)
			if err != nil {
				return err
			}
			release() // the caller may read slowly
			return errors.Join(use(ctx, v, f), f.Close())
		}
	}
	origin, err := r.cfg.Contexts.Origin(ctx, id)
	if err != nil {
		return err
	}
	b, err := r.baseOf(origin, st)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	e := b.lookup(p)
	if !e.Exists() {
		return noVersion(p)
	}
	content, err := b.open(e)
	if err != nil {
		return err
	}
	release()
	return errors.Join(use(ctx, e.Version, content), content.Close())
}

// Patch writes a change as text that git apply accepts, with so many context lines. It fails as Text does.
func (r *Reviews) Patch(ctx context.Context, l *List, c *Change, lines int, out io.Writer) (err error) {
	defer func() { err = c.changedSince(err) }()
	before := func() (io.ReadCloser, error) { return l.base.open(l.base.lookup(c.Path)) }
	if c.Barred != "" || c.Tree != nil || c.Unstable {
		return nil
	}
	if c.Text != nil {
		d, err := r.Text(ctx, l, c)
		if err != nil {
			return err
		}
		return c.writeText(out, l.shown(c), d, lines)
	}
	if err := l.room.show(ctx, patchCopies*(min(c.Before.Size, maxPatched)+min(c.After.Size, maxPatched))); err != nil {
		return err
	}
	if !c.After.Exists() || c.Kind == ModeChanged {
		return c.patch(out, l.shown(c), before, before, lines)
	}
	if l.stored {
		return c.patch(out, l.shown(c), before, r.store.opener(c.After), lines)
	}
	var now []byte
	err = r.cfg.Contexts.Reading(ctx, l.context, func(_ context.Context, root rootfs.Root) error {
		data, err := whole(c.Path, c.After, openerIn(root, c.Difference))
		now = data
		return err
	})
	if err != nil {
		return err
	}
	return c.patch(out, l.shown(c), before, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(now)), nil }, lines)
}
