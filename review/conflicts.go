package review

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// OnConflict says what Rebase does with a path that cannot be merged.
type OnConflict int

// What can be done with a conflict, in the order of the proto's.
const (
	RefuseConflicts OnConflict = iota
	RecordConflicts
	WriteMarkers
	KeepContext
	TakeWorkspace
)

// Side is a version of a recorded conflict.
type Side int

// The sides, in the order of the proto's.
const (
	SideContext Side = iota + 1
	SideWorkspace
	SideBase
	// SideContent is none of them, but the content of the Resolution.
	SideContent
)

// Resolution says what Resolve makes the context's file.
type Resolution struct {
	Side Side
	// Content is for SideContent.
	Content []byte
	// IfHash, if not "", must be the hash of the context's file.
	IfHash string
}

// Unresolved is a conflict that Rebase recorded. The contents of its versions are in the store.
type Unresolved struct {
	Kind      ConflictKind `json:"kind"`
	Base      Version      `json:"base"`
	Context   Version      `json:"context"`
	Workspace Version      `json:"workspace"`
	// Marked is the hash of the file that was written with markers, "" for none.
	Marked string    `json:"marked,omitempty"`
	At     time.Time `json:"at"`
}

// RecordedConflict is a path with its conflict.
type RecordedConflict struct {
	Path Path
	*Unresolved
}

// use adds the contents that the conflict refers to.
func (u *Unresolved) use(used map[string]bool) {
	if u != nil {
		used[u.Base.Hash], used[u.Context.Hash], used[u.Workspace.Hash] = true, true, true
	}
}

const resolveHint = "'ctxfs conflicts' lists them, and 'ctxfs resolve' resolves them"

// conflicts lists the recorded conflicts, by path.
func (st *state) conflicts() []RecordedConflict {
	var out []RecordedConflict
	for p, u := range st.Conflicts {
		out = append(out, RecordedConflict{p, u})
	}
	sortConflicts(out)
	return out
}

func sortConflicts(list []RecordedConflict) {
	slices.SortFunc(list, func(a, b RecordedConflict) int { return strings.Compare(string(a.Path), string(b.Path)) })
}

// recordConflict makes the conflict of a path what a step says.
func (st *state) recordConflict(s step) {
	if s.Unresolved == nil {
		delete(st.Conflicts, s.Path)
		return
	}
	if st.Conflicts == nil {
		st.Conflicts = map[Path]*Unresolved{}
	}
	st.Conflicts[s.Path] = s.Unresolved
}

// checkResolved refuses to apply paths that have a recorded conflict.
func (r *Reviews) checkResolved(id string, steps []step) error {
	st, err := r.states.read(id)
	if err != nil {
		return err
	}
	var open []Path
	for _, s := range steps {
		if st.Conflicts[s.Path] != nil {
			open = append(open, s.Path)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return refuse(IsUnresolved, open, "a rebase recorded conflicts that are not resolved", resolveHint+"; or leave these paths out of the selection")
}

// planRebase plans the steps of a Rebase, and does with conflicts what the caller asked for.
func (w *workspace) planRebase(ctx context.Context, e *Entry, how OnConflict) error {
	if how == TakeWorkspace {
		if err := w.clear(ctx, e); err != nil {
			return err
		}
	}
	left, err := w.planSettled(ctx, e.Steps, "rebase", func(s *step, kind ConflictKind) (bool, error) {
		if how == RefuseConflicts {
			return false, nil
		}
		return w.settleConflict(ctx, s, kind, how)
	})
	if err != nil || len(left) == 0 {
		return err
	}
	refused := conflicting("nothing was done: the context and the workspace changed these files", left)
	if refused.Hint == "" {
		refused.Hint = "'ctxfs rebase --on-conflict' records them, or decides for one side"
	}
	return refused
}

// clear adds steps to an entry that remove what stands where its steps make files: the files of a directory, or a file where a directory is needed.
func (w *workspace) clear(ctx context.Context, e *Entry) error {
	conflicts, err := w.plan(ctx, e.Steps, false)
	if err != nil {
		return err
	}
	known := map[Path]int{}
	for i, s := range e.Steps {
		known[s.Path] = i
	}
	remove := func(p Path) error {
		now, err := w.keepNow(ctx, "rebase", p)
		if err != nil {
			return err
		}
		if i, ok := known[p]; ok {
			e.Steps[i].from = now // what the context made of it goes as well
			return nil
		}
		known[p] = len(e.Steps)
		e.Steps = append(e.Steps, step{Path: p, from: now, Apart: true})
		return nil
	}
	for _, c := range conflicts {
		s := e.Steps[known[c.Path]]
		if !s.to.Exists() {
			continue
		}
		if p, is := w.inTheWay(c.Path); is {
			err = remove(p)
		} else if s.Before.Type == rootfs.TypeDirectory {
			err = w.root.Walk(ctx, "/"+string(c.Path), tree.WalkOptions{}, func(rel string, f rootfs.Entry, err error) error {
				if err == nil && f.Type != rootfs.TypeDirectory {
					err = remove(c.Path + "/" + Path(rel))
				}
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepNow is Store.keep for a call that needs the file: if a program changes it meanwhile, the refusal names it. op is for errors.
func (w *workspace) keepNow(ctx context.Context, op string, p Path) (Version, error) {
	v, _, err := w.store.keep(ctx, w.root, p)
	if errors.Is(err, errUnstable) {
		return v, conflicting("nothing was done: a program changes the file", []Conflict{{p, ConflictChangedMeanwhile}})
	}
	return v, fserr.Wrap(err, op, "/"+string(p), "")
}

// planSettled plans steps that bring something into a context. settle completes a step that conflicts, and returns false if it cannot. op is for
// errors. The result are the conflicts that are left.
func (w *workspace) planSettled(ctx context.Context, steps []step, op string, settle func(s *step, kind ConflictKind) (bool, error)) ([]Conflict, error) {
	conflicts, err := w.plan(ctx, steps, false)
	if err != nil {
		return nil, err
	}
	kinds := map[Path]ConflictKind{}
	for _, c := range conflicts {
		kinds[c.Path] = fromContext(c.Kind)
	}
	var left []Conflict
	for i := range steps {
		kind, conflicts := kinds[steps[i].Path]
		if !conflicts {
			continue
		}
		settled := false
		if kind != ConflictChangedMeanwhile && w.isBeingSaved(&steps[i]) {
			kind = ConflictChangedMeanwhile // it may have been read empty, or in part
		}
		if kind != ConflictChangedMeanwhile {
			if settled, err = settle(&steps[i], kind); err != nil {
				return nil, fserr.Wrap(err, op, "/"+string(steps[i].Path), "")
			}
		}
		if !settled {
			left = append(left, Conflict{steps[i].Path, kind})
		}
	}
	return left, nil
}

// isBeingSaved reports whether a program writes to a step's file, or has changed it since it was read.
func (w *workspace) isBeingSaved(s *step) bool {
	if s.Before.Type != rootfs.TypeFile {
		return false
	}
	f, st, err := w.root.OpenNoFollow(string(s.Path), rootfs.O_RDONLY)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }() // it was only read
	has, err := tree.HasWriter(f)
	return seenOf(st) != s.seen || err == nil && has && time.Since(time.Unix(0, st.MtimeNs)) < writersWait
}

// fromContext returns the kind of a conflict in whose merge the workspace's version was the one to be had, and not the context's.
func fromContext(kind ConflictKind) ConflictKind {
	switch kind {
	case ConflictModifyDelete:
		return ConflictDeleteModify
	case ConflictDeleteModify:
		return ConflictModifyDelete
	}
	return kind
}

// settleConflict completes a step that conflicts. It returns false if the conflict cannot be settled in this way.
func (w *workspace) settleConflict(ctx context.Context, s *step, kind ConflictKind, how OnConflict) (bool, error) {
	s.After = s.Before
	switch {
	case how == RecordConflicts || how == WriteMarkers:
		s.BaseAfter, s.Behind = s.BaseBefore, s.WasBehind
		s.Unresolved = &Unresolved{Kind: kind, Base: s.from, Context: s.Before, Workspace: s.to}
		if how != WriteMarkers || (kind != ConflictContent && kind != ConflictAddAdd) {
			return true, nil
		}
		marked, err := w.writeMarkers(ctx, s, "workspace")
		if marked {
			s.Unresolved.Marked = s.After.Hash
		}
		return true, err
	case kind == ConflictContent && s.WasUnresolved == nil:
		return true, w.favour(ctx, s, how)
	case how == TakeWorkspace && s.Before.Type == rootfs.TypeDirectory && !s.to.Exists():
		s.Before, s.After = Version{}, Version{} // the file is gone, and the directory is not of the step
	case how == TakeWorkspace:
		s.After = s.to
	}
	return true, nil
}

// texts reads three versions, and reports whether all are texts that can be merged.
func (w *workspace) texts(versions ...Version) (out [3][]byte, ok bool, err error) {
	for i, v := range versions {
		if v.Size > MaxText || (v.Exists() && v.Type != rootfs.TypeFile) {
			return out, false, nil
		}
		if out[i], err = w.store.text(v); err != nil || !isText(out[i]) {
			return out, false, err
		}
	}
	return out, true, nil
}

// marked merges the versions of a conflict with markers; it returns nil if they are not texts, or too large ones. theirs names the side that is not the context.
func (w *workspace) marked(ctx context.Context, u *Unresolved, theirs string) ([]byte, error) {
	texts, ok, err := w.texts(u.Base, u.Context, u.Workspace)
	if err != nil || !ok {
		return nil, err
	}
	done, err := forMerge(ctx, texts)
	if errors.Is(err, errTooLarge) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer done()
	w.merges()
	return git.MergeMarked(ctx, w.scratch, texts[0], texts[1], texts[2], [3]string{"context", "base", theirs})
}

// writeMarkers makes a step's file the merge with markers. It returns false if the versions are not texts.
func (w *workspace) writeMarkers(ctx context.Context, s *step, theirs string) (bool, error) {
	m := merge3{base: s.from, now: s.Before, want: s.to}
	k, err := w.once(merging{m, "markers of " + theirs}, func() (mergeResult, error) {
		text, err := w.marked(ctx, &Unresolved{Base: s.from, Context: s.Before, Workspace: s.to}, theirs)
		if err != nil || text == nil {
			return mergeResult{}, err
		}
		return w.put(ctx, s.Before, text)
	})
	if k.merged {
		s.After = k.result
	}
	return k.merged, err
}

// put puts the text of a merge into the store. The result has the mode of v.
func (g merger) put(ctx context.Context, v Version, text []byte) (_ mergeResult, err error) {
	v.Hash, v.Size, err = g.store.Put(ctx, bytes.NewReader(text))
	return mergeResult{result: v, merged: err == nil}, err
}

// favour merges a file so that the lines of one side win.
func (w *workspace) favour(ctx context.Context, s *step, how OnConflict) error {
	side := git.FavourOurs
	if how == TakeWorkspace {
		side = git.FavourTheirs
	}
	m := merge3{base: s.from, now: s.Before, want: s.to}
	k, err := w.once(merging{m, string(side)}, func() (k mergeResult, err error) {
		texts, _, err := w.texts(m.base, m.now, m.want)
		if err != nil {
			return k, err
		}
		done, err := forMerge(ctx, texts)
		if err != nil {
			return k, err
		}
		defer done()
		w.merges()
		text, err := git.MergeFavouring(ctx, w.scratch, texts[0], texts[1], texts[2], side)
		if err != nil {
			return k, err
		}
		return w.put(ctx, m.mode(m.now), text)
	})
	if err == nil {
		s.After, s.Merged = k.result, true
	}
	return err
}

// planUndo plans an entry that takes a Rebase or a Resolve back.
func (w *workspace) planUndo(ctx context.Context, e *Entry) error {
	for i := range e.Steps {
		e.Steps[i].away = false
	}
	conflicts, err := w.plan(ctx, e.Steps, false)
	if err == nil && len(conflicts) > 0 {
		err = conflicting("nothing was done: the context changed these files since", conflicts)
	}
	return err
}

// Conflicts lists the conflicts of a context that Rebase recorded and that are not resolved, by path.
func (r *Reviews) Conflicts(ctx context.Context, id string) ([]RecordedConflict, error) {
	if _, err := r.cfg.Contexts.Origin(ctx, id); err != nil {
		return nil, err
	}
	st, err := r.states.read(id)
	if err != nil {
		return nil, err
	}
	return st.conflicts(), nil
}

// Resolve makes a version of a recorded conflict, or other content, what the context has at its path, and moves the base to the workspace's
// version.
func (r *Reviews) Resolve(ctx context.Context, id string, p Path, to Resolution, actor string) (*Entry, error) {
	unlock, err := r.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	u, err := r.conflictOf(ctx, id, p)
	if err != nil {
		return nil, err
	}
	st, err := r.states.read(id)
	if err != nil {
		return nil, err
	}
	s := step{Path: p, BaseBefore: u.Base, BaseAfter: u.Workspace, WasUnresolved: u}
	if behind, ok := st.Behind[p]; ok {
		s.BaseBefore, s.WasBehind = st.Overrides[p], &behind
	}
	e := &Entry{Kind: EntryResolve, Context: id, Actor: actor, InContext: true, MovesBase: true}
	err = r.exchange(ctx, e, false, func(ctx context.Context, w *workspace) error {
		e.Steps = []step{s}
		return w.planResolve(ctx, e, to)
	})
	if err != nil {
		return nil, err
	}
	r.tell(id, Event{Kind: EventRebased, Journal: e.ID})
	return e, nil
}

// planResolve plans the step that resolves a conflict.
func (w *workspace) planResolve(ctx context.Context, e *Entry, to Resolution) error {
	s := &e.Steps[0]
	now, err := w.keepNow(ctx, "resolve", s.Path)
	if err != nil {
		return err
	}
	if to.IfHash != "" && to.IfHash != now.Hash {
		return refuse(StaleRevision, []Path{s.Path}, "the context's file is another one by now", "look at it again")
	}
	s.from, s.to = now, now
	switch to.Side {
	case SideContext:
		if s.WasUnresolved.Marked != "" && now.Hash == s.WasUnresolved.Marked {
			return &fserr.Error{
				Code: fserr.EINVAL, Op: "resolve", Path: "/" + string(s.Path), Detail: "the file still is what the rebase wrote, with conflict markers",
				Hint: "edit it in the context first, or choose another version",
			}
		}
		s.Before, s.After = now, now
		return nil
	case SideWorkspace:
		s.to = s.WasUnresolved.Workspace
	case SideBase:
		s.to = s.WasUnresolved.Base
	case SideContent:
		if s.to, err = w.resolvedTo(ctx, s, to.Content); err != nil {
			return err
		}
	default:
		return &fserr.Error{Code: fserr.EINVAL, Detail: "unknown resolution"}
	}
	if now.Type == rootfs.TypeDirectory {
		s.from = Version{} // there is no file
	}
	if now.Type == rootfs.TypeDirectory && !s.to.Exists() {
		s.Before, s.After = s.from, s.to // and the step makes none
		return nil
	}
	if err := w.clear(ctx, e); err != nil {
		return err
	}
	conflicts, err := w.plan(ctx, e.Steps, false)
	if err == nil && len(conflicts) > 0 {
		err = conflicting("nothing was done: the context changed the file", conflicts)
	}
	return err
}

// resolvedTo puts the content of a Resolution into the store. The version has the mode of the context's file, or else of the workspace's.
func (w *workspace) resolvedTo(ctx context.Context, s *step, content []byte) (v Version, err error) {
	if len(content) > MaxText {
		return v, &fserr.Error{Code: fserr.EFBIG, Op: "resolve", Path: "/" + string(s.Path), Detail: "the content is larger than 4 MiB", Hint: "write the file in the context"}
	}
	v = Version{Type: rootfs.TypeFile, Mode: 0o644}
	for _, old := range []Version{s.WasUnresolved.Workspace, s.from} {
		if old.Type == rootfs.TypeFile {
			v.Mode = old.Mode
		}
	}
	v.Hash, v.Size, err = w.store.Put(ctx, bytes.NewReader(content))
	return v, err
}

// conflictOf returns the recorded conflict of a path.
func (r *Reviews) conflictOf(ctx context.Context, id string, p Path) (*Unresolved, error) {
	list, err := r.Conflicts(ctx, id)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(c RecordedConflict) bool { return c.Path == p })
	if i < 0 {
		return nil, &fserr.Error{Code: fserr.ENOENT, Path: "/" + string(p), Detail: "the path has no recorded conflict", Hint: "'ctxfs conflicts' lists them"}
	}
	return list[i].Unresolved, nil
}

// readConflict reads a version of a recorded conflict.
func (r *Reviews) readConflict(ctx context.Context, id string, p Path, which Which, use func(ctx context.Context, v Version, content io.Reader) error) error {
	u, err := r.conflictOf(ctx, id, p)
	if err != nil {
		return err
	}
	v := u.Context
	switch which {
	case OfMerged:
		text, err := r.ws.marked(ctx, u, "workspace")
		if err == nil && text == nil {
			err = &fserr.Error{Code: fserr.EINVAL, Op: "read", Path: "/" + string(p), Detail: "its versions are no texts that can be merged", Hint: "read them one by one"}
		}
		if err != nil {
			return err
		}
		hash := hashOfText(string(text))
		return use(ctx, Version{Type: rootfs.TypeFile, Mode: u.Workspace.Mode, Size: int64(len(text)), Hash: hash}, bytes.NewReader(text))
	case OfConflictWorkspace:
		v = u.Workspace
	}
	if v.Hash == "" { // nothing, or a directory
		return noVersion(p)
	}
	f, err := r.store.content(v)
	if err != nil {
		return err
	}
	return errors.Join(use(ctx, v, f), f.Close())
}

// Stale is a decision that was taken back, because what it was about is not there any more.
type Stale struct {
	Path Path
	// Hunks is empty for the decision on the whole change.
	Hunks []string
}

// carryDecision keeps, of what was decided on a path, the verdicts on hunks that are still there after a step in the context.
func (r *Reviews) carryDecision(st *state, s step) []Stale {
	old := st.Decided[s.Path]
	if old == nil || (old.Before.Same(s.BaseAfter) && s.did() == Unchanged) {
		return nil
	}
	delete(st.Decided, s.Path)
	if s.After.Same(s.BaseAfter) {
		return nil // nothing is left to decide on
	}
	verdicts := old.verdicts()
	kept := r.carry(st, s, s.After, old.Before, verdicts)
	stale := Stale{Path: s.Path}
	for id := range verdicts {
		if !kept[id] {
			stale.Hunks = append(stale.Hunks, id)
		}
	}
	if len(verdicts) > 0 && len(stale.Hunks) == 0 {
		return nil
	}
	slices.Sort(stale.Hunks)
	return []Stale{stale}
}

// carry records the verdicts on hunks that are still there, at the same place, once a step has moved the base, and the context has after. The verdicts
// are about hunks of before. It returns the IDs that these hunks had.
func (r *Reviews) carry(st *state, s step, after, before Version, verdicts map[string]Verdict) (kept map[string]bool) {
	d := r.hunksOf(s.Path, s.BaseAfter, after)
	former, err := r.store.text(before)
	if d == nil || err != nil {
		return nil // the decisions count as stale
	}
	next := &decided{Before: s.BaseAfter, After: after, Hunks: map[string]Verdict{}}
	kept = map[string]bool{}
	for id, was := range d.formerIDs(string(s.Path), former) {
		if v, ok := verdicts[was]; ok {
			next.Hunks[id], kept[was] = v, true
		}
	}
	if len(next.Hunks) > 0 {
		st.Decided[s.Path] = next
	}
	return kept
}

// hunksOf returns the difference between two versions if its hunks can be decided on one by one, nil otherwise.
func (r *Reviews) hunksOf(p Path, before, after Version) *TextDiff {
	isSmall := func(v Version) bool { return !v.Exists() || (v.Type == rootfs.TypeFile && v.Size <= MaxText) }
	if !after.Exists() || !isSmall(before) || !isSmall(after) {
		return nil
	}
	old, err1 := r.store.text(before)
	now, err2 := r.store.text(after)
	if err1 != nil || err2 != nil || !isText(old, now) {
		return nil
	}
	return diffVersions(p, before, after, old, now, MaxHunks)
}
