package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
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
	var ephemeral bool
	cmd := withSettings(&cobra.Command{
		Use:   "run [--ephemeral] -- CMD…",
		Short: "Serve, run a command as a panel, stop; its exit code is the command's",
		Long: `Serve the workspace, open a panel (--panel, else "run"), run CMD with CTXFS_ADDRESS, CTXFS_TOKEN and CTXFS_CONTEXT
in its environment, and stop the server. With --ephemeral the contexts are made in a temporary directory, and removed afterwards.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{errors.New("run needs a command: ctxfs run --ephemeral -- CMD…")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, args, ephemeral) },
	})
	cmd.Flags().BoolVar(&ephemeral, "ephemeral", false, "make contexts in a temporary directory, and remove it afterwards")
	return cmd
}

func (e Env) run(cmd *cobra.Command, args []string, ephemeral bool) (err error) {
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
	if ephemeral {
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
		return e.runChild(ctx, cmd, args, info)
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

// serveWhile serves for as long as do runs.
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
	s, err := server.New(ctx, cfg, server.Deps{Log: log, Version: e.Version})
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

func (e Env) runChild(ctx context.Context, cmd *cobra.Command, args []string, info server.Info) error {
	panel := "run"
	if f := cmd.Flags().Lookup("panel"); f != nil && f.Value.String() != "" {
		panel = f.Value.String()
	}
	opened, err := openPanel(ctx, info, panel)
	if err != nil {
		return err
	}
	forward, stop := forwardSignals(isTerminalReader(e.Stdin))
	defer stop()
	if err := cmd.Context().Err(); err != nil {
		return fmt.Errorf("run: %s was not started, since a signal asked to stop: %w", args[0], err)
	}
	child := exec.CommandContext(ctx, args[0], args[1:]...)
	child.Stdin, child.Stdout, child.Stderr = e.Stdin, e.Stdout, e.Stderr
	child.Env = append(clean(e.Environ), "CTXFS_ADDRESS="+info.Addresses.Target(), "CTXFS_TOKEN="+opened.GetToken(), "CTXFS_CONTEXT="+opened.GetContextId())
	if err := child.Start(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	forward(child.Process)
	err = child.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &exitError{exitCode(exit.ProcessState)}
	}
	return err
}

// clean drops what would lead the child's clients elsewhere.
func clean(environ []string) []string {
	var out []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "CTXFS_ADDRESS", "CTXFS_TOKEN", "CTXFS_CONTEXT", "CTXFS_PANEL":
		default:
			out = append(out, v)
		}
	}
	return out
}

// openPanel opens the child's panel over the server's own socket, as any host does.
func openPanel(ctx context.Context, info server.Info, panel string) (*ctxfsv1.OpenPanelResponse, error) {
	cc, err := grpc.NewClient(info.Addresses.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(hostToken(info.Addresses.TokenFile)))
	if err != nil {
		return nil, err
	}
	r, err := ctxfsv1.NewPanelServiceClient(cc).OpenPanel(ctx, &ctxfsv1.OpenPanelRequest{PanelId: panel}, grpc.WaitForReady(true))
	if known, ok := fserrpb.FromStatus(err); ok {
		err = known
	}
	return r, errors.Join(err, cc.Close())
}
