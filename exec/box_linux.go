package exec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	osexec "os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/exec/egress"
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
		// bwrap refuses capabilities that it inherits. Where they cannot be cleared there are none.
		_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
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
	// block is written to when bwrap may go on: what it starts is confined then. begun is written to when the command may begin.
	block *net.UnixConn
	begun *os.File
	// cgroup has no directories where there are none to make it in.
	cgroup *cgroup
	// collected waits until the output is in the spools.
	collected func()
	// gone is called when nothing in the sandbox runs any longer; unused in a shared one.
	gone func()
	// proxy is nil without a network by names.
	proxy *egress.Proxy

	// pausing guards paused, which counts the callers that keep the sandbox paused, and proceed, which continues it.
	pausing sync.Mutex
	paused  int
	proceed func()

	mu sync.Mutex
	// init is a pidfd of process 1 of the sandbox; -1 when nothing in it runs.
	init, initPID int
	// first identifies that process; none if it had ended before it could be looked at.
	first identity
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
	var l plumbing
	defer func() {
		closeAll(l.theirs)
		if err != nil {
			closeAll(l.ours)
		}
	}()
	if p.cmd.Sandbox != "" {
		return p.launchShared(ctx, root, user, &l)
	}
	b, err := assemble(root, p.dir, p.variables(), user, p.plan.limits.TmpBytes, p.plan.additions()...)
	if err != nil {
		return err
	}
	defer b.close()
	if p.cmd.ReadOnly {
		b.add("--remount-ro", home)
	}
	beside, gone := p.table.countAlone(p.cmd.Context)
	b.beside, p.cmd.Limits.Processes = beside, min(p.cmd.Limits.Processes, p.table.processesFor(beside))
	if err := p.launchIn(ctx, b, user, &l); err != nil {
		gone()
		return err
	}
	p.box.gone = gone
	return nil
}

// newBox returns a sandbox that b starts. The step that enter returns waits for letBegin. The caller closes block.
func newBox(b *bundle, l *plumbing) (*box, error) {
	statusEnd, status, err := l.pipe(true)
	if err != nil {
		return nil, err
	}
	beginEnd, begun, err := l.pipe(false)
	if err != nil {
		return nil, err
	}
	block, blockEnd, err := socketPair()
	if err != nil {
		return nil, err
	}
	l.theirs = append(l.theirs, blockEnd)
	b.add("--json-status-fd", b.pass(statusEnd), "--block-fd", b.pass(blockEnd))
	b.begin, _ = strconv.Atoi(b.pass(beginEnd)) // it is a number
	return &box{init: -1, status: status, reports: json.NewDecoder(&drained{File: status}), block: block, begun: begun}, nil
}

func (p *Process) launchIn(ctx context.Context, b *bundle, user User, l *plumbing) error {
	box, err := newBox(b, l)
	if err != nil {
		return err
	}
	defer box.block.Close()
	step := p.cmd.Limits.step(b.beside)
	if p.cmd.Pty != nil {
		// bwrap leads a session without a terminal. --new-session would cut the command off from its own.
		step.Session = true
	} else {
		b.add("--new-session")
	}
	argv, err := b.enter(step, p.cmd.Argv...)
	if err != nil {
		return err
	}
	var init *net.UnixConn
	if p.plan.mode == NetworkAllowed {
		var inner []string
		if init, inner, err = b.inner(thisProgram, listening); err != nil {
			return err
		}
		defer init.Close()
		argv = slices.Concat(inner, argv)
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
	b.close()
	// A start that is repeated after a crash finds the record: the command does not run twice.
	record := func() error { return p.save(box.first, nil) }
	if err := box.begin(ctx, p.table.cgroups, user, p.ID, p.cmd.Limits, record); err != nil {
		return errors.Join(err, box.abort())
	}
	if init != nil {
		if err := box.serve(ctx, init, p.table, p.plan, p.reportUse); err != nil {
			return errors.Join(err, box.abort())
		}
	}
	box.collected = p.collect(box.output)
	p.box, p.run, p.tty = box, box, box.tty
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

// variables are those of the command, besides those of every command.
func (p *Process) variables() map[string]string {
	env := maps.Clone(p.plan.env)
	if p.cmd.Pty != nil {
		env["TERM"] = cmp.Or(env["TERM"], p.cmd.Pty.Term)
	}
	return env
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

// begin confines a sandbox, and lets it start its command. ready is called before anything of the command runs.
func (b *box) begin(ctx context.Context, groups *cgroups, user User, name string, l Limits, ready func() error) error {
	if err := b.identify(ctx); err != nil {
		return err
	}
	if err := b.confine(groups, name, l); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	if err := b.unblock(ctx); err != nil {
		return err
	}
	if err := b.boundTerminals(ctx, user); err != nil {
		return err
	}
	return b.letBegin()
}

// identify reads which process is the first of the sandbox.
func (b *box) identify(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = b.status.SetReadDeadline(time.Now()) }) // a pipe takes deadlines
	var first status
	err := b.reports.Decode(&first)
	late := !stop()
	if err != nil || first.ChildPID <= 0 {
		if late {
			return ctx.Err()
		}
		return b.failure()
	}
	// Also of a start that is too late: abort ends that process.
	fd, err := unix.PidfdOpen(first.ChildPID, 0)
	if err != nil {
		return fmt.Errorf("open the sandbox's process: %w", err)
	}
	b.init, b.initPID = fd, first.ChildPID
	if late {
		return ctx.Err()
	}
	b.first, err = identityOf(first.ChildPID)
	return err
}

// failure is what a bwrap that has ended, or is about to, wrote.
func (b *box) failure() error {
	text := make([]byte, 4<<10)
	n, _ := b.complaints().Read(text)
	return &Unavailable{explain(string(text[:n])), remedy(string(text[:n]))}
}

// serve waits for the init of a sandbox, and begins to serve its network if it has one by names.
func (b *box) serve(ctx context.Context, init *net.UnixConn, t *Processes, plan *plan, report func(egress.Use)) error {
	var err error
	if plan.mode == NetworkAllowed {
		var web, socks net.Listener
		if web, socks, err = takeListeners(ctx, init); err == nil {
			b.proxy = t.proxy(web, socks, plan, report)
		}
	} else {
		var files []*os.File
		files, err = greeting(ctx, init)
		closeAll(files)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return b.failure()
	}
	return err
}

// closeNetwork ends the proxy of a sandbox in which nothing runs.
func (b *box) closeNetwork() {
	if b.proxy != nil {
		b.proxy.Close()
	}
}

// complaints is where bwrap writes what went wrong.
func (b *box) complaints() *os.File { return cmp.Or(b.tty, b.output[Stderr]) }

// abort ends a sandbox whose start failed. Its first process does not end with bwrap, which has it wait to be released, and may not be known: it is of
// the process group of bwrap until then.
func (b *box) abort() error {
	defer b.closeNetwork()
	if err := unix.Kill(-b.cmd.Process.Pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	var exit *osexec.ExitError
	if err := b.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	err := b.empty()
	if b.cgroup != nil {
		err = errors.Join(err, b.cgroup.remove())
	}
	return err
}

// wait waits until the command has exited, and then until nothing of the sandbox runs and all output is in the spools.
func (b *box) wait() Exit {
	_ = b.cmd.Wait() // the report has the command's exit
	err := b.empty()
	b.gone()
	if err != nil {
		return Exit{Reason: SandboxFailed, Detail: err.Error()}
	}
	b.closeNetwork()
	b.collected()
	defer b.status.Close()
	_ = b.status.SetReadDeadline(time.Now()) // bwrap has ended: all that it reported is there
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

// readPresent reads what a pipe or a terminal holds, and does not wait. It returns 0 if that is nothing.
func readPresent(f *os.File, p []byte) (n int) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) { // it fails if the file is closed
		if ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); err == nil && ready > 0 {
			n, _ = unix.Read(int(fd), p)
		}
	})
	return max(n, 0)
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
func (b *box) kill() error {
	err := b.send(unix.SIGKILL, 0)
	if b.cgroup != nil {
		b.cgroup.kill()
	}
	return err
}

// signal sends a signal to the process group of the command, in which process 1 ignores it. A sandbox that is being set up has no such
// group yet: EAGAIN.
func (b *box) signal(sig syscall.Signal) error {
	if sig == unix.SIGKILL {
		return b.kill() // process 1 cannot ignore it
	}
	if b.tty != nil {
		return console{b.tty}.signal(sig)
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
