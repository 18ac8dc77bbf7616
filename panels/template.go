package panels

import (
	"context"
	"errors"
	"fmt"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/metadata"
)

// choice is the context that a request resolves to.
type choice struct {
	id contexts.ID
	// unasked says why the template could not be asked whether it has moved; "" when it was, or there is none.
	unasked string
}

// choose finds out which context a request means. old is the panel's binding, nil when it has none; reopen
// says that a panel is opened, not that a host acts for one.
//
//   - A context that the request names is taken. When its ID is a template's, it must be that of the request's
//     template, or of the panel's own when the request names none.
//   - A binding to a context that does not come from the panel's own ID was made by name, and stays.
//   - Otherwise the panel follows its template: the context of what it resolves to now.
//   - Without a template a binding stays, and a new panel gets its own copy of the workspace.
func (r *Registry) choose(ctx context.Context, req OpenRequest, old *metadata.Panel, reopen bool) (choice, error) {
	switch {
	case req.Unsafe && req.Template != "":
		return choice{}, &fserr.Error{Code: fserr.EINVAL, Detail: "an unsafe panel has no template", Hint: "leave out one of unsafe and template"}
	case req.ContextID != "":
		id := contexts.ID(req.ContextID)
		return choice{id: id}, r.checkNamed(ctx, req)
	case old == nil && req.Unsafe:
		id, err := contexts.UnsafeIDForPanel(req.PanelID)
		return choice{id: id}, err
	case old == nil:
		id, err := r.derive(ctx, req)
		return choice{id: id}, err
	}
	return r.follow(ctx, req, *old, reopen)
}

// checkNamed says whether a panel may have the context that its request names.
func (r *Registry) checkNamed(ctx context.Context, req OpenRequest) error {
	p, err := contexts.ParseID(req.ContextID)
	switch {
	case err != nil:
		return err
	case p.TemplateHash == "" && req.Template != "":
		return refuseID("context '%s' is not made from a template", "leave out one of context_id and template", req.ContextID)
	case p.TemplateHash == "":
		return checkMode(req, contexts.ID(req.ContextID))
	}
	path, found, err := r.templateOf(req)
	if err != nil {
		return err
	}
	if !found {
		return r.checkKnown(req.ContextID, p.TemplateHash)
	}
	resolved, err := r.cfg.Templates.Resolve(ctx, path)
	if err != nil {
		return err
	}
	if resolved.Hash[:len(p.TemplateHash)] != p.TemplateHash {
		return refuseID("context '%s' is not of template %q, whose hash is %.12s now",
			"leave context_id out to get the template's context", req.ContextID, path, resolved.Hash)
	}
	return nil
}

// checkMode keeps safe panels out of unsafe contexts.
func checkMode(req OpenRequest, id contexts.ID) error {
	if p, err := contexts.ParseID(string(id)); err != nil || p.Mode != contexts.ModeUnsafe || req.Unsafe {
		return err
	}
	return refuseID("context '%s' is for unsafe panels, panel %q is opened as a safe one", "set unsafe, or use another context", id, req.PanelID)
}

func (r *Registry) checkKnown(id, hash string) error {
	if r.cfg.Templates != nil {
		if known, err := r.cfg.Templates.Known(hash); known || err != nil {
			return err
		}
	}
	return refuseID("the template of context '%s' is unknown", "build it (ctxfs template build PATH), or open the panel by its template", id)
}

func refuseID(detail, hint string, args ...any) error {
	return &fserr.Error{Code: fserr.EINVAL, Kind: fserr.KindContext, Detail: fmt.Sprintf(detail, args...), Hint: hint}
}

// templateOf returns the path of the request's template, or of the one beside the panel's source.
func (r *Registry) templateOf(req OpenRequest) (path string, found bool, err error) {
	switch {
	case r.cfg.Templates == nil && req.Template != "":
		return "", false, &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "templates are not available"}
	case req.Template != "" || r.cfg.Templates == nil || req.Unsafe:
		return req.Template, req.Template != "", nil
	}
	return r.cfg.Templates.Find(req.PanelID)
}

// ContextOf returns the context that a panel gets when it is opened and names none. owner is the panel if the context's ID is derived
// from its own, and "" if the panel is bound to a context that was named.
func (r *Registry) ContextOf(ctx context.Context, panelID string) (id contexts.ID, owner string, err error) {
	old, err := r.bindingOf(ctx, panelID)
	if err != nil {
		return "", "", err
	}
	c, err := r.choose(ctx, OpenRequest{PanelID: panelID}, old, false)
	return c.id, derivedOwner(metadata.Panel{ID: panelID, ContextID: string(c.id)}), err
}

// derive returns the context of a panel that names none: its template's, or its own copy of the workspace.
func (r *Registry) derive(ctx context.Context, req OpenRequest) (contexts.ID, error) {
	id, err := contexts.IDForPanel(req.PanelID)
	if err != nil {
		return "", err
	}
	path, found, err := r.templateOf(req)
	if !found || err != nil {
		return id, err
	}
	resolved, err := r.cfg.Templates.Resolve(ctx, path)
	if err != nil {
		return "", err
	}
	return contexts.TemplateIDForPanel(resolved.Hash, req.PanelID)
}

// follow returns the context of a panel that has a binding, and names none.
func (r *Registry) follow(ctx context.Context, req OpenRequest, old metadata.Panel, reopen bool) (choice, error) {
	bound := choice{id: contexts.ID(old.ContextID)}
	p, err := contexts.ParseID(old.ContextID)
	switch {
	case err != nil:
		return bound, err
	case reopen && p.Mode == contexts.ModeUnsafe:
		return bound, checkMode(req, bound.id)
	case derivedOwner(old) == "" && req.Template != "":
		return bound, boundElsewhere(old, "template "+req.Template)
	case derivedOwner(old) == "" || p.Mode == contexts.ModeUnsafe || req.Unsafe:
		return bound, nil
	}
	if !reopen {
		if settled, err := r.settled(ctx, bound.id, p); settled || err != nil {
			return bound, err
		}
	}
	id, err := r.derive(ctx, req)
	switch {
	case errors.Is(err, git.ErrUnreachable) && p.TemplateHash != "" && r.there(ctx, bound.id):
		bound.unasked = err.Error()
		return bound, nil
	case err != nil:
		return bound, err
	}
	if q, err := contexts.ParseID(string(id)); err != nil || (q.TemplateHash == "" && r.there(ctx, bound.id)) {
		return bound, err // there is no template, or no more
	}
	return choice{id: id}, nil
}

// settled reports whether a host that acts for a panel finds its context, or can have it made.
func (r *Registry) settled(ctx context.Context, id contexts.ID, p contexts.IDParts) (bool, error) {
	if p.TemplateHash == "" || r.cfg.Templates == nil || r.there(ctx, id) {
		return true, nil
	}
	return r.cfg.Templates.Known(p.TemplateHash)
}

// there reports whether a context was made, or is being made.
func (r *Registry) there(ctx context.Context, id contexts.ID) bool {
	info, err := r.cfg.Contexts.Get(ctx, id)
	return err == nil && (info.State == contexts.StateReady || info.State == contexts.StateSeeding)
}

// boundElsewhere refuses to give a panel another context than the one it was given by name.
func boundElsewhere(rec metadata.Panel, wanted string) error {
	return &fserr.Error{
		Code: fserr.EEXIST, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("panel %q is bound to context '%s', not %s", rec.ID, rec.ContextID, wanted),
		Hint:   "delete that context first, or open another panel",
	}
}
