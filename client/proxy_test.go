package client_test

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// proxy stands between clients and a server, and can hold back or cut what passes.
type proxy struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	moved *sync.Cond
	// held directions pass nothing on; waiting counts the reads that are held back in each.
	held, waiting map[direction]int
	conns         map[net.Conn]struct{}
	accepted      int
}

type direction string

const (
	requests direction = "requests"
	replies  direction = "replies"
)

// newProxy stands before the server at address, a unix socket's.
func newProxy(t *testing.T, address string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "p"))
	must(t, err)
	p := &proxy{
		target: strings.TrimPrefix(address, "unix://"), listener: l,
		held: map[direction]int{}, waiting: map[direction]int{}, conns: map[net.Conn]struct{}{},
	}
	p.moved = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) address() string { return "unix://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", p.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns[in], p.conns[out] = struct{}{}, struct{}{}
		p.accepted++
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(requests, out, in) })
		p.wg.Go(func() { p.pass(replies, in, out) })
	}
}

func (p *proxy) pass(d direction, to, from net.Conn) {
	defer func() { _ = errors.Join(to.Close(), from.Close()) }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !p.mayPass(d, from) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// mayPass waits while d is held; false when the connection was cut meanwhile.
func (p *proxy) mayPass(d direction, conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[d]++
	p.moved.Broadcast()
	for p.held[d] > 0 && p.has(conn) {
		p.moved.Wait()
	}
	p.waiting[d]--
	return p.has(conn)
}

func (p *proxy) has(conn net.Conn) bool {
	_, ok := p.conns[conn]
	return ok
}

func (p *proxy) hold(d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[d]++
}

// awaitHeld returns when something of d is held back.
func (p *proxy) awaitHeld(d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.waiting[d] == 0 {
		p.moved.Wait()
	}
}

// release lets everything pass again.
func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.held)
	p.moved.Broadcast()
}

// cut breaks all connections, and lets later ones pass.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
	clear(p.held)
	p.moved.Broadcast()
}

// connections is how many there have been.
func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// proxied starts a server with a proxy before it, and a client of the proxy that acts for a panel.
func proxied(t *testing.T, change func(*server.Config)) (*proxy, *client.Client) {
	t.Helper()
	p := newProxy(t, servertest.Start(t, servertest.Workspace(t), change))
	return p, dialTo(t, p.address())
}

// dialTo connects to a server by its address.
func dialTo(t *testing.T, address string, opts ...client.Option) *client.Client {
	t.Helper()
	opts = append([]client.Option{
		client.WithAddress(address), client.WithPanel("panels/test"), client.WithGetenv(func(string) string { return "" }),
	}, opts...)
	c, err := client.Dial(t.Context(), opts...)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}
