// Package contexts owns the contexts of one workspace: their IDs, their folders
// under <workspace>/.contexts, how they are seeded on first access, and the gate
// that every file operation passes. It knows no gRPC and opens no path inside a
// context itself: that is rootfs.
//
// # The gate
//
// Every operation goes through Acquire, which gives the context's root, its
// generation and a release. Operations share the gate. A restore or a deletion takes it
// alone: it asks the operations inside to end (Access.Closing), waits for them, and raises
// the generation. A handle of an older generation is ESTALE.
// A fork or a snapshot freezes the gate: operations that change something wait
// until the copy is made, those that only read go on, and every handle stays what it is.
//
// Each of these gives up with EBUSY after 10 s if operations inside do not end. The gate is then
// open as before. No lock is held for more than one context over disk, mount or store, but for
// the moment in which a collection renames garbage away; every wait ends with its caller or within a stated time.
//
// # First access
//
// Ensure seeds a context that is missing. All concurrent first accesses, in this
// process and in others, share one seeding, which outlives the caller that began
// it. A context either does not exist or is complete: it is made in
// .ctxfs/staging and renamed.
package contexts

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/metadata"
)

// Gate is what a file service needs of contexts.
type Gate interface {
	// Acquire opens the gate of a context that is ready. A missing context is
	// ESTALE with fserr.KindContext; one being seeded EAGAIN with RetryAfter. The
	// caller must call Access.Release exactly once. use says what it is acquired for: who changes a context
	// that was acquired to Read it may see his change lost to a fork or a snapshot, or in both.
	Acquire(ctx context.Context, id ID, use Use) (*Access, error)
	// Ensure makes the context ready, seeding it when it is missing, and waits for
	// a seeding that another caller began. When ctx ends first the error is EAGAIN with RetryAfter
	// and the counts so far, and the seeding goes on. A context whose last seeding failed is
	// seeded anew. progress may be nil; it is called from one goroutine at a time.
	Ensure(ctx context.Context, id ID, opts EnsureOptions, progress func(Progress)) (Ensured, error)
}

// Admin is the life cycle of contexts, for hosts.
type Admin interface {
	Gate
	// Get describes a context; StateMissing, and no error, when there is none. It changes nothing.
	Get(ctx context.Context, id ID) (Info, error)
	// List describes all contexts, by ID.
	List(ctx context.Context) ([]Info, error)
	// Delete removes the folder, the snapshots, the record, its panels' bindings and their tokens. It works on a full disk. A
	// missing context is ESTALE; one whose operations do not end within 10 s is EBUSY.
	Delete(ctx context.Context, id ID) (Deleted, error)
	// Fork makes the context to with what from holds now; later changes to one do not show in the other. It is a copy of one moment: operations that Write to
	// from wait until it is made, and everything that is open stays so. A to that exists is EEXIST; a from whose writers do not
	// end within 10 s is EBUSY.
	Fork(ctx context.Context, from, to ID, opts EnsureOptions) (Info, error)
	// Snapshot keeps what a context holds now under a name, as Fork does; EEXIST when the name is taken, EINVAL when it is bad.
	Snapshot(ctx context.Context, id ID, name string) (Snapshot, error)
	// Snapshots lists the snapshots of a context, oldest first.
	Snapshots(ctx context.Context, id ID) ([]Snapshot, error)
	// Restore puts a copy of what a snapshot holds in place of what a context holds, in one step, when its operations have ended. What
	// was open becomes ESTALE. An unknown snapshot is ENOENT; operations that do not end within 10 s are EBUSY.
	Restore(ctx context.Context, id ID, name string) (Info, error)
	// DeleteSnapshot removes a snapshot; ENOENT when there is none.
	DeleteSnapshot(ctx context.Context, id ID, name string) error
	// Sizes measures a context on disk, which reads all its directories.
	Sizes(ctx context.Context, id ID) (Sizes, error)
	// CollectGarbage removes what nothing refers to any more and, when asked for, contexts that have not been used for long. It returns
	// each item that was removed, or could not be. The error says that it could not look for everything; EAGAIN, that contexts are
	// being made or deleted all the time.
	CollectGarbage(ctx context.Context, opts GarbageOptions) ([]Garbage, error)
	// PlanSeed says what a seeding now would copy, and copies nothing.
	PlanSeed(ctx context.Context, opts PlanOptions) (Plan, error)
}

// Use says what an operation does with a context.
type Use int

// The uses of a context.
const (
	Read  Use = 0
	Write Use = 1
)

// Access is an open gate.
type Access struct {
	// Root is the context's folder. It must not be used after Release.
	Root rootfs.Root
	// Generation rises when the folder is replaced.
	Generation uint64
	id         ID
	account    *account
	ctx        context.Context //nolint:containedctx // the acquiring call's, for Charge
	release    func()
	released   atomic.Bool
	closing    context.Context //nolint:containedctx // it is the signal, not a call's
}

// NewAccess returns an Access that calls release, once, on Release.
func NewAccess(root rootfs.Root, generation uint64, release func()) *Access {
	return &Access{Root: root, Generation: generation, release: release}
}

// ClosingWith makes closing what Closing returns, and returns a.
func (a *Access) ClosingWith(closing context.Context) *Access {
	a.closing = closing
	return a
}

// Closing ends when a caller is about to replace or delete the context. An operation that may last as long as its client
// pleases must then end, with ESTALE.
func (a *Access) Closing() context.Context {
	if a.closing == nil {
		return context.Background()
	}
	return a.closing
}

// Charge must be asked before up to so many bytes of content are written, or so many files, directories and links
// are made; EDQUOT when the context would have too much. It waits at most until the context of Acquire ends, and is EAGAIN then.
func (a *Access) Charge(bytes, entries int64) error {
	if a.account == nil {
		return nil
	}
	return a.account.charge(a.ctx, a.id, bytes, entries)
}

// Release closes the gate again. Only its first call does something.
func (a *Access) Release() {
	if !a.released.Swap(true) {
		a.release()
	}
}

// EnsureOptions of Ensure.
type EnsureOptions struct {
	// OwnerPanel is the panel that the ID was derived from; "" means that the ID
	// was named explicitly. An ID owned by another panel, or equal to an existing one
	// but for case, is EEXIST.
	OwnerPanel string
}

// Ensured is Ensure's result.
type Ensured struct {
	Info
	// Seeded says that this call waited for a seeding; false when the context was there.
	Seeded bool
	// Took is how long the caller waited.
	Took time.Duration
}

// State is a context's state.
type State string

// The states of a context.
const (
	StateMissing State = "missing"
	StateSeeding State = State(metadata.ContextSeeding)
	StateReady   State = State(metadata.ContextReady)
	StateFailed  State = State(metadata.ContextFailed)
)

// Info describes a context.
type Info struct {
	ID    ID
	State State
	// LastError tells why State is StateFailed.
	LastError string
	// Folder is the server path, for hosts only.
	Folder     string
	Driver     string
	Layer      string
	Generation uint64
	// Files and Bytes are what was seeded.
	Files, Bytes int64
	CreatedAt    time.Time
	// SeededIn is how long seeding took.
	SeededIn time.Duration
	// Panels lists the panels bound to it.
	Panels []string
	// OwnerPanel is the panel that the ID was derived from, "" when it was named explicitly or is not known.
	OwnerPanel string
	// Progress is set while State is StateSeeding in this process.
	Progress *Progress
	// Recovered says that the record was rebuilt from the folder.
	Recovered bool
	// ForkedFrom is the context that it is a copy of, "" for others.
	ForkedFrom ID
	// UsedAt is when it was last used, to a few minutes; zero when that is not known.
	UsedAt time.Time
}

// Phase is a step of seeding.
type Phase string

// The phases of seeding, in order. PhaseScanning and PhaseLayering are passed over
// when a current layer exists; PhaseBuilding stands in their place for a template that is not built yet.
const (
	PhaseWaiting  Phase = "waiting"  // another process seeds
	PhaseScanning Phase = "scanning" // discovery and stat walk of the workspace
	PhaseLayering Phase = "layering" // copying the live tree into a layer
	PhaseBuilding Phase = "building" // writing a template's repositories into a layer
	PhaseCopying  Phase = "copying"  // making the folder from the layer
	PhaseRecord   Phase = "recording"
)

// Progress is how far a seeding is.
type Progress struct {
	Phase                 Phase
	FilesDone, FilesTotal int64
	BytesDone, BytesTotal int64
}

// Deleted says what Delete removed.
type Deleted struct{ Entries int64 }

// PlanOptions of PlanSeed.
type PlanOptions struct {
	// Largest is how many of the largest directories to name; 0 means 10.
	Largest int
}

// Plan is what a seeding would do.
type Plan struct {
	// Repositories lists the workspace's repositories, relative, slash-separated; "." is the workspace itself.
	Repositories []Repository
	Files, Bytes int64
	// Largest lists the largest top directories, largest first.
	Largest []DirSize
	// Skipped counts what the excludes and ignore files left out, by reason: ".git", "node_modules", ".contextignore".
	Skipped []Skipped
	// TooLarge tells that the size guard would refuse it, and how to remedy; "" when not.
	TooLarge string
}

// Repository is a git repository of the workspace.
type Repository struct {
	Path string
	// Head is the commit, "" before the first one. Branch is "" when detached.
	Head, Branch string
	Dirty        bool
}

// DirSize is a directory and what it holds, recursively.
type DirSize struct {
	Path         string
	Files, Bytes int64
}

// Skipped counts what was left out for one reason. Files is -1 when the directory was not entered to count.
type Skipped struct {
	Reason         string
	Entries, Files int64
}
