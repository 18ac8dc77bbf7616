// Package fsservice serves FsService: the operations of Node's fs/promises over
// the folder of one context. It converts between the wire and rootfs, keeps
// Node's semantics (flags, encodings, what is created with which mode) and opens
// nothing by itself: every path goes through rootfs, every call through the
// context's gate.
//
// A handler is three lines: which system call's name its errors carry, whether it
// changes something, and what it does with the Root. See request.go.
package fsservice

import (
	"context"
	"sync/atomic"

	"go.uber.org/zap"
	"google.golang.org/grpc/mem"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/fsservice/search"
	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Umask is taken from the modes of everything that is created, as a process with
// the usual umask would: files get 0644 and directories 0755 unless told otherwise.
const Umask = 0o022

// MaxReply bounds a unary reply, in bytes: stock gRPC clients stop at 4 MiB.
const MaxReply = 3584 << 10

// Config of New.
type Config struct {
	// Gate opens contexts. Required.
	Gate contexts.Gate
	// Handles is the table of open files; its owner closes it. Required.
	Handles *handles.Table
	// Admit is asked again who calls before a panel's first access makes its context, since
	// the call may have waited while that was deleted and its token revoked; nil admits all.
	Admit func(ctx context.Context) error
	// Sessions is what Session and Hold need.
	Sessions SessionConfig
	// Buffers is where content on its way is kept; nil means a pool of its own.
	Buffers mem.BufferPool
	// Log is for what no caller is told; nil means none.
	Log *zap.Logger
}

// Service implements ctxfsv1.FsServiceServer. The caller's identity is read from
// the call's context (panels.IdentityFrom).
type Service struct {
	ctxfsv1.UnimplementedFsServiceServer
	gate     contexts.Gate
	admit    func(ctx context.Context) error
	handles  *handles.Table
	buffers  mem.BufferPool
	sessions SessionConfig
	log      *zap.Logger
	locks    fileLocks
	watchdog watchdog
	// watchBudgets bounds the queues of watches.
	watchBudgets watchBudgets
	// open counts the sessions.
	open atomic.Int64
	// overflows counts the overflows that watches have reported.
	overflows atomic.Int64
	search    *search.Searcher
}

var _ ctxfsv1.FsServiceServer = (*Service)(nil)

// New returns a Service. The gRPC server that it is registered with must use internal/codec,
// by grpc.ForceServerCodecV2: the streams' content travels beside its messages.
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
	return &Service{
		gate: cfg.Gate, admit: cfg.Admit, handles: cfg.Handles, buffers: cfg.Buffers, sessions: cfg.Sessions.withDefaults(), log: cfg.Log,
		search: search.New(cfg.Buffers, cfg.Log),
	}
}

// Stop ends the goroutines that calls leave behind for a moment, and waits for them. All calls must have ended.
func (s *Service) Stop() {
	s.watchdog.running.Wait()
	s.search.Close()
}
