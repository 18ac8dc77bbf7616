package exec

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Results of a filter (seccomp(2)).
const (
	retAllow = unix.SECCOMP_RET_ALLOW
	retErrno = unix.SECCOMP_RET_ERRNO
)

// Offsets in struct seccomp_data. Arguments have 64 bits; the filter compares the lower 32 alone, as the kernel does with flags, modes
// and the requests of ioctl(2).
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// lastSyscall is the newest system call that the filter knows. Later ones, and those of the x32 ABI, are ENOSYS.
const lastSyscall = unix.SYS_FILE_SETATTR

const (
	setidBits = unix.S_ISUID | unix.S_ISGID
	creating  = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	newSpaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
)

// rule is what the filter does with one system call.
type rule struct {
	number int
	body   []bpf.Instruction
}

func refuse(errno unix.Errno) bpf.Instruction { return bpf.RetConstant{Val: retErrno | uint32(errno)} }

func argument(i int) bpf.Instruction { return bpf.LoadAbsolute{Off: offArgs + 8*uint32(i), Size: 4} }

var allow bpf.Instruction = bpf.RetConstant{Val: retAllow}

// deny refuses a system call.
func deny(number int, errno unix.Errno) rule { return rule{number, []bpf.Instruction{refuse(errno)}} }

// denyBits refuses a system call if its argument has one of some bits.
func denyBits(number, arg int, bits uint32, errno unix.Errno) rule {
	return rule{number, []bpf.Instruction{
		argument(arg), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bits, SkipFalse: 1}, refuse(errno), allow,
	}}
}

// denySetidFile refuses a call of open(2)'s kind that creates a setuid or setgid file. Without O_CREAT the mode is not an argument.
func denySetidFile(number, flags, mode int) rule {
	return rule{number, []bpf.Instruction{
		argument(flags), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: creating, SkipFalse: 3},
		argument(mode), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: setidBits, SkipFalse: 1}, refuse(unix.EPERM), allow,
	}}
}

// allowValues refuses a system call unless its argument is one of some values.
func allowValues(number, arg int, errno unix.Errno, values ...uint32) rule {
	body := []bpf.Instruction{argument(arg)}
	for i, v := range values {
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - i)})
	}
	return rule{number, append(body, refuse(errno), allow)}
}

// denyValues refuses a system call if its argument is one of some values.
func denyValues(number, arg int, errno unix.Errno, values ...uint32) rule {
	body := []bpf.Instruction{argument(arg)}
	for i, v := range values {
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - i)})
	}
	return rule{number, append(body, allow, refuse(errno))}
}

// rules are those of all architectures; oldRules has those that only one has.
func rules() []rule {
	list := []rule{
		denyBits(unix.SYS_CLONE, 0, newSpaces, unix.EPERM),
		deny(unix.SYS_CLONE3, unix.ENOSYS),  // its flags are in memory; programs fall back to clone(2)
		deny(unix.SYS_OPENAT2, unix.ENOSYS), // its mode is in memory; programs fall back to openat(2)
		deny(unix.SYS_IO_URING_SETUP, unix.ENOSYS), deny(unix.SYS_IO_URING_ENTER, unix.ENOSYS), deny(unix.SYS_IO_URING_REGISTER, unix.ENOSYS),
		denySetidFile(unix.SYS_OPENAT, 2, 3),
		denyBits(unix.SYS_FCHMOD, 1, setidBits, unix.EPERM), denyBits(unix.SYS_FCHMODAT, 2, setidBits, unix.EPERM),
		denyBits(unix.SYS_FCHMODAT2, 2, setidBits, unix.EPERM), denyBits(unix.SYS_MKNODAT, 2, setidBits, unix.EPERM),
		denyValues(unix.SYS_IOCTL, 1, unix.EPERM, unix.TIOCSTI, unix.TIOCLINUX),
		allowValues(unix.SYS_SOCKET, 0, unix.EAFNOSUPPORT, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK),
	}
	for _, number := range []int{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
		unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_VHANGUP,
	} {
		list = append(list, deny(number, unix.EPERM))
	}
	return append(list, oldRules()...)
}

// seccompFilter assembles the filter, as bwrap's --add-seccomp-fd takes it.
func seccompFilter() ([]byte, error) {
	if auditArch == 0 {
		return nil, errors.New("no filter of system calls for this architecture")
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1}, refuse(unix.ENOSYS),
		bpf.LoadAbsolute{Off: offNumber, Size: 4}, bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: lastSyscall, SkipFalse: 1}, refuse(unix.ENOSYS),
	}
	for _, r := range rules() {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(r.number), SkipTrue: uint8(len(r.body))})
		program = append(program, r.body...)
	}
	raw, err := bpf.Assemble(append(program, allow))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, i := range raw { // struct sock_filter
		if err := binary.Write(&out, binary.NativeEndian, i); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
