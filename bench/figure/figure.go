// Package figure turns durations into the figures that are reported. It knows nothing of
// what was measured.
package figure

import (
	"slices"
	"time"
)

// Round is what one peer did in one round of one cell.
type Round struct {
	P50, P99 time.Duration
	// Rate is operations a second.
	Rate float64
	// CPU is processor time an operation, of client and server.
	CPU time.Duration
}

// Summarize makes a round of all its durations, how long it took, and the processor time.
// It sorts durations. ops may be less than a whole for work that was cut.
func Summarize(durations []time.Duration, ops float64, took, cpu time.Duration) Round {
	slices.Sort(durations)
	return Round{
		P50: Quantile(durations, 0.50), P99: Quantile(durations, 0.99),
		Rate: ops / took.Seconds(), CPU: time.Duration(float64(cpu) / ops),
	}
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

// Number is what has a median here.
type Number interface{ ~int64 | ~float64 }

// Median is the middle value, or the mean of the two in the middle; 0 of none.
func Median[T Number](values []T) T {
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
	return Round{
		P50:  median(rounds, func(r Round) time.Duration { return r.P50 }),
		P99:  median(rounds, func(r Round) time.Duration { return r.P99 }),
		Rate: median(rounds, func(r Round) float64 { return r.Rate }),
		CPU:  median(rounds, func(r Round) time.Duration { return r.CPU }),
	}
}

func median[T Number](rounds []Round, of func(Round) T) T {
	values := make([]T, 0, len(rounds))
	for _, r := range rounds {
		values = append(values, of(r))
	}
	return Median(values)
}
