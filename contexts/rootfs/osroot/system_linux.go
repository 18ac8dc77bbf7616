package osroot

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
)

// osLstat uses statx, which has the birth time, unlike os.
func osLstat(dir *os.Root, name string) (st node.Stat, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return node.Stat{}, err
	}
	defer func() { _ = f.Close() }()
	err = withFileFD(f, func(fd int) (err error) {
		st, err = node.StatAt(fd, name)
		return err
	})
	return st, err
}

func osFstat(f *os.File) (st node.Stat, err error) {
	err = withFileFD(f, func(fd int) (err error) {
		st, err = node.StatFD(fd)
		return err
	})
	return st, err
}

// osFutimes sets the times of an open file, by its descriptor.
func osFutimes(f *os.File, atimeNs, mtimeNs int64) error {
	return withFileFD(f, func(fd int) error { return node.UtimesFD(fd, atimeNs, mtimeNs) })
}

func osDatasync(f *os.File) error { return withFileFD(f, unix.Fdatasync) }

// osAccess checks what is at name, by its descriptor.
func osAccess(n *dirNode, name string, mode uint32) error {
	return n.WithFD(func(dir int) error {
		fd, err := node.OpenAt(dir, name, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer node.CloseFD(fd)
		return node.AccessFD(fd, mode)
	})
}

// mountID identifies the mount that a file is on.
type mountID = node.Mount

// osMount returns the mount of name, one component in n or "." for n itself. A device would not do: a directory of the same file system
// may be mounted at name.
func osMount(n *dirNode, name string) (m mountID, err error) {
	err = n.WithFD(func(dir int) error {
		fd, err := node.OpenAt(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer node.CloseFD(fd)
		k, err := node.KindOf(fd)
		m = k.Mount
		return err
	})
	return m, err
}

// osMountOf returns the mount of an open file.
func osMountOf(f *os.File) (m mountID, err error) {
	err = withFileFD(f, func(fd int) error {
		k, err := node.KindOf(fd)
		m = k.Mount
		return err
	})
	return m, err
}
