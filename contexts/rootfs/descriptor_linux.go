package rootfs

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// Descriptor returns a further descriptor of the root's directory, which a caller passes to a process that binds the directory into its
// own mount namespace. The caller closes it. It fails with EOPNOTSUPP for an implementation that has no descriptor (osroot). Nothing else
// is opened through it: it is an O_PATH descriptor, and opening below it is not confined.
func Descriptor(root Root) (*os.File, error) {
	if z, ok := root.(*Zoned); ok {
		if z.inside != nil {
			return nil, z.inside
		}
		root = z.base
	}
	r, ok := root.(*linuxRoot)
	if !ok {
		return nil, &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "the context's folder has no descriptor to pass"}
	}
	var dup int
	err := r.dir.use(func(fd int) (err error) {
		dup, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, failed(err, "dup", "")
	}
	return os.NewFile(uintptr(dup), "context"), nil
}
