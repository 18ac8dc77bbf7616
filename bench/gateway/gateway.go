// Package gateway measures the sites of a server beside nginx and Go's http.FileServer over the same directory: small files, a large one, a
// large listing. It also measures what open streams of live reload cost, and how soon they report a change.
package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ctxfs/ctxfs/bench/cells"
	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/scale"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Options of Run.
type Options struct {
	// Self is this program; Dir is for temporary files, and Out for the report, "" writes none.
	Self, Dir, Out string
	// Rounds is how often each cell is measured, Time how long; the median is reported.
	Rounds int
	Time   time.Duration
	// Sizes of the work.
	Sizes Sizes
}

// Sizes of the work.
type Sizes struct {
	// Large is the size of the large file in bytes, Entries the number of files in the directory that is listed.
	Large   int64
	Entries int
	// Streams are the open event streams, and Edits the changes that they report.
	Streams, Edits int
}

// Full and Quick are the sizes of a whole run, and of one that only shows that all works.
func Full() Sizes { return Sizes{Large: 256 << 20, Entries: 10_000, Streams: 200, Edits: 20} }

// Quick is about a tenth of Full.
func Quick() Sizes { return Sizes{Large: 16 << 20, Entries: 100, Streams: 10, Edits: 2} }

// Run measures everything, prints it and, with Options.Out, writes gateway.md.
func Run(ctx context.Context, o Options, stdout, log io.Writer) (err error) {
	machine := report.Describe(o.Dir)
	scratch, err := os.MkdirTemp(o.Dir, "cg")
	if err != nil {
		return err
	}
	s := &stand{Options: o, log: log, server: &scale.Server{}}
	defer func() { err = errors.Join(err, s.close(), os.RemoveAll(scratch)) }()
	f := &figures{Options: o, machine: machine}
	if err := s.start(ctx, scratch); err != nil {
		return err
	}
	f.missing = s.missing
	if f.results, err = s.measure(ctx); err != nil {
		return err
	}
	if f.streams, err = s.streams(ctx); err != nil {
		return fmt.Errorf("event streams: %w", err)
	}
	text := f.text()
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	return write(o.Out, text)
}

// stand is what a run has started.
type stand struct {
	Options
	log     io.Writer
	server  *scale.Server
	site    target
	started []peers.Family
	peers   []*peers.Peer
	// missing are the peers that cannot run, each with the reason.
	missing []string
}

// addressed is a server that tells where it listens.
type addressed interface {
	peers.Family
	Address() string
}

func (s *stand) start(ctx context.Context, scratch string) error {
	panel, err := s.server.Start(ctx, s.Self, scratch)
	if err != nil {
		return err
	}
	root := s.server.Folder()
	if err := s.fill(root); err != nil {
		return err
	}
	site, err := s.server.Host().OpenSite(ctx, panel.ContextID(), &ctxfsv1.SiteOptions{Listing: true, LiveReload: true}, 0)
	if err != nil {
		return err
	}
	if s.site, err = targetOf(site.GetUrl()); err != nil {
		return err
	}
	s.peers = []*peers.Peer{{Name: "ctxfs", Role: peers.Product, PIDs: []int{s.server.PID()}, Dial: s.site.dial}}
	env := peers.Env{Root: root, Scratch: scratch, Self: s.Self}
	for _, f := range []addressed{&peers.Nginx{Listing: "html"}, &peers.FileServer{}} {
		s.started = append(s.started, f)
		started, err := f.Start(ctx, env)
		if missing := (*peers.MissingError)(nil); errors.As(err, &missing) {
			s.missing = append(s.missing, f.Name()+": "+missing.What)
			continue
		}
		if err != nil {
			return fmt.Errorf("start %s: %w", f.Name(), err)
		}
		started[0].Dial = target{f.Address(), f.Address()}.dial
		s.peers = append(s.peers, started[0])
	}
	return nil
}

func (s *stand) close() (err error) {
	for _, f := range s.started {
		err = errors.Join(err, f.Close())
	}
	return errors.Join(err, s.server.Close())
}

// The files that are served. The size of a small one is in bytes.
const (
	smallName, smallSize = "app.js", 4 << 10
	largeName            = "large.bin"
	listName             = "list"
)

func entryName(i int) string { return fmt.Sprintf("entry-%06d.txt", i) }

func (s *stand) fill(root string) error {
	line := []byte("export const step = (input) => input.map((x) => x + 1);\n")
	text := bytes.Repeat(line, smallSize/len(line)+1)[:smallSize]
	if err := os.WriteFile(filepath.Join(root, smallName), text, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, largeName), bytes.Repeat(text, int(s.Sizes.Large/smallSize)), 0o644); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(root, listName), 0o755); err != nil {
		return err
	}
	for i := range s.Sizes.Entries {
		if err := os.WriteFile(filepath.Join(root, listName, entryName(i)), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// many is the higher concurrency.
const many = 32

func (s *stand) cells() []*cells.Cell {
	return []*cells.Cell{
		{Name: smallCell, Concurrency: 1, Workers: 1, Parts: 1, Bind: readSmall},
		{Name: smallCell, Concurrency: many, Workers: many, Parts: 1, Bind: readSmall},
		{Name: largeCell, Concurrency: 1, Workers: 1, Parts: 1, Bytes: s.Sizes.Large, Bind: s.readLarge},
		{Name: listCell, Concurrency: 1, Workers: 1, Parts: 1, Bind: s.list},
	}
}

func (s *stand) measure(ctx context.Context) (all report.Results, err error) {
	for _, c := range s.cells() {
		_, _ = fmt.Fprintf(s.log, "%s, at once: %d\n", c.Name, c.Concurrency)
		r, err := cells.Run(ctx, c, s.peers, cells.Options{Rounds: s.Rounds, Time: s.Time})
		if err != nil {
			return nil, err
		}
		all = append(all, r...)
	}
	return all, nil
}

// step makes a Step of what a worker's connection does.
func step(c peers.Conn, do func(*wire) (ok bool, err error)) cells.Step {
	v := c.(*visitor) //nolint:forcetypeassert // target.dial makes them
	return func(worker, _ int) (float64, error) {
		ok, err := do(v.conns[worker])
		if err == nil && !ok {
			err = errors.New("the response is not the file or the listing")
		}
		return 1, err
	}
}

func readSmall(c peers.Conn, _ string) cells.Step {
	return step(c, func(w *wire) (bool, error) {
		b, err := w.fetch(smallName)
		return len(b) == smallSize, err
	})
}

func (s *stand) readLarge(c peers.Conn, _ string) cells.Step {
	return step(c, func(w *wire) (bool, error) {
		n, err := w.drain(largeName)
		return n == s.Sizes.Large, err
	})
}

func (s *stand) list(c peers.Conn, _ string) cells.Step {
	last := []byte(entryName(s.Sizes.Entries - 1))
	return step(c, func(w *wire) (bool, error) {
		b, err := w.fetch(listName + "/")
		return bytes.Contains(b, last), err
	})
}
