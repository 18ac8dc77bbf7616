package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Exit codes of 'ctxfs exec' besides the command's own, as those of env(1) and timeout(1).
const (
	exitTimeLimit = 124
	exitExec      = 125
)

// reasonOutputMissing is the code of a missingOutput in JSON.
const reasonOutputMissing = "OUTPUT_MISSING"

// missingOutput is how many bytes of output this program did not get. Whoever reads its own output must not take it for all.
type missingOutput int64

func (m missingOutput) Error() string { return size(int64(m)) + " of the output are missing" }

// ExitCode is 125.
func (missingOutput) ExitCode() int { return exitExec }

func (a *app) execCommands() []*cobra.Command {
	return []*cobra.Command{
		a.execCommand(), a.shellCommand(), a.attachCommand(), a.psCommand(), a.logsCommand(), a.killCommand(), a.explainExecCommand(), a.execProfilesCommand(),
	}
}

// execFailure is a failure of ctxfs itself, as opposed to one of the command.
type execFailure struct{ err error }

func (e *execFailure) Error() string { return e.err.Error() }
func (e *execFailure) Unwrap() error { return e.err }

// ExitCode is 125.
func (e *execFailure) ExitCode() int { return exitExec }

// commandExit is the exit code of a command. It prints nothing if text is "".
type commandExit struct {
	code int
	text string
}

func (e *commandExit) Error() string { return e.text }
func (e *commandExit) ExitCode() int { return e.code }

func (a *app) execCommand() *cobra.Command {
	var detach, interactive, tty, keep bool
	var env, labels []string
	var limit time.Duration
	spec := &ctxfsv1.Command{Limits: &ctxfsv1.ExecLimits{}}
	cmd := &cobra.Command{
		Use: "exec CONTEXT -- COMMAND [ARG...]", Short: "Run a command in a context, isolated from the rest of the machine", Args: usage(cobra.MinimumNArgs(2)),
		Long: "Runs a command in a context. CONTEXT is an ID or a panel. The command sees the context's folder, the system's programs, a /tmp and a home of its own,\n" +
			"and nothing else: no other file, no process, no network unless --profile or --network gives one. It never runs as root.\n\n" +
			"The command waits for what reads its output, and gets SIGPIPE when that ends, unless --keep is given.\n\n" +
			"The exit code is the command's; 124: it exceeded --time-limit; 125: ctxfs failed, or could not keep all output; 126: the program cannot be\n" +
			"executed; 127: it was not found; 128 and a number: that signal ended it. With --tty, all output is one stream.",
		Example: "  ctxfs exec panels/editor -- npm test\n  ctxfs exec panels/editor --profile packages -- npm ci\n" +
			"  ctxfs exec panels/editor --detach --name dev --sandbox dev -- npm run dev\n  ctxfs exec -it panels/editor -- vim notes.md",
	}
	f := cmd.Flags()
	f.BoolVarP(&detach, "detach", "d", false, "print the process's ID and leave it running")
	f.BoolVarP(&interactive, "interactive", "i", false, "send standard input to the command")
	f.BoolVarP(&tty, "tty", "t", false, "give the command a terminal, and connect this one to it; Ctrl-] leaves the command running")
	f.BoolVar(&keep, "keep", false, "leave the command running when ctxfs exec ends or loses the connection; 'ctxfs attach' returns to it")
	f.StringVar(&spec.Name, "name", "", "name the command, for 'ctxfs attach', 'logs' and 'kill'")
	f.StringArrayVar(&labels, "label", nil, "keep KEY=VALUE with the command, for 'ctxfs ps --json'; repeatable")
	f.StringArrayVarP(&env, "env", "e", nil, "set a variable, as NAME=VALUE; repeatable")
	f.StringVarP(&spec.Cwd, "cwd", "w", "", "working directory, from the context's root")
	placeFlags(f, spec)
	checkpointFlag(f, spec)
	limitFlags(f, spec.GetLimits())
	f.DurationVar(&limit, "time-limit", 0, "kill the command after this long (default 10m, none with --detach)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if spec.Env, err = pairs("env", "NAME=VALUE", env); err != nil {
			return err
		}
		if spec.Labels, err = pairs("label", "KEY=VALUE", labels); err != nil {
			return err
		}
		if spec.OnDisconnect = ctxfsv1.OnDisconnect_ON_DISCONNECT_KILL; keep || detach {
			spec.OnDisconnect = ctxfsv1.OnDisconnect_ON_DISCONNECT_KEEP
		}
		switch {
		case tty && detach:
			spec.Pty = &ctxfsv1.Pty{Term: a.env.Getenv("TERM")}
		case tty:
			if spec.Pty, err = a.ptyHere(); err != nil {
				return err
			}
		}
		if limit < 0 {
			return usagef("--time-limit must not be negative")
		}
		spec.Limits.WallMs, spec.OpenStdin = limit.Milliseconds(), interactive
		return a.withContext(func(ctx context.Context, c *client.Client, args []string) error {
			spec.ContextId, spec.Argv = args[0], args[1:]
			switch {
			case detach:
				return a.detached(ctx, c, spec)
			case tty:
				return a.inTerminal(ctx, c, spec)
			}
			return a.attached(ctx, c, spec, limit)
		})(cmd, args)
	}
	return cmd
}

// pairs reads the values of a repeatable flag.
func pairs(flag, form string, list []string) (map[string]string, error) {
	set := map[string]string{}
	for _, v := range list {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, usagef("--%s %s is not %s", flag, show(v), form)
		}
		set[name] = value
	}
	return set, nil
}

func (a *app) detached(ctx context.Context, c *client.Client, spec *ctxfsv1.Command) error {
	p, err := c.StartCommand(ctx, spec)
	if err != nil {
		return &execFailure{err}
	}
	if a.json {
		return a.printProto(p)
	}
	return a.printf("%s\n", p.GetProcessId())
}

func (a *app) attached(ctx context.Context, c *client.Client, spec *ctxfsv1.Command, limit time.Duration) error {
	var last *ctxfsv1.Process
	var dropped int64
	err := c.RunCommand(ctx, spec, func(m *ctxfsv1.RunResponse) error {
		if p := m.GetStarted(); p != nil && spec.GetOpenStdin() {
			// A read of standard input cannot be interrupted: it ends with the program.
			go a.sendInput(ctx, c, p.GetProcessId())
		}
		if m.GetExited() != nil {
			last = m.GetExited()
		}
		dropped += m.GetOutput().GetDropped()
		return a.writeOutput(m.GetOutput())
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return err // of the signal that ended this command, which has its own code
	case err != nil:
		return &execFailure{err}
	case last == nil:
		return &execFailure{errors.New("the server ended the call without the command's exit")}
	}
	if err := errors.Join(a.printRefusals(last), a.printUnkept(last), a.printRecorded(last)); err != nil {
		return err
	}
	return wholeExit(last, limit, dropped)
}

// sendInput sends standard input to a process until one of them ends.
func (a *app) sendInput(ctx context.Context, c *client.Client, id string) {
	buf := make([]byte, 32<<10)
	for {
		n, err := a.env.Stdin.Read(buf)
		if n > 0 && c.SendInput(ctx, id, buf[:n]) != nil {
			return // the process has ended, and its exit is on the way
		}
		if err != nil {
			_ = c.SendInput(ctx, id, nil) // it fails with the connection, and then the call that waits for the exit fails too
			return
		}
	}
}

// writeOutput copies output to this program's own streams.
func (a *app) writeOutput(o *ctxfsv1.Output) error {
	if o == nil {
		return nil
	}
	to := a.env.Stdout
	if o.GetStream() == ctxfsv1.OutputStream_OUTPUT_STREAM_STDERR {
		to = a.env.Stderr
	}
	if n := o.GetDropped(); n > 0 {
		if _, err := fmt.Fprintf(a.env.Stderr, "ctxfs: %s of output were dropped here\n", size(n)); err != nil {
			return err
		}
	}
	_, err := to.Write(o.GetData())
	return err
}

// printUnkept says why the server dropped output, if its disk did not take it, or why the quota was exceeded if the context does not show that.
func (a *app) printUnkept(p *ctxfsv1.Process) error {
	e := p.GetExit()
	if e.GetDetail() == "" || e.GetReason() == ctxfsv1.ExitReason_EXIT_REASON_SANDBOX_FAILED {
		return nil
	}
	return a.warn(e.GetDetail())
}

// wholeExit is exitOf, but fails if the command succeeded and bytes of its output were dropped.
func wholeExit(p *ctxfsv1.Process, limit time.Duration, dropped int64) error {
	if err := exitOf(p, limit); err != nil || dropped == 0 {
		return err
	}
	return missingOutput(dropped)
}

// exitOf is the exit of this program for a process that has ended.
func exitOf(p *ctxfsv1.Process, limit time.Duration) error {
	e := p.GetExit()
	switch e.GetReason() {
	case ctxfsv1.ExitReason_EXIT_REASON_EXITED:
		if e.GetCode() == 0 {
			return nil
		}
		return &commandExit{code: int(e.GetCode())}
	case ctxfsv1.ExitReason_EXIT_REASON_TIMEOUT:
		text := "the command exceeded its time limit"
		if limit == 0 {
			text += " of 10m; set another with --time-limit, or use --detach"
		}
		return &commandExit{exitTimeLimit, text}
	case ctxfsv1.ExitReason_EXIT_REASON_KILLED:
		return &commandExit{128 + 9, "the command was killed"}
	}
	return &execFailure{errors.New(reasonWords(e))}
}

// reasonWords says why a command was ended.
func reasonWords(e *ctxfsv1.Exit) string {
	switch e.GetReason() {
	case ctxfsv1.ExitReason_EXIT_REASON_CONTEXT_CLOSED:
		return "the context was restored or deleted"
	case ctxfsv1.ExitReason_EXIT_REASON_SERVER_STOPPED:
		return "the server stopped"
	case ctxfsv1.ExitReason_EXIT_REASON_CPU:
		return "the command exceeded its CPU time"
	case ctxfsv1.ExitReason_EXIT_REASON_MEMORY:
		return "the command needed more memory than --memory allows"
	case ctxfsv1.ExitReason_EXIT_REASON_QUOTA:
		return "the context exceeded its quota; remove files that are not needed"
	case ctxfsv1.ExitReason_EXIT_REASON_OUTPUT:
		return "the command wrote more than --output allows"
	case ctxfsv1.ExitReason_EXIT_REASON_SANDBOX_FAILED:
		return "the sandbox failed: " + e.GetDetail()
	}
	return "the command ended for an unknown reason"
}

func (a *app) psCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "ps [CONTEXT]", Short: "List the commands that run in contexts", Args: usage(cobra.MaximumNArgs(1)),
		Long: "Lists the commands that run in a context, or in all. CONTEXT is an ID or a panel. -a adds those that have ended: ctxfs keeps the last 100 of\na context for an hour, and 256 MiB of their output.",
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list those that have ended too")
	list := func(ctx context.Context, c *client.Client, args []string) error {
		processes, err := c.Processes(ctx, strings.Join(args, ""), !all)
		if err != nil {
			return err
		}
		if a.json {
			return printProtos(a, processes)
		}
		rows := make([][]string, len(processes))
		for i, p := range processes {
			rows[i] = processRow(p)
		}
		return a.table([]string{"ID", "NAME", "CONTEXT", "STATE", "EXIT", "TIME", "COMMAND"}, rows)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return a.withHost(list)(cmd, args)
		}
		return a.withContext(list)(cmd, args)
	}
	return cmd
}

func processRow(p *ctxfsv1.Process) []string {
	state, code, end := "running", "-", time.Now()
	if e := p.GetExit(); e != nil {
		end = time.Unix(0, e.GetEndedNs())
		state = strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(e.GetReason().String(), "EXIT_REASON_"), "_", " "))
		if e.GetReason() == ctxfsv1.ExitReason_EXIT_REASON_EXITED {
			code = strconv.Itoa(int(e.GetCode()))
		}
	}
	took := end.Sub(time.Unix(0, p.GetStartedNs())).Round(100 * time.Millisecond)
	return []string{p.GetProcessId(), cmp.Or(p.GetName(), "-"), p.GetContextId(), state, code, took.String(), show(commandLine(p))}
}

// commandLine is a command with its arguments, whose bytes need not be UTF-8.
func commandLine(p *ctxfsv1.Process) string {
	if raw := p.GetRawArgv(); len(raw) > 0 {
		return string(bytes.Join(raw, []byte(" ")))
	}
	return strings.Join(p.GetArgv(), " ")
}

func (a *app) logsCommand() *cobra.Command {
	req := &ctxfsv1.FollowOutputRequest{}
	cmd := &cobra.Command{
		Use: "logs PROCESS", Short: "Print the output of a command", Args: usage(cobra.ExactArgs(1)),
		Long: "Prints what a command wrote, its standard output to standard output and its standard error to standard error. PROCESS is an ID or a name of 'ctxfs ps'.\n" +
			"The command does not wait for it, as it does for 'ctxfs attach': the first 4 MiB and the last 12 MiB of each stream are kept.\n\n" +
			"The exit code is 125 if output is missing: standard error names each gap and its size. With --follow it is the command's, or 125 if the command\n" +
			"succeeded and output is missing.",
	}
	cmd.Flags().BoolVarP(&req.Follow, "follow", "f", false, "continue until the command ends, and exit with its code")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		p, err := a.processNamed(ctx, c, args[0])
		if err != nil {
			return err
		}
		req.ProcessId = p.GetProcessId()
		var last *ctxfsv1.Process
		var dropped int64
		err = c.FollowOutput(ctx, req, func(m *ctxfsv1.FollowOutputResponse) error {
			if m.GetExited() != nil {
				last = m.GetExited()
			}
			dropped += m.GetOutput().GetDropped()
			return a.writeOutput(m.GetOutput())
		})
		switch err = errors.Join(err, a.printUnkept(last)); {
		case err != nil:
			return err
		case req.GetFollow():
			return wholeExit(last, time.Hour, dropped)
		case dropped > 0:
			return missingOutput(dropped)
		}
		return nil
	})
	return cmd
}

func (a *app) killCommand() *cobra.Command {
	var signal int
	cmd := &cobra.Command{
		Use: "kill PROCESS...", Short: "End commands and everything that they started", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Sends SIGTERM to a command, and after 5 s SIGKILL to it and to everything that it started. PROCESS is an ID or a name of 'ctxfs ps'.",
	}
	cmd.Flags().IntVarP(&signal, "signal", "s", 0, "send this signal instead, by its Linux number, to the command's process group")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		var errs []error
		for _, id := range args {
			p, err := a.processNamed(ctx, c, id)
			switch {
			case err != nil:
			case signal != 0:
				err = c.SignalProcess(ctx, p.GetProcessId(), signal)
			default:
				_, err = c.KillProcess(ctx, p.GetProcessId())
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	return cmd
}
