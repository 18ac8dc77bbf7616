package server

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/exec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/runner"
	"github.com/ctxfs/ctxfs/server/services"
)

// commands are the commands in contexts, which runners or the server itself runs.
type commands interface {
	// Register registers ExecService.
	Register(registry grpc.ServiceRegistrar)
	// Run runs a command for the server itself, and calls send with what ExecService.Run reports.
	Run(ctx context.Context, cmd *ctxfsv1.Command, send func(*ctxfsv1.RunResponse) error) error
	// Running returns how many commands run in each context.
	Running(ctx context.Context) (map[contexts.ID]int, error)
	// ContextDeleted forgets the processes of a context that is gone.
	ContextDeleted(id contexts.ID)
	// Close ends the commands, or leaves them to the next server if they can outlive this one. Further calls have no effect.
	Close(keep bool) error
}

// ownCommands are those that the server runs itself.
type ownCommands struct{ *exec.Processes }

// Register implements commands.
func (c ownCommands) Register(registry grpc.ServiceRegistrar) {
	ctxfsv1.RegisterExecServiceServer(registry, &services.Exec{Processes: c.Processes})
}

// Run implements commands.
func (c ownCommands) Run(ctx context.Context, cmd *ctxfsv1.Command, send func(*ctxfsv1.RunResponse) error) error {
	return (&services.Exec{Processes: c.Processes}).RunCommand(ctx, cmd, send)
}

// Running implements commands.
func (c ownCommands) Running(context.Context) (map[contexts.ID]int, error) {
	n := map[contexts.ID]int{}
	for _, p := range c.List("") {
		if p.Ended() == nil {
			n[p.Command().Context]++
		}
	}
	return n, nil
}

// Close implements commands: a command does not outlive the server that runs it.
func (c ownCommands) Close(bool) error { return c.Processes.Close() }

// openCommands finds the commands of an earlier server. In namespaces of its own a server runs commands itself: a mount of its namespace that
// a runner kept would keep the next server from mounting the context.
func (s *Server) openCommands(ctx context.Context, driver string, owner *rootfs.Owner) (commands, error) {
	dir := filepath.Join(s.claim.layout.State, "exec")
	points := checkpoints{s.parts.contexts, s.parts.reviews}
	profiles, err := commandProfiles(s.cfg.ExecProfiles, s.claim.layout)
	if err != nil {
		return nil, err
	}
	engine := exec.Config{
		Gate: s.parts.contexts, Checkpoints: points, User: commandUser(owner), Cgroups: s.cfg.ExecCgroup, Profiles: profiles, Log: s.log,
		PanelMaxima: exec.Limits{Wall: s.cfg.ExecMaxTime, Processes: s.cfg.ExecMaxProcesses},
	}
	if s.deps.Runner != nil && driver != DriverUserNS && runtime.GOOS == "linux" {
		return runner.Open(ctx, runner.Config{
			Dir: dir, Program: s.deps.Runner, Version: s.deps.Version, Gate: s.parts.contexts, Checkpoints: points, Engine: engine, Log: s.log,
		})
	}
	left, err := runner.End(ctx, dir, s.log)
	if err != nil {
		return nil, err
	}
	engine.Dir, engine.Unfinished = filepath.Join(dir, runner.OwnDir), exec.ServerStopped
	own, err := exec.Open(ctx, engine)
	if err != nil {
		return nil, err
	}
	for _, dir := range left {
		if err := own.Adopt(ctx, dir); err != nil {
			return nil, errors.Join(err, own.Close())
		}
	}
	return ownCommands{own}, nil
}

// keepsCommands reports whether the cause of a stop asks to leave commands running.
func keepsCommands(cause error) bool {
	var k interface{ KeepCommands() bool }
	return errors.As(cause, &k) && k.KeepCommands()
}

// commandUser converts the owner of files in contexts to the user that runs commands.
func commandUser(owner *rootfs.Owner) *exec.User {
	if owner == nil {
		return nil
	}
	return &exec.User{UID: owner.UID, GID: owner.GID}
}

// commandProfiles reads exec_profiles. Commands see no folder in, or around, the workspace, the contexts and the state.
func commandProfiles(file string, l contexts.Layout) (*exec.Profiles, error) {
	profiles, err := exec.LoadProfiles(file, l.Workspace, l.Dir, l.State)
	if err != nil {
		return nil, &ConfigError{Key: "exec_profiles", Problem: err.Error()}
	}
	return profiles, nil
}

// ExecRefusal runs a command as a server with these settings would, and returns why commands cannot run here; nil when they can.
func ExecRefusal(ctx context.Context, cfg Config, workspace string) error {
	owner, err := commandOwner(cfg.ExecUser, workspace)
	if err != nil {
		return err
	}
	return exec.Check(ctx, commandUser(owner))
}
