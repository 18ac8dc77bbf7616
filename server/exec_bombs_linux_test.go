package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/internal/cgrouptest"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestServerAnswersBesideBombs has commands start as many processes, or take as much memory, as they can, one after the other. They have a
// lower priority than the server, which answers until one has reached its limit, and still does then. It does not run beside other tests of
// the package, which the bombs would slow down.
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
			own, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 minus nice
			if err != nil {
				t.Fatal(err)
			}
			if low, err := run(t.Context(), exec, inShell("nice")); err != nil || strings.TrimSpace(low.out) != fmt.Sprint(min(20-own+5, 19)) {
				t.Errorf("the niceness of commands is %+v, %v; the server's is %d", low, err, 20-own)
			}
			ctx, stop := context.WithCancel(t.Context())
			var reached atomic.Int64
			var bombs sync.WaitGroup
			bombs.Go(func() {
				for ctx.Err() == nil {
					if r, err := run(t.Context(), exec, cmd); err == nil && c.went(r) {
						reached.Add(1)
					}
				}
			})
			asA, fs := with(t, "ctxfs-panel", "a"), ctxfsv1.NewFsServiceClient(h.cc)
			clocktest.Await(t, "two commands have reached their limit", func() bool {
				for range 100 {
					if _, err := fs.Stat(asA, &ctxfsv1.StatRequest{Path: "/app/app.txt"}); err != nil {
						t.Fatal(err)
					}
				}
				return reached.Load() >= 2
			})
			stop()
			bombs.Wait()
		})
	}
}
