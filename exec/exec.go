package exec

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec/egress"
	"github.com/ctxfs/ctxfs/fserr"
)

// Where a command finds things.
const (
	home      = "/context"
	agentHome = "/home/agent"
)

// Bounds of processes.
const (
	// maxRunning is how many processes may run in a context.
	maxRunning = 32
	// maxKept and keepTime bound the processes of a context that are kept after they ended.
	maxKept  = 100
	keepTime = time.Hour
	// maxOutput and maxAllOutput bound the outputs of these on disk, in bytes: of a context, and of all contexts.
	maxOutput    int64 = 256 << 20
	maxAllOutput int64 = 4 << 30
	// stopGrace is the grace of a kill when the server stops, or before the context is replaced.
	stopGrace = 2 * time.Second
)

// Gate opens contexts.
type Gate interface {
	Acquire(ctx context.Context, id contexts.ID, use contexts.Use) (*contexts.Access, error)
}

// User is a user and group of the machine.
type User struct{ UID, GID int }

// Config of Open. Gate and Dir are required. What JSON can carry of it, a server passes to its runner.
type Config struct {
	Gate Gate `json:"-"`
	// Dir is where spools and records are kept.
	Dir string
	// Unfinished is why the processes ended that an engine which was killed left in Dir.
	Unfinished Reason
	// User runs the commands; nil means the user of this process. Only root may name another.
	User *User
	// Checkpoints records what commands with a Checkpoint change; nil refuses them.
	Checkpoints Checkpoints `json:"-"`
	// Cgroups are directories below which sandboxes get cgroups of their own: one of cgroup v2, and those of controllers of cgroup v1. None
	// means the server's own cgroup v2, if systemd has delegated it.
	Cgroups []string
	// PanelMaxima bounds the limits of commands of panels; 0 means no bound but that of all commands.
	PanelMaxima Limits
	// Profiles are what commands may choose from; nil means the builtin ones.
	Profiles *Profiles
	// Upstream is how the proxy reaches the network.
	Upstream egress.Upstream `json:"-"`
	// Log may be nil.
	Log *zap.Logger `json:"-"`
}

// Unavailable says why commands cannot be isolated here.
type Unavailable struct {
	// Cause is the reason, Remedy what an operator can do.
	Cause, Remedy string
}

// Error returns the cause and the remedy.
func (e *Unavailable) Error() string {
	text := "commands cannot run here: " + e.Cause
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	return text + "; file calls are not affected"
}

// Processes are the commands that run in the contexts of one server, and those that ended lately.
type Processes struct {
	cfg     Config
	starter *starter
	sandbox sandboxes
	cgroups *cgroups
	rooms   rooms
	// stopped ends when Close begins.
	stopped context.Context //nolint:containedctx // it is the signal, not a call's
	stop    context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
	// closeErr is what the first Close returned.
	closeErr error

	mu     sync.Mutex
	closed bool
	// active counts the processes of each context that start or run.
	active map[contexts.ID]int
	// alone counts the sandboxes of each context that are those of one command.
	alone map[contexts.ID]int
	byID  map[string]*Process
	// names has the names of processes that start or run, requests the request IDs of processes that start or are known.
	names    map[nameKey]struct{}
	requests map[nameKey]*request
	// attachTime is how long a process with KillAlone waits for its first caller, reportTime how long the init of a shared
	// sandbox has to report the start of a command: a command can stop it.
	attachTime, reportTime time.Duration
	// awayTime is how long a process waits for a blocking reader that is not connected. breakTime is the time between the end of the pipes and
	// SIGTERM when the callers have left. drainTime is how long to wait for more output after everything in the sandbox has ended.
	awayTime, breakTime, drainTime time.Duration
	// maxOutput and maxAllOutput are the constants, except in tests.
	maxOutput, maxAllOutput int64
	// measureTime is for how long a command runs on while its context is measured, if it may have exceeded the quota.
	measureTime time.Duration
	// keepers has those of contexts with commands. keep is box.kept, except in tests.
	keepers map[contexts.ID]*keeper
	keep    func(*box, *survey)
}

// Open returns a table with the processes that cfg.Dir has from an engine that was killed. They have ended: see Adopt.
func Open(ctx context.Context, cfg Config) (*Processes, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Profiles == nil {
		cfg.Profiles = BuiltinProfiles()
	}
	p := &Processes{
		cfg: cfg, starter: newStarter(), active: map[contexts.ID]int{}, alone: map[contexts.ID]int{}, byID: map[string]*Process{},
		attachTime: attachTime, reportTime: time.Minute, awayTime: awayTime, breakTime: breakTime, drainTime: drainTime, measureTime: measureTime,
		maxOutput: maxOutput, maxAllOutput: maxAllOutput,
	}
	p.keepers, p.keep = map[contexts.ID]*keeper{}, (*box).kept
	p.names, p.requests = map[nameKey]struct{}{}, map[nameKey]*request{}
	p.sandbox.user = cfg.User
	var err error
	if p.cgroups, err = openCgroups(cfg.Cgroups); err != nil {
		p.starter.close()
		return nil, fmt.Errorf("use the cgroups of commands: %w", err)
	}
	p.stopped, p.stop = context.WithCancel(context.Background())
	if err := p.Adopt(ctx, cfg.Dir); err != nil {
		p.abandon()
		return nil, err
	}
	return p, nil
}

// abandon ends a table without processes, and leaves its directory.
func (t *Processes) abandon() {
	t.stop()
	t.starter.close()
	t.rooms.close()
}

// Close ends all processes, waits until nothing of them runs, and removes their output. Further calls wait for the first.
func (t *Processes) Close() error {
	t.closing.Do(func() {
		t.mu.Lock()
		t.closed = true
		t.mu.Unlock()
		t.stop()
		t.running.Wait()
		t.starter.close()
		t.rooms.close()
		t.closeErr = os.RemoveAll(t.cfg.Dir)
	})
	return t.closeErr
}

// Retire refuses further starts, and waits until nothing runs. What ended stays in Config.Dir, for Adopt by another.
func (t *Processes) Retire() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.running.Wait()
}

// Command is what to run. Its JSON leaves out what is not set: a later version that adds fields encodes the commands of this one as before.
type Command struct {
	Context contexts.ID `json:",omitzero"`
	// Argv is the program and its arguments.
	Argv []string `json:",omitzero"`
	// Cwd is the working directory, from the context's root.
	Cwd string `json:",omitzero"`
	// Env has further variables.
	Env map[string]string `json:",omitzero"`
	// Stdin is what standard input reads, unless OpenStdin leaves it to Process.Write.
	Stdin     []byte `json:",omitzero"`
	OpenStdin bool   `json:",omitzero"`
	Limits    Limits `json:",omitzero"`
	// ReadOnly shows the command the context's folder read-only.
	ReadOnly bool `json:",omitzero"`
	// Pty gives the command a terminal of its own, and leaves it open for Process.Write; nil for none.
	Pty *Pty `json:",omitzero"`
	Identity
	// KillAlone ends the process when its last caller leaves without Detach, and if none connects within attachTime.
	KillAlone bool `json:",omitzero"`
	// Awaited has the process wait for its first blocking reader, as KillAlone does. It does not count when commands are compared.
	Awaited bool `json:"-"`
	// Checkpoint records what the command changes.
	Checkpoint bool `json:",omitzero"`
	// DefaultWall is Limits.Wall if neither that nor the profile sets one.
	DefaultWall time.Duration `json:",omitzero"`
	// Profile is the name of a profile; "" means the default one.
	Profile string `json:",omitzero"`
	// Sandbox is the name of a sandbox that commands share; "" means one of its own.
	Sandbox string `json:",omitzero"`
	// Network changes that of the profile.
	Network Network `json:",omitzero"`
	// OfPanel bounds the limits by Config.PanelMaxima too.
	OfPanel bool `json:",omitzero"`
}

// Bounds of a Command, in bytes.
const (
	maxArgs  = 128 << 10
	maxStdin = 1 << 20
)

func (c *Command) check() error {
	size := 0
	for _, a := range c.Argv {
		size += len(a) + 1
		if strings.ContainsRune(a, 0) {
			return fserr.Invalid("an argument contains NUL")
		}
	}
	for name, value := range c.Env {
		size += len(name) + len(value) + 2
		if err := checkVariable(name, value); err != nil {
			return err
		}
	}
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return fserr.Invalid("no command: argv is empty")
	case size > maxArgs:
		return &fserr.Error{Code: fserr.E2BIG, Detail: fmt.Sprintf("arguments and environment have %d bytes, more than %d", size, maxArgs)}
	case len(c.Stdin) > maxStdin:
		return &fserr.Error{Code: fserr.EFBIG, Detail: fmt.Sprintf("stdin has %d bytes, more than %d", len(c.Stdin), maxStdin), Hint: "set open_stdin and use SendInput"}
	case len(c.Stdin) > 0 && (c.OpenStdin || c.Pty != nil):
		return fserr.Invalid("set one of stdin, open_stdin and pty")
	case strings.ContainsRune(c.Cwd, 0):
		return fserr.Invalid("cwd contains NUL")
	}
	if c.Pty != nil {
		if err := c.Pty.check(); err != nil {
			return err
		}
	}
	if err := c.Identity.check(); err != nil {
		return err
	}
	return c.Limits.check()
}

// Start starts a command. It fails with *Unavailable where commands cannot be isolated, with ENOENT, ENOTDIR or EACCES for a bad working
// directory, and with EMFILE if maxRunning processes run in the context. ctx bounds the start only.
//
// A command with the RequestID of a process that is known in its context starts nothing: Start returns that process, or fails with EEXIST
// if it was started with another command. EEXIST too while another process of the context has the Name.
func (t *Processes) Start(ctx context.Context, cmd Command) (*Process, error) {
	if err := cmd.check(); err != nil {
		return nil, err
	}
	if cmd.RequestID != "" {
		return t.startOnce(ctx, cmd)
	}
	return t.startNew(ctx, cmd)
}

func (t *Processes) startNew(ctx context.Context, cmd Command) (*Process, error) {
	plan, err := t.plan(&cmd)
	if err != nil {
		return nil, err
	}
	if err := t.enter(&cmd, elsewhereOf(ctx)); err != nil {
		return nil, err
	}
	p, err := t.start(ctx, cmd, plan)
	if err != nil {
		t.leave(&cmd)
		return nil, err
	}
	return p, nil
}

// errStopping refuses what would start a program after Close or Retire.
func errStopping() error { return &fserr.Error{Code: fserr.EAGAIN, Detail: "the server is stopping"} }

// enter counts a process that is about to start; leave takes it back when it did not, or has ended.
func (t *Processes) enter(cmd *Command, others Elsewhere) error {
	id := cmd.Context
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errStopping()
	}
	if n := t.active[id] + others.Running; n >= maxRunning {
		return &fserr.Error{Code: fserr.EMFILE, Detail: fmt.Sprintf("%d commands run in context '%s'", n, id), Hint: "wait until one has ended, or kill one"}
	}
	if err := t.takeName(cmd, others.Names); err != nil {
		return err
	}
	t.active[id]++
	t.running.Add(1)
	return nil
}

// work counts a call that uses the starter, which ends with Close. The caller calls done.
func (t *Processes) work() (done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errStopping()
	}
	t.running.Add(1)
	return t.running.Done, nil
}

func (t *Processes) leave(cmd *Command) {
	defer t.running.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active[cmd.Context]--; t.active[cmd.Context] == 0 {
		delete(t.active, cmd.Context)
		delete(t.keepers, cmd.Context)
	}
	delete(t.names, cmd.nameKey())
}

func (t *Processes) start(ctx context.Context, cmd Command, plan *plan) (*Process, error) {
	if err := t.sandbox.probe(ctx, t.starter); err != nil {
		return nil, err
	}
	checkpoint, err := t.begin(ctx, cmd)
	if err != nil {
		return nil, err
	}
	p, access, err := t.inside(ctx, cmd, plan)
	if err != nil {
		if checkpoint != nil {
			checkpoint.Drop()
		}
		return nil, err
	}
	p.checkpoint = checkpoint
	p.cmd.Stdin = nil // the command has it, in a file of its own
	t.mu.Lock()
	t.byID[p.ID] = p
	t.mu.Unlock()
	if cmd.KillAlone {
		p.callers.expect(t.attachTime, p.abandon)
	}
	access.Yield(p)
	go p.supervise(access)
	return p, nil
}

// begin makes the checkpoint of a command, nil if it has none.
func (t *Processes) begin(ctx context.Context, cmd Command) (Checkpoint, error) {
	switch {
	case !cmd.Checkpoint:
		return nil, nil
	case t.cfg.Checkpoints == nil:
		return nil, fserr.Invalid("checkpoints are not available")
	}
	return t.cfg.Checkpoints.Begin(ctx, cmd.Context)
}

// inside opens the gate and launches a command.
func (t *Processes) inside(ctx context.Context, cmd Command, plan *plan) (*Process, *contexts.Access, error) {
	access, err := t.cfg.Gate.Acquire(ctx, cmd.Context, contexts.Write)
	if err != nil {
		return nil, nil, err
	}
	before := access.Baseline(ctx) // once the command runs it may have written
	free, _ := freeIn(access)      // none is known as none
	p, err := t.launch(ctx, access, cmd, plan)
	if err != nil {
		access.Release()
		return nil, nil, err
	}
	p.before, p.free = before, free.Bytes
	return p, access, nil
}

func (t *Processes) launch(ctx context.Context, access *contexts.Access, cmd Command, plan *plan) (*Process, error) {
	p := &Process{
		ID: "p-" + strings.ToLower(rand.Text()[:10]), table: t, cmd: cmd, plan: plan, started: time.Now(),
		done: make(chan struct{}), kills: make(chan kill, 1), input: make(chan struct{}, 1),
	}
	if cmd.Pty != nil {
		pty := cmd.Pty.withDefaults()
		p.cmd.Pty = &pty
		p.terminal.Store(&pty)
	}
	var err error
	if p.asked, err = plan.asked.digest(p.ID); err != nil {
		return nil, err
	}
	plan.asked.Stdin = nil
	if p.dir, err = workingDirectory(access.Root, cmd.Cwd); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(t.cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	for i, name := range spoolSuffixes {
		if p.spools[i], err = newSpool(filepath.Join(t.cfg.Dir, p.ID+name)); err != nil {
			p.discard()
			return nil, err
		}
	}
	if cmd.KillAlone || cmd.Awaited {
		p.flow.expect([2]int64{}, t.attachTime)
	}
	if err := p.launch(ctx, access); err != nil {
		p.discard()
		return nil, err
	}
	return p, nil
}

// Get returns a process; ENOENT if there is none.
func (t *Processes) Get(id string) (*Process, error) {
	t.prune()
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byID[id]; p != nil {
		return p, nil
	}
	return nil, NoProcess(id)
}

// NoProcess is the error for a process that does not exist, or not for the caller.
func NoProcess(id string) error {
	return &fserr.Error{Code: fserr.ENOENT, Detail: fmt.Sprintf("no process %q", id), Hint: "ListProcesses lists those that are known"}
}

// List returns the processes of a context, or of all if id is "", newest first.
func (t *Processes) List(id contexts.ID) []*Process {
	t.prune()
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*Process
	for _, p := range t.byID {
		if id == "" || p.cmd.Context == id {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *Process) int { return a.Place().Compare(b.Place()) })
	return list
}

// Place is where a process stands in a list, newest first. The zero value is before all processes.
type Place struct {
	// Started is when the process was started, in ns since the epoch.
	Started int64
	ID      string
}

// Place returns that of the process.
func (p *Process) Place() Place { return Place{p.started.UnixNano(), p.ID} }

// Compare is negative if p stands before other.
func (p Place) Compare(other Place) int {
	switch {
	case p == other:
		return 0
	case p == Place{}:
		return -1
	case other == Place{}:
		return 1
	}
	return cmp.Or(cmp.Compare(other.Started, p.Started), cmp.Compare(p.ID, other.ID))
}

// String returns a text for ParsePlace.
func (p Place) String() string { return strconv.FormatInt(p.Started, 10) + "/" + p.ID }

// ParsePlace returns the place of a text; the zero value for "". It fails with EINVAL if String did not make the text.
func ParsePlace(text string) (Place, error) {
	if text == "" {
		return Place{}, nil
	}
	started, id, _ := strings.Cut(text, "/")
	at, err := strconv.ParseInt(started, 10, 64)
	if err != nil || id == "" {
		return Place{}, fserr.Invalid("the page %.80q is none that a list of processes has named", text)
	}
	return Place{at, id}, nil
}

// Remove forgets a process that has ended, with its output. It fails with EBUSY if the process runs.
func (t *Processes) Remove(id string) error {
	p, err := t.Get(id)
	if err != nil {
		return err
	}
	if p.Ended() == nil {
		return &fserr.Error{Code: fserr.EBUSY, Detail: "process " + id + " runs", Hint: "kill it first"}
	}
	t.forget(p)
	return nil
}

// ContextDeleted forgets the processes of a context that is gone.
func (t *Processes) ContextDeleted(id contexts.ID) {
	for _, p := range t.List(id) {
		if p.Ended() != nil {
			t.forget(p)
		}
	}
}

func (t *Processes) forget(p *Process) {
	t.mu.Lock()
	delete(t.byID, p.ID)
	t.forgetRequest(p)
	t.mu.Unlock()
	p.discard()
}

// prune forgets the processes that ended long ago, and the oldest of a context that has too many. Then it drops the outputs that are too much,
// the oldest first.
func (t *Processes) prune() {
	t.mu.Lock()
	ended := map[contexts.ID][]*Process{}
	for _, p := range t.byID {
		if p.Ended() != nil {
			ended[p.cmd.Context] = append(ended[p.cmd.Context], p)
		}
	}
	t.mu.Unlock()
	var outputs []*contextOutput
	for _, list := range ended {
		slices.SortFunc(list, func(a, b *Process) int { return b.Ended().At.Compare(a.Ended().At) })
		of := &contextOutput{}
		for i, p := range list {
			if i >= maxKept || time.Since(p.Ended().At) > keepTime {
				t.forget(p)
			} else {
				of.add(p)
			}
		}
		for of.size > t.maxOutput {
			of.dropOldest()
		}
		outputs = append(outputs, of)
	}
	t.boundAll(outputs)
}

// boundAll drops outputs until those of all contexts are within the bound: each time the oldest of the context that has most, so that one
// context's do not push out the others'.
func (t *Processes) boundAll(outputs []*contextOutput) {
	var sum int64
	for _, of := range outputs {
		sum += of.size
	}
	for sum > t.maxAllOutput {
		most := slices.MaxFunc(outputs, func(a, b *contextOutput) int { return cmp.Compare(a.size, b.size) })
		sum -= most.dropOldest()
	}
}

// contextOutput is what the ended processes of a context have of output.
type contextOutput struct {
	// processes are those that have any, the newest first, and sizes what each has.
	processes []*Process
	sizes     []int64
	size      int64
}

func (c *contextOutput) add(p *Process) {
	if n := p.outputSize(); n > 0 {
		c.processes, c.sizes, c.size = append(c.processes, p), append(c.sizes, n), c.size+n
	}
}

// dropOldest returns how many bytes it has dropped.
func (c *contextOutput) dropOldest() int64 {
	last := len(c.processes) - 1
	n := c.sizes[last]
	c.processes[last].dropOutput()
	c.processes, c.sizes, c.size = c.processes[:last], c.sizes[:last], c.size-n
	return n
}

// logged logs an error that changes nothing for the caller.
func (t *Processes) logged(what string, err error) {
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.cfg.Log.Warn(what, zap.Error(err))
	}
}
