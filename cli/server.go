package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Describe the server here, its contexts and panels; exit 1 if none serves", Args: usage(cobra.NoArgs),
		RunE: a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
			if err := c.Health(ctx); err != nil {
				return err
			}
			contexts, err := c.ListContexts(ctx)
			if err != nil {
				return err
			}
			panels, err := c.ListPanels(ctx)
			if err != nil {
				return err
			}
			open := 0
			for _, p := range panels {
				if p.GetOpen() {
					open++
				}
			}
			s := c.Server()
			if a.json {
				return a.printJSON(object{
					{"status", "serving"}, {"address", c.Address()}, {"pid", s.PID}, {"version", s.Version}, {"workspace", s.Workspace},
					{"addresses", append([]string{}, s.Addresses...)}, {"http", s.HTTP}, {"gateway", s.Gateway}, {"sites", s.Sites}, {"auditLog", s.AuditLog}, {"started", startJSON(s.Start)},
					{"contexts", len(contexts)}, {"panels", len(panels)}, {"openPanels", open},
				})
			}
			rows := [][]string{{"serving", c.Address()}}
			if s.Socket != "" { // else it was reached by an address, and may be anywhere
				rows = append(rows, []string{"workspace", show(s.Workspace)}, []string{"version", s.Version},
					[]string{"pid", fmt.Sprintf("%d, since %s", s.PID, s.Start.Local().Format("2006-01-02 15:04:05"))})
				if len(s.Addresses) > 1 {
					rows = append(rows, []string{"tcp", strings.Join(s.Addresses[1:], ", ")})
				}
				if s.HTTP != "" {
					rows = append(rows, []string{"http", s.HTTP})
				}
				if s.Gateway != "" {
					rows = append(rows, []string{"gateway", s.Gateway}, []string{"sites", s.Sites})
				}
			}
			return a.table(nil, append(rows, []string{"contexts", number(int64(len(contexts)))},
				[]string{"panels", fmt.Sprintf("%s, %s open", number(int64(len(panels))), number(int64(open)))}))
		}),
	}
}

func startJSON(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// stopTime is how long stop waits; a server ends within 10 s.
const stopTime = 15 * time.Second

func (a *app) stopCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use: "stop", Short: "Stop the server here, and wait until it has ended", Args: usage(cobra.NoArgs),
		Long: `Stops the server here, and waits until it has ended. Commands in contexts end with it; with --keep-commands they continue, and the next
server here has them, with all their output. The driver overlay-userns cannot keep them.`,
		RunE: a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
			s := c.Server()
			if s.Socket == "" {
				return fmt.Errorf("the server at %s was named by its address; stop works in its workspace, on its machine", c.Address())
			}
			if s.PID == 0 {
				return errors.New("the server here runs in a container, whose processes are not visible from here; stop it there")
			}
			// It answered at the socket that server.json names, so the PID is its own, and not one that was used again.
			p, err := os.FindProcess(s.PID)
			signal := syscall.SIGTERM
			if keep {
				signal = keepSignal
			}
			if err == nil {
				err = p.Signal(signal)
			}
			if err != nil {
				return fmt.Errorf("pid %d cannot be asked to stop: %w", s.PID, err)
			}
			ctx, cancel := context.WithTimeoutCause(ctx, stopTime, fmt.Errorf("pid %d did not stop within %s", s.PID, stopTime))
			defer cancel()
			if err := ended(ctx, p); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(object{{"pid", s.PID}, {"workspace", s.Workspace}})
			}
			return a.printf("stopped pid %d, which served %s\n", s.PID, show(s.Workspace))
		}),
	}
	cmd.Flags().BoolVar(&keep, "keep-commands", false, "leave commands in contexts running for the next server, as for an upgrade")
	return cmd
}

// ended waits for a process that is not ours to wait for.
func ended(ctx context.Context, p *os.Process) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for p.Signal(syscall.Signal(0)) == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}

func (a *app) pathCommand() *cobra.Command {
	return &cobra.Command{
		Use: "path NAME", Short: "Print the folder of a context or panel; a panel's is seeded if it is missing", Args: usage(cobra.ExactArgs(1)),
		Example: "  cd \"$(ctxfs path panels/editor)\"",
		RunE: a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
			id := args[0]
			if !isContextID(id) {
				var err error
				if id, err = a.ready(ctx, c, args[0]); err != nil {
					return err
				}
			}
			info, err := c.Info(ctx, id)
			if err != nil {
				return err
			}
			if strings.HasPrefix(info.GetDriver(), "overlay-userns") {
				if err := a.warn("only the server sees the files of this folder: its driver is overlay-userns"); err != nil {
					return err
				}
			}
			if a.json {
				return a.printJSON(object{{"contextId", id}, {"folder", info.GetFolder()}})
			}
			return a.printf("%s\n", info.GetFolder())
		}),
	}
}

func (a *app) auditCommand() *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use: "audit", Short: "Print the changes and their authors, from the server's audit log (serve --audit-log PATH)", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := client.Find(a.finding()...)
			if err != nil {
				return err
			}
			if s.AuditLog == "" {
				return errors.New("the server here keeps no audit log; start it with 'ctxfs serve --audit-log PATH'")
			}
			ctx, cancel := a.deadline(cmd.Context())
			defer cancel()
			return a.tail(ctx, s.AuditLog, lines, follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines as they come, until interrupted")
	cmd.Flags().IntVarP(&lines, "lines", "n", 0, "print only the last lines; 0 prints all")
	return cmd
}

// tail prints the last lines of the audit log, and with follow new ones, also those of a file that takes its place.
func (a *app) tail(ctx context.Context, path string, last int, follow bool) error {
	file, err := statedir.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	var lines []string
	r := bufio.NewReader(file)
	part := ""
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for atEnd, drained := false, false; ; {
		text, err := r.ReadString('\n')
		if part += text; err == nil {
			lines, part = append(lines, part), ""
			if last > 0 && len(lines) > last && !atEnd {
				lines = lines[1:]
			}
			if atEnd {
				lines, err = nil, a.printAudit(lines)
			}
			if err != nil {
				return err
			}
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if !atEnd {
			if err := a.printAudit(lines); err != nil || !follow {
				return err
			}
			lines, atEnd = nil, true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		next, err := statedir.OpenFile(path, os.O_RDONLY, 0)
		if err != nil {
			continue // it is just being rotated
		}
		if same := sameFile(file, next); same || !drained {
			_ = next.Close()
			drained = !same // the old file may have got more lines before it was rotated
			continue
		}
		_ = file.Close()
		file, part, drained = next, "", false
		r.Reset(file)
	}
}

func sameFile(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// auditLine is a line of the audit log (docs/reference/operations.md).
type auditLine struct {
	Time             time.Time `json:"ts"`
	Role, Panel      string
	Context, Op      string
	Path, Dest, Name string
	Result           string
	Bytes            int64
	Millis           float64 `json:"dur_ms"`
	Peer             string
	RequestID        string `json:"request_id"`
	FD               int32
}

func (a *app) printAudit(lines []string) error {
	for _, text := range lines {
		var l auditLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			continue // a crash or a full disk has cut it
		}
		if a.json {
			if err := a.printLine(object{
				{"time", startJSON(l.Time)}, {"role", l.Role}, {"panelId", l.Panel}, {"contextId", l.Context}, {"op", l.Op}, {"path", l.Path},
				{"dest", l.Dest}, {"name", l.Name}, {"fd", l.FD}, {"result", l.Result}, {"bytes", l.Bytes}, {"durationMs", l.Millis},
				{"peer", l.Peer}, {"requestId", l.RequestID},
			}); err != nil {
				return err
			}
			continue
		}
		author := l.Panel
		if author == "" {
			author = l.Role
		}
		words := []string{l.Time.Local().Format("2006-01-02 15:04:05"), fmt.Sprintf("%-6s", l.Result), fmt.Sprintf("%-20s", show(author)), l.Op}
		for _, word := range []string{l.Context, l.Name, l.Path, l.Dest} {
			if word != "" {
				words = append(words, show(word))
			}
		}
		if l.Bytes > 0 {
			words = append(words, size(l.Bytes))
		}
		if err := a.printf("%s\n", strings.Join(words, "  ")); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Say whether the server serves; exit 1 when not", Args: usage(cobra.NoArgs),
		RunE: a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
			start := time.Now()
			if err := c.Health(ctx); err != nil {
				return err
			}
			return a.healthy(c, time.Since(start))
		}),
	}
}

func (a *app) healthy(c *client.Client, took time.Duration) error {
	if a.json {
		return a.printJSON(object{{"status", "serving"}, {"address", c.Address()}, {"microseconds", took.Microseconds()}})
	}
	if took == 0 {
		return a.printf("serving at %s\n", c.Address())
	}
	return a.printf("serving at %s, answered in %s\n", c.Address(), took.Round(10*time.Microsecond))
}

// waitStep is how long wait sleeps between two tries.
const waitStep = 200 * time.Millisecond

func (a *app) waitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "wait", Short: "Wait until a server serves, at most --timeout (60s)", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.timeout <= 0 {
				a.timeout = time.Minute
			}
			ctx, cancel := a.deadline(cmd.Context())
			defer cancel()
			return a.wait(ctx)
		},
	}
}

func (a *app) wait(ctx context.Context) error {
	ticker := time.NewTicker(waitStep)
	defer ticker.Stop()
	for {
		err := a.tryHealth(ctx)
		if err == nil {
			return nil
		}
		var usage interface{ ExitCode() int }
		if errors.As(err, &usage) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no server within %s: %w", a.timeout, err)
		case <-ticker.C:
		}
	}
}

func (a *app) tryHealth(ctx context.Context) error {
	c, err := a.dial(ctx, "")
	if err != nil {
		return err
	}
	err = c.Health(ctx)
	if err == nil {
		err = a.healthy(c, 0)
	}
	return errors.Join(err, c.Close())
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(object{{"version", a.env.Version}, {"go", runtime.Version()}, {"platform", runtime.GOOS + "/" + runtime.GOARCH}})
			}
			return a.printf("ctxfs %s %s/%s %s\n", a.env.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
		},
	}
}
