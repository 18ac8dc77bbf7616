// Package gateway measures the sites of a server beside nginx and Go's http.FileServer over the same directory: small files, a large one, a
// large listing. It also measures what open streams of live reload cost, and how soon they report a change.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/ctxfs/ctxfs/bench/compare"
	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/stand"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The names of cells.
const smallCell, largeCell, listCell = "file of 4 KiB", "file of 256 MiB", "listing of 10,000 files"

// rules is what a site's rate must be of nginx's.
var rules = []compare.Rule{
	{Title: smallCell + ", at once: 1", Cell: smallCell + "/1", Own: "ctxfs", Peer: "nginx", Factor: 0.8},
	{Title: smallCell + ", at once: 32", Cell: smallCell + "/32", Own: "ctxfs", Peer: "nginx", Factor: 0.8},
	{Title: largeCell + ", at once: 1", Cell: largeCell + "/1", Own: "ctxfs", Peer: "nginx", Factor: 1},
}

// Run measures everything.
func Run(ctx context.Context, o *stand.Options) (page *report.Page, err error) {
	sizes, n, edits := compare.Sizes{Files: 64, Entries: 10_000, Large: 256 << 20}, 200, 20
	if o.Quick {
		sizes, n, edits = compare.Sizes{Files: 4, Entries: 100, Large: 16 << 20}, 10, 2
	}
	err = o.Scratch(func(scratch string) (err error) {
		e := &peers.Env{Options: o, Scratch: scratch}
		defer func() { err = errors.Join(err, e.Close()) }()
		if err := e.StartMeasured(ctx); err != nil {
			return err
		}
		if err := compare.MakeTree(e.Root, sizes); err != nil {
			return err
		}
		site, err := e.Ctxfs.Host.OpenSite(ctx, e.Ctxfs.Panel.ContextID(), &ctxfsv1.SiteOptions{Listing: true, LiveReload: true}, 0)
		if err != nil {
			return err
		}
		u, err := url.Parse(site.GetUrl())
		if err != nil {
			return err
		}
		rivals, missing, err := e.Join(ctx, peers.Family{Name: "nginx", Start: peers.StartNginx("html")}, peers.Family{Name: "net-http", Start: peers.StartNetHTTP})
		if err != nil {
			return err
		}
		// The name of a site's host form resolves to this machine in browsers, and not everywhere else.
		own := target{net.JoinHostPort("127.0.0.1", u.Port()), u.Host}
		all := []*peers.Peer{{Name: "ctxfs", Role: peers.Product, PIDs: []int{e.Ctxfs.PID()}, Dial: own.dialer(sizes)}}
		for _, p := range rivals {
			p.Dial = target{p.Address, p.Address}.dialer(sizes)
			all = append(all, p)
		}
		rs, err := compare.Measure(ctx, o, []*compare.Cell{
			{Name: smallCell, Concurrency: 1, Bind: sizes.Read},
			{Name: smallCell, Concurrency: compare.Many, Bind: sizes.Read},
			{Name: largeCell, Concurrency: 1, Bytes: sizes.Large, Bind: sizes.ReadLarge},
			{Name: listCell, Concurrency: 1, Bind: sizes.List},
		}, all)
		if err != nil {
			return err
		}
		o.Logf("event streams")
		streams, err := own.streams(ctx, e.Ctxfs, n, edits)
		if err != nil {
			return fmt.Errorf("event streams: %w", err)
		}
		page = &report.Page{
			Name: "gateway", Title: "Sites: how fast they are", Intro: "Written by `make bench-gateway`; [how to read it](../explanation/performance.md), all but the section on edits.",
			How: fmt.Sprintf("Median of %d rounds of %s, all servers in turns.", o.Rounds, o.Time), Keep: "\n## Edit to reload\n",
			Text: compare.Missing(missing) + rs.Table().String() +
				"\n`rate/s` is requests (bytes for 256 MiB), `CPU/op` of client and server together, `ctxfs is` its rate divided by the peer's. " +
				"All serve the same directory over loopback TCP without TLS, each as a process of its own. The client is the bench's own: one connection for each request " +
				"at once, of which it reads the length and the body only. ctxfs serves a site of the host form with all checks; nginx is Debian's with `sendfile` and " +
				"`autoindex`, net-http is Go's `http.FileServer`.\n\n## Required\n\n" + rs.Required(rules) + "\n## Event streams\n\n" + streams,
		}
		return nil
	})
	return page, err
}
