package server

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/internal/cgrouptest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// stats stats a file for a while, and returns the time that 99 in 100 calls stay below.
func (h *house) stats(t *testing.T, during time.Duration) time.Duration {
	t.Helper()
	ctx := with(t, "ctxfs-panel", "a")
	fs := ctxfsv1.NewFsServiceClient(h.cc)
	var took []time.Duration
	for begun := time.Now(); time.Since(begun) < during; {
		since := time.Now()
		if _, err := fs.Stat(ctx, &ctxfsv1.StatRequest{Path: "/app/app.txt"}); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(since))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// TestServerAnswersBesideBombs compares how long a stat takes beside commands that start as many processes, or take as much memory, as they
// can, and without them. It does not run beside other tests of the package. Other programs make both measurements slower at random: it
// fails if none of five comparisons holds.
func TestServerAnswersBesideBombs(t *testing.T) { //nolint:paralleltest // see above
	for name, c := range map[string]struct {
		script string
		group  bool
		went   func(*ran) bool
	}{
		"processes": {`bomb() { bomb | bomb & }; while :; do bomb; done`, false, func(r *ran) bool { return strings.Contains(r.err, "fork") }},
		"memory":    {`head -c 1G /dev/zero | tail -c 1G`, true, func(r *ran) bool { return r.exited.GetExit().GetReason() == ctxfsv1.ExitReason_EXIT_REASON_MEMORY }},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see above
			h, exec := execHouse(t, func(cfg *Config) {
				if c.group {
					cfg.ExecCgroup = []string{cgrouptest.Need(t, "memory")}
				}
			})
			cmd := &ctxfsv1.Command{ContextId: "ctx_a", Argv: []string{"bash", "-c", c.script}, Limits: &ctxfsv1.ExecLimits{MemoryBytes: 64 << 20, WallMs: 1000}}
			var seen []string
			for range 5 {
				usual := h.stats(t, time.Second)
				var over atomic.Bool
				bombs := make(chan int)
				go func() { // one after the other
					went := 0
					for !over.Load() {
						if r, err := run(t.Context(), exec, cmd); err == nil && c.went(r) {
							went++
						}
					}
					bombs <- went
				}()
				beside := h.stats(t, 3*time.Second)
				over.Store(true)
				if <-bombs == 0 {
					t.Fatal("no command reached its limit")
				}
				seen = append(seen, fmt.Sprintf("%s, usually %s", beside, usual))
				if beside <= 5*usual {
					t.Log(seen)
					return
				}
			}
			t.Errorf("99 in 100 stats take up to %s; want at most 5 times as long", strings.Join(seen, "; "))
		})
	}
}
