package client

import (
	"context"
	"errors"
	"sync"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// renewRetry is how long a failed renewal waits for the next.
const renewRetry = 10 * time.Second

// PanelOption of OpenPanel.
type PanelOption func(*ctxfsv1.OpenPanelRequest)

// InContext shares a context by its ID instead of the panel's own.
func InContext(id string) PanelOption {
	return func(r *ctxfsv1.OpenPanelRequest) { r.ContextId = id }
}

// FromTemplate makes the context from the template at path, a folder or file of the workspace, instead of from the one beside
// the panel's source, or from the workspace.
func FromTemplate(path string) PanelOption {
	return func(r *ctxfsv1.OpenPanelRequest) { r.Template = path }
}

// SeedFrom makes the context from these repositories and folders of the workspace alone, each relative to the workspace. They keep their
// paths. A context that exists must have been made from the same.
func SeedFrom(folders ...string) PanelOption {
	return func(r *ctxfsv1.OpenPanelRequest) { r.SeedFrom = append(r.SeedFrom, folders...) }
}

// Unsafe lets the panel use an unsafe_noctx context, which starts empty; without InContext it gets one of its own.
func Unsafe() PanelOption { return func(r *ctxfsv1.OpenPanelRequest) { r.Unsafe = true } }

// ReadOnly refuses mutations to the panel.
func ReadOnly() PanelOption { return func(r *ctxfsv1.OpenPanelRequest) { r.ReadOnly = true } }

// CanReview lets the panel review the changes of other panels' contexts. Opening the panel again without it ends its older tokens.
func CanReview() PanelOption {
	return func(r *ctxfsv1.OpenPanelRequest) { r.Rights = append(r.Rights, ctxfsv1.PanelRight_PANEL_RIGHT_REVIEW) }
}

// CanExec lets the panel run commands in its context. Opening the panel again without it ends its older tokens.
func CanExec() PanelOption {
	return func(r *ctxfsv1.OpenPanelRequest) { r.Rights = append(r.Rights, ctxfsv1.PanelRight_PANEL_RIGHT_EXEC) }
}

// WithLabels gives the panel labels beside those that it has. Its context gets them too if it is the panel's own, or if this opening made it.
func WithLabels(labels map[string]string) PanelOption {
	return func(r *ctxfsv1.OpenPanelRequest) { r.Labels = labels }
}

// TokenLife is how long each token lives, instead of the server's 24 hours.
func TokenLife(d time.Duration) PanelOption {
	return func(r *ctxfsv1.OpenPanelRequest) { r.TtlMs = d.Milliseconds() }
}

// Panel is an open panel, with a token that is renewed in the background until Close.
type Panel struct {
	client *Client
	opened *ctxfsv1.OpenPanelResponse
	ttl    int64
	fs     *fsClient

	mu      sync.Mutex
	token   string
	expires time.Time

	stop context.CancelFunc
	wg   sync.WaitGroup
}

func (c *Client) panelService() ctxfsv1.PanelServiceClient {
	return ctxfsv1.NewPanelServiceClient(c.conn)
}

// OpenPanel binds a panel to its context, seeds the context if it is missing, and gets a token. Opening a panel again is a
// reload: it returns the same context with another token. If the panel's template now resolves to something else, OpenPanel
// returns a new context, and other clients that have the panel open must open it again.
func (c *Client) OpenPanel(ctx context.Context, id string, opts ...PanelOption) (*Panel, error) {
	req := &ctxfsv1.OpenPanelRequest{PanelId: id}
	for _, o := range opts {
		o(req)
	}
	r, err := c.panelService().OpenPanel(ctx, req)
	if err != nil {
		return nil, convert("openpanel", err)
	}
	p := &Panel{client: c, opened: r, ttl: req.GetTtlMs(), token: r.GetToken(), expires: time.Unix(0, r.GetExpiresNs())}
	p.fs = newFSClient(identityConn{cc: c.cc, id: identity{token: p.bearer}}, c.web, c.unary)
	renewal, stop := context.WithCancel(context.Background())
	p.stop = stop
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		stop()
		p.fs.close()
		return nil, errors.New("the client was closed while the panel opened")
	}
	c.panels[p] = struct{}{}
	p.wg.Go(func() { p.renewLoop(renewal) })
	return p, nil
}

// ClosePanel revokes a panel's tokens and closes its handles. Its folder stays.
func (c *Client) ClosePanel(ctx context.Context, id string) (*ctxfsv1.ClosePanelResponse, error) {
	r, err := c.panelService().ClosePanel(ctx, &ctxfsv1.ClosePanelRequest{PanelId: id})
	return r, convert("closepanel", err)
}

// ListPanels lists the panels, by ID. labelSelectors are as in ListContexts.
func (c *Client) ListPanels(ctx context.Context, labelSelectors ...string) ([]*ctxfsv1.Panel, error) {
	r, err := c.panelService().ListPanels(ctx, &ctxfsv1.ListPanelsRequest{LabelSelectors: labelSelectors})
	return r.GetPanels(), convert("listpanels", err)
}

// RenewToken returns another token for an open panel; ttl 0 means the server's default. A Panel renews its token automatically.
func (c *Client) RenewToken(ctx context.Context, id string, ttl time.Duration) (token string, expires time.Time, err error) {
	r, err := c.panelService().RenewToken(ctx, &ctxfsv1.RenewTokenRequest{PanelId: id, TtlMs: ttl.Milliseconds()})
	return r.GetToken(), time.Unix(0, r.GetExpiresNs()), convert("renewtoken", err)
}

// ID is the panel's.
func (p *Panel) ID() string { return p.opened.GetPanelId() }

// ContextID is that of its folder.
func (p *Panel) ContextID() string { return p.opened.GetContextId() }

// Partition is the Electron session partition, "persist:" and the context ID.
func (p *Panel) Partition() string { return p.opened.GetPartition() }

// Opened returns the server's answer to OpenPanel, which says how the context was seeded.
func (p *Panel) Opened() *ctxfsv1.OpenPanelResponse { return p.opened }

// Token is the current bearer token, and when it ends.
func (p *Panel) Token() (token string, expires time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.token, p.expires
}

func (p *Panel) bearer() string {
	t, _ := p.Token()
	return t
}

// FS is the panel's folder, with the panel's rights, not the host's.
func (p *Panel) FS() *FS { return p.Context("") }

// Context is a context by its ID, with the panel's rights: the server refuses all but its own.
func (p *Panel) Context(id string) *FS {
	return &FS{ctx: context.Background(), rpc: p.fs, buffers: p.client.buffers, id: id}
}

// Review returns the review of a context, with the panel's rights; "" is its own. Others need CanReview.
func (p *Panel) Review(contextID string) *Review { return &Review{p, contextID} }

func (p *Panel) reviews() ctxfsv1.ReviewServiceClient {
	return ctxfsv1.NewReviewServiceClient(identityConn{cc: p.client.cc, id: identity{token: p.bearer}})
}

// Close ends the session, whose handles the server closes after its grace, and the renewal
// of the token. The panel stays open on the server, with this token until it expires: other
// copies of it may run; calls of this one are RPCs of their own from now on. Client.ClosePanel
// ends it for all.
func (p *Panel) Close() error {
	p.client.mu.Lock()
	delete(p.client.panels, p)
	p.client.mu.Unlock()
	p.end()
	return nil
}

func (p *Panel) end() {
	p.stop()
	p.wg.Wait()
	p.fs.close()
}

// renewLoop renews the token after two thirds of its life. It retries after failures, until ctx ends.
func (p *Panel) renewLoop(ctx context.Context) {
	_, expires := p.Token()
	wait := max(time.Until(expires)*2/3, time.Second)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = p.renew(ctx)
	}
}

// renew gets a new token, and returns how long to wait for the next.
func (p *Panel) renew(ctx context.Context) time.Duration {
	token, expires, err := p.client.RenewToken(ctx, p.ID(), time.Duration(p.ttl)*time.Millisecond)
	if err != nil {
		return renewRetry
	}
	p.mu.Lock()
	p.token, p.expires = token, expires
	p.mu.Unlock()
	p.fs.refresh(ctx)
	return max(time.Until(expires)*2/3, time.Second)
}
