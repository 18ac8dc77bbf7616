package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
)

// The names in a runner's directory.
const (
	lockName = "lock"
	apiName  = "api.sock"
	linkName = "link.sock"
)

// maxReply bounds a unary reply of a runner, in bytes. The server splits or refuses what is too large for its callers.
const maxReply = 256 << 20

// streamWindow is how much of a stream a runner may send before the server passes it on, in bytes: each command whose reader is slow takes so much
// memory. connWindow is the same for all streams together; gRPC renews it at once, whether or not a stream is read.
const streamWindow, connWindow = 256 << 10, 1 << 20

// remote is a runner as the server has it.
type remote struct {
	dir string
	// at is dir: sockets are found below it, whatever the length of its path. It is nil once the runner has ended; dirs guards it.
	at   *os.File
	dirs sync.RWMutex
	gate exec.Gate
	// checkpoints are the server's; points are those that the runner began.
	checkpoints exec.Checkpoints
	log         *zap.Logger
	link        *link
	api         *grpc.ClientConn
	hello       greeting
	// process receives a pidfd of the runner when connect has it; nil if it is of a version that gives none.
	process chan *os.File
	// old says that the runner is of another version, and gets no new commands.
	old bool
	// closed is closed with the Runners.
	closed <-chan struct{}
	reap   func(ctx context.Context, dir string) error
	// life ends when the server leaves the runner, or the runner has ended.
	life context.Context //nolint:containedctx // it is the connection's own life
	die  context.CancelFunc
	// gone is closed when the runner has ended, nothing of it runs, and its leases are released; or when the server has left it.
	gone chan struct{}
	// handed is closed when another runner has its records, or when no other runs.
	handed chan struct{}

	mu sync.Mutex
	// left is true when the server has left the runner alone.
	left   bool
	leases map[uint64]*grant
	points map[uint64]exec.Checkpoint
	// lastPoint is the number of the last checkpoint.
	lastPoint uint64
}

// grant is a lease as the server has it.
type grant struct {
	// access is nil while it is being acquired, and after it was released.
	access   *contexts.Access
	released bool
	cancel   context.CancelFunc
	// unwatch stops the note of access.Closing.
	unwatch func() bool
}

// below returns the path of a name in an open directory, which is short enough for a socket's address.
func below(dir *os.File, name string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), name)
}

// connect connects to the runner of a directory, and takes the gates of the contexts in which commands run if cfg has a gate. It takes over at.
func connect(ctx context.Context, dir string, at *os.File, cfg Config) (_ *remote, err error) {
	if cfg.reap == nil {
		cfg.reap = exec.Reap
	}
	r := &remote{dir: dir, at: at, gate: cfg.Gate, checkpoints: cfg.Checkpoints, log: cfg.Log, closed: cfg.closed, reap: cfg.reap, gone: make(chan struct{}), handed: make(chan struct{}), process: make(chan *os.File, 1)}
	r.leases, r.points = map[uint64]*grant{}, map[uint64]exec.Checkpoint{}
	r.life, r.die = context.WithCancel(context.Background())
	if r.api, err = grpc.NewClient("passthrough:///runner", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.dial(ctx, apiName) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow)); err != nil {
		r.die()
		return nil, errors.Join(err, at.Close())
	}
	conn, err := r.dial(ctx, linkName)
	if err != nil {
		r.die()
		return nil, errors.Join(err, r.api.Close(), at.Close())
	}
	r.link = newLink(conn)
	r.link.handle = r.handle
	go func() {
		r.link.serve()
		r.ended()
	}()
	process, err := r.link.call(ctx, opHello, nil, &r.hello)
	r.process <- process
	if err == nil && cfg.Gate != nil {
		err = r.adopt(ctx)
	}
	if err != nil {
		r.leave()
		return nil, err
	}
	return r, nil
}

// below is the function below for the runner's directory, which stays open until done. It fails once the runner has ended.
func (r *remote) below(name string) (path string, done func(), err error) {
	r.dirs.RLock()
	if r.at == nil {
		r.dirs.RUnlock()
		return "", nil, net.ErrClosed
	}
	return below(r.at, name), r.dirs.RUnlock, nil
}

func (r *remote) dial(ctx context.Context, name string) (*net.UnixConn, error) {
	network := "unix"
	if name == linkName {
		network = "unixpacket"
	}
	path, done, err := r.below(name)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, path)
	done()
	if err != nil {
		return nil, err
	}
	u, ok := conn.(*net.UnixConn)
	if ok {
		err = sameUser(u)
	}
	if !ok || err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return u, nil
}

// adopt takes the gates of the contexts in which the runner's commands run, and ends those whose context is another one by now. If the runner
// keeps a mount alive that this server cannot see, the runner must end: nothing else frees the context.
func (r *remote) adopt(ctx context.Context) error {
	for after := uint64(0); ; {
		var page []lease
		if _, err := r.link.call(ctx, opHeld, after, &page); err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		for _, held := range page {
			after = held.ID
			if err := r.take(ctx, held); err != nil {
				r.log.Warn("a command ends: its context is no longer the one in which it was started",
					zap.String("context", string(held.Context)), zap.Error(err))
				if r.hello.Mounts != mountNamespace() {
					return errElsewhere
				}
				r.link.note(opClosing, held.ID)
			}
		}
	}
}

// errElsewhere: a runner in another mount namespace has a context that this server cannot open.
var errElsewhere = errors.New("it runs in another mount namespace")

// take takes the gate of a lease that a server of before had granted.
func (r *remote) take(ctx context.Context, held lease) error {
	g := &grant{}
	r.mu.Lock()
	r.leases[held.ID] = g
	r.mu.Unlock()
	err := r.acquire(ctx, held, g, func(_ lease, dir *os.File) error {
		now, err := folderOf(int(dir.Fd()))
		if err == nil && now != held.Folder {
			err = &fserr.Error{Code: fserr.ESTALE, Detail: "the context's folder was replaced"}
		}
		return err
	})
	var kept bool
	if err == nil {
		_, err = r.link.call(ctx, opKeep, held.ID, &kept)
	}
	switch {
	case err != nil || !kept: // or the command ended meanwhile
		r.release(held.ID)
	case held.Yields:
		r.yields(held.ID)
	}
	return err
}

// acquire acquires the context of a lease, and calls use with its folder. If that fails it releases the context.
func (r *remote) acquire(ctx context.Context, l lease, g *grant, use func(l lease, dir *os.File) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	g.cancel = cancel
	stop := g.released
	r.mu.Unlock()
	if stop {
		return context.Canceled
	}
	defer context.AfterFunc(r.life, cancel)()
	access, err := r.gate.Acquire(ctx, l.Context, l.Use)
	if err != nil {
		return err
	}
	r.mu.Lock()
	stop = g.released
	if !stop {
		g.access = access
		g.unwatch = context.AfterFunc(access.Closing(), func() { r.link.note(opClosing, l.ID) })
	}
	r.mu.Unlock()
	if stop {
		access.Release()
		return context.Canceled
	}
	dir, err := rootfs.Descriptor(access.Root)
	if err != nil {
		return err
	}
	defer closeFile(dir)
	l.Generation, l.Quota = access.Generation, access.HasQuota()
	return use(l, dir)
}

// handle receives the runner's calls and notes.
func (r *remote) handle(op string, body json.RawMessage, reply func(any, *os.File, error)) {
	switch op {
	case opAcquire:
		var l lease
		if err := json.Unmarshal(body, &l); err != nil {
			reply(nil, nil, err)
			return
		}
		g := &grant{}
		r.mu.Lock()
		r.leases[l.ID] = g
		r.mu.Unlock()
		go func() {
			err := r.acquire(r.life, l, g, func(l lease, dir *os.File) error {
				reply(l, dir, nil)
				return nil
			})
			if err != nil {
				r.release(l.ID)
				reply(nil, nil, err)
			}
		}()
	case opRelease:
		if id, err := number(body); err == nil {
			r.release(id)
		}
	case opYield:
		if id, err := number(body); err == nil {
			r.yields(id)
		}
	case opBaseline:
		go r.usage(body, reply, (*contexts.Access).Baseline)
	case opUsage:
		go r.usage(body, reply, (*contexts.Access).Usage)
	case opBegin:
		go func() {
			id, err := r.begin(body)
			reply(id, nil, err)
		}()
	case opRecord:
		go func() {
			done, err := r.record(body)
			reply(done, nil, err)
		}()
	case opDrop:
		if id, err := number(body); err == nil {
			r.drop(id)
		}
	default:
		reply(nil, nil, fmt.Errorf("this server has no operation %q", op))
	}
}

// release gives up a lease. It has no effect if there is none of that number.
func (r *remote) release(id uint64) {
	r.mu.Lock()
	g := r.leases[id]
	delete(r.leases, id)
	if g == nil {
		r.mu.Unlock()
		return
	}
	g.released = true
	if g.cancel != nil {
		g.cancel()
	}
	access := g.access
	g.access = nil
	if g.unwatch != nil {
		g.unwatch()
	}
	r.mu.Unlock()
	if access != nil {
		access.Release()
	}
}

// reapPause is how long the server waits before it tries again to end what a runner left.
const reapPause = time.Second

// ended is called when the link has ended. The gates stay closed until nothing runs in the contexts.
func (r *remote) ended() {
	defer close(r.gone)
	defer r.dropAll()
	defer r.die()
	r.closeAPI()
	for !r.hasLeft() {
		err := r.reap(r.life, r.dir)
		if err == nil {
			break
		}
		r.log.Error("commands of a runner that has ended cannot be ended", zap.String("dir", r.dir), zap.Error(err))
		select {
		case <-time.After(reapPause):
		case <-r.life.Done():
		}
	}
	r.mu.Lock()
	ids := make([]uint64, 0, len(r.leases))
	for id := range r.leases {
		ids = append(ids, id)
	}
	r.mu.Unlock()
	for _, id := range ids {
		r.release(id)
	}
	if process := <-r.process; process != nil {
		if !r.hasLeft() {
			awaitExit(process)
		}
		closeFile(process)
	}
	r.dirs.Lock()
	defer r.dirs.Unlock()
	_ = r.at.Close() // it was only read
	r.at = nil
}

// awaitExit waits until the process of a runner whose link has ended has ended too, for endTime at most.
func awaitExit(process *os.File) {
	for end := time.Now().Add(endTime); ; {
		left := max(time.Until(end), 0)
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(process.Fd()), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// closeAPI ends the calls under way if the server leaves the runner. A runner that has ended ended its connections: a caller may still read
// a reply that was sent before.
func (r *remote) closeAPI() {
	if r.hasLeft() {
		_ = r.api.Close() // calls under way fail
		return
	}
	go func() {
		select {
		case <-time.After(endTime):
		case <-r.closed:
		}
		_ = r.api.Close() // no call is under way
	}()
}

func (r *remote) hasLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

// alive reports whether the runner has not ended.
func (r *remote) alive() bool {
	select {
	case <-r.link.done:
		return false
	default:
		return true
	}
}

// endTime is how long after a broken connection a runner's end shows.
const endTime = 5 * time.Second

// hasEnded waits until the runner has ended, which a broken connection announces. It returns false if ctx ends first, or too much time passes.
func (r *remote) hasEnded(ctx context.Context) bool {
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-r.gone:
		return !r.hasLeft()
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// isGone reports whether gone is closed.
func (r *remote) isGone() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

// awaitHandOver waits until another runner has the records of this one. It returns false if this one does not end in time, or ctx ends first.
func (r *remote) awaitHandOver(ctx context.Context) bool {
	return r.hasEnded(ctx) && r.awaitHanded(ctx) == nil
}

// awaitHanded waits until another runner has the records of this one, which has ended or is about to.
func (r *remote) awaitHanded(ctx context.Context) error {
	select {
	case <-r.handed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives up all leases and leaves the runner and its commands alone.
func (r *remote) leave() {
	r.mu.Lock()
	r.left = true
	r.mu.Unlock()
	r.die()
	_ = r.link.conn.Close() // serve ends
	<-r.gone
}

// stop ends the runner and its commands, and waits until ctx ends at most.
func (r *remote) stop(ctx context.Context) error {
	if _, err := r.link.call(ctx, opStop, nil, nil); err != nil && !errors.Is(err, errGone) {
		return fmt.Errorf("end the commands of runner %d: %w", r.hello.PID, err)
	}
	select {
	case <-r.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("runner %d does not end: %w", r.hello.PID, ctx.Err())
	}
}
