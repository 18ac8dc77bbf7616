package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// attached is a client of Attach.
type attached struct {
	t      *testing.T
	stream ctxfsv1.ExecService_AttachClient
	id     string
	seen   string
}

func attach(ctx context.Context, t *testing.T, c ctxfsv1.ExecServiceClient, open *ctxfsv1.AttachOpen) *attached {
	t.Helper()
	stream, err := c.Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a := &attached{t: t, stream: stream, id: open.GetProcessId()}
	a.say(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Open{Open: open}})
	if m, err := stream.Recv(); err != nil || m.GetAttached().GetProcessId() != a.id {
		t.Fatalf("the first reply: %v, %v", m, err)
	}
	return a
}

func (a *attached) say(m *ctxfsv1.AttachRequest) {
	a.t.Helper()
	if err := a.stream.Send(m); err != nil {
		a.t.Fatal(err)
	}
}

func (a *attached) enter(keys string) {
	a.t.Helper()
	a.say(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Stdin{Stdin: []byte(keys)}})
}

func (a *attached) expect(text string) {
	a.t.Helper()
	for {
		if _, rest, ok := strings.Cut(a.seen, text); ok {
			a.seen = rest
			return
		}
		m, err := a.stream.Recv()
		if err != nil || m.GetExited() != nil {
			a.t.Fatalf("waiting for %q: %v, %v after %q", text, m, err, a.seen)
		}
		a.seen += string(m.GetOutput().GetData())
	}
}

// exit returns the exit that the call reports, and checks that the call ends.
func (a *attached) exit() *ctxfsv1.Exit {
	a.t.Helper()
	for {
		m, err := a.stream.Recv()
		if err != nil {
			a.t.Fatal(err)
		}
		if p := m.GetExited(); p != nil {
			if err := a.stream.CloseSend(); err != nil {
				a.t.Error(err)
			}
			if _, err := a.stream.Recv(); !errors.Is(err, io.EOF) {
				a.t.Errorf("after the exit: %v", err)
			}
			return p.GetExit()
		}
	}
}

func startIn(t *testing.T, c ctxfsv1.ExecServiceClient, cmd *ctxfsv1.Command) string {
	t.Helper()
	started, err := c.Start(t.Context(), &ctxfsv1.StartRequest{Command: cmd})
	if err != nil {
		t.Fatal(err)
	}
	return started.GetProcess().GetProcessId()
}

// TestAttachToTerminal leaves a shell in a terminal, and returns to it from where it was.
func TestAttachToTerminal(t *testing.T) {
	t.Parallel()
	_, c := execHouse(t)
	cmd := &ctxfsv1.Command{ContextId: "ctx_a", Argv: []string{"sh"}, Env: map[string]string{"PS1": "ready> "}, Pty: &ctxfsv1.Pty{Cols: 90}, OnDisconnect: ctxfsv1.OnDisconnect_ON_DISCONNECT_KILL}
	id := startIn(t, c, cmd)
	a := attach(t.Context(), t, c, &ctxfsv1.AttachOpen{ProcessId: id})
	a.expect("ready> ")
	a.enter("x=kept; stty size\n")
	a.expect("24 90\r\n")
	a.expect("ready> ")
	a.say(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Resize{Resize: &ctxfsv1.TerminalSize{Cols: 40, Rows: 10}}})
	a.say(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Detach{Detach: true}})
	if _, err := a.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("after detach: %v", err)
	}
	p, err := c.GetProcess(t.Context(), &ctxfsv1.GetProcessRequest{ProcessId: id})
	if err != nil || p.GetProcess().GetExit() != nil || p.GetProcess().GetPty().GetCols() != 40 || p.GetProcess().GetPty().GetTerm() != "xterm-256color" {
		t.Fatalf("after detach: %v, %v", p, err)
	}
	b := attach(t.Context(), t, c, &ctxfsv1.AttachOpen{ProcessId: id, StdoutOffset: p.GetProcess().GetStdoutBytes()})
	b.enter("echo $x; stty size\n")
	b.expect("kept\r\n10 40\r\n")
	b.say(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Eof{Eof: true}})
	if exit := b.exit(); exit.GetCode() != 0 || exit.GetReason() != ctxfsv1.ExitReason_EXIT_REASON_EXITED {
		t.Errorf("got %v", exit)
	}
}

// TestAttachPassesBlockedInput sends more input than a process takes, then a signal.
func TestAttachPassesBlockedInput(t *testing.T) {
	t.Parallel()
	_, c := execHouse(t)
	cmd := inShell("trap 'echo got; exit 5' USR1; echo begun; while :; do sleep 0.05; done")
	cmd.OpenStdin = true
	a := attach(t.Context(), t, c, &ctxfsv1.AttachOpen{ProcessId: startIn(t, c, cmd)})
	a.expect("begun")
	for range 3 {
		a.enter(strings.Repeat("x", 200<<10))
	}
	a.say(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Signal{Signal: 10}})
	a.expect("got")
	if exit := a.exit(); exit.GetCode() != 5 {
		t.Errorf("got %v", exit)
	}
}

// TestDisconnectEndsProcess cuts an Attach off, of a process that is kept and of one that is not.
func TestDisconnectEndsProcess(t *testing.T) {
	t.Parallel()
	_, c := execHouse(t)
	ids := map[ctxfsv1.OnDisconnect]string{}
	for _, how := range []ctxfsv1.OnDisconnect{ctxfsv1.OnDisconnect_ON_DISCONNECT_KILL, ctxfsv1.OnDisconnect_ON_DISCONNECT_UNSPECIFIED} {
		cmd := inShell("echo begun; sleep 1000")
		cmd.OnDisconnect = how
		ids[how] = startIn(t, c, cmd)
		ctx, cut := context.WithCancel(t.Context())
		defer cut()
		attach(ctx, t, c, &ctxfsv1.AttachOpen{ProcessId: ids[how]}).expect("begun")
		cut()
	}
	done, err := c.Wait(t.Context(), &ctxfsv1.WaitRequest{ProcessId: ids[ctxfsv1.OnDisconnect_ON_DISCONNECT_KILL]})
	if err != nil || done.GetProcess().GetExit().GetReason() != ctxfsv1.ExitReason_EXIT_REASON_KILLED {
		t.Errorf("a process that is to end: %v, %v", done, err)
	}
	kept, err := c.GetProcess(t.Context(), &ctxfsv1.GetProcessRequest{ProcessId: ids[ctxfsv1.OnDisconnect_ON_DISCONNECT_UNSPECIFIED]})
	if err != nil || kept.GetProcess().GetExit() != nil {
		t.Errorf("a process in the background: %v, %v", kept, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	run := inShell("sleep 1000")
	run.OnDisconnect = ctxfsv1.OnDisconnect_ON_DISCONNECT_KEEP
	stream, err := c.Run(ctx, &ctxfsv1.RunRequest{Command: run})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	leave()
	attach(t.Context(), t, c, &ctxfsv1.AttachOpen{ProcessId: first.GetStarted().GetProcessId()})
}

func TestAttachRefusals(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	cmd := inShell("echo begun; sleep 1000")
	id := startIn(t, c, cmd)
	panel := h.execPanel(&ctxfsv1.OpenPanelRequest{PanelId: "b"}, execRight)
	open := func(id string, offset int64) *ctxfsv1.AttachRequest {
		return &ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Open{Open: &ctxfsv1.AttachOpen{ProcessId: id, StdoutOffset: offset}}}
	}
	input := &ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Stdin{Stdin: []byte("x")}}
	size := &ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Resize{Resize: &ctxfsv1.TerminalSize{Cols: 1, Rows: 1}}}
	for name, try := range map[string]struct {
		ctx  context.Context
		say  []*ctxfsv1.AttachRequest
		code codes.Code
		text string
	}{
		"no open":           {t.Context(), []*ctxfsv1.AttachRequest{input}, codes.InvalidArgument, "open"},
		"no such process":   {t.Context(), []*ctxfsv1.AttachRequest{open("p-none", 0)}, codes.NotFound, "p-none"},
		"another panel's":   {panel, []*ctxfsv1.AttachRequest{open(id, 0)}, codes.NotFound, id},
		"beyond the end":    {t.Context(), []*ctxfsv1.AttachRequest{open(id, 1000)}, codes.InvalidArgument, "offset 1000"},
		"input not open":    {t.Context(), []*ctxfsv1.AttachRequest{open(id, 0), input}, codes.FailedPrecondition, "open_stdin"},
		"no terminal":       {t.Context(), []*ctxfsv1.AttachRequest{open(id, 0), size}, codes.InvalidArgument, "no terminal"},
		"open twice":        {t.Context(), []*ctxfsv1.AttachRequest{open(id, 0), open(id, 0)}, codes.InvalidArgument, "after open"},
		"a signal too high": {t.Context(), []*ctxfsv1.AttachRequest{open(id, 0), {Action: &ctxfsv1.AttachRequest_Signal{Signal: 65}}}, codes.InvalidArgument, "65"},
	} {
		stream, err := c.Attach(try.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range try.say {
			if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != try.code || !strings.Contains(err.Error(), try.text) {
			t.Errorf("%s: %v, want %s with %q", name, err, try.code, try.text)
		}
	}
	if p, err := c.GetProcess(t.Context(), &ctxfsv1.GetProcessRequest{ProcessId: id}); err != nil || p.GetProcess().GetExit() != nil {
		t.Errorf("the process afterwards: %v, %v", p, err)
	}
}
