package template

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// BuildOptions of NewBuilder. The directories exist, on one file system.
type BuildOptions struct {
	// Layers is where template layers are, as <hash>/{tree/,manifest,.template-ready}.
	Layers string
	// Staging is where they are built. The next build of the same hash removes what a killed
	// build left there; so does the sweep of the staging directory.
	Staging string
	// Locks is where the lock of each hash is.
	Locks string
	// Owner, if not nil, owns the content of layers.
	Owner *rootfs.Owner
	// MaxFiles and MaxBytes bound one template; 0 means seed.DefaultMaxFiles and seed.DefaultMaxBytes.
	MaxFiles, MaxBytes int64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Progress is the progress of a build.
type Progress struct {
	// Dep is the path that is being written, or "" while another process builds.
	Dep string
	// Deps counts the complete ones, of DepsTotal.
	Deps, DepsTotal int
	// Files and Bytes count the written ones.
	Files, Bytes int64
}

// Builder makes the layers of templates. It is safe for concurrent use.
type Builder struct {
	opts BuildOptions
	// onPhase is called at every step at which a test may kill the build.
	onPhase func(string)
}

// NewBuilder returns a builder. It changes nothing on disk.
func NewBuilder(opts BuildOptions) *Builder {
	limits := seed.Options{MaxFiles: opts.MaxFiles, MaxBytes: opts.MaxBytes}.WithDefaults()
	opts.MaxFiles, opts.MaxBytes = limits.MaxFiles, limits.MaxBytes
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Builder{opts: opts, onPhase: func(string) {}}
}

// LockPrefix is what the names of the locks of templates begin with.
const LockPrefix = "template-"

// lockPoll is the interval for retrying a lock that another process holds.
const lockPoll = 25 * time.Millisecond

// progressEvery is the number of files between two reports of progress.
const progressEvery = 64

// Build returns the layer of r. A layer is built once per hash: concurrent builds of it,
// in this process or another, wait for the first. It is built in staging, renamed, and marked
// ready last. If a process dies, the kernel releases its lock and the next build starts
// from the beginning. progress may be nil.
func (b *Builder) Build(ctx context.Context, r *Resolved, progress func(Progress)) (*Built, error) {
	if progress == nil {
		progress = func(Progress) {}
	}
	if built, err := load(b.opts.Layers, r.Hash); built != nil || err != nil {
		return built, err
	}
	progress(Progress{DepsTotal: len(r.Deps)})
	release, err := b.lock(ctx, r.Hash)
	if err != nil {
		return nil, err
	}
	defer release()
	b.onPhase("locked")
	if built, err := load(b.opts.Layers, r.Hash); built != nil || err != nil {
		return built, err
	}
	j := &job{b: b, r: r, progress: progress, staging: "template-" + r.Hash, tally: tally{maxFiles: b.opts.MaxFiles, maxBytes: b.opts.MaxBytes}}
	if err := j.run(ctx); err != nil {
		return nil, err
	}
	b.onPhase("ready")
	return load(b.opts.Layers, r.Hash)
}

func (b *Builder) lock(ctx context.Context, hash string) (release func(), err error) {
	f := b.lockFile(hash)
	ok, err := f.TryLockContext(ctx, lockPoll)
	return held(f, ok, err)
}

func (b *Builder) lockFile(hash string) *flock.Flock {
	return flock.New(filepath.Join(b.opts.Locks, LockPrefix+hash+".lock"), flock.SetPermissions(0o600), flock.SetFlag(statedir.LockFlags))
}

func held(f *flock.Flock, ok bool, err error) (release func(), _ error) {
	if err == nil && !ok {
		err = fserr.EAGAIN
	}
	if err != nil {
		_ = f.Close() // it was not locked
		return nil, internal("lock the template", err)
	}
	return func() { _ = f.Close() }, nil
}

// job is one build, under its hash's lock.
type job struct {
	b        *Builder
	r        *Resolved
	progress func(Progress)
	// staging is the name of its directory in the staging directory.
	staging string
	tally   tally
	done    int
}

func (j *job) run(ctx context.Context) (err error) {
	if err := j.clean(ctx); err != nil {
		return err
	}
	defer func() {
		// A cancelled build is removed too.
		err = errors.Join(err, remove(context.WithoutCancel(ctx), j.b.opts.Staging, j.staging))
	}()
	j.b.onPhase("cleaned")
	if err := os.MkdirAll(j.in("layer", treeName), 0o755); err != nil {
		return internal("make the staged template", err)
	}
	if o := j.b.opts.Owner; o != nil {
		if err := os.Lchown(j.in("layer", treeName), o.UID, o.GID); err != nil {
			return internal("give the staged template to its owner", err)
		}
	}
	j.b.onPhase("staged")
	if err := j.fill(ctx); err != nil {
		return err
	}
	j.b.onPhase("filled")
	return j.publish()
}

func (j *job) in(names ...string) string {
	return filepath.Join(append([]string{j.b.opts.Staging, j.staging}, names...)...)
}

// clean removes what a killed build left: it is not ready, and unused.
func (j *job) clean(ctx context.Context) error {
	return errors.Join(remove(ctx, j.b.opts.Layers, j.r.Hash), remove(ctx, j.b.opts.Staging, j.staging))
}

func remove(ctx context.Context, dir, name string) error {
	root, err := rootfs.Open(dir, rootfs.Options{})
	if err != nil {
		return internal("remove an unfinished template", err)
	}
	defer func() { _ = root.Close() }()
	if _, err := root.RemoveAll(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return internal("remove an unfinished template", err)
	}
	return nil
}

// fill writes the tree and its manifest.
func (j *job) fill(ctx context.Context) error {
	dst, err := rootfs.Open(j.in("layer", treeName), rootfs.Options{Owner: j.b.opts.Owner, AllowChown: j.b.opts.Owner != nil})
	if err != nil {
		return internal("open the staged template", err)
	}
	defer func() { _ = dst.Close() }()
	for _, d := range j.r.Deps {
		if err := j.dep(ctx, dst, d); err != nil {
			return problemOf(d, err)
		}
		j.done++
		j.tell(d)
	}
	j.b.onPhase("written")
	return j.manifest(ctx, dst)
}

// problemOf reports which dep could not be built, and where the template names it.
func problemOf(d Dep, err error) error {
	code, text, hint := fserr.Parts(err)
	return d.From[0].Because(code, err, hint, "dep %s, repository %q at %.12s: %s", d.Path, d.Repo, d.Commit, text)
}

func (j *job) tell(d Dep) {
	j.progress(Progress{Dep: d.Path, Deps: j.done, DepsTotal: len(j.r.Deps), Files: j.tally.files, Bytes: j.tally.bytes})
}

func (j *job) dep(ctx context.Context, dst rootfs.Root, d Dep) error {
	if _, err := dst.MkdirAll(d.Path, 0o755); err != nil && d.Path != "/" {
		return err
	}
	repo, ok := j.r.repos[d.Source]
	if !ok {
		return &fserr.Error{Code: fserr.EINVAL, Detail: "the template was not resolved here"}
	}
	o, err := repo.Objects(ctx, j.in(), d.Commit)
	if err != nil {
		return err
	}
	j.b.onPhase("reading " + d.Path)
	c := &checkout{ctx: ctx, objects: o, dst: dst, tally: &j.tally, written: func() {
		if j.tally.files%progressEvery == 0 {
			j.b.onPhase("writing " + d.Path)
			j.tell(d)
		}
	}}
	return errors.Join(c.commit(d.Commit, d.Path), o.Close())
}

// manifest records the content of the tree: the base of every later difference.
func (j *job) manifest(ctx context.Context, dst rootfs.Root) error {
	var entries []seed.Entry
	err := dst.Walk(ctx, ".", tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		if err != nil || e.Stat == nil {
			return errors.Join(err, fmt.Errorf("no attributes of %q", rel))
		}
		target := ""
		if e.Type == rootfs.TypeSymlink {
			target, err = dst.Readlink(rel)
		}
		entries = append(entries, seed.NewEntry(rel, *e.Stat, target))
		return err
	})
	if err != nil {
		return internal("list the staged template", err)
	}
	m := seed.NewManifest(j.repositories(), entries)
	m.Template = j.r.Hash
	if _, err := m.Write(j.in("layer", manifestName)); err != nil {
		return internal("write the template's manifest", err)
	}
	j.b.onPhase("manifested")
	return nil
}

func (j *job) repositories() []seed.Repository {
	var out []seed.Repository
	for _, d := range j.r.Deps {
		out = append(out, seed.Repository{Path: path.Join(".", d.Path[1:]), Head: d.Commit, Branch: d.Ref, Source: d.Source})
	}
	return out
}

// publish gives the layer its name, and then marks it ready.
func (j *job) publish() error {
	dir := filepath.Join(j.b.opts.Layers, j.r.Hash)
	err := durable.Tree(j.in("layer"))
	if err == nil {
		err = os.Rename(j.in("layer"), dir)
	}
	if err == nil {
		err = durable.Names(j.b.opts.Layers)
	}
	if err != nil {
		return internal("publish the template", err)
	}
	j.b.onPhase("renamed")
	err = markReady(dir, readyFile{
		Format: readyFormat, Hash: j.r.Hash, Chain: j.r.Chain, Deps: j.r.Deps,
		Files: j.tally.files, Bytes: j.tally.bytes, Built: j.b.opts.Now().UTC(),
	})
	if err != nil {
		return internal("mark the template ready", err)
	}
	j.b.onPhase("marked")
	return nil
}
