package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// panelKey is the metadata, or the header, by which a host acts for a panel.
const panelKey = "ctxfs-panel"

// identity is as whom calls are made.
type identity struct {
	// token gives the current bearer token; "" for none.
	token func() string
	// panel is the one a host acts for.
	panel string
}

func (i identity) attach(ctx context.Context) context.Context {
	if t := i.token(); t != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+t)
	}
	if i.panel != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, panelKey, i.panel)
	}
	return ctx
}

// identityConn makes calls on a shared connection under one identity, so that a host and
// its panels need but one connection.
type identityConn struct {
	cc *grpc.ClientConn
	id identity
}

// Invoke implements grpc.ClientConnInterface.
func (c identityConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.cc.Invoke(c.id.attach(ctx), method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c identityConn) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.cc.NewStream(c.id.attach(ctx), d, method, opts...)
}
