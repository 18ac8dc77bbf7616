package review

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Contexts is what reviews need of contexts.
type Contexts interface {
	// Frozen calls f with the context's root while no call through the server changes the context.
	// The context of f ends when the context of the review is about to be replaced or deleted.
	Frozen(ctx context.Context, id string, f func(ctx context.Context, root rootfs.Root) error) error
	// Reading calls f as a call that reads the context does. The context of f ends when the context is about to be replaced or deleted, and Reading then
	// fails with ESTALE.
	Reading(ctx context.Context, id string, f func(ctx context.Context, root rootfs.Root) error) error
	// Beside is Reading for a long look at a file, which no other call waits for.
	Beside(ctx context.Context, id string, f func(ctx context.Context, root rootfs.Root) error) error
	// Changing calls f as a call that changes the context does.
	Changing(ctx context.Context, id string, f func(root rootfs.Root, charge Charge) error) error
	// Replacing calls f as a call that changes the context does, while no other call through the server changes it.
	Replacing(ctx context.Context, id string, f func(root rootfs.Root, charge Charge) error) error
	// Origin says what the context was seeded with.
	Origin(ctx context.Context, id string) (Origin, error)
	// Snapshots lists the snapshots of the context.
	Snapshots(ctx context.Context, id string) ([]Snapshot, error)
	// Snapshot opens a snapshot of the context.
	Snapshot(ctx context.Context, id, name string) (SnapshotView, error)
	// Workspace lists what a seeding of the context now would copy.
	Workspace(ctx context.Context, id string) (*seed.Scan, error)
}

// Snapshot is a snapshot of a context. Its content stays what it was when it was taken.
type Snapshot struct {
	Name    string
	TakenAt time.Time
}

// Charge counts what is about to be written to a context. It fails with EDQUOT if that is too much.
type Charge func(bytes, entries int64) error

// Origin is what a context was seeded with.
type Origin struct {
	// Digest names the layer; "" for a context that started empty.
	Digest string
	// Tree is the layer's directory, Manifest says what is in it.
	Tree     string
	Manifest *seed.Manifest
	// Changed lists the paths at which or below which the context may differ from the layer. nil says that it may differ anywhere.
	Changed func(ctx context.Context) ([]string, error)
}

// Config says what Open needs.
type Config struct {
	Contexts Contexts
	// Dir keeps states, contents and the journal.
	Dir string
	// Workspace is the folder that changes are applied to.
	Workspace string
	// ContextsDir is the directory of contexts, relative to the workspace; "" if it lies elsewhere. Nothing is applied to it.
	ContextsDir Path
	// Owner is given to files that are made in the workspace; nil leaves them to the server's user.
	Owner *rootfs.Owner
	// Exclude are the patterns that seeding leaves out, beside the workspace's ignore files.
	Exclude []string
	// Used returns the SHA-256 of further contents that the store has to keep; nil for none. If it fails, no content is removed.
	Used func() ([]string, error)
	// Log may be nil.
	Log *zap.Logger
}

// Copied gives a copy of a context the base of what it was copied from, and no decisions. A context that gets the content of its snapshot keeps its own
// rejections, where its base stays the same. from is "" for new content. Names are those of contexts, or of their snapshots. marks is a file with the marks of a context's new content, which Copied takes if it is there.
func (r *Reviews) Copied(from, to, marks string) error {
	r.looked.remove(to)
	if err := errors.Join(r.known.replace(to, marks), r.listed.remove(to)); err != nil {
		return err
	}
	next, err := r.journal.next()
	if err != nil {
		return err
	}
	defer r.Hold()()
	st := &state{}
	if from != "" {
		if st, err = r.states.read(from); err != nil {
			return err
		}
	}
	r.store.uses.touchAll(st.use)
	// No entry of before moves the new base, not even one that a start completes.
	copied := &state{Format: stateFormat, Journal: next - 1, Overrides: st.Overrides, Pulled: st.Pulled, Behind: st.Behind}
	if strings.HasPrefix(from, to+"@") {
		before, err := r.states.read(to)
		if err != nil {
			return err
		}
		copied.Decided = before.rejectedOn(st.Overrides)
	}
	if len(copied.Overrides) == 0 && len(copied.Pulled) == 0 && len(copied.Decided) == 0 && copied.Journal == 0 {
		return r.states.remove(to)
	}
	return r.states.write(to, copied)
}

// Marks returns the file with the marks of a context's files, which may be missing.
func (r *Reviews) Marks(id string) string { return r.known.file(id) }

// Deleted forgets a context and its snapshots.
func (r *Reviews) Deleted(id string) error {
	r.known.remove(id)
	r.looked.remove(id)
	return errors.Join(r.states.remove(id), r.listed.remove(id), r.states.removeAll(id+"@"), r.revisions.remove(id), r.known.removeAll(id+"@"))
}

// Reviews keeps the reviews of the contexts of one workspace.
type Reviews struct {
	cfg     Config
	store   *Store
	states  states
	journal journal
	known   knownFiles
	listed  *listings
	looked  looked
	// fileNames are of the layers' files.
	fileNames fileNames
	// excluder reads what git excludes in the workspace.
	excluder git.Excluder
	// revisions are what was submitted.
	revisions revisions
	ws        *workspace
	git       *git.Reader

	bounds bounds
	// costs are what the entries of the journal keep, by ID. The holder of the workspace's lock uses it.
	costs map[int64]cost
	// collecting is held by the goroutine that removes contents, which Close waits for. It ends when life does.
	collecting sync.Mutex
	tidying    sync.WaitGroup
	life       context.Context
	end        context.CancelFunc

	mu    sync.Mutex
	locks map[string]chan struct{}
	// checkpoints are those that neither Record nor Drop has ended.
	checkpoints map[*Checkpoint]bool
	// point is called with the name of each phase of what changes files. Tests write, or stop, there.
	point func(phase string)
	// watchers receive an event for each step.
	watchers map[string]map[chan Event]bool
}

// Open opens the reviews of a workspace. It puts back what an Apply that was killed had begun.
func Open(ctx context.Context, cfg Config) (*Reviews, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	in := func(name string) string { return filepath.Join(cfg.Dir, name) }
	for _, name := range []string{"contexts", "journal", "known", "listed", "revisions", "scratch"} {
		if err := durable.MkdirAll(in(name), 0o700); err != nil {
			return nil, err
		}
	}
	store, err := OpenStore(in("blobs"))
	if err != nil {
		return nil, err
	}
	listed, err := openListings(in("listed"), cfg.Log)
	if err != nil {
		return nil, err
	}
	root, err := rootfs.Open(cfg.Workspace, rootfs.Options{Owner: cfg.Owner, AllowChown: true})
	if err != nil {
		return nil, err
	}
	r := &Reviews{
		cfg: cfg, store: store, states: states{in("contexts")}, journal: journal{in("journal")}, known: knownFiles{in("known")},
		listed: listed, revisions: revisions{in("revisions")}, looked: looked{at: map[string]look{}},
		point: func(string) {}, locks: map[string]chan struct{}{}, watchers: map[string]map[chan Event]bool{},
		bounds: defaultBounds, costs: map[int64]cost{}, checkpoints: map[*Checkpoint]bool{},
	}
	r.life, r.end = context.WithCancel(context.WithoutCancel(ctx))
	r.git = git.NewReader(git.Options{Scratch: in("scratch")})
	r.ws = &workspace{root: root, store: store, merger: merger{store: store, scratch: in("scratch"), merges: func() { r.point("git merges") }}}
	if err := r.recover(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close closes the workspace, after no call uses the reviews any more.
func (r *Reviews) Close() error {
	r.end()
	r.tidying.Wait()
	return r.ws.root.Close()
}

// lock waits for a context's review, or for the workspace ("").
func (r *Reviews) lock(ctx context.Context, id string) (unlock func(), err error) {
	r.mu.Lock()
	l, ok := r.locks[id]
	if !ok {
		l = make(chan struct{}, 1)
		r.locks[id] = l
	}
	r.mu.Unlock()
	select {
	case l <- struct{}{}:
		use := r.store.uses.begin()
		return func() {
			r.store.uses.end(use)
			if <-l; id != "" {
				r.tidy()
			}
		}, nil
	case <-ctx.Done():
		return nil, &fserr.Error{Code: fserr.CodeOf(ctx.Err()), Detail: "another call reviews the context", Err: ctx.Err()}
	}
}

// workspaceLock is the name of the lock of everything that changes the workspace, in all processes.
const workspaceLock = "apply.lock"

// lockPoll is how often the lock of another process is looked at.
const lockPoll = 25 * time.Millisecond

// lockWorkspace waits until no other call, of any process, changes the workspace.
func (r *Reviews) lockWorkspace(ctx context.Context) (unlock func(), err error) {
	free, err := r.lock(ctx, "")
	if err != nil {
		return nil, err
	}
	f := flock.New(filepath.Join(r.cfg.Dir, workspaceLock), flock.SetPermissions(0o600), flock.SetFlag(statedir.LockFlags))
	if ok, err := f.TryLockContext(ctx, lockPoll); err != nil || !ok {
		free()
		return nil, &fserr.Error{Code: fserr.CodeOf(err), Detail: "another process applies changes to the workspace", Err: err}
	}
	return func() { _ = f.Close(); free() }, nil
}

// Query says which changes are meant.
type Query struct {
	Context string
	// Paths bound it, with what is below them; none means all.
	Paths []Path
	// Ignored lists the content of new ignored directories.
	Ignored bool
	// Drift compares the base with the workspace and with other contexts too. It reveals what they hold.
	Drift bool
	// Links looks for links with sensitive names in the whole context, if one of Paths is a directory.
	Links bool
	// Against is what the context is compared with.
	Against Against
}

func (q Query) scope() []Path {
	if len(q.Paths) == 0 {
		return []Path{""}
	}
	return q.Paths
}

// List is what a context changed.
type List struct {
	Changes []*Change
	// Revision names all changes of the context; "" if the query was for some paths.
	Revision string
	// Others are other contexts that change the same paths; only with Query.Drift.
	Others []Other
	// Gone are decisions within the query's paths that Changes do not show. Their Actor is "" without Query.Drift.
	Gone []GoneDecision
	// Root is the directory that paths in patches are relative to; "" is the workspace.
	Root       Path
	unresolved []RecordedConflict
	context    string
	state      *state
	base       *base
	// withdrawn are the paths of decisions that Selection.withdraws takes back.
	withdrawn []Path
	// stored says that both versions of all changes are in the store.
	stored bool
	room   *room
}

// Close closes the layer, and gives back the memory that the List takes.
func (l *List) Close() error {
	l.room.close()
	return l.base.close()
}

// shown returns the path of a change in patches.
func (l *List) shown(c *Change) Path {
	return Path(strings.TrimPrefix(strings.TrimPrefix(string(c.Path), string(l.Root)), "/"))
}

// Changes returns what a context changed, by path. Close the List.
func (r *Reviews) Changes(ctx context.Context, q Query) (*List, error) {
	unlock, err := r.lock(ctx, q.Context)
	if err != nil {
		return nil, err
	}
	defer unlock()
	find := func() (*List, error) { return r.changes(ctx, q, nil) }
	if q.Against != (Against{}) {
		find = func() (*List, error) { return r.against(ctx, q) }
		q.Drift = false
	}
	l, err := find()
	if err != nil {
		return nil, err
	}
	if q.Drift {
		l.Others, l.unresolved = r.listed.others(q.Context, l.Changes), l.state.conflicts()
	}
	if l.Gone, err = r.gone(ctx, l, q.scope()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	for i := range l.Gone {
		if !q.Drift {
			l.Gone[i].Actor = ""
		}
	}
	for _, c := range l.Changes {
		l.locate(c)
		if !q.Drift {
			continue
		}
		c.Unresolved = l.state.Conflicts[c.Path] != nil
		if err := r.drift(ctx, l, c); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// drift compares the workspace with the base, and with the one that it got last. It does not read a file whose inode and
// ctime are those of the layer's manifest.
func (r *Reviews) drift(ctx context.Context, l *List, c *Change) error {
	if c.Barred != "" || c.Tree != nil {
		return nil
	}
	if e := l.base.lookup(c.Path); e.index >= 0 {
		if same, err := r.ws.unmoved(&l.base.manifest.Entries[e.index]); same || err != nil {
			return err
		}
	}
	v, _, err := readVersion(ctx, r.ws.root, c.Path, r.store.hashing())
	if isAbsent(err) {
		v, err = Version{}, nil
	}
	if errors.Is(err, errUnstable) {
		c.Drifted = true
		return nil
	}
	c.Drifted = !v.Same(c.Before) && !v.Same(l.state.workspaceBase(c.Path, c.Before))
	return err
}

// locate finds the innermost repository of a change.
func (l *List) locate(c *Change) {
	if l.base.manifest == nil {
		return
	}
	if repo, ok := innermost(l.base.manifest.Repos, c.Path); ok {
		c.Repository, c.InRepository = pathOf(repo), true
	}
}

// innermost returns the repository that a path belongs to.
func innermost(repos []seed.Repository, p Path) (found seed.Repository, ok bool) {
	for _, repo := range repos {
		if isWithin(p, pathOf(repo)) && (!ok || len(pathOf(repo)) > len(pathOf(found))) {
			found, ok = repo, true
		}
	}
	return found, ok
}

// pathOf returns a repository's directory, "" for the root.
func pathOf(r seed.Repository) Path {
	if r.Path == "." {
		return ""
	}
	return Path(r.Path)
}

// changes compares a context with its base. If keep is not nil it is called, while the context is frozen, with its root and all changes.
func (r *Reviews) changes(ctx context.Context, q Query, keep func(ctx context.Context, root rootfs.Root, l *List) error) (_ *List, err error) {
	l, origin, err := r.opened(ctx, q.Context)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	err = r.frozen(ctx, q.Context, func(ctx context.Context, root rootfs.Root) error {
		l.room.reset()
		diffs, err := r.compare(ctx, q, origin, l.base, root, l.room)
		if err != nil {
			return err
		}
		if l.Changes, err = r.describeAll(ctx, diffs, l.base, root, l.room); err != nil {
			return err
		}
		others := diffs
		if q.Links && slices.ContainsFunc(diffs, func(d Difference) bool { return !slices.Contains(q.scope(), d.Path) }) {
			if others, err = r.compare(ctx, Query{Context: q.Context}, origin, l.base, root, nil); err != nil {
				return err
			}
		}
		if err := linked(ctx, l.Changes, others, l.base, root, r.cfg.Workspace); err != nil || keep == nil {
			return err
		}
		return keep(ctx, root, l)
	})
	if err == nil && len(q.Paths) == 0 {
		l.Revision = revisionOf(l.Changes)
		r.listed.put(q.Context, l.Changes)
	}
	return l, err
}

// opened returns a List of a context without its changes. Close it.
func (r *Reviews) opened(ctx context.Context, id string) (*List, Origin, error) {
	st, err := r.states.read(id)
	if err != nil {
		return nil, Origin{}, err
	}
	origin, err := r.cfg.Contexts.Origin(ctx, id)
	if err != nil {
		return nil, Origin{}, err
	}
	b, err := r.baseOf(origin, st)
	if err != nil {
		return nil, Origin{}, err
	}
	return &List{context: id, state: st, base: b, room: newRoom(ctx)}, origin, nil
}

// layerMissing says what LayerMissing means, layerHint what its remedy is.
const (
	layerMissing = "the layer that the context was seeded with is missing: its files can be read and written, but not reviewed"
	layerHint    = "restore .ctxfs/layers in the contexts directory from the backup; 'ctxfs doctor' names the contexts that need it"
)

func isLayerMissing(err error) bool {
	refused := (*Error)(nil)
	return errors.As(err, &refused) && refused.Reason == LayerMissing
}

func (r *Reviews) baseOf(o Origin, st *state) (*base, error) {
	b := &base{manifest: o.Manifest, overrides: st.Overrides, store: r.store, digest: o.Digest}
	if o.Manifest == nil {
		return b, nil
	}
	var err error
	b.layer, err = rootfs.Open(o.Tree, rootfs.Options{})
	if isAbsent(err) {
		return nil, refuse(LayerMissing, nil, layerMissing, layerHint)
	}
	if err != nil {
		return nil, &fserr.Error{Code: fserr.EIO, Kind: fserr.KindContext, Detail: "the layer that the context was seeded with cannot be opened", Err: err}
	}
	b.closers = append(b.closers, b.layer.Close)
	return b, nil
}

// compare finds the differences of a query, with the help of what earlier comparisons found equal.
func (r *Reviews) compare(ctx context.Context, q Query, o Origin, b *base, root rootfs.Root, room *room) ([]Difference, error) {
	c := &comparison{base: b, root: root, room: room}
	if b.digest == o.Digest {
		c.known = r.known.read(q.Context, o.Digest)
	} else {
		o.Changed = nil
	}
	if !q.Ignored {
		ignores, err := r.ignores(ctx, b)
		if err != nil {
			return nil, err
		}
		c.ignored = func(dir Path) (bool, error) { return ignores.Reason(string(dir), true) != "", ignores.Err() }
	}
	scope := q.scope()
	if o.Changed != nil {
		changed, err := o.Changed(ctx)
		if err != nil {
			return nil, err
		}
		paths := slices.Collect(maps.Keys(b.overrides))
		for _, p := range changed {
			paths = append(paths, Path(p))
		}
		scope = within(append(paths, b.namesOfFiles(r.fileNames.of(b.manifest), paths)...), scope)
	}
	diffs, err := c.compare(ctx, scope...)
	if (err == nil || errors.Is(err, errLater)) && c.learned && b.digest == o.Digest {
		if e := r.known.write(q.Context, o.Digest, c.known); e != nil {
			r.cfg.Log.Warn("what was found unchanged could not be kept: the next comparison reads it again", zap.String("context", q.Context), zap.Error(e))
		}
	}
	asked := q.scope()
	return slices.DeleteFunc(diffs, func(d Difference) bool {
		return !slices.ContainsFunc(asked, func(p Path) bool { return isWithin(d.Path, p) || (d.Tree != nil && isWithin(p, d.Path)) })
	}), err
}

// within returns the parts of paths that lie in one of the scopes.
func within(paths, scopes []Path) []Path {
	out := []Path{}
	for _, p := range paths {
		for _, s := range scopes {
			switch {
			case isWithin(p, s):
				out = append(out, p)
			case isWithin(s, p):
				out = append(out, s)
			}
		}
	}
	return out
}

// ignores says what the workspace's ignore files exclude, those of git included. All users of a base share it: to read a repository's
// excludes starts git.
func (r *Reviews) ignores(ctx context.Context, b *base) (*seed.Ignores, error) {
	if b.ignores == nil || b.ignoring() != nil { // a call that enters its context again has another ctx
		src, err := r.source()
		if err != nil {
			return nil, err
		}
		b.ignores, b.ignoring = seed.NewGitIgnores(ctx, src, r.cfg.Exclude), ctx.Err
	}
	return b.ignores, nil
}

func (r *Reviews) describeAll(ctx context.Context, diffs []Difference, b *base, root rootfs.Root, room *room) ([]*Change, error) {
	ignores, err := r.ignores(ctx, b)
	if err != nil {
		return nil, err
	}
	ignored := make([]bool, len(diffs))
	for i, d := range diffs {
		ignored[i] = d.Before == Version{} && ignores.ReasonAnywhere(string(d.Path), false) != ""
	}
	if err := ignores.Err(); err != nil {
		return nil, err
	}
	out := make([]*Change, len(diffs))
	err = inParallel(ctx, len(diffs), func(i int) (err error) {
		d := diffs[i]
		out[i], err = describe(ctx, room, d, func() (io.ReadCloser, error) { return b.open(b.lookup(d.Path)) }, openerIn(root, d), ignored[i])
		if err != nil {
			return fserr.Wrap(err, "review", "/"+string(d.Path), "")
		}
		diffs[i].held, out[i].held = [2]*heldContent{}, [2]*heldContent{}
		return room.keepText(out[i].Text)
	})
	if err != nil {
		return nil, err
	}
	renames(out)
	repositories(out, func(p Path) bool { return b.lookup(p).Exists() })
	return out, nil
}

// openerIn opens the later version of a difference in a tree.
func openerIn(root rootfs.Root, d Difference) opener {
	return func() (io.ReadCloser, error) {
		if d.After.Type == rootfs.TypeSymlink {
			target, err := root.Readlink(string(d.Path))
			return io.NopCloser(bytes.NewReader([]byte(target))), err
		}
		f, _, err := root.OpenNoFollow(string(d.Path), rootfs.O_RDONLY)
		return f, err
	}
}
