package panels

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

// MaxPanelID is the longest panel ID, in bytes.
const MaxPanelID = 200

// bound is a panel and, when its context ID was derived from its own ID, that ID as owner.
type bound struct {
	rec   metadata.Panel
	owner string
	// unasked is Opened.TemplateUnasked.
	unasked string
	// seeded says that binding it waited for a seeding.
	seeded bool
	// ended is why the panel's older tokens have ended; nil if they have not.
	ended error
}

func (b bound) id() contexts.ID { return contexts.ID(b.rec.ContextID) }

// bind finds or makes a panel's binding. reopen opens a closed panel again and
// lets the request set the panel's rights; a host that acts for a panel leaves both as they are.
func (r *Registry) bind(ctx context.Context, req OpenRequest, reopen bool) (bound, error) {
	if err := checkPanelID(req.PanelID); err != nil {
		return bound{}, err
	}
	old, err := r.bindingOf(ctx, req.PanelID)
	if err != nil {
		return bound{}, err
	}
	// A template is asked for, and a new context made, without the lock: both may take minutes.
	c, err := r.choose(ctx, req, old, reopen)
	if err == nil {
		err = req.Spec.Fits(c.id)
	}
	if err != nil {
		return bound{}, err
	}
	if old != nil && req.ContextID == "" && c.id != contexts.ID(old.ContextID) {
		return r.move(ctx, req, c, reopen)
	}
	b, err := r.bindLocked(ctx, req, c.id, reopen)
	b.unasked = c.unasked
	r.afterEnd(b)
	return b, err
}

// afterEnd ends what older tokens of a panel began, once they have ended.
func (r *Registry) afterEnd(b bound) {
	if b.ended != nil {
		r.cache.dropPanel(b.rec.ID)
		r.cfg.Closed(b.rec.ID, b.ended)
	}
}

// bindingOf returns a panel's record, nil when it has none.
func (r *Registry) bindingOf(ctx context.Context, panelID string) (*metadata.Panel, error) {
	rec, err := r.cfg.Store.Panels().Get(ctx, panelID)
	switch {
	case errors.Is(err, metadata.ErrNotFound):
		return nil, nil //nolint:nilnil // a panel without binding is no failure
	case err != nil:
		return nil, fmt.Errorf("read panel %q: %w", panelID, err)
	}
	return &rec, nil
}

// bindLocked is bindTo with the panel's lock.
func (r *Registry) bindLocked(ctx context.Context, req OpenRequest, id contexts.ID, reopen bool) (bound, error) {
	unlock, err := r.lockPanel(ctx, req.PanelID)
	if err != nil {
		return bound{}, err
	}
	defer unlock()
	return r.bindTo(ctx, req, id, reopen)
}

// bindTo binds a panel to a context, or finds that it is. A request that names none takes what another
// one has bound it to meanwhile. The panel's lock is held.
func (r *Registry) bindTo(ctx context.Context, req OpenRequest, id contexts.ID, reopen bool) (bound, error) {
	old, err := r.bindingOf(ctx, req.PanelID)
	switch {
	case err != nil:
		return bound{}, err
	case old == nil:
		return r.bindNew(ctx, req, id)
	case req.ContextID == "":
		id = contexts.ID(old.ContextID)
	}
	return r.bindAgain(ctx, *old, req, id, reopen)
}

// move binds a panel to another context, because its template now resolves to that one. A panel has one context at a time:
// clients with a token for the old one must open the panel again. The old context stays.
func (r *Registry) move(ctx context.Context, req OpenRequest, c choice, reopen bool) (bound, error) {
	e, err := r.cfg.Contexts.Ensure(ctx, c.id, ensureOptions(req.PanelID, req), nil)
	if err != nil {
		return bound{}, err // it keeps what it has
	}
	b, err := r.rebind(ctx, req, c.id, reopen)
	b.seeded = e.Seeded
	r.afterEnd(b)
	return b, err
}

// rebind gives a panel's record another context, unless somebody has done so meanwhile.
func (r *Registry) rebind(ctx context.Context, req OpenRequest, id contexts.ID, reopen bool) (bound, error) {
	unlock, err := r.lockPanel(ctx, req.PanelID)
	if err != nil {
		return bound{}, err
	}
	defer unlock()
	rec, err := r.bindingOf(ctx, req.PanelID)
	if err != nil {
		return bound{}, err
	}
	if rec == nil || rec.ContextID == string(id) {
		return r.bindTo(ctx, req, id, reopen)
	}
	rec.ContextID = string(id)
	if reopen {
		if err := r.putLabels(ctx, rec, req.Labels); err != nil {
			return bound{}, err
		}
		rec.ReadOnly, rec.Rights, rec.OpenedAt, rec.ClosedAt = req.ReadOnly, req.Rights, r.cfg.Now(), zeroTime
	}
	b := bound{rec: *rec, owner: derivedOwner(*rec), ended: errMoved}
	unlock, err = r.distinct(ctx, b)
	if err != nil {
		return bound{}, err
	}
	defer unlock()
	return b, r.endTokens(ctx, b.rec)
}

// endTokens revokes the tokens of a panel, then updates its record. If the server is killed between the two, no token has a right that the
// record does not have.
func (r *Registry) endTokens(ctx context.Context, rec metadata.Panel) error {
	if _, err := r.revoke(ctx, rec); err != nil {
		return err
	}
	if err := r.cfg.Store.Panels().Update(ctx, rec); err != nil {
		return fmt.Errorf("bind panel %q: %w", rec.ID, err)
	}
	r.known.keep(rec)
	return nil
}

// revoke ends the tokens of a panel, whose lock is held, and returns how many.
func (r *Registry) revoke(ctx context.Context, rec metadata.Panel) (int, error) {
	n, err := r.cfg.Store.Tokens().DeletePanel(ctx, rec.ID)
	if err != nil {
		return n, fmt.Errorf("revoke the tokens of panel %q: %w", rec.ID, err)
	}
	r.known.revoked(rec, r.cfg.Now())
	return n, nil
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

func (r *Registry) bindAgain(ctx context.Context, rec metadata.Panel, req OpenRequest, id contexts.ID, reopen bool) (bound, error) {
	if string(id) != rec.ContextID {
		return bound{}, boundElsewhere(rec, "'"+string(id)+"'")
	}
	if reopen {
		if err := r.putLabels(ctx, &rec, req.Labels); err != nil {
			return bound{}, err
		}
	}
	b := bound{rec: rec, owner: derivedOwner(rec)}
	if !reopen || rec.ClosedAt.IsZero() && rec.ReadOnly == req.ReadOnly && rec.Rights == req.Rights {
		r.known.keep(rec)
		return b, nil
	}
	if !rec.ClosedAt.IsZero() {
		b.rec.OpenedAt = r.cfg.Now()
	}
	b.rec.ClosedAt, b.rec.ReadOnly, b.rec.Rights = zeroTime, req.ReadOnly, req.Rights
	if rec.Rights&^req.Rights != 0 {
		b.ended = errRights
		return b, r.endTokens(ctx, b.rec)
	}
	if err := r.cfg.Store.Panels().Update(ctx, b.rec); err != nil {
		return bound{}, fmt.Errorf("open panel %q: %w", rec.ID, err)
	}
	r.known.keep(b.rec)
	return b, nil
}

// putLabels gives a panel, whose lock is held, labels beside those that it has.
func (r *Registry) putLabels(ctx context.Context, rec *metadata.Panel, put map[string]string) (err error) {
	if !labels.Has(rec.Labels, put) {
		rec.Labels, err = r.setLabels(ctx, rec.ID, put, nil)
	}
	return err
}

func (r *Registry) bindNew(ctx context.Context, req OpenRequest, id contexts.ID) (bound, error) {
	rec := metadata.Panel{ID: req.PanelID, ContextID: string(id), ReadOnly: req.ReadOnly, Rights: req.Rights, OpenedAt: r.cfg.Now(), Labels: req.Labels}
	b := bound{rec: rec, owner: derivedOwner(rec)}
	if req.ContextID != "" {
		b.owner = ""
	}
	unlock, err := r.distinct(ctx, b)
	if err != nil {
		return bound{}, err
	}
	defer unlock()
	err = r.cfg.Store.Panels().Bind(ctx, rec)
	if errors.Is(err, metadata.ErrConflict) {
		return bound{}, collision("panel %q differs only by case from another panel's ID", rec.ID)
	}
	if err != nil {
		return bound{}, fmt.Errorf("bind panel %q: %w", rec.ID, err)
	}
	r.known.keep(rec)
	return b, nil
}

// derivedOwner returns the panel's ID when its context ID is one that is derived from it.
func derivedOwner(rec metadata.Panel) string {
	if contexts.DerivedFrom(contexts.ID(rec.ContextID), rec.ID) {
		return rec.ID
	}
	return ""
}

// distinct is checkCollisions with the lock of the context, which the caller holds until the binding is made. The panel's lock is held.
func (r *Registry) distinct(ctx context.Context, b bound) (unlock func(), err error) {
	if unlock, err = r.contexts.Lock(ctx, metadata.Fold(b.rec.ContextID)); err != nil {
		return nil, fmt.Errorf("wait for another panel of context %q: %w", b.rec.ContextID, err)
	}
	if err := r.checkCollisions(ctx, b); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// checkCollisions refuses a binding that would share another panel's folder although
// the request does not name the context, or one whose ID differs from another only by
// case. It compares with all bindings and contexts, open or closed: both outlive the server.
func (r *Registry) checkCollisions(ctx context.Context, b bound) error {
	twin, err := r.cfg.Store.Panels().Folded(ctx, b.rec.ID)
	switch {
	case err == nil && twin.ID != b.rec.ID:
		return collision("panel %q differs only by case from panel %q", b.rec.ID, twin.ID)
	case err != nil && !errors.Is(err, metadata.ErrNotFound):
		return fmt.Errorf("read panel %q: %w", b.rec.ID, err)
	}
	others, err := r.cfg.Store.Panels().OfContext(ctx, b.rec.ContextID)
	if err != nil {
		return fmt.Errorf("list the panels of context %q: %w", b.rec.ContextID, err)
	}
	for _, other := range others {
		switch {
		case other.ContextID != b.rec.ContextID:
			return collision("context '%s' of panel %q differs only by case from context '%s' of panel %q",
				b.rec.ContextID, b.rec.ID, other.ContextID, other.ID)
		case b.owner != "" && derivedOwner(other) != "":
			return collision("context '%s' of panel %q belongs to panel %q", b.rec.ContextID, b.rec.ID, other.ID)
		}
	}
	return r.checkContexts(ctx, b)
}

func (r *Registry) checkContexts(ctx context.Context, b bound) error {
	if err := r.cfg.Contexts.Distinct(ctx, b.id()); err != nil || b.owner == "" {
		return err
	}
	c, err := r.cfg.Contexts.Get(ctx, b.id())
	if err == nil && c.State != contexts.StateMissing && c.OwnerPanel != "" && c.OwnerPanel != b.owner {
		return collision("context '%s' of panel %q belongs to panel %q", b.rec.ContextID, b.rec.ID, c.OwnerPanel)
	}
	return err
}

func collision(format string, args ...any) error {
	return &fserr.Error{
		Code: fserr.EEXIST, Kind: fserr.KindContext, Detail: fmt.Sprintf(format, args...),
		Hint: "use another panel ID, or name an explicit context_id",
	}
}
