package exec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	osexec "os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// starter starts programs from one thread that lives as long as it does: --die-with-parent kills bwrap when the thread that started it
// ends (prctl(2), PR_SET_PDEATHSIG).
type starter struct {
	work  chan func()
	ended chan struct{}
}

func newStarter() *starter {
	s := &starter{work: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range s.work {
			f()
		}
	}()
	return s
}

func (s *starter) start(cmd *osexec.Cmd) error {
	started := make(chan error, 1)
	s.work <- func() {
		// What the server inherited from its own parent must not reach a sandbox. Go opens all files with this flag.
		if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
			started <- fmt.Errorf("close_range (Linux 5.11): %w", err)
			return
		}
		started <- cmd.Start()
	}
	return <-started
}

func (s *starter) close() {
	close(s.work)
	<-s.ended
}

// status is one of the documents that bwrap writes for --json-status-fd.
type status struct {
	ChildPID int  `json:"child-pid"`
	ExitCode *int `json:"exit-code"`
}

// box is a sandbox that runs.
type box struct {
	cmd     *osexec.Cmd
	status  *os.File
	reports *json.Decoder
	// output has the ends of standard output and error; of a terminal the first alone, which is tty too.
	output [2]*os.File
	tty    *os.File
	// collected waits until the output is in the spools.
	collected func()

	mu sync.Mutex
	// init is a pidfd of process 1 of the sandbox; -1 when nothing in it runs.
	init, initPID int
}

// plumbing has the ends of pipes of a start: what the sandbox gets, and what this process keeps.
type plumbing struct{ theirs, ours []*os.File }

// pipe makes a pipe and keeps one end.
func (l *plumbing) pipe(keepReader bool) (theirs, ours *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	theirs, ours = r, w
	if keepReader {
		theirs, ours = w, r
	}
	l.theirs, l.ours = append(l.theirs, theirs), append(l.ours, ours)
	return theirs, ours, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // the end of a pipe
	}
}

// launch starts the sandbox.
func (p *Process) launch(ctx context.Context, access *contexts.Access) (err error) {
	user, err := p.table.sandbox.runAs()
	if err != nil {
		return err
	}
	root, err := rootfs.Descriptor(access.Root)
	if err != nil {
		return err
	}
	b, err := assemble(root, p.dir, p.cmd.Env, user)
	if err != nil {
		return err
	}
	defer b.close()
	if p.cmd.Pty != nil && p.cmd.Env["TERM"] == "" {
		b.add("--setenv", "TERM", p.cmd.Pty.Term)
	}
	if p.cmd.ReadOnly {
		b.add("--remount-ro", home)
	}
	var l plumbing
	defer func() {
		closeAll(l.theirs)
		if err != nil {
			closeAll(l.ours)
		}
	}()
	return p.launchIn(ctx, b, user, &l)
}

func (p *Process) launchIn(ctx context.Context, b *bundle, user User, l *plumbing) error {
	box := &box{init: -1}
	statusEnd, status, err := l.pipe(true)
	if err != nil {
		return err
	}
	box.status, box.reports = status, json.NewDecoder(status)
	b.add("--json-status-fd", b.pass(statusEnd))
	argv := slices.Concat(p.cmd.Limits.wrapper(), p.cmd.Argv)
	if p.cmd.Pty != nil {
		argv = slices.Concat(onTerminal, argv)
	} else {
		b.add("--new-session")
	}
	if box.cmd, err = b.command(*p.table.sandbox.bwrap.Load(), user, argv); err != nil {
		return err
	}
	if p.cmd.Pty != nil {
		err = p.connectTerminal(box, user, l)
	} else {
		err = p.connect(box, l)
	}
	if err != nil {
		return err
	}
	if err := p.table.starter.start(box.cmd); err != nil {
		return &Unavailable{"bwrap cannot be started: " + err.Error(), ""}
	}
	closeAll(l.theirs) // bwrap has them, and their ends show here
	if err := box.identify(ctx); err != nil {
		return errors.Join(err, box.abort())
	}
	box.collected = p.collect(box.output)
	p.box = box
	return nil
}

// connect gives the command its standard files.
func (p *Process) connect(box *box, l *plumbing) (err error) {
	for i, to := range []*io.Writer{&box.cmd.Stdout, &box.cmd.Stderr} {
		theirs, ours, err := l.pipe(true)
		if err != nil {
			return err
		}
		*to, box.output[i] = theirs, ours
	}
	switch {
	case p.cmd.OpenStdin:
		theirs, ours, err := l.pipe(false)
		if err != nil {
			return err
		}
		box.cmd.Stdin, p.stdin = theirs, ours
	case len(p.cmd.Stdin) > 0:
		f, err := memoryFile(p.cmd.Stdin)
		if err != nil {
			return err
		}
		l.theirs = append(l.theirs, f)
		box.cmd.Stdin = f
	}
	return nil
}

// connectTerminal gives the command a terminal as its standard files.
func (p *Process) connectTerminal(box *box, user User, l *plumbing) error {
	theirs, ours, err := openTerminal(*p.cmd.Pty, user)
	if err != nil {
		return err
	}
	l.theirs, l.ours = append(l.theirs, theirs), append(l.ours, ours)
	box.cmd.Stdin, box.cmd.Stdout, box.cmd.Stderr = theirs, theirs, theirs
	box.cmd.SysProcAttr.Setpgid, box.cmd.SysProcAttr.Setsid = false, true
	box.output[Stdout], box.tty = ours, ours
	return nil
}

// identify reads which process is the first of the sandbox.
func (b *box) identify(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = b.status.SetReadDeadline(time.Now()) }) // a pipe takes deadlines
	var first status
	err := b.reports.Decode(&first)
	if !stop() {
		return ctx.Err()
	}
	if err != nil || first.ChildPID <= 0 {
		text := make([]byte, 4<<10)
		n, _ := b.complaints().Read(text) // bwrap has ended, or is about to
		return &Unavailable{explain(string(text[:n])), remedy(string(text[:n]))}
	}
	if b.init, err = unix.PidfdOpen(first.ChildPID, 0); err != nil {
		return fmt.Errorf("open the sandbox's process: %w", err)
	}
	b.initPID = first.ChildPID
	return nil
}

// complaints is where bwrap writes what went wrong.
func (b *box) complaints() *os.File { return cmp.Or(b.tty, b.output[Stderr]) }

// abort ends a sandbox whose start failed.
func (b *box) abort() error {
	if err := b.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	var exit *osexec.ExitError
	if err := b.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return b.empty()
}

// wait waits until the command has exited, and then until nothing of the sandbox runs and all output is in the spools.
func (b *box) wait() Exit {
	_ = b.cmd.Wait() // the report has the command's exit
	if err := b.empty(); err != nil {
		return Exit{Reason: SandboxFailed, Detail: err.Error()}
	}
	deadline := time.Now().Add(drainTime)
	for _, f := range []*os.File{b.output[Stdout], b.complaints(), b.status} {
		_ = f.SetReadDeadline(deadline) // one that was read to its end is closed
	}
	b.collected()
	defer b.status.Close()
	for {
		var s status
		if err := b.reports.Decode(&s); err != nil {
			return Exit{Reason: SandboxFailed}
		}
		if s.ExitCode != nil {
			return Exit{Reason: Exited, Code: *s.ExitCode}
		}
	}
}

// empty kills process 1, and waits until it has ended: the kernel ends it after all others of its namespace.
func (b *box) empty() error {
	b.mu.Lock()
	fd := b.init
	b.mu.Unlock()
	if fd < 0 {
		return nil
	}
	if err := b.kill(); err != nil {
		return err
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.init = -1
	return unix.Close(fd)
}

// kill ends everything in the sandbox.
func (b *box) kill() error { return b.send(unix.SIGKILL, 0) }

// signal sends a signal to the process group of the command, in which process 1 ignores it. A sandbox that is being set up has no such
// group yet: EAGAIN.
func (b *box) signal(sig syscall.Signal) error {
	if sig == unix.SIGKILL {
		return b.kill() // process 1 cannot ignore it
	}
	if b.tty != nil {
		return b.signalTerminal(sig)
	}
	err := b.send(sig, processGroup)
	if errors.Is(err, unix.EINVAL) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.init < 0 {
			return nil
		}
		err = unix.Kill(-b.initPID, sig) // process 1 is not reaped yet: the number is its own
	}
	if errors.Is(err, unix.ESRCH) {
		return notNow()
	}
	return err
}

// processGroup is PIDFD_SIGNAL_PROCESS_GROUP, of Linux 6.9.
const processGroup = 4

// send signals process 1, or its group. It has no effect when nothing in the sandbox runs.
func (b *box) send(sig syscall.Signal, flags int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.init < 0 {
		return nil
	}
	err := unix.PidfdSendSignal(b.init, sig, nil, flags)
	if flags == 0 && errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return err
}
