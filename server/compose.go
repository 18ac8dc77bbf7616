package server

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/gateway"
	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server/services"
	"github.com/ctxfs/ctxfs/session"
	"github.com/ctxfs/ctxfs/sites"
)

// planTime bounds how long a start counts what a seeding would copy.
const planTime = 5 * time.Second

// bufferSize of a connection's reads and writes, in bytes: measured 15% faster than gRPC's own.
const bufferSize = 128 << 10

// handshakeTime is the usual Deps.HandshakeTime.
const handshakeTime = 10 * time.Second

// compose builds the gRPC server and the HTTP servers from the parts.
func (s *Server) compose(context.Context) error {
	host, metrics, err := s.loadTokens()
	if err != nil {
		return err
	}
	p := s.parts
	s.auth = &authenticator{panels: p.panels, sites: p.sites, host: host, metrics: metrics, consoles: s.newConsoles(), bound: newBindings(p.panels.Bind)}
	s.calls = newInterceptors(s.log, s.auth, s.metrics, s.streams)
	s.calls.audit, s.calls.limits, s.calls.maxRequest = p.audit, newPanelLimits(s.cfg, s.metrics), int(s.cfg.MaxRequest)
	s.calls.changes, s.calls.handleOf = &fsservice.Recorder{Feeds: p.feeds, Gate: p.contexts, Log: s.log}, p.handles.SpecOf
	buffers := codec.NewPool()
	s.calls.codec = codec.New(buffers)
	calls := session.NewCalls(s.calls.codec)
	s.sessions = session.New(session.Config{
		Leases: p.leases, Refresh: s.auth.refresh, Around: s.calls.operation, Shares: s.calls.sessionShares, Calls: calls,
		Batches: func(ctx context.Context) (context.Context, session.Batches) { return fsservice.WithLookups(ctx) },
	})
	s.fs = fsservice.New(fsservice.Config{
		Gate: p.contexts, Handles: p.handles, Leases: p.leases, Sessions: s.sessions, Log: s.log, Admit: s.auth.admit, Buffers: buffers, Feeds: p.feeds,
	})
	s.observeParts()
	s.sampler, s.sizes, s.collector = newSampler(s), newSizes(p.contexts), &collector{s, lookTime}
	gw := gateway.Config{
		Calls: httpCalls{s}, Files: s.fs, Sessions: s.sessions, Log: s.log, Keepalive: s.cfg.Keepalive, Origins: s.cfg.Origins, TLS: s.ls.tls != nil,
		Version: s.deps.Version,
	}
	gw.Sites, gw.PagesAt = p.sites, s.ls.pagesAt
	if at, _, err := net.SplitHostPort(s.info.Addresses.Gateway); err == nil {
		gw.Compress = !gateway.IsLoopback(at)
	}
	if s.cfg.Metrics {
		gw.Metrics = promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})
	}
	if gw.Console, err = s.consolePage(); err != nil {
		return err
	}
	s.gateway = gateway.New(gw)
	s.grpc = grpc.NewServer(s.options(buffers)...)
	s.rpcs = map[string]serveRPC{}
	registry := registrar{s.grpc, s.calls, calls, s.rpcs}
	s.registry = registry
	ctxfsv1.RegisterFsServiceServer(registry, s.fs)
	ctxfsv1.RegisterContextServiceServer(registry, &services.Contexts{
		Contexts: p.contexts, Collector: s.collector, ContextOf: p.panels.ContextOf, Into: p.contexts.SeededInto, Unapplied: p.reviews.Unapplied,
		UnappliedAnywhere: p.reviews.UnappliedAnywhere,
		Version:           s.deps.Version, Driver: s.info.Driver, Metadata: s.info.Metadata,
	})
	ctxfsv1.RegisterPanelServiceServer(registry, &services.Panels{
		Panels: p.panels, Handles: p.handles, Changed: s.auth.bound.forget,
	})
	ctxfsv1.RegisterTemplateServiceServer(registry, &services.Templates{Templates: p.contexts.Templates()})
	ctxfsv1.RegisterReviewServiceServer(registry, &services.ZonedReviews{
		Reviews: &services.Reviews{Reviews: p.reviews, Contexts: p.contexts, Forks: &services.Forks{Contexts: p.contexts}, Run: p.commands.Run},
		Into:    p.contexts.SeededInto,
	})
	p.commands.Register(registry)
	ctxfsv1.RegisterGitServiceServer(registry, &services.Git{Repos: p.repos, Contexts: p.contexts, Into: s.seededZone})
	ctxfsv1.RegisterZoneServiceServer(registry, &services.Zones{Contexts: s.parts.contexts, Private: func(driver string) bool { return driver == DriverUserNS }})
	ctxfsv1.RegisterGatewayServiceServer(registry, &services.Gateway{Sites: p.sites, Files: s.fs, Snapshots: p.contexts, URL: s.siteURL()})
	ctxfsv1.RegisterConsoleServiceServer(registry, s.consoleService())
	grpc_health_v1.RegisterHealthServer(registry, s.health)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	channelz.RegisterChannelzServiceToServer(registry)
	return registerReflection(registry)
}

func (s *Server) options(buffers *codec.Pool) []grpc.ServerOption {
	creds := newConnCreds(s.ls.tls, s.cfg.HostAuth == HostAuthPeer, &s.connIDs, func(conn uint64) { s.closeOwner(hostOwner(conn)) }, s.gateway.Take)
	opts := []grpc.ServerOption{
		grpc.Creds(creds), grpc.StreamInterceptor(s.calls.stream),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(gateway.MaxHeaderBytes), grpc.ConnectionTimeout(s.deps.HandshakeTime), grpc.InTapHandle(s.auth.tap),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.ForceServerCodecV2(s.calls.codec), experimental.BufferPool(buffers),
		grpc.ReadBufferSize(bufferSize), grpc.WriteBufferSize(bufferSize), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: s.cfg.Keepalive, Timeout: s.cfg.Keepalive / 3}),
		// Clients ping every 30 s. Those that ping more often than every 10 s are cut off.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
	if s.tracing != nil {
		opts = append(opts, s.tracing.option())
	}
	return opts
}

// panelClosed ends everything of a panel that was closed, or whose tokens were revoked.
func (s *Server) panelClosed(panel string, why error) {
	s.auth.bound.forget(panel)
	s.parts.sites.PanelClosed(panel)
	s.calls.limits.forget(panel)
	s.streams.endPanel(panel, why)
	s.closeOwner(panel)
}

// siteEnded ends what visitors of a site have under way.
func (s *Server) siteEnded(site sites.Site) {
	s.streams.endToken(site.Hash, errNoSite)
	s.calls.limits.forget(site.ID)
}

// siteRenewed lets what visitors of a site have under way last as long as the site.
func (s *Server) siteRenewed(site sites.Site) { s.streams.extendToken(site.Hash, site.ExpiresAt) }

// siteStays logs that a site may be open again after a restart.
func (s *Server) siteStays(site sites.Site, err error) {
	s.log.Error("the record of a closed site could not be removed: close the site again after a restart", zap.String("site", site.ID), zap.Error(err))
}

// closeOwner closes the handles of a panel, or of a host's connection, and drops its client instances.
func (s *Server) closeOwner(owner string) {
	s.parts.leases.Drop(owner)
	s.parts.handles.CloseOwner(owner)
}

// observeParts registers the metrics whose values are read at a scrape.
func (s *Server) observeParts() {
	p, dir := s.parts, s.claim.layout.Dir
	s.metrics.gauge("ctxfs_handles_open", "Open handles.", func() (float64, bool) { return float64(p.handles.Count()), true })
	s.metrics.gauge("ctxfs_memory_held_bytes", "What requests and replies of panels hold of the memory budget.", func() (float64, bool) {
		return float64(s.calls.limits.memory.Held()), true
	})
	s.metrics.gauge("ctxfs_memory_limit_bytes", "What they may hold.", func() (float64, bool) {
		return float64(s.calls.limits.memory.Limit()), true
	})
	s.metrics.gauge("ctxfs_sessions", "Sessions that are open.", func() (float64, bool) { return float64(s.sessions.Count()), true })
	s.metrics.counter("ctxfs_watch_overflows_total", "Watches that reported that events were lost.", func() (float64, bool) {
		return float64(s.fs.WatchOverflows()), true
	})
	s.metrics.counter("ctxfs_handles_reaped_total", "Handles that were closed for being idle.", func() (float64, bool) {
		return float64(p.handles.Reaped()), true
	})
	s.metrics.gauge("ctxfs_contexts", "Contexts that exist.", func() (float64, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), planTime)
		defer cancel()
		list, err := p.store.Contexts().List(ctx)
		return float64(len(list)), err == nil
	})
	s.metrics.gauge("ctxfs_disk_free_bytes", "What may still be written to the contexts' disk.", func() (float64, bool) {
		free, _, err := disk(dir)
		return float64(free), err == nil
	})
}

// announce completes the server's Info, and writes server.json.
func (s *Server) announce(ctx context.Context) error {
	l := s.claim.layout
	s.info.Version, s.info.PID, s.info.Workspace, s.info.ContextsDir = s.deps.Version, os.Getpid(), l.Workspace, l.Dir
	s.plan(ctx)
	a := s.info.Addresses
	auditLog := s.cfg.AuditLog
	if auditLog != "" {
		if abs, err := filepath.Abs(auditLog); err == nil {
			auditLog = abs
		}
	}
	err := s.claim.announce(Record{
		PID: s.info.PID, Version: s.info.Version, Workspace: l.Workspace, Socket: a.Socket, Addresses: a.All(),
		HTTP: a.HTTP, Gateway: a.Gateway, Sites: a.Sites, TLS: a.TLS, TokenFile: a.TokenFile, AuditLog: auditLog, Start: time.Now().UTC().Truncate(time.Second),
	})
	if isFull(err) {
		s.warn("server.json has no room on the full disk: until it has, clients need --address " + a.Target())
		return nil
	}
	return err
}

func (s *Server) plan(ctx context.Context) {
	planCtx, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	plan, err := s.parts.contexts.PlanSeed(planCtx, contexts.PlanOptions{})
	switch {
	case planCtx.Err() != nil:
		s.info.PlanError = "counting the workspace takes longer than " + planTime.String()
	case err != nil:
		s.info.PlanError = err.Error()
		s.log.Warn("cannot tell what a seeding would copy", zap.Error(err))
	default:
		s.info.Plan = &plan
		for _, r := range plan.Repositories {
			s.info.Repositories = append(s.info.Repositories, r.Path)
		}
	}
}

// touch changes a time of one of the server's own directories, which needs no space. It fails on a file system that has failed and
// takes no more writes (ext4's emergency_ro, errors=remount-ro), which access(2) and statfs(2) do not report.
func touch(dir string) error { return os.Chtimes(dir, time.Now(), time.Time{}) }

// lookEvery is how often a server checks that clients can find it.
const lookEvery = 2 * time.Second

// lookAfter restores what clients need to find the server, and logs that the workspace has moved away, until ctx ends.
func (s *Server) lookAfter(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		problem := s.look(ctx)
		if problem != "" && problem != last {
			s.log.Error(problem, zap.String("dir", s.claim.layout.Dir))
		}
		last = problem
	}
}

// look is one check of lookAfter. It returns a problem that it could not repair; "" when there is none.
func (s *Server) look(ctx context.Context) (problem string) {
	if err := s.parts.contexts.Moved(); err != nil {
		return err.Error() // another server may use what is there now
	}
	for _, c := range []struct {
		what    string
		restore func() (bool, error)
	}{
		{"the socket", func() (bool, error) { return s.socket.restore(ctx) }},
		{"server.json", s.claim.restore},
	} {
		restored, err := c.restore()
		switch {
		case err != nil:
			problem = c.what + " was removed and could not be made again: " + err.Error()
		case restored:
			s.log.Warn(c.what + " was removed, and was made again")
		}
	}
	return problem
}

// notReady returns why the server should get no new work; "" when it should.
func (s *Server) notReady() string {
	if !s.serving.Load() {
		return "not serving"
	}
	free, writable, err := disk(s.claim.layout.Dir)
	switch {
	case s.parts.contexts.Moved() != nil:
		return "the contexts directory was moved or removed: stop the server, and serve the workspace where it is now"
	case err != nil:
		return "the disk's state cannot be told"
	case !writable:
		return "the contexts directory is read-only"
	case touch(s.claim.layout.State) != nil:
		return "the contexts directory cannot be written: its file system is read-only or failing"
	case contexts.IsFull(s.claim.layout.Dir):
		return "the disk is full: free some space, or delete contexts"
	case free < int64(s.cfg.DiskReserve):
		return "free disk space is below the reserve"
	case s.database.away() != nil:
		return "the database with the records does not answer: open panels are served, new ones wait for it"
	}
	return ""
}

// seededZone returns the zone that a context was seeded into, "" for none.
func (s *Server) seededZone(ctx context.Context, id contexts.ID) (string, error) {
	spec, err := s.parts.contexts.Spec(ctx, id)
	return spec.Zones.Into(), err
}
