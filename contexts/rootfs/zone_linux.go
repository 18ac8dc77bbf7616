package rootfs

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// OpenZone opens the directory dir of parent as a Root of its own. A link anywhere in dir is ELOOP. It fails with EOPNOTSUPP if parent is not
// an implementation for Linux.
func OpenZone(parent Root, dir string, opts Options) (Root, error) {
	p, ok := parent.(*linuxRoot)
	if !ok {
		return nil, fserr.Wrap(errZones, "open", dir, "")
	}
	fd, err := p.openPath(dir, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, failed(err, "open", dir)
	}
	defer node.CloseFD(fd)
	opts.Implementation = p.opts.Implementation
	r, err := openLinuxAt(fd, ".", opts, p.syscall)
	if err != nil {
		return nil, failed(err, "open", dir)
	}
	return r, nil
}

// sub opens a zone as a Root of its own, which its paths cannot leave.
func (z *Zoned) sub(name string) (Root, error) {
	zone, ok := z.Zone(name).(*linuxRoot)
	if !ok {
		return nil, fserr.Wrap(z.outside("/", false), "open", "/"+name, "")
	}
	opts := zone.opts
	opts.Zone = false
	return OpenZone(zone, ".", opts)
}

// permitted calls change unless the options forbid changes.
func (r *linuxRoot) permitted(change func() error) error {
	if r.opts.Refuse != nil {
		return r.opts.Refuse
	}
	return change()
}

// charge counts content that is about to be written.
func (r *linuxRoot) charge(bytes int) error {
	if r.opts.Charge == nil {
		return nil
	}
	return r.opts.Charge(int64(bytes))
}

// Charge counts content that is about to be copied into the file.
func (f *linuxFile) Charge(bytes int64) error { return f.root.charge(int(bytes)) }

func (r *linuxRoot) barred(name string) bool { return r.opts.Barred != nil && r.opts.Barred(name) }

// hasBarred reports whether a component of path is barred.
func (r *linuxRoot) hasBarred(path string) bool {
	if r.opts.Barred == nil {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if r.opts.Barred(name) {
			return true
		}
	}
	return false
}

func (r *linuxRoot) visible(name string) bool { return !Reserved(name) && !r.barred(name) }

// leave ends the walk of a path that leads out of the zone.
func (w *pathWalk) leave() error {
	rest := "/" + strings.Join(w.rest, "/")
	if w.mustDir && rest != "/" {
		rest += "/"
	}
	return &node.Leaving{Rest: rest}
}

// leavingTo adds to a Leaving of a path's directory what follows the directory in the path.
func leavingTo(err error, rest string) error {
	var l *node.Leaving
	if !errors.As(err, &l) {
		return err
	}
	return &node.Leaving{Rest: strings.TrimSuffix(l.Rest, "/") + "/" + rest}
}
