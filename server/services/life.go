package services

import (
	"context"
	"errors"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/metadata/labels"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Fork implements ContextService.
func (s *Contexts) Fork(ctx context.Context, req *ctxfsv1.ForkRequest) (*ctxfsv1.ForkResponse, error) {
	from, err := parseID(req.GetContextId())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	to, opts, err := s.target(ctx, req.GetNewContextId(), req.GetNewPanelId(), "new_context_id and new_panel_id")
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	opts.Labels = req.GetLabels()
	info, err := s.Contexts.Fork(ctx, from, to, opts)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return &ctxfsv1.ForkResponse{Context: infoToPB(info)}, nil
}

// target returns the ID of the context to create. If the ID is derived from a panel, the options name that panel as owner.
func (s *Contexts) target(ctx context.Context, contextID, panelID, fields string) (contexts.ID, contexts.EnsureOptions, error) {
	switch {
	case (contextID == "") == (panelID == ""):
		return "", contexts.EnsureOptions{}, &fserr.Error{Code: fserr.EINVAL, Detail: "no context", Hint: "set one of " + fields}
	case panelID != "":
		id, owner, err := s.ContextOf(ctx, panelID)
		return id, contexts.EnsureOptions{OwnerPanel: owner}, err
	}
	id, err := parseID(contextID)
	return id, contexts.EnsureOptions{}, err
}

// Snapshot implements ContextService.
func (s *Contexts) Snapshot(ctx context.Context, req *ctxfsv1.SnapshotRequest) (*ctxfsv1.SnapshotResponse, error) {
	id, err := parseID(req.GetContextId())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	snapshot, err := s.Contexts.Snapshot(ctx, id, req.GetName())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return &ctxfsv1.SnapshotResponse{Snapshot: snapshotToPB(snapshot)}, nil
}

// ListSnapshots implements ContextService.
func (s *Contexts) ListSnapshots(ctx context.Context, req *ctxfsv1.ListSnapshotsRequest) (*ctxfsv1.ListSnapshotsResponse, error) {
	id, err := parseID(req.GetContextId())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	all, err := s.Contexts.Snapshots(ctx, id)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	resp := &ctxfsv1.ListSnapshotsResponse{}
	for _, snapshot := range all {
		resp.Snapshots = append(resp.Snapshots, snapshotToPB(snapshot))
	}
	return resp, nil
}

func snapshotToPB(s contexts.Snapshot) *ctxfsv1.SnapshotInfo {
	return &ctxfsv1.SnapshotInfo{Name: s.Name, CreatedNs: ns(s.TakenAt), Bytes: s.Bytes}
}

// Restore implements ContextService.
func (s *Contexts) Restore(ctx context.Context, req *ctxfsv1.RestoreRequest) (*ctxfsv1.RestoreResponse, error) {
	id, err := parseID(req.GetContextId())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	info, err := s.Contexts.Restore(ctx, id, req.GetName(), unless(id, req.GetDiscardChanges(), s.Unapplied))
	if err != nil {
		return nil, s.status(id, err)
	}
	return &ctxfsv1.RestoreResponse{Context: infoToPB(info)}, nil
}

// DeleteSnapshot implements ContextService.
func (s *Contexts) DeleteSnapshot(ctx context.Context, req *ctxfsv1.DeleteSnapshotRequest) (*ctxfsv1.DeleteSnapshotResponse, error) {
	id, err := parseID(req.GetContextId())
	if err == nil {
		err = s.Contexts.DeleteSnapshot(ctx, id, req.GetName())
	}
	return &ctxfsv1.DeleteSnapshotResponse{}, fserrpb.ToStatus(err)
}

// CollectGarbage implements ContextService.
func (s *Contexts) CollectGarbage(ctx context.Context, req *ctxfsv1.CollectGarbageRequest) (*ctxfsv1.CollectGarbageResponse, error) {
	if panels.IdentityFrom(ctx).Console && !req.GetDryRun() {
		return nil, fserrpb.ToStatus(&fserr.Error{Code: fserr.EACCES, Detail: "a console only shows what would be deleted", Hint: "delete it with 'ctxfs gc'"})
	}
	age, err := seconds("context_age_seconds", req.GetContextAgeSeconds())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	idle, err := seconds("context_idle_seconds", req.GetContextIdleSeconds())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	selected, err := labels.Parse(req.GetLabelSelectors())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	found, verdicts, err := s.Collector.Collect(ctx, contexts.GarbageOptions{
		DryRun: req.GetDryRun(), Age: age, Idle: idle, Labels: selected, Force: req.GetForce(),
	}, req.GetServerRules(), req.GetDiscardChanges())
	if err != nil && len(found) == 0 {
		return nil, fserrpb.ToStatus(err)
	}
	resp := &ctxfsv1.CollectGarbageResponse{Contexts: verdictsToPB(verdicts)}
	if err != nil {
		found = append(found, contexts.Garbage{Err: err})
	}
	for _, g := range found {
		if g.Err != nil {
			resp.Failures = append(resp.Failures, failureToPB(g))
			continue
		}
		resp.Removed = append(resp.Removed, &ctxfsv1.Garbage{Kind: garbageKinds[g.Kind], Name: g.Name, Bytes: g.Bytes, Files: g.Files})
	}
	return resp, nil
}

func failureToPB(g contexts.Garbage) *ctxfsv1.GarbageFailure {
	reason := fserr.CodeOf(g.Err).String()
	message := reason + ": " + fserr.CodeOf(g.Err).Text() // the text of any other error may name server paths
	var e *fserr.Error
	if errors.As(g.Err, &e) {
		message = e.Error()
	}
	return &ctxfsv1.GarbageFailure{Kind: garbageKinds[g.Kind], Name: g.Name, Reason: reason, Message: message}
}

func verdictsToPB(list []contexts.Verdict) (out []*ctxfsv1.ContextVerdict) {
	for _, v := range list {
		pb := &ctxfsv1.ContextVerdict{ContextId: string(v.ID), Removed: v.Removed, Rule: contextRules[v.Rule], Bytes: v.Bytes}
		for _, k := range v.Kept {
			pb.Kept = append(pb.Kept, &ctxfsv1.KeptContext{Reason: keepReasons[k.Reason], Text: fserrpb.Valid(k.Text)})
		}
		out = append(out, pb)
	}
	return out
}

var contextRules = map[contexts.Rule]ctxfsv1.ContextRule{
	contexts.RuleRequest: ctxfsv1.ContextRule_CONTEXT_RULE_REQUEST, contexts.RuleIdleTTL: ctxfsv1.ContextRule_CONTEXT_RULE_IDLE_TTL,
	contexts.RuleTTL: ctxfsv1.ContextRule_CONTEXT_RULE_TTL, contexts.RuleMaxBytes: ctxfsv1.ContextRule_CONTEXT_RULE_MAX_BYTES,
}

var keepReasons = map[contexts.KeepReason]ctxfsv1.KeepReason{
	contexts.KeepNoRule: ctxfsv1.KeepReason_KEEP_REASON_NO_RULE, contexts.KeepTooYoung: ctxfsv1.KeepReason_KEEP_REASON_TOO_YOUNG,
	contexts.KeepRecentlyUsed: ctxfsv1.KeepReason_KEEP_REASON_RECENTLY_USED, contexts.KeepUnderLimit: ctxfsv1.KeepReason_KEEP_REASON_UNDER_LIMIT,
	contexts.KeepSeeding: ctxfsv1.KeepReason_KEEP_REASON_SEEDING, contexts.KeepOperation: ctxfsv1.KeepReason_KEEP_REASON_OPERATION,
	contexts.KeepToken: ctxfsv1.KeepReason_KEEP_REASON_TOKEN, contexts.KeepSession: ctxfsv1.KeepReason_KEEP_REASON_SESSION,
	contexts.KeepHandle: ctxfsv1.KeepReason_KEEP_REASON_HANDLE, contexts.KeepProcess: ctxfsv1.KeepReason_KEEP_REASON_PROCESS,
	contexts.KeepSubmitted: ctxfsv1.KeepReason_KEEP_REASON_SUBMITTED, contexts.KeepDecisions: ctxfsv1.KeepReason_KEEP_REASON_DECISIONS,
	contexts.KeepStaged: ctxfsv1.KeepReason_KEEP_REASON_STAGED, contexts.KeepSite: ctxfsv1.KeepReason_KEEP_REASON_SITE,
	contexts.KeepChanges: ctxfsv1.KeepReason_KEEP_REASON_CHANGES, contexts.KeepSnapshots: ctxfsv1.KeepReason_KEEP_REASON_SNAPSHOTS,
}

// seconds is a time that a request may name; a negative one, or one that a Duration cannot hold, is EINVAL.
func seconds(field string, n int64) (time.Duration, error) {
	if n < 0 || n > int64(1<<63-1)/int64(time.Second) {
		return 0, &fserr.Error{Code: fserr.EINVAL, Detail: field + " is out of range"}
	}
	return time.Duration(n) * time.Second, nil
}

var garbageKinds = map[contexts.GarbageKind]ctxfsv1.GarbageKind{
	contexts.GarbageContext: ctxfsv1.GarbageKind_GARBAGE_KIND_CONTEXT, contexts.GarbageLayer: ctxfsv1.GarbageKind_GARBAGE_KIND_LAYER,
	contexts.GarbageStaging: ctxfsv1.GarbageKind_GARBAGE_KIND_STAGING, contexts.GarbageMount: ctxfsv1.GarbageKind_GARBAGE_KIND_MOUNT,
	contexts.GarbagePool:     ctxfsv1.GarbageKind_GARBAGE_KIND_POOL,
	contexts.GarbageSnapshot: ctxfsv1.GarbageKind_GARBAGE_KIND_SNAPSHOT,
	contexts.GarbageZone:     ctxfsv1.GarbageKind_GARBAGE_KIND_ZONE,
}
