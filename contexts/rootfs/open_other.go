//go:build !linux

package rootfs

import (
	"github.com/ctxfs/ctxfs/fserr"
)

// open has only the portable implementation to choose.
func open(dir string, opts Options) (Root, error) {
	if opts.Implementation == "openat2" || opts.Implementation == "walk" {
		return nil, &fserr.Error{Op: "open", Code: fserr.EOPNOTSUPP, Detail: "rootfs implementation " + opts.Implementation + " needs Linux"}
	}
	if opts.Special() {
		return nil, errZones
	}
	return openPortable(dir, opts)
}

// OpenZone fails with EOPNOTSUPP.
func OpenZone(_ Root, dir string, _ Options) (Root, error) {
	return nil, fserr.Wrap(errZones, "open", dir, "")
}
