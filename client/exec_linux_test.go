package client_test

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/outputtest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// execWorkspace makes a workspace for a server that runs commands. It skips the test where commands cannot be isolated.
func execWorkspace(t *testing.T) (ws string, settings func(*server.Config)) {
	t.Helper()
	ws = servertest.Workspace(t)
	for _, dir := range []string{ws, filepath.Dir(ws)} { // the user of commands passes through them
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return ws, func(cfg *server.Config) {
		if os.Geteuid() == 0 {
			cfg.ExecUser = "4321:4321"
		}
		if err := server.ExecRefusal(t.Context(), *cfg, ws); err != nil {
			t.Skip(err)
		}
	}
}

// execPanel opens a panel on a server of the test's own. It skips the test where commands cannot be isolated.
func execPanel(t *testing.T, id string, opts ...client.PanelOption) *client.Panel {
	t.Helper()
	ws, settings := execWorkspace(t)
	address := servertest.Start(t, ws, settings)
	c, err := client.Dial(t.Context(), client.WithAddress(address), client.WithGetenv(func(string) string { return "" }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := c.OpenPanel(t.Context(), id, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestPanelRunsCommands(t *testing.T) {
	t.Parallel()
	exec := execPanel(t, "panels/a", client.CanExec()).Exec()
	var out, stderr strings.Builder
	var started, exited *ctxfsv1.Process
	cmd := &ctxfsv1.Command{Argv: []string{"sh", "-c", "cat README.md; read line; echo $line >&2; exit 3"}, Stdin: []byte("typed\n")}
	err := exec.RunCommand(t.Context(), cmd, func(m *ctxfsv1.RunResponse) error {
		switch o := m.GetOutput(); o.GetStream() {
		case ctxfsv1.OutputStream_OUTPUT_STREAM_STDOUT:
			out.Write(o.GetData())
		case ctxfsv1.OutputStream_OUTPUT_STREAM_STDERR:
			stderr.Write(o.GetData())
		}
		if m.GetStarted() != nil {
			started = m.GetStarted()
		}
		exited = m.GetExited()
		return nil
	})
	if err != nil || out.String() != "# A workspace\n" || stderr.String() != "typed\n" || started.GetContextId() != "ctx_panels~a" || exited.GetExit().GetCode() != 3 {
		t.Errorf("got %q, %q, %v, %v, %v", &out, &stderr, started, exited, err)
	}
	list, err := exec.Processes(t.Context(), "", false)
	if err != nil || len(list) != 1 || list[0].GetProcessId() != started.GetProcessId() {
		t.Errorf("its processes are %v, %v", list, err)
	}
	if _, err := exec.GetProcess(t.Context(), "p-none"); fserr.CodeOf(err) != fserr.ENOENT {
		t.Errorf("an unknown process: %v", err)
	}
}

func TestPanelTalksToItsCommand(t *testing.T) {
	t.Parallel()
	exec := execPanel(t, "panels/a", client.CanExec()).Exec()
	p, err := exec.StartCommand(t.Context(), &ctxfsv1.Command{
		Argv: []string{"sh", "-c", "stty -echo; read line; echo got $line; stty size; read line"}, Pty: &ctxfsv1.Pty{Cols: 80, Rows: 24},
	})
	if err != nil {
		t.Fatal(err)
	}
	at, err := exec.Attach(t.Context(), &ctxfsv1.AttachOpen{ProcessId: p.GetProcessId()})
	if err != nil {
		t.Fatal(err)
	}
	if err := at.Resize(100, 30); err != nil {
		t.Fatal(err)
	}
	if _, err := at.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for !strings.Contains(shown.String(), "30 100") {
		m, err := at.Recv()
		if err != nil {
			t.Fatalf("%v, after %q", err, &shown)
		}
		shown.Write(m.GetOutput().GetData())
	}
	if !strings.Contains(shown.String(), "got hello") {
		t.Errorf("the terminal shows %q", &shown)
	}
	killed, err := exec.KillProcess(t.Context(), p.GetProcessId())
	if err != nil || killed.GetExit().GetReason() != ctxfsv1.ExitReason_EXIT_REASON_KILLED {
		t.Errorf("got %v, %v", killed, err)
	}
	for err == nil {
		_, err = at.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the end of the attachment: %v", err)
	}
}

func TestPanelWithoutTheRightRunsNothing(t *testing.T) {
	t.Parallel()
	exec := execPanel(t, "panels/a").Exec()
	if _, err := exec.StartCommand(t.Context(), &ctxfsv1.Command{Argv: []string{"true"}}); fserr.CodeOf(err) != fserr.EACCES {
		t.Errorf("got %v", err)
	}
	if list, err := exec.Processes(t.Context(), "", false); err == nil {
		t.Errorf("it sees processes: %v", list)
	}
}

// TestSlowReportGetsAllOutput runs a command with a report that takes output only when the command waits, and loses its connection.
func TestSlowReportGetsAllOutput(t *testing.T) {
	t.Parallel()
	ws, settings := execWorkspace(t)
	p := newProxy(t, servertest.Start(t, ws, settings))
	c, err := client.Dial(t.Context(), client.WithAddress(p.address()), client.WithGetenv(func(string) string { return "" }))
	must(t, err)
	panel, err := c.OpenPanel(t.Context(), "panels/a", client.CanExec())
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(panel.Close(), c.Close())) })
	exec := panel.Exec()
	const size, every = 40 << 20, 4 << 20
	script, want := outputtest.Numbers(size)
	for name, on := range map[string]ctxfsv1.OnDisconnect{"one connection": ctxfsv1.OnDisconnect_ON_DISCONNECT_KILL, "lost connections": ctxfsv1.OnDisconnect_ON_DISCONNECT_KEEP} {
		h, got, id := sha256.New(), int64(0), ""
		var exit *ctxfsv1.Exit
		cmd := &ctxfsv1.Command{Argv: []string{"sh", "-c", script}, OnDisconnect: on}
		err := exec.RunCommand(t.Context(), cmd, func(m *ctxfsv1.RunResponse) error {
			if m.GetStarted() != nil {
				id = m.GetStarted().GetProcessId()
			}
			exit = m.GetExited().GetExit()
			data := m.GetOutput().GetData()
			if m.GetOutput().GetDropped() > 0 {
				t.Errorf("%s: output before %d was dropped", name, m.GetOutput().GetOffset())
			}
			h.Write(data)
			if got += int64(len(data)); got/every == (got-int64(len(data)))/every {
				return nil
			}
			clocktest.Await(t, "the command is as far ahead as it may be", func() bool {
				now, err := exec.GetProcess(t.Context(), id)
				return err == nil && now.GetStdoutBytes() >= min(size, got+outputtest.Ahead)
			})
			if on == ctxfsv1.OnDisconnect_ON_DISCONNECT_KEEP && got/every%4 == 1 {
				p.cut()
			}
			return nil
		})
		if err != nil || outputtest.Sum(h) != want || exit.GetCode() != 0 {
			t.Errorf("%s: got %d of %d bytes, and not the same; %v, %v", name, got, size, exit, err)
		}
	}
}
