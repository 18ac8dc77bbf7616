package services

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Templates implements TemplateService.
type Templates struct {
	ctxfsv1.UnimplementedTemplateServiceServer
	Templates TemplateStore
}

// TemplateStore resolves and builds templates (contexts.Templates).
type TemplateStore interface {
	// Find returns the path of the template beside a panel's source; found is false if there is none.
	Find(panelID string) (path string, found bool, err error)
	// Resolve resolves the template at path as it is now.
	Resolve(ctx context.Context, path string) (*template.Resolved, error)
	// Build resolves a template and builds its layer, unless that exists.
	Build(ctx context.Context, path string, progress func(template.Progress)) (contexts.BuiltTemplate, error)
	// List lists the templates that are built, by hash.
	List(ctx context.Context) ([]contexts.TemplateUse, error)
}

// templateRequest is what says which template is meant.
type templateRequest interface {
	GetTemplate() string
	GetPanelId() string
}

// target returns the path of the template that a request means.
func (s *Templates) target(req templateRequest) (string, error) {
	switch {
	case req.GetTemplate() != "" && req.GetPanelId() != "":
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: "two templates", Hint: "set one of template and panel_id"}
	case req.GetPanelId() != "":
		path, found, err := s.Templates.Find(req.GetPanelId())
		if err == nil && !found {
			err = &fserr.Error{Code: fserr.ENOENT, Detail: "the panel has no template beside its source", Hint: "put a " + template.FileName + " there, or set template"}
		}
		return path, err
	case req.GetTemplate() == "":
		return ".", nil
	}
	return req.GetTemplate(), nil
}

// ExplainTemplate implements TemplateService.
func (s *Templates) ExplainTemplate(ctx context.Context, req *ctxfsv1.ExplainTemplateRequest) (*ctxfsv1.ExplainTemplateResponse, error) {
	path, err := s.target(req)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	r, err := s.Templates.Resolve(ctx, path)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	list, err := s.Templates.List(ctx)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	resp := &ctxfsv1.ExplainTemplateResponse{Template: resolvedToPB(r.Hash, r.Chain, r.Deps), Merged: r.Explain()}
	for _, t := range list {
		resp.Built = resp.Built || t.Hash == r.Hash
	}
	return resp, nil
}

// BuildTemplate implements TemplateService.
func (s *Templates) BuildTemplate(req *ctxfsv1.BuildTemplateRequest, stream grpc.ServerStreamingServer[ctxfsv1.BuildTemplateResponse]) error {
	path, err := s.target(req)
	if err != nil {
		return fserrpb.ToStatus(err)
	}
	begun := time.Now()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	t := &buildThrottle{send: func(p template.Progress) {
		if stream.Send(&ctxfsv1.BuildTemplateResponse{Event: &ctxfsv1.BuildTemplateResponse_Progress{Progress: buildProgressToPB(p)}}) != nil {
			cancel() // the client is gone
		}
	}}
	built, err := s.Templates.Build(ctx, path, t.progress)
	if err != nil {
		return fserrpb.ToStatus(err)
	}
	return stream.Send(&ctxfsv1.BuildTemplateResponse{Event: &ctxfsv1.BuildTemplateResponse_Ready{Ready: &ctxfsv1.TemplateReady{
		Template: builtToPB(built.Built, 0), Built: built.Made, DurationMs: time.Since(begun).Milliseconds(),
	}}})
}

// buildThrottle passes on the progress of each repository that is complete, and in between one in each interval.
type buildThrottle struct {
	send func(template.Progress)
	sent time.Time
	deps int
}

// progress is called from one goroutine.
func (t *buildThrottle) progress(p template.Progress) {
	now := time.Now()
	if p.Deps == t.deps && now.Sub(t.sent) < progressInterval {
		return
	}
	t.sent, t.deps = now, p.Deps
	t.send(p)
}

// ListTemplates implements TemplateService.
func (s *Templates) ListTemplates(ctx context.Context, _ *ctxfsv1.ListTemplatesRequest) (*ctxfsv1.ListTemplatesResponse, error) {
	list, err := s.Templates.List(ctx)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	resp := &ctxfsv1.ListTemplatesResponse{}
	for _, t := range list {
		resp.Templates = append(resp.Templates, builtToPB(t.Built, t.Contexts))
	}
	return resp, nil
}

func buildProgressToPB(p template.Progress) *ctxfsv1.TemplateProgress {
	return &ctxfsv1.TemplateProgress{Dep: p.Dep, DepsDone: count(p.Deps), DepsTotal: count(p.DepsTotal), Files: p.Files, Bytes: p.Bytes}
}

func builtToPB(b template.Built, uses int) *ctxfsv1.BuiltTemplate {
	return &ctxfsv1.BuiltTemplate{
		Template: resolvedToPB(b.Hash, b.Chain, b.Deps), Files: b.Files, Bytes: b.Bytes, BuiltNs: ns(b.BuiltAt), Contexts: count(uses),
	}
}

func resolvedToPB(hash string, chain []string, deps []template.Dep) *ctxfsv1.ResolvedTemplate {
	t := &ctxfsv1.ResolvedTemplate{Hash: hash, Chain: chain}
	for _, d := range deps {
		dep := &ctxfsv1.TemplateDep{Path: d.Path, Repo: d.Repo, Ref: d.Ref, Source: d.Source, Commit: d.Commit}
		for _, at := range d.From {
			dep.From = append(dep.From, &ctxfsv1.TemplatePosition{Template: at.Template, Line: count(at.Line), Column: count(at.Column)})
		}
		t.Deps = append(t.Deps, dep)
	}
	return t
}
