// Package gateway is the HTTP side of a server: sessions over WebSocket (/v1/session), content (/v1/content), calls in JSON
// (/v1/SERVICE/METHOD), the Model Context Protocol (/v1/mcp), health, metrics and the console. It answers on an address of its own, and on
// connections that begin as HTTP on the gRPC addresses. On a third address, which has nothing of the above, it shows the sites of contexts
// to browsers.
//
// The gateway owns what HTTP adds: origins, host names, deadlines of slow clients, bodies and status codes. It decides nothing about
// callers: each request becomes a call of an RPC (Calls), which its server authenticates, limits and records.
package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/ctxfs/ctxfs/console"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/internal/webconn"
	"github.com/ctxfs/ctxfs/session"
	"github.com/ctxfs/ctxfs/sites"
)

// MaxHeaderBytes bounds the head of a request, in bytes.
const MaxHeaderBytes = 16 << 10

// openTime is how long a client may take to send open.
const openTime = 10 * time.Second

// Calls is what the gateway needs of its server to serve requests as calls.
type Calls interface {
	// ConnContext returns a context for the requests of a connection. conn, or a connection below it (NetConn), is one of the server's.
	ConnContext(ctx context.Context, conn net.Conn) context.Context
	// Conn returns what the calls of a request know of its connection; ctx is the request's. The caller must call done when the
	// request has ended.
	Conn(ctx context.Context, websocket bool) (info credentials.AuthInfo, done func())
	// Call runs do as a call of an RPC by full name: it authenticates, limits and records it. The caller's token and connection are
	// ctx's metadata and peer. do gets a context that ends with the caller's rights, and counts the bytes that it writes to files. query
	// is the request as the records have it; it may be nil. Call may return before do has returned.
	Call(ctx context.Context, rpc string, query any, do func(ctx context.Context, wrote *atomic.Int64) error) error
	// Hold returns what a request to the gateway holds of its panel's memory, for as long as it takes more than the calls that are made for it.
	// The caller's token and connection are ctx's metadata and peer.
	Hold(ctx context.Context) (*budget.Hold, error)
	// Serve serves a call of an RPC that has one request; stream is its link. stream.Context has the metadata and the peer, as ctx of Call,
	// and the transport stream of the call, which has ReceiveRequest.
	Serve(rpc string, stream grpc.ServerStream) error
	// AsVisitor returns a context whose calls are made by a visitor of an open site. They fail with ENOENT once the site has ended.
	AsVisitor(ctx context.Context, site sites.Site) context.Context
	// ExchangeConsole exchanges the code of a console for its token; ctx is the request's, and peer where it came from. It fails with EACCES
	// (console.ErrUsed, console.ErrUnknownCode).
	ExchangeConsole(ctx context.Context, code, peer string) (ConsoleToken, error)
	// MayReadMetrics reports whether a token is the host's or the one for metrics; ctx is the request's.
	MayReadMetrics(ctx context.Context, token string) bool
	// Status returns what /readyz answers.
	Status() (text string, ready bool)
}

// Config of New. All fields are required, except as noted.
type Config struct {
	Calls    Calls
	Files    *fsservice.Service
	Sessions *session.Server
	Log      *zap.Logger
	// Keepalive is how often a silent client is asked for a sign of life, and how long a client may take for a part of content.
	Keepalive time.Duration
	// Origins are the pages that may send requests, in the form that CheckOrigin accepts; nil for none.
	Origins []string
	// TLS says that clients speak TLS. Without it only names of this machine are served.
	TLS bool
	// Console answers the requests for files of the console, on the gateway's own address alone; nil for none.
	Console http.Handler
	// Metrics answers /metrics, for hosts and for programs with the metrics token; nil for none.
	Metrics http.Handler
	// Sites are the sites that ServePages serves. It may be nil if ServePages is not called.
	Sites *sites.Registry
	// PagesAt is where browsers find the sites. Requests by a name of it are refused on all other addresses.
	PagesAt Place
	// Version of the program.
	Version string
	// Compress says that the texts of sites are compressed, which costs more than it saves on loopback.
	Compress bool
}

// Gateway answers HTTP. Make it with New.
type Gateway struct {
	cfg Config
	// Own serves the gateway's own address, Shared the connections that were passed to Take. Their timeouts may be changed before
	// Serve.
	Own, Shared *http.Server
	// pages serves sites.
	pages *http.Server
	// OpenTime is how long a client may take to send open. It may be changed before Serve.
	OpenTime time.Duration

	origins []string // as plainOrigin returns them
	taken   *takenConns
	buffers webconn.Buffers
	// codec encodes what RPCs send.
	codec *codec.Codec
	// ending ends the wait for open in all requests.
	ending context.Context //nolint:containedctx // it belongs to all requests
	end    context.CancelCauseFunc
	// requests are those under way.
	requests users
	feeds    feeds
	mcp      *mcpTable
	// MCPIdle is how long an MCP session without a request stays. It may be changed before Serve.
	MCPIdle time.Duration
}

// New returns a Gateway. Call Serve and ServeTaken, and then Stop.
func New(cfg Config) *Gateway {
	g := &Gateway{cfg: cfg, OpenTime: openTime, MCPIdle: mcpIdle, taken: newTakenConns(), codec: codec.New(codec.NewPool())}
	for _, origin := range cfg.Origins {
		g.origins = append(g.origins, plainOrigin(origin))
	}
	g.mcp = newMCPTable(g)
	g.feeds.g, g.feeds.by = g, map[[32]byte]*feed{}
	g.ending, g.end = context.WithCancelCause(context.Background())
	shared, own := http.NewServeMux(), http.NewServeMux()
	for _, m := range []*http.ServeMux{shared, own} {
		m.HandleFunc("GET /v1/session", g.serveSession)
		m.HandleFunc("GET /v1/content", g.getContent)
		m.HandleFunc("PUT /v1/content", g.putContent)
		m.HandleFunc("OPTIONS /v1/content", g.preflight)
		m.HandleFunc("/v1/{service}/{method}", g.serveRPC)
		m.HandleFunc("GET /v1/openapi.json", g.serveOpenAPI)
		m.HandleFunc("/v1/mcp", g.serveMCP)
	}
	shared.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusNotFound, "this address speaks gRPC, and HTTP at /v1: GET /v1/openapi.json lists the RPCs")
	})
	if g.cfg.Console != nil {
		own.HandleFunc(console.Path, g.serveConsole)
		own.HandleFunc("POST /v1/console/exchange", g.exchangeConsole)
	}
	own.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	own.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		text, ready := g.cfg.Calls.Status()
		if !ready {
			say(w, http.StatusServiceUnavailable, text)
			return
		}
		say(w, http.StatusOK, text)
	})
	if g.cfg.Metrics != nil {
		own.Handle("GET /metrics", g.metricsOnly(g.cfg.Metrics))
	}
	g.Own, g.Shared = g.newServer(g.ownNamesOnly(own)), g.newServer(g.ownNamesOnly(shared))
	g.pages = g.newServer(http.HandlerFunc(g.servePage))
	return g
}

func (g *Gateway) newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: oneHostOnly(handler), DisableGeneralOptionsHandler: true, ConnContext: g.connContext, ConnState: followState,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: MaxHeaderBytes, ErrorLog: zap.NewStdLog(g.cfg.Log),
	}
}

// Serve answers on the gateway's own address, until Stop. Its error is as of http.Server.Serve.
func (g *Gateway) Serve(l net.Listener) error { return g.Own.Serve(tailListener{l}) }

// ServeTaken answers on the connections that were passed to Take, until Stop. Its error is as of http.Server.Serve.
func (g *Gateway) ServeTaken() error { return g.Shared.Serve(tailListener{g.taken}) }

// ServePages answers on the address of sites, until Stop; secure is nil for plain text. Its error is as of http.Server.Serve.
func (g *Gateway) ServePages(l net.Listener, secure *tls.Config) error {
	if secure == nil {
		return g.pages.Serve(tailListener{l})
	}
	secure = secure.Clone()
	secure.NextProtos = []string{"h2", "http/1.1"}
	return g.pages.Serve(tls.NewListener(l, secure))
}

// Take passes a connection that begins with an HTTP request to ServeTaken. After Stop it closes the connection.
func (g *Gateway) Take(conn net.Conn) { g.taken.take(conn) }

// Drain refuses further requests, ends those that wait for open, with the reason why, and waits for the others until ctx ends.
func (g *Gateway) Drain(ctx context.Context, why error) {
	g.end(why)
	ended := make(chan struct{})
	go func() {
		g.requests.end()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// Stop closes the connections, once their requests have ended or within has passed. Sessions and transfers end with their calls; Stop
// waits for them.
func (g *Gateway) Stop(within time.Duration, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, server := range []*http.Server{g.Own, g.Shared, g.pages} {
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
	_ = g.taken.Close()
	g.end(why)
	g.requests.end()
}

// enter counts a request until it leaves. It refuses the request of a page that is not allowed, and all while the server stops.
func (g *Gateway) enter(w http.ResponseWriter, r *http.Request) bool {
	if !g.requests.enter() {
		say(w, http.StatusServiceUnavailable, "the server is stopping")
		return false
	}
	origin, ok := g.allows(r)
	if !ok {
		defer g.requests.leave()
		g.cfg.Log.Info("a page may not ask here; --origin would let it open a session", zap.String("origin", fserrpb.Printable(withoutCapability(origin))))
		say(w, http.StatusForbidden, "pages of this origin may not ask here; --origin lets them open sessions")
	}
	return ok
}

// callContext returns the context of a request's call: with metadata, if there is any, and peer, as gRPC gives them.
func callContext(ctx context.Context, r *http.Request, md metadata.MD, conn credentials.AuthInfo) context.Context {
	if md != nil {
		ctx = metadata.NewIncomingContext(ctx, md)
	}
	return peer.NewContext(ctx, &peer.Peer{Addr: remoteAddr(r.RemoteAddr), AuthInfo: conn})
}

// headersOf returns what of a request is metadata of a gRPC call.
func (g *Gateway) headersOf(r *http.Request) (metadata.MD, error) {
	if err := g.checkConsole(r); err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "the query is malformed", Hint: "encode it as URLs are"}
	}
	md := metadata.MD{}
	for _, key := range []string{"authorization", method.PanelKey, method.RequestIDKey} {
		md.Append(key, r.Header.Values(key)...)
	}
	md.Append(method.PanelKey, query[method.PanelKey]...)
	return md, nil
}

// remoteAddr is the address of a request's client.
type remoteAddr string

// Network implements net.Addr.
func (remoteAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a remoteAddr) String() string { return string(a) }

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n")) // the client may be gone
}

// metricsOnly requires the metrics token or the host token.
func (g *Gateway) metricsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "bearer") || !g.cfg.Calls.MayReadMetrics(r.Context(), strings.TrimSpace(token)) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			say(w, http.StatusUnauthorized, "send 'Authorization: Bearer TOKEN' with the metrics token or the host token")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// oneHostOnly refuses requests whose parts could name several hosts: a proxy may look at another part than this server.
func oneHostOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !oneHost(r) {
			plainHeaders(w.Header())
			if r.ContentLength != 0 {
				w.Header().Set("Connection", "close") // a proxy may disagree about the body as well
			}
			say(w, http.StatusMisdirectedRequest, "send a path as the target, and one name of a host")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// oneHost reports whether a request names one host. net/http leaves an HTTP/2 request's Host beside its :authority for the
// handler to compare. Of an HTTP/1 request whose target is a whole URL, or a host, it takes that host and forgets the Host
// header, so only paths are admitted.
func oneHost(r *http.Request) bool {
	isPath := strings.HasPrefix(r.RequestURI, "/") || r.RequestURI == "*"
	return isPath && !slices.ContainsFunc(r.Header.Values("Host"), func(other string) bool { return other != r.Host })
}

// ownNamesOnly refuses requests by the names of sites, whose pages are not trusted, and, unless clients speak TLS, by other names than
// this machine's own. A web page could point a name of its site at 127.0.0.1, and read from here (DNS rebinding).
func (g *Gateway) ownNamesOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		switch {
		case g.cfg.TLS && g.cfg.PagesAt.Has(host):
			say(w, http.StatusMisdirectedRequest, "this is a name of sites (--gateway-domain); use a name of this address")
		case !g.cfg.TLS && !IsLoopback(strings.Trim(host, "[]")):
			say(w, http.StatusForbidden, "use 127.0.0.1, [::1] or localhost")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// IsLoopback reports whether only this machine reaches host; "" means every interface.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// allows reports whether the page that sent a request may send it. A client without an Origin is no browser. The server's own address
// is allowed: its only page is the console.
func (g *Gateway) allows(r *http.Request) (origin string, ok bool) {
	switch given := r.Header.Values("Origin"); len(given) {
	case 0:
		return "", true
	case 1:
		origin = plainOrigin(given[0])
	default:
		return strings.Join(given, " "), false
	}
	return origin, g.isOwn(origin, r) || slices.Contains(g.origins, origin)
}

// isOwn reports whether an origin is the address that a request was sent to.
func (g *Gateway) isOwn(origin string, r *http.Request) bool {
	own := "http://" + r.Host
	if g.cfg.TLS {
		own = "https://" + r.Host
	}
	return origin == plainOrigin(own)
}

// plainOrigin returns an origin in lower case and without the default port, as browsers send it.
func plainOrigin(origin string) string {
	origin = strings.ToLower(origin)
	if host, ok := strings.CutSuffix(origin, ":80"); ok && strings.HasPrefix(origin, "http://") {
		return host
	}
	if host, ok := strings.CutSuffix(origin, ":443"); ok && strings.HasPrefix(origin, "https://") {
		return host
	}
	return origin
}

// CheckOrigin reports what is wrong with a configured origin. "file://" is Electron's for pages from files.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(u.Host, "*") || (u.Host == "" && u.Scheme != "file") {
		return fmt.Errorf("%q is no origin such as http://localhost:5173", origin)
	}
	return nil
}

// users are the goroutines that use what ends when its owner returns. The zero value has none.
type users struct {
	mu    sync.Mutex
	ended bool
	using sync.WaitGroup
}

// enter returns false once the end has begun.
func (u *users) enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended {
		u.using.Add(1)
	}
	return !u.ended
}

func (u *users) leave() { u.using.Done() }

// close makes enter fail from now on.
func (u *users) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
}

// end closes, and waits for all to leave.
func (u *users) end() {
	u.close()
	u.using.Wait()
}
