package client

import (
	"context"
	"errors"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Fork creates a context as a point-in-time copy of another one. Later changes to one do not affect the other. It fails with
// EEXIST if the new context exists. A cancelled Fork leaves nothing behind.
func (c *Client) Fork(ctx context.Context, from, to string) (*ctxfsv1.Context, error) {
	return c.ForkContext(ctx, &ctxfsv1.ForkRequest{ContextId: from, NewContextId: to})
}

// ForkForPanel is Fork to the context that a panel gets when it is opened.
func (c *Client) ForkForPanel(ctx context.Context, from, panelID string) (*ctxfsv1.Context, error) {
	return c.ForkContext(ctx, &ctxfsv1.ForkRequest{ContextId: from, NewPanelId: panelID})
}

// ForkContext is Fork with all that a request can say.
func (c *Client) ForkContext(ctx context.Context, req *ctxfsv1.ForkRequest) (*ctxfsv1.Context, error) {
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

// Restore puts what a snapshot holds in place of what a context holds, which is lost. Open handles become ESTALE. discard says
// what becomes of changes that were not applied.
func (c *Client) Restore(ctx context.Context, id, name string, discard Discard) (*ctxfsv1.Context, error) {
	r, err := c.contexts().Restore(ctx, &ctxfsv1.RestoreRequest{ContextId: id, Name: name, DiscardChanges: bool(discard)})
	return r.GetContext(), reviewError("restore", err)
}

// DeleteSnapshot removes a snapshot for good.
func (c *Client) DeleteSnapshot(ctx context.Context, id, name string) error {
	_, err := c.contexts().DeleteSnapshot(ctx, &ctxfsv1.DeleteSnapshotRequest{ContextId: id, Name: name})
	return convert("deletesnapshot", err)
}

// CollectGarbage removes what nothing refers to any more, and contexts that have not been used for long if the request asks for
// them, and returns what it removed. The error says what it could not remove; the rest is removed all the same.
func (c *Client) CollectGarbage(ctx context.Context, req *ctxfsv1.CollectGarbageRequest) ([]*ctxfsv1.Garbage, error) {
	r, err := c.Collect(ctx, req)
	return r.GetRemoved(), err
}

// Collect is CollectGarbage that also returns what was decided on contexts.
func (c *Client) Collect(ctx context.Context, req *ctxfsv1.CollectGarbageRequest) (*ctxfsv1.CollectGarbageResponse, error) {
	r, err := c.contexts().CollectGarbage(ctx, req)
	if err != nil {
		return nil, convert("collectgarbage", err)
	}
	errs := make([]error, 0, len(r.GetFailures()))
	for _, f := range r.GetFailures() {
		errs = append(errs, &GarbageError{Kind: f.GetKind(), Name: f.GetName(), Reason: f.GetReason(), Message: f.GetMessage()})
	}
	return r, errors.Join(errs...)
}

// GarbageError is something that CollectGarbage could not remove.
type GarbageError struct {
	// Kind is GARBAGE_KIND_UNSPECIFIED when the collection ended before it could look for everything.
	Kind ctxfsv1.GarbageKind
	// Name is as of ctxfsv1.Garbage.
	Name string
	// Reason is the errno's name, Message the server's words.
	Reason, Message string
}

// Error names the thing and says what happened.
func (e *GarbageError) Error() string {
	if e.Name == "" {
		return e.Message
	}
	return e.Name + ": " + e.Message
}

// MeasureContext is GetContext with what the context takes on disk, for which all its directories are read.
func (c *Client) MeasureContext(ctx context.Context, id string) (*ctxfsv1.Context, error) {
	r, err := c.contexts().GetContext(ctx, &ctxfsv1.GetContextRequest{ContextId: id, Sizes: true})
	return r.GetContext(), convert("getcontext", err)
}

// MeasureContexts is ListContexts with what each takes on disk. SizesError of a context says why it could not be measured.
func (c *Client) MeasureContexts(ctx context.Context, labelSelectors ...string) ([]*ctxfsv1.Context, error) {
	r, err := c.contexts().ListContexts(ctx, &ctxfsv1.ListContextsRequest{Sizes: true, LabelSelectors: labelSelectors})
	return r.GetContexts(), convert("listcontexts", err)
}
