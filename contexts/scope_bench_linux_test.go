package contexts

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkFirstAccessOfAScope measures the first access to 500 files: in a workspace that has only them, and as the scope of a workspace
// of 100,000. It reports the seeding that builds the layer, and the median of those after it.
func BenchmarkFirstAccessOfAScope(b *testing.B) {
	const scope, all = 500, 100_000
	for _, others := range []int{0, all - scope} {
		b.Run(fmt.Sprintf("workspace=%d", scope+others), func(b *testing.B) {
			w := newWorkspaceFor(b)
			w.fill("big/scope", scope)
			w.fill("big/rest", others/2)
			w.fill("other", max(1, others/2))
			for _, repo := range []string{"big", "other"} {
				w.git(repo, "init", "-q", "-b", "main")
				w.git(repo, "config", "gc.auto", "0") // a collection would still run when the directory is removed
				w.git(repo, "config", "maintenance.auto", "false")
				w.repo(repo)
			}
			m := w.open()
			n := 0
			next := func() time.Duration {
				n++
				start := time.Now()
				ensureOf(b, m, ID(fmt.Sprintf("ctx_%d", n)), "big/scope")
				return time.Since(start)
			}
			layer := next()
			var took []time.Duration
			for b.Loop() {
				took = append(took, next())
			}
			slices.Sort(took)
			b.ReportMetric(float64(layer.Microseconds())/1000, "layer-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ensure-ms")
		})
	}
}
