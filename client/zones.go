package client

import (
	"context"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// WithZones gives a new context these zones instead of those of the context-zones.yml beside the panel's source. Direct zones trust the panel with
// real directories.
func WithZones(l *ctxfsv1.ZoneLayout) PanelOption {
	return func(r *ctxfsv1.OpenPanelRequest) { r.Zones = l }
}

func (c *Client) zones() ctxfsv1.ZoneServiceClient { return ctxfsv1.NewZoneServiceClient(c.conn) }

// ExplainZones checks what a layout means on the server, and changes nothing. If l is nil it is the context-zones.yml in a folder of the
// workspace.
func (c *Client) ExplainZones(ctx context.Context, l *ctxfsv1.ZoneLayout, folder string) (*ctxfsv1.ExplainZonesResponse, error) {
	r, err := c.zones().ExplainZones(ctx, &ctxfsv1.ExplainZonesRequest{Layout: l, Folder: folder})
	return r, convert("explainzones", err)
}

// ListZones lists the zones of a context. With measure it sums up the sizes of their files, which reads all of their directories.
func (c *Client) ListZones(ctx context.Context, contextID string, measure bool) (*ctxfsv1.ListZonesResponse, error) {
	r, err := c.zones().ListZones(ctx, &ctxfsv1.ListZonesRequest{ContextId: contextID, Measure: measure})
	return r, convert("listzones", err)
}

// ResolvePath returns where a path of a context is on the server's disk.
func (c *Client) ResolvePath(ctx context.Context, contextID, path string) (string, error) {
	path, raw := twin(path)
	r, err := c.zones().ResolvePath(ctx, &ctxfsv1.ResolvePathRequest{ContextId: contextID, Path: path, RawPath: raw})
	return untwin(r.GetDir(), r.GetRawDir()), convert("realpath", err)
}

// ClearZone removes everything in a zone that is never committed, and returns how many entries it removed.
func (c *Client) ClearZone(ctx context.Context, contextID, zone string) (int64, error) {
	r, err := c.zones().ClearZone(ctx, &ctxfsv1.ClearZoneRequest{ContextId: contextID, Zone: zone})
	return r.GetRemoved(), convert("clearzone", err)
}
