package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// sampleEvery is the time between two samples, and maxSamples how many are kept: an hour of them.
	sampleEvery = 5 * time.Second
	maxSamples  = 720
	// sizesEvery is how often the sizes of the contexts are measured at most, and sizesShare bounds the part of the time, one in so many,
	// that this takes: it reads all of their directories.
	sizesEvery = time.Minute
	sizesShare = 20
)

// sampler takes samples of what the server does from its metrics, and keeps those of the last hour.
type sampler struct {
	s     *Server
	every time.Duration
	log   *zap.Logger
	// last are the counts of the sample before. Only run uses it.
	last counts

	mu sync.Mutex
	// samples are the last ones, oldest first; taken counts all.
	samples []*ctxfsv1.MetricsSample
	taken   int
	// more is closed when there is another sample.
	more chan struct{}
	// watchers counts the clients.
	watchers int
	// bytes is what the contexts take on disk; nil before it was measured.
	bytes *int64
}

// counts are what the histograms of calls have counted since the start.
type counts struct {
	at            time.Time
	calls, failed uint64
	// within has, for each bucket, the calls that took at most so many seconds, without those of streams that have no end. all has the
	// number of these calls.
	within map[float64]uint64
	all    uint64
}

func newSampler(s *Server) *sampler {
	return &sampler{s: s, every: sampleEvery, log: s.log, more: make(chan struct{})}
}

// run takes samples until ctx ends.
func (p *sampler) run(ctx context.Context) {
	var measuring sync.WaitGroup
	defer measuring.Wait()
	_, p.last = p.sample(ctx)
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	var sizes sizesTimer
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		taken, now := p.sample(ctx)
		now.rates(taken, p.last)
		p.last = now
		p.add(taken)
		if p.watched() && sizes.due() {
			measuring.Go(func() {
				defer sizes.done()
				p.measure(ctx)
			})
		}
	}
}

// sizesTimer says when the sizes of contexts are measured.
type sizesTimer struct {
	mu          sync.Mutex
	busy        bool
	begun, next time.Time
}

func (t *sizesTimer) due() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.busy || now.Before(t.next) {
		return false
	}
	t.busy, t.begun = true, now
	return true
}

func (t *sizesTimer) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.busy, t.next = false, now.Add(max(sizesEvery, sizesShare*now.Sub(t.begun)))
}

// sample returns what the metrics have now, and the counts from which rates are computed.
func (p *sampler) sample(ctx context.Context) (*ctxfsv1.MetricsSample, counts) {
	now := time.Now()
	out, c := &ctxfsv1.MetricsSample{TimeNs: now.UnixNano()}, counts{at: now, within: map[float64]uint64{}}
	families, err := p.s.metrics.registry.Gather()
	if err != nil {
		p.log.Debug("some metrics cannot be read", zap.Error(err)) // the others are returned
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			value := m.GetGauge().GetValue()
			switch family.GetName() {
			case "ctxfs_handles_open":
				out.Handles = int32(value)
			case "ctxfs_sessions":
				out.Sessions = int32(value)
			case "ctxfs_in_flight":
				out.Calls = int32(value)
			case "ctxfs_contexts":
				out.Contexts = proto.Int32(int32(value))
			case "ctxfs_disk_free_bytes":
				out.DiskFreeBytes = proto.Int64(int64(value))
			case "ctxfs_rpc_duration_seconds":
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				c.add(labels["method"], labels["code"], m.GetHistogram())
			}
		}
	}
	p.count(ctx, out)
	return out, c
}

// count counts what no metric has.
func (p *sampler) count(ctx context.Context, out *ctxfsv1.MetricsSample) {
	ctx, cancel := context.WithTimeout(ctx, p.every)
	defer cancel()
	if list, err := p.s.parts.store.Panels().List(ctx); err == nil {
		open := int32(0)
		for _, panel := range list {
			if panel.ClosedAt.IsZero() {
				open++
			}
		}
		out.Panels = &open
	}
	if running, err := p.s.parts.commands.Running(ctx); err == nil {
		n := 0
		for _, in := range running {
			n += in
		}
		out.Processes = proto.Int32(int32(n))
	}
}

// add counts the calls of a method that ended with a code.
func (c *counts) add(name, code string, h *dto.Histogram) {
	c.calls += h.GetSampleCount()
	if code != codes.OK.String() {
		c.failed += h.GetSampleCount()
	}
	if method.Of(name).OpenEnded() {
		return
	}
	c.all += h.GetSampleCount()
	for _, b := range h.GetBucket() {
		c.within[b.GetUpperBound()] += b.GetCumulativeCount()
	}
}

// rates sets what happened since the sample before.
func (c counts) rates(out *ctxfsv1.MetricsSample, before counts) {
	seconds := c.at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return
	}
	out.OperationsPerSecond = float64(c.calls-before.calls) / seconds
	out.ErrorsPerSecond = float64(c.failed-before.failed) / seconds
	for part, field := range map[float64]**float64{.5: &out.LatencyP50Seconds, .95: &out.LatencyP95Seconds, .99: &out.LatencyP99Seconds} {
		*field = c.quantile(part, before)
	}
}

// quantile returns how long a part of the calls took at most; nil if there were none. It takes calls as spread evenly in their bucket.
// Of calls beyond the last bucket it returns the last bound.
func (c counts) quantile(part float64, before counts) *float64 {
	n := c.all - before.all
	if n == 0 {
		return nil
	}
	rank := part * float64(n)
	lower, below := 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(c.within)) {
		within := float64(c.within[bound] - before.within[bound])
		if within >= rank {
			return proto.Float64(lower + (bound-lower)*(rank-below)/(within-below))
		}
		lower, below = bound, within
	}
	return &lower
}

// measure measures what the contexts take on disk. Contexts that cannot be measured are left out.
func (p *sampler) measure(ctx context.Context) {
	list, err := p.s.parts.contexts.List(ctx)
	sum := int64(0)
	for _, c := range list {
		size, err := p.s.sizes.of(ctx, c)
		if err != nil {
			p.log.Debug("a context was not measured", zap.String("context", string(c.ID)), zap.Error(err))
			continue
		}
		sum += size
	}
	p.s.sizes.prune(list)
	if err != nil || ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes = &sum
}

func (p *sampler) watched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watchers > 0
}

// add adds a sample, and wakes the clients.
func (p *sampler) add(taken *ctxfsv1.MetricsSample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken.ContextsBytes = p.bytes
	if len(p.samples) == maxSamples {
		p.samples = slices.Delete(p.samples, 0, 1)
	}
	p.samples = append(p.samples, taken)
	p.taken++
	close(p.more)
	p.more = make(chan struct{})
}

// since returns the samples after the first n that were taken, as far as they are kept, how many were taken, and a channel that is closed
// when there is another.
func (p *sampler) since(n int) ([]*ctxfsv1.MetricsSample, int, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.samples[max(0, len(p.samples)-(p.taken-n)):]), p.taken, p.more
}

func (p *sampler) watch(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers += by
}

// Watch implements services.Samples.
func (p *sampler) Watch(ctx context.Context, send func(*ctxfsv1.WatchMetricsResponse) error) error {
	p.watch(1)
	defer p.watch(-1)
	list, seen, more := p.since(0)
	history := &ctxfsv1.MetricsHistory{Samples: list, IntervalMs: int32(p.every.Milliseconds())}
	if err := send(&ctxfsv1.WatchMetricsResponse{Event: &ctxfsv1.WatchMetricsResponse_History{History: history}}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return fserrpb.FromContext(ctx)
		case <-more:
		}
		list, seen, more = p.since(seen)
		for _, sample := range list {
			if err := send(&ctxfsv1.WatchMetricsResponse{Event: &ctxfsv1.WatchMetricsResponse_Sample{Sample: sample}}); err != nil {
				return err
			}
		}
	}
}
