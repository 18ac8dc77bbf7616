package review

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// RebaseRequest says what Rebase rebases, and how.
type RebaseRequest struct {
	Context    string
	OnConflict OnConflict
	// Paths bound it, with what is below them; none means all.
	Paths  []Path
	DryRun bool
	Actor  string
}

// Rebased is what Rebase did.
type Rebased struct {
	// Entry has no ID if nothing was done.
	*Entry
	// Conflicts are those that were recorded, and those that an earlier Rebase recorded.
	Conflicts []RecordedConflict
}

// Files lists what was done to the paths without a recorded conflict.
func (out *Rebased) Files() []AppliedFile {
	var files []AppliedFile
	for i, f := range out.Entry.Files() {
		if out.Steps[i].Unresolved == nil {
			files = append(files, f)
		}
	}
	return files
}

// Rebase brings into a context what the workspace changed since the base: all of it, or nothing.
func (r *Reviews) Rebase(ctx context.Context, req RebaseRequest) (*Rebased, error) {
	unlock, err := r.lock(ctx, req.Context)
	if err != nil {
		return nil, err
	}
	defer unlock()
	st, err := r.states.read(req.Context)
	if err != nil {
		return nil, err
	}
	moved, err := r.moved(ctx, st, req)
	if err != nil {
		return nil, err
	}
	out := &Rebased{Entry: &Entry{Kind: EntryRebase, Context: req.Context, Actor: req.Actor, InContext: true, MovesBase: true}}
	if moved, err = out.skipUnresolved(st, moved, req); err != nil || len(moved) == 0 {
		return out, err
	}
	err = r.exchange(ctx, out.Entry, req.DryRun, func(ctx context.Context, w *workspace) error {
		out.Steps = slices.Clone(moved)
		return w.planRebase(ctx, out.Entry, req.OnConflict)
	})
	if err != nil {
		return nil, err
	}
	for _, s := range out.Steps {
		if s.Unresolved != nil {
			out.Conflicts = append(out.Conflicts, RecordedConflict{s.Path, s.Unresolved})
		}
	}
	sortConflicts(out.Conflicts)
	if !req.DryRun {
		r.tell(req.Context, Event{Kind: EventRebased, Journal: out.ID})
	}
	return out, nil
}

// skipUnresolved leaves out the paths that have a recorded conflict, unless the request resolves conflicts.
func (out *Rebased) skipUnresolved(st *state, moved []step, req RebaseRequest) (rest []step, err error) {
	resolves := req.OnConflict == KeepContext || req.OnConflict == TakeWorkspace
	taken := map[Path]bool{}
	for _, s := range moved {
		s.WasUnresolved = st.Conflicts[s.Path]
		if s.WasUnresolved == nil || resolves {
			taken[s.Path] = true
			rest = append(rest, s)
		}
	}
	var open []Path
	for _, c := range st.conflicts() {
		if !taken[c.Path] && isInScope(c.Path, req.Paths) {
			open = append(open, c.Path)
			out.Conflicts = append(out.Conflicts, c)
		}
	}
	if req.OnConflict == RefuseConflicts && len(open) > 0 {
		return nil, refuse(IsUnresolved, open, "an earlier rebase recorded conflicts that are not resolved", resolveHint)
	}
	return rest, nil
}

func isInScope(p Path, scope []Path) bool {
	return len(scope) == 0 || slices.ContainsFunc(scope, func(dir Path) bool { return isWithin(p, dir) })
}

// moved returns a step for each path at which the workspace differs from the base. The contents of both are in the store.
func (r *Reviews) moved(ctx context.Context, st *state, req RebaseRequest) (steps []step, err error) {
	origin, err := r.cfg.Contexts.Origin(ctx, req.Context)
	if err != nil {
		return nil, err
	}
	if origin.Manifest != nil && origin.Manifest.Template != "" {
		return nil, &fserr.Error{
			Code: fserr.EINVAL, Kind: fserr.KindContext, Detail: "the context was made from a template, so that its files are not those of the workspace",
			Hint: "open a new context of the template",
		}
	}
	b, err := r.baseOf(origin, st)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, (&List{base: b}).Close()) }()
	scan, err := r.cfg.Contexts.Workspace(ctx, req.Context)
	if err != nil {
		return nil, err
	}
	if err := r.checkIdle(ctx, scan.Repos); err != nil {
		return nil, err
	}
	m := &movement{reviews: r, context: req.Context, base: b, scope: req.Paths, listed: map[Path]bool{}, state: st}
	if err := m.changed(ctx, scan.Entries); err != nil {
		return nil, err
	}
	if err := m.removed(ctx); err != nil {
		return nil, err
	}
	if len(m.unstable) > 0 {
		return nil, conflicting("nothing was done: a program changes these files of the workspace", m.unstable)
	}
	// A checkout that began meanwhile may have changed some of the files.
	return m.steps, r.checkIdle(ctx, scan.Repos)
}

// checkIdle fails with RepositoryBusy if a git command changes the working tree of one of the repositories.
func (r *Reviews) checkIdle(ctx context.Context, repos []string) error {
	var busy []Path
	for _, repo := range slices.Compact(slices.Sorted(slices.Values(repos))) {
		dotGit, err := r.ws.root.Lstat(path.Join(repo, ".git"))
		if err != nil {
			continue // it was removed
		}
		if r.isLocked(ctx, repo, dotGit.IsDir()) {
			busy = append(busy, Path(repo))
		}
	}
	if len(busy) == 0 {
		return nil
	}
	return refuse(RepositoryBusy, busy, "a git command is at work in a repository", "wait until it ends; if none runs, remove its index.lock")
}

// isLocked reports whether the index of a repository is locked. It asks git where the index of a linked working tree is. If git cannot read the
// repository, no git command changes its files.
func (r *Reviews) isLocked(ctx context.Context, repo string, ownsGit bool) bool {
	if ownsGit {
		_, err := r.ws.root.Lstat(path.Join(repo, ".git", "index.lock"))
		return err == nil
	}
	locked, err := git.IsLocked(ctx, filepath.Join(r.cfg.Workspace, filepath.FromSlash(repo)))
	if err != nil {
		r.cfg.Log.Debug("git could not read a repository", zap.String("repository", repo), zap.Error(err))
	}
	return locked
}

// movement finds where the workspace differs from a base.
type movement struct {
	reviews *Reviews
	context string
	base    *base
	scope   []Path
	// listed are the files and links of the workspace that a seeding would copy.
	listed map[Path]bool
	// state says where the base is not what the workspace had: Pulled and Behind.
	state *state
	// merged is Reviews.merged's, nil until it is needed.
	merged   map[Path]bool
	steps    []step
	unstable []Conflict
	// savesUntil is until when programs are waited for that save files, once that has begun.
	savesUntil time.Time
}

// changed compares the files of a scan with the base. It reads those whose attributes are not the ones of the base's.
func (m *movement) changed(ctx context.Context, entries []seed.Entry) error {
	for i := range entries {
		e := &entries[i]
		p := Path(e.Path)
		if e.Type == rootfs.TypeDirectory {
			continue
		}
		m.listed[p] = true
		was := m.base.lookup(p)
		same := was.index >= 0 && m.base.manifest.Entries[was.index].Same(*e)
		if same || !isInScope(p, m.scope) || BarredName(p) != "" || e.Mode&setIDs != 0 || !m.follows(p) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.compare(ctx, was); err != nil {
			return fserr.Wrap(err, "rebase", "/"+e.Path, "")
		}
	}
	return nil
}

// follows reports whether the context takes a path of the workspace. One that started empty takes only what was applied from it.
func (m *movement) follows(p Path) bool {
	_, applied := m.base.overrides[p]
	return applied || m.base.manifest != nil
}

// removed finds the files of the base that the workspace does not have any more. One that seeding leaves out now stays.
func (m *movement) removed(ctx context.Context) error {
	for was := range m.base.below("") {
		if err := m.removedOne(ctx, was); err != nil {
			return err
		}
	}
	for p := range m.state.Behind {
		if was := m.base.lookup(p); !was.Exists() { // a branch does not have it any more, and the workspace may not either
			if err := m.removedOne(ctx, was); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(m.steps, func(a, b step) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return nil
}

// removedOne adds a step if the workspace had a path, and does not have it any more.
func (m *movement) removedOne(ctx context.Context, was entry) error {
	if m.listed[was.path] || !isInScope(was.path, m.scope) || BarredName(was.path) != "" {
		return nil
	}
	pulled := m.state.Pulled[was.path] != nil && !m.base.seeded(was.path).Exists()
	if behind, ok := m.state.Behind[was.path]; pulled || ok && !behind.Exists() {
		return nil // the workspace never had it
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !below(was.path, m.listed) {
		st, err := lstat(m.reviews.ws.root, was.path)
		if err == nil && !st.IsDir() || err != nil && !isAbsent(err) {
			return nil
		}
	}
	return fserr.Wrap(m.add(ctx, was, Version{}), "rebase", "/"+string(was.path), "")
}

// compare reads a file of the workspace, and adds a step if it is not what the workspace got of the base last.
func (m *movement) compare(ctx context.Context, was entry) error {
	before, err := m.base.version(ctx, was)
	if err != nil {
		return err
	}
	now, _, err := readVersion(ctx, m.reviews.ws.root, was.path, m.reviews.store.hashing())
	if err == nil && now.Same(m.state.workspaceBase(was.path, before)) {
		return nil
	}
	if err == nil && m.state.Pulled[was.path] != nil {
		var seeded Version
		if seeded, err = m.base.version(ctx, m.base.seeded(was.path)); err == nil && now.Same(seeded) {
			return nil
		}
	}
	if err == nil {
		now, err = m.saved(ctx, was.path)
	}
	if errors.Is(err, errUnstable) || isAbsent(err) {
		m.unstable = append(m.unstable, Conflict{was.path, ConflictChangedMeanwhile})
		return nil
	}
	if err != nil {
		return err
	}
	return m.add(ctx, was, now)
}

// saved reads a file of the workspace into the store. It waits a moment for a program that is saving the file, and fails with errUnstable if that does not
// end: until then the file may be empty, or have a part of its content.
func (m *movement) saved(ctx context.Context, p Path) (Version, error) {
	root := m.reviews.ws.root
	for {
		v, st, err := readVersion(ctx, root, p, m.reviews.store.keeping())
		if err != nil || v.Type != rootfs.TypeFile {
			return v, err
		}
		saving, err := isBeingSaved(root, p, st)
		if err != nil || !saving {
			return v, err
		}
		m.reviews.point("being saved")
		if m.savesUntil.IsZero() {
			m.savesUntil = time.Now().Add(writersWait)
		}
		if time.Now().After(m.savesUntil) {
			return v, errUnstable
		}
		select {
		case <-time.After(writersPoll):
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
}

// isBeingSaved reports whether a program wrote to a file a moment ago and still has it open for writing, where the system can say that. It reports
// true as well if the file is not the one that was read.
func isBeingSaved(root rootfs.Root, p Path, read rootfs.Stat) (bool, error) {
	f, st, err := root.OpenNoFollow(string(p), rootfs.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	has, err := tree.HasWriter(f)
	if err != nil && fserr.CodeOf(err) != fserr.EOPNOTSUPP {
		return false, err
	}
	// A program that has closed the file by now has changed its time.
	if after, err := f.Stat(); err != nil || after.CtimeNs != read.CtimeNs || st.Ino != read.Ino {
		return true, err
	}
	return has && time.Since(time.Unix(0, read.CtimeNs)) < writersWait, nil
}

// add adds the step from the base's version, or from what the workspace got of it last, to the workspace's.
func (m *movement) add(ctx context.Context, was entry, now Version) error {
	before, err := m.keep(ctx, was)
	if err != nil {
		return err
	}
	s := step{Path: was.path, from: before, to: now, BaseBefore: before, BaseAfter: now}
	if behind, ok := m.state.Behind[was.path]; ok {
		s.WasBehind = &behind
		if has, err := m.hasBranch(ctx, was.path, now, before); err != nil {
			return err
		} else if !has {
			s.from = behind
		}
	}
	m.steps = append(m.steps, s)
	return nil
}

// hasBranch reports whether the workspace got the base at a path of state.Behind, where it has now: as it is, or by a merge
// of the branch.
func (m *movement) hasBranch(ctx context.Context, p Path, now, base Version) (has bool, err error) {
	if now.Same(base) {
		return true, nil
	}
	if m.merged == nil {
		m.merged, err = m.reviews.merged(ctx, m.context, m.state)
	}
	return m.merged[p], err
}

// keep returns the base's version, whose content it puts into the store.
func (m *movement) keep(ctx context.Context, was entry) (Version, error) {
	before, err := m.base.version(ctx, was)
	if err != nil || !before.Exists() || m.reviews.store.has(ctx, before.Hash) {
		return before, err
	}
	content, err := m.base.open(was)
	if err != nil {
		return before, err
	}
	_, _, err = m.reviews.store.Put(ctx, content)
	return before, errors.Join(err, content.Close())
}

// exchange plans an entry's steps in its context and takes them: all or none. Then it moves the base. plan is called twice: while the context is in
// use, so that the merges are known, and then while nothing changes it.
func (r *Reviews) exchange(ctx context.Context, e *Entry, dryRun bool, plan func(ctx context.Context, w *workspace) error) error {
	merges := r.ws.knowing()
	in := func(root rootfs.Root) *workspace { return &workspace{root: root, store: r.store, merger: merges} }
	first := newBeside(besideTries)
	err := r.reading(ctx, e.Context, first, func(ctx context.Context, root rootfs.Root) error { return plan(ctx, in(root)) })
	if err != nil || dryRun {
		return err
	}
	free, err := r.lockWorkspace(ctx)
	if err != nil {
		return err
	}
	defer free()
	return r.replacing(ctx, e.Context, first.only(), func(planning context.Context, root rootfs.Root, charge Charge) error {
		w := in(root)
		if err := r.putBackIn(ctx, w, e.Context); err != nil {
			return err
		}
		if err := plan(planning, w); err != nil {
			return err
		}
		if err := charge(spaceOf(e.Steps)); err != nil {
			return err
		}
		return r.take(ctx, w, e, &drafts{r: r})
	})
}

// spaceOf returns the bytes and entries that steps add at most.
func spaceOf(steps []step) (bytes, entries int64) {
	for i := range steps {
		if s := &steps[i]; s.After.Exists() && s.did() != Unchanged {
			bytes += s.After.Size
			entries++
		}
	}
	return bytes, entries
}

// putBackIn puts back what killed servers had begun in a context.
func (r *Reviews) putBackIn(ctx context.Context, w *workspace, id string) error {
	begun, err := r.journal.ids(intentSuffix)
	if err != nil {
		return err
	}
	for _, n := range begun {
		e, err := r.journal.read(n, intentSuffix)
		if err == nil && e.MovesBase && e.Context == id {
			err = r.putBack(ctx, w, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inContextOf calls f with the context of an entry.
func (r *Reviews) inContextOf(ctx context.Context, e *Entry, f func(w *workspace) error) error {
	return r.cfg.Contexts.Replacing(ctx, e.Context, func(root rootfs.Root, _ Charge) error {
		return f(r.workspaceIn(root))
	})
}

// putBackLater puts back what a killed server had begun in a context. If the context cannot be opened, the next call that changes it does so.
func (r *Reviews) putBackLater(ctx context.Context, e *Entry) error {
	err := r.inContextOf(ctx, e, func(w *workspace) error { return r.putBack(ctx, w, e) })
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case fserr.CodeOf(err) == fserr.ESTALE:
		return r.journal.abandon(e) // the context is gone
	}
	r.cfg.Log.Warn("an interrupted rebase is put back later", zap.Int64("entry", e.ID), zap.String("context", e.Context), zap.Error(err))
	return nil
}

// sweepRebased removes what a rebase replaced, unless the server had come as far as moving the base.
func (r *Reviews) sweepRebased(ctx context.Context, e *Entry) error {
	st, err := r.states.read(e.Context)
	if err != nil || st.Journal >= e.ID {
		return err
	}
	err = r.inContextOf(ctx, e, func(w *workspace) error { return errors.Join(w.sweep(ctx, e.Steps), r.closeDone(w, e)) })
	if err != nil && fserr.CodeOf(err) != fserr.ESTALE { // the context is gone
		r.cfg.Log.Warn("what a rebase replaced could not be removed", zap.Int64("entry", e.ID), zap.Error(err))
	}
	return nil
}
