package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// exitError ends the program with a child's exit code, and says nothing.
type exitError struct{ code int }

func (e *exitError) Error() string { return "" }

// ExitCode is the child's.
func (e *exitError) ExitCode() int { return e.code }

func (e Env) runCommand() *cobra.Command {
	var o runOptions
	cmd := withSettings(&cobra.Command{
		Use:   "run [--ephemeral] [--in-context] -- CMD…",
		Short: "Run a command as a panel; the exit code is the command's",
		Long: `Opens a panel (--panel, else "run") and runs CMD with CTXFS_ADDRESS, CTXFS_TOKEN, CTXFS_CONTEXT and CTXFS_FOLDER, the
context's folder, in its environment. Everything after the first word of CMD belongs to it. If a server serves the workspace, that one is
used, with its own settings; otherwise the workspace is served until CMD ends.
With --ephemeral the contexts are made in a temporary directory, which is removed afterwards.

The exit code is CMD's; 128 and the number of the signal that ended it; 127 if there is no such command, 126 if it cannot be run.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{errors.New("run needs a command: ctxfs run --ephemeral -- CMD…")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, args, o) },
	})
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&o.ephemeral, "ephemeral", false, "make contexts in a temporary directory, and remove it afterwards")
	cmd.Flags().BoolVar(&o.inContext, "in-context", false, "start CMD in the context's folder")
	return cmd
}

// runOptions are the flags of run.
type runOptions struct{ ephemeral, inContext bool }

func (e Env) run(cmd *cobra.Command, args []string, o runOptions) (err error) {
	cfg, _, err := e.load(cmd)
	if err != nil {
		return err
	}
	log, err := server.NewLogger(cfg, e.Stderr)
	if err != nil {
		return err
	}
	if again, err := e.again(cmd.Context(), cfg, log); again || err != nil {
		return err
	}
	if o.ephemeral {
		dir, err := os.MkdirTemp("", "ctxfs-run-")
		if err != nil {
			return err
		}
		defer func() {
			if rmErr := removeAll(dir); rmErr != nil {
				_, _ = fmt.Fprintf(e.Stderr, "ctxfs: %s was not removed: %v\n", dir, rmErr)
			}
		}()
		cfg.ContextsDir = dir
	}
	// The interrupt is the child's to answer: the server lives as long as the child.
	return e.serveWhile(context.WithoutCancel(cmd.Context()), cfg, func(ctx context.Context, info server.Info) error {
		return e.runChild(ctx, cmd, args, info, o.inContext)
	})
}

// removeAll removes a contexts directory; an overlay's work directory has mode 000, which only rootfs opens.
func removeAll(dir string) error {
	root, err := rootfs.Open(filepath.Dir(dir), rootfs.Options{FollowMounts: true})
	if err != nil {
		return err
	}
	_, err = root.RemoveAll(context.Background(), filepath.Base(dir))
	return errors.Join(err, root.Close())
}

// serveWhile serves for as long as do runs, unless another server does.
func (e Env) serveWhile(ctx context.Context, cfg server.Config, do func(context.Context, server.Info) error) error {
	defer takeBrokenPipes()()
	// Standard input is the child's.
	cfg.ExitOnStdinClose = false
	if cfg.LogLevel == "info" {
		cfg.LogLevel = "warn"
	}
	log, err := server.NewLogger(cfg, e.Stderr)
	if err != nil {
		return err
	}
	s, err := server.New(ctx, cfg, server.Deps{Log: log, Version: e.Version, Runner: e.runner()})
	var other *server.AlreadyServedError
	if errors.As(err, &other) && other.Address != "" && other.Workspace == "" {
		return attach(ctx, cfg, other, do)
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	err = do(ctx, s.Info())
	stop()
	return errors.Join(err, <-served)
}

// attach calls do with the server that serves the workspace already.
func attach(ctx context.Context, cfg server.Config, other *server.AlreadyServedError, do func(context.Context, server.Info) error) error {
	l, err := contexts.NewLayout(cfg.Workspace, cfg.ContextsDir)
	if err != nil {
		return err
	}
	return do(ctx, server.Info{PID: other.PID, Addresses: server.Addresses{Socket: strings.TrimPrefix(other.Address, "unix://"), TokenFile: l.HostToken}})
}

func (e Env) runChild(ctx context.Context, cmd *cobra.Command, args []string, info server.Info, inContext bool) error {
	panel := "run"
	if f := cmd.Flags().Lookup("panel"); f != nil && f.Value.String() != "" {
		panel = f.Value.String()
	}
	opened, about, err := openPanel(ctx, info, panel)
	if err != nil {
		return err
	}
	if inContext && info.PID != os.Getpid() && strings.HasPrefix(about.GetDriver(), server.DriverUserNS) {
		return fmt.Errorf("run: --in-context cannot work beside the running server (pid %d): only that sees the files of its driver, %s", info.PID, server.DriverUserNS)
	}
	forward, stop := forwardSignals(isTerminalReader(e.Stdin))
	defer stop()
	if err := cmd.Context().Err(); err != nil {
		return fmt.Errorf("run: %s was not started, since a signal asked to stop: %w", args[0], err)
	}
	child := exec.CommandContext(ctx, args[0], args[1:]...)
	child.Stdin, child.Stdout, child.Stderr = e.Stdin, e.Stdout, e.Stderr
	child.Env = append(clean(e.Environ), "CTXFS_ADDRESS="+info.Addresses.Target(), "CTXFS_TOKEN="+opened.GetToken(), "CTXFS_CONTEXT="+opened.GetContextId(),
		"CTXFS_FOLDER="+about.GetFolder())
	if inContext {
		child.Dir = about.GetFolder()
		child.Env = append(child.Env, "PWD="+child.Dir)
	}
	if err := child.Start(); err != nil {
		return &startError{args[0], err}
	}
	forward(child.Process)
	err = child.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &exitError{exitCode(exit.ProcessState)}
	}
	return err
}

// startError is a command that was not started.
type startError struct {
	name string
	err  error
}

func (e *startError) Error() string {
	if e.ExitCode() == 127 {
		return "run: " + e.name + ": command not found"
	}
	return "run: " + e.name + " cannot be run: " + fserr.CodeOf(e.err).Text()
}

func (e *startError) Unwrap() error { return e.err }

// ExitCode is a shell's: 127 if there is no such command, else 126.
func (e *startError) ExitCode() int {
	if errors.Is(e.err, exec.ErrNotFound) || errors.Is(e.err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

// clean drops what would lead the child's clients elsewhere, and what has the password of the server's database.
func clean(environ []string) []string {
	var out []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "CTXFS_ADDRESS", "CTXFS_TOKEN", "CTXFS_CONTEXT", "CTXFS_PANEL", "CTXFS_FOLDER", "CTXFS_METADATA", "PGPASSWORD", "PGPASSFILE":
		default:
			out = append(out, v)
		}
	}
	return out
}

// openPanel opens the child's panel over the server's own socket, as any host does, and asks about its context.
func openPanel(ctx context.Context, info server.Info, panel string) (opened *ctxfsv1.OpenPanelResponse, about *ctxfsv1.GetInfoResponse, err error) {
	cc, err := grpc.NewClient(info.Addresses.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(hostToken(info.Addresses.TokenFile)))
	if err != nil {
		return nil, nil, err
	}
	opened, err = ctxfsv1.NewPanelServiceClient(cc).OpenPanel(ctx, &ctxfsv1.OpenPanelRequest{PanelId: panel}, grpc.WaitForReady(true))
	if err == nil {
		about, err = ctxfsv1.NewContextServiceClient(cc).GetInfo(ctx, &ctxfsv1.GetInfoRequest{ContextId: opened.GetContextId()})
	}
	if known, ok := fserrpb.FromStatus(err); ok {
		err = known
	}
	return opened, about, errors.Join(err, cc.Close())
}
