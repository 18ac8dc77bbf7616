// Package overlay is the driver that makes a context without copying: Linux's
// overlayfs (https://docs.kernel.org/filesystems/overlayfs.html) shows the layer
// and, above it, what the context changed. The first access costs one mount, a context
// that nobody changed takes a few directories, and a file is copied when it is first written.
//
// A context's state is
//
//	upper/   what it changed; its root has the attributes of the context's root
//	work/    the kernel's
//	lower/   empty, and only when the context started empty
//	kept     a file with an extended attribute, which says that a copy of the state has kept the others too
//
// It has two modes, whose contexts are never mixed. The one of New needs root: redirect_dir and index, without
// which directories of the layer could not be renamed and inode numbers would change at
// the first write, keep their notes in xattrs that only root may write. NewUserNS does without
// them, in the namespaces that package namespaces makes for any user: rootfs renames directories
// by moving what they hold, and Prepare copies files with several names, which would come apart at the first write.
//
// One file system is ever mounted of an upper directory: the kernel refuses a
// second (index=on), and this package uses the one it finds. A mount's source,
// "ctxfs:<device>:<inode>" ("ctxfs-userns:..."), names the upper directory that it is of, by which it is known
// again whoever made it and whatever path led there.
package overlay

import (
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
)

// Options of New.
type Options struct {
	// Owner, when not nil, is given to the root of a context that starts empty.
	Owner *rootfs.Owner
	// Log is told what was healed; nil means nobody.
	Log *zap.Logger

	// byName hands the directories to the kernel as names rather than descriptors, as before Linux 6.13.
	byName bool
	// probing is called while Check has its tree mounted; may be nil.
	probing func()
}

// Driver mounts. It keeps no state but what it knows of layers, which never change: the kernel's table of mounts is the truth.
type Driver struct {
	opts   Options
	mode   mode
	linked linkedLayers
}

var (
	_ driver.Mounter = (*Driver)(nil)
	_ driver.Linker  = (*Driver)(nil)
)

// New returns the Driver of a root. Whether it can work here is for Check to say.
func New(opts Options) *Driver { return newDriver(opts, rootMode()) }

// NewUserNS returns the Driver of a process in a user namespace of its own (namespaces.Command). Whether it
// can work here is for Check to say.
func NewUserNS(opts Options) *Driver { return newDriver(opts, usernsMode()) }

func newDriver(opts Options, m mode) *Driver {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	return &Driver{opts: opts, mode: m}
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.mode.name }

// TakesLinkedLayers implements driver.Linker: with index=on a file keeps its inode number across its first
// write however many names it has. In a user namespace it does not keep it anyway.
func (d *Driver) TakesLinkedLayers() {}
