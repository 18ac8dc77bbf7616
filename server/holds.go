package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/repos"
)

// look returns what holds contexts at the moment of the call: connected clients, open files, commands, decisions, staged
// commits and sites. It enters no context, since the caller may have one for itself: callers of that context wait, so it also
// takes at most lookTime.
func (c *collector) look(ctx context.Context) (contexts.Holds, error) {
	ctx, cancel := context.WithTimeout(ctx, c.lookTime)
	defer cancel()
	p := c.s.parts
	running, err := p.commands.Running(ctx)
	if err != nil {
		return nil, err
	}
	h := &held{
		handles: map[contexts.ID]int{}, processes: running, staged: p.repos.Holds(), sites: map[contexts.ID]int{}, leases: p.leases.Owners(),
		streams: c.s.streams.panels(), pending: p.reviews.Pending,
	}
	for _, f := range p.handles.List("") {
		h.handles[f.Context]++
	}
	for _, site := range p.sites.List() {
		h.sites[site.Context]++
	}
	return h.holds, nil
}

// work returns a GarbageOptions.Changes, nil if nothing of a context matters. It keeps a context with changes that were
// submitted, unless by force, and one with work that would be lost, unless that may be discarded.
func (c *collector) work(force, discard bool) func(ctx context.Context, id contexts.ID) ([]contexts.Kept, error) {
	if force && discard {
		return nil
	}
	return func(ctx context.Context, id contexts.ID) ([]contexts.Kept, error) {
		if !force {
			submitted, err := c.s.parts.reviews.Submitted(ctx, string(id))
			if err != nil {
				return nil, err
			}
			if submitted {
				return []contexts.Kept{{Reason: contexts.KeepSubmitted, Text: "its changes were submitted for review"}}, nil
			}
		}
		if discard {
			return nil, nil
		}
		return c.changes(ctx, id)
	}
}

// changes keeps a context that has changes or approvals which were not applied, commits of its own, or snapshots with such changes.
func (c *collector) changes(ctx context.Context, id contexts.ID) (kept []contexts.Kept, err error) {
	losing, err := c.s.parts.reviews.Losing(ctx, string(id), true)
	if len(losing.Changes) > 0 {
		kept = append(kept, contexts.Kept{Reason: contexts.KeepChanges, Text: losing.ChangesText()})
	}
	if len(losing.Commits) > 0 {
		kept = append(kept, contexts.Kept{Reason: contexts.KeepChanges, Text: "it has " + losing.CommitsText()})
	}
	if len(losing.Approved) > 0 {
		kept = append(kept, contexts.Kept{Reason: contexts.KeepDecisions, Text: losing.ApprovedText()})
	}
	if len(losing.Snapshots) > 0 {
		kept = append(kept, contexts.Kept{Reason: contexts.KeepSnapshots, Text: "it has " + losing.SnapshotsText()})
	}
	return kept, err
}

// held counts what holds contexts, by context. leases and streams have the panels with clients.
type held struct {
	handles, processes, sites map[contexts.ID]int
	// staged has the key "" for those of an unknown context.
	staged          map[string]repos.Hold
	leases, streams map[string]bool
	pending         func(id string) (bool, error)
}

// holds is a contexts.Holds.
func (h *held) holds(_ context.Context, id contexts.ID, panels []string) (kept []contexts.Kept, err error) {
	keep := func(reason contexts.KeepReason, format string, args ...any) {
		kept = append(kept, contexts.Kept{Reason: reason, Text: fmt.Sprintf(format, args...)})
	}
	for _, panel := range panels {
		if h.leases[panel] || h.streams[panel] {
			keep(contexts.KeepSession, "a client of panel %s is connected", panel)
		}
	}
	if n := h.handles[id]; n > 0 {
		keep(contexts.KeepHandle, "open files: %d", n)
	}
	if n := h.processes[id]; n > 0 {
		keep(contexts.KeepProcess, "running commands: %d", n)
	}
	pending, err := h.pending(string(id))
	if err != nil {
		return kept, fmt.Errorf("read the review of context '%s': %w", id, err)
	}
	if pending {
		keep(contexts.KeepDecisions, "its review has approvals that were not applied, or unresolved conflicts")
	}
	if n := h.staged[string(id)].Unpushed; n > 0 {
		keep(contexts.KeepStaged, "staged commits that were not pushed: %d", n)
	}
	for _, damaged := range slices.Concat(h.staged[string(id)].Damaged, h.staged[""].Damaged) {
		keep(contexts.KeepStaged, "the record of staged commit %s is damaged: restore it, or discard the commit", damaged)
	}
	if n := h.sites[id]; n > 0 {
		keep(contexts.KeepSite, "open sites: %d", n)
	}
	return kept, nil
}
