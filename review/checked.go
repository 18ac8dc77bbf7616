package review

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Plan returns what Apply would do, for Place and for ApplyRequest.Checked, or the entry of an earlier call with the
// RequestID. The contents of the plan, such as merges, are kept until release is called.
func (r *Reviews) Plan(ctx context.Context, req ApplyRequest) (e *Entry, release func(), err error) {
	req.DryRun = true
	release = r.Hold()
	if e, err = r.Apply(ctx, req); err != nil {
		release()
		return nil, nil, err
	}
	return e, release, nil
}

// Place makes a fork of an entry's context what the workspace will hold after the entry, which is the result of Plan.
// Ignored directories stay as the fork has them.
func (r *Reviews) Place(ctx context.Context, fork string, e *Entry) error {
	if e.Target == ToBranch {
		return fserr.Invalid("an apply to a branch changes no file that a check could read")
	}
	unlock, err := r.lock(ctx, fork)
	if err != nil {
		return err
	}
	defer unlock()
	if e.tree, err = r.treeOf(ctx, e.Context); err != nil {
		return err
	}
	steps, err := r.toPlace(ctx, fork, e)
	if err != nil {
		return err
	}
	return r.changing(ctx, fork, newBeside(besideTries), func(inContext context.Context, root rootfs.Root, _ Charge) error {
		w := r.workspaceIn(root)
		for i := range steps {
			if steps[i].Before, err = w.keepNow(inContext, "check", steps[i].Path); err != nil {
				return err
			}
		}
		for _, s := range removalsFirst(steps) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := w.writeInPlace(s); err != nil {
				return fserr.Wrap(err, "check", "/"+string(s.Path), "")
			}
		}
		return nil
	})
}

// toPlace lists the paths of an entry, and those at which a fork differs from the workspace, with what the workspace will hold there.
func (r *Reviews) toPlace(ctx context.Context, fork string, e *Entry) ([]step, error) {
	want := map[Path]Version{}
	for _, s := range e.Steps {
		want[s.Path] = s.After
	}
	others, err := r.differing(ctx, fork)
	if err != nil {
		return nil, err
	}
	for _, p := range others {
		if _, ok := want[p]; ok {
			continue
		}
		v, err := r.ws.keepNow(ctx, "check", p)
		if err != nil {
			return nil, err
		}
		if v.Type == rootfs.TypeDirectory { // there is no file
			v = Version{}
		}
		want[p] = v
	}
	steps := make([]step, 0, len(want))
	for _, p := range slices.Sorted(maps.Keys(want)) {
		steps = append(steps, step{Path: p, After: want[p]})
	}
	return steps, nil
}

// differing lists paths at which a context may differ from the workspace: those that the base or the context has, and those that a seeding
// would copy now.
func (r *Reviews) differing(ctx context.Context, id string) ([]Path, error) {
	l, err := r.against(ctx, Query{Context: id, Against: Against{Workspace: true}})
	if err != nil {
		return nil, err
	}
	var out []Path
	for _, c := range l.Changes {
		if c.Barred == "" && c.Tree == nil {
			out = append(out, c.Path)
		}
	}
	origin, err := r.cfg.Contexts.Origin(ctx, id)
	if err = errors.Join(err, l.Close()); err != nil || origin.Manifest == nil || origin.Manifest.Template != "" {
		return out, err
	}
	scan, err := r.cfg.Contexts.Workspace(ctx, id)
	if err != nil {
		return nil, err
	}
	layer := &base{manifest: origin.Manifest}
	for _, e := range scan.Entries {
		if !layer.lookup(Path(e.Path)).Exists() && (e.Type == rootfs.TypeFile || e.Type == rootfs.TypeSymlink) {
			out = append(out, Path(e.Path))
		}
	}
	return out, nil
}

// treeOf names what the workspace holds of the files that a context gets. A file counts as the same by its inode, size, time and mode.
func (r *Reviews) treeOf(ctx context.Context, id string) (string, error) {
	scan, err := r.cfg.Contexts.Workspace(ctx, id)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, e := range scan.Entries {
		if e.Type == rootfs.TypeDirectory {
			e.MtimeNs = 0 // programs make and remove files of their own
		}
		_, _ = fmt.Fprintf(sum, "%q %v %o %d %d %d %d %q\n", e.Path, e.Type, e.Mode, e.Size, e.MtimeNs, e.Ino, e.Dev, e.Target) // a hash does not fail
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// checkExpected refuses an entry whose plan is another one than that of the entry which was checked, and one for whose checks the workspace had other files.
func (r *Reviews) checkExpected(ctx context.Context, e *Entry) error {
	if e.expected == nil {
		return nil
	}
	tree := ""
	if e.tree != "" {
		var err error
		if tree, err = r.treeOf(ctx, e.Context); err != nil {
			return err
		}
	}
	same := tree == e.tree && slices.EqualFunc(e.expected, e.Steps, func(a, b step) bool { return a.Path == b.Path && a.Before.Same(b.Before) && a.After.Same(b.After) })
	if same {
		return nil
	}
	return refuse(StaleRevision, nil, "nothing was applied: the workspace, or what is approved, changed while the checks ran", "run the checks again")
}
