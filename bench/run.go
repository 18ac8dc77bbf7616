package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/bench/cells"
	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
)

// options of a run, by flags.
type options struct {
	rounds     int
	time       time.Duration
	only, with *regexp.Regexp
	out        string
	dir        string
	ctxfs      string
	before     string
	source     string
	profile    string
	quick      bool
}

// bench is a run: what it started, and what it found.
type bench struct {
	options
	log     io.Writer
	scratch string
	product *peers.Ctxfs
	started []peers.Family
	peers   []*peers.Peer
	missing []string
	results report.Results
}

// run measures everything, prints the tables, and writes them to the folder of --out.
func run(ctx context.Context, o options, stdout, log io.Writer) (err error) {
	b := &bench{options: o, log: log, product: &peers.Ctxfs{}}
	begin, machine := time.Now(), report.Describe(cmp.Or(o.dir, os.TempDir()))
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.start(ctx); err != nil {
		return err
	}
	stop, err := profile(o.profile)
	if err != nil {
		return err
	}
	if err := errors.Join(b.measure(ctx), stop()); err != nil {
		return err
	}
	doc := report.Document{
		Results: b.results, Missing: b.missing, Peers: b.peers, Rounds: o.rounds, Time: o.time,
		Machine: machine, Took: time.Since(begin), Quick: o.quick,
	}
	if _, err := fmt.Fprint(stdout, doc.Text()); err != nil {
		return err
	}
	if o.out == "" {
		return nil
	}
	return doc.Write(o.out)
}

func (b *bench) families() []peers.Family {
	json := &peers.JSONWS{}
	return []peers.Family{&peers.SFTP{}, &peers.Nginx{}, json, &peers.NodeClients{Product: b.product, JSON: json}, &peers.NetHTTP{}, &peers.Ripgrep{}, &peers.Confined{}, &peers.Local{}, &peers.Echo{}}
}

// start brings up ctxfs first, since all serve its context's folder, then the others.
func (b *bench) start(ctx context.Context) error {
	scratch, err := os.MkdirTemp(b.dir, "cb")
	if err != nil {
		return err
	}
	b.scratch = scratch
	if b.ctxfs, err = peers.Program(ctx, b.ctxfs, b.source, scratch); err != nil {
		return err
	}
	workspace := filepath.Join(scratch, "w")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return err
	}
	b.started = append(b.started, b.product)
	root, err := b.product.Launch(ctx, b.ctxfs, workspace)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	env := peers.Env{Root: root, Scratch: scratch, Self: self, Ctxfs: b.ctxfs, Source: b.source}
	if err := b.join(ctx, b.product, env); err != nil {
		return err
	}
	for _, f := range b.families() {
		b.started = append(b.started, f)
		if err := b.join(ctx, f, env); err != nil {
			return err
		}
	}
	if err := cells.MakeTree(root, b.sizes(), b.names()); err != nil {
		return err
	}
	return b.startEarlier(ctx)
}

// startEarlier brings up the server of --before, if there is one, on a tree of its own.
func (b *bench) startEarlier(ctx context.Context) error {
	if b.before == "" {
		return nil
	}
	workspace := filepath.Join(b.scratch, "before")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return err
	}
	earlier := &peers.Ctxfs{Earlier: true}
	b.started = append(b.started, earlier)
	root, err := earlier.Launch(ctx, b.before, workspace)
	if err != nil {
		return err
	}
	others := len(b.peers)
	if err := b.join(ctx, earlier, peers.Env{}); err != nil {
		return err
	}
	return cells.MakeTree(root, b.sizes(), b.names()[others:])
}

// join starts a family, or names it as missing.
func (b *bench) join(ctx context.Context, f peers.Family, env peers.Env) error {
	started, err := f.Start(ctx, env)
	if missing := (*peers.MissingError)(nil); errors.As(err, &missing) {
		b.missing = append(b.missing, f.Name()+": "+missing.What)
		_, _ = fmt.Fprintln(b.log, f.Name(), err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", f.Name(), err)
	}
	for _, p := range started {
		if b.with.MatchString(p.Name) {
			b.peers = append(b.peers, p)
		}
	}
	return nil
}

func (b *bench) names() []string {
	var out []string
	for _, p := range b.peers {
		out = append(out, p.Name)
	}
	return out
}

func (b *bench) sizes() cells.Sizes {
	if b.quick {
		return cells.Quick()
	}
	return cells.Full()
}

func (b *bench) measure(ctx context.Context) error {
	all := cells.All(b.sizes())
	all = slices.DeleteFunc(all, func(c *cells.Cell) bool { return !b.only.MatchString(c.Key()) })
	for i, c := range all {
		_, _ = fmt.Fprintf(b.log, "%2d/%d %s\n", i+1, len(all), strings.Replace(c.Key(), "/", ", at once: ", 1))
		r, err := cells.Run(ctx, c, b.peers, cells.Options{Rounds: b.rounds, Time: b.time})
		if err != nil {
			return err
		}
		b.results = append(b.results, r...)
	}
	return nil
}

// close ends all that was started, the last first, and removes what was written.
func (b *bench) close() error {
	var errs []error
	for _, f := range slices.Backward(b.started) {
		errs = append(errs, f.Close())
	}
	if b.scratch != "" {
		errs = append(errs, os.RemoveAll(b.scratch))
	}
	return errors.Join(errs...)
}
