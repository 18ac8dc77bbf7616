package attack

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkStatBesideHostileClients asks for the stat of a panel alone, and beside each hostile client. p99-µs is that of the stats, and x-alone
// its ratio to that alone, of which 5 is good enough.
func BenchmarkStatBesideHostileClients(b *testing.B) {
	a := newSiege(b, "copy")
	var alone time.Duration
	for _, h := range append([]hostility{{name: "alone"}}, hostilities()...) {
		b.Run(h.name, func(b *testing.B) {
			one := *a
			one.TB = b
			if h.attack != nil {
				defer one.unleash(h)()
			}
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				one.must(one.stat())
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			p99 := took[len(took)*99/100]
			if h.attack == nil {
				alone = p99
			}
			b.ReportMetric(float64(p99.Microseconds()), "p99-µs")
			b.ReportMetric(float64(p99)/float64(alone), "x-alone")
		})
	}
}
