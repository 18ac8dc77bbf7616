package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// startTime bounds how long a runner takes to answer.
	startTime = 20 * time.Second
	// stopTime bounds how long its commands take to end.
	stopTime = 8 * time.Second
)

// Runners are the runners of a contexts directory, as its server has them.
type Runners struct {
	cfg     Config
	service *grpc.ServiceDesc
	// turn is full while a runner is being started.
	turn    chan struct{}
	closing sync.Once
	// closeErr is what the first Close returned.
	closeErr error

	mu     sync.Mutex
	closed bool
	// live are the runners that have not ended, the newest last.
	live []*remote
	// handovers are the directories of runners that have ended.
	handovers []string
	watching  sync.WaitGroup
}

// Open finds the runners that a server of before left, and takes the gates of the contexts in which their commands run. It starts none: the
// first call does.
func Open(ctx context.Context, cfg Config) (*Runners, error) {
	cfg.closed = make(chan struct{})
	r := &Runners{cfg: cfg, turn: make(chan struct{}, 1)}
	var err error
	if r.service, err = front(&ctxfsv1.ExecService_ServiceDesc, r); err != nil {
		return nil, err
	}
	dirs, err := slots(cfg.Dir)
	if err == nil {
		err = exec.Reap(ctx, filepath.Join(cfg.Dir, OwnDir))
		r.handovers = append(r.handovers, filepath.Join(cfg.Dir, OwnDir))
	}
	for _, dir := range dirs {
		if err = errors.Join(err, r.find(ctx, dir)); err != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.Close(true))
	}
	return r, nil
}

// slots returns the directories of runners, in the order of their numbers.
func slots(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var numbers []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && e.IsDir() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	dirs := make([]string, 0, len(numbers))
	for _, n := range numbers {
		dirs = append(dirs, filepath.Join(dir, strconv.Itoa(n)))
	}
	return dirs, err
}

// lockOf opens the lock of a runner's directory, and takes it if it is free. The lock lasts until every process that got the file has closed it.
func lockOf(dir string) (lock *os.File, free bool, err error) {
	lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, errors.Join(fmt.Errorf("lock %s: %w", lock.Name(), err), lock.Close())
	}
	return lock, err == nil, nil
}

// findPause is how long find waits before it tries again: a runner that is about to end answers no more, and has its lock still.
const findPause = 20 * time.Millisecond

// reach connects to the runner of a directory; nil if there is none, and then nothing runs that one left. It takes the gates if cfg has a gate.
func reach(ctx context.Context, dir string, cfg Config) (*remote, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		lock, free, err := lockOf(dir)
		if err != nil {
			return nil, err
		}
		if free {
			err := exec.Reap(ctx, dir)
			return nil, errors.Join(err, lock.Close())
		}
		closeFile(lock)
		at, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		found, err := connect(ctx, dir, at, cfg)
		if err == nil || errors.Is(err, errElsewhere) {
			return found, err
		}
		select {
		case <-time.After(findPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("commands of an earlier server may run, and the process that owns them does not answer (%w); end it: fuser -k %s", err, lock.Name())
		}
	}
}

// find connects to the runner of a directory, or notes what one left.
func (r *Runners) find(ctx context.Context, dir string) error {
	found, err := reach(ctx, dir, r.cfg)
	if errors.Is(err, errElsewhere) {
		err = end(ctx, dir, r.cfg.Log)
	}
	if err != nil || found == nil {
		r.handovers = append(r.handovers, dir)
		return err
	}
	r.cfg.Log.Info("commands of an earlier server continue", zap.Int("pid", found.hello.PID), zap.String("version", found.hello.Version))
	r.add(found)
	return nil
}

// end ends the runner of a directory, if there is one, with its commands.
func end(ctx context.Context, dir string, log *zap.Logger) error {
	found, err := reach(ctx, dir, Config{Log: log})
	if err != nil || found == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return found.stop(ctx)
}

// End ends the runners of a contexts directory and their commands, for a server that runs commands itself. It returns the directories that
// killed runners left, for exec.Processes.Adopt.
func End(ctx context.Context, dir string, log *zap.Logger) (left []string, err error) {
	dirs, err := slots(dir)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if err := end(ctx, dir, log); err != nil {
			return nil, err
		}
		if _, err := os.Lstat(dir); err == nil {
			left = append(left, dir)
		}
	}
	return left, nil
}

// add adds a runner that answers. One of another version gets no new commands.
func (r *Runners) add(m *remote) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.old = m.hello.Version != r.cfg.Version; m.old {
		m.link.note(opRetire, nil)
		r.live = slices.Insert(r.live, 0, m)
	} else {
		r.live = append(r.live, m)
	}
	r.watching.Go(func() {
		<-m.gone
		r.ended(m)
	})
}

// ended hands over what a runner that has ended left, if another takes new commands. Until that is done, calls for its processes wait.
func (r *Runners) ended(m *remote) {
	r.mu.Lock()
	if !m.hasLeft() {
		r.handovers = append(r.handovers, m.dir)
	}
	var next *remote
	if n := len(r.live); !r.closed && r.live[n-1] != m && !r.live[n-1].old {
		next = r.live[n-1]
	}
	r.mu.Unlock()
	if next != nil {
		r.handOver(next)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = slices.DeleteFunc(r.live, func(l *remote) bool { return l == m })
	close(m.handed)
}

// handOver gives a runner the records and the output of those that have ended.
func (r *Runners) handOver(to *remote) {
	r.mu.Lock()
	dirs := r.handovers
	r.handovers = nil
	r.mu.Unlock()
	for _, dir := range dirs {
		if _, err := os.Lstat(dir); dir == to.dir || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if _, err := to.link.call(to.life, opTake, dir, nil); err != nil {
			r.cfg.Log.Warn("the output of commands that have ended is lost", zap.String("dir", dir), zap.Error(err))
		}
	}
}

// Register registers ExecService, whose calls the runners answer.
func (r *Runners) Register(registry grpc.ServiceRegistrar) { registry.RegisterService(r.service, nil) }

// ContextDeleted forgets the processes of a context that is gone.
func (r *Runners) ContextDeleted(id contexts.ID) {
	for _, m := range r.all() {
		m.link.note(opDeleted, id)
	}
}

// Close ends the runners and their commands or, with keep, leaves them to the next server. Further calls wait for the first.
func (r *Runners) Close(keep bool) error {
	r.closing.Do(func() {
		defer close(r.cfg.closed)
		r.closeErr = r.close(keep)
	})
	return r.closeErr
}

func (r *Runners) close(keep bool) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.turn <- struct{}{} // a runner that was being started is there, or failed
	<-r.turn
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	live := r.all()
	errs := make([]error, len(live))
	var ending sync.WaitGroup
	for i, m := range live {
		ending.Go(func() {
			if !keep {
				errs[i] = m.stop(ctx)
			}
			if keep || errs[i] != nil {
				m.leave()
			}
		})
	}
	ending.Wait()
	r.watching.Wait()
	err := errors.Join(errs...)
	if !keep {
		err = errors.Join(err, r.clear())
	}
	return err
}

// clear removes the directories of runners that have ended.
func (r *Runners) clear() error {
	r.mu.Lock()
	dirs := r.handovers
	r.handovers = nil
	r.mu.Unlock()
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

func (r *Runners) all() []*remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.live)
}

// current returns the runner that takes new commands. It starts one if there is none.
func (r *Runners) current(ctx context.Context) (*remote, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	closed := r.closed
	var newest *remote
	if n := len(r.live); n > 0 {
		newest = r.live[n-1]
	}
	r.mu.Unlock()
	switch {
	case closed:
		return nil, &fserr.Error{Code: fserr.EAGAIN, Detail: "the server is stopping"}
	case newest != nil && !newest.old && newest.alive():
		return newest, nil
	case newest != nil && !newest.alive():
		select {
		case <-newest.gone: // nothing of it runs, and its directory is free
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m, err := r.start(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("start the process that runs commands: %w", err)
	}
	r.add(m)
	r.handOver(m)
	return m, nil
}

// start starts a runner in the first directory that no other has.
func (r *Runners) start(ctx context.Context) (*remote, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for n := 1; ; n++ {
		dir := filepath.Join(r.cfg.Dir, strconv.Itoa(n))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		lock, free, err := lockOf(dir)
		if err != nil {
			return nil, err
		}
		if free {
			m, err := r.startIn(ctx, dir, lock)
			return m, errors.Join(err, lock.Close())
		}
		closeFile(lock)
	}
}

// startIn starts a runner. It does not take over lock, which the runner keeps.
func (r *Runners) startIn(ctx context.Context, dir string, lock *os.File) (*remote, error) {
	at, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	files := []*os.File{lockFD - 3: lock, apiFD - 3: nil, linkFD - 3: nil}
	for _, s := range []struct {
		fd            int
		network, name string
	}{{apiFD, "unix", apiName}, {linkFD, "unixpacket", linkName}} {
		f, err := listen(at, s.network, s.name)
		if err != nil {
			return nil, errors.Join(err, at.Close())
		}
		defer closeFile(f)
		files[s.fd-3] = f
	}
	if err := r.run(dir, files); err != nil {
		return nil, errors.Join(err, at.Close())
	}
	for _, f := range files[apiFD-3:] {
		closeFile(f) // so that the connection breaks if the runner ends
	}
	m, err := connect(ctx, dir, at, r.cfg)
	if err != nil {
		return nil, fmt.Errorf("%w; see %s", err, filepath.Join(r.cfg.Dir, logName))
	}
	return m, nil
}

// listen makes a socket that only this user may use.
func listen(at *os.File, network, name string) (*os.File, error) {
	path := below(at, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err == nil {
		err = os.Chmod(path, 0o600) // the directory is private too
	}
	return f, errors.Join(err, l.Close())
}

const (
	// logName is the log of runners, in the exec directory. A runner that starts empties it once it has logSize bytes.
	logName = "runner.log"
	logSize = 1 << 20
)

// run starts the program: in a session of its own, so that no signal of a terminal reaches it, and with nothing of the server's environment
// but the path of programs.
func (r *Runners) run(dir string, files []*os.File) error {
	engine := r.cfg.Engine
	engine.Dir = dir
	input, err := json.Marshal(settings{Engine: engine, Version: r.cfg.Version})
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(r.cfg.Dir, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer closeFile(log)
	if st, err := log.Stat(); err == nil && st.Size() > logSize {
		if err := log.Truncate(0); err != nil {
			return err
		}
	}
	cmd := osexec.CommandContext(context.Background(), r.cfg.Program[0], r.cfg.Program[1:]...) // it outlives this process
	cmd.Args[0] = "ctxfs"
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{"PATH=" + os.Getenv("PATH")}, "/", files
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it may outlive this process; the link says that it has ended
	return nil
}

// route returns the runner that has the process of a request; for others, the one that takes new commands.
func (r *Runners) route(ctx context.Context, req proto.Message) (*remote, error) {
	newest, err := r.current(ctx)
	if err != nil {
		return nil, err
	}
	if id := processOf(req); id != "" {
		for _, m := range r.all() {
			if m == newest {
				continue
			}
			_, err := ctxfsv1.NewExecServiceClient(m.api).GetProcess(ctx, &ctxfsv1.GetProcessRequest{ProcessId: id})
			if err == nil {
				return m, nil
			}
			if isBroken(err) {
				m.awaitHandOver(ctx)
			}
		}
	}
	return newest, nil
}

// conn implements backend.
func (r *Runners) conn(ctx context.Context, req proto.Message) (grpc.ClientConnInterface, error) {
	m, err := r.route(ctx, req)
	if err != nil {
		return nil, err
	}
	return m.api, nil
}

// invoke implements backend. If the runner ends during the call, and the call may be repeated, the next runner answers it.
func (r *Runners) invoke(ctx context.Context, name string, req, resp proto.Message) error {
	m, err := r.route(ctx, req)
	if err != nil {
		return err
	}
	err = r.invokeAt(ctx, m, name, req, resp)
	if !isBroken(err) || !method.Of(name).Repeatable(req) || !m.hasEnded(ctx) {
		return err
	}
	proto.Reset(resp)
	if m, err = r.route(ctx, req); err != nil {
		return err
	}
	return r.invokeAt(ctx, m, name, req, resp)
}

// invokeAt makes a call to a runner. A list has the processes of the others too.
func (r *Runners) invokeAt(ctx context.Context, m *remote, name string, req, resp proto.Message) error {
	if err := m.api.Invoke(ctx, name, req, resp); err != nil {
		return err
	}
	list, ok := resp.(*ctxfsv1.ListProcessesResponse)
	if !ok {
		return nil
	}
	for _, other := range r.all() {
		if other == m {
			continue
		}
		more := &ctxfsv1.ListProcessesResponse{}
		if err := other.api.Invoke(ctx, name, req, more); isBroken(err) {
			other.awaitHandOver(ctx)
			proto.Reset(resp)
			return r.invoke(ctx, name, req, resp)
		} else if err != nil {
			return err
		}
		list.Processes = append(list.Processes, more.GetProcesses()...)
	}
	slices.SortStableFunc(list.Processes, func(a, b *ctxfsv1.Process) int { return cmp.Compare(b.GetStartedNs(), a.GetStartedNs()) })
	return nil
}

// Running returns how many commands run in each context. It starts no runner; one that ends meanwhile has none.
func (r *Runners) Running(ctx context.Context) (map[contexts.ID]int, error) {
	ctx, n := withCaller(panels.WithIdentity(ctx, panels.Identity{Role: panels.RoleHost})), map[contexts.ID]int{}
	for _, m := range r.all() {
		list, err := ctxfsv1.NewExecServiceClient(m.api).ListProcesses(ctx, &ctxfsv1.ListProcessesRequest{Running: true})
		if isBroken(err) {
			continue
		}
		if err != nil {
			return nil, passed(ctx, err)
		}
		for _, p := range list.GetProcesses() {
			n[contexts.ID(p.GetContextId())]++
		}
	}
	return n, nil
}

// Run runs a command, and calls send with what ExecService.Run reports.
func (r *Runners) Run(ctx context.Context, cmd *ctxfsv1.Command, send func(*ctxfsv1.RunResponse) error) error {
	req := &ctxfsv1.RunRequest{Command: cmd}
	m, err := r.route(ctx, req)
	if err != nil {
		return passed(ctx, err)
	}
	ctx, cancel := context.WithCancel(withCaller(ctx))
	defer cancel()
	stream, err := ctxfsv1.NewExecServiceClient(m.api).Run(ctx, req)
	for err == nil {
		var event *ctxfsv1.RunResponse
		if event, err = stream.Recv(); err == nil {
			err = send(event)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return passed(ctx, err)
}
