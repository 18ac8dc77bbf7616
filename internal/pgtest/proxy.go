package pgtest

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// socketName is the name of the unix socket of a server with the default port.
const socketName = ".s.PGSQL.5432"

// Proxy stands between a server and its clients, and can disturb what goes through it.
type Proxy struct {
	s   *Server
	dir string
	in  net.Listener

	mu       sync.Mutex
	disorder Disorder
	// changed is closed when there is another disorder.
	changed chan struct{}
	conns   map[net.Conn]bool
	running sync.WaitGroup
	// messages counts what clients sent.
	messages atomic.Int64
}

// Disorder is what a Proxy does to connections; the zero Disorder is nothing.
type Disorder struct {
	// Delay is how long each message takes longer, in either direction.
	Delay time.Duration
	// Silent holds all messages back, and Cut ends all connections, until the next disorder.
	Silent, Cut bool
}

// NewProxy returns a proxy of s without a disorder.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctxproxy")
	if err != nil {
		t.Fatal(err)
	}
	in, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{s: s, dir: dir, in: in, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		err := in.Close()
		p.Set(Disorder{Cut: true})
		p.running.Wait()
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Through returns a URL of the server as one that leads through the proxy.
func (p *Proxy) Through(to string) string {
	return strings.ReplaceAll(to, url.QueryEscape(p.s.dir), url.QueryEscape(p.dir))
}

// Set gives the proxy another disorder.
func (p *Proxy) Set(d Disorder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disorder = d
	close(p.changed)
	p.changed = make(chan struct{})
	if d.Cut {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

func (p *Proxy) now() (d Disorder, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.disorder, p.changed
}

func (p *Proxy) accept() {
	for {
		from, err := p.in.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(from) })
	}
}

// serve carries a connection until one of its ends closes it.
func (p *Proxy) serve(from net.Conn) {
	to, err := new(net.Dialer).DialContext(context.Background(), "unix", filepath.Join(p.s.dir, socketName))
	if err != nil || !p.keep(from, to) {
		_ = from.Close()
		if to != nil {
			_ = to.Close()
		}
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.carry(to, from, true) })
	both.Go(func() { p.carry(from, to, false) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, from)
	delete(p.conns, to)
}

// keep registers connections, unless new ones are cut.
func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.disorder.Cut {
		return false
	}
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

// Messages returns how many messages clients have sent, about.
func (p *Proxy) Messages() int { return int(p.messages.Load()) }

// carry copies from one connection to another one, and closes both.
func (p *Proxy) carry(to, from net.Conn, sends bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if sends {
			p.messages.Add(1)
		}
		p.hold()
		if _, e := to.Write(buf[:n]); e != nil || err != nil {
			return // io.EOF, or one of them was closed
		}
	}
}

// hold waits as the disorder has it.
func (p *Proxy) hold() {
	for d, changed := p.now(); ; d, changed = p.now() {
		switch {
		case d.Silent:
			<-changed
			continue
		case d.Delay > 0:
			timer := time.NewTimer(d.Delay)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-changed:
				continue
			}
		}
		return
	}
}
