package server

import (
	"math"
	"testing"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestMetricsAreSampled watches a server that is called, and gets the history and then samples with the calls.
func TestMetricsAreSampled(t *testing.T) {
	t.Parallel()
	r := startWith(t, testConfig(t), func(s *Server) { s.sampler.every = 20 * time.Millisecond })
	r.openPanel(t, "panels/a")
	cc := r.host(t)
	stream, err := ctxfsv1.NewConsoleServiceClient(cc).WatchMetrics(t.Context(), &ctxfsv1.WatchMetricsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetHistory().GetIntervalMs() != 20 {
		t.Fatalf("%v, %v", first, err)
	}
	failed := false
	last, calls := int64(0), int32(0)
	for sawSizes := false; !failed || !sawSizes; {
		_, _ = ctxfsv1.NewContextServiceClient(cc).GetContext(t.Context(), &ctxfsv1.GetContextRequest{ContextId: "no context"}) // it fails, and is counted
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		s := m.GetSample()
		if s.Panels == nil || s.Processes == nil {
			continue // they were not counted within the 20 ms
		}
		if s.GetTimeNs() <= last || s.Contexts == nil || s.GetContexts() != 1 || s.GetPanels() != 1 || s.GetDiskFreeBytes() <= 0 || s.GetCalls() < calls {
			t.Fatalf("a sample is %v", s)
		}
		last, calls = s.GetTimeNs(), 1 // the first may have been taken before this stream began
		if s.GetErrorsPerSecond() > 0 {
			failed = s.GetOperationsPerSecond() >= s.GetErrorsPerSecond() && s.LatencyP50Seconds != nil && s.GetLatencyP50Seconds() <= s.GetLatencyP99Seconds()
		}
		sawSizes = s.ContextsBytes != nil
	}
}

func TestSamplesAreBounded(t *testing.T) {
	t.Parallel()
	p := newSampler(&Server{})
	for i := range 2 * maxSamples {
		p.add(&ctxfsv1.MetricsSample{TimeNs: int64(i)})
	}
	all, taken, _ := p.since(0)
	if len(all) != maxSamples || taken != 2*maxSamples || all[0].GetTimeNs() != maxSamples {
		t.Errorf("%d samples of %d, the first is %v", len(all), taken, all[0])
	}
	for seen, want := range map[int]int{taken: 0, taken - 1: 1, taken - 3: 3, 1: maxSamples} {
		if list, _, _ := p.since(seen); len(list) != want {
			t.Errorf("after %d there are %d, want %d", seen, len(list), want)
		}
	}
}

func TestQuantilesOfCalls(t *testing.T) {
	t.Parallel()
	buckets := func(one, two, all uint64) counts {
		return counts{at: time.Unix(int64(all), 0), calls: all, failed: one, within: map[float64]uint64{1: one, 2: two}, all: all}
	}
	for name, c := range map[string]struct {
		before, now   counts
		p50, p95, p99 float64
	}{
		"all in one bucket":   {buckets(0, 0, 0), buckets(100, 100, 100), .5, .95, .99},
		"of the time between": {buckets(100, 100, 100), buckets(100, 200, 200), 1.5, 1.95, 1.99},
		"beyond the last":     {buckets(0, 0, 0), buckets(0, 0, 10), 2, 2, 2},
		"in both":             {buckets(0, 0, 0), buckets(50, 100, 100), 1, 1.9, 1.98},
	} {
		s := &ctxfsv1.MetricsSample{}
		c.now.rates(s, c.before)
		for _, pair := range [][2]float64{{s.GetLatencyP50Seconds(), c.p50}, {s.GetLatencyP95Seconds(), c.p95}, {s.GetLatencyP99Seconds(), c.p99}, {s.GetOperationsPerSecond(), 1}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("%s: %v", name, s)
			}
		}
	}
	quiet := &ctxfsv1.MetricsSample{}
	now := buckets(1, 1, 1)
	now.at = now.at.Add(time.Second)
	now.rates(quiet, buckets(1, 1, 1))
	if quiet.LatencyP50Seconds != nil || quiet.GetOperationsPerSecond() != 0 {
		t.Errorf("without calls: %v", quiet)
	}
}
