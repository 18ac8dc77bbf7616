package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// MinIdle is how long a context is safe from a collection after its last use, which is known to a few minutes.
const MinIdle = 2 * gate.NoteEvery

// Rule is why a collection removes a context.
type Rule string

// The rules. A context that several of them select goes by the first.
const (
	// RuleRequest is GarbageOptions.Age and Idle.
	RuleRequest Rule = "request"
	RuleIdleTTL Rule = "idle_ttl"
	RuleTTL     Rule = "ttl"
	// RuleMaxBytes is GarbageOptions.MaxBytes.
	RuleMaxBytes Rule = "max_bytes"
)

// KeepReason is a kind of reason for which a collection keeps a context.
type KeepReason string

// The reasons. The first four say that no rule selects the context. A forced collection ignores those from KeepOperation to KeepSite.
const (
	KeepNoRule       KeepReason = "no_rule"
	KeepTooYoung     KeepReason = "too_young"
	KeepRecentlyUsed KeepReason = "recently_used"
	KeepUnderLimit   KeepReason = "under_limit"
	KeepSeeding      KeepReason = "seeding"
	KeepOperation    KeepReason = "operation"
	KeepToken        KeepReason = "token"
	// Those of GarbageOptions.Holds.
	KeepSession   KeepReason = "session"
	KeepHandle    KeepReason = "handle"
	KeepProcess   KeepReason = "process"
	KeepSubmitted KeepReason = "submitted" // of GarbageOptions.Changes
	KeepDecisions KeepReason = "decisions"
	KeepStaged    KeepReason = "staged"
	KeepSite      KeepReason = "site"
	// Those of GarbageOptions.Changes.
	KeepChanges   KeepReason = "changes"
	KeepSnapshots KeepReason = "snapshots"
)

// Kept is a reason for which a collection keeps a context, with a text for people.
type Kept struct {
	Reason KeepReason
	Text   string
}

// Holds returns the reasons outside of package contexts for which a collection must keep a context, to which panels are bound. An error keeps
// the context too.
type Holds func(ctx context.Context, id catalog.ID, panels []string) ([]Kept, error)

// Verdict is what a collection decided on a context.
type Verdict struct {
	ID catalog.ID
	// Rule selected the context; "" if none did.
	Rule Rule
	// Removed says that the context was removed, or would be. Bytes is the space on disk that it took.
	Removed bool
	Bytes   int64
	// Kept are the reasons why it was not removed. It is empty if Removed, and if an error prevented the removal, which is in the result.
	Kept []Kept
}

// stays is the error of a context that a collection keeps after all.
type stays struct{ kept []Kept }

// Error implements error.
func (s *stays) Error() string { return "the context stays" }

// selects reports whether the options select contexts at all.
func (o GarbageOptions) selects() bool {
	return o.Age > 0 || o.Idle > 0 || o.TTL > 0 || o.IdleTTL > 0 || o.MaxBytes > 0
}

// contexts removes those that the rules select.
func (c *collection) contexts(ctx context.Context) error {
	recs, err := c.cat.Store.Contexts().List(ctx)
	if err != nil {
		return catalog.NotListed("the records of contexts", err)
	}
	holds, err := c.look(ctx)
	if err != nil {
		return err
	}
	var left []metadata.Context
	judged := map[string]bool{}
	for _, rec := range recs {
		rule, why := c.due(rec)
		switch {
		case !c.opts.Labels.Matches(rec.Labels):
			left = append(left, rec)
		case rule != "":
			judged[rec.ID] = true
			if !c.judge(ctx, rec, rule, holds).Removed {
				left = append(left, rec)
			}
		case c.opts.MaxBytes > 0:
			left = append(left, rec)
		default:
			c.keep(ctx, rec, why, holds)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return c.shrink(ctx, left, judged, holds)
}

// look returns what holds contexts now.
func (c *collection) look(ctx context.Context) (Holds, error) {
	if c.opts.Look == nil {
		return func(context.Context, catalog.ID, []string) ([]Kept, error) { return nil, nil }, nil
	}
	return c.opts.Look(ctx)
}

// due returns the rule that selects a context, but for MaxBytes. If none does it returns the reasons.
func (c *collection) due(rec metadata.Context) (Rule, []Kept) {
	now := c.cat.Now()
	age, idle := now.Sub(rec.CreatedAt), now.Sub(c.lastUse(rec))
	old := func(least time.Duration) bool { return idle > max(least, MinIdle) }
	switch o := c.opts; {
	case (o.Age > 0 || o.Idle > 0) && age > o.Age && old(o.Idle):
		return RuleRequest, nil
	case o.IdleTTL > 0 && old(o.IdleTTL):
		return RuleIdleTTL, nil
	case o.TTL > 0 && age > o.TTL && old(0):
		return RuleTTL, nil
	case !o.selects():
		return "", []Kept{{KeepNoRule, "no rule removes contexts"}}
	}
	if !old(max(c.opts.Idle, c.opts.IdleTTL)) {
		return "", []Kept{recent(idle)}
	}
	return "", []Kept{{KeepTooYoung, "it was made " + ago(age)}}
}

func recent(idle time.Duration) Kept { return Kept{KeepRecentlyUsed, "it was used " + ago(idle)} }

func ago(d time.Duration) string { return max(d, 0).Round(time.Second).String() + " ago" }

// lastUse is when a context was last known to be used: by a call, or by another program if the context was measured.
func (c *collection) lastUse(rec metadata.Context) time.Time {
	last := c.gates.LastUse(rec)
	if at := c.changed[rec.ID]; at.After(last) {
		return at
	}
	return last
}

// underWay keeps a context with operations.
var underWay = Kept{KeepOperation, "calls are under way in it"}

// still fails with a *stays unless the rule that selected a context when all were listed is the one that selects it now.
func (c *collection) still(rec metadata.Context, rule Rule) error {
	idle := c.cat.Now().Sub(c.lastUse(rec))
	if !c.opts.Labels.Matches(rec.Labels) {
		return &stays{[]Kept{{KeepNoRule, "its labels were changed"}}}
	}
	if rule == RuleMaxBytes {
		if idle <= MinIdle {
			return &stays{[]Kept{recent(idle)}}
		}
		return nil
	}
	switch now, why := c.due(rec); now {
	case rule:
		return nil
	case "":
		return &stays{why}
	default: // another one that spares other contexts
		return &stays{[]Kept{recent(idle)}}
	}
}

// keep notes that no rule selects a context. Only a dry run reports that, with everything else that keeps the context.
func (c *collection) keep(ctx context.Context, rec metadata.Context, why []Kept, holds Holds) {
	if !c.opts.DryRun || c.opts.Verdict == nil {
		return
	}
	held, err := c.held(ctx, rec, "", holds)
	if err != nil {
		c.report(Garbage{Kind: GarbageContext, Name: rec.ID, Err: err})
	}
	c.opts.Verdict(Verdict{ID: catalog.ID(rec.ID), Kept: append(why, held...)})
}

// judge removes a context that a rule selects, unless something keeps it.
func (c *collection) judge(ctx context.Context, rec metadata.Context, rule Rule, holds Holds) Verdict {
	v := Verdict{ID: catalog.ID(rec.ID), Rule: rule}
	var err error
	if v.Kept, err = c.held(ctx, rec, rule, holds); err == nil && len(v.Kept) == 0 && c.opts.Changes != nil {
		v.Kept, err = c.opts.Changes(gate.Observe(ctx), v.ID)
	}
	if err == nil && len(v.Kept) == 0 {
		v.Bytes, v.Removed, v.Kept, err = c.context(ctx, v.ID, rule)
	}
	switch {
	case err != nil:
		c.report(Garbage{Kind: GarbageContext, Name: rec.ID, Bytes: v.Bytes, Err: err})
	case v.Removed:
		c.report(Garbage{Kind: GarbageContext, Name: rec.ID, Bytes: v.Bytes})
	}
	if c.opts.Verdict != nil {
		c.opts.Verdict(v)
	}
	return v
}

// candidate is a context that may go by RuleMaxBytes.
type candidate struct {
	rec  metadata.Context
	size int64
}

// shrink removes contexts, those first that have been idle for the longest, until all together take at most MaxBytes.
func (c *collection) shrink(ctx context.Context, left []metadata.Context, judged map[string]bool, holds Holds) error {
	if c.opts.MaxBytes <= 0 {
		return nil
	}
	list, total, err := c.sized(ctx, left)
	for len(list) > 0 && err == nil {
		first := list[0]
		rec := first.rec
		list = list[1:]
		if judged[rec.ID] || !c.opts.Labels.Matches(rec.Labels) {
			continue
		}
		stay := c.still(rec, RuleMaxBytes)
		switch s, kept := stay.(*stays); { //nolint:errorlint // still returns it as it is
		case total <= c.opts.MaxBytes:
			c.keep(ctx, rec, []Kept{{KeepUnderLimit, fmt.Sprintf("the contexts take %d bytes, and may take %d", total, c.opts.MaxBytes)}}, holds)
		case kept:
			c.keep(ctx, rec, s.kept, holds)
		case c.later(ctx, rec):
			list = c.insert(list, first)
		case c.judge(ctx, rec, RuleMaxBytes, holds).Removed:
			total -= first.size
		}
		err = ctx.Err()
	}
	return err
}

// sized returns contexts with their sizes, those first that have been idle for the longest, and what all together take.
func (c *collection) sized(ctx context.Context, left []metadata.Context) (list []candidate, total int64, err error) {
	for _, rec := range left {
		size, err := c.size(ctx, catalog.ID(rec.ID))
		if err != nil && fserr.CodeOf(err) != fserr.ESTALE {
			c.cat.Log.Warn("a context could not be measured for a collection", zap.String("context", rec.ID), zap.Error(catalog.Cause(err)))
		}
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		list, total = append(list, candidate{rec, size}), total+size
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return c.lastUse(a.rec).Compare(c.lastUse(b.rec)) })
	return list, total, nil
}

// later measures a context for the first time, and reports whether other programs used it later than the server knew.
func (c *collection) later(ctx context.Context, rec metadata.Context) bool {
	if _, known := c.changed[rec.ID]; known {
		return false
	}
	before := c.lastUse(rec)
	_, err := c.measure(ctx, rec)
	return err == nil && c.lastUse(rec).After(before) // judge returns the error
}

// insert puts a context behind those that have been idle for longer.
func (c *collection) insert(list []candidate, one candidate) []candidate {
	used := c.lastUse(one.rec)
	at := slices.IndexFunc(list, func(other candidate) bool { return c.lastUse(other.rec).After(used) })
	if at < 0 {
		at = len(list)
	}
	return slices.Insert(list, at, one)
}

// size returns what a context takes on disk alone, with its snapshots.
func (c *collection) size(ctx context.Context, id catalog.ID) (int64, error) {
	if c.opts.Size != nil {
		return c.opts.Size(ctx, id)
	}
	rec, ok, err := c.cat.Record(ctx, id)
	if err != nil || !ok {
		return 0, err
	}
	_, dir, err := c.cat.Drivers.Held(rec)
	if err != nil {
		return 0, err
	}
	own, err := disk.Use(ctx, dir)
	if err != nil {
		return own, err
	}
	snapshots, err := disk.Use(ctx, c.cat.Layout.SnapshotsOf(id))
	return own + snapshots, err
}

// held returns what keeps a context that a rule selects.
func (c *collection) held(ctx context.Context, rec metadata.Context, rule Rule, holds Holds) (kept []Kept, err error) {
	id := catalog.ID(rec.ID)
	if c.seeder.Flights.Progress(id) != nil {
		return []Kept{{KeepSeeding, "it is being seeded"}}, nil
	}
	if c.opts.Force {
		return nil, nil
	}
	if c.gates.InUse(id) {
		kept = append(kept, underWay)
	}
	panels, err := c.cat.PanelsOf(ctx, id)
	if err != nil {
		return kept, err
	}
	if c.sparesTokens(rule) {
		tokens, err := c.tokens(ctx, panels)
		if kept = append(kept, tokens...); err != nil {
			return kept, err
		}
	}
	held, err := holds(ctx, id, panels)
	return append(kept, held...), err
}

// sparesTokens reports whether a rule spares contexts of panels with a token that has not expired. Those that require an idle time do not.
func (c *collection) sparesTokens(rule Rule) bool {
	return rule == RuleTTL || rule == RuleMaxBytes || rule == RuleRequest && c.opts.Idle == 0
}

// tokens returns the panels that may come back by a token that has not expired.
func (c *collection) tokens(ctx context.Context, panels []string) (kept []Kept, err error) {
	for _, panel := range panels {
		tokens, err := c.cat.Store.Tokens().List(ctx, panel)
		if err != nil {
			return kept, catalog.NotListed("the panels", err)
		}
		var last time.Time
		for _, t := range tokens {
			if t.ExpiresAt.After(last) {
				last = t.ExpiresAt
			}
		}
		if last.After(c.cat.Now()) {
			kept = append(kept, Kept{KeepToken, fmt.Sprintf("panel %s has a token that expires at %s", panel, last.UTC().Format(time.RFC3339))})
		}
	}
	return kept, nil
}
