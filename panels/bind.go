package panels

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// MaxPanelID is the longest panel ID, in bytes.
const MaxPanelID = 200

// bound is a panel and, when its context ID was derived from its own ID, that ID as owner.
type bound struct {
	rec   metadata.Panel
	owner string
}

func (b bound) id() contexts.ID { return contexts.ID(b.rec.ContextID) }

// bind finds or makes a panel's binding. reopen opens a closed panel again and
// lets the request set the panel's rights; a host that acts for a panel leaves both as they are.
func (r *Registry) bind(ctx context.Context, req OpenRequest, reopen bool) (bound, error) {
	if err := checkPanelID(req.PanelID); err != nil {
		return bound{}, err
	}
	r.binding.Lock()
	defer r.binding.Unlock()
	rec, err := r.cfg.Store.Panels().Get(ctx, req.PanelID)
	switch {
	case errors.Is(err, metadata.ErrNotFound):
		return r.bindNew(ctx, req)
	case err != nil:
		return bound{}, fmt.Errorf("read panel %q: %w", req.PanelID, err)
	}
	return r.bindAgain(ctx, rec, req, reopen)
}

// checkPanelID refuses what could not be shown or kept; what has no derived
// context ID may still be used with an explicit one.
func checkPanelID(id string) error {
	bad := func(why string) error {
		return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad panel ID %.80q: %s", id, why)}
	}
	switch {
	case id == "":
		return bad("it is empty")
	case len(id) > MaxPanelID:
		return bad(fmt.Sprintf("it has %d bytes, the limit is %d", len(id), MaxPanelID))
	}
	// Identity.Owner names both panels and the connections of hosts.
	if n, ok := strings.CutPrefix(id, "host/"); ok && strings.Trim(n, "0123456789") == "" {
		return bad("host/ and a number names a host's connection")
	}
	for _, c := range id {
		if c < 0x20 || c == 0x7f || c == '\uFFFD' {
			return bad("it has control characters or is not UTF-8")
		}
	}
	return nil
}

func (r *Registry) bindAgain(ctx context.Context, rec metadata.Panel, req OpenRequest, reopen bool) (bound, error) {
	if req.ContextID != "" && req.ContextID != rec.ContextID {
		return bound{}, &fserr.Error{
			Code: fserr.EEXIST, Kind: fserr.KindContext,
			Detail: fmt.Sprintf("panel %q is bound to context '%s', not '%s'", rec.ID, rec.ContextID, req.ContextID),
			Hint:   "delete that context first, or open another panel",
		}
	}
	if reopen && (!rec.ClosedAt.IsZero() || rec.ReadOnly != req.ReadOnly) {
		if !rec.ClosedAt.IsZero() {
			rec.OpenedAt = r.cfg.Now()
		}
		rec.ClosedAt = zeroTime
		rec.ReadOnly = req.ReadOnly
		if err := r.cfg.Store.Panels().Update(ctx, rec); err != nil {
			return bound{}, fmt.Errorf("open panel %q: %w", rec.ID, err)
		}
	}
	return bound{rec: rec, owner: derivedOwner(rec)}, nil
}

func (r *Registry) bindNew(ctx context.Context, req OpenRequest) (bound, error) {
	id, err := contextFor(req)
	if err != nil {
		return bound{}, err
	}
	rec := metadata.Panel{ID: req.PanelID, ContextID: string(id), ReadOnly: req.ReadOnly, OpenedAt: r.cfg.Now()}
	b := bound{rec: rec, owner: derivedOwner(rec)}
	if req.ContextID != "" {
		b.owner = ""
	}
	if err := r.checkCollisions(ctx, b); err != nil {
		return bound{}, err
	}
	err = r.cfg.Store.Panels().Bind(ctx, rec)
	if errors.Is(err, metadata.ErrConflict) {
		return bound{}, collision("panel %q differs only by case from another panel's ID", rec.ID)
	}
	if err != nil {
		return bound{}, fmt.Errorf("bind panel %q: %w", rec.ID, err)
	}
	return b, nil
}

func contextFor(req OpenRequest) (contexts.ID, error) {
	if req.ContextID == "" {
		return contexts.IDForPanel(req.PanelID)
	}
	p, err := contexts.ParseID(req.ContextID)
	if err != nil {
		return "", err
	}
	if p.TemplateHash != "" {
		return "", contexts.NoTemplates(contexts.ID(req.ContextID))
	}
	return contexts.ID(req.ContextID), nil
}

// derivedOwner returns the panel's ID when its context ID is the one derived from it.
func derivedOwner(rec metadata.Panel) string {
	if id, err := contexts.IDForPanel(rec.ID); err == nil && string(id) == rec.ContextID {
		return rec.ID
	}
	return ""
}

// checkCollisions refuses a binding that would land in another panel's folder
// without anybody having said so, or in one that a file system without case
// takes for it. It sees bindings and contexts, open or closed, since both outlive the server.
func (r *Registry) checkCollisions(ctx context.Context, b bound) error {
	recs, err := r.cfg.Store.Panels().List(ctx)
	if err != nil {
		return fmt.Errorf("list panels: %w", err)
	}
	for _, other := range recs {
		switch {
		case sameButCase(other.ID, b.rec.ID):
			return collision("panel %q differs only by case from panel %q", b.rec.ID, other.ID)
		case sameButCase(other.ContextID, b.rec.ContextID):
			return collision("context '%s' of panel %q differs only by case from context '%s' of panel %q",
				b.rec.ContextID, b.rec.ID, other.ContextID, other.ID)
		case b.owner != "" && other.ContextID == b.rec.ContextID && derivedOwner(other) != "":
			return collision("context '%s' of panel %q belongs to panel %q", b.rec.ContextID, b.rec.ID, other.ID)
		}
	}
	return r.checkContexts(ctx, b)
}

func (r *Registry) checkContexts(ctx context.Context, b bound) error {
	infos, err := r.cfg.Contexts.List(ctx)
	if err != nil {
		return fmt.Errorf("list contexts: %w", err)
	}
	for _, c := range infos {
		switch {
		case sameButCase(string(c.ID), b.rec.ContextID):
			return collision("context '%s' of panel %q differs only by case from context '%s'", b.rec.ContextID, b.rec.ID, c.ID)
		case b.owner != "" && string(c.ID) == b.rec.ContextID && c.OwnerPanel != "" && c.OwnerPanel != b.owner:
			return collision("context '%s' of panel %q belongs to panel %q", b.rec.ContextID, b.rec.ID, c.OwnerPanel)
		}
	}
	return nil
}

func collision(format string, args ...any) error {
	return &fserr.Error{
		Code: fserr.EEXIST, Kind: fserr.KindContext, Detail: fmt.Sprintf(format, args...),
		Hint: "use another panel ID, or name an explicit context_id",
	}
}
