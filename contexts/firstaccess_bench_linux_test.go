package contexts

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/contexts/seed"
)

// BenchmarkFirstAccess measures Ensure of a new context whose layer is there, and, in turns with it, the
// stat walk that is part of it and grows with the workspace. The medians are reported.
func BenchmarkFirstAccess(b *testing.B) {
	for _, d := range []driver.Driver{copyfs.New(copyfs.Options{}), overlay.New(overlay.Options{})} {
		for _, files := range []int{1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/files=%d", d.Name(), files), func(b *testing.B) { benchEnsure(b, d, files) })
		}
	}
}

func benchEnsure(b *testing.B, d driver.Driver, files int) {
	w := newWorkspaceFor(b)
	w.driver = d
	if err := d.Check(b.Context(), w.dir); err != nil {
		b.Skipf("not measured here: %v", err)
	}
	w.fill("app", files)
	w.repo("app")
	m := w.open()
	n := 0
	next := func() time.Duration {
		n++
		start := time.Now()
		if _, err := m.Ensure(b.Context(), ID(fmt.Sprintf("ctx_%d", n)), EnsureOptions{}, nil); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	next() // builds the layer
	var walks, took []time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := seed.Walk(b.Context(), m.cat.Layout.Source(m.workspace), seed.Options{}, nil); err != nil {
			b.Fatal(err)
		}
		walks = append(walks, time.Since(start))
		took = append(took, next())
	}
	for name, of := range map[string][]time.Duration{"walk-ms": walks, "ensure-ms": took} {
		slices.Sort(of)
		b.ReportMetric(float64(of[len(of)/2].Microseconds())/1000, name)
	}
}
