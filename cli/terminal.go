package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// detachKey leaves a command's terminal: Ctrl-], as in telnet.
const detachKey = 0x1d

// defaultShell is what 'ctxfs shell' runs.
var defaultShell = []string{"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"}

func (a *app) shellCommand() *cobra.Command {
	cmd := a.execCommand()
	cmd.Use, cmd.Short, cmd.Args = "shell CONTEXT [-- COMMAND [ARG...]]", "Open a shell in a context, isolated from the rest of the machine", usage(cobra.MinimumNArgs(1))
	cmd.Long = "Runs bash, or sh where there is none, or COMMAND, in a terminal in a context, as 'ctxfs exec -it' does. CONTEXT is an ID or a panel.\n" +
		"Ctrl-] leaves the shell running; 'ctxfs attach' returns to it. It ends with the connection otherwise, unless --keep is given."
	cmd.Example = "  ctxfs shell panels/editor\n  ctxfs shell panels/editor --name review -- vim notes.md"
	for _, name := range []string{"detach", "interactive", "tty"} {
		cmd.Flags().Lookup(name).Hidden = true
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmd.Flags().Set("tty", "true"); err != nil {
			return err
		}
		if len(args) == 1 {
			args = append(args, defaultShell...)
		}
		return run(cmd, args)
	}
	return cmd
}

func (a *app) attachCommand() *cobra.Command {
	var interactive, all bool
	cmd := &cobra.Command{
		Use: "attach PROCESS", Short: "Connect to a command that runs", Args: usage(cobra.ExactArgs(1)),
		Long: "Shows what a command writes from now on, and exits with its code, or with 125 if ctxfs failed. PROCESS is an ID or a name of 'ctxfs ps'. A command in a terminal gets the\n" +
			"keys; Ctrl-] leaves it running. The output from before is in 'ctxfs logs'; full-screen programs redraw. The command waits\n" +
			"for what reads the output.\n\n" +
			"The exit code is 125, too, if the command succeeded and output is missing. With --all that is what ctxfs had dropped before: it keeps the first 4 MiB\n" +
			"and the last 12 MiB of each stream. Standard error names each gap and its size.",
		Example: "  ctxfs attach dev",
	}
	cmd.Flags().BoolVarP(&interactive, "interactive", "i", false, "send standard input to a command that has no terminal")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "show first what the command has written before")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		p, err := a.processNamed(ctx, c, args[0])
		var misuse *usageError
		if err != nil && !errors.As(err, &misuse) {
			err = &execFailure{err}
		}
		if err != nil {
			return err
		}
		open := &ctxfsv1.AttachOpen{ProcessId: p.GetProcessId(), StdoutOffset: p.GetStdoutBytes(), StderrOffset: p.GetStderrBytes()}
		if all {
			open.StdoutOffset, open.StderrOffset = 0, 0
		}
		return a.connect(ctx, c, open, interactive || p.GetPty() != nil)
	})
	return cmd
}

// processNamed returns the process of an ID or a name. A process that runs has priority over those that have ended.
func (a *app) processNamed(ctx context.Context, c *client.Client, id string) (*ctxfsv1.Process, error) {
	if strings.HasPrefix(id, "p-") {
		return c.GetProcess(ctx, id)
	}
	all, err := c.Processes(ctx, "", false)
	if err != nil {
		return nil, err
	}
	var running, ended []*ctxfsv1.Process
	for _, p := range all {
		switch {
		case p.GetName() != id:
		case p.GetExit() == nil:
			running = append(running, p)
		default:
			ended = append(ended, p)
		}
	}
	switch {
	case len(running) > 1:
		ids := make([]string, len(running))
		for i, p := range running {
			ids[i] = p.GetProcessId() + " in " + show(p.GetContextId())
		}
		return nil, usagef("%d commands are named %s: %s; give an ID", len(running), show(id), strings.Join(ids, ", "))
	case len(running) == 1:
		return running[0], nil
	case len(ended) > 0:
		return ended[0], nil // the newest
	}
	return nil, usagef("there is no command %s; 'ctxfs ps -a' lists those that are known", show(id))
}

// inTerminal starts a command in a terminal, and connects this program's own to it.
func (a *app) inTerminal(ctx context.Context, c *client.Client, spec *ctxfsv1.Command) error {
	p, err := c.StartCommand(ctx, spec)
	if err != nil {
		return &execFailure{err}
	}
	return a.connect(ctx, c, &ctxfsv1.AttachOpen{ProcessId: p.GetProcessId()}, true)
}

// ptyHere describes this program's terminal.
func (a *app) ptyHere() (*ctxfsv1.Pty, error) {
	t := a.terminal()
	if t == nil {
		return nil, usagef("--tty needs a terminal, and standard input is none; leave --tty out, or add --detach")
	}
	pty := &ctxfsv1.Pty{Term: a.env.Getenv("TERM")}
	if cols, rows, err := t.size(); err == nil {
		pty.Cols, pty.Rows = uint32(cols), uint32(rows)
	}
	return pty, nil
}

// connect connects this program to a process until the process ends or the user detaches.
func (a *app) connect(ctx context.Context, c *client.Client, open *ctxfsv1.AttachOpen, input bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at, err := c.Attach(ctx, open)
	if err != nil {
		return &execFailure{err}
	}
	last, dropped, err := a.converse(at, input)
	switch {
	case err != nil && ctx.Err() != nil:
		return err // of the signal that ended this program, which has its own code
	case err != nil:
		return &execFailure{err}
	case last == nil:
		return a.warn("left " + open.GetProcessId() + " running; 'ctxfs attach " + open.GetProcessId() + "' returns to it")
	}
	return wholeExit(last, 0, dropped)
}

// converse passes input and output on. It returns the process that has ended, and how much of its output was dropped; nil after the user
// detached. The terminal is as before when it returns.
func (a *app) converse(at *client.Attachment, input bool) (last *ctxfsv1.Process, dropped int64, err error) {
	t := a.terminal()
	if t != nil && input && at.Process().GetPty() != nil {
		if err := t.raw(); err != nil {
			return nil, 0, err
		}
		defer func() { err = errors.Join(err, t.restore()) }()
		defer t.follow(at)()
		t.tell(at)
	}
	if input {
		// A read of standard input cannot be interrupted: it ends with the program.
		go a.forward(at, t != nil)
	}
	for {
		m, err := at.Recv()
		if errors.Is(err, io.EOF) {
			return last, dropped, nil
		}
		if err != nil {
			return nil, 0, err
		}
		if m.GetExited() != nil {
			last = m.GetExited()
		}
		dropped += m.GetOutput().GetDropped()
		if err := a.writeOutput(m.GetOutput()); err != nil {
			return nil, 0, err
		}
	}
}

// forward sends standard input to a process, and detaches at detachKey if that is a key of a terminal. An error shows in Recv too.
func (a *app) forward(at *client.Attachment, keys bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := a.env.Stdin.Read(buf)
		before, _, detach := bytes.Cut(buf[:n], []byte{detachKey})
		if !keys {
			before, detach = buf[:n], false
		}
		if len(before) > 0 {
			if _, err := at.Write(before); err != nil {
				return
			}
		}
		switch {
		case detach:
			_ = at.Detach()
			return
		case err != nil:
			_ = at.CloseInput()
			return
		}
	}
}

// terminal is the terminal in which this program runs.
type terminal struct {
	in, out *os.File

	mu sync.Mutex
	// was is its mode before raw; nil when it has that mode.
	was *term.State
}

// terminal returns the terminal of standard input; nil if that is none.
func (a *app) terminal() *terminal {
	in, ok := a.env.Stdin.(*os.File)
	if !ok || !isTerminal(in) {
		return nil
	}
	return &terminal{in: in, out: in}
}

func (t *terminal) size() (cols, rows int, err error) { return term.GetSize(int(t.out.Fd())) }

// raw passes all keys on to the command.
func (t *terminal) raw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.was != nil {
		return nil
	}
	was, err := term.MakeRaw(int(t.in.Fd()))
	if err == nil {
		t.was = was
	}
	return err
}

// restore gives the terminal the mode that it had.
func (t *terminal) restore() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.was == nil {
		return nil
	}
	err := term.Restore(int(t.in.Fd()), t.was)
	t.was = nil
	return err
}

// tell gives the command's terminal the size of this one. Its end, or a bad size, shows elsewhere.
func (t *terminal) tell(at *client.Attachment) {
	if cols, rows, err := t.size(); err == nil && cols > 0 && rows > 0 {
		_ = at.Resize(cols, rows)
	}
}
