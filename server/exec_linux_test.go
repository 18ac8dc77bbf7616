package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/metadata/metadatatest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// execHouse serves a workspace with a context ctx_a in which commands run. It skips the test where they cannot.
func execHouse(t *testing.T, settings ...func(*Config)) (*house, ctxfsv1.ExecServiceClient) {
	t.Helper()
	h := newHouse(t, execConfig(t, settings...))
	h.runner = []string{"/proc/self/exe", "runner"}
	h.serve()
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "a"})
	return h, ctxfsv1.NewExecServiceClient(h.cc)
}

// execConfig has commands run; the test is skipped, and says why, where they cannot.
func execConfig(t *testing.T, settings ...func(*Config)) Config {
	t.Helper()
	cfg := testConfig(t)
	for _, set := range settings {
		set(&cfg)
	}
	if os.Geteuid() == 0 {
		cfg.ExecUser = "4321:4321"
		if err := os.Chmod(cfg.Workspace, 0o755); err != nil { // that user passes through it
			t.Fatal(err)
		}
	}
	if err := ExecRefusal(t.Context(), cfg, cfg.Workspace); err != nil {
		t.Skip(err)
	}
	return cfg
}

func inShell(script string) *ctxfsv1.Command {
	return &ctxfsv1.Command{ContextId: "ctx_a", Argv: []string{"sh", "-c", script}}
}

// ran is what Run or FollowOutput reported.
type ran struct {
	out, err string
	started  *ctxfsv1.Process
	exited   *ctxfsv1.Process
}

func (r *ran) add(o *ctxfsv1.Output) {
	switch o.GetStream() {
	case ctxfsv1.OutputStream_OUTPUT_STREAM_STDOUT:
		r.out += string(o.GetData())
	case ctxfsv1.OutputStream_OUTPUT_STREAM_STDERR:
		r.err += string(o.GetData())
	}
}

func run(ctx context.Context, c ctxfsv1.ExecServiceClient, cmd *ctxfsv1.Command) (*ran, error) {
	stream, err := c.Run(ctx, &ctxfsv1.RunRequest{Command: cmd})
	if err != nil {
		return nil, err
	}
	r := &ran{}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r.add(m.GetOutput())
		if m.GetStarted() != nil {
			r.started = m.GetStarted()
		}
		if m.GetExited() != nil {
			r.exited = m.GetExited()
		}
	}
}

func follow(t *testing.T, c ctxfsv1.ExecServiceClient, req *ctxfsv1.FollowOutputRequest) *ran {
	t.Helper()
	stream, err := c.FollowOutput(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	r := &ran{}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		r.add(m.GetOutput())
		r.exited = m.GetExited()
	}
}

func TestRunOverGRPC(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	r, err := run(t.Context(), c, inShell("cat app/app.txt; echo made > made.txt; echo oops >&2; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if r.out != "app" || r.err != "oops\n" || r.exited.GetExit().GetCode() != 3 || r.exited.GetExit().GetReason() != ctxfsv1.ExitReason_EXIT_REASON_EXITED ||
		r.started.GetProcessId() == "" || r.started.GetExit() != nil || r.exited.GetStdoutBytes() != 3 {
		t.Errorf("got %+v", r)
	}
	if text, err := h.tryRead(with(t, "ctxfs-panel", "a"), "/made.txt"); err != nil || text != "made\n" {
		t.Errorf("the file that the command made: %q, %v", text, err)
	}
	if r, err := run(t.Context(), c, &ctxfsv1.Command{ContextId: "ctx_a", Argv: []string{"pwd"}, Cwd: "/app"}); err != nil || r.out != "/context/app\n" {
		t.Errorf("in a directory: %+v, %v", r, err)
	}
	if _, err := run(t.Context(), c, &ctxfsv1.Command{Argv: []string{"pwd"}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a context: %v", err)
	}
	inJSON := answered(t, askByUnix(t, h.r.Info().Addresses.Socket).rpc("ExecService/Run", `{"command":{"contextId":"ctx_a","argv":["sh","-c","cat app/app.txt; exit 3"]}}`))
	for _, want := range []string{`{"started":{`, `"data":"YXBw"`, `"code":3`} {
		if !strings.Contains(inJSON, want) {
			t.Errorf("in JSON it says %s, want %s", inJSON, want)
		}
	}
}

// TestRunEndsWithCall leaves Run while its command runs.
func TestRunEndsWithCall(t *testing.T) {
	t.Parallel()
	_, c := execHouse(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	stream, err := c.Run(ctx, &ctxfsv1.RunRequest{Command: inShell("sleep 1000")})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	leave()
	done, err := c.Wait(t.Context(), &ctxfsv1.WaitRequest{ProcessId: first.GetStarted().GetProcessId()})
	if err != nil || done.GetProcess().GetExit().GetReason() != ctxfsv1.ExitReason_EXIT_REASON_KILLED {
		t.Errorf("got %v, %v", done, err)
	}
}

func TestBackgroundProcess(t *testing.T) {
	t.Parallel()
	_, c := execHouse(t)
	cmd := inShell("echo one; read line; echo $line; sleep 1000")
	cmd.OpenStdin = true
	started, err := c.Start(t.Context(), &ctxfsv1.StartRequest{Command: cmd})
	if err != nil {
		t.Fatal(err)
	}
	id := started.GetProcess().GetProcessId()
	for _, call := range []func() error{
		func() error {
			_, err := c.SendInput(t.Context(), &ctxfsv1.SendInputRequest{ProcessId: id, Data: []byte("two\n")})
			return err
		},
		func() error {
			_, err := c.CloseInput(t.Context(), &ctxfsv1.CloseInputRequest{ProcessId: id})
			return err
		},
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := c.FollowOutput(t.Context(), &ctxfsv1.FollowOutputRequest{ProcessId: id, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	for seen := ""; !strings.Contains(seen, "two\n"); {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		seen += string(m.GetOutput().GetData())
	}
	if _, err := c.RemoveProcess(t.Context(), &ctxfsv1.RemoveProcessRequest{ProcessId: id}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("remove while it runs: %v", err)
	}
	list, err := c.ListProcesses(t.Context(), &ctxfsv1.ListProcessesRequest{ContextId: "ctx_a", Running: true})
	if err != nil || len(list.GetProcesses()) != 1 {
		t.Errorf("running: %v, %v", list, err)
	}
	if _, err := c.SendSignal(t.Context(), &ctxfsv1.SendSignalRequest{ProcessId: id, Signal: 15}); err != nil {
		t.Error(err)
	}
	ended, err := c.Wait(t.Context(), &ctxfsv1.WaitRequest{ProcessId: id})
	if exit := ended.GetProcess().GetExit(); err != nil || exit.GetCode() != 143 || exit.GetReason() != ctxfsv1.ExitReason_EXIT_REASON_EXITED {
		t.Errorf("got %v, %v", ended, err)
	}
	if r := follow(t, c, &ctxfsv1.FollowOutputRequest{ProcessId: id, StdoutOffset: 4}); r.out != "two\n" || r.exited.GetExit() == nil {
		t.Errorf("from an offset: %+v", r)
	}
	if again, err := c.Kill(t.Context(), &ctxfsv1.KillRequest{ProcessId: id}); err != nil || !proto.Equal(again.GetProcess(), ended.GetProcess()) {
		t.Errorf("kill after the end: %v, %v", again, err)
	}
	if _, err := c.RemoveProcess(t.Context(), &ctxfsv1.RemoveProcessRequest{ProcessId: id}); err != nil {
		t.Error(err)
	}
	if _, err := c.GetProcess(t.Context(), &ctxfsv1.GetProcessRequest{ProcessId: id}); status.Code(err) != codes.NotFound {
		t.Errorf("after the removal: %v", err)
	}
}

// TestRunOverSession runs a command through a session, as the npm client does.
func TestRunOverSession(t *testing.T) {
	t.Parallel()
	h, _ := execHouse(t)
	s := beginOn(t, h.r.host(t), readToken(t, h.r), "i")
	data, err := proto.Marshal(&ctxfsv1.RunRequest{Command: inShell("echo out")})
	s.must(err)
	s.must(s.say(&ctxfsv1.SessionRequest{Id: 7, Request: &ctxfsv1.SessionRequest_Call{Call: &ctxfsv1.SessionCall{
		Method: ctxfsv1.ExecService_Run_FullMethodName, Data: data,
	}}}))
	out, code := "", int32(-1)
	for code < 0 {
		m := s.next()
		if m.GetError() != nil {
			t.Fatal(fserrpb.FromSession(m.GetError()))
		}
		r := &ctxfsv1.RunResponse{}
		s.must(proto.Unmarshal(m.GetReply().GetData(), r))
		out += string(r.GetOutput().GetData())
		if r.GetExited() != nil {
			code = r.GetExited().GetExit().GetCode()
		}
	}
	if out != "out\n" || code != 0 {
		t.Errorf("got %q, %d", out, code)
	}
	s.cut()
}

// TestServerStopEndsCommands stops a server while a command runs and a caller waits for it.
func TestServerStopEndsCommands(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	started, err := c.Start(t.Context(), &ctxfsv1.StartRequest{Command: inShell("trap '' TERM; while :; do sleep 1; done")})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan *ctxfsv1.WaitResponse, 1)
	go func() {
		done, _ := c.Wait(context.Background(), &ctxfsv1.WaitRequest{ProcessId: started.GetProcess().GetProcessId()})
		waited <- done
	}()
	h.stop()
	<-waited // with the process, or cut off before the call began
	left, err := filepath.Glob(filepath.Join(h.cfg.Workspace, ".contexts", ".ctxfs", "exec", "[0-9]*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if text, err := os.ReadFile(h.in(".contexts/ctx_a/app/app.txt")); err != nil || string(text) != "app" {
		t.Errorf("the context after the stop: %q, %v", text, err)
	}
}

// TestExecUnavailableLeavesFilesAlone serves a workspace of root without an exec_user.
func TestExecUnavailableLeavesFilesAlone(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root's own workspace has no user for commands")
	}
	h := newHouse(t, testConfig(t)).serve()
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "a"})
	_, err := run(t.Context(), ctxfsv1.NewExecServiceClient(h.cc), inShell("true"))
	if status.Code(err) != codes.FailedPrecondition || !strings.HasPrefix(status.Convert(err).Message(), "EXEC_UNAVAILABLE: ") || !strings.Contains(err.Error(), "--exec-user") {
		t.Errorf("got %v", err)
	}
	if text, err := h.tryRead(with(t, "ctxfs-panel", "a"), "/app/app.txt"); err != nil || text != "app" {
		t.Errorf("a file: %q, %v", text, err)
	}
}

func TestExecUserSetting(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{"0:0": "never run as root", "nobody-here": "neither", "5:x": "neither", "4294967295:1": "neither"} {
		if os.Geteuid() != 0 {
			want = "only a server that runs as root"
		}
		_, err := commandOwner(setting, t.TempDir())
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Key != "exec_user" || !strings.Contains(bad.Problem, want) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// TestProfilesOfOperator serves with a file of profiles, and refuses to serve with bad ones.
func TestProfilesOfOperator(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "profiles.yaml")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("profiles: {node: {description: Node, network: {names: [npm.example.com]}, env: {A: b}, limits: {processes: 9}}}\nmaxima: {wall: 1m}\n")
	h, c := execHouse(t, func(cfg *Config) { cfg.ExecProfiles = file })
	list, err := c.ListProfiles(t.Context(), &ctxfsv1.ListProfilesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list.GetProfiles() {
		names = append(names, p.GetName())
		if p.GetName() == "node" && (p.GetNetwork().GetMode() != ctxfsv1.NetworkMode_NETWORK_MODE_ALLOWED || p.GetVariables()[0] != "A" || p.GetLimits()[0].GetValue() != 9) {
			t.Errorf("got %v", p)
		}
	}
	if got := strings.Join(names, " "); got != "git node offline packages" {
		t.Errorf("profiles %s", got)
	}
	cmd := inShell("echo $A; ulimit -u; curl -s http://bad.example.org")
	cmd.Profile, cmd.Sandbox = "node", "dev"
	got, err := run(t.Context(), c, cmd)
	if err != nil {
		t.Fatal(err)
	}
	p := got.exited
	if !strings.HasPrefix(got.out, "b\n") || p.GetProfile() != "node" || p.GetSandbox() != "dev" || len(p.GetRefusals()) != 1 || p.GetRefusals()[0].GetName() != "bad.example.org" || p.GetRefusals()[0].GetPort() != 80 {
		t.Errorf("got %q, %v", got.out, p)
	}
	cmd.Limits = &ctxfsv1.ExecLimits{WallMs: 61_000}
	if _, err := run(t.Context(), c, cmd); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "60000") {
		t.Errorf("over the maximum: %v", err)
	}
	for content, want := range map[string]string{
		"profiles: {x: {nope: 1}}": "nope", "profiles: {x: {folders: [{from: " + h.cfg.Workspace + ", to: /opt/x}]}}": "no command may see",
	} {
		write(content)
		layout, err := contexts.NewLayout(h.cfg.Workspace, "")
		if err != nil {
			t.Fatal(err)
		}
		var bad *ConfigError
		if _, err := commandProfiles(file, layout); !errors.As(err, &bad) || bad.Key != "exec_profiles" || !strings.Contains(bad.Problem, want) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// TestCommandsGoOnWithoutTheDatabase loses the database while a command runs, and starts another one in the open context.
func TestCommandsGoOnWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	f := startFaulty(t, execConfig(t), "/proc/self/exe", "runner")
	if _, err := f.open("a"); err != nil {
		t.Fatal(err)
	}
	c := ctxfsv1.NewExecServiceClient(f.host(t))
	waiting := inShell("read line; echo got $line")
	waiting.OpenStdin = true
	started, err := c.Start(t.Context(), &ctxfsv1.StartRequest{Command: waiting})
	must(t, err)
	f.db.Set(metadatatest.Fault{Silent: true})
	f.until("the server is not ready", func() bool { return f.notReady() != "" })
	id := started.GetProcess().GetProcessId()
	_, err = c.SendInput(t.Context(), &ctxfsv1.SendInputRequest{ProcessId: id, Data: []byte("it\n")})
	must(t, err)
	if r := follow(t, c, &ctxfsv1.FollowOutputRequest{ProcessId: id, Follow: true}); r.out != "got it\n" || r.exited.GetExit().GetCode() != 0 {
		t.Errorf("the command that ran: %+v", r)
	}
	if r, err := run(t.Context(), c, inShell("echo made > made; cat made")); err != nil || r.out != "made\n" {
		t.Errorf("a new command: %+v, %v", r, err)
	}
	f.mend()
}
