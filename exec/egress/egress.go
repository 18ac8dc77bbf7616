// Package egress is the only way from a sandbox to a network: a proxy that connects to permitted names and to nothing else.
//
// A client gives a name and a port, by HTTP (CONNECT, or a plain request with an absolute URL) or by SOCKS5. The proxy compares the name
// with its rules, resolves it itself, and connects to a public address of the answer: it never connects to an address that a client
// names, and never resolves a name twice for one connection. What goes through a tunnel is not looked at: a name that is permitted is
// trusted with everything that the command can read.
package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/net/netutil"

	"github.com/ctxfs/ctxfs/internal/accept"
)

// Bounds of a proxy.
const (
	// maxConns is how many connections of clients one listener serves at once. Further ones wait.
	maxConns = 128
	// headerTime bounds how long a client takes for its request, and headerBytes how large that is.
	headerTime  = 10 * time.Second
	headerBytes = 32 << 10
	// lookupTime and dialTime bound one resolution and one attempt to connect.
	lookupTime = 10 * time.Second
	dialTime   = 10 * time.Second
	maxDials   = 4
	// idleTime ends a connection without traffic.
	idleTime = 5 * time.Minute
	// DefaultBytes bounds the traffic of a proxy, both ways.
	DefaultBytes int64 = 16 << 30
)

// Config of Serve.
type Config struct {
	Rules Rules
	// Bytes bounds the traffic of all connections, both ways; 0 means DefaultBytes.
	Bytes int64
	// Report receives each use. It must not block. It may be nil.
	Report func(Use)
	Upstream
	// headerTime is for tests.
	headerTime time.Duration
}

// Upstream is how names become connections. A nil function is that of the machine.
type Upstream struct {
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// Use is one attempt of a client to connect.
type Use struct {
	// Name is what the client asked for: at most maxName bytes of UTF-8.
	Name string
	Port uint16
	// Address is where the proxy connected to; zero if it did not.
	Address netip.AddrPort
	// Refusal is the rule that forbids the connection; "" if none does.
	Refusal string
	// Err is why a permitted connection failed.
	Err error
}

// Proxy serves until Close.
type Proxy struct {
	cfg       Config
	server    http.Server
	transport *http.Transport
	socks     net.Listener
	bytes     atomic.Int64
	// ended ends when Close begins.
	ended context.Context //nolint:containedctx // it is the signal, not a call's
	end   context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

// Serve serves HTTP clients on one listener and SOCKS clients on the other. It closes both.
func Serve(web, socks net.Listener, cfg Config) *Proxy {
	if cfg.Bytes == 0 {
		cfg.Bytes = DefaultBytes
	}
	if cfg.headerTime == 0 {
		cfg.headerTime = headerTime
	}
	if cfg.Lookup == nil {
		cfg.Lookup = lookup
	}
	if cfg.Dial == nil {
		cfg.Dial = dial
	}
	p := &Proxy{cfg: cfg, socks: netutil.LimitListener(accept.Listener{Listener: socks}, maxConns)}
	p.ended, p.end = context.WithCancel(context.Background())
	p.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			ctx, cancel := context.WithCancel(ctx) // the transport's outlives the request
			defer cancel()
			defer context.AfterFunc(p.ended, cancel)()
			return p.open(ctx, address)
		},
		// The client asks for compression itself. Package managers fetch many small files of one registry.
		DisableCompression: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second,
	}
	p.server = http.Server{
		Handler: http.HandlerFunc(p.serveHTTP), ReadHeaderTimeout: cfg.headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		BaseContext: func(net.Listener) context.Context { return p.ended }, ErrorLog: silent(),
	}
	p.work.Go(func() { _ = p.server.Serve(netutil.LimitListener(accept.Listener{Listener: web}, maxConns)) }) // it ends with the listener
	p.work.Go(p.serveSOCKS)
	return p
}

// Close ends all connections, and waits until nothing of the proxy runs.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	_ = p.server.Close() // the connections are the clients'
	_ = p.socks.Close()
	p.work.Wait()
	p.transport.CloseIdleConnections()
}

// enter reports whether a client is still served, and leave ends that.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

func (p *Proxy) leave() { p.work.Done() }

// refused is a connection that the rules forbid.
type refused struct{ text string }

func (e *refused) Error() string { return e.text }

// open connects to a name and port. It fails with *refused if a rule forbids that.
func (p *Proxy) open(ctx context.Context, target string) (net.Conn, error) {
	use, conn, err := p.connect(ctx, target)
	if r := (*refused)(nil); errors.As(err, &r) {
		use.Refusal = r.text
	} else {
		use.Err = err
	}
	if p.cfg.Report != nil {
		use.Name = reported(use.Name)
		p.cfg.Report(use)
	}
	return conn, err
}

// maxName is the most bytes of a name in DNS.
const maxName = 253

// reported returns the part of a name that reports have: at most maxName bytes of UTF-8. A client may name anything.
func reported(name string) string {
	if !utf8.ValidString(name) {
		name = strings.Trim(strconv.QuoteToASCII(name), `"`)
	}
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "") // the cut may be within a character
}

func (p *Proxy) connect(ctx context.Context, target string) (use Use, conn net.Conn, err error) {
	if use.Name, use.Port, err = split(target); err != nil {
		return use, nil, err
	}
	if err := p.cfg.Rules.check(use.Name, use.Port); err != nil {
		return use, nil, err
	}
	if p.bytes.Load() >= p.cfg.Bytes {
		return use, nil, p.exceeded()
	}
	addresses, err := p.resolve(ctx, use.Name)
	if err != nil {
		return use, nil, err
	}
	for _, a := range addresses[:min(len(addresses), maxDials)] {
		to := netip.AddrPortFrom(a, use.Port)
		attempt, cancel := context.WithTimeout(ctx, dialTime)
		conn, err = p.cfg.Dial(attempt, to)
		cancel()
		if err == nil {
			use.Address = to
			return use, &metered{Conn: conn, proxy: p}, nil
		}
	}
	return use, nil, fmt.Errorf("connect to %s: %w", use.Name, err)
}

// resolve returns the public addresses of a name. It fails with *refused if the name has addresses, and none of them is public.
func (p *Proxy) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	all, err := p.cfg.Lookup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", name, err)
	}
	var public []netip.Addr
	var reason string
	for _, a := range all {
		if a = a.Unmap(); notPublic(a) == "" {
			public = append(public, a)
		} else {
			reason = notPublic(a)
		}
	}
	switch {
	case len(public) > 0:
		return public, nil
	case reason != "":
		return nil, &refused{"its address is " + reason}
	}
	return nil, fmt.Errorf("resolve %s: it has no address", name)
}

func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", name+".") // the dot: no search domains
}

func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if own, err := net.InterfaceAddrs(); err != nil {
		return nil, err
	} else if isOwn(own, to.Addr()) {
		return nil, &refused{"its address is one of this machine"}
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
}

func (p *Proxy) exceeded() error {
	return &refused{fmt.Sprintf("the sandbox has used its %d bytes of traffic", p.cfg.Bytes)}
}

// metered counts the traffic of a connection, ends it when it is too much, and after idleTime without any.
type metered struct {
	net.Conn
	proxy *Proxy
}

func (m *metered) Read(b []byte) (int, error) { return m.count(m.Conn.Read, b) }

func (m *metered) Write(b []byte) (int, error) { return m.count(m.Conn.Write, b) }

func (m *metered) count(transfer func([]byte) (int, error), b []byte) (int, error) {
	if err := m.SetDeadline(time.Now().Add(idleTime)); err != nil { // for the other direction too
		return 0, err
	}
	n, err := transfer(b)
	if p := m.proxy; p.bytes.Add(int64(n)) > p.cfg.Bytes && err == nil {
		err = p.exceeded()
	}
	return n, err
}

// CloseWrite says that nothing more will be written.
func (m *metered) CloseWrite() error { return closeWrite(m.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// tunnel copies between a client and its target until both have said all, one fails, or the proxy ends. It closes both. early is what
// was read of the client already.
func (p *Proxy) tunnel(client, target net.Conn, early io.Reader) {
	both := func() {
		_ = client.Close() // the copies report nothing: the client sees the end
		_ = target.Close()
	}
	defer both()
	stop := context.AfterFunc(p.ended, both)
	defer stop()
	var back sync.WaitGroup
	back.Go(func() { forward(client, target, both) })
	forward(target, io.MultiReader(early, client), both)
	back.Wait()
}

func forward(to net.Conn, from io.Reader, fail func()) {
	if _, err := io.Copy(to, from); err != nil || closeWrite(to) != nil {
		fail()
	}
}

// serveHTTP serves one request of an HTTP client.
func (p *Proxy) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		panic(http.ErrAbortHandler) // the proxy ends
	}
	defer p.leave()
	switch {
	case r.Method == http.MethodConnect:
		p.serveConnect(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		// It removes the headers that are for the proxy. net/http has taken the host from the URL.
		forwarder := httputil.ReverseProxy{Transport: p.transport, Rewrite: func(*httputil.ProxyRequest) {}, ErrorHandler: fail, ErrorLog: silent()}
		forwarder.ServeHTTP(w, r)
	default:
		http.Error(w, "ctxfs: this is a proxy: send CONNECT, or a request with an absolute http:// URL", http.StatusBadRequest)
	}
}

// fail answers a request whose target could not be reached.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	if isRefused := (*refused)(nil); errors.As(err, &isRefused) {
		status = http.StatusForbidden
	}
	http.Error(w, fmt.Sprintf("ctxfs: no connection to %q: %s", r.URL.Host, reason(err)), status)
}

// reason is the part of an error that a client may see: not the addresses that a name has.
func reason(err error) string {
	var dns *net.DNSError
	if r := (*refused)(nil); errors.As(err, &r) {
		return r.text
	}
	if errors.As(err, &dns) && dns.IsNotFound {
		return "no such name"
	}
	return "it does not answer"
}

func (p *Proxy) serveConnect(w http.ResponseWriter, r *http.Request) {
	target, err := p.open(r.Context(), r.Host)
	if err != nil {
		fail(w, r, err)
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = target.Close() // nothing was sent
		fail(w, r, err)
		return
	}
	_ = client.SetDeadline(time.Time{})
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_, _ = client.Close(), target.Close() // the client left
		return
	}
	p.tunnel(client, target, io.LimitReader(buffered, int64(buffered.Reader.Buffered())))
}
