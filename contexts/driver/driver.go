// Package driver says how a context's folder is made from a layer, an immutable
// directory tree. Implementations are packages below (copyfs, overlay); all pass
// drivertest.
//
// # Life cycle
//
//	Prepare(layer, staging)  ->  the caller renames staging to its final place  ->  Remove
//	Duplicate(context, staging)  ->  the same
//
// Prepare fills an empty staging directory; nothing refers to it yet, so a crash
// leaves only something to sweep. The rename that publishes it is the caller's.
//
// A plain Driver's Prepare fills the context's folder itself. A Mounter's Prepare
// fills a separate directory, the context's state, which only the driver reads.
// The folder shows the context only while it is mounted:
//
//	Prepare(layer, staging)  ->  renamed to Place.State  ->  Mount  ->  Unmount  ->  Mount ...
//
// A context is of one driver for good: its state means nothing to another.
package driver

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// Driver makes contexts from layers. It is safe for concurrent use.
type Driver interface {
	// Name is what a context's record keeps: "copy".
	Name() string
	// Prepare fills dst, an empty directory, with the content of src, a layer's
	// tree: types, modes, ns mtimes, link targets, hard links and xattrs equal. src is not
	// changed. It stops at ctx's end and leaves dst to the caller to remove.
	// progress may be nil; it is called from one goroutine at a time.
	Prepare(ctx context.Context, src, dst string, progress func(Progress)) error
	// Duplicate makes dst, which does not exist, from another context of this driver as Prepare would have, had its
	// layer been what that context holds now. src is that context's folder; of a Mounter it is the state, and dst becomes
	// one that belongs to the same layer.
	//
	// The service's own writers may be at work in src. Duplicate calls freeze once, which must call its argument while they wait; that is
	// the moment of the copy. A nil freeze says that there are none. Other programs may be at work in src at any time: a file of theirs
	// is copied as it was at one moment, or named in changed. FIFOs, sockets and devices are left out.
	Duplicate(ctx context.Context, src, dst string, freeze func(func(context.Context) error) error) (changed []string, err error)
	// Check says whether the driver can work with contexts under dir; an error
	// names what is missing.
	Check(ctx context.Context, dir string) error
}

// Linker is a Driver that takes layers whose files have further names outside of them (hard links, which layers share):
// it never changes such a file, and what a context shows is the same as without them.
type Linker interface {
	Driver
	// TakesLinkedLayers marks it.
	TakesLinkedLayers()
}

// Sparer is a Driver whose contexts are plain folders: they can be made before anybody asks for them.
type Sparer interface {
	Driver
	// PrepareSpare is Prepare for a copy that no caller waits for yet. It does all work and calls progress in the
	// caller's goroutine, so that progress may slow it down.
	PrepareSpare(ctx context.Context, src, dst string, progress func(Progress)) error
}

// Progress counts what Prepare has made so far.
type Progress struct{ Files, Bytes int64 }

// Mounter is a Driver whose contexts are seen only while they are mounted. Its
// Prepare makes the state of a context in dst; a src of "" is a context that starts empty.
// The caller ensures that one context is mounted or unmounted by one process at a time.
type Mounter interface {
	Driver
	// Mount shows a context at its folder, which is made when it is missing. A mount of
	// this context that is there already is used; one that a context of the past left
	// is removed. What somebody else mounted there is EBUSY, and so is a context that is mounted
	// where this process cannot see it. A state and a layer that were copied, as from a backup, are
	// used like the first ones. EIO means that the layer or the state is gone or damaged, EOPNOTSUPP that this server cannot mount. None of them changes the context.
	Mount(ctx context.Context, p Place) error
	// Unmount ends the mount of a context at folder; nil when there is none. One in use (an open
	// file, a process's working directory) is EBUSY, unless lazily: then its users
	// keep what they have, out of everybody else's sight. What somebody else mounted is EBUSY and stays.
	Unmount(ctx context.Context, folder string, lazily bool) error
	// LeftChecks names what a Check under dir left there, directly, whose process was killed. A Check that runs is not
	// among them.
	LeftChecks(dir string) ([]string, error)
	// RemoveCheck unmounts and removes one of LeftChecks.
	RemoveCheck(ctx context.Context, dir, name string) error
	// Lost reports whether a state, which may be a snapshot's, came back from a backup without the extended attributes that say
	// what was renamed and replaced. Mount and Duplicate refuse it (EIO). Restoring it with them is the remedy.
	Lost(state string) bool
	// Accept makes a lost state usable as it is. A directory that was renamed then lacks the files that were not changed in it, and one
	// that replaced another shows that one's files too. It must not be mounted.
	Accept(ctx context.Context, state string) error
	// Upper is the directory of a state with the files that the context changed.
	Upper(state string) string
	// Changed lists the paths, relative and slash-separated, at which or below which a state may differ from its layer. It may be mounted. A path
	// that is not named, and has none that is named above it, is as in the layer.
	Changed(ctx context.Context, state string) ([]string, error)
	// View opens what a state shows, for reading only. The state may be a snapshot's, which is never mounted. No other process sees the view, and
	// it ends with the last descriptor, also if this process is killed. Errors are those of Mount.
	View(ctx context.Context, layer, state string) (rootfs.Root, error)
	// Mounts names the directories directly in dir where this driver has mounted contexts, in
	// this process or another, alive or dead.
	Mounts(dir string) ([]string, error)
}

// Sharer is a Mounter that can copy a context without copying its files. It freezes what the context changed. That becomes a part: a
// directory that never changes again, and that the context and its copies show below their own changes.
//
// A state names at most one part, and a part may name a further one. Nothing counts the references. A part is garbage when no state
// leads to it.
type Sharer interface {
	Mounter
	// Parts is the directory of the parts, "" if this driver makes none. It is on the file system of the states.
	Parts() string
	// PartsOf names the parts that a state, or a part, leads to, the uppermost first.
	PartsOf(state string) ([]string, error)
	// Small reports whether a copy of what the state changed takes about as long as to freeze it.
	Small(ctx context.Context, state string) bool
	// Sharable fails with EBUSY if what the context changed cannot become a part: it has too many parts already, or names of a file of
	// its layer would come apart. The error is for a log.
	Sharable(ctx context.Context, p Place) error
	// NewPart makes a directory in Parts for Freeze, and names it. It fails with EBUSY if another program would lose something by Freeze:
	// it watches the folder, or has the mount in a mount namespace of its own.
	NewPart(ctx context.Context, p Place) (name string, err error)
	// Freeze ends the mount of a context that the caller has alone, makes a part of what the context changed, and mounts the context
	// again, which has changed nothing then. The part has the name that NewPart returned. The context takes the part into use by one
	// rename, so that a crash leaves it as it was before or after. Freeze fails with EBUSY if a program uses the mount. After an error
	// the context is as before, and the directory of NewPart is garbage.
	Freeze(ctx context.Context, p Place, name string) error
	// OnPart makes dst, which does not exist, the state of a context that shows what the part shows.
	OnPart(part, dst string) error
}

// Place is where a context of a Mounter is; all are absolute paths.
type Place struct {
	// Layer is the tree that the context was prepared from, "" when it started empty.
	Layer string
	// State is what Prepare made.
	State string
	// Folder is where the context is seen.
	Folder string
}
