// Package repos owns what a context does with the workspace's repositories: which there are, what the context changed in them, commits that
// were staged for a person to look at, and how these are pushed. It builds on package review, which compares a context with its base, and on
// package git, which runs no program that a repository names. It knows no gRPC.
//
// # Staged commits
//
// Each staged commit is a directory <dir>/<id>.git: a bare repository with the objects that the commit's parent does not have, the ref
// refs/ctxfs/staged/<id>, and the record staged.json. It borrows all other objects from the repository of the workspace. Stage builds it
// under another name, writes it to the disk, and renames it, so a staged commit is there as a whole or not at all. Discard renames it
// back and removes it. Nothing else refers to its objects. A push removes them, since its target has them then, and keeps the record for a while.
package repos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/review"
)

// Config of Open. Reviews, Git, Workspace and Dir are required.
type Config struct {
	// Reviews compares contexts with their bases, and moves these.
	Reviews *review.Reviews
	// Dir keeps the staged commits.
	Dir string
	// Workspace is the folder that the repositories lie in.
	Workspace string
	// Git says where git works, and how long it may take.
	Git git.Options
	// MaxFiles and MaxBytes bound what one Pull reads; 0 means the defaults of seeding.
	MaxFiles, MaxBytes int64
	// Remotes are prefixes of the addresses that may be pulled from and pushed to. Without any, see Repos.Allowed.
	Remotes []git.Address
	// Log may be nil.
	Log *zap.Logger
}

// Repos serves the repositories of one workspace. It is safe for concurrent use.
type Repos struct {
	cfg Config
	git *git.Reader

	mu    sync.Mutex
	locks map[string]*keyLock
	// known are the staged commits that there are, by ID.
	known map[string]known
	// naming are the branches that a Stage that runs has chosen.
	naming map[string]bool
	// running has room for the calls that run git at once.
	running chan struct{}
	// finishTime bounds what a Push does once the branch has moved.
	finishTime time.Duration
	// stagedBytes is maxStagedBytes, but for tests.
	stagedBytes int64
	// point is called with the name of each phase of what changes files. Tests stop there.
	point func(phase string)
}

// Open returns the repositories of a workspace. It removes what a killed server left of staged commits, and settles pushes to the workspace.
func Open(ctx context.Context, cfg Config) (*Repos, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	limits := seed.Options{MaxFiles: cfg.MaxFiles, MaxBytes: cfg.MaxBytes}.WithDefaults()
	cfg.MaxFiles, cfg.MaxBytes = limits.MaxFiles, limits.MaxBytes
	if err := durable.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	r := &Repos{
		cfg: cfg, git: git.NewReader(cfg.Git), locks: map[string]*keyLock{}, known: map[string]known{}, naming: map[string]bool{},
		running: make(chan struct{}, maxRunning), finishTime: finishTime, stagedBytes: maxStagedBytes, point: func(string) {},
	}
	if err := errors.Join(r.sweep(), r.scan(ctx)); err != nil {
		return nil, err
	}
	if err := r.settleAll(ctx); err != nil {
		return nil, err
	}
	if err := r.Collect(ctx); err != nil {
		cfg.Log.Warn("what is left of pushed commits is removed later", zap.Error(err))
	}
	return r, ctx.Err()
}

// How many calls run git at once: for one context, and in all. A call has up to three processes.
const (
	maxRunningOfContext = 4
	maxRunning          = 32
)

// run waits until one more call may run git for a context. A call that waits for a lock of the context, or of a staged commit, waits for that first.
func (r *Repos) run(ctx context.Context, id string) (done func(), err error) {
	leave, err := r.enter(ctx, "git of "+id, maxRunningOfContext)
	if err != nil {
		return nil, err
	}
	select {
	case r.running <- struct{}{}:
		return func() { <-r.running; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, &fserr.Error{Code: fserr.CodeOf(ctx.Err()), Detail: "the server runs git for many other calls", Err: ctx.Err()}
	}
}

// keyLock is a lock, of one holder or several, with the number of its users.
type keyLock struct {
	held  chan struct{}
	users int
}

// lock waits for what a key names: "stage CONTEXT", "staged ID", "repository PATH", or "history for CONTEXT". The holder changes it alone.
func (r *Repos) lock(ctx context.Context, key string) (unlock func(), err error) {
	return r.enter(ctx, key, 1)
}

// enter waits for what a key names, which so many may hold at once.
func (r *Repos) enter(ctx context.Context, key string, most int) (leave func(), err error) {
	l, left := r.use(key, most)
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; left() }, nil
	case <-ctx.Done():
		left()
		return nil, &fserr.Error{Code: fserr.CodeOf(ctx.Err()), Detail: "other calls use the same context, repository or staged commit", Err: ctx.Err()}
	}
}

// tryLock is lock, but returns nil if it would have to wait.
func (r *Repos) tryLock(key string) (unlock func()) {
	l, left := r.use(key, 1)
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; left() }
	default:
		left()
		return nil
	}
}

// use returns the lock of a key, and a function that ends the use.
func (r *Repos) use(key string, most int) (l *keyLock, left func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.locks[key]
	if !ok {
		l = &keyLock{held: make(chan struct{}, most)}
		r.locks[key] = l
	}
	l.users++
	return l, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(r.locks, key)
		}
	}
}

// repository is a repository that a context was seeded with, opened in the workspace.
type repository struct {
	*git.Local
	// Path is relative to the workspace, "" for the workspace's own.
	Path   review.Path
	Seeded seed.Repository
}

// repository opens a repository of a context by its path.
func (r *Repos) repository(ctx context.Context, operation, id string, p review.Path) (*repository, error) {
	all, err := r.cfg.Reviews.Repositories(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, seeded := range all {
		if pathOf(seeded) == p {
			return r.open(operation, seeded)
		}
	}
	e := &Error{Reason: NoRepository, Operation: operation, Repo: string(p), Detail: "the context has no such repository", Hint: "it was seeded without one"}
	if len(all) > 0 {
		e.Hint = "there are: " + shownRepositories(all)
	}
	return nil, e
}

// open opens a repository in the workspace.
func (r *Repos) open(operation string, seeded seed.Repository) (*repository, error) {
	p := pathOf(seeded)
	if seeded.IsElsewhere() {
		return nil, &Error{
			Reason: NoRepository, Operation: operation, Repo: string(p),
			Detail: "the template has the repository from " + seeded.Source + ", where the workspace has another place for it or none",
			Hint:   "apply its changes as a patch",
		}
	}
	local, err := r.local(p)
	if fserr.CodeOf(err) == fserr.ENOENT {
		return nil, &Error{Reason: NoRepository, Operation: operation, Repo: string(p), Detail: "the workspace does not have the repository any more", Hint: "put it back", Err: err}
	}
	if err != nil {
		return nil, err
	}
	return &repository{local, p, seeded}, nil
}

// local opens a repository of the workspace.
func (r *Repos) local(p review.Path) (*git.Local, error) {
	src, err := r.cfg.Reviews.Source()
	if err != nil {
		return nil, err
	}
	return r.git.Open(src, path.Join(".", string(p)), path.Join("/", string(p)))
}

// pathOf returns a repository's path relative to the workspace, "" for the workspace's own.
func pathOf(s seed.Repository) review.Path {
	if s.Path == "." {
		return ""
	}
	return review.Path(s.Path)
}

// shownRepositories lists a few paths for a message.
func shownRepositories(all []seed.Repository) string {
	const few = 5
	var out []string
	for _, s := range all[:min(len(all), few)] {
		out = append(out, "/"+string(pathOf(s)))
	}
	if len(all) > few {
		out = append(out, fmt.Sprintf("and %d more", len(all)-few))
	}
	return strings.Join(out, ", ")
}

// sweep removes what a killed server left: staged commits that were being made, or being removed.
func (r *Repos) sweep() error {
	entries, err := os.ReadDir(r.cfg.Dir)
	errs := []error{err}
	for _, e := range entries {
		name := filepath.Join(r.cfg.Dir, e.Name())
		if strings.HasPrefix(e.Name(), newPrefix) || strings.HasPrefix(e.Name(), gonePrefix) {
			errs = append(errs, os.RemoveAll(name))
			continue
		}
		if err := sweepWithin(name); err != nil {
			r.cfg.Log.Warn("what a killed server left could not be removed", zap.String("staged", e.Name()), zap.Error(err))
		}
	}
	return errors.Join(errs...)
}
