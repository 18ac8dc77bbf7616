// Package overlay is the driver that makes a context without copying: Linux's
// overlayfs (https://docs.kernel.org/filesystems/overlayfs.html) shows the layer
// and, above it, what the context changed. The first access costs one mount. An unchanged
// context takes a few directories on disk. A file is copied when it is first written.
//
// A context's state is
//
//	upper/   what it changed; its root has the attributes of the context's root
//	work/    the kernel's
//	lower/   empty, and only when the context started empty
//	kept     a file with an extended attribute, which says that a copy of the state has kept the others too
//	base     a symbolic link that names the part below the changes, and only when the context has one (driver.Sharer)
//
// A part is what was a state. Its upper directory never changes again.
//
// It has two modes, whose contexts are never mixed:
//
//   - New needs root. It uses redirect_dir and index, which write xattrs that only root may write. They make it possible
//     to rename directories of the layer, and keep inode numbers the same at the first write.
//   - NewUserNS works without them, for any user, in the namespaces of package namespaces. There rootfs renames a
//     directory by moving its content, and Prepare copies files with several names, which the first write would separate.
//
// An upper directory never has two mounted file systems: the kernel refuses a
// second (index=on), and this package uses the one it finds. The source of a mount,
// "ctxfs:<device>:<inode>" ("ctxfs-userns:..."), names its upper directory. So the package
// recognizes the mount whichever process and path made it.
package overlay

import (
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// Names are what records say of contexts that this driver made: as root, and in namespaces of its own.
const (
	Name       = "overlay"
	UserNSName = "overlay-userns"
)

// Names within a context's state.
const (
	upperName = "upper"
	workName  = "work"
	lowerName = "lower"
	keptName  = "kept"
	baseName  = "base"
)

// Options of New.
type Options struct {
	// Owner, when not nil, is given to the root of a context that starts empty.
	Owner *rootfs.Owner
	// Parts is the directory of the parts (driver.Sharer.Parts); "" means that Duplicate copies. NewUserNS ignores it: without the
	// kernel's index, the names of a file in a part would come apart at its first write.
	Parts string
	// MaxFlush is how long the disk may take to write what was changed in a moment; 0 means 250 ms. If it takes longer, Freeze is refused,
	// since its unmount writes too, and writers wait for it.
	MaxFlush time.Duration
	// Log receives what was healed; nil means no log.
	Log *zap.Logger

	// byName hands the directories to the kernel as names rather than descriptors, as before Linux 6.13.
	byName bool
	// probing is called while Check has its tree mounted; may be nil.
	probing func()
}

// maxFlush is the default of Options.MaxFlush.
const maxFlush = 250 * time.Millisecond

// Driver mounts. It keeps no state but what it knows of layers, which never change: the kernel's table of mounts is the truth.
type Driver struct {
	opts   Options
	mode   mode
	linked linkedLayers
}

var (
	_ driver.Sharer = (*Driver)(nil)
	_ driver.Linker = (*Driver)(nil)
)

// New returns the Driver of a root. Whether it can work here is for Check to say.
func New(opts Options) *Driver { return newDriver(opts, rootMode()) }

// NewUserNS returns the Driver of a process in a user namespace of its own (namespaces.Command). Whether it
// can work here is for Check to say.
func NewUserNS(opts Options) *Driver {
	opts.Parts = ""
	return newDriver(opts, usernsMode())
}

func newDriver(opts Options, m mode) *Driver {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.MaxFlush == 0 {
		opts.MaxFlush = maxFlush
	}
	return &Driver{opts: opts, mode: m}
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.mode.name }

// Upper implements driver.Mounter.
func (d *Driver) Upper(state string) string { return filepath.Join(state, upperName) }

// TakesLinkedLayers implements driver.Linker: with index=on a file keeps its inode number across its first
// write however many names it has. In a user namespace it does not keep it anyway.
func (d *Driver) TakesLinkedLayers() {}
