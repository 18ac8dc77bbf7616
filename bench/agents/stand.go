package agents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/client"
)

// panelID is the panel whose files are measured.
const panelID = "panels/agents"

// stand is a server with a panel, and an MCP client of ctxfs and one of the reference server, which serves the folder of the panel's context.
type stand struct {
	files           int
	dir, folder     string
	server          *peers.Ctxfs
	panel           *client.Panel
	fs              *client.FS
	ctxfs, referred *agent
	// feed and watch have the names of the files in told that are written; they close when that ends. written counts the files.
	feed, watch chan string
	written     int
	watcher     *client.Watcher
	// stop ends the feed, and listening waits for both.
	stop      context.CancelFunc
	listening errgroup.Group
}

// open starts everything.
func (s *stand) open(ctx context.Context, o Options) (err error) {
	if s.dir, err = os.MkdirTemp(o.Dir, "ca"); err != nil {
		return err
	}
	program, err := peers.Program(ctx, o.Ctxfs, o.Source, s.dir)
	if err != nil {
		return err
	}
	workspace := filepath.Join(s.dir, "w")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return err
	}
	s.server = &peers.Ctxfs{}
	if _, err := s.server.Launch(ctx, program, workspace); err != nil {
		return err
	}
	if s.panel, err = s.server.Host().OpenPanel(ctx, panelID); err != nil {
		return err
	}
	info, err := s.server.Host().Info(ctx, s.panel.ContextID())
	if err != nil {
		return err
	}
	s.fs, s.folder = s.panel.FS(), info.GetFolder()
	if err := s.fill(); err != nil {
		return err
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	if s.ctxfs, err = startAgent(ctx, "", program, "mcp", "--panel", panelID, "--address", s.server.Address()); err != nil {
		return err
	}
	reference, err := filepath.Abs(filepath.Join(o.Source, "..", "client", "ts", "node_modules", "@modelcontextprotocol", "server-filesystem", "dist", "index.js"))
	if err != nil {
		return err
	}
	s.referred, err = startAgent(ctx, s.folder, "node", reference, s.folder)
	return err
}

// listen begins the feed and the watch.
func (s *stand) listen(ctx context.Context) (err error) {
	if s.watcher, err = s.fs.Watch(told, false); err != nil {
		return err
	}
	s.feed, s.watch = make(chan string, 64), make(chan string, 64)
	ctx, s.stop = context.WithCancel(ctx)
	s.listening.Go(func() error {
		defer close(s.watch)
		for e, err := range s.watcher.All() {
			if err != nil {
				return err
			}
			keep(s.watch, e.Name)
		}
		return nil
	})
	ready := make(chan struct{})
	s.listening.Go(func() error {
		defer close(s.feed)
		for n, err := range s.fs.With(ctx).Feed(client.FeedOptions{Path: told}) {
			switch {
			case err != nil:
				return err
			case n.Kind == client.NoticeReady:
				close(ready)
			case n.Kind == client.NoticeChange:
				keep(s.feed, path.Base(n.Change.Path))
			}
		}
		return nil
	})
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keep sends a name, without those that came before it and that nobody waits for.
func keep(names chan string, name string) {
	for {
		select {
		case names <- name:
			return
		default:
		}
		select {
		case <-names:
		default:
		}
	}
}

// toldErr returns why the feed or the watch ended; nil if it has not.
func (s *stand) toldErr(goesOn bool) error {
	if goesOn {
		return nil
	}
	return errors.Join(errors.New("the feed or the watch ended"), s.watcher.Err())
}

// close ends everything and removes the files.
func (s *stand) close() error {
	var errs []error
	if s.stop != nil {
		s.stop()
		errs = append(errs, s.watcher.Close(), s.listening.Wait())
	}
	for _, a := range []*agent{s.ctxfs, s.referred} {
		if a != nil {
			errs = append(errs, a.session.Close())
		}
	}
	if s.panel != nil {
		errs = append(errs, s.panel.Close())
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// The names of the files, and how long the lines of the texts are.
const (
	edited, many, large, told = "edited.txt", "many", "large.bin", "told"
	lineSize                  = 64
	largeSize                 = 64 << 20
)

// sizes are those of the texts that are read.
var sizes = []int{4 << 10, 32 << 10}

// textOf has so many bytes, in lines that differ.
func textOf(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		_, _ = fmt.Fprintf(&b, "%-*d\n", lineSize-1, i)
	}
	return []byte(b.String()[:size])
}

func sized(size int) string { return fmt.Sprintf("text-%d.txt", size) }

// fill makes the files on the disk.
func (s *stand) fill() error {
	files := map[string][]byte{edited: textOf(4 << 10), large: textOf(largeSize)}
	for _, size := range sizes {
		files[sized(size)] = textOf(size)
	}
	for i := range s.files {
		files[filepath.Join(many, fmt.Sprintf("f%04d.txt", i))] = textOf(4 << 10)
	}
	for _, dir := range []string{many, told} {
		if err := os.Mkdir(filepath.Join(s.folder, dir), 0o755); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(s.folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// agent is an MCP client of a server that it started, which serves the files below root.
type agent struct {
	session *sdk.ClientSession
	root    string
}

// startAgent starts a server and lists its tools, as agents do.
func startAgent(ctx context.Context, root, program string, args ...string) (*agent, error) {
	c := sdk.NewClient(&sdk.Implementation{Name: "ctxfs-bench", Version: "1"}, nil)
	cmd := exec.CommandContext(ctx, program, args...)
	session, err := c.Connect(ctx, &sdk.CommandTransport{Command: cmd}, nil)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("start %s (make bench-peers installs what it needs): %w", program, err)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd, err)
	}
	if _, err := session.ListTools(ctx, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("list the tools of %s: %w", cmd, err), session.Close())
	}
	return &agent{session: session, root: root}, nil
}

// call calls a tool with a path, and returns the text of its answer.
func (a *agent) call(ctx context.Context, tool, path string, args map[string]any) (string, error) {
	all := map[string]any{"path": a.root + "/" + path}
	for name, value := range args {
		all[name] = value
	}
	r, err := a.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: all})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	if r.IsError {
		return "", fmt.Errorf("%s of %s: %s", tool, path, &b)
	}
	return b.String(), nil
}
