// Package peers starts ctxfs and what it is compared with, and speaks to each through its own best API. Every server is a process of its own.
//
// A Family is a kind of server; its Peers are ways to talk to it. A cell runs with each peer whose Conn has the functions that it needs.
package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/stand"
)

// How a peer counts in the comparison, and its colour in the chart.
const (
	// Rival is compared with; Product is ctxfs.
	Rival, Product = "rival", "product"
	// Limit is what cannot be reached: the system itself, or a transport that does nothing.
	Limit = "limit"
)

// Env is what all families share. Close ends what they started.
type Env struct {
	*stand.Options
	// Root is the folder that all serve: the same files, the same disk.
	Root string
	// Scratch is for sockets and settings, and short enough for a socket's path.
	Scratch string
	// Ctxfs is the server that is compared.
	Ctxfs *Ctxfs
	ends  []func() error
}

// Start starts a program that Close ends.
func (e *Env) Start(dir, program string, args ...string) (*stand.Process, error) {
	p, err := stand.Start(dir, program, args...)
	if err == nil {
		e.ends = append(e.ends, p.Stop)
	}
	return p, err
}

// Close ends all that was started, the last first.
func (e *Env) Close() (err error) {
	for _, end := range slices.Backward(e.ends) {
		err = errors.Join(err, end())
	}
	return err
}

// Family is a kind of server. Start may return a *MissingError.
type Family struct {
	Name  string
	Start func(ctx context.Context, e *Env) ([]*Peer, error)
}

// Rivals are all families but ctxfs.
func Rivals() []Family {
	return []Family{{"sftp", startSFTP}, {"nginx", StartNginx("json")}, {"node", startNode}, {"net-http", StartNetHTTP}, {"ripgrep", startRipgrep}, {"local", startLocal}, {"echo", startEcho}}
}

// Join starts families, and returns their peers and those that cannot run here, each with what must be installed.
func (e *Env) Join(ctx context.Context, families ...Family) (all []*Peer, missing []string, err error) {
	for _, f := range families {
		started, err := f.Start(ctx, e)
		if why := (*MissingError)(nil); errors.As(err, &why) {
			missing = append(missing, f.Name+": "+why.What)
			e.Logf("%s is missing: %s", f.Name, why.What)
		} else if err != nil {
			return nil, nil, fmt.Errorf("start %s: %w", f.Name, err)
		}
		all = append(all, started...)
	}
	return all, missing, nil
}

// MissingError says that a peer cannot run here.
type MissingError struct{ What string }

// Error names what must be installed.
func (e *MissingError) Error() string { return "missing: " + e.What }

// Peer is one way to talk to a server.
type Peer struct {
	// What says in a few words what it is. Role is Rival, Product or Limit.
	Name, What, Role string
	// Address is where its server listens, if others must know.
	Address string
	// PIDs are the server's processes.
	PIDs []int
	// Dial connects for so many operations at a time.
	Dial func(ctx context.Context, concurrency int) (*Conn, error)
}

// Conn is a peer's connection or connections. A nil function is what the peer cannot do. Functions are called by at most as many workers
// at a time as it was dialled for, numbered from 0. Names are relative to the root, with slashes.
type Conn struct {
	// Stat describes a file, StatAll many by one call.
	Stat    func(worker int, name string) error
	StatAll func(names []string) error
	// Read reads a whole file. The content is valid until the worker's next call.
	Read func(worker int, name string) ([]byte, error)
	// Write writes a whole file, making it when it is missing.
	Write  func(worker int, name string, data []byte) error
	Remove func(worker int, name string) error
	// List lists a directory with attributes: how many entries, and which are directories. Tree counts all below one by one call.
	List func(worker int, dir string) (n int, dirs []string, err error)
	Tree func(dir string) (int, error)
	// Grep counts the files that hold a plain string, by a search of its own.
	Grep func(dir, text string) (int, error)
	// ReadLarge reads a large file and throws it away, WriteLarge makes one.
	ReadLarge  func(name string) (int64, error)
	WriteLarge func(name string, size int64) error
	// Drive is of a client that is a process of its own, which does work and measures it: what is between that process and this one must not
	// be measured.
	Drive func(ctx context.Context, w Work) (Done, error)
	Close func() error
}

// readyPrefix begins the line by which a server says where it listens: a unix socket's path, a space, a TCP address.
const readyPrefix = "ready "

// Serve is the process of a server that is written in Go: it says on standard output where it listens, and ends with its standard input.
func Serve(kind, socket, root string) error {
	if kind == "ctxfs" {
		return serveCtxfs(root)
	}
	serve, ok := map[string]func(ls []net.Listener, root string) error{"echo": serveEcho, "sftp": serveSFTP, "http": serveHTTP}[kind]
	if !ok {
		return fmt.Errorf("no peer is called %q", kind)
	}
	var ls []net.Listener
	for _, at := range [][2]string{{"unix", socket}, {"tcp", "127.0.0.1:0"}} {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), at[0], at[1])
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		defer l.Close()
		ls = append(ls, l)
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

// goServer is the client's side of Serve.
type goServer struct {
	pids        []int
	socket, tcp string
}

func (e *Env) goServer(ctx context.Context, kind string) (*goServer, error) {
	p, err := e.Start(e.Scratch, e.Self, "peer", kind, filepath.Join(e.Scratch, kind+".sock"), e.Root)
	if err != nil {
		return nil, err
	}
	line, err := p.Line(ctx, readyPrefix)
	socket, tcp, _ := strings.Cut(line, " ")
	return &goServer{[]int{p.PID()}, socket, tcp}, err
}

// dialTime bounds a connection attempt.
const dialTime = time.Minute

// dial connects to a server.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	return d.DialContext(ctx, network, address)
}

// serveAll serves on all listeners.
func serveAll(ls []net.Listener, serve func(net.Listener) error) error {
	var g errgroup.Group
	for _, l := range ls {
		g.Go(func() error { return serve(l) })
	}
	return g.Wait()
}

// only is the error of a call.
func only[T any](_ T, err error) error { return err }

// listed is how many entries there are, and which are directories.
func listed[E interface {
	Name() string
	IsDir() bool
}](entries []E, err error) (n int, dirs []string, _ error) {
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	return len(entries), dirs, err
}

// bulkChunk is the size of the pieces in which large content is made and taken.
const bulkChunk = 1 << 20

// source is a stream of size bytes that costs nothing to make.
func source(size int64) *io.LimitedReader { return &io.LimitedReader{R: pattern{}, N: size} }

// pattern gives what its caller's buffer holds already: the content does not matter, and filling it would be measured.
type pattern struct{}

// Read implements io.Reader.
func (pattern) Read(b []byte) (int, error) { return len(b), nil }

// sink counts what it is given.
type sink struct{ n int64 }

// Write implements io.Writer.
func (s *sink) Write(b []byte) (int, error) {
	s.n += int64(len(b))
	return len(b), nil
}

// drain reads r to its end by buf, or by r's own WriteTo.
func drain(r io.Reader, buf []byte) (int64, error) {
	var s sink
	_, err := io.CopyBuffer(&s, r, buf)
	return s.n, err
}
