package client

import (
	"context"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Fork makes a context with what another one holds now, as of one moment; both go on apart. It is EEXIST when the new one is
// there. Cancelling leaves nothing.
func (c *Client) Fork(ctx context.Context, from, to string) (*ctxfsv1.Context, error) {
	return c.fork(ctx, &ctxfsv1.ForkRequest{ContextId: from, NewContextId: to})
}

// ForkForPanel is Fork to the context that a panel gets when it is opened.
func (c *Client) ForkForPanel(ctx context.Context, from, panelID string) (*ctxfsv1.Context, error) {
	return c.fork(ctx, &ctxfsv1.ForkRequest{ContextId: from, NewPanelId: panelID})
}

func (c *Client) fork(ctx context.Context, req *ctxfsv1.ForkRequest) (*ctxfsv1.Context, error) {
	r, err := c.contexts().Fork(ctx, req)
	return r.GetContext(), convert("fork", err)
}

// Snapshot keeps what a context holds now under a name; EEXIST when the name is taken.
func (c *Client) Snapshot(ctx context.Context, id, name string) (*ctxfsv1.SnapshotInfo, error) {
	r, err := c.contexts().Snapshot(ctx, &ctxfsv1.SnapshotRequest{ContextId: id, Name: name})
	return r.GetSnapshot(), convert("snapshot", err)
}

// ListSnapshots lists the snapshots of a context, oldest first.
func (c *Client) ListSnapshots(ctx context.Context, id string) ([]*ctxfsv1.SnapshotInfo, error) {
	r, err := c.contexts().ListSnapshots(ctx, &ctxfsv1.ListSnapshotsRequest{ContextId: id})
	return r.GetSnapshots(), convert("listsnapshots", err)
}

// Restore puts what a snapshot holds in place of what a context holds, which is lost. Open handles become ESTALE.
func (c *Client) Restore(ctx context.Context, id, name string) (*ctxfsv1.Context, error) {
	r, err := c.contexts().Restore(ctx, &ctxfsv1.RestoreRequest{ContextId: id, Name: name})
	return r.GetContext(), convert("restore", err)
}

// DeleteSnapshot removes a snapshot for good.
func (c *Client) DeleteSnapshot(ctx context.Context, id, name string) error {
	_, err := c.contexts().DeleteSnapshot(ctx, &ctxfsv1.DeleteSnapshotRequest{ContextId: id, Name: name})
	return convert("deletesnapshot", err)
}

// CollectGarbage removes what nothing refers to any more, and contexts that have not been used for long if the request asks for
// them, and says what.
func (c *Client) CollectGarbage(ctx context.Context, req *ctxfsv1.CollectGarbageRequest) ([]*ctxfsv1.Garbage, error) {
	r, err := c.contexts().CollectGarbage(ctx, req)
	return r.GetRemoved(), convert("collectgarbage", err)
}

// MeasureContext is GetContext with what the context takes on disk, for which all its directories are read.
func (c *Client) MeasureContext(ctx context.Context, id string) (*ctxfsv1.Context, error) {
	r, err := c.contexts().GetContext(ctx, &ctxfsv1.GetContextRequest{ContextId: id, Sizes: true})
	return r.GetContext(), convert("getcontext", err)
}

// MeasureContexts is ListContexts with what each takes on disk.
func (c *Client) MeasureContexts(ctx context.Context) ([]*ctxfsv1.Context, error) {
	r, err := c.contexts().ListContexts(ctx, &ctxfsv1.ListContextsRequest{Sizes: true})
	return r.GetContexts(), convert("listcontexts", err)
}
