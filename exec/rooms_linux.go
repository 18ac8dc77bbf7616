package exec

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec/egress"
	"github.com/ctxfs/ctxfs/exec/entry"
	"github.com/ctxfs/ctxfs/fserr"
)

// Bounds of shared sandboxes.
const (
	// maxRooms is how many a context has.
	maxRooms = 4
	// orderTime bounds how long init takes to accept a message, and obeyTime to end a command that is killed. Then the sandbox is ended.
	orderTime = 5 * time.Second
	obeyTime  = 5 * time.Second
	// leastForSpare is the least limit of processes with which init keeps a spare, whose threads count, too.
	leastForSpare = 64
)

// roomKey names a shared sandbox.
type roomKey struct {
	context       contexts.ID
	profile, name string
	readOnly      bool
}

// rooms are the shared sandboxes of a server.
type rooms struct {
	mu   sync.Mutex
	open map[roomKey]*room

	copying sync.Mutex
	// program is what init and the spares of all of them execute: a sealed copy of this program, which takes as much memory. It is made for the first
	// one, and guarded by copying.
	program *os.File
}

// executable returns the path of the copy in this process.
func (rs *rooms) executable() (path string, err error) {
	rs.copying.Lock()
	defer rs.copying.Unlock()
	if rs.program == nil {
		if rs.program, err = sealed(thisProgram); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("/proc/self/fd/%d", rs.program.Fd()), nil
}

// close is called when no room is open, nor begins.
func (rs *rooms) close() {
	if rs.program != nil {
		_ = rs.program.Close() // it was only executed
	}
}

// room is a shared sandbox. It runs as long as it has users.
type room struct {
	table *Processes
	key   roomKey
	plan  *plan
	// users are the commands that start or run in it; guarded by rooms.mu. At 0 it ends, and no other joins.
	users int
	// beside is the number of other sandboxes of the context when it began. begin sets it.
	beside int
	// ready is closed when the sandbox runs, or err says why not; ended is closed when nothing of it runs.
	ready, ended chan struct{}
	err          error

	box  *box
	init *net.UnixConn
	uses useLog
	// down is closed when init does not answer any longer.
	down chan struct{}

	mu      sync.Mutex
	members map[uint32]*member
	last    uint32
}

// member is a command in a shared sandbox.
type member struct {
	room    *room
	id      uint32
	process *Process
	output  [2]*os.File
	// tty is the command's terminal; nil if it has none.
	tty *os.File
	// collected waits until the output is in the spools.
	collected func()
	started   chan report
	exited    chan report
	// memoryKills is how many processes of the sandbox the kernel had killed for its memory limit before the command began.
	memoryKills int64
	// late ends the sandbox if the command does not end when it is killed; nil if it was not.
	late *time.Timer
	// isStarted guards against reports out of order.
	isStarted bool
}

// enterRoom joins the shared sandbox of a command, or makes it. root is the context's folder, which it takes over. The caller leaves.
func (t *Processes) enterRoom(ctx context.Context, p *Process, root *os.File, user User) (*room, error) {
	key := roomKey{p.cmd.Context, p.cmd.Profile, p.cmd.Sandbox, p.cmd.ReadOnly}
	for {
		r, wait, err := t.findRoom(key, p.plan)
		switch {
		case err != nil:
			_ = root.Close() // it was not used
			return nil, err
		case wait == nil:
			r.err = r.begin(ctx, root, user)
			if r.err != nil {
				t.forgetRoom(r)
			}
			close(r.ready)
			return r, r.err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			_ = root.Close() // it was not used
			if r != nil {
				t.running.Go(func() { // the caller is counted in running
					<-r.ready
					r.leave()
				})
			}
			return nil, ctx.Err()
		}
		if r != nil && ctx.Err() == nil && (errors.Is(r.err, context.Canceled) || errors.Is(r.err, context.DeadlineExceeded)) {
			continue // the caller that began it has left: this one, or another that waited, begins it again
		}
		if r != nil {
			_ = root.Close() // the room has its own
			return r, r.err
		}
	}
}

// findRoom returns the room that a command uses from now on, and what to wait for: nil if the caller is to begin the room. Without a room
// the caller waits for the end of one and tries again.
func (t *Processes) findRoom(key roomKey, plan *plan) (r *room, wait <-chan struct{}, err error) {
	t.rooms.mu.Lock()
	defer t.rooms.mu.Unlock()
	if t.rooms.open == nil {
		t.rooms.open = map[roomKey]*room{}
	}
	r = t.rooms.open[key]
	switch {
	case r == nil:
		n := t.rooms.of(key.context)
		if n >= maxRooms {
			return nil, nil, &fserr.Error{Code: fserr.EMFILE, Detail: fmt.Sprintf("context '%s' has %d shared sandboxes", key.context, n), Hint: "use one of them, or end the commands of one"}
		}
		r = &room{
			table: t, key: key, plan: plan, users: 1, ready: make(chan struct{}), ended: make(chan struct{}), down: make(chan struct{}), members: map[uint32]*member{},
		}
		t.rooms.open[key] = r
		return r, nil, nil
	case r.users == 0:
		return nil, r.ended, nil
	}
	if err := r.admits(plan); err != nil {
		return nil, nil, err
	}
	r.users++
	return r, r.ready, nil
}

// of returns how many a context has. The caller has locked mu.
func (rs *rooms) of(id contexts.ID) (n int) {
	for key := range rs.open {
		if key.context == id {
			n++
		}
	}
	return n
}

// countAlone counts a sandbox that begins and is that of one command, until gone is called. It returns sandboxesBeside.
func (t *Processes) countAlone(id contexts.ID) (beside int, gone func()) {
	t.mu.Lock()
	t.alone[id]++
	t.mu.Unlock()
	return t.sandboxesBeside(id), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.alone[id]--; t.alone[id] == 0 {
			delete(t.alone, id)
		}
	}
}

// sandboxesBeside returns how many sandboxes a context has besides one that begins. Of two that begin at once, at least one counts the other.
func (t *Processes) sandboxesBeside(id contexts.ID) int {
	t.rooms.mu.Lock()
	shared := t.rooms.of(id)
	t.rooms.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.alone[id] + shared - 1 // both count the one that begins
}

// admits fails with EINVAL if a command asks for a network, or for limits of the sandbox, that are not those of the command that began it.
func (r *room) admits(p *plan) error {
	if !r.plan.sameNetwork(p) {
		return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("sandbox %q runs with another network", r.key.name), Hint: "use the same network, or another name for the sandbox"}
	}
	asked, has := p.asked.Limits, r.plan.limits
	for _, l := range []struct {
		name       string
		asked, has int64
	}{
		{"memory_bytes", min(asked.MemoryBytes, p.limits.MemoryBytes), has.MemoryBytes}, {"tmp_bytes", asked.TmpBytes, has.TmpBytes},
		{"processes", int64(asked.Processes), int64(has.Processes)}, {"cpu_percent", int64(asked.CPUPercent), int64(has.CPUPercent)},
	} {
		if l.asked != 0 && l.asked != l.has {
			return &fserr.Error{
				Code: fserr.EINVAL, Detail: fmt.Sprintf("sandbox %q runs with the limit %s %d, and the command asks for %d", r.key.name, l.name, l.has, l.asked),
				Hint: "leave that limit out, or use another name for the sandbox",
			}
		}
	}
	return nil
}

// limits are those of a command in the room: what all its commands share is bounded as the first has asked.
func (r *room) limits(own Limits) Limits {
	of := r.plan.limits
	own.MemoryBytes, own.TmpBytes, own.Processes, own.CPUPercent = of.MemoryBytes, of.TmpBytes, of.Processes, of.CPUPercent
	return own
}

// limitsIn returns the limits that a command would have. It fails as a start would.
func (t *Processes) limitsIn(cmd *Command, plan *plan) (Limits, error) {
	t.rooms.mu.Lock()
	defer t.rooms.mu.Unlock()
	r := t.rooms.open[roomKey{cmd.Context, cmd.Profile, cmd.Sandbox, cmd.ReadOnly}]
	if cmd.Sandbox == "" || r == nil || r.users == 0 {
		return plan.limits, nil
	}
	return r.limits(plan.limits), r.admits(plan)
}

func (p *plan) sameNetwork(other *plan) bool {
	return p.mode == other.mode && slices.Equal(p.rules.Names, other.rules.Names)
}

func (t *Processes) forgetRoom(r *room) {
	t.rooms.mu.Lock()
	defer t.rooms.mu.Unlock()
	delete(t.rooms.open, r.key)
	close(r.ended)
}

// leave ends the room with its last user, and waits until nothing of it runs. It has no effect on a room that did not begin.
func (r *room) leave() {
	if r.err != nil {
		return
	}
	r.table.rooms.mu.Lock()
	r.users--
	last := r.users == 0
	r.table.rooms.mu.Unlock()
	if !last {
		return
	}
	r.table.logged("a shared sandbox could not be ended", r.end())
	r.table.forgetRoom(r)
}

// begin starts the sandbox.
func (r *room) begin(ctx context.Context, root *os.File, user User) (err error) {
	b, err := assemble(root, home, nil, user, r.plan.limits.TmpBytes, r.plan.additions()...)
	if err != nil {
		return err
	}
	defer b.close()
	r.beside = r.table.sandboxesBeside(r.key.context)
	b.beside, b.unrestricted = r.beside, r.table.sandbox.unrestricted
	b.add("--new-session")
	if r.key.readOnly {
		b.add("--remount-ro", home)
	}
	job := serving
	if r.plan.mode == NetworkAllowed {
		job = relaying
	}
	program, err := r.table.rooms.executable()
	if err != nil {
		return err
	}
	init, argv, err := b.inner(program, job)
	if err != nil {
		return err
	}
	var l plumbing
	defer func() {
		closeAll(l.theirs)
		if err != nil {
			closeAll(l.ours)
			_ = init.Close() // the sandbox did not begin
		}
	}()
	box, err := newBox(b, &l)
	if err != nil {
		return err
	}
	defer box.block.Close()
	socket, _ := strconv.Atoi(argv[len(argv)-1]) // inner passed it
	terminals, err := b.terminals()
	if err != nil {
		return err
	}
	if argv, err = b.enter(entry.Step{Keep: socket, Terminals: terminals}, argv...); err != nil {
		return err
	}
	if box.cmd, err = b.command(*r.table.sandbox.bwrap.Load(), user, argv); err != nil {
		return err
	}
	stderr, complaints, err := l.pipe(true)
	if err != nil {
		return err
	}
	box.cmd.Stderr, box.output[Stderr] = stderr, complaints
	if err := r.table.starter.start(box.cmd); err != nil {
		return &Unavailable{"bwrap cannot be started: " + err.Error(), ""}
	}
	closeAll(l.theirs)
	b.close() // bwrap has the files, and their ends show here
	limits := r.plan.limits
	limits.Processes = min(limits.Processes, r.table.processesFor(r.beside))
	if err = box.begin(ctx, r.table.cgroups, user, "s-"+strings.ToLower(rand.Text()[:10]), limits, func() error { return nil }); err == nil {
		err = box.serve(ctx, init, r.table, r.plan, r.reportUse)
	}
	if err != nil {
		return errors.Join(err, box.abort())
	}
	r.box, r.init = box, init
	r.table.running.Go(r.listen) // the caller is counted in running
	return nil
}

// end ends the sandbox, and waits until nothing of it runs.
func (r *room) end() error {
	err := errors.Join(r.init.Close(), r.box.kill())
	_ = r.box.cmd.Wait() // the exits of commands are those that init reported
	err = errors.Join(err, r.box.empty(), r.box.cgroup.remove())
	r.box.closeNetwork()
	r.uses.end(r.logger())
	<-r.down
	closeAll([]*os.File{r.box.status, r.box.output[Stderr]})
	return err
}

// listen reads what init reports, until it reports nothing or what makes no sense. Then it ends the sandbox.
func (r *room) listen() {
	defer close(r.down)
	for {
		var rep report
		files, err := receive(r.init, &rep)
		closeAll(files)
		if err == nil {
			err = r.take(rep)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, net.ErrClosed) {
			r.table.logged("a shared sandbox ends", errors.Join(err, r.box.kill()))
		}
		return
	}
}

// take passes a report on.
func (r *room) take(rep report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[rep.ID]
	switch {
	case m == nil:
		return fmt.Errorf("init reports on command %d, which does not run", rep.ID)
	case m.isStarted == rep.Exited && (rep.Exited || rep.Started || rep.Error != ""):
		m.isStarted = true
		if rep.Exited || rep.Error != "" {
			delete(r.members, rep.ID)
		}
		if rep.Exited {
			m.exited <- rep
		} else {
			m.started <- rep
		}
		return nil
	}
	return fmt.Errorf("init's report on command %d makes no sense", rep.ID)
}

// order sends a message to init. It ends the sandbox if init does not take it.
func (r *room) order(o order, files ...*os.File) error {
	err := r.init.SetWriteDeadline(time.Now().Add(orderTime))
	if err == nil {
		err = send(r.init, o, files...)
	}
	if err != nil {
		return errors.Join(&fserr.Error{Code: fserr.EAGAIN, Detail: "the shared sandbox is ending", Hint: "try again"}, r.box.kill())
	}
	return nil
}

// logger is for what the sandbox does.
func (r *room) logger() *zap.Logger {
	return r.table.cfg.Log.With(zap.String("context", string(r.key.context)), zap.String("sandbox", r.key.name))
}

// reportUse logs a use of the network by the sandbox, and keeps a refusal for all that run in it.
func (r *room) reportUse(use egress.Use) {
	r.uses.write(r.logger(), use)
	if use.Refusal == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		m.process.refusals.add(use)
	}
}

// launchShared starts the command in a shared sandbox.
func (p *Process) launchShared(ctx context.Context, root *os.File, user User, l *plumbing) error {
	r, err := p.table.enterRoom(ctx, p, root, user)
	if err != nil {
		return err
	}
	p.cmd.Limits = r.limits(p.cmd.Limits)
	p.cmd.Limits.Processes = min(p.cmd.Limits.Processes, p.table.processesFor(r.beside))
	m := &member{room: r, process: p, started: make(chan report, 1), exited: make(chan report, 1), memoryKills: r.box.cgroup.memoryKills()}
	if err = p.save(r.box.first, nil); err == nil { // before it runs: see launchIn
		err = m.begin(user, l)
	}
	if err == nil {
		return m.awaitStart(ctx)
	}
	r.leave()
	return err
}

// begin asks init to start the command.
func (m *member) begin(user User, l *plumbing) error {
	p := m.process
	// The standard files are made as for a sandbox of its own, and then passed in.
	standard := &box{cmd: &osexec.Cmd{SysProcAttr: &syscall.SysProcAttr{}}}
	var err error
	if p.cmd.Pty != nil {
		err = p.connectTerminal(standard, user, l)
	} else {
		err = p.connect(standard, l)
	}
	if err != nil {
		return err
	}
	m.output, m.tty = standard.output, standard.tty
	spare := cmp.Or(p.cmd.Limits.Processes, defaultProcesses) >= leastForSpare
	limits := p.cmd.Limits
	limits.Processes = cmp.Or(limits.Processes, defaultProcesses) + processesBeside // the kernel counts the threads of init, too
	spec, err := json.Marshal(launch{entry.OrderOf(limits.step(m.room.beside), p.cmd.Argv...), []byte(p.dir), spare})
	if err != nil {
		return err
	}
	var files []*os.File
	for _, content := range [][]byte{spec, terminated(environment(p.variables()))} {
		file, err := memoryFile(content)
		if err != nil {
			return err
		}
		l.theirs, files = append(l.theirs, file), append(files, file)
	}
	for i, standardFile := range []any{standard.cmd.Stdin, standard.cmd.Stdout, standard.cmd.Stderr} {
		f, ok := standardFile.(*os.File)
		if !ok {
			if f, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return err
			}
			l.theirs = append(l.theirs, f)
		}
		files = slices.Insert(files, 1+i, f)
	}
	r := m.room
	r.mu.Lock()
	r.last++
	m.id = r.last
	r.members[m.id] = m
	r.mu.Unlock()
	defer closeAll(l.theirs)
	return r.order(order{ID: m.id, Start: true}, files...)
}

// awaitStart waits until the command runs. It leaves the room otherwise.
func (m *member) awaitStart(ctx context.Context) error {
	table := m.process.table
	late := time.AfterFunc(table.reportTime, func() { table.logged("a shared sandbox could not be ended", m.room.box.kill()) })
	defer late.Stop()
	var rep report
	select {
	case rep = <-m.started:
	case <-m.room.down: // the command may have begun, and must not begin twice: its exit says that the sandbox failed
	case <-ctx.Done():
		table.running.Go(m.abandon) // the caller is counted in running
		return ctx.Err()
	}
	if rep.Error != "" {
		m.room.leave()
		return fserr.Invalid("the command cannot be started: %s", rep.Error)
	}
	m.collected = m.process.collect(m.output)
	m.process.box, m.process.run, m.process.tty = m.room.box, m, m.tty
	return nil
}

// abandon ends a command that may or may not run, and leaves the room then.
func (m *member) abandon() {
	m.process.table.logged("an abandoned command could not be killed", m.kill())
	for isStarted := true; isStarted; {
		select {
		case rep := <-m.started:
			isStarted = rep.Error == ""
		case <-m.exited:
			isStarted = false
		case <-m.room.down:
			isStarted = false
		}
	}
	m.left()
}

// left gives the room back. Nothing of the command runs.
func (m *member) left() {
	m.room.mu.Lock()
	if m.late != nil {
		m.late.Stop()
	}
	m.room.mu.Unlock()
	m.room.leave()
}

// wait implements execution.
func (m *member) wait() Exit {
	exit := Exit{Reason: SandboxFailed}
	select {
	case rep := <-m.exited:
		exit = rep.exit()
	case <-m.room.down:
		select {
		case rep := <-m.exited: // it was the last report
			exit = rep.exit()
		default:
		}
	}
	killed := exit.Reason == SandboxFailed || exit.Code == killedCode
	if killed && m.room.box.cgroup.memoryKills() > m.memoryKills {
		exit.Reason = OutOfMemory
	}
	m.collected()
	m.left()
	return exit
}

// signal implements execution.
func (m *member) signal(sig syscall.Signal) error {
	if sig == unix.SIGKILL {
		return m.kill()
	}
	if m.tty != nil {
		return console{m.tty}.signal(sig)
	}
	return m.room.order(order{ID: m.id, Signal: int(sig)})
}

// terminate implements execution.
func (m *member) terminate() error { return terminate(m.signal, m.tty != nil) }

// kill implements execution. Processes that left the command's session end with the sandbox.
func (m *member) kill() error {
	m.room.mu.Lock()
	if m.late == nil {
		m.late = time.AfterFunc(obeyTime, func() { m.room.table.logged("a shared sandbox could not be killed", m.room.box.kill()) })
	}
	m.room.mu.Unlock()
	return m.room.order(order{ID: m.id, Signal: int(unix.SIGKILL)})
}
