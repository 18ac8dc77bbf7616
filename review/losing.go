package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Losing is the work that would be lost with the content of a context. It is empty if nothing would be.
type Losing struct {
	// Context is the context's ID.
	Context string
	// Changes are the paths of changes that were not applied: those that are neither ignored nor barred, and what stands barred in the place of a
	// file of the base.
	Changes []Path
	// Commits are the directories of repositories that the context alone has, "" for its own, with commits that no remote of theirs has. Those with
	// Changes in them are left out.
	Commits []Path
	// Approved are the paths, in order, of what was approved and not applied, and is not in Changes as it was approved: the context has taken the change back, has
	// another one, or the workspace ignores it. The review keeps the content, and Apply would write it.
	Approved []Path
	// Snapshots are the context's snapshots that hold changes which were not applied, by name.
	Snapshots []LosingSnapshot
}

// LosingSnapshot is a snapshot that holds changes which were not applied.
type LosingSnapshot struct {
	Name string
	// Files is how many paths they are.
	Files int
}

// Losing returns what would be lost if something else took the place of a context's content, and with snapshots what would be lost with the context
// and its snapshots. A context whose changes cannot be reviewed has none.
func (r *Reviews) Losing(ctx context.Context, id string, snapshots bool) (out Losing, err error) {
	out.Context = id
	l, origin, err := r.opened(ctx, id)
	if fserr.CodeOf(err) == fserr.EOPNOTSUPP {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	err = r.frozen(ctx, id, func(ctx context.Context, root rootfs.Root) error {
		out.Commits, out.Changes = nil, nil
		diffs, err := r.losable(ctx, id, origin, l.base, root)
		for _, d := range diffs {
			if d.Barred == BarredGit {
				out.Commits = append(out.Commits, parentOf(d.Path))
			} else {
				out.Changes = append(out.Changes, d.Path)
			}
		}
		out.Approved = l.state.approvedBeside(diffs)
		return err
	})
	if err == nil && snapshots {
		out.Snapshots, err = r.losingSnapshots(ctx, l)
	}
	return out, err
}

// approvedBeside returns the paths at which something is approved that is not among the differences.
func (st *state) approvedBeside(diffs []Difference) (out []Path) {
	there := make(map[Path]Version, len(diffs))
	for _, d := range diffs {
		there[d.Path] = d.After
	}
	for _, p := range slices.Sorted(maps.Keys(st.Decided)) {
		d := st.Decided[p]
		if after, ok := there[p]; d.isApproved() && (!ok || !after.Same(d.After)) {
			out = append(out, p)
		}
	}
	return out
}

// isApproved reports whether all of what was decided on is approved, or a part of it.
func (d *decided) isApproved() bool {
	for _, v := range d.Hunks {
		if v.Decision == Approved {
			return true
		}
	}
	return d.Whole != nil && d.Whole.Decision == Approved
}

// Unapplied fails with NotApplied if a context has changes that were not applied, approvals that were not, or commits of its own, and names them.
func (r *Reviews) Unapplied(ctx context.Context, id string) error {
	return r.unapplied(ctx, id, false)
}

// UnappliedAnywhere is Unapplied for a context that is lost with its snapshots: it also names the snapshots that hold changes which were not applied.
func (r *Reviews) UnappliedAnywhere(ctx context.Context, id string) error {
	return r.unapplied(ctx, id, true)
}

func (r *Reviews) unapplied(ctx context.Context, id string, snapshots bool) error {
	losing, err := r.Losing(ctx, id, snapshots)
	if isLayerMissing(err) {
		return refuse(LayerMissing, nil, layerMissing, layerHint+"; or set discard_changes")
	}
	if err != nil {
		return err
	}
	if refusal := losing.refusal(); refusal != nil {
		return refusal
	}
	return nil
}

// refusal names what would be lost. It is nil if nothing would be.
func (l Losing) refusal() *Error {
	var has, remedies []string
	if len(l.Snapshots) > 0 {
		has = append(has, l.SnapshotsText())
		remedies = append(remedies, "apply what the snapshots hold, or delete them")
	}
	if len(l.Approved) > 0 {
		has = append(has, approvedText)
		remedies = append(remedies, "apply what was approved, or reject it")
	}
	if len(l.Changes) > 0 {
		has = append(has, "changes that were not applied")
		remedies = append(remedies, "apply or discard the changes")
	}
	if len(l.Commits) > 0 {
		has = append(has, l.CommitsText())
		remedies = append(remedies, "push the commits, or remove their .git")
	}
	if len(has) == 0 {
		return nil
	}
	paths := slices.Clone(l.Approved)
	for _, p := range l.Changes {
		if _, named := slices.BinarySearch(l.Approved, p); !named {
			paths = append(paths, p)
		}
	}
	hint := strings.Join(remedies, "; ") + "; or set discard_changes"
	return refuse(NotApplied, paths, fmt.Sprintf("context '%s' has %s", l.Context, strings.Join(has, ", and ")), hint)
}

// ChangesText says in words which changes of the context would be lost.
func (l Losing) ChangesText() string {
	return refuse(NotApplied, l.Changes, "it has changes that were not applied", "").Text()
}

// CommitsText says in words which commits of the context would be lost.
func (l Losing) CommitsText() string {
	var dirs []string
	for _, dir := range l.Commits {
		dirs = append(dirs, cmp.Or(string(dir), "/"))
	}
	names := strings.TrimPrefix(fserr.Names(dirs, len(dirs)), ": ")
	return "commits in " + names + " that are not in the workspace"
}

// approvedText says what Losing.Approved are.
const approvedText = "changes that were approved and not applied, and that it does not have any more as they were approved"

// ApprovedText says in words which approved changes would be lost.
func (l Losing) ApprovedText() string {
	return refuse(NotApplied, l.Approved, "it has "+approvedText, "").Text()
}

// SnapshotsText says in words which snapshots hold changes that would be lost.
func (l Losing) SnapshotsText() string {
	var names []string
	for _, s := range l.Snapshots[:min(len(l.Snapshots), fserr.FewNames)] {
		names = append(names, fmt.Sprintf("%s (files: %d)", s.Name, s.Files))
	}
	return "changes that were not applied in its snapshots" + fserr.Names(names, len(l.Snapshots))
}

// losable returns the differences between a base and a tree that may be all that there is of somebody's work: changes, and git directories with commits.
// name is that of a context, or of its snapshot.
func (r *Reviews) losable(ctx context.Context, name string, origin Origin, b *base, root rootfs.Root) ([]Difference, error) {
	diffs, err := r.compare(ctx, Query{Context: name}, origin, b, root, nil)
	if err != nil {
		return nil, err
	}
	ignored, err := r.ignores(ctx, b)
	if err != nil {
		return nil, err
	}
	diffs, err = withCommits(ctx, root, diffs, func(d Difference) bool {
		return b.mayLose(d) && (d.Before.Exists() || ignored.ReasonAnywhere(string(d.Path), false) == "")
	})
	return diffs, errors.Join(err, ignored.Err())
}

// mayLose reports whether a difference may be all that there is of somebody's work.
func (b *base) mayLose(d Difference) bool {
	switch d.Barred {
	case "":
		return true
	case BarredSetuid: // the workspace's own files may have such a mode
		return b.lookup(d.Path).Mode&setIDs == 0
	case BarredSpecial:
		return b.has(d.Path)
	}
	return false
}

// looked remembers of snapshots what they hold that was not applied, so that a look at all contexts need not compare each snapshot each time.
type looked struct {
	mu sync.Mutex
	// at has the names of snapshots (CONTEXT@NAME).
	at map[string]look
}

// look is what one snapshot holds that was not applied. It is true as long as the snapshot, the base of its context, and the rules of the ignore files
// are the same.
type look struct {
	taken time.Time
	base  string
	// dirs are the directories of the workspace whose rules count, and rules is their seed.Ignores.Digest.
	dirs  []string
	rules string
	files int
}

// find returns what a snapshot holds, if it was looked at. The caller compares the rules.
func (k *looked) find(name string, taken time.Time, base string) (l look, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, known = k.at[name]
	return l, known && l.taken.Equal(taken) && l.base == base
}

func (k *looked) put(name string, l look) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at[name] = l
}

// remove forgets a context with its snapshots, or one snapshot.
func (k *looked) remove(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.at, func(n string, _ look) bool { return n == name || strings.HasPrefix(n, name+"@") })
}

// forgetOthers forgets snapshots of a context that are gone.
func (k *looked) forgetOthers(context string, there []Snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.at, func(n string, _ look) bool {
		name, ofContext := strings.CutPrefix(n, context+"@")
		return ofContext && !slices.ContainsFunc(there, func(s Snapshot) bool { return s.Name == name })
	})
}

// losingSnapshots returns the snapshots of a context that hold changes which were not applied.
func (r *Reviews) losingSnapshots(ctx context.Context, l *List) (out []LosingSnapshot, err error) {
	all, err := r.cfg.Contexts.Snapshots(ctx, l.context)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	ignores, err := r.ignores(ctx, l.base)
	if err != nil {
		return nil, err
	}
	base := l.base.name(l.state.Journal)
	r.looked.forgetOthers(l.context, all)
	for _, s := range all {
		name := l.context + "@" + s.Name
		held, known := r.looked.find(name, s.TakenAt, base)
		known = known && held.rules == ignores.Digest(held.dirs)
		if err := ignores.Err(); err != nil {
			return nil, err
		}
		if !known {
			held, err = r.lookInto(ctx, l, s.Name)
			if fserr.CodeOf(err) == fserr.ENOENT { // it was deleted meanwhile
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("look at snapshot '%s' of context '%s': %w", s.Name, l.context, err)
			}
			held.taken, held.base = s.TakenAt, base
			r.looked.put(name, held)
		}
		if held.files > 0 {
			out = append(out, LosingSnapshot{s.Name, held.files})
		}
	}
	return out, nil
}

// name identifies what a base holds, and the last entry of the journal that has moved it.
func (b *base) name(entry int64) string {
	b.order()
	parts := make([]string, 0, len(b.sorted))
	for _, p := range b.sorted {
		v := b.overrides[p]
		parts = append(parts, string(p), strconv.Itoa(int(v.Type)), strconv.FormatBool(v.Mode&executable != 0), v.Hash)
	}
	return idOf("base", []string{b.digest, strconv.FormatInt(entry, 10)}, parts)
}

// lookInto counts what a snapshot holds that was a change when it was taken, and was never applied as it is: neither has the base of the context
// the same version now, nor has an entry of the journal since the snapshot made it the base. A part of a change that was applied is no such entry.
func (r *Reviews) lookInto(ctx context.Context, l *List, snapshot string) (out look, err error) {
	name := l.context + "@" + snapshot
	st, err := r.states.read(name)
	if err != nil {
		return out, err
	}
	view, err := r.cfg.Contexts.Snapshot(ctx, l.context, snapshot)
	if err != nil {
		return out, err
	}
	b, err := r.baseOf(view.Origin, st)
	if err != nil {
		return out, errors.Join(err, view.Root.Close())
	}
	b.closers = append(b.closers, view.Root.Close)
	defer func() { err = errors.Join(err, b.close()) }()
	diffs, err := r.losable(ctx, name, view.Origin, b, view.Root)
	if err == nil {
		err = view.Check()
	}
	if err != nil {
		return out, err
	}
	out.dirs = b.ignores.Dirs()
	out.rules = b.ignores.Digest(out.dirs)
	left := map[Path]Version{}
	for _, d := range diffs {
		now, err := l.base.version(ctx, l.base.lookup(d.Path))
		if err != nil {
			return out, err
		}
		if d.Barred != "" || !now.Same(d.After) {
			left[d.Path] = d.After
		}
	}
	err = r.dropApplied(ctx, l.context, st.Journal, left)
	out.files = len(left)
	return out, errors.Join(err, b.ignores.Err())
}

// dropApplied removes the versions that an entry of the journal after the entry since made the base of a context, unless that was undone.
func (r *Reviews) dropApplied(ctx context.Context, id string, since int64, left map[Path]Version) error {
	ids, err := r.journal.ids(doneSuffix)
	if err != nil {
		return err
	}
	for _, entry := range slices.Backward(ids) {
		if len(left) == 0 || entry <= since || ctx.Err() != nil {
			break
		}
		e, err := r.journal.listed(entry, doneSuffix)
		if err != nil {
			return err
		}
		if e == nil || e.Context != id || e.UndoneBy != 0 || e.InContext && !e.MovesBase {
			continue
		}
		for _, s := range e.Steps {
			if v, ok := left[s.Path]; ok && !s.Apart && !s.BaseBefore.Same(s.BaseAfter) && s.BaseAfter.Same(v) {
				delete(left, s.Path)
			}
		}
	}
	return ctx.Err()
}
