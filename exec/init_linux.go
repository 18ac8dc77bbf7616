package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/exec/entry"
)

// This file is the part of ctxfs that runs inside of a sandbox: 'ctxfs init', the first child of process 1. It has one or two jobs: it
// listens on the sandbox's loopback and passes the listening sockets out, where the proxy serves them; and it starts the commands of a
// shared sandbox. It talks with the engine through a socket pair of messages. The engine trusts nothing that it says: commands run as the
// same user. They reach neither its memory nor its descriptors nor its program, since it is not dumpable.
//
// It is the server's own program, run by its descriptor; in a shared sandbox a sealed copy, from which the spares start, too. A small program of its own would start in 2 ms instead of 7 ms, and would need a
// step of the build. A command with neither a network nor a shared sandbox goes without it, and a shared sandbox starts it once. The commands of a
// shared sandbox do not wait for it: a spare (entry.SpareArgv) has started before.

// initName is the first argument that makes the program the one inside of a sandbox.
const initName = "init"

// The jobs of 'ctxfs init JOB FD', where FD is the socket pair's. listening and relaying pass listeners out first.
const (
	// listening then becomes the command that follows the FD.
	listening = "listen"
	// serving starts the commands of a shared sandbox, relaying does so with a network.
	serving  = "serve"
	relaying = "relay"
)

// maxMessage bounds a message of the socket pair, in bytes.
const maxMessage = 4 << 10

// order is a message to init.
type order struct {
	// ID is the command's.
	ID uint32
	// Start comes with five files: a launch as JSON, the standard files, and the command's variables.
	Start bool `json:",omitempty"`
	// Signal is sent to the process group of a command.
	Signal int `json:",omitempty"`
}

// launch is what init starts.
type launch struct {
	entry.Order
	// Dir has bytes, as Order.Argv.
	Dir []byte
	// Spare has init make a spare for the next command.
	Spare bool `json:",omitempty"`
}

// report is a message of init.
type report struct {
	ID uint32
	// Error says why the command did not start, or with Exited why it did not run.
	Error string `json:",omitempty"`
	// Started and Exited say what happened; Code is the exit code.
	Started, Exited bool `json:",omitempty"`
	Code            int  `json:",omitempty"`
}

// exit returns what a report of an exit says.
func (r report) exit() Exit {
	if r.Error != "" {
		return Exit{Reason: SandboxFailed, Detail: "the command did not run: " + r.Error}
	}
	return Exit{Reason: Exited, Code: r.Code & 0xff}
}

// Init runs the program inside of a sandbox if that is what the arguments say, and returns its exit code.
func Init(args []string) (code int, is bool) {
	if len(args) < 4 || args[1] != initName {
		return 0, false
	}
	fd, err := strconv.Atoi(args[3])
	if err != nil {
		return 0, false
	}
	if err := runInit(args[2], fd, args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "ctxfs init:", err)
		return 1, true
	}
	return 0, true
}

func runInit(job string, fd int, argv []string) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	if err := greet(fd, job != serving); err != nil {
		return err
	}
	if job == listening { // it keeps its files: the first step of the command reads one, and closes all
		program, err := osexec.LookPath(argv[0])
		if err != nil {
			return err
		}
		return syscall.Exec(program, argv, os.Environ()) //nolint:gosec // the sandbox confines the command that it becomes
	}
	if err := unix.CloseRange(3, 1<<30, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	f := os.NewFile(uintptr(fd), "engine")
	conn, err := net.FileConn(f)
	_ = f.Close() // conn has a duplicate
	if err != nil {
		return err
	}
	engine, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("the descriptor is no socket pair")
	}
	return (&initd{engine: engine, running: map[uint32]*child{}, spares: make(chan *spare, 1), newSpare: newSpare}).serve()
}

// greet reports to the engine that the program runs. With a network it listens on the addresses of the proxy, and passes the sockets.
func greet(fd int, network bool) error {
	var ports, listeners []int
	if network {
		ports = []int{proxyPort, socksPort}
	}
	for _, port := range ports {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(s, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil {
			err = unix.Listen(s, unix.SOMAXCONN)
		}
		if err != nil {
			return fmt.Errorf("listen on port %d: %w", port, err)
		}
		listeners = append(listeners, s)
	}
	if err := unix.Sendmsg(fd, []byte("{}"), unix.UnixRights(listeners...), nil, 0); err != nil {
		return fmt.Errorf("greet the engine: %w", err)
	}
	for _, s := range listeners {
		_ = unix.Close(s) // the engine has it
	}
	return nil
}

// initd starts the commands of a shared sandbox. The sandbox ends with it.
type initd struct {
	engine *net.UnixConn

	mu sync.Mutex
	// running has the commands that are not reaped: their process IDs are theirs.
	running map[uint32]*child
	// spares has the spare for the next command, and refilling is true while one is made.
	spares    chan *spare
	refilling atomic.Bool
	// newSpare is replaced in tests.
	newSpare func() (*spare, error)
}

// child is a command; guarded by initd.mu.
type child struct {
	// spare is the process that becomes the command. Only await sets another one.
	spare *spare
	// signaled is true once the engine has signaled the command.
	signaled bool
}

// refillAfter is how long a command may run before the next spare is made. A short one has the processor for itself.
const refillAfter = 20 * time.Millisecond

// spare is a process that becomes a command, and leads a session for that.
type spare struct {
	process *os.Process
	socket  *os.File
}

func newSpare() (*spare, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "spare"), os.NewFile(uintptr(fds[1]), "init")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer null.Close()
	p, err := os.StartProcess("/proc/self/exe", entry.SpareArgv("/proc/self/exe", "3"), &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{null, null, null, theirs}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return &spare{p, ours}, nil
}

// give gives the spare an order. A spare that cannot have it ends.
func (s *spare) give(files []*os.File) {
	fds := make([]int, len(files))
	var err error
	for i, f := range files {
		fds[i] = int(f.Fd())
		if i >= 4 { // the variables and the order, which an earlier spare may have read
			_, failed := f.Seek(0, io.SeekStart)
			err = errors.Join(err, failed)
		}
	}
	if err == nil {
		err = unix.Sendmsg(int(s.socket.Fd()), []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
	}
	if err != nil {
		_ = s.process.Kill() // it may have ended, or be stopped
	}
}

// confirms waits until the spare has confirmed its order. It returns false if the spare has ended without that. Only EOF and ECONNRESET say so: after
// any other error the command may have run.
func (s *spare) confirms() bool {
	_, err := s.socket.Read(make([]byte, 1))
	return !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET)
}

// reap waits for the end of the spare, or of the command that it became.
func (s *spare) reap() (*os.ProcessState, error) {
	_ = s.socket.Close() // nothing more is read from it
	return s.process.Wait()
}

// refill makes the spare for the next command, unless there is one. Without one the next command waits for its own.
func (d *initd) refill() {
	if !d.refilling.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer d.refilling.Store(false)
		if len(d.spares) > 0 {
			return
		}
		if s, err := d.newSpare(); err == nil {
			d.spares <- s // there is room: nobody else adds one
		}
	}()
}

// spare returns the spare, or makes one.
func (d *initd) spare() (*spare, error) {
	select {
	case s := <-d.spares:
		return s, nil
	default:
		return d.newSpare()
	}
}

func (d *initd) serve() error {
	for {
		var o order
		files, err := receive(d.engine, &o)
		if errors.Is(err, io.EOF) {
			return nil // the engine ended the sandbox
		}
		if err != nil {
			return err
		}
		if o.Start {
			d.start(o.ID, files)
		} else {
			closeAll(files)
			d.signal(o.ID, syscall.Signal(o.Signal))
		}
	}
}

// start starts a command. The engine does not send an ID twice.
func (d *initd) start(id uint32, files []*os.File) {
	defer func() { closeAll(files) }()
	l, at, err := d.open(files)
	var s *spare
	if err == nil {
		files = slices.Concat([]*os.File{at}, files[1:], files[:1])
		s, err = d.spare()
	}
	if err != nil {
		d.say(report{ID: id, Error: err.Error()})
		return
	}
	d.say(report{ID: id, Started: true}) // before it begins: it may kill or stop this program
	c := &child{spare: s}
	d.mu.Lock()
	d.running[id] = c
	d.mu.Unlock()
	s.give(files)
	go d.await(id, c, files, l.Spare)
	files = nil // await closes them
}

// maxSpares is how many spares get the order of one command. Another command of the sandbox may kill them all.
const maxSpares = 3

// handOver waits until a spare has confirmed the order of a command. It gives the order to another spare if one ends before that, unless the engine has
// signaled the command: then that is the command's end. It fails if no spare has confirmed.
func (d *initd) handOver(c *child, files []*os.File) error {
	for n := 1; !c.spare.confirms(); n++ {
		if n == maxSpares {
			return fmt.Errorf("%d processes ended before they became it", n)
		}
		next, err := d.newSpare()
		if err != nil {
			return err
		}
		d.mu.Lock()
		if c.signaled {
			d.mu.Unlock()
			_ = next.process.Kill()
			_, _ = next.reap()
			return nil
		}
		_ = c.spare.process.Kill() // its socket is closed: it is ending
		_, _ = c.spare.reap()
		c.spare = next
		next.give(files)
		d.mu.Unlock()
	}
	return nil
}

// open reads a launch, and opens its working directory.
func (d *initd) open(files []*os.File) (l launch, at *os.File, err error) {
	if len(files) != 5 {
		return l, nil, fmt.Errorf("%d files instead of 5", len(files))
	}
	if err := json.NewDecoder(files[0]).Decode(&l); err != nil {
		return l, nil, err
	}
	dir, err := unix.Open(string(l.Dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return l, nil, &os.PathError{Op: "chdir", Path: string(l.Dir), Err: err}
	}
	return l, os.NewFile(uintptr(dir), string(l.Dir)), nil
}

// killedCode is the exit code of a command that was killed.
const killedCode = 128 + int(unix.SIGKILL)

// await waits for the end of a command, kills what is left of its session, and reports the exit.
func (d *initd) await(id uint32, c *child, files []*os.File, keepSpare bool) {
	refill := time.AfterFunc(refillAfter, func() {
		if keepSpare {
			d.refill()
		}
	})
	failure := d.handOver(c, files)
	closeAll(files) // the command has them
	pid := c.spare.process.Pid
	var info unix.Siginfo
	for { // not reaped: the session keeps its number
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	killSession(pid)
	d.mu.Lock()
	delete(d.running, id)
	state, err := c.spare.reap()
	d.mu.Unlock()
	r := report{ID: id, Exited: true, Code: killedCode}
	if err == nil {
		r.Code = state.ExitCode()
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			r.Code = 128 + int(status.Signal())
		}
	}
	if failure != nil {
		r.Error = failure.Error()
	}
	d.say(r)
	if refill.Stop() && keepSpare {
		d.refill()
	}
}

func (d *initd) signal(id uint32, sig syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.running[id]; c != nil {
		c.signaled = true
		_ = unix.Kill(-c.spare.process.Pid, sig) // it may have ended
	}
}

// killSession kills all processes of a session, and waits until they have ended. It gives up after some seconds: then the engine ends the
// sandbox.
func killSession(session int) {
	for pause := time.Millisecond; pause < 4*time.Second; pause *= 2 {
		killed := false
		for _, name := range processes() {
			pid, err := strconv.Atoi(name)
			if err == nil && inSession("/proc/"+name+"/stat", session) && unix.Kill(pid, unix.SIGKILL) == nil {
				killed = true
			}
		}
		if !killed {
			return
		}
		time.Sleep(pause)
	}
}

// processes returns the names in /proc, most of which are those of processes.
func processes() []string {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil // what is left ends with the sandbox
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // those that could be read
	return names
}

// inSession reads /proc/PID/stat (proc_pid_stat(5)): the session is the fourth field after the program's name, which may hold anything.
func inSession(path string, session int) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return false // it has ended
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	return len(fields) > 3 && fields[0] != "Z" && fields[0] != "X" && fields[3] == strconv.Itoa(session)
}

// say sends a report. The sandbox ends if the engine does not take it.
func (d *initd) say(r report) {
	if len(r.Error) > maxMessage/4 {
		r.Error = r.Error[:maxMessage/4]
	}
	if err := send(d.engine, r); err != nil {
		_ = d.engine.Close() // serve ends
	}
}

// send sends a message with files.
func send(conn *net.UnixConn, message any, files ...*os.File) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	_, _, err = conn.WriteMsgUnix(data, unix.UnixRights(fds...), nil)
	return err
}

// receive reads a message, and the files that came with it. It fails with io.EOF if the other side is gone, and if the message is
// malformed or too large.
func receive(conn *net.UnixConn, message any) (files []*os.File, err error) {
	data, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(8*4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	control, err := unix.ParseSocketControlMessage(rights[:oobn])
	if err != nil {
		return nil, err
	}
	for _, c := range control {
		fds, err := unix.ParseUnixRights(&c)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	switch {
	case n == 0 && oobn == 0:
		return files, io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return files, errors.New("a message is too large")
	}
	return files, json.Unmarshal(data[:n], message)
}
