package contexts

import (
	"fmt"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
)

// BenchmarkFork forks a context of 10,000 files after changes to some of them.
func BenchmarkFork(b *testing.B) {
	for _, name := range []string{"copy", "overlay"} {
		for _, changed := range []int{0, 10, 100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, changed), func(b *testing.B) {
				w := newWorkspaceFor(b)
				if name == overlay.Name {
					w.driver, w.others = overlay.New(overlay.Options{Parts: w.parts()}), []driver.Driver{w.driver}
					if err := w.driver.Check(b.Context(), w.dir); err != nil {
						b.Skipf("not measured here: %v", err)
					}
				}
				w.fill("app", 10000)
				w.write("app/.git/HEAD", "ref: refs/heads/main\n")
				m := w.open()
				ensure(b, m, "ctx_a")
				for i := range changed {
					put(b, m, "ctx_a", fmt.Sprintf("app/d%d/f%d.txt", i%20, i), "changed")
				}
				n := 0
				for b.Loop() {
					fork(b, m, "ctx_a", ID(fmt.Sprint("ctx_fork", n)))
					n++
				}
			})
		}
	}
}
