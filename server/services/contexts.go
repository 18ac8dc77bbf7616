// Package services are the thin adapters between the wire and the domain:
// ContextService, PanelService and TemplateService. They convert messages and decide nothing. Package server checks
// before each call that the caller may make it.
package services

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/metadata/labels"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

// progressInterval is the least time between two messages of progress in one phase.
const progressInterval = 100 * time.Millisecond

// Contexts implements ContextService.
type Contexts struct {
	ctxfsv1.UnimplementedContextServiceServer
	Contexts ContextStore
	// Collector collects garbage.
	Collector Collector
	// ContextOf returns the context that a panel gets, and the panel that owns it (panels.Registry).
	ContextOf func(ctx context.Context, panelID string) (id contexts.ID, owner string, err error)
	// Into returns the zone that a context was seeded into (contexts.Manager.SeededInto).
	Into func(id contexts.ID) (string, error)
	// Unapplied fails if a context has changes that were not applied, UnappliedAnywhere also if its snapshots have (review.Reviews).
	Unapplied, UnappliedAnywhere func(ctx context.Context, id string) error
	// Version of the server, Driver, the name of the driver that makes contexts, and Metadata, where the records are, for GetInfo.
	Version, Driver, Metadata string
}

// ContextStore is the life cycle of contexts; contexts.Manager implements and documents it.
type ContextStore interface {
	Ensure(ctx context.Context, id contexts.ID, opts contexts.EnsureOptions, progress func(contexts.Progress)) (contexts.Ensured, error)
	Get(ctx context.Context, id contexts.ID) (contexts.Info, error)
	Show(ctx context.Context, id contexts.ID) error
	List(ctx context.Context) ([]contexts.Info, error)
	Sizes(ctx context.Context, id contexts.ID) (contexts.Sizes, error)
	PlanSeed(ctx context.Context, opts contexts.PlanOptions) (contexts.Plan, error)
	Fork(ctx context.Context, from, to contexts.ID, opts contexts.EnsureOptions) (contexts.Info, error)
	Snapshot(ctx context.Context, id contexts.ID, name string) (contexts.Snapshot, error)
	Snapshots(ctx context.Context, id contexts.ID) ([]contexts.Snapshot, error)
	Restore(ctx context.Context, id contexts.ID, name string, unless contexts.Unless) (contexts.Info, error)
	DeleteSnapshot(ctx context.Context, id contexts.ID, name string) error
	SetLabels(ctx context.Context, id contexts.ID, put map[string]string, remove []string) (map[string]string, error)
	Delete(ctx context.Context, id contexts.ID, unless contexts.Unless) (contexts.Deleted, error)
}

// Collector collects garbage.
type Collector interface {
	// Collect is contexts.Manager.CollectGarbage with what holds contexts outside of package contexts. It also returns what was decided on
	// contexts. serverRules also applies the rules of the server's settings. discard removes contexts with changes that were not applied.
	Collect(ctx context.Context, opts contexts.GarbageOptions, serverRules, discard bool) ([]contexts.Garbage, []contexts.Verdict, error)
}

// EnsureContext implements ContextService.
func (s *Contexts) EnsureContext(req *ctxfsv1.EnsureContextRequest, stream grpc.ServerStreamingServer[ctxfsv1.EnsureContextResponse]) error {
	id, opts, err := s.target(stream.Context(), req.GetContextId(), req.GetPanelId(), "context_id and panel_id")
	if err != nil {
		return fserrpb.ToStatus(err)
	}
	if opts.Spec, err = specOf(req.GetSeedFrom(), nil); err != nil {
		return fserrpb.ToStatus(err)
	}
	opts.Labels = req.GetLabels()
	begun := time.Now()
	t := &throttle{send: func(p contexts.Progress) error {
		return stream.Send(&ctxfsv1.EnsureContextResponse{Event: &ctxfsv1.EnsureContextResponse_Progress{Progress: progressToPB(p)}})
	}}
	ensured, err := s.Contexts.Ensure(stream.Context(), id, opts, t.progress)
	if err != nil {
		return fserrpb.ToStatus(err)
	}
	if err := t.last(); err != nil {
		return err
	}
	return stream.Send(&ctxfsv1.EnsureContextResponse{Event: &ctxfsv1.EnsureContextResponse_Ready{Ready: &ctxfsv1.EnsureReady{
		Context: infoToPB(ensured.Info), Seeded: ensured.Seeded, DurationMs: time.Since(begun).Milliseconds(), ZoneMode: zoneModeToPB(ensured.Zones),
	}}})
}

func parseID(text string) (contexts.ID, error) {
	if _, err := contexts.ParseID(text); err != nil {
		return "", err
	}
	return contexts.ID(text), nil
}

// throttle passes on the first progress of each phase, then one in each interval,
// and always the last.
type throttle struct {
	send func(contexts.Progress) error

	mu      sync.Mutex
	phase   contexts.Phase
	sent    time.Time
	pending *contexts.Progress
	err     error
	done    bool
}

// progress never fails: a client that is gone is seen by the stream's context.
func (t *throttle) progress(p contexts.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done || t.err != nil {
		return
	}
	now := time.Now()
	if p.Phase == t.phase && now.Sub(t.sent) < progressInterval {
		t.pending = &p
		return
	}
	if p.Phase != t.phase && t.pending != nil {
		t.err = t.send(*t.pending)
	}
	t.phase, t.sent, t.pending = p.Phase, now, nil
	if t.err == nil {
		t.err = t.send(p)
	}
}

// last sends what is held back; later progress is dropped.
func (t *throttle) last() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	if t.err == nil && t.pending != nil {
		t.err = t.send(*t.pending)
	}
	return t.err
}

// GetContext implements ContextService.
func (s *Contexts) GetContext(ctx context.Context, req *ctxfsv1.GetContextRequest) (*ctxfsv1.GetContextResponse, error) {
	id, err := parseID(req.GetContextId())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	info, err := s.Contexts.Get(ctx, id)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	resp := &ctxfsv1.GetContextResponse{Context: infoToPB(info)}
	if req.GetSizes() {
		err = s.measure(ctx, resp.GetContext())
	}
	return resp, fserrpb.ToStatus(err)
}

// measure fills in what a context takes on disk; one that is not there takes nothing.
func (s *Contexts) measure(ctx context.Context, c *ctxfsv1.Context) error {
	sizes, err := s.Contexts.Sizes(ctx, contexts.ID(c.GetContextId()))
	if fserr.CodeOf(err) == fserr.ESTALE {
		return nil
	}
	c.OwnBytes, c.SharedBytes, c.SnapshotBytes = sizes.Own, sizes.Shared, sizes.Snapshots
	return err
}

// ListContexts implements ContextService.
func (s *Contexts) ListContexts(ctx context.Context, req *ctxfsv1.ListContextsRequest) (*ctxfsv1.ListContextsResponse, error) {
	selected, err := labels.Parse(req.GetLabelSelectors())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	infos, err := s.Contexts.List(ctx)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	resp := &ctxfsv1.ListContextsResponse{}
	for _, info := range infos {
		if !selected.Matches(info.Labels) {
			continue
		}
		c := infoToPB(info)
		if req.GetSizes() {
			err := s.measure(ctx, c)
			if ctx.Err() != nil {
				return nil, fserrpb.ToStatus(fserrpb.FromContext(ctx))
			}
			if err != nil {
				c.SizesError = err.Error()
			}
		}
		resp.Contexts = append(resp.Contexts, c)
	}
	return resp, nil
}

// GetInfo implements ContextService. A panel gets information about its own context only, and never the folder's path.
func (s *Contexts) GetInfo(ctx context.Context, req *ctxfsv1.GetInfoRequest) (*ctxfsv1.GetInfoResponse, error) {
	caller := panels.IdentityFrom(ctx)
	id, err := infoTarget(caller, req.GetContextId())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	resp := &ctxfsv1.GetInfoResponse{
		ContextId: string(id), Partition: partition(id), PanelId: caller.Panel, ReadOnly: caller.ReadOnly, ServerVersion: s.Version, Rights: rightsToPB(caller.Rights),
	}
	if caller.Role != panels.RoleHost {
		return resp, nil
	}
	info, err := s.Contexts.Get(ctx, id)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	if info.State == contexts.StateMissing && caller.Panel == "" {
		return nil, fserrpb.ToStatus(&fserr.Error{
			Code: fserr.ESTALE, Kind: fserr.KindContext, Detail: "context '" + string(id) + "' does not exist", Hint: "call EnsureContext or OpenPanel",
		})
	}
	if info.State == contexts.StateReady { // the caller may write to the folder
		if err := s.Contexts.Show(ctx, id); err != nil {
			return nil, fserrpb.ToStatus(err)
		}
	}
	resp.Folder, resp.Driver, resp.Metadata = info.Folder, s.Driver, s.Metadata
	return resp, nil
}

func infoTarget(caller panels.Identity, named string) (contexts.ID, error) {
	switch {
	case named == "" && caller.Context == "":
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: "no context", Hint: "set context_id, or send -H 'ctxfs-panel: NAME'"}
	case named == "":
		return caller.Context, nil
	case caller.Role != panels.RoleHost && contexts.ID(named) != caller.Context:
		return "", &fserr.Error{Code: fserr.EACCES, Kind: fserr.KindContext, Detail: "the context is another panel's", Hint: "leave context_id empty"}
	}
	return parseID(named)
}

// partition names the Electron session partition of a context.
func partition(id contexts.ID) string { return "persist:" + string(id) }

// PlanSeed implements ContextService.
func (s *Contexts) PlanSeed(ctx context.Context, req *ctxfsv1.PlanSeedRequest) (*ctxfsv1.PlanSeedResponse, error) {
	plan, err := s.Contexts.PlanSeed(ctx, contexts.PlanOptions{Largest: int(req.GetLargest()), From: req.GetSeedFrom()})
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return PlanToPB(plan), nil
}

// SetLabels implements ContextService.
func (s *Contexts) SetLabels(ctx context.Context, req *ctxfsv1.SetLabelsRequest) (*ctxfsv1.SetLabelsResponse, error) {
	id, err := parseID(req.GetContextId())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	set, err := s.Contexts.SetLabels(ctx, id, req.GetPut(), req.GetRemove())
	return &ctxfsv1.SetLabelsResponse{Labels: set}, fserrpb.ToStatus(err)
}

// DeleteContext implements ContextService.
func (s *Contexts) DeleteContext(ctx context.Context, req *ctxfsv1.DeleteContextRequest) (*ctxfsv1.DeleteContextResponse, error) {
	id, err := parseID(req.GetContextId())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	deleted, err := s.Contexts.Delete(ctx, id, unless(id, req.GetDiscardChanges(), s.UnappliedAnywhere))
	if err != nil {
		return nil, s.status(id, err)
	}
	return &ctxfsv1.DeleteContextResponse{Removed: deleted.Entries}, nil
}

// status is reviewStatus with the paths that the context has.
func (s *Contexts) status(id contexts.ID, err error) error {
	st := reviewStatus(err)
	if into, intoErr := s.Into(id); intoErr == nil && into != "" {
		return zonedStatus(into, st)
	}
	return st
}

// unless refuses to lose what unapplied names, and what is not known to be applied. It is nil if the caller discards changes.
func unless(id contexts.ID, discard bool, unapplied func(ctx context.Context, id string) error) contexts.Unless {
	if discard {
		return nil
	}
	return func(ctx context.Context) error {
		err := unapplied(ctx, string(id))
		var e *fserr.Error
		if refused := (*review.Error)(nil); errors.As(err, &refused) || !errors.As(err, &e) {
			return err
		}
		switch e.Code {
		case fserr.ESTALE, fserr.EAGAIN, fserr.EBUSY, fserr.ECANCELED:
			return err
		}
		return &fserr.Error{
			Code: e.Code, Kind: fserr.KindContext, Err: err, Detail: fmt.Sprintf("it is not known whether context '%s' has changes: %s", id, e.Error()),
			Hint: "set discard_changes if they may be lost",
		}
	}
}
