package exec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// openTerminal makes a terminal of the command's user. It returns the end of the command and that of this process, which takes deadlines.
func openTerminal(t Pty, user User) (theirs, ours *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	peer, err := openPeer(fd, t)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a terminal: %w", err), ours.Close())
	}
	theirs = os.NewFile(uintptr(peer), "terminal's peer")
	if os.Geteuid() == 0 {
		if err := theirs.Chown(user.UID, user.GID); err != nil {
			return nil, nil, errors.Join(err, theirs.Close(), ours.Close())
		}
	}
	return theirs, ours, nil
}

// openPeer opens the other end of a terminal, after it has its size. It uses no path: ptmx may be of another mount than /dev/pts.
func openPeer(fd int, t Pty) (int, error) {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	if err := setSize(fd, t); err != nil {
		return -1, err
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, errno
	}
	return int(peer), nil
}

func setSize(fd int, t Pty) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(t.Cols), Row: uint16(t.Rows)})
}

// console is the end of a terminal that this process keeps.
type console struct{ *os.File }

func (c console) resize(t Pty) error { return c.control(func(fd int) error { return setSize(fd, t) }) }

// terminate asks the command to end. A terminal hangs up too: interactive shells ignore SIGTERM.
func (b *box) terminate() error { return terminate(b.signal, b.tty != nil) }

func terminate(signal func(syscall.Signal) error, terminal bool) error {
	if terminal {
		if err := signal(unix.SIGHUP); err != nil {
			return err
		}
	}
	return signal(unix.SIGTERM)
}

// signal sends a signal to the foreground process group if a key of terminals sends it, else to the process group of the command.
func (c console) signal(sig syscall.Signal) error {
	leader, err := c.sessionLeader()
	if err != nil {
		return err
	}
	defer unix.Close(leader)
	if sig == unix.SIGINT || sig == unix.SIGQUIT || sig == unix.SIGTSTP {
		return c.control(func(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSIG, int(sig)) })
	}
	if err := unix.PidfdSendSignal(leader, sig, nil, processGroup); !errors.Is(err, unix.EINVAL) {
		return err
	}
	return unix.PidfdSendSignal(leader, sig, nil, 0) // Linux before 6.9: the command alone
}

// sessionLeader returns a pidfd of the command. EAGAIN: it has not begun, or has ended.
func (c console) sessionLeader() (pidfd int, err error) {
	session := func() (pid int, err error) {
		err = c.control(func(fd int) error {
			pid, err = unix.IoctlGetInt(fd, unix.TIOCGSID)
			return err
		})
		return pid, err
	}
	pid, err := session()
	if err == nil {
		pidfd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		return -1, notNow()
	}
	// A terminal loses its session before the number of the leader is free: pidfd is the leader's if the session is still there.
	if still, err := session(); err != nil || still != pid {
		return -1, errors.Join(notNow(), unix.Close(pidfd))
	}
	return pidfd, nil
}

func notNow() error {
	return &fserr.Error{Code: fserr.EAGAIN, Detail: "the command is being started or is ending", Hint: "try again"}
}

// control calls f with the descriptor of the terminal. It fails with os.ErrClosed once the terminal is closed, for which SyscallConn has an
// error of its own.
func (c console) control(f func(fd int) error) error {
	conn, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return errors.Join(os.ErrClosed, err)
	}
	return inner
}

// sandboxTerminals is how many pseudo terminals the commands of a sandbox can open themselves. The 32 commands of a context together open at most a
// third of what kernel.pty.max leaves beside the host's reserve.
const sandboxTerminals = 32

// boundTerminals bounds the pseudo terminals of a sandbox between unblock and letBegin, while the first step of the command starts. bwrap mounts a devpts
// for each sandbox, and sets no bound: one sandbox could open all of the machine. There is no bound where the kernel refuses to let user into the
// sandbox's namespaces, as with a setuid bwrap. The process of fork lives for a moment only: while it lives, each page that this process writes is copied.
func (b *box) boundTerminals(ctx context.Context, user User) error {
	remount, err := newRemount(b.initPID, b.init, user)
	if err != nil {
		return err
	}
	pid, errno := remount.fork()
	if errno != 0 {
		return fmt.Errorf("bound the terminals of a sandbox: %w", errno)
	}
	_ = killFirst(pid) // it may have ended, or be out of reach for a server that is not root
	child, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Kill() }) // it may have ended
	state, err := child.Wait()
	if !stop() {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	switch errno := syscall.Errno(state.ExitCode()); errno {
	case 0, unix.EPERM, unix.EACCES, unix.ENOENT, unix.ESRCH: // the last two: bwrap has ended, and its exit is reported
		return nil
	default:
		return fmt.Errorf("bound the terminals of a sandbox: %w", errno)
	}
}

// remount changes the options of a sandbox's devpts. That needs a process with one thread, since no other can enter a user namespace (setns(2)).
type remount struct {
	userNamespace, target, options *byte
	process1                       uintptr
	uid, gid                       uintptr
}

func newRemount(pid, pidfd int, user User) (*remount, error) {
	r := &remount{process1: uintptr(pidfd), uid: uintptr(user.UID), gid: uintptr(user.GID)}
	for to, text := range map[**byte]string{
		&r.userNamespace: fmt.Sprintf("/proc/%d/ns/user", pid), &r.target: "/dev/pts",
		&r.options: fmt.Sprintf("mode=620,ptmxmode=666,max=%d", sandboxTerminals), // the first two as bwrap has them
	} {
		var err error
		if *to, err = unix.BytePtrFromString(text); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// fork makes a process that remounts, and exits with an errno. The process is a copy of this one with the calling thread alone: as the child in package
// syscall, it makes system calls and nothing else. It becomes the sandbox's user, who owns the namespaces. It does not share the memory of this process
// (CLONE_VM), as a child that starts a program does: it would share it with a process of that user.
//
//go:norace
//go:nosplit
func (r *remount) fork() (pid int, errno syscall.Errno) {
	child, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if child != 0 || errno != 0 {
		return int(child), errno
	}
	// A file that this process closes must end for others now: a pipe, or a program that a panel has written and starts.
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, r.process1-1, 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, r.process1+1, math.MaxInt32, 0)
	_, _, errno = syscall.RawSyscall(unix.SYS_SETRESGID, r.gid, r.gid, r.gid)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SETRESUID, r.uid, r.uid, r.uid)
	}
	if errno == 0 {
		errno = r.enterParent()
	}
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SETNS, r.process1, unix.CLONE_NEWNS, 0)
	}
	if errno == 0 {
		const flags = unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NOEXEC
		_, _, errno = syscall.RawSyscall6(unix.SYS_MOUNT, 0, uintptr(unsafe.Pointer(r.target)), 0, flags, uintptr(unsafe.Pointer(r.options)), 0) //nolint:gosec // see above
	}
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
}

// enterParent enters the parent of the user namespace of process 1, which owns the mounts.
//
//go:norace
//go:nosplit
func (r *remount) enterParent() syscall.Errno {
	const cwd = ^uintptr(-unix.AT_FDCWD - 1)
	const flags = unix.O_RDONLY | unix.O_CLOEXEC
	own, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, cwd, uintptr(unsafe.Pointer(r.userNamespace)), flags, 0, 0, 0) //nolint:gosec // the kernel reads it
	if errno != 0 {
		return errno
	}
	parent, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, own, unix.NS_GET_PARENT, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SETNS, parent, unix.CLONE_NEWUSER, 0)
		_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, parent, 0, 0)
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, own, 0, 0)
	return errno
}
