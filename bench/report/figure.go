package report

import (
	"fmt"
	"slices"
	"time"
)

// Samples are how long each of several things took, by name.
type Samples map[string][]time.Duration

// Add does something and notes how long that took.
func (s Samples) Add(name string, do func() error) error {
	begun := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s[name] = append(s[name], time.Since(begun))
	return nil
}

// Medians returns the median of each.
func (s Samples) Medians() map[string]time.Duration {
	out := map[string]time.Duration{}
	for name, all := range s {
		out[name] = Median(all)
	}
	return out
}

// Round is what one peer did in one round of one cell.
type Round struct {
	P50, P99 time.Duration
	// Rate is operations a second.
	Rate float64
	// CPU is processor time an operation, of client and server.
	CPU time.Duration
}

// Summarize makes a round of all its durations, how long it took, and the processor time. It sorts durations.
// ops may be less than a whole for work that was cut.
func Summarize(durations []time.Duration, ops float64, took, cpu time.Duration) Round {
	slices.Sort(durations)
	return Round{P50: Quantile(durations, 0.50), P99: Quantile(durations, 0.99), Rate: ops / took.Seconds(), CPU: time.Duration(float64(cpu) / ops)}
}

// Quantile is the nearest rank of sorted values; the zero value when there are none.
func Quantile[T any](sorted []T, q float64) T {
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	rank := int(q*float64(len(sorted))+0.9999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// Median is the middle value, or the mean of the two in the middle; 0 of none.
func Median[T ~int64 | ~float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	m := len(v) / 2
	if len(v)%2 == 1 {
		return v[m]
	}
	return (v[m-1] + v[m]) / 2
}

// Medians takes the median of each figure separately.
func Medians(rounds []Round) Round {
	var p50, p99, cpu []time.Duration
	var rate []float64
	for _, r := range rounds {
		p50, p99, cpu, rate = append(p50, r.P50), append(p99, r.P99), append(cpu, r.CPU), append(rate, r.Rate)
	}
	return Round{P50: Median(p50), P99: Median(p99), Rate: Median(rate), CPU: Median(cpu)}
}
