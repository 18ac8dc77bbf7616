package client

import (
	"context"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (c *Client) contexts() ctxfsv1.ContextServiceClient {
	return ctxfsv1.NewContextServiceClient(c.conn)
}

// EnsureContext makes a context ready, seeding it when it is missing. progress may be nil.
// Cancelling leaves the seeding running. seedFrom is as in SeedFrom.
func (c *Client) EnsureContext(ctx context.Context, id string, progress func(*ctxfsv1.SeedProgress), seedFrom ...string) (*ctxfsv1.EnsureReady, error) {
	return c.ensure(ctx, &ctxfsv1.EnsureContextRequest{ContextId: id, SeedFrom: seedFrom}, progress)
}

// Ensure is EnsureContext with all that a request can say.
func (c *Client) Ensure(ctx context.Context, req *ctxfsv1.EnsureContextRequest, progress func(*ctxfsv1.SeedProgress)) (*ctxfsv1.EnsureReady, error) {
	return c.ensure(ctx, req, progress)
}

// EnsurePanelContext is EnsureContext of the context that a panel would get.
func (c *Client) EnsurePanelContext(ctx context.Context, panelID string, progress func(*ctxfsv1.SeedProgress), seedFrom ...string) (*ctxfsv1.EnsureReady, error) {
	return c.ensure(ctx, &ctxfsv1.EnsureContextRequest{PanelId: panelID, SeedFrom: seedFrom}, progress)
}

func (c *Client) ensure(ctx context.Context, req *ctxfsv1.EnsureContextRequest, progress func(*ctxfsv1.SeedProgress)) (*ctxfsv1.EnsureReady, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.contexts().EnsureContext(ctx, req)
	for err == nil {
		var r *ctxfsv1.EnsureContextResponse
		if r, err = s.Recv(); err != nil {
			break
		}
		if r.GetReady() != nil {
			return r.GetReady(), nil
		}
		if progress != nil && r.GetProgress() != nil {
			progress(r.GetProgress())
		}
	}
	return nil, convert("ensurecontext", unlessEnded(err))
}

// GetContext describes a context; its state is CONTEXT_STATE_MISSING when there is none.
func (c *Client) GetContext(ctx context.Context, id string) (*ctxfsv1.Context, error) {
	r, err := c.contexts().GetContext(ctx, &ctxfsv1.GetContextRequest{ContextId: id})
	return r.GetContext(), convert("getcontext", err)
}

// ListContexts lists the contexts, by ID. With label selectors it lists those whose labels match all of them: "key=value", "key" or "!key".
func (c *Client) ListContexts(ctx context.Context, labelSelectors ...string) ([]*ctxfsv1.Context, error) {
	r, err := c.contexts().ListContexts(ctx, &ctxfsv1.ListContextsRequest{LabelSelectors: labelSelectors})
	return r.GetContexts(), convert("listcontexts", err)
}

// Info describes the caller's own context or, for a host, the context that id names.
func (c *Client) Info(ctx context.Context, id string) (*ctxfsv1.GetInfoResponse, error) {
	r, err := c.contexts().GetInfo(ctx, &ctxfsv1.GetInfoRequest{ContextId: id})
	return r, convert("getinfo", err)
}

// Discard says what DeleteContext and Restore do to a context with changes that were not applied.
type Discard bool

// What becomes of changes that were not applied.
const (
	// KeepChanges refuses the call: it fails with ReasonNotApplied.
	KeepChanges Discard = false
	// DiscardChanges loses them.
	DiscardChanges Discard = true
)

// DeleteContext removes a context for good, and says how many entries it held. discard says what becomes of changes that were not
// applied, in the context or in one of its snapshots.
func (c *Client) DeleteContext(ctx context.Context, id string, discard Discard) (removed int64, err error) {
	r, err := c.contexts().DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: id, DiscardChanges: bool(discard)})
	return r.GetRemoved(), reviewError("deletecontext", err)
}

// SetLabels sets and removes labels of a context, and returns all that it has then. It fails with EINVAL if they are bad or more than 16.
func (c *Client) SetLabels(ctx context.Context, id string, put map[string]string, remove ...string) (map[string]string, error) {
	r, err := c.contexts().SetLabels(ctx, &ctxfsv1.SetLabelsRequest{ContextId: id, Put: put, Remove: remove})
	return r.GetLabels(), convert("setlabels", err)
}

// SetPanelLabels is SetLabels of a panel.
func (c *Client) SetPanelLabels(ctx context.Context, panelID string, put map[string]string, remove ...string) (map[string]string, error) {
	r, err := c.panelService().SetPanelLabels(ctx, &ctxfsv1.SetPanelLabelsRequest{PanelId: panelID, Put: put, Remove: remove})
	return r.GetLabels(), convert("setpanellabels", err)
}

// PlanSeed says what seeding a context now would copy. largest is how many of the largest
// directories to name; 0 means 10. seedFrom is as in SeedFrom.
func (c *Client) PlanSeed(ctx context.Context, largest int, seedFrom ...string) (*ctxfsv1.PlanSeedResponse, error) {
	r, err := c.contexts().PlanSeed(ctx, &ctxfsv1.PlanSeedRequest{Largest: int32(min(max(largest, 0), 1000)), SeedFrom: seedFrom})
	return r, convert("planseed", err)
}
