package figure_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/figure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, c := range []struct {
		name   string
		sorted []int
		q      float64
		want   int
	}{
		{"nothing", nil, 0.5, 0},
		{"one is all quantiles", []int{7}, 0.99, 7},
		{"the middle of three", []int{1, 2, 3}, 0.5, 2},
		{"the lower middle of four", []int{1, 2, 3, 4}, 0.5, 2},
		{"the 99th of a hundred", hundred, 0.99, 99},
		{"the last", hundred, 1, 100},
		{"the first", hundred, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := figure.Quantile(c.sorted, c.q); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"nothing", nil, 0},
		{"odd", []float64{9, 1, 5}, 5},
		{"even is the mean of the middle", []float64{8, 2, 4, 100}, 6},
		{"an outlier does not move it", []float64{3, 3, 3, 3, 1e9}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := append([]float64(nil), c.values...)
			if got := figure.Median(c.values); got != c.want {
				t.Errorf("%g, want %g", got, c.want)
			}
			for i, v := range before {
				if c.values[i] != v {
					t.Fatal("the values were reordered")
				}
			}
		})
	}
}

func TestSummarize(t *testing.T) {
	durations := []time.Duration{4 * time.Millisecond, time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond}
	got := figure.Summarize(durations, 4, 10*time.Millisecond, 8*time.Millisecond)
	want := figure.Round{P50: 2 * time.Millisecond, P99: 4 * time.Millisecond, Rate: 400, CPU: 2 * time.Millisecond}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestMediansAreOfEachFigureByItself(t *testing.T) {
	got := figure.Medians([]figure.Round{{P50: 1, P99: 30, Rate: 5, CPU: 2}, {P50: 2, P99: 10, Rate: 9, CPU: 1}, {P50: 3, P99: 20, Rate: 7, CPU: 3}})
	if want := (figure.Round{P50: 2, P99: 20, Rate: 7, CPU: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
