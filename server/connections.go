package server

import (
	"container/list"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/gateway"
	"github.com/ctxfs/ctxfs/internal/accept"
)

// Connections, handles and operations share the process's descriptors (RLIMIT_NOFILE). Handles take at most half of them
// (handles.Config.Total), connections at most three eighths, and the rest is a reserve for operations. The listeners divide
// the connections' part, so that a crowd on one address does not affect the others.

const (
	// firstCallTime is how long a connection may take until its first authenticated call begins. It is longer than the time for a
	// WebSocket's first message, after which the gateway reports the reason.
	firstCallTime = 15 * time.Second
	// maxUnauthenticated bounds the connections of one listener that have made no authenticated call.
	maxUnauthenticated = 256
	// minConnections and maxConnections bound the connections of all listeners.
	minConnections, maxConnections = 32, 16384
	// baseDescriptors is about how many an idle server has open.
	baseDescriptors = 32
	// closeWait bounds how long a new connection waits for others to end that were closed in its favour.
	closeWait = time.Second
	// freeCancels is how many more calls a client may cancel than it lets end. Each further one delays the reading of its connection by
	// cancelPause, up to maxCancelPause at a time: a call that is begun and reset at once costs the server more than its client
	// (CVE-2023-44487).
	freeCancels    = 100
	cancelPause    = 200 * time.Microsecond
	maxCancelPause = 100 * time.Millisecond
)

// The reasons of ctxfs_connections_refused_total.
const (
	refusedCrowd   = "unauthenticated" // closed in favour of a newer one
	refusedFull    = "full"            // the listener is full
	refusedTimeout = "timeout"         // no authenticated call within firstCallTime
	refusedPanel   = "panel"           // the panel has its share
)

// connGroup has the connections of one kind of listener: unix, tcp, http or gateway.
type connGroup struct {
	// max bounds all connections, maxUnauthenticated those without an authenticated call.
	max, maxUnauthenticated int
	firstCallTime           time.Duration
	refused                 func(reason string)

	mu     sync.Mutex
	ending bool
	// open counts the connections, closing those among them that were closed and still have their descriptor.
	open, closing int
	// unauthenticated holds *acceptedConn, the oldest first.
	unauthenticated list.List
	// owners counts the authenticated connections of each panel, and of each site that belongs to none.
	owners map[string]int
	// freed is closed, and replaced, when a full group has room again.
	freed chan struct{}
}

func newConnGroup(limit int, refused func(reason string)) *connGroup {
	return &connGroup{
		max: limit, maxUnauthenticated: min(limit/2, maxUnauthenticated), firstCallTime: firstCallTime, refused: refused,
		owners: map[string]int{}, freed: make(chan struct{}),
	}
}

// connGroups are the connections of a server, by kind of listener.
type connGroups struct{ unix, tcp, http, pages *connGroup }

// newConnGroups divides the connections that a limit of descriptors allows: a quarter for the unix socket, the rest for the addresses
// that are configured. 0 is no limit.
func newConnGroups(descriptors int, tcp, http, pages bool, m *metrics) connGroups {
	all := maxConnections
	if descriptors > 0 {
		all = min(all, max(minConnections, descriptors*3/8-baseDescriptors))
	}
	unix, each, addresses := all, all-all/4, 0
	for _, configured := range []bool{tcp, http, pages} {
		if configured {
			unix = all / 4
			addresses++
		}
	}
	each /= max(1, addresses)
	group := func(listener string, limit int) *connGroup {
		g := newConnGroup(limit, func(reason string) { m.connRefused.WithLabelValues(listener, reason).Inc() })
		m.connections(listener, g.count)
		return g
	}
	return connGroups{unix: group("unix", unix), tcp: group("tcp", each), http: group("http", each), pages: group("gateway", each)}
}

// count returns how many connections are open.
func (g *connGroup) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// countUnauthenticated returns how many of them have made no authenticated call.
func (g *connGroup) countUnauthenticated() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unauthenticated.Len()
}

// admit counts a new connection. It closes the oldest unauthenticated one when there are too many of those: a client that
// authenticates at once gets through whatever the others do, which refusing new ones would not allow. It returns nil when
// all connections of a full group are authenticated, or the server stops.
func (g *connGroup) admit(conn net.Conn) *acceptedConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unauthenticated.Len() >= g.maxUnauthenticated {
		g.closeOldest()
	}
	if g.open >= g.max && !g.awaitRoom() {
		g.refused(refusedFull)
		return nil
	}
	if g.ending {
		return nil
	}
	c := &acceptedConn{Conn: conn, group: g}
	g.open++
	c.place = g.unauthenticated.PushBack(c)
	c.timer = time.AfterFunc(g.firstCallTime, c.expire)
	return c
}

// awaitRoom waits until the descriptor of a closed connection is free, which takes as long as its reader needs to see the end. It
// reports whether there is room. g.mu is held, but not while it waits.
func (g *connGroup) awaitRoom() bool {
	deadline := time.NewTimer(closeWait)
	defer deadline.Stop()
	for g.open >= g.max {
		if g.closing == 0 && !g.closeOldest() {
			return false
		}
		freed := g.freed
		g.mu.Unlock()
		select {
		case <-freed:
			g.mu.Lock()
		case <-deadline.C:
			g.mu.Lock()
			return g.open < g.max
		}
	}
	return true
}

// closeOldest closes the oldest unauthenticated connection, and reports whether there was one. g.mu is held.
func (g *connGroup) closeOldest() bool {
	front := g.unauthenticated.Front()
	if front == nil {
		return false
	}
	front.Value.(*acceptedConn).closeAs(refusedCrowd) //nolint:forcetypeassert // nothing else is in it
	return true
}

// makeRoom closes the oldest unauthenticated connection. It is called when a new one could not be accepted.
func (g *connGroup) makeRoom() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closeOldest()
}

// end closes the connections that have made no call, for which gRPC would wait when it stops, and admits no more. HTTP closes those that
// it serves.
func (g *connGroup) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ending = true
	for e := g.unauthenticated.Front(); e != nil; {
		c, next := e.Value.(*acceptedConn), e.Next() //nolint:forcetypeassert // nothing else is in it
		if !c.handed.Load() {
			c.closeAs("")
		}
		e = next
	}
}

// connListener accepts the connections of a group.
type connListener struct {
	net.Listener
	group *connGroup
}

// shortages are errors of accept(2) that a closed connection may help against.
var shortages = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSPC}

// listenerOf keeps l accepting whatever the process, its user and the kernel are short of.
func listenerOf(l net.Listener, group *connGroup, log *zap.Logger) connListener {
	return connListener{accept.Listener{Listener: l, Failed: func(err error, again bool) {
		if slices.ContainsFunc(shortages, func(errno syscall.Errno) bool { return errors.Is(err, errno) }) {
			group.makeRoom()
		}
		if !again {
			log.Warn("a connection could not be accepted; trying again", zap.Stringer("listener", l.Addr()), zap.Error(err))
		}
	}}, group}
}

// Accept implements net.Listener.
func (l connListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.group.admit(conn); c != nil {
			return c, nil
		}
		_ = conn.Close()
	}
}

// acceptedConn is a connection of a group, from when it was accepted until its server closes it.
type acceptedConn struct {
	net.Conn
	group *connGroup
	// handed says that HTTP serves a connection that gRPC's server accepted.
	handed atomic.Bool
	// known says that an authenticated call was made.
	known atomic.Bool
	// timer ends the wait for that call.
	timer *time.Timer
	// cancels counts the calls that the client has cancelled, minus those that it let end and those that pace has delayed it for.
	cancels atomic.Int64

	// The group's mutex guards these. place is the connection's element in the list of unauthenticated ones; owner is the panel, or the site
	// without one, that it counts for, "" for a host.
	place           *list.Element
	owner           string
	closed, removed bool
}

// authenticated counts the connection for a panel, or a site without one (limited; "" for a host), from its first authenticated call on. It
// fails with EMFILE when the listener is short of connections and the panel has its share of them.
func (c *acceptedConn) authenticated(panel string) error {
	if c == nil || c.known.Load() {
		return nil
	}
	g := c.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.place == nil {
		return nil // another call was first, or the connection is closed
	}
	if n := g.owners[panel]; panel != "" && g.scarce() && n >= max(1, g.max/(len(g.owners)+1)) {
		g.refused(refusedPanel)
		return &fserr.Error{
			Code: fserr.EMFILE, Detail: fmt.Sprintf("this panel has %d connections, and the server keeps the last ones for panels with fewer", n),
			Hint: "close some, or send calls over those that are open",
		}
	}
	c.leave()
	if c.owner = panel; panel != "" {
		g.owners[panel]++
	}
	c.known.Store(true)
	return nil
}

// scarce reports whether a quarter of the connections or less is left for authenticated ones. g.mu is held.
func (g *connGroup) scarce() bool {
	return g.open-g.closing-g.unauthenticated.Len() >= g.max-g.max/4
}

// leave takes the connection off the list of unauthenticated ones. The group's mutex is held.
func (c *acceptedConn) leave() {
	if c.place != nil {
		c.group.unauthenticated.Remove(c.place)
		c.place = nil
		c.timer.Stop()
	}
}

// expire closes a connection that made no authenticated call in time.
func (c *acceptedConn) expire() {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	if c.place != nil {
		c.closeAs(refusedTimeout)
	}
}

// closeAs closes an unauthenticated connection; its server then sees the end and calls Close. The group's mutex is held, since closing a
// socket does not wait for its peer.
func (c *acceptedConn) closeAs(reason string) {
	c.leave()
	c.closed = true
	c.group.closing++
	if reason != "" {
		c.group.refused(reason)
	}
	_ = c.Conn.Close()
}

// remove stops counting a connection that its server has closed.
func (c *acceptedConn) remove() {
	g := c.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.removed {
		return
	}
	c.removed = true
	c.leave()
	if c.closed {
		g.closing--
	}
	if c.owner != "" {
		if g.owners[c.owner]--; g.owners[c.owner] == 0 {
			delete(g.owners, c.owner)
		}
	}
	if g.open--; g.open == g.max-1 {
		close(g.freed)
		g.freed = make(chan struct{})
	}
}

// callEnded counts a call that has ended, for pace.
func (c *acceptedConn) callEnded(cancelled bool) {
	switch {
	case c == nil:
	case cancelled:
		c.cancels.Add(1)
	case c.cancels.Load() > 0:
		c.cancels.Add(-1)
	}
}

// pace is called before gRPC reads from the connection. It delays the reading when the client cancels most of its calls.
func (c *acceptedConn) pace() {
	if c == nil {
		return
	}
	if n := min(c.cancels.Load()-freeCancels, int64(maxCancelPause/cancelPause)); n > 0 {
		c.cancels.Add(-n)
		time.Sleep(time.Duration(n) * cancelPause)
	}
}

// SetDeadline implements net.Conn. gRPC sets a deadline before its handshake and removes it afterwards. If the connection was passed to
// HTTP meanwhile, the deadline is HTTP's by then.
func (c *acceptedConn) SetDeadline(t time.Time) error {
	if c.handed.Load() {
		return nil
	}
	return c.Conn.SetDeadline(t)
}

// Close implements net.Conn.
func (c *acceptedConn) Close() error {
	defer c.remove()
	return c.Conn.Close()
}

// CloseWrite half-closes, as net.TCPConn's does.
func (c *acceptedConn) CloseWrite() error { return gateway.CloseWrite(c.Conn) }

// Socket returns the connection's socket.
func (c *acceptedConn) Socket() syscall.RawConn { return socketOf(c.Conn) }

// NetConn returns the connection below, as that of tls.Conn does.
func (c *acceptedConn) NetConn() net.Conn { return c.Conn }
