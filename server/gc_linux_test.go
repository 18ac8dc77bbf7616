package server

import (
	"strings"
	"testing"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestARunningCommandKeepsItsContext(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	started, err := c.Start(t.Context(), &ctxfsv1.StartRequest{Command: inShell("sleep 1000")})
	must(t, err)
	id := started.GetProcess().GetProcessId()
	dry := &ctxfsv1.CollectGarbageRequest{DryRun: true, ContextIdleSeconds: 1}
	if got := h.verdicts(dry)["ctx_a"]; !strings.Contains(got, "PROCESS") {
		t.Errorf("with a running command the context stays for %q", got)
	}
	if _, err := c.Kill(t.Context(), &ctxfsv1.KillRequest{ProcessId: id}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Wait(t.Context(), &ctxfsv1.WaitRequest{ProcessId: id})
	must(t, err)
	if got := h.verdicts(dry)["ctx_a"]; strings.Contains(got, "PROCESS") {
		t.Errorf("after the command the context stays for %q", got)
	}
}
