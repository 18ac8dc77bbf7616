// Package server is the composition root: it reads the settings, picks the concrete stores and drivers, locks the workspace, listens,
// authenticates callers, and shuts down in order. No other package knows all parts of ctxfs.
//
// Call LoadConfig, New (which locks, sweeps and listens), then Serve (which blocks). For a second server on the same workspace, New
// returns an *AlreadyServedError.
package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/gateway"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/session"
)

// Deps is what a server gets from its process.
type Deps struct {
	// Log may be nil.
	Log *zap.Logger
	// Stdin is watched for its end with Config.ExitOnStdinClose.
	Stdin io.Reader
	// Version is written into the state and returned by GetInfo.
	Version string
	// Runner is the command line of a runner (runner.Serve). nil means that the server runs commands itself: they end with it.
	Runner []string
	// Console has the files of the console (console.Files); nil means that the server shows none.
	Console fs.FS
	// Now is the time of contexts and consoles; nil, except in tests, means time.Now.
	Now func() time.Time
	// OpenRoot is contexts.Config.OpenRoot; nil except in tests.
	OpenRoot func(dir string, opts rootfs.Options) (rootfs.Root, error)
	// Store, not nil in tests alone, puts a database of another process in the place of the store.
	Store func(metadata.Store) (store metadata.Store, ask func(context.Context) (identity string, err error))
	// DrainTime is how long running calls have to end when the server stops; 0, except in tests, means 8 s.
	DrainTime time.Duration
	// HandshakeTime bounds the handshake of a connection to a gRPC address; 0, except in tests, means 10 s.
	HandshakeTime time.Duration
}

// drainTime (Deps.DrainTime) and stopTime bound the stop: running calls have drainTime to end, and the whole stop takes no longer than both.
const (
	drainTime = 8 * time.Second
	stopTime  = 2 * time.Second
)

// Server serves one workspace, once. Make it with New.
type Server struct {
	cfg   Config
	log   *zap.Logger
	deps  Deps
	parts *parts
	claim *claim
	grpc  *grpc.Server
	// registry takes services until Serve.
	registry grpc.ServiceRegistrar
	fs       *fsservice.Service
	sessions *session.Server
	calls    *interceptors
	health   *health.Server
	gateway  *gateway.Gateway
	// rpcs has the RPCs with one request, by full name, for HTTP.
	rpcs  map[string]serveRPC
	conns connGroups
	ls    listeners
	// socket is the first of ls.
	socket  *socket
	auth    *authenticator
	streams *streamTable
	metrics *metrics
	sampler *sampler
	// sizes remembers what contexts take on disk.
	sizes     *sizes
	collector *collector
	tracing   *tracing
	// database is zero when the records are in this process.
	database database
	info     Info
	// serving is true from listening until the drain.
	serving atomic.Bool
	// keep is true when commands are left to the next server.
	keep atomic.Bool
	// connIDs is the number of the last connection.
	connIDs atomic.Uint64
	closing sync.Once
}

// New locks the workspace, opens its state and listens; Serve answers calls. The caller must call Serve or Close. An error may have
// ExitCode() int, as *AlreadyServedError and *ConfigError do.
func New(ctx context.Context, cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(nil); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	if deps.DrainTime == 0 {
		deps.DrainTime = drainTime
	}
	if deps.HandshakeTime == 0 {
		deps.HandshakeTime = handshakeTime
	}
	s := &Server{cfg: cfg, log: deps.Log, deps: deps, streams: newStreamTable(), health: health.NewServer(), metrics: newMetrics(deps.Version)}
	for _, step := range []func(context.Context) error{s.takeWorkspace, s.openParts, s.startTraces, s.listen, s.compose, s.settle, s.announce} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Info describes the server.
func (s *Server) Info() Info { return s.info }

// Serve answers calls until ctx ends or, with Config.ExitOnStdinClose, standard input does. Then it lets running calls end, ends commands,
// closes everything, and returns nil within 10 s. If the cause of ctx has a method KeepCommands() bool that returns true, commands of a
// runner continue. It returns an error when the unix socket fails, and when a call hangs so that not all could be
// closed: end the process then.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopStdin := s.watchStdin(cancel)
	defer stopStdin()
	failed := make(chan error, len(s.ls.grpc)+4)
	var running sync.WaitGroup
	s.goServe(&running, failed)
	s.serving.Store(true)
	s.database.recheck()
	running.Go(func() { s.lookAfter(ctx) })
	running.Go(func() { s.sampler.run(ctx) })
	running.Go(func() { s.settlePushes(ctx) })
	running.Go(func() {
		if err := s.parts.store.keep(ctx); err != nil {
			failed <- err
		}
	})
	running.Go(func() { s.collector.run(ctx) })
	err := s.ready()
	if err == nil {
		select {
		case <-ctx.Done():
			s.keep.Store(keepsCommands(context.Cause(ctx)))
		case err = <-failed:
		}
	}
	cancel()
	return errors.Join(err, s.end(&running))
}

// settlePushes asks remotes what became of pushes that an earlier server had begun.
func (s *Server) settlePushes(ctx context.Context) {
	if err := s.parts.repos.Settle(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("interrupted pushes could not be settled", zap.Error(err))
	}
}

// end drains and closes. It gives up on a call that hangs in the kernel, since a disk does not answer. Such a call cannot be cancelled;
// it ends with the process, and until then the workspace stays locked.
func (s *Server) end(running *sync.WaitGroup) error {
	ended := make(chan error, 1)
	go func() {
		s.drain()
		running.Wait()
		ended <- s.Close()
	}()
	timer := time.NewTimer(s.deps.DrainTime + stopTime - 200*time.Millisecond)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return errors.New("calls hang in the kernel and were left there: does the disk answer? what they did may have happened")
	}
}

// goServe answers on all listeners. The server ends if the unix socket fails, and goes on without any other that does.
func (s *Server) goServe(running *sync.WaitGroup, failed chan<- error) {
	answer := func(l net.Listener, serve func(net.Listener) error, ended error) {
		running.Go(func() {
			if err := serve(l); err != nil && !errors.Is(err, ended) {
				s.log.Error("an address is no longer served: restart the server", zap.Stringer("address", l.Addr()), zap.Error(err))
			}
		})
	}
	running.Go(func() {
		if err := s.grpc.Serve(s.ls.grpc[0]); err != nil && !errors.Is(err, grpc.ErrServerStopped) { // the unix socket
			failed <- err
		}
	})
	running.Go(func() {
		if err := s.gateway.ServeTaken(); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	})
	for _, l := range s.ls.grpc[1:] {
		answer(l, s.grpc.Serve, grpc.ErrServerStopped)
	}
	if s.ls.http != nil {
		answer(s.ls.http, s.gateway.Serve, http.ErrServerClosed)
	}
	if s.ls.pages != nil {
		answer(s.ls.pages, func(l net.Listener) error { return s.gateway.ServePages(l, s.ls.pagesTLS) }, http.ErrServerClosed)
	}
}

// ready reports that the server serves: in the ready file, then to systemd.
func (s *Server) ready() error {
	if s.cfg.ReadyFile != "" {
		if err := writeFileAtomic(s.cfg.ReadyFile, []byte(s.info.Addresses.Target()+"\n"), 0o644); err != nil {
			return &ConfigError{Key: "ready_file", Problem: err.Error()}
		}
	}
	s.notify("READY=1\nSTATUS=Serving " + s.info.Workspace)
	s.log.Info("serving", zap.String("workspace", s.info.Workspace), zap.Int("pid", s.info.PID), zap.String("version", s.info.Version),
		zap.Strings("addresses", s.info.Addresses.All()), zap.String("http", s.info.Addresses.HTTP))
	return nil
}

// drain stops accepting, ends streams, and waits for unary calls.
func (s *Server) drain() {
	s.serving.Store(false)
	s.notify("STOPPING=1")
	s.log.Info("stopping", zap.Int("pid", s.info.PID))
	s.health.Shutdown()
	s.streams.close()
	s.conns.unix.end()
	s.conns.tcp.end()
	go s.stopCommands()
	ctx, cancel := context.WithTimeout(context.Background(), s.deps.DrainTime)
	defer cancel()
	done := make(chan struct{})
	go func() {
		var both sync.WaitGroup
		both.Go(s.grpc.GracefulStop)
		both.Go(func() { s.gateway.Drain(ctx, errStopping) })
		both.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.log.Warn("calls did not end in time and are cut off", zap.Duration("waited", s.deps.DrainTime))
		s.grpc.Stop()
		<-done
	}
	s.gateway.Stop(stopTime, errStopping)
}

// stopCommands ends the commands, which calls may wait for, or leaves them to the next server. Closing the parts waits until that is done.
func (s *Server) stopCommands() {
	if err := s.parts.commands.Close(s.keep.Load()); err != nil {
		s.log.Warn("commands did not end as they should", zap.Error(err))
	}
}

// Close releases what New took. Serve calls it; call it only if you do not call Serve.
func (s *Server) Close() error {
	var errs []error
	s.closing.Do(func() {
		if s.grpc != nil {
			s.grpc.Stop()
		}
		s.ls.close()
		s.streams.close()
		s.streams.wait()
		if s.fs != nil {
			s.sessions.Wait()
			s.fs.Stop()
		}
		s.stopTraces()
		if s.parts != nil {
			errs = append(errs, s.parts.close())
		}
		if s.cfg.ReadyFile != "" {
			_ = os.Remove(s.cfg.ReadyFile)
		}
		if s.claim != nil {
			errs = append(errs, s.claim.release())
			s.log.Info("stopped", zap.Int("pid", s.info.PID))
		}
	})
	return errors.Join(errs...)
}

func (s *Server) stopTraces() {
	if s.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := s.tracing.stop(ctx); err != nil {
		s.log.Warn("traces were lost", zap.Error(err))
	}
}

// Info describes a running server, for people.
type Info struct {
	Version string
	PID     int
	// Workspace and ContextsDir are absolute paths.
	Workspace   string
	ContextsDir string
	// Repositories has the workspace's repositories, relative to it.
	Repositories []string
	// Plan is what a seeding would copy. It is nil, with PlanError set, when counting took longer than a start may.
	Plan      *contexts.Plan
	PlanError string
	// Metadata says where the records are: "sqlite", or the URL of a database without its password.
	Metadata string
	// Driver is a line such as "copy (overlay: no CAP_SYS_ADMIN)".
	Driver    string
	Addresses Addresses
	// Warnings has sentences about what an operator should repair, such as a full disk at the start.
	Warnings []string
}

// Addresses has the addresses of a server.
type Addresses struct {
	// Socket is the path of the unix socket.
	Socket string
	// TCP and HTTP are the actual addresses, with the ports that the system chose for :0.
	TCP  []string
	HTTP string
	// Gateway is the address of sites, and Sites their URLs, with * for the capability; "" means none.
	Gateway, Sites string
	// TLS says that TCP and HTTP speak it.
	TLS bool
	// TokenFile holds the host token.
	TokenFile string
}

// Target returns the address of the unix socket as grpcurl and grpc.NewClient take it.
func (a Addresses) Target() string { return "unix://" + a.Socket }

// All returns the gRPC addresses, the unix socket's first.
func (a Addresses) All() []string { return append([]string{a.Target()}, a.TCP...) }

// notify reports the server's state to systemd (sd_notify(3)); without systemd it does nothing.
func (s *Server) notify(state string) {
	if err := sdNotify(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		s.log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
	}
}

func sdNotify(socket, state string) error {
	if socket == "" {
		return nil
	}
	// A leading "@" is a name in the abstract namespace, whose first byte is NUL.
	if rest, ok := strings.CutPrefix(socket, "@"); ok {
		socket = "\x00" + rest
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	if closeErr := c.Close(); err == nil {
		err = closeErr
	}
	return err
}

// watchStdin calls stop when standard input ends. The returned function ends the watch, if reading the input can be interrupted. Reading
// a terminal or a plain file cannot: that watch ends with the process.
func (s *Server) watchStdin(stop context.CancelFunc) func() {
	if !s.cfg.ExitOnStdinClose || s.deps.Stdin == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.Copy(io.Discard, s.deps.Stdin)
		s.log.Info("standard input ended", zap.Error(err))
		stop()
	}()
	return func() {
		d, ok := s.deps.Stdin.(interface{ SetReadDeadline(t time.Time) error })
		if ok && d.SetReadDeadline(time.Now()) == nil {
			<-done
		}
	}
}

// ballastSize is how much a server allocates between two garbage collections at least, in bytes.
const ballastSize = 64 << 20

// Ballast makes garbage collections rarer until release. With a live heap of 5 MiB there would be hundreds in a second of heavy load,
// and each delays calls. The ballast is never touched, so the system provides no memory for it.
func Ballast() (release func()) {
	ballast := make([]byte, ballastSize)
	return func() { runtime.KeepAlive(ballast) }
}
