package exec

import (
	"errors"
	"fmt"
	"os"
	"syscall"

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
