package server

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/gateway"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/sites"
)

// httpCalls gives the gateway what it needs of the server.
type httpCalls struct{ s *Server }

var _ gateway.Calls = httpCalls{}

type (
	sharedConnKey   struct{}
	acceptedConnKey struct{}
	visitorKey      struct{}
)

// ConnContext implements gateway.Calls.
func (httpCalls) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	for {
		switch c := conn.(type) {
		case *sharedConn:
			return context.WithValue(ctx, sharedConnKey{}, c.info)
		case *acceptedConn:
			return context.WithValue(ctx, acceptedConnKey{}, c)
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return ctx
		}
	}
}

// acceptedConnOf returns the connection of a request to the HTTP address; nil of another.
func acceptedConnOf(ctx context.Context) *acceptedConn {
	c, _ := ctx.Value(acceptedConnKey{}).(*acceptedConn)
	return c
}

// Conn implements gateway.Calls. A request to the HTTP address is a connection of its own, since proxies may send the requests of
// several clients over one.
func (h httpCalls) Conn(ctx context.Context, websocket bool) (credentials.AuthInfo, func()) {
	shared, isShared := ctx.Value(sharedConnKey{}).(*connInfo)
	switch {
	case isShared && websocket:
		return shared, func() {}
	case isShared:
		conn := *shared
		conn.web, conn.http = false, true
		return &conn, func() {}
	}
	conn := &connInfo{id: h.s.connIDs.Add(1), web: websocket, http: !websocket, accepted: acceptedConnOf(ctx), shares: &connShares{}}
	return conn, func() {
		conn.shares.close()
		h.s.closeOwner(hostOwner(conn.id))
	}
}

// Call implements gateway.Calls.
func (h httpCalls) Call(ctx context.Context, rpc string, query any, do func(context.Context, *atomic.Int64) error) error {
	c := h.s.calls.begin(ctx, rpc)
	if query != nil {
		c.about.Store(&about{first: query})
	}
	_, visits := ctx.Value(visitorKey{}).([32]byte)
	run := h.s.streams.run
	if visits {
		run = h.s.streams.runHere // the gateway waits for the handler of a page in any case
	}
	return h.s.calls.around(ctx, c, run, func(ctx context.Context) error {
		if visits { // sessions and content count what they hold themselves
			hold := h.s.calls.shares(ctx, c.id).Replies.Hold()
			defer hold.Release()
			ctx = budget.With(ctx, hold)
		}
		return do(ctx, &c.wrote)
	})
}

// Hold implements gateway.Calls.
func (h httpCalls) Hold(ctx context.Context) (*budget.Hold, error) {
	id, err := h.s.auth.identify(ctx, method.Of(ctxfsv1.ContextService_GetInfo_FullMethodName))
	if err != nil {
		return nil, err
	}
	return h.s.calls.shares(ctx, id).Requests.Hold(), nil
}

// Serve implements gateway.Calls.
func (h httpCalls) Serve(rpc string, stream grpc.ServerStream) error {
	serve, ok := h.s.rpcs[rpc]
	if !ok {
		return &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "this server does not serve " + rpc}
	}
	return serve(stream)
}

// AsVisitor implements gateway.Calls.
func (httpCalls) AsVisitor(ctx context.Context, site sites.Site) context.Context {
	return context.WithValue(ctx, visitorKey{}, site.Hash)
}

// siteURL returns the function that gives a site's URL and origin; nil without Config.Gateway.
func (s *Server) siteURL() func(sites.Form, string) (url, origin string) {
	if s.ls.pages == nil {
		return nil
	}
	return s.gateway.SiteURL
}

// MayReadMetrics implements gateway.Calls.
func (h httpCalls) MayReadMetrics(ctx context.Context, token string) bool {
	if !h.s.auth.metrics.matches(token) && !h.s.auth.host.matches(token) {
		return false
	}
	_ = acceptedConnOf(ctx).authenticated("") // a host has no share to exceed
	return true
}

// Status implements gateway.Calls.
func (h httpCalls) Status() (text string, ready bool) {
	if why := h.s.notReady(); why != "" {
		return why, false
	}
	return "ok\ndriver " + h.s.info.Driver, true
}
