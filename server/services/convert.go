package services

import (
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// ns returns t as the wire has it; 0 for the zero time.
func ns(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func stateToPB(s contexts.State) ctxfsv1.ContextState {
	switch s {
	case contexts.StateMissing:
		return ctxfsv1.ContextState_CONTEXT_STATE_MISSING
	case contexts.StateSeeding:
		return ctxfsv1.ContextState_CONTEXT_STATE_SEEDING
	case contexts.StateReady:
		return ctxfsv1.ContextState_CONTEXT_STATE_READY
	case contexts.StateFailed:
		return ctxfsv1.ContextState_CONTEXT_STATE_FAILED
	}
	return ctxfsv1.ContextState_CONTEXT_STATE_UNSPECIFIED
}

func phaseToPB(p contexts.Phase) ctxfsv1.SeedPhase {
	switch p {
	case contexts.PhaseWaiting:
		return ctxfsv1.SeedPhase_SEED_PHASE_WAITING
	case contexts.PhaseScanning:
		return ctxfsv1.SeedPhase_SEED_PHASE_SCANNING
	case contexts.PhaseLayering:
		return ctxfsv1.SeedPhase_SEED_PHASE_LAYERING
	case contexts.PhaseBuilding:
		return ctxfsv1.SeedPhase_SEED_PHASE_BUILDING
	case contexts.PhaseCopying:
		return ctxfsv1.SeedPhase_SEED_PHASE_COPYING
	case contexts.PhaseRecord:
		return ctxfsv1.SeedPhase_SEED_PHASE_RECORDING
	}
	return ctxfsv1.SeedPhase_SEED_PHASE_UNSPECIFIED
}

func progressToPB(p contexts.Progress) *ctxfsv1.SeedProgress {
	return &ctxfsv1.SeedProgress{
		Phase: phaseToPB(p.Phase), FilesDone: p.FilesDone, FilesTotal: p.FilesTotal, BytesDone: p.BytesDone, BytesTotal: p.BytesTotal,
	}
}

func infoToPB(i contexts.Info) *ctxfsv1.Context {
	c := &ctxfsv1.Context{
		ContextId: string(i.ID), State: stateToPB(i.State), LastError: i.LastError, Folder: i.Folder, Driver: i.Driver, Layer: i.Layer,
		Files: i.Files, Bytes: i.Bytes, CreatedNs: ns(i.CreatedAt), SeedMs: i.SeededIn.Milliseconds(), Panels: i.Panels,
		Recovered: i.Recovered, Generation: i.Generation, ForkedFrom: string(i.ForkedFrom), UsedNs: ns(i.UsedAt), Labels: i.Labels,
	}
	if i.Progress != nil {
		c.Progress = progressToPB(*i.Progress)
	}
	return c
}

// PlanToPB converts a plan.
func PlanToPB(p contexts.Plan) *ctxfsv1.PlanSeedResponse {
	resp := &ctxfsv1.PlanSeedResponse{Files: p.Files, Bytes: p.Bytes, TooLarge: p.TooLarge}
	for _, r := range p.Repositories {
		resp.Repositories = append(resp.Repositories, &ctxfsv1.Repository{Path: r.Path, Head: r.Head, Branch: r.Branch, Dirty: r.Dirty})
	}
	for _, d := range p.Largest {
		resp.Largest = append(resp.Largest, &ctxfsv1.DirectorySize{Path: d.Path, Files: d.Files, Bytes: d.Bytes})
	}
	for _, s := range p.Skipped {
		resp.Skipped = append(resp.Skipped, &ctxfsv1.SkippedEntries{Reason: s.Reason, Entries: s.Entries, Files: s.Files})
	}
	return resp
}
