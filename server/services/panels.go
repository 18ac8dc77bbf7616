package services

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/metadata/labels"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Handles is what PanelService needs of the table of open files (handles.Table).
type Handles interface {
	CloseOwner(owner string) int
	List(owner string) []*handles.Handle
}

// Panels implements PanelService.
type Panels struct {
	ctxfsv1.UnimplementedPanelServiceServer
	Panels  panels.Service
	Handles Handles
	// Changed, if not nil, is called with the panel whose rights OpenPanel may have changed.
	Changed func(panelID string)
}

// OpenPanel implements PanelService.
func (s *Panels) OpenPanel(ctx context.Context, req *ctxfsv1.OpenPanelRequest) (*ctxfsv1.OpenPanelResponse, error) {
	begun := time.Now()
	ttl, err := ttlOf(req.GetTtlMs())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	rights, err := rightsOf(req.GetRights())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	spec, err := specOf(req.GetSeedFrom(), req.GetZones())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	o, err := s.Panels.Open(ctx, panels.OpenRequest{
		PanelID: req.GetPanelId(), ContextID: req.GetContextId(), ReadOnly: req.GetReadOnly(), Rights: rights, TTL: ttl,
		Template: req.GetTemplate(), Unsafe: req.GetUnsafe(), Spec: spec, Labels: req.GetLabels(),
	}, nil)
	if s.Changed != nil {
		s.Changed(req.GetPanelId())
	}
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return &ctxfsv1.OpenPanelResponse{
		PanelId: o.ID, ContextId: string(o.ContextID), Partition: partition(o.ContextID),
		Token: o.Token.Secret, ExpiresNs: ns(o.Token.ExpiresAt),
		Seeded: o.Seeded, DurationMs: time.Since(begun).Milliseconds(), Files: o.Files, Bytes: o.Bytes,
		TemplateUnasked: o.TemplateUnasked, Rights: rightsToPB(o.Rights), ZoneMode: zoneModeToPB(o.Zones),
	}, nil
}

// maxTTL is the longest life of a token that can be asked for.
const maxTTL = 10 * 365 * 24 * time.Hour

// ttlOf checks before it multiplies: a life beyond int64 would wrap around.
func ttlOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > maxTTL.Milliseconds() {
		return 0, &fserr.Error{Code: fserr.EINVAL, Detail: "bad ttl_ms", Hint: "use 0 (the server's default) to 315360000000 (ten years)"}
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// RenewToken implements PanelService.
func (s *Panels) RenewToken(ctx context.Context, req *ctxfsv1.RenewTokenRequest) (*ctxfsv1.RenewTokenResponse, error) {
	ttl, err := ttlOf(req.GetTtlMs())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	t, err := s.Panels.Renew(ctx, req.GetPanelId(), ttl)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return &ctxfsv1.RenewTokenResponse{Token: t.Secret, ExpiresNs: ns(t.ExpiresAt)}, nil
}

// ClosePanel implements PanelService. The handles go first, to be counted; one that
// is opened in between goes with the panel (panels.Service.OnClose).
func (s *Panels) ClosePanel(ctx context.Context, req *ctxfsv1.ClosePanelRequest) (*ctxfsv1.ClosePanelResponse, error) {
	closed := s.Handles.CloseOwner(req.GetPanelId())
	tokens, err := s.Panels.Close(ctx, req.GetPanelId())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return &ctxfsv1.ClosePanelResponse{TokensRevoked: count(tokens), HandlesClosed: count(closed)}, nil
}

// SetPanelLabels implements PanelService.
func (s *Panels) SetPanelLabels(ctx context.Context, req *ctxfsv1.SetPanelLabelsRequest) (*ctxfsv1.SetPanelLabelsResponse, error) {
	set, err := s.Panels.SetLabels(ctx, req.GetPanelId(), req.GetPut(), req.GetRemove())
	return &ctxfsv1.SetPanelLabelsResponse{Labels: set}, fserrpb.ToStatus(err)
}

// ListPanels implements PanelService.
func (s *Panels) ListPanels(ctx context.Context, req *ctxfsv1.ListPanelsRequest) (*ctxfsv1.ListPanelsResponse, error) {
	selected, err := labels.Parse(req.GetLabelSelectors())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	list, err := s.Panels.List(ctx)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	open := map[string]int{}
	for _, h := range s.Handles.List("") {
		open[h.Owner]++
	}
	resp := &ctxfsv1.ListPanelsResponse{}
	for _, p := range list {
		if !selected.Matches(p.Labels) {
			continue
		}
		resp.Panels = append(resp.Panels, &ctxfsv1.Panel{
			PanelId: p.ID, ContextId: string(p.ContextID), ReadOnly: p.ReadOnly, Open: p.Open, OpenedNs: ns(p.OpenedAt),
			Tokens: count(p.Tokens), Handles: count(open[p.ID]), Rights: rightsToPB(p.Rights), Labels: p.Labels,
		})
	}
	return resp, nil
}

// rightBits has the bit of each right.
var rightBits = map[ctxfsv1.PanelRight]panels.Rights{
	ctxfsv1.PanelRight_PANEL_RIGHT_REVIEW: panels.RightReview, ctxfsv1.PanelRight_PANEL_RIGHT_EXEC: panels.RightExec,
	ctxfsv1.PanelRight_PANEL_RIGHT_GIT_PUSH: panels.RightGitPush,
}

// rightsOf returns a set of rights. It refuses those that this server does not know.
func rightsOf(list []ctxfsv1.PanelRight) (all panels.Rights, err error) {
	for _, r := range list {
		bit, ok := rightBits[r]
		if !ok {
			return 0, &fserr.Error{Code: fserr.EINVAL, Detail: "unknown right " + r.String(), Hint: "this server knows PANEL_RIGHT_REVIEW, PANEL_RIGHT_EXEC and PANEL_RIGHT_GIT_PUSH"}
		}
		all |= bit
	}
	return all, nil
}

// rightsToPB returns the rights of a set, in the order of their numbers.
func rightsToPB(all panels.Rights) (list []ctxfsv1.PanelRight) {
	for _, r := range slices.Sorted(maps.Keys(rightBits)) {
		if all&rightBits[r] != 0 {
			list = append(list, r)
		}
	}
	return list
}

// count returns n as the wire has it, saturating.
func count(n int) int32 { return int32(min(n, math.MaxInt32)) }
