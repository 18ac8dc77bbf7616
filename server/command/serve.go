package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/console"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/server"
)

func (e Env) serveCommand() *cobra.Command {
	var detach bool
	cmd := withSettings(&cobra.Command{
		Use: "serve", Short: "Serve the workspace here (or --workspace) until interrupted", Args: noArgs,
		Long: `Serve a workspace until interrupted: contexts are folders in .contexts, filled with its repositories on first access.

Settings come from flags, the environment (CTXFS_LISTEN for --listen, and so on) and the file of --config, in this
order; 'ctxfs config' shows them with their origins. Exit codes: 64 a setting that cannot be, 69 the database with the
records does not answer, 73 the contexts directory cannot be written, 75 the workspace is served already, 78 its state was written by a newer version.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := e.load(cmd)
			if err != nil {
				return err
			}
			if detach {
				return e.detach(cmd.Context(), cfg, wantsJSON(cmd))
			}
			defer takeBrokenPipes()()
			server.LimitMemory()
			defer server.Ballast()()
			log, err := server.NewLogger(cfg, e.logOf(cfg))
			if err != nil {
				return err
			}
			if again, err := e.again(cmd.Context(), cfg, log); again || err != nil {
				return err
			}
			s, err := server.New(cmd.Context(), cfg, server.Deps{Log: log, Stdin: e.Stdin, Version: e.Version, Runner: e.runner(), Console: console.Files()})
			if err != nil {
				return err
			}
			if err := e.banner(s.Info(), cfg, wantsJSON(cmd)); err != nil {
				log.Warn("the banner could not be written", zap.Error(err))
			}
			return s.Serve(cmd.Context())
		},
	})
	cmd.Flags().BoolVar(&detach, "detach", false, "serve in the background, with messages in .contexts/.ctxfs/server.log; 'ctxfs stop' ends it")
	return cmd
}

// detach starts the server in a session of its own, passes on what it prints when it starts, and leaves it.
func (e Env) detach(ctx context.Context, cfg server.Config, asJSON bool) error {
	if cfg.ExitOnStdinClose {
		return &usageError{errors.New("leave out one of --detach and --exit-on-stdin-close")}
	}
	program, err := os.Executable()
	if err != nil || e.Args == nil {
		return fmt.Errorf("serve: this program cannot run itself again: %w", err)
	}
	args := slices.DeleteFunc(slices.Clone(e.Args), func(a string) bool { return strings.HasPrefix(a, "--detach") })
	child := exec.CommandContext(context.WithoutCancel(ctx), program, args...)
	child.Env, child.SysProcAttr = e.Environ, ownSession()
	child.Stderr = e.Stderr
	log, begun, err := openLog(cfg, e.Version)
	if err != nil {
		return err
	}
	if log != nil {
		defer func() { _ = log.Close() }()
		child.Stderr = log
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })()
	for in := bufio.NewScanner(out); in.Scan(); {
		if _, err := fmt.Fprintln(e.Stdout, in.Text()); err != nil {
			return err
		}
		if !asJSON && strings.HasPrefix(in.Text(), "try ") {
			_, err := fmt.Fprintf(e.Stdout, "pid      %d, in the background; 'ctxfs stop' ends it; log: %s\n", child.Process.Pid, log.Name())
			return errors.Join(err, child.Process.Release())
		}
		if asJSON {
			return child.Process.Release()
		}
	}
	_ = child.Wait() // its exit code is passed on
	if log != nil {
		if err := copyErrors(e.Stderr, log, begun); err != nil {
			return err
		}
	}
	return &exitError{exitCode(child.ProcessState)}
}

// logName is the log of a detached server, in the state directory.
const logName = "server.log"

// logOf returns where a server writes its log: standard error. If that is the file of a detached server, its size is bounded.
func (e Env) logOf(cfg server.Config) io.Writer {
	file, isFile := e.Stderr.(*os.File)
	l, err := cfg.Layout()
	if !isFile || err != nil {
		return e.Stderr
	}
	own, err := os.Stat(filepath.Join(l.State, logName))
	if st, failed := file.Stat(); err != nil || failed != nil || !os.SameFile(st, own) {
		return e.Stderr
	}
	return bounded(file)
}

// openLog opens the log of a detached server at its end. It returns nil if the state directory cannot be made: the
// server fails alike, and knows the exit code.
func openLog(cfg server.Config, version string) (log *os.File, end int64, err error) {
	l, err := cfg.Layout()
	if err == nil {
		err = l.Make(version)
	}
	if err != nil {
		return nil, 0, nil //nolint:nilerr // see above
	}
	log, err = statedir.OpenFile(filepath.Join(l.State, logName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		const remedy = "for a log elsewhere, leave out --detach and redirect standard error: ctxfs serve 2>>FILE &"
		return nil, 0, fmt.Errorf("%w; %s", err, remedy)
	}
	end, err = log.Seek(0, io.SeekEnd)
	return log, end, err
}

// copyErrors copies the program's own messages from the log, which are not JSON.
func copyErrors(w io.Writer, log *os.File, begun int64) error {
	in := bufio.NewScanner(io.NewSectionReader(log, begun, 1<<20))
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "{\"level") || strings.HasPrefix(in.Text(), "{\"ts") {
			continue
		}
		if _, err := fmt.Fprintln(w, in.Text()); err != nil {
			return err
		}
	}
	return in.Err()
}
