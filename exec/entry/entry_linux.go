package entry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exit codes, as those of env(1).
const (
	exitFailed        = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

func init() { //nolint:gochecknoinits // the package's comment says why
	if len(os.Args) < 4 || os.Args[1] != name {
		return
	}
	var code int
	var err error
	switch {
	case os.Args[2] == job && len(os.Args) > 4:
		code, err = start(os.Args[3], os.Args[4:])
	case os.Args[2] == asleep && len(os.Args) == 4:
		code, err = await(os.Args[3])
	default:
		return
	}
	fmt.Fprintln(os.Stderr, "ctxfs:", err)
	os.Exit(code)
}

func start(file string, argv []string) (code int, err error) {
	fd, err := strconv.Atoi(file)
	if err != nil {
		return exitFailed, err
	}
	var s Step
	step := os.NewFile(uintptr(fd), "step") // prepare has it closed
	if err := json.NewDecoder(step).Decode(&s); err != nil {
		return exitFailed, fmt.Errorf("read the step: %w", err)
	}
	return enter(s, argv)
}

// await returns if it fails. Other commands run as the same user. They cannot look into a spare, which is no longer dumpable here. It never was if its
// user may not read this program, as in a shared sandbox. A command that it becomes is as open to the others as they are to it.
func await(socket string) (code int, err error) {
	fd, err := strconv.Atoi(socket)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		return exitFailed, err
	}
	rehearse()
	files, err := receive(fd)
	if err != nil {
		return exitFailed, fmt.Errorf("wait for an order: %w", err)
	}
	code, err = obey(files, fd)
	return code, errors.Join(err, Step{confirm: fd}.confirmed()) // the caller reports it as the command's exit
}

// rehearse decodes an order, since the first time takes 0.1 ms longer than the next: no command waits for that.
func rehearse() {
	var o Order
	_ = json.NewDecoder(strings.NewReader(`{"Step":{"Limits":[{"Resource":1,"Value":1}],"Nice":1},"Argv":["eA=="]}`)).Decode(&o) // it has no effect
}

// obey returns if it fails. It takes the files of an order.
func obey(files []int, confirm int) (code int, err error) {
	if err := unix.Fchdir(files[0]); err != nil {
		return exitFailed, fmt.Errorf("change to the working directory: %w", err)
	}
	for standard := range 3 {
		if err := unix.Dup3(files[1+standard], standard, 0); err != nil {
			return exitFailed, err
		}
	}
	var o Order
	order := os.NewFile(uintptr(files[5]), "order")
	if err := json.NewDecoder(order).Decode(&o); err != nil {
		return exitFailed, fmt.Errorf("read the order: %w", err)
	}
	if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil { // it leads a session
			return exitFailed, fmt.Errorf("take the terminal: %w", err)
		}
	}
	o.Step.Environment, o.Step.confirm = files[4], confirm
	argv := make([]string, len(o.Argv))
	for i, a := range o.Argv {
		argv[i] = string(a)
	}
	return enter(o.Step, argv)
}

// receive returns the files of an order. It ends the program when nobody will send one.
func receive(fd int) ([]int, error) {
	rights := make([]byte, unix.CmsgSpace(OrderFiles*4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n == 0:
			os.Exit(0)
		}
		control, err := unix.ParseSocketControlMessage(rights[:oobn])
		if err != nil || len(control) != 1 {
			return nil, errors.Join(fmt.Errorf("%d control messages", len(control)), err)
		}
		files, err := unix.ParseUnixRights(&control[0])
		if err == nil && len(files) != OrderFiles {
			err = fmt.Errorf("%d files instead of %d", len(files), OrderFiles)
		}
		return files, err
	}
}

// enter returns if it fails. It runs on the first thread, which is the one that execve(2) keeps.
func enter(s Step, argv []string) (code int, err error) {
	if err := s.prepare(); err != nil {
		return exitFailed, err
	}
	program, err := exec.LookPath(argv[0])
	switch {
	case errors.Is(err, exec.ErrDot): // the PATH of a command may have relative directories
	case errors.Is(err, exec.ErrNotFound):
		return exitNotFound, fmt.Errorf("%s: no such program in PATH", argv[0])
	case errors.Is(err, os.ErrNotExist):
		return exitNotFound, fmt.Errorf("%s: %w", argv[0], unix.ENOENT)
	case err != nil:
		return exitNotExecutable, fmt.Errorf("%s: %w", argv[0], errors.Unwrap(err)) // without the name of package exec
	}
	if err := s.awaitBegin(); err != nil {
		return exitFailed, fmt.Errorf("wait for the beginning: %w", err)
	}
	if err := s.limit(); err != nil {
		return exitFailed, err
	}
	if err := s.confirmed(); err != nil {
		return exitFailed, err
	}
	env := os.Environ()
	err = syscall.Exec(program, argv, env) //nolint:gosec // the sandbox confines the command that it becomes
	if errors.Is(err, unix.ENOEXEC) {      // a script without a first line that names its shell, as execvp(3) has it
		err = syscall.Exec("/bin/sh", append([]string{"sh", program}, argv[1:]...), env) //nolint:gosec // see above
	}
	if errors.Is(err, unix.ENOENT) {
		return exitNotFound, fmt.Errorf("%s: its interpreter: %w", argv[0], err)
	}
	return exitNotExecutable, fmt.Errorf("%s: %w", argv[0], err)
}

// awaitBegin waits until the command may begin.
func (s Step) awaitBegin() error {
	if s.Begin == 0 {
		return nil
	}
	_, err := io.ReadFull(os.NewFile(uintptr(s.Begin), "begin"), make([]byte, 1))
	return err
}

// confirmed confirms that the command begins.
func (s Step) confirmed() error {
	if s.confirm == 0 {
		return nil
	}
	if err := unix.Sendmsg(s.confirm, []byte{0}, nil, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("confirm the order: %w", err)
	}
	return nil
}

func (s Step) prepare() error {
	if err := s.setQuotas(); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if err := s.takeEnvironment(); err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}
	if err := unix.CloseRange(3, 1<<30, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	if s.Keep != 0 {
		if _, err := unix.FcntlInt(uintptr(s.Keep), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("keep descriptor %d: %w", s.Keep, err)
		}
	}
	if s.Inside {
		if err := awaitClosed(1, closeTime); err != nil {
			return err
		}
	}
	if err := s.lead(); err != nil {
		return fmt.Errorf("make a session with a terminal: %w", err)
	}
	if err := s.yield(); err != nil {
		return fmt.Errorf("set the niceness: %w", err)
	}
	if len(s.Paths) > 0 {
		if err := s.restrict(); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if s.Keep == 0 { // init restricts the commands that it starts
		if err := withoutLandlock(); err != nil {
			return fmt.Errorf("refuse landlock: %w", err)
		}
	}
	return nil
}

// closeTime bounds how long process 1 takes to close its files. It takes microseconds.
const closeTime = 5 * time.Second

// awaitClosed waits until a process has no files but the standard ones and eventfds, through which bwrap's processes report to each other. Without
// Landlock a command can open the files of process 1 through /proc. One is the context's folder, which a command may be permitted to read only. A process
// that this program cannot look into is out of the command's reach, too.
func awaitClosed(pid int, patience time.Duration) error {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Microsecond) {
		open := ""
		entries, _ := os.ReadDir(dir) // see above
		for _, e := range entries {
			n, _ := strconv.Atoi(e.Name()) // the kernel wrote it
			if target, err := os.Readlink(dir + e.Name()); err == nil && n > 2 && target != "anon_inode:[eventfd]" {
				open = e.Name() + ", " + target
			}
		}
		switch {
		case open == "":
			return nil
		case time.Now().After(end):
			return fmt.Errorf("process %d keeps file %s open", pid, open)
		}
	}
}

// setQuotas sets the quotas, and gives up the capability that this needs.
func (s Step) setQuotas() error {
	if len(s.Quotas) == 0 {
		return nil
	}
	for _, q := range s.Quotas {
		// Step.Quotas says why an error is no failure.
		_ = os.WriteFile("/proc/sys/user/"+q.Name, []byte(strconv.FormatInt(q.Value, 10)), 0)
	}
	return dropCapabilities()
}

// dropCapabilities gives up all capabilities of this thread, which is the one that execve(2) keeps. Nothing that it becomes gets one again.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break // the kernel has no capability of this number, and none of a higher one
		}
		if has == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}

// takeEnvironment sets the variables of the command.
func (s Step) takeEnvironment() error {
	if s.Environment == 0 {
		return nil
	}
	f := os.NewFile(uintptr(s.Environment), "environment")
	data, err := io.ReadAll(f)
	_ = f.Close() // it was only read
	if err != nil {
		return err
	}
	for v := range strings.SplitSeq(strings.TrimSuffix(string(data), "\x00"), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// lead makes a session. Ctrl-C and Ctrl-Z then reach the command and its jobs, and neither bwrap nor process 1.
func (s Step) lead() error {
	if !s.Session {
		return nil
	}
	if _, err := unix.Setsid(); err != nil {
		return err
	}
	return unix.IoctlSetInt(0, unix.TIOCSCTTY, 0)
}

// yield adds to the niceness, up to 19. The server itself may run under nice(1).
func (s Step) yield() error {
	if s.Nice == 0 {
		return nil
	}
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	return unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-raw+s.Nice, 19)) // the system call returns 20 minus the niceness
}

// limit sets the limits. They bind this program too: it does nothing after that but become the command.
func (s Step) limit() error {
	for _, l := range s.Limits {
		if err := unix.Prlimit(0, l.Resource, &unix.Rlimit{Cur: l.Value, Max: l.Value}, nil); err != nil {
			return fmt.Errorf("set limit %d to %d: %w", l.Resource, l.Value, err)
		}
	}
	return nil
}
