package client

import (
	"context"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (c *Client) templates() ctxfsv1.TemplateServiceClient {
	return ctxfsv1.NewTemplateServiceClient(c.conn)
}

// ExplainTemplate says what the template at path, a folder or file of the workspace, means now; "" is the
// workspace's root. It builds nothing.
func (c *Client) ExplainTemplate(ctx context.Context, path string) (*ctxfsv1.ExplainTemplateResponse, error) {
	r, err := c.templates().ExplainTemplate(ctx, &ctxfsv1.ExplainTemplateRequest{Template: path})
	return r, convert("explaintemplate", err)
}

// BuildTemplate builds what contexts of a template are made from, unless it is there. progress may be nil.
// Cancelling ends the build.
func (c *Client) BuildTemplate(ctx context.Context, path string, progress func(*ctxfsv1.TemplateProgress)) (*ctxfsv1.TemplateReady, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.templates().BuildTemplate(ctx, &ctxfsv1.BuildTemplateRequest{Template: path})
	for err == nil {
		var r *ctxfsv1.BuildTemplateResponse
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
	return nil, convert("buildtemplate", unlessEnded(err))
}

// ListTemplates lists the templates that are built, by hash.
func (c *Client) ListTemplates(ctx context.Context) ([]*ctxfsv1.BuiltTemplate, error) {
	r, err := c.templates().ListTemplates(ctx, &ctxfsv1.ListTemplatesRequest{})
	return r.GetTemplates(), convert("listtemplates", err)
}
