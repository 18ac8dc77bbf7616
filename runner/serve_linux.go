package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/internal/accept"
)

// The descriptors that a runner is started with.
const (
	lockFD = 3 + iota
	apiFD
	linkFD
)

// settings is what a server passes to a runner on its standard input.
type settings struct {
	Engine  exec.Config
	Version string
}

const (
	// lookEvery is how often a runner checks whether it is of use.
	lookEvery = 5 * time.Second
	// idleTime is how long it waits for a server when nothing runs.
	idleTime = time.Minute
	// drainTime bounds the calls that are under way when a runner ends.
	drainTime = 5 * time.Second
)

// host is the runner's own process.
type host struct {
	settings
	log    *zap.Logger
	engine *exec.Processes
	gate   *remoteGate
	grpc   *grpc.Server
	// at identifies the directory.
	at os.FileInfo
	// leave is closed when the runner should end. Nothing runs then.
	leave   chan struct{}
	leaving sync.Once
	links   sync.WaitGroup
}

// Serve is the runner: only a server starts such a process, with sockets and settings. register registers the services that answer calls. Serve returns when a server stopped the runner, when ctx ends, or when the runner is of no further use. Commands that run
// then have been ended.
func Serve(ctx context.Context, stdin io.Reader, log *zap.Logger, register func(grpc.ServiceRegistrar, *exec.Processes)) (err error) {
	h := &host{log: log, gate: &remoteGate{leases: map[uint64]*heldLease{}}, leave: make(chan struct{})}
	if err := json.NewDecoder(stdin).Decode(&h.settings); err != nil {
		return fmt.Errorf("a runner is started by a server: %w", err)
	}
	for _, fd := range []int{lockFD, apiFD, linkFD} {
		unix.CloseOnExec(fd)
	}
	lock := os.NewFile(lockFD, "lock") // it stays open, and locked, until this process ends
	defer closeFile(lock)
	api, err := inherited(apiFD)
	if err != nil {
		return err
	}
	links, err := inherited(linkFD)
	if err != nil {
		return errors.Join(err, api.Close())
	}
	if h.at, err = os.Stat(h.Engine.Dir); err == nil {
		h.Engine.Gate, h.Engine.Checkpoints, h.Engine.Log, h.Engine.Unfinished = h.gate, remoteCheckpoints{h.gate}, log, exec.Lost
		h.engine, err = exec.Open(ctx, h.Engine)
	}
	if err != nil {
		return errors.Join(err, api.Close(), links.Close())
	}
	h.grpc = grpc.NewServer(append(asRunner(log), grpc.WaitForHandlers(true), grpc.MaxConcurrentStreams(maxCalls))...)
	register(h.grpc, h.engine)
	return h.serve(ctx, api, links)
}

// maxCalls bounds the calls in flight.
const maxCalls = 10_000

func inherited(fd int) (*net.UnixListener, error) {
	f := os.NewFile(uintptr(fd), "socket")
	l, err := net.FileListener(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("a runner is started by a server: %w", err)
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(errors.New("a runner is started by a server: no unix socket"), l.Close())
	}
	u.SetUnlinkOnClose(false)
	return u, nil
}

func (h *host) serve(ctx context.Context, api, links *net.UnixListener) error {
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.grpc.Serve(h.own(api)); err != nil {
			h.log.Error("calls are no longer answered", zap.Error(err))
			h.end()
		}
	})
	running.Go(func() { h.acceptLinks(h.own(links)) })
	h.log.Info("running commands", zap.Int("pid", os.Getpid()), zap.String("version", h.Version), zap.String("dir", h.Engine.Dir), zap.Any("cgroups", h.engine.Enforcers()))
	h.await(ctx)
	// A server that finds the lock free takes over the directory: all calls end before that.
	drained := make(chan struct{})
	go func() {
		h.grpc.GracefulStop()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(drainTime):
		h.grpc.Stop()
		<-drained
	}
	err := links.Close()
	if l := h.gate.connect(nil); l != nil {
		_ = l.conn.Close() // the server sees the end
	}
	h.links.Wait()
	running.Wait()
	return err
}

// await waits until the runner should end, and ends what runs.
func (h *host) await(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for used := time.Now(); ; {
		select {
		case <-h.leave:
			return
		case <-ctx.Done():
			h.stop()
			return
		case now := <-ticker.C:
			if h.gate.connected() || h.engine.Running() > 0 {
				used = now
			}
			st, err := os.Stat(h.Engine.Dir)
			switch {
			case err != nil || !os.SameFile(st, h.at):
				h.log.Error("the directory was removed, so no server finds this process: all commands end", zap.String("dir", h.Engine.Dir))
				h.stop()
				return
			case now.Sub(used) > idleTime:
				return
			}
		}
	}
}

// stop ends all commands and removes their output and the directory.
func (h *host) stop() {
	if err := h.engine.Close(); err != nil {
		h.log.Warn("the output of commands could not be removed", zap.Error(err))
	}
}

func (h *host) end() { h.leaving.Do(func() { close(h.leave) }) }

func (h *host) acceptLinks(links net.Listener) {
	for {
		conn, err := links.Accept()
		if err != nil {
			return // the runner ends
		}
		u, ok := conn.(*net.UnixConn)
		if !ok {
			_ = conn.Close() // not from a unix socket
			continue
		}
		l := newLink(u)
		l.handle = func(op string, body json.RawMessage, reply func(any, *os.File, error)) { h.handle(l, op, body, reply) }
		h.links.Go(func() {
			l.serve()
			h.gate.disconnect(l)
		})
	}
}

// greeting is the reply to opHello.
type greeting struct {
	Version string
	PID     int
	// Limits says which cgroup enforces the limits of each controller: see exec.Processes.Enforcers.
	Limits map[string]string
	// Mounts identifies the mount namespace.
	Mounts string
}

func (h *host) handle(l *link, op string, body json.RawMessage, reply func(any, *os.File, error)) {
	switch op {
	case opHello:
		// The workspace has one server at a time: one that was connected before has ended.
		if before := h.gate.connect(l); before != nil && before != l {
			_ = before.conn.Close() // see above
		}
		self, err := ownProcess()
		reply(greeting{h.Version, os.Getpid(), h.engine.Enforcers(), mountNamespace()}, self, err)
		closeFile(self)
	case opHeld:
		after, err := number(body)
		reply(h.gate.held(after), nil, err)
	case opKeep:
		id, err := number(body)
		reply(h.gate.has(id), nil, err)
	case opHas:
		h.answer(op, reply, func() (any, error) { return h.has(body) })
	case opClosing:
		h.gate.closing(body)
	case opPause:
		h.answer(op, reply, func() (any, error) { return nil, h.gate.pause(l, body) })
	case opResume:
		if resume := h.gate.resume(body); resume != nil {
			h.answer(op, reply, func() (any, error) { resume(); return nil, nil })
		}
	case opDeleted:
		var id contexts.ID
		if json.Unmarshal(body, &id) == nil {
			h.answer(op, reply, func() (any, error) { h.engine.ContextDeleted(id); return nil, nil })
		}
	case opTake:
		h.answer(op, reply, func() (any, error) { return nil, h.take(body) })
	case opRetire:
		go func() {
			h.engine.Retire()
			h.end()
		}()
	case opStop:
		go func() {
			h.stop()
			reply(nil, nil, nil)
			h.end()
		}()
	default:
		reply(nil, nil, fmt.Errorf("this runner, of version %s, has no operation %q", h.Version, op))
	}
}

// answer answers a call in a goroutine of its own. A panic fails the call, and not the runner with all its commands.
func (h *host) answer(op string, reply func(any, *os.File, error), do func() (any, error)) {
	go func() {
		out, err := func() (out any, err error) {
			defer recovered(h.log, op, &err)
			return do()
		}()
		reply(out, nil, err)
	}()
}

// hasRequest is the request of opHas.
type hasRequest struct {
	Context   contexts.ID
	RequestID string
}

// hasReply is the reply of opHas.
type hasReply struct {
	exec.Elsewhere
	// Known says that the runner has a process that was started with the request ID.
	Known bool
}

// has returns what this runner has of a context, for a start in another one.
func (h *host) has(body json.RawMessage) (out hasReply, err error) {
	var req hasRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return out, err
	}
	// The wait for a start ends with the start.
	out.Elsewhere, out.Known, err = h.engine.Has(context.Background(), req.Context, req.RequestID)
	return out, err
}

// take takes over the directory of a runner that has ended.
func (h *host) take(body json.RawMessage) error {
	var dir string
	if err := json.Unmarshal(body, &dir); err != nil {
		return err
	}
	return h.engine.Adopt(context.Background(), dir)
}

func number(body json.RawMessage) (n uint64, err error) {
	err = json.Unmarshal(body, &n)
	return n, err
}

// ownProcess returns a pidfd of this process.
func ownProcess() (*os.File, error) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("open this process: %w", err)
	}
	return os.NewFile(uintptr(fd), "process"), nil
}

// mountNamespace returns a name for the mount namespace of this process; "" if it has none.
func mountNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/mnt") // see above
	return name
}

// ownListener accepts connections of this process's user.
type ownListener struct {
	net.Listener
	log *zap.Logger
}

// own wraps a listener in an ownListener, which goes on after errors that pass.
func (h *host) own(l *net.UnixListener) ownListener {
	return ownListener{accept.Listener{Listener: l, Failed: func(err error, again bool) {
		if !again {
			h.log.Warn("a connection could not be accepted; trying again", zap.Error(err))
		}
	}}, h.log}
}

// Accept implements net.Listener.
func (l ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := sameUser(conn.(*net.UnixConn)); err != nil { //nolint:forcetypeassert // the listener is one of unix
			l.log.Warn("a connection was refused", zap.Error(err))
			_ = conn.Close() // it was not used
			continue
		}
		return conn, nil
	}
}
