//go:build !linux

package runner

import (
	"context"
	"errors"
	"io"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

var errNotHere = errors.New("commands run on Linux only")

// Serve fails: commands run on Linux only.
func Serve(context.Context, io.Reader, *zap.Logger, func(grpc.ServiceRegistrar, *exec.Processes)) error {
	return errNotHere
}

// End has nothing to end.
func End(context.Context, string, *zap.Logger) (left []string, err error) { return nil, nil }

// Runners are never made.
type Runners struct{}

// Open fails: commands run on Linux only.
func Open(context.Context, Config) (*Runners, error) { return nil, errNotHere }

// Register registers nothing.
func (*Runners) Register(grpc.ServiceRegistrar) {}

// Run fails: commands run on Linux only.
func (*Runners) Run(context.Context, *ctxfsv1.Command, func(*ctxfsv1.RunResponse) error) error {
	return errNotHere
}

// Running returns nothing.
func (*Runners) Running(context.Context) (map[contexts.ID]int, error) { return nil, nil }

// ContextDeleted does nothing.
func (*Runners) ContextDeleted(contexts.ID) {}

// Close does nothing.
func (*Runners) Close(bool) error { return nil }
