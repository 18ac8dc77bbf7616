//go:build unix

package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// tooOpen reports whether group or others have a permission that is not in allowed.
func tooOpen(st fs.FileInfo, allowed fs.FileMode) bool { return st.Mode().Perm()&0o077&^allowed != 0 }

// verifyPrivate checks that dir is a directory, not a link to one, that only this user may use.
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

// verifySteady checks that only this user and root may exchange what this user has in dir: it is theirs, and either closed to
// the writes of others or sticky.
func verifySteady(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, _ := statedir.Owner(st)
	if owner != 0 && owner != os.Geteuid() || st.Mode().Perm()&0o022 != 0 && st.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("%s is open to other users (owner %d, mode %04o)", dir, owner, st.Mode().Perm())
	}
	return nil
}

// fileOwner returns the owner of new files: under root the workspace's owner, else nil.
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

// alive reports whether a process runs and is not about to end. One that was killed, or is a zombie, is not alive.
func alive(pid int) bool {
	if pid <= 0 || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return false
	}
	// proc_pid_stat(5): after the name come the state and, as the seventh, the flags. Other systems have no such file.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return true
	}
	const exiting = 0x4 // PF_EXITING (include/linux/sched.h)
	flags, _ := strconv.ParseUint(fields[6], 10, 64)
	return fields[0] != "Z" && fields[0] != "X" && flags&exiting == 0 && !isKilled(pid)
}

// isKilled reports whether a process has a pending SIGKILL.
func isKilled(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		name, mask, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		pending, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
		if pending&(1<<(uint(unix.SIGKILL)-1)) != 0 {
			return true
		}
	}
	return false
}

// disk returns how many bytes are free on dir's file system, and whether it may be written to.
func disk(dir string) (free int64, writable bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false, fmt.Errorf("statfs: %w", err)
	}
	return int64(st.Bavail) * int64(st.Bsize), unix.Access(dir, unix.W_OK) == nil, nil //nolint:unconvert // the types differ between systems
}
