package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// unnoticed fails with EBUSY if a program would lose something by the end of a mount that the kernel would not refuse. The kernel refuses to
// unmount what has open files. It does not look at other mount namespaces, which keep the upper directory in use, nor at programs that
// watch the folder, which would hear nothing more. watch is of watchOf. Processes that /proc does not show are missed. A mount
// namespace gets some time to let go of the mount, as that of a sandbox does when it has its own root.
func unnoticed(source string, watch []byte) error {
	for begun := time.Now(); ; time.Sleep(held / 100) {
		err := notices(source, watch)
		if !errors.Is(err, errElsewhere) || time.Since(begun) > held {
			return err
		}
	}
}

var errElsewhere = unfrozen("it is mounted in another mount namespace", nil)

// notices is unnoticed at this moment.
func notices(source string, watch []byte) error {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return unfrozen("/proc does not tell the processes", err)
	}
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return unfrozen("/proc does not tell the mount namespace", err)
	}
	looked := map[string]bool{mine: true}
	for _, process := range processes {
		if _, err := strconv.Atoi(process.Name()); err != nil {
			continue
		}
		dir := "/proc/" + process.Name()
		if ns, err := os.Readlink(dir + "/ns/mnt"); err == nil && !looked[ns] { // else the process has ended
			table, err := os.ReadFile(dir + "/mountinfo")
			if isShort(err) {
				return unfrozen("/proc does not tell the mounts of a process", err)
			}
			if looked[ns] = err == nil; bytes.Contains(table, []byte(" "+source+" ")) {
				return errElsewhere
			}
		}
		if watches(dir, watch) {
			return unfrozen("a program watches it", nil)
		}
	}
	return nil
}

// isShort reports whether an error is for lack of descriptors or memory, and so says nothing about a process. Others
// say that it has ended, or is not for this user to look at.
func isShort(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// watchOf returns how /proc shows a watch below a folder (proc_pid_fdinfo(5)).
func watchOf(folder string) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Lstat(folder, &st); err != nil {
		return nil, stateError("lstat", err)
	}
	const minorBits = 20 // the kernel's own form of a device number
	return fmt.Appendf(nil, " sdev:%x ", uint64(unix.Major(st.Dev))<<minorBits|uint64(unix.Minor(st.Dev))), nil
}

// watchers is what a descriptor of inotify(7) shows in /proc.
const watchers = "anon_inode:inotify"

// watches reports whether a process, a directory of /proc, has a watch. One whose descriptors this process may not see has none that counts.
func watches(process string, needle []byte) bool {
	dir, err := os.Open(process + "/fd")
	if err != nil {
		return isShort(err)
	}
	defer func() { _ = dir.Close() }() // it was only read
	names, _ := dir.Readdirnames(-1)   // what was read before an error counts
	target := make([]byte, len(watchers)+1)
	for _, name := range names {
		n, err := unix.Readlinkat(int(dir.Fd()), name, target)
		if err != nil || (string(target[:n]) != watchers && !bytes.HasPrefix(target[:n], []byte("anon_inode:[fanot"))) {
			continue
		}
		info, err := os.ReadFile(process + "/fdinfo/" + name)
		if errors.Is(err, os.ErrNotExist) { // closed meanwhile
			continue
		}
		if err != nil || bytes.Contains(info, needle) {
			return true
		}
	}
	return false
}
