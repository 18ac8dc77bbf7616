package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/child"
)

// readyPrefix begins the line by which a server says where it listens: a unix socket's
// path, a space, a TCP address.
const readyPrefix = "ready "

// Serve is the process of one of the peers that are written in Go: it listens on a unix
// socket and on loopback TCP, says so on standard output, and ends with its standard input.
func Serve(kind, socket, root string) error {
	serve, ok := map[string]func(ls []net.Listener, root string) error{
		"echo": serveEcho, "sftp": serveSFTP, "http": serveHTTP, "fileserver": serveFiles,
	}[kind]
	if !ok {
		return fmt.Errorf("no peer is called %q", kind)
	}
	ls, err := listenBoth(socket)
	if err != nil {
		return err
	}
	fmt.Printf("%s%s %s\n", readyPrefix, socket, ls[1].Addr())
	var g errgroup.Group
	g.Go(func() error { return serve(ls, root) })
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, l := range ls {
		_ = l.Close()
	}
	if err := g.Wait(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func listenBoth(socket string) ([]net.Listener, error) {
	var lc net.ListenConfig
	unix, err := lc.Listen(context.Background(), "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	tcp, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), unix.Close())
	}
	return []net.Listener{unix, tcp}, nil
}

// goServer is the client's side of Serve.
type goServer struct {
	process     *child.Process
	socket, tcp string
}

func (s *goServer) start(ctx context.Context, env Env, kind string) error {
	socket := filepath.Join(env.Scratch, kind+".sock")
	p, err := child.Start(env.Scratch, env.Self, "peer", kind, socket, env.Root)
	if err != nil {
		return err
	}
	s.process = p
	line, err := p.Line(ctx, readyPrefix)
	if err != nil {
		return err
	}
	s.socket, s.tcp, _ = strings.Cut(line, " ")
	return nil
}

func (s *goServer) pids() []int { return []int{s.process.PID()} }

// Close ends the process.
func (s *goServer) Close() error {
	if s.process == nil {
		return nil
	}
	return s.process.Stop()
}

// dial connects to the server by one of its networks.
func (s *goServer) dial(ctx context.Context, network string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	if network == "unix" {
		return d.DialContext(ctx, network, s.socket)
	}
	return d.DialContext(ctx, network, s.tcp)
}
