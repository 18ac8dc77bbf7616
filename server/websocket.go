package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/internal/webconn"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// openTime is how long a client may take to say who it is.
const openTime = 10 * time.Second

// sockets serves sessions over WebSocket: what FsService/Session is to gRPC. A page sends
// its token as a message, never by a cookie, so that the browser lends nobody its rights.
type sockets struct {
	fs         *fsservice.Service
	calls      *interceptors
	log        *zap.Logger
	keepalive  time.Duration
	origins    []string // as plainOrigin gives them
	tls        bool
	connIDs    *atomic.Uint64
	closeOwner func(owner string)
	buffers    *webconn.Buffers
	// openTime is how long a client may take to say who it is.
	openTime time.Duration
	// ending ends the wait for open in all requests.
	ending context.Context //nolint:containedctx // of all requests together
	end    context.CancelFunc
	// users are the requests under way.
	users users
}

func newSockets(s *Server) *sockets {
	k := &sockets{
		fs: s.fs, calls: s.calls, log: s.log, keepalive: s.cfg.Keepalive, tls: s.ls.tls != nil, connIDs: &s.connIDs,
		closeOwner: s.closeOwner, buffers: new(webconn.Buffers), openTime: openTime,
	}
	for _, origin := range s.cfg.Origins {
		k.origins = append(k.origins, plainOrigin(origin))
	}
	k.ending, k.end = context.WithCancel(context.Background())
	return k
}

// stop ends those who have not said who they are, and waits for all; the stream table ends the others.
func (k *sockets) stop() {
	k.end()
	k.users.end()
}

// enter counts a request, or refuses it while the server stops.
func (k *sockets) enter(w http.ResponseWriter) bool {
	ok := k.users.enter()
	if !ok {
		say(w, http.StatusServiceUnavailable, "the server is stopping")
	}
	return ok
}

// ServeHTTP implements http.Handler.
func (k *sockets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !k.enter(w) {
		return
	}
	defer k.users.leave()
	if !k.mayAsk(w, r) {
		return
	}
	conn := sharedConnOf(r.Context())
	if conn == nil {
		conn = &connInfo{id: k.connIDs.Add(1), web: true, accepted: acceptedConnOf(r.Context()), shares: &connShares{}}
		defer k.closeOwner(hostOwner(conn.id))
		defer conn.shares.close()
	}
	link, err := k.accept(w, r)
	if err != nil {
		return // and was answered
	}
	link.end(k.session(r, link, conn))
}

// mayAsk refuses requests of pages that are not listed.
func (k *sockets) mayAsk(w http.ResponseWriter, r *http.Request) bool {
	origin, ok := k.allows(r)
	if !ok {
		k.log.Info("a page may not ask here; --origin would let it open a session", zap.String("origin", fserrpb.Printable(origin)))
		say(w, http.StatusForbidden, "pages of this origin may not ask here; --origin lets them open sessions")
	}
	return ok
}

// session serves a session, and returns why it ended.
func (k *sockets) session(r *http.Request, link *webLink, conn *connInfo) error {
	first, err := k.first(link)
	if err != nil {
		return err
	}
	md, err := tokenOf(r, first)
	if err != nil {
		return err
	}
	ctx := metadata.NewIncomingContext(context.WithoutCancel(r.Context()), md)
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: link.conn.RemoteAddr(), AuthInfo: conn})
	return k.calls.around(ctx, k.calls.begin(ctx, ctxfsv1.FsService_Session_FullMethodName), func(ctx context.Context) error {
		if !link.users.enter() {
			return fserr.ECANCELED
		}
		defer link.users.leave()
		link.opened()
		err := k.fs.ServeSession(ctx, first, link, conn.transport())
		if link.left.Load() {
			return nil // in peace
		}
		return err
	})
}

// first receives the first message. It fails when none comes in time, or the server stops.
func (k *sockets) first(link *webLink) (*ctxfsv1.SessionRequest, error) {
	if err := link.conn.AwaitFirst(time.Now().Add(k.openTime)); err != nil {
		return nil, link.gone(err)
	}
	stop := context.AfterFunc(k.ending, link.conn.Interrupt)
	m, err := link.Recv()
	if !stop() {
		return nil, errStopping
	}
	return m, err
}

// tokenOf returns what a gRPC client would send as metadata.
func tokenOf(r *http.Request, first *ctxfsv1.SessionRequest) (metadata.MD, error) {
	if first.GetOpen() == nil {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "the session's first message is not open", Hint: "send open first, once"}
	}
	md, err := headersOf(r)
	if err != nil {
		return nil, err
	}
	token := first.GetOpen().GetToken()
	switch {
	case token == "":
		return md, nil
	case len(md.Get("authorization")) > 0:
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "a token in open and one in Authorization", Hint: "send one of them"}
	}
	md.Set("authorization", "Bearer "+token)
	return md, nil
}

// headersOf returns what of a request is metadata of a gRPC call.
func headersOf(r *http.Request) (metadata.MD, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "the query is malformed", Hint: "encode it as URLs are"}
	}
	md := metadata.MD{}
	for _, key := range []string{"authorization", panelKey, requestIDKey} {
		md.Append(key, r.Header.Values(key)...)
	}
	md.Append(panelKey, query[panelKey]...)
	return md, nil
}

// allows tells whether the page that a request is from may open a session. What sends no
// Origin is no browser; the server's own address is no page.
func (k *sockets) allows(r *http.Request) (origin string, ok bool) {
	switch given := r.Header.Values("Origin"); len(given) {
	case 0:
		return "", true
	case 1:
		origin = plainOrigin(given[0])
	default:
		return strings.Join(given, " "), false
	}
	own := "http://" + r.Host
	if k.tls {
		own = "https://" + r.Host
	}
	return origin, origin == plainOrigin(own) || slices.Contains(k.origins, origin)
}

// plainOrigin returns an origin in small letters and without a port that goes without saying, as browsers send it.
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

// checkOrigin says what is wrong with a configured origin. "file://" is Electron's for pages from files.
func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(u.Host, "*") || (u.Host == "" && u.Scheme != "file") {
		return fmt.Errorf("%q is no origin such as http://localhost:5173", origin)
	}
	return nil
}

// errEncoding refuses a message.
var errEncoding = errors.New("no SessionRequest")
