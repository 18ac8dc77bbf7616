package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// OnPullConflict says what Pull does with a path that cannot be merged.
type OnPullConflict int

// What can be done with a conflict of a Pull, in the order of the proto's.
const (
	PullRefuses OnPullConflict = iota
	PullMarks
	PullKeepsOurs
	PullTakesTheirs
)

// PullOutcome is what Pull did to a path.
type PullOutcome int

// The outcomes, in the order of the proto's.
const (
	PullCreated PullOutcome = iota + 1
	PullUpdated
	PullMerged
	PullConflicted
	PullDeleted
	PullUnchanged
)

// PullFile is a file or link of the tree that is pulled.
type PullFile struct {
	// Path is where the context gets it.
	Path Path
	// Type is TypeFile or TypeSymlink; Mode is the permission bits.
	Type rootfs.Type
	Mode uint32
	// ID is for Open.
	ID string
	// Keep says that the context keeps what it has at the path, if its base has something there.
	Keep bool
}

// PullRequest says what Pull brings into a context, and how.
type PullRequest struct {
	Context string
	Actor   string
	DryRun  bool
	// From is the repository that the files are of, and Into the directory that they are put into. If it is another one, the files become changes,
	// and the base stays.
	From, Into Path
	// Label names the files in conflict markers.
	Label string
	// Files are what the tree has in the scope, each path once.
	Files []PullFile
	// Open returns the content of a file, or the target of a link, and its size in bytes. It is read before Open is called again.
	Open func(f PullFile) (content io.Reader, size int64, err error)
	// Scope bounds the removals: of what is at these paths and below them, the context loses what was pulled before, or is Tracked, and is not in
	// Files any more.
	Scope []Path
	// Tracked are the paths that the context was seeded with from the same repository.
	Tracked    map[Path]bool
	OnConflict OnPullConflict
}

// PulledPath is a path with what Pull did to it.
type PulledPath struct {
	Path    Path
	Outcome PullOutcome
}

// Pulled is what Pull did, or would do.
type Pulled struct {
	// Entry has no ID if nothing was done.
	*Entry
	// Paths are sorted.
	Paths []PulledPath
}

// pulled is what a Pull brought to a path.
type pulled struct {
	// Version is the tree's; a zero one says that the tree has nothing there.
	Version
	// From is the repository, and Into the directory that the call put the files into.
	From Path `json:"from"`
	Into Path `json:"into"`
}

// use adds the content.
func (p *pulled) use(used map[string]bool) {
	if p != nil {
		used[p.Hash] = true
	}
}

// recordPulled makes what was pulled to a path what a step says.
func (st *state) recordPulled(s step) {
	switch {
	case s.Pulled == s.WasPulled: // both are nil: it is no step of a Pull
	case s.Pulled == nil:
		delete(st.Pulled, s.Path)
	default:
		if st.Pulled == nil {
			st.Pulled = map[Path]*pulled{}
		}
		st.Pulled[s.Path] = s.Pulled
	}
}

// Pull brings files of another tree into a context: all of them, or none. Where both the context and the tree changed a file, it gets the merge.
// What was pulled becomes the base, unless it is put elsewhere.
func (r *Reviews) Pull(ctx context.Context, req PullRequest) (*Pulled, error) {
	unlock, err := r.lock(ctx, req.Context)
	if err != nil {
		return nil, err
	}
	defer unlock()
	st, err := r.states.read(req.Context)
	if err != nil {
		return nil, err
	}
	steps, err := r.pullSteps(ctx, st, req)
	if err != nil {
		return nil, err
	}
	if err := st.checkPullable(steps); err != nil {
		return nil, err
	}
	out := &Pulled{Entry: &Entry{Kind: EntryPull, Context: req.Context, Actor: req.Actor, InContext: true, MovesBase: true}}
	if len(steps) > 0 {
		err = r.exchange(ctx, out.Entry, req.DryRun, func(ctx context.Context, w *workspace) error {
			out.Steps = slices.Clone(steps)
			return w.planPull(ctx, out.Steps, req)
		})
	}
	if err != nil {
		return nil, err
	}
	out.list(req.Files)
	if out.ID != 0 {
		r.tell(req.Context, Event{Kind: EventRebased, Journal: out.ID})
	}
	return out, nil
}

// list sets Paths.
func (out *Pulled) list(files []PullFile) {
	did := map[Path]PullOutcome{}
	for _, f := range files {
		did[f.Path] = PullUnchanged
	}
	for i := range out.Steps {
		did[out.Steps[i].Path] = out.Steps[i].outcome()
	}
	for _, p := range slices.Sorted(maps.Keys(did)) {
		out.Paths = append(out.Paths, PulledPath{p, did[p]})
	}
}

func (s *step) outcome() PullOutcome {
	switch did := s.did(); {
	case s.settled != 0:
		return PullConflicted
	case did == Unchanged:
		return PullUnchanged
	case did == Created:
		return PullCreated
	case did == Removed:
		return PullDeleted
	case s.Merged:
		return PullMerged
	}
	return PullUpdated
}

// checkPullable refuses paths that have a recorded conflict.
func (st *state) checkPullable(steps []step) error {
	var open []Path
	for _, s := range steps {
		if st.Conflicts[s.Path] != nil {
			open = append(open, s.Path)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return refuse(IsUnresolved, open, "nothing was pulled: an earlier rebase recorded conflicts that are not resolved", resolveHint)
}

// Excluded returns a function that says why a context is not seeded with a path of the workspace, "" if it is. It is for one goroutine.
func (r *Reviews) Excluded(ctx context.Context, id string) (func(p Path) string, error) {
	o, err := r.cfg.Contexts.Origin(ctx, id)
	if err != nil {
		return nil, err
	}
	ignores := seed.NewIgnores(r.ws.root, r.cfg.Exclude)
	return func(p Path) string {
		if o.Manifest != nil && !o.Manifest.Scope.Has(string(p)) {
			return "what the context was seeded from"
		}
		return ignores.ReasonAnywhere(string(p), false)
	}, nil
}

// pullSteps returns a step for each path at which the tree differs from what the context got there last. The contents of both are in the store.
func (r *Reviews) pullSteps(ctx context.Context, st *state, req PullRequest) (steps []step, err error) {
	origin, err := r.cfg.Contexts.Origin(ctx, req.Context)
	if err != nil {
		return nil, err
	}
	b, err := r.baseOf(origin, st)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	p := &pull{movement: movement{reviews: r, base: b, state: st}, req: req, has: map[Path]bool{}}
	for _, f := range req.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p.has[f.Path] = true
		if f.Keep && b.lookup(f.Path).Exists() {
			continue
		}
		if err := p.compare(ctx, f); err != nil {
			return nil, fserr.Wrap(err, "pull", "/"+string(f.Path), "")
		}
	}
	if err := p.removed(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(p.steps, func(a, b step) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return p.steps, nil
}

// pull finds where a tree differs from what a context got from it last.
type pull struct {
	movement
	req PullRequest
	// has are the paths of the tree.
	has map[Path]bool
}

// compare adds a step if a file of the tree is not the one that the context got last.
func (p *pull) compare(ctx context.Context, f PullFile) error {
	now, keep, err := p.read(ctx, f)
	if err != nil {
		return err
	}
	was := p.base.lookup(f.Path)
	before, err := p.base.version(ctx, was)
	if err != nil {
		return err
	}
	last, known := p.last(f.Path, before), p.isElsewhere() || p.req.Tracked[f.Path] || p.state.Pulled[f.Path] != nil
	if now.Same(last) && known {
		return nil
	}
	if err := keep(); err != nil {
		return err
	}
	return p.step(ctx, was, last, now)
}

func (p *pull) isElsewhere() bool { return p.req.From != p.req.Into }

// last returns what the context got last at a path, whose base is before.
func (p *pull) last(q Path, before Version) Version {
	if mark := p.state.Pulled[q]; p.isElsewhere() && p.isOurs(mark) {
		return mark.Version
	}
	return before
}

// isOurs reports whether an earlier call pulled from the same repository into the same directory.
func (p *pull) isOurs(mark *pulled) bool {
	return mark != nil && mark.From == p.req.From && mark.Into == p.req.Into
}

// step adds the step from the version that the context got last to the tree's.
func (p *pull) step(ctx context.Context, was entry, last, now Version) error {
	before, err := p.keep(ctx, was)
	if err != nil {
		return err
	}
	s := step{
		Path: was.path, from: last, to: now, BaseBefore: before, BaseAfter: now,
		WasPulled: p.state.Pulled[was.path], Pulled: &pulled{now, p.req.From, p.req.Into},
	}
	if p.isElsewhere() {
		s.BaseAfter = before
	}
	p.steps = append(p.steps, s)
	return nil
}

// read returns the version of a file. keep puts its content into the store, if it is not there.
func (p *pull) read(ctx context.Context, f PullFile) (v Version, keep func() error, err error) {
	v = Version{Type: f.Type, Mode: f.Mode}
	if v.Type == rootfs.TypeSymlink {
		v.Mode = 0o777
	}
	content, size, err := p.req.Open(f)
	if err != nil {
		return v, nil, err
	}
	store := p.reviews.store
	if size > MaxText {
		v.Hash, v.Size, err = store.Put(ctx, content)
		return v, func() error { return nil }, err
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return v, nil, err
	}
	v.Hash, v.Size = hashOfText(string(data)), int64(len(data))
	return v, func() error {
		_, _, err := store.Put(ctx, bytes.NewReader(data))
		return err
	}, nil
}

// removed adds steps for the paths that the context got from the repository, and that the tree does not have.
func (p *pull) removed(ctx context.Context) error {
	candidates := map[Path]bool{}
	for q, mark := range p.state.Pulled {
		if p.isOurs(mark) {
			candidates[q] = true
		}
	}
	if !p.isElsewhere() {
		maps.Copy(candidates, p.req.Tracked)
	}
	for q := range candidates {
		if p.has[q] || !slices.ContainsFunc(p.req.Scope, func(dir Path) bool { return isWithin(q, dir) }) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		was := p.base.lookup(q)
		last, err := p.base.version(ctx, was)
		if err != nil {
			return err
		}
		if last = p.last(q, last); !last.Exists() {
			continue
		}
		if err := p.step(ctx, was, last, Version{}); err != nil {
			return err
		}
	}
	return nil
}

// planPull plans the steps of a Pull, and does with conflicts what the caller asked for.
func (w *workspace) planPull(ctx context.Context, steps []step, req PullRequest) error {
	left, err := w.planSettled(ctx, steps, "pull", func(s *step, kind ConflictKind) (bool, error) {
		done, err := w.settlePull(ctx, s, kind, req)
		if done {
			s.settled = kind
		}
		return done, err
	})
	if err != nil || len(left) == 0 {
		return err
	}
	refused := conflicting(fmt.Sprintf("nothing was pulled: the context and %s changed these files", req.Label), left)
	switch {
	case refused.Hint != "":
	case req.OnConflict == PullMarks:
		refused.Hint = "no text can be merged there, so that they cannot get conflict markers: choose ours or theirs"
	case req.OnConflict == PullTakesTheirs:
		refused.Hint = "a directory of the context stands there: move it away first, or choose ours"
	default:
		refused.Hint = "choose what happens to conflicts: markers, ours or theirs"
	}
	return refused
}

// settlePull completes a step that conflicts. It returns false if the conflict cannot be settled in this way.
func (w *workspace) settlePull(ctx context.Context, s *step, kind ConflictKind, req PullRequest) (bool, error) {
	switch req.OnConflict {
	case PullMarks:
		if kind != ConflictContent && kind != ConflictAddAdd {
			return false, nil
		}
		return w.writeMarkers(ctx, s, req.Label)
	case PullKeepsOurs:
		return w.settleConflict(ctx, s, kind, KeepContext)
	case PullTakesTheirs:
		if _, is := w.inTheWay(s.Path); s.to.Exists() && (kind == ConflictDirectoryInTheWay || is) {
			return false, nil // what stands in the way stays
		}
		return w.settleConflict(ctx, s, kind, TakeWorkspace)
	}
	return false, nil
}
