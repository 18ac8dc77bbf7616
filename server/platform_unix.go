//go:build unix

package server

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// tooOpen says that others than the owner may read or write a file.
func tooOpen(st fs.FileInfo) bool { return st.Mode().Perm()&0o077 != 0 }

// verifyPrivate checks that dir is a directory, not a link to one, that is this user's alone.
func verifyPrivate(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || st.Mode().Perm() != 0o700 || !ok || int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of uid %d with mode 0700", dir, os.Geteuid())
	}
	return nil
}

// fileOwner returns who gets new files: under root the workspace's owner, else nil.
func fileOwner(workspace string) *rootfs.Owner {
	if os.Geteuid() != 0 {
		return nil
	}
	st, err := os.Stat(workspace)
	if err != nil {
		return nil
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Uid == 0 {
		return nil
	}
	return &rootfs.Owner{UID: int(sys.Uid), GID: int(sys.Gid)}
}

// disk returns what may still be written to dir's file system, and whether it may be written to.
func disk(dir string) (free int64, writable bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false, fmt.Errorf("statfs: %w", err)
	}
	return int64(st.Bavail) * int64(st.Bsize), unix.Access(dir, unix.W_OK) == nil, nil //nolint:unconvert // the types differ between systems
}
