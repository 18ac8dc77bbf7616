package entry

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights of Landlock (landlock(7)), by what they are for.
const (
	list    = unix.LANDLOCK_ACCESS_FS_READ_DIR
	read    = list | unix.LANDLOCK_ACCESS_FS_READ_FILE
	execute = read | unix.LANDLOCK_ACCESS_FS_EXECUTE
	use     = read | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	all     = use | execute | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// ofFiles are the rights that a rule for a file can have.
	ofFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

var rights = map[Access]uint64{List: list, Read: read, Execute: execute, Use: use, All: all}

// The versions of Landlock with rights that earlier ones do not know. Before 2 no file can be renamed into another directory: the first
// version is not used.
const (
	withRefer    = 2 // Linux 5.19
	withTruncate = 3
	withIoctl    = 5
	withScopes   = 6 // Linux 6.12
)

// Version is that of the kernel's Landlock; 0 if there is none, or none that can be used.
func Version() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || n < withRefer {
		return 0
	}
	return int(n)
}

// handled are the rights that a version knows, and scoped what it keeps within the processes that it restricts.
func handled(version int) (rights, scoped uint64) {
	rights = all
	if version < withIoctl {
		rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version < withTruncate {
		rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= withScopes {
		scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return rights, scoped
}

// ruleset is one that is being made.
type ruleset struct {
	fd     int
	rights uint64
}

// restrict permits this thread, and what it becomes, the paths of the step and nothing else. It has no effect where there is no Landlock.
func (s Step) restrict() error {
	version := Version()
	if version == 0 {
		return nil
	}
	rules := ruleset{}
	attr := unix.LandlockRulesetAttr{}
	rules.rights, attr.Scoped = handled(version)
	attr.Handled_access_fs = rules.rights
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0) //nolint:gosec // the kernel reads it
	if errno != 0 {
		return fmt.Errorf("make the rules: %w", errno)
	}
	rules.fd = int(fd)
	defer unix.Close(rules.fd)
	for _, p := range s.Paths {
		if err := rules.permit(p); err != nil {
			return fmt.Errorf("permit %s: %w", p.Path, err)
		}
	}
	if s.Terminals != 0 {
		if err := rules.add(s.Terminals, use); err != nil {
			return fmt.Errorf("permit terminals: %w", err)
		}
	}
	for standard := range 3 { // a terminal may be opened again, by /dev/stderr
		if err := rules.add(standard, use); err != nil && !errors.Is(err, unix.EBADFD) { // EBADFD: a pipe, which is always permitted
			return fmt.Errorf("permit file %d: %w", standard, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func (r ruleset) permit(p Path) error {
	fd, err := unix.Open(p.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return r.add(fd, rights[p.Access])
}

// add permits what is beneath an open file.
func (r ruleset) add(fd int, access uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= ofFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access & r.rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0) //nolint:gosec // the kernel reads it
	if errno != 0 {
		return errno
	}
	return nil
}

// withoutLandlock has landlock_create_ruleset(2) fail with ENOSYS from now on, as a kernel without Landlock does. A rule keeps the space of a file
// that was unlinked and closed, and no process shows that it does: a command could keep any number of files beside the quota of its context.
func withoutLandlock() error {
	const number = 0 // the offset of the system call's number in seccomp_data
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_LANDLOCK_CREATE_RULESET}, // the same on all architectures
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0) //nolint:gosec // the kernel reads it
}
