// Package server is the composition root: it reads the settings, picks the
// concrete stores and drivers, takes the workspace, listens, says who is who, and
// shuts down in order. Nothing else of ctxfs knows all of its parts.
//
// Life: LoadConfig, New (takes the lock, sweeps, listens), Serve (blocks). A
// second server on the same workspace is an *AlreadyServedError.
package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/gateway"
	"github.com/ctxfs/ctxfs/session"
)

// Deps are what a server gets from its process.
type Deps struct {
	// Log may be nil.
	Log *zap.Logger
	// Stdin is watched for its end with Config.ExitOnStdinClose.
	Stdin io.Reader
	// Version is written into the state and answered by GetInfo.
	Version string
	// OpenRoot is contexts.Config.OpenRoot; nil but in tests.
	OpenRoot func(dir string, opts rootfs.Options) (rootfs.Root, error)
}

// drainTime and stopTime bound the stop: calls that run have drainTime to end,
// the whole stop takes no longer than both.
const (
	drainTime = 8 * time.Second
	stopTime  = 2 * time.Second
	// hangTime is when a stop is given up.
	hangTime = drainTime + stopTime - 200*time.Millisecond
)

// Server serves one workspace. It is made by New and used once.
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
	conns    connGroups
	ls       listeners
	// socket is the first of ls.
	socket  *socket
	auth    *authenticator
	streams *streamTable
	metrics *metrics
	tracing *tracing
	info    Info
	// serving is true from listening until the drain.
	serving atomic.Bool
	// connIDs counts the connections, which its values name.
	connIDs atomic.Uint64
	closing sync.Once
}

// New takes the workspace, opens its state and listens; calls are answered from
// Serve on. Whoever called New must call Serve or Close. An error may have
// ExitCode() int, as *AlreadyServedError and *ConfigError do.
func New(ctx context.Context, cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(nil); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	s := &Server{cfg: cfg, log: deps.Log, deps: deps, streams: newStreamTable(), health: health.NewServer(), metrics: newMetrics(deps.Version)}
	for _, step := range []func(context.Context) error{s.takeWorkspace, s.openParts, s.startTraces, s.listen, s.compose, s.announce} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Info describes the server.
func (s *Server) Info() Info { return s.info }

// Serve answers calls until ctx ends or, with Config.ExitOnStdinClose, standard
// input does; then it lets running calls end, closes everything, and returns nil
// within 10 s. It returns an error when a listener fails, and when something hung so that not all could be closed: end the
// process then.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopStdin := s.watchStdin(cancel)
	defer stopStdin()
	failed := make(chan error, len(s.ls.grpc)+2)
	var running sync.WaitGroup
	s.goServe(&running, failed)
	s.serving.Store(true)
	running.Go(func() { s.lookAfter(ctx) })
	err := s.ready()
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		}
	}
	cancel()
	return errors.Join(err, s.end(&running))
}

// end drains and closes, and gives up on what does not end: a call that hangs in the kernel, since a disk does not answer,
// cannot be called off. It ends with the process, and so does what it holds: until then nobody else gets the workspace.
func (s *Server) end(running *sync.WaitGroup) error {
	ended := make(chan error, 1)
	go func() {
		s.drain()
		running.Wait()
		ended <- s.Close()
	}()
	timer := time.NewTimer(hangTime)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return errors.New("calls hang in the kernel and were left there: does the disk answer? what they did may have happened")
	}
}

func (s *Server) goServe(running *sync.WaitGroup, failed chan<- error) {
	serve := func(serve func() error, ended error) {
		running.Go(func() {
			if err := serve(); err != nil && !errors.Is(err, ended) {
				failed <- err
			}
		})
	}
	for _, l := range s.ls.grpc {
		serve(func() error { return s.grpc.Serve(l) }, grpc.ErrServerStopped)
	}
	serve(s.gateway.ServeTaken, http.ErrServerClosed)
	if s.ls.http != nil {
		serve(func() error { return s.gateway.Serve(s.ls.http) }, http.ErrServerClosed)
	}
}

// ready tells whoever waits: the ready file, then systemd.
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

// drain stops accepting, ends streams, and lets unary calls end.
func (s *Server) drain() {
	s.serving.Store(false)
	s.notify("STOPPING=1")
	s.log.Info("stopping", zap.Int("pid", s.info.PID))
	s.health.Shutdown()
	s.streams.close()
	s.conns.unix.end()
	s.conns.tcp.end()
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.log.Warn("calls did not end in time and are cut off", zap.Duration("waited", drainTime))
		s.grpc.Stop()
		<-done
	}
	s.gateway.Stop(stopTime, errStopping)
}

// Close gives back what New took. Serve calls it; call it yourself when Serve is not.
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
