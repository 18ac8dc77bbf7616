// Package fsservice serves FsService: the operations of Node's fs/promises over the folder of one context. It converts between the
// wire and rootfs, and keeps Node's semantics: flags, encodings, and the modes of what is created. It opens nothing on its own:
// every path goes through rootfs, and every call through the gate of its context.
//
// A handler is three lines: the name of the system call for its errors, whether it changes something, and what it does with the
// Root (call.go).
package fsservice

import (
	"context"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/fsservice/search"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// umask is removed from the modes of everything that is created: files get 0644 and directories 0755 by default.
const umask = 0o022

// maxReply bounds a unary reply, in bytes: stock gRPC clients stop at 4 MiB.
const maxReply = 3584 << 10

// Sessions serves the RPCs that are not about files.
type Sessions interface {
	Session(stream grpc.BidiStreamingServer[ctxfsv1.SessionRequest, ctxfsv1.SessionResponse]) error
	Hold(req *ctxfsv1.HoldRequest, stream grpc.ServerStreamingServer[ctxfsv1.HoldResponse]) error
}

// Gate opens contexts (contexts.Manager).
type Gate interface {
	// Acquire opens the gate of a context that is ready. It fails with ESTALE and fserr.KindContext if the context is
	// missing, and with EAGAIN if it is being seeded.
	Acquire(ctx context.Context, id contexts.ID, use contexts.Use) (*contexts.Access, error)
	// AcquireSnapshot opens a snapshot for reading that was taken at a time, ns since the epoch. It fails with ENOENT if there is none.
	AcquireSnapshot(ctx context.Context, id contexts.ID, name string, taken int64) (*contexts.Access, error)
	// Ensure makes a context ready. It fails with EAGAIN if ctx ends first. progress may be nil.
	Ensure(ctx context.Context, id contexts.ID, opts contexts.EnsureOptions, progress func(contexts.Progress)) (contexts.Ensured, error)
	// Batch carries out steps as one change. A context that is missing is ESTALE.
	Batch(ctx context.Context, id contexts.ID, opts contexts.BatchOptions) (contexts.Batched, error)
}

// Config of New.
type Config struct {
	// Gate opens contexts. Required.
	Gate Gate
	// Handles is the table of open files; its owner closes it. Required.
	Handles *handles.Table
	// Leases are those of client instances, which own handles. Required.
	Leases *panels.Leases
	// Sessions is required.
	Sessions Sessions
	// Admit authorizes the caller again before a panel's first access makes its context: while the call waited, the context may
	// have been deleted and the token revoked. nil admits all.
	Admit func(ctx context.Context) error
	// Buffers hold content on its way; nil means a pool of its own.
	Buffers mem.BufferPool
	// Feeds are the feeds of changes; nil means that WatchChanges is EOPNOTSUPP.
	Feeds Feeds
	// Log receives what no caller learns; nil means none.
	Log *zap.Logger
}

// Service implements ctxfsv1.FsServiceServer. The caller's identity is read from the call's context (panels.IdentityFrom). Its parts
// have the RPCs, each with the state that it needs.
type Service struct {
	paths
	openFiles
	streams
	watches
	feeds
	searches
	archives
	Sessions
	unimplemented
}

// unimplemented is behind the parts: their methods are promoted before its own.
type unimplemented struct {
	ctxfsv1.UnimplementedFsServiceServer
}

var _ ctxfsv1.FsServiceServer = (*Service)(nil)

// New returns a Service. The gRPC server that it is registered with must use internal/codec (grpc.ForceServerCodecV2), since the
// content of streams travels beside their messages.
func New(cfg Config) *Service {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Admit == nil {
		cfg.Admit = func(context.Context) error { return nil }
	}
	if cfg.Buffers == nil {
		cfg.Buffers = codec.NewPool()
	}
	o := &opener{gate: cfg.Gate, admit: cfg.Admit, handles: cfg.Handles}
	return &Service{
		paths: paths{opener: o}, openFiles: openFiles{o, cfg.Leases}, streams: streams{o, cfg.Buffers}, watches: watches{opener: o}, feeds: feeds{o, cfg.Feeds},
		searches: searches{o, search.New(cfg.Buffers, cfg.Log)}, archives: archives{o, cfg.Buffers, cfg.Log}, Sessions: cfg.Sessions,
	}
}

// Stop ends the goroutines that calls leave behind for a moment, and waits for them. All calls must have ended.
func (s *Service) Stop() { s.search.Close() }
