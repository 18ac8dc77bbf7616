package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
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
	// children are closed when the runners that this process has started have ended.
	children []<-chan struct{}
	// limits are those of the runner that was added last: see greeting.Limits.
	limits   map[string]string
	watching sync.WaitGroup
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
	lock, err = statedir.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
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
	r.noteLimits(m.hello)
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

// noteLimits logs the limits that commands had in the runner before, and that the next one does not enforce. r.mu is held.
func (r *Runners) noteLimits(next greeting) {
	for controller, by := range r.limits {
		if next.Limits[controller] == "" {
			r.cfg.Log.Warn("new commands have a limit less: no cgroup enforces it any longer",
				zap.String("controller", controller), zap.String("before", by), zap.Int("pid", next.PID))
		}
	}
	r.limits = next.Limits
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
	if keep {
		return err
	}
	for _, ended := range r.children { // nothing is started any more
		select {
		case <-ended:
		case <-ctx.Done(): // stop's error says so
		}
	}
	return errors.Join(err, r.clear())
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
	if m := r.newest(); m != nil && !m.alive() {
		m.hasEnded(ctx) // usually nothing of it runs a moment later, and its directory is free again
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m, err := r.usable(); m != nil || err != nil {
		<-r.turn
		return m, err
	}
	var m *remote
	started := make(chan error, 1)
	go func() { // Close waits for it, by turn
		defer func() { <-r.turn }()
		var err error
		m, err = r.begin(context.WithoutCancel(ctx))
		started <- err
	}()
	select {
	case err := <-started:
		return m, err
	case <-ctx.Done():
		return nil, ctx.Err() // the next caller finds the runner
	}
}

// newest returns the runner that was started last; nil if there is none.
func (r *Runners) newest() *remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.live) == 0 {
		return nil
	}
	return r.live[len(r.live)-1]
}

// usable returns the newest runner if it takes new commands, nil if one must be started. It fails once the server stops.
func (r *Runners) usable() (*remote, error) {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, &fserr.Error{Code: fserr.EAGAIN, Detail: "the server is stopping"}
	}
	if m := r.newest(); m != nil && !m.old && m.alive() {
		return m, nil
	}
	return nil, nil
}

// begin starts a runner for new commands, with what earlier ones left.
func (r *Runners) begin(ctx context.Context) (*remote, error) {
	m, err := r.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("start the process that runs commands: %w", err)
	}
	r.add(m)
	r.handOver(m)
	return m, nil
}

// start starts a runner in the first directory that no other has. The directory of one that was killed belongs to it until nothing of it runs.
func (r *Runners) start(ctx context.Context) (*remote, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	taken := map[string]bool{}
	for _, m := range r.all() {
		taken[m.dir] = !m.isGone()
	}
	for n := 1; ; n++ {
		dir := filepath.Join(r.cfg.Dir, strconv.Itoa(n))
		if taken[dir] {
			continue
		}
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

// logName is the log of runners, in the exec directory. They bound it: see package ring.
const logName = "runner.log"

// run starts the program: in a session of its own, so that no signal of a terminal reaches it, and with nothing of the server's environment
// but the path of programs.
func (r *Runners) run(dir string, files []*os.File) error {
	engine := r.cfg.Engine
	engine.Dir = dir
	input, err := json.Marshal(settings{Engine: engine, Version: r.cfg.Version})
	if err != nil {
		return err
	}
	log, err := statedir.OpenFile(filepath.Join(r.cfg.Dir, logName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer closeFile(log)
	cmd := osexec.CommandContext(context.Background(), r.cfg.Program[0], r.cfg.Program[1:]...) // it outlives this process
	cmd.Args[0] = "ctxfs"
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{"PATH=" + os.Getenv("PATH")}, "/", files
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the link says why it has ended
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.children = append(r.children, ended)
	return nil
}
