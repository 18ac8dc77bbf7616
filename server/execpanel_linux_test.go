package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// execPanel opens a panel and returns a context for its calls.
func (h *house) execPanel(req *ctxfsv1.OpenPanelRequest, rights ...ctxfsv1.PanelRight) context.Context {
	h.t.Helper()
	req.Rights = rights
	return with(h.t, "authorization", bearerOf(h.open(req).GetToken()))
}

const execRight = ctxfsv1.PanelRight_PANEL_RIGHT_EXEC

// TestPanelNeedsRightToRunCommands tries each way of a panel, and of a host that acts for one.
func TestPanelNeedsRightToRunCommands(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	plain := h.execPanel(&ctxfsv1.OpenPanelRequest{PanelId: "plain"}, ctxfsv1.PanelRight_PANEL_RIGHT_REVIEW)
	right := h.execPanel(&ctxfsv1.OpenPanelRequest{PanelId: "right"}, execRight)
	own := &ctxfsv1.Command{Argv: []string{"cat", "app/app.txt"}}
	for name, ctx := range map[string]context.Context{"a panel": plain, "a host for a panel": with(t, panelKey, "plain")} {
		_, err := run(ctx, c, own)
		wantError(t, err, codes.PermissionDenied, "EACCES", "PANEL_RIGHT_EXEC")
		if _, err := c.ListProcesses(ctx, &ctxfsv1.ListProcessesRequest{}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s lists processes: %v", name, err)
		}
	}
	for name, ctx := range map[string]context.Context{"a panel": right, "a host for a panel": with(t, panelKey, "right")} {
		r, err := run(ctx, c, own)
		if err != nil || r.out != "app" || r.started.GetContextId() != "ctx_right" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		_, err = run(ctx, c, &ctxfsv1.Command{ContextId: "ctx_a", Argv: own.GetArgv()})
		wantError(t, err, codes.PermissionDenied, "EACCES", "another panel's")
	}
	h.execPanel(&ctxfsv1.OpenPanelRequest{PanelId: "right"})
	if _, err := run(right, c, own); status.Code(err) != codes.Unauthenticated {
		t.Errorf("after the right was taken away: %v", err)
	}
}

// TestPanelSeesProcessesOfItsContextOnly makes every call that names a process with one of another context.
func TestPanelSeesProcessesOfItsContextOnly(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	panel := h.execPanel(&ctxfsv1.OpenPanelRequest{PanelId: "b"}, execRight)
	cmd := inShell("read line; echo $line")
	cmd.OpenStdin = true
	started, err := c.Start(t.Context(), &ctxfsv1.StartRequest{Command: cmd})
	if err != nil {
		t.Fatal(err)
	}
	id := started.GetProcess().GetProcessId()
	for name, err := range onProcess(panel, c, id) {
		if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: %v, want NotFound", name, err)
		}
	}
	list, err := c.ListProcesses(panel, &ctxfsv1.ListProcessesRequest{})
	if err != nil || len(list.GetProcesses()) != 0 {
		t.Errorf("the list of the panel: %v, %v", list, err)
	}
	if _, err := c.ListProcesses(panel, &ctxfsv1.ListProcessesRequest{ContextId: "ctx_a"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the list of another context: %v", err)
	}
	if p, err := c.GetProcess(t.Context(), &ctxfsv1.GetProcessRequest{ProcessId: id}); err != nil || p.GetProcess().GetExit() != nil {
		t.Errorf("the process afterwards: %v, %v", p, err)
	}
}

// onProcess makes each call that names a process, and returns the errors by method.
func onProcess(ctx context.Context, c ctxfsv1.ExecServiceClient, id string) map[string]error {
	errs := map[string]error{}
	follow, err := c.FollowOutput(ctx, &ctxfsv1.FollowOutputRequest{ProcessId: id})
	if err == nil {
		_, err = follow.Recv()
	}
	errs["FollowOutput"] = err
	_, errs["Wait"] = c.Wait(ctx, &ctxfsv1.WaitRequest{ProcessId: id})
	_, errs["GetProcess"] = c.GetProcess(ctx, &ctxfsv1.GetProcessRequest{ProcessId: id})
	for name, err := range changeProcess(ctx, c, id) {
		errs[name] = err
	}
	return errs
}

// changeProcess makes each call that has an effect on a process.
func changeProcess(ctx context.Context, c ctxfsv1.ExecServiceClient, id string) map[string]error {
	errs := map[string]error{}
	_, errs["SendInput"] = c.SendInput(ctx, &ctxfsv1.SendInputRequest{ProcessId: id, Data: []byte("x\n")})
	_, errs["CloseInput"] = c.CloseInput(ctx, &ctxfsv1.CloseInputRequest{ProcessId: id})
	_, errs["Resize"] = c.Resize(ctx, &ctxfsv1.ResizeRequest{ProcessId: id, Cols: 10, Rows: 10})
	_, errs["SendSignal"] = c.SendSignal(ctx, &ctxfsv1.SendSignalRequest{ProcessId: id, Signal: 15})
	_, errs["Kill"] = c.Kill(ctx, &ctxfsv1.KillRequest{ProcessId: id})
	_, errs["RemoveProcess"] = c.RemoveProcess(ctx, &ctxfsv1.RemoveProcessRequest{ProcessId: id})
	return errs
}

// TestReadOnlyPanelCannotWriteThroughCommand has a read-only panel share the context of a panel that runs a shell.
func TestReadOnlyPanelCannotWriteThroughCommand(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	reader := h.execPanel(&ctxfsv1.OpenPanelRequest{PanelId: "reader", ContextId: "ctx_a", ReadOnly: true}, execRight)
	r, err := run(reader, c, &ctxfsv1.Command{Argv: []string{"sh", "-c", "echo no > new; echo no > app/app.txt; cat app/app.txt; echo yes > /tmp/f && cat /tmp/f"}})
	if err != nil || r.out != "appyes\n" || strings.Count(r.err, "Read-only file system") != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
	cmd := inShell("cat > typed")
	cmd.OpenStdin = true
	started, err := c.Start(t.Context(), &ctxfsv1.StartRequest{Command: cmd})
	if err != nil {
		t.Fatal(err)
	}
	id := started.GetProcess().GetProcessId()
	for name, err := range changeProcess(reader, c, id) {
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "EROFS") {
			t.Errorf("%s on a process that writes: %v", name, err)
		}
	}
	if _, err := c.GetProcess(reader, &ctxfsv1.GetProcessRequest{ProcessId: id}); err != nil {
		t.Error(err)
	}
}

func TestLimitsOfPanelsCommands(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	panel := h.execPanel(&ctxfsv1.OpenPanelRequest{PanelId: "b"}, execRight)
	for limit, l := range map[string]*ctxfsv1.ExecLimits{
		"wall_ms": {WallMs: h.cfg.ExecMaxTime.Milliseconds() + 1}, "processes": {Processes: int32(h.cfg.ExecMaxProcesses + 1)},
		"memory_bytes": {MemoryBytes: 1 << 62}, "tmp_bytes": {TmpBytes: 1 << 40},
	} {
		_, err := run(panel, c, &ctxfsv1.Command{Argv: []string{"true"}, Limits: l})
		wantError(t, err, codes.InvalidArgument, "EINVAL", limit)
		if r, err := run(t.Context(), c, &ctxfsv1.Command{ContextId: "ctx_b", Argv: []string{"true"}, Limits: l}); err != nil || r.exited.GetExit().GetCode() != 0 {
			t.Errorf("a host with %v: %+v, %v", l, r, err)
		}
	}
}

// TestAuditHasCommandsOfPanels looks for the lines of a command that a panel ran, and of one that it was refused.
func TestAuditHasCommandsOfPanels(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	h, c := execHouse(t, func(cfg *Config) { cfg.AuditLog = audit })
	panel := h.execPanel(&ctxfsv1.OpenPanelRequest{PanelId: "b"}, execRight)
	if _, err := run(panel, c, &ctxfsv1.Command{Argv: []string{"echo", "hello"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(panel, &ctxfsv1.StartRequest{Command: inShell("true")}); err == nil {
		t.Error("a start in another panel's context succeeded")
	}
	lines, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"panel":"b","context":"ctx_b","op":"Run","right":"exec","name":"echo hello","result":"ok"`,
		`"panel":"b","context":"ctx_a","op":"Start","right":"exec","name":"sh -c true","result":"EACCES"`,
	} {
		if !strings.Contains(string(lines), want) {
			t.Errorf("no line has %s:\n%s", want, lines)
		}
	}
}
