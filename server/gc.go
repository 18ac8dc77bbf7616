package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata/labels"
	"github.com/ctxfs/ctxfs/panels"
)

// collector collects garbage: from time to time by the server's rules, and for callers. It counts what it did, and writes the audit log.
type collector struct {
	s *Server
	// lookTime bounds a look at what holds contexts: a runner may not answer.
	lookTime time.Duration
}

// lookTime is that of a server's collector.
const lookTime = 10 * time.Second

// roleServer is the role of the server itself in the audit log.
const roleServer = "server"

// gcJitter bounds how much later than its time the first collection begins, as one part in so many of the interval, so that servers which were
// started together do not collect together.
const gcJitter = 5

// run collects at each interval until ctx ends.
func (c *collector) run(ctx context.Context) {
	interval := c.s.cfg.GCInterval
	if interval <= 0 {
		return
	}
	jitter := rand.N(interval/gcJitter + 1)
	atIntervals(ctx, interval, jitter, func() { c.timed(ctx) }, c.skipped)
}

// skipped counts a timed collection that did not run.
func (c *collector) skipped() { c.s.metrics.gcRuns.WithLabelValues("timed", "skipped").Inc() }

// atIntervals calls do at each interval until ctx ends, for the first time after one interval and the jitter. It calls skipped for each time at
// which do was still running.
func atIntervals(ctx context.Context, interval, jitter time.Duration, do, skipped func()) {
	next := time.Now().Add(interval + jitter)
	for {
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		do()
		for next = next.Add(interval); !next.After(time.Now()); next = next.Add(interval) {
			skipped()
		}
	}
}

// timed is one collection by the server's rules.
func (c *collector) timed(ctx context.Context) {
	if until, settling := c.s.database.settling(time.Now()); settling {
		c.s.log.Info("timed collection skipped: records were rebuilt or restored less than a day ago", zap.Time("until", until))
		c.skipped()
		return
	}
	found, verdicts, err := c.collect(ctx, contexts.GarbageOptions{Changes: c.work(false, false)}, true, "timed", roleServer)
	removed, bytes, failed := 0, int64(0), 0
	for _, g := range found {
		if g.Err != nil {
			failed++
			continue
		}
		removed, bytes = removed+1, bytes+g.Bytes
	}
	log := c.s.log.With(zap.Int("removed", removed), zap.Int64("bytes", bytes), zap.Int("failed", failed), zap.Int("kept", kept(verdicts)))
	switch {
	case ctx.Err() != nil: // the server stops
	case err != nil:
		log.Warn("a timed collection did not look at everything", zap.Error(err))
	default:
		log.Info("timed collection")
	}
}

// kept counts the contexts that a rule selected, and that something keeps.
func kept(verdicts []contexts.Verdict) (n int) {
	for _, v := range verdicts {
		if v.Rule != "" && !v.Removed {
			n++
		}
	}
	return n
}

// Collect implements services.Collector.
func (c *collector) Collect(ctx context.Context, opts contexts.GarbageOptions, serverRules, discard bool) ([]contexts.Garbage, []contexts.Verdict, error) {
	opts.Changes = c.work(opts.Force, discard)
	return c.collect(ctx, opts, serverRules, "call", roleName(panels.IdentityFrom(ctx)))
}

func (c *collector) collect(ctx context.Context, opts contexts.GarbageOptions, serverRules bool, trigger, role string) ([]contexts.Garbage, []contexts.Verdict, error) {
	if cfg := c.s.cfg; serverRules {
		opts.TTL, opts.IdleTTL, opts.MaxBytes = cfg.ContextTTL, cfg.ContextIdleTTL, int64(cfg.ContextsMaxBytes)
		own, err := labels.Parse(cfg.GCLabel)
		if err != nil { // the configuration was checked
			return nil, nil, err
		}
		opts.Labels = append(slices.Clone(opts.Labels), own...)
	}
	opts.Look, opts.Size = c.look, c.s.sizes.size
	begun := time.Now()
	var verdicts []contexts.Verdict
	opts.Verdict = func(v contexts.Verdict) {
		verdicts = append(verdicts, v)
		if !opts.DryRun {
			c.record(v, role)
		}
	}
	found, err := c.s.parts.contexts.CollectGarbage(ctx, opts)
	if list, e := c.s.parts.contexts.List(ctx); e == nil {
		c.s.sizes.prune(list)
	}
	if !opts.DryRun {
		err = errors.Join(err, c.s.parts.repos.Collect(ctx))
		c.count(found, trigger, err, time.Since(begun))
	}
	return found, verdicts, err
}

// record counts what was decided on a context, and writes a line to the audit log if it was removed.
func (c *collector) record(v contexts.Verdict, role string) {
	for _, k := range v.Kept {
		c.s.metrics.gcKept.WithLabelValues(string(k.Reason)).Inc()
	}
	if a := c.s.parts.audit; a != nil && v.Removed {
		a.write(auditEntry{Time: time.Now().UTC(), Role: role, Context: string(v.ID), Op: "CollectGarbage", Name: string(v.Rule), Result: "ok", Bytes: v.Bytes})
	}
}

// count counts a collection.
func (c *collector) count(found []contexts.Garbage, trigger string, err error, took time.Duration) {
	m, result := c.s.metrics, "ok"
	for _, g := range found {
		if g.Err != nil {
			result = "partial"
			continue
		}
		m.gcRemoved.WithLabelValues(string(g.Kind)).Inc()
		m.gcBytes.WithLabelValues(string(g.Kind)).Add(float64(g.Bytes))
	}
	switch {
	case errors.Is(err, context.Canceled) || fserr.CodeOf(err) == fserr.ECANCELED:
		result = "cancelled"
	case err != nil:
		result = "failed"
	}
	m.gcRuns.WithLabelValues(trigger, result).Inc()
	m.gcDuration.Observe(took.Seconds())
}
