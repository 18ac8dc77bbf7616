package client

import (
	"context"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (c *Client) gateway() ctxfsv1.GatewayServiceClient {
	return ctxfsv1.NewGatewayServiceClient(c.conn)
}

// OpenSite shows a context's files to browsers until the site is closed or its life is over; life 0 means 24 h. contextID "" is the
// panel's own. The URL in the response gives access to whoever has it, and is returned once. The server needs --gateway.
func (c *Client) OpenSite(ctx context.Context, contextID string, o *ctxfsv1.SiteOptions, life time.Duration) (*ctxfsv1.OpenSiteResponse, error) {
	r, err := c.gateway().OpenSite(ctx, &ctxfsv1.OpenSiteRequest{ContextId: contextID, Options: o, TtlMs: life.Milliseconds()})
	return r, convert("opensite", err)
}

// OpenSite opens a site of the panel's context, with the panel's rights. The site ends with the panel, and with the token that the panel
// has now.
func (p *Panel) OpenSite(ctx context.Context, o *ctxfsv1.SiteOptions, life time.Duration) (*ctxfsv1.OpenSiteResponse, error) {
	conn := identityConn{cc: p.client.cc, id: identity{token: p.bearer}}
	r, err := ctxfsv1.NewGatewayServiceClient(conn).OpenSite(ctx, &ctxfsv1.OpenSiteRequest{Options: o, TtlMs: life.Milliseconds()})
	return r, convert("opensite", err)
}

// CloseSite closes a site by its ID.
func (c *Client) CloseSite(ctx context.Context, id string) error {
	_, err := c.gateway().CloseSite(ctx, &ctxfsv1.CloseSiteRequest{SiteId: id})
	return convert("closesite", err)
}

// ListSites lists the open sites of a context, oldest first; "" means all contexts.
func (c *Client) ListSites(ctx context.Context, contextID string) ([]*ctxfsv1.Site, error) {
	r, err := c.gateway().ListSites(ctx, &ctxfsv1.ListSitesRequest{ContextId: contextID})
	return r.GetSites(), convert("listsites", err)
}

// RenewSite sets the life of a site, counted from now; 0 means 24 h.
func (c *Client) RenewSite(ctx context.Context, id string, life time.Duration) (*ctxfsv1.Site, error) {
	r, err := c.gateway().RenewSite(ctx, &ctxfsv1.RenewSiteRequest{SiteId: id, TtlMs: life.Milliseconds()})
	return r.GetSite(), convert("renewsite", err)
}
