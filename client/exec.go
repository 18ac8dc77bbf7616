package client

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// ReasonExecUnavailable is the reason of an ExecUnavailableError.
const ReasonExecUnavailable = "EXEC_UNAVAILABLE"

// ExecUnavailableError says why the server's machine cannot run commands in isolation. No command was started.
type ExecUnavailableError struct {
	// Detail is the cause, Hint the remedy; "" if none is known.
	Detail, Hint string
}

// Error returns the cause and the remedy.
func (e *ExecUnavailableError) Error() string {
	text := "commands cannot run here: " + e.Detail
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text + "; file calls are not affected"
}

// execError converts the error of a call of ExecService.
func execError(op string, err error) error {
	if st, ok := status.FromError(err); ok && err != nil {
		for _, d := range st.Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == ReasonExecUnavailable {
				return &ExecUnavailableError{Detail: info.GetMetadata()["detail"], Hint: info.GetMetadata()["hint"]}
			}
		}
	}
	return convert(op, err)
}

// Exec runs commands in contexts: as the host, or as the panel of Panel.Exec, which needs CanExec.
type Exec struct{ to identityConn }

// Exec runs commands in the panel's context. The panel was opened with CanExec. Commands may leave ContextId empty.
func (p *Panel) Exec() Exec {
	return Exec{identityConn{cc: p.client.cc, id: identity{token: p.bearer}}}
}

func (c Exec) exec() ctxfsv1.ExecServiceClient { return ctxfsv1.NewExecServiceClient(c.to) }

// RunCommand runs a command until it has ended, and calls report for each message: the start, the output, the exit. The command waits for
// report, and no output is lost. If ctx ends or report fails, the command gets SIGPIPE, and the server kills it, unless OnDisconnect keeps it.
// A command that it keeps is followed again, from where its output was, if the server comes back within 30 s after the connection was lost,
// also after an upgrade.
func (c Exec) RunCommand(ctx context.Context, cmd *ctxfsv1.Command, report func(*ctxfsv1.RunResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &followed{report: report, req: &ctxfsv1.FollowOutputRequest{Follow: true, Blocking: true}}
	stream, err := c.exec().Run(ctx, &ctxfsv1.RunRequest{Command: wireCommand(cmd)})
	if err == nil {
		err = each(stream, f.take)
	}
	if cmd.GetOnDisconnect() == ctxfsv1.OnDisconnect_ON_DISCONNECT_KEEP {
		err = c.resume(ctx, f, err)
	}
	return execError("exec", err)
}

// wireCommand returns a command as it travels: with the bytes of what is not UTF-8.
func wireCommand(cmd *ctxfsv1.Command) *ctxfsv1.Command {
	argv, raw := rawArgv(cmd.GetArgv())
	if len(raw) == 0 && utf8.ValidString(cmd.GetCwd()) {
		return cmd
	}
	out, _ := proto.Clone(cmd).(*ctxfsv1.Command)
	if len(raw) > 0 {
		out.Argv, out.RawArgv = argv, raw
	}
	if cwd, raw := twin(cmd.GetCwd()); len(raw) > 0 {
		out.Cwd, out.RawCwd = cwd, raw
	}
	return out
}

// rawArgv returns arguments as they are, or all of them as bytes if one is not UTF-8.
func rawArgv(argv []string) (text []string, raw [][]byte) {
	if _, raw := rawTwins(argv); len(raw) == 0 {
		return argv, nil
	}
	for _, a := range argv {
		raw = append(raw, []byte(a))
	}
	return nil, raw
}

// followed is a command of RunCommand.
type followed struct {
	report func(*ctxfsv1.RunResponse) error
	// failed is what report returned.
	failed error
	// req asks for what was not received yet. It has no process before the command was started.
	req *ctxfsv1.FollowOutputRequest
}

func (f *followed) take(m *ctxfsv1.RunResponse) error {
	if p := m.GetStarted(); p != nil {
		f.req.ProcessId = p.GetProcessId()
	}
	if o := m.GetOutput(); o.GetStream() == ctxfsv1.OutputStream_OUTPUT_STREAM_STDERR {
		f.req.StderrOffset = o.GetOffset() + int64(len(o.GetData()))
	} else if o != nil {
		f.req.StdoutOffset = o.GetOffset() + int64(len(o.GetData()))
	}
	f.failed = f.report(m)
	return f.failed
}

// How long RunCommand tries to reach the server again, and the pause between two tries.
const (
	resumeTime  = 30 * time.Second
	resumePause = 100 * time.Millisecond
)

// resume follows a command again as long as err says that the server cannot be reached.
func (c Exec) resume(ctx context.Context, f *followed, err error) error {
	last := time.Now()
	for f.failed == nil && f.req.GetProcessId() != "" && status.Code(err) == codes.Unavailable && time.Since(last) < resumeTime {
		select {
		case <-time.After(resumePause):
		case <-ctx.Done():
			return ctx.Err()
		}
		var stream grpc.ServerStreamingClient[ctxfsv1.FollowOutputResponse]
		if stream, err = c.exec().FollowOutput(ctx, f.req); err != nil {
			continue
		}
		err = each(stream, func(m *ctxfsv1.FollowOutputResponse) error {
			last = time.Now()
			if m.GetExited() != nil {
				return f.take(&ctxfsv1.RunResponse{Event: &ctxfsv1.RunResponse_Exited{Exited: m.GetExited()}})
			}
			return f.take(&ctxfsv1.RunResponse{Event: &ctxfsv1.RunResponse_Output{Output: m.GetOutput()}})
		})
	}
	return err
}

// StartCommand starts a command in the background.
func (c Exec) StartCommand(ctx context.Context, cmd *ctxfsv1.Command) (*ctxfsv1.Process, error) {
	resp, err := c.exec().Start(ctx, &ctxfsv1.StartRequest{Command: wireCommand(cmd)})
	return resp.GetProcess(), execError("exec", err)
}

// FollowOutput calls report for the output of a process, and for its exit if it has ended. The process does not wait for report, unless the
// request is blocking: Output.Dropped counts what was missed.
func (c Exec) FollowOutput(ctx context.Context, req *ctxfsv1.FollowOutputRequest, report func(*ctxfsv1.FollowOutputResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.exec().FollowOutput(ctx, req)
	if err == nil {
		err = each(stream, report)
	}
	return execError("followoutput", err)
}

// Processes lists the processes of a context, or of all contexts if contextID is "", newest first.
func (c Exec) Processes(ctx context.Context, contextID string, running bool) (list []*ctxfsv1.Process, err error) {
	req := &ctxfsv1.ListProcessesRequest{ContextId: contextID, Running: running}
	for {
		page, err := c.exec().ListProcesses(ctx, req)
		if err != nil {
			return nil, execError("listprocesses", err)
		}
		list = append(list, page.GetProcesses()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return list, nil
		}
	}
}

// SendInput writes to the standard input of a process. Without data it closes the input.
func (c Exec) SendInput(ctx context.Context, processID string, data []byte) error {
	if len(data) == 0 {
		_, err := c.exec().CloseInput(ctx, &ctxfsv1.CloseInputRequest{ProcessId: processID})
		return execError("closeinput", err)
	}
	_, err := c.exec().SendInput(ctx, &ctxfsv1.SendInputRequest{ProcessId: processID, Data: data})
	return execError("sendinput", err)
}

// KillProcess ends a process, and returns it when it has ended.
func (c Exec) KillProcess(ctx context.Context, processID string) (*ctxfsv1.Process, error) {
	resp, err := c.exec().Kill(ctx, &ctxfsv1.KillRequest{ProcessId: processID})
	return resp.GetProcess(), execError("kill", err)
}

// SignalProcess sends a signal, by its Linux number, to the process group of a command.
func (c Exec) SignalProcess(ctx context.Context, processID string, signal int) error {
	_, err := c.exec().SendSignal(ctx, &ctxfsv1.SendSignalRequest{ProcessId: processID, Signal: int32(signal)})
	return execError("sendsignal", err)
}

// ExplainCommand reports how a command would run.
func (c Exec) ExplainCommand(ctx context.Context, cmd *ctxfsv1.Command) (*ctxfsv1.ExplainExecResponse, error) {
	resp, err := c.exec().ExplainExec(ctx, &ctxfsv1.ExplainExecRequest{Command: wireCommand(cmd)})
	return resp, execError("explainexec", err)
}

// ExecProfiles lists the profiles of commands, sorted by name.
func (c Exec) ExecProfiles(ctx context.Context) ([]*ctxfsv1.ExecProfile, error) {
	resp, err := c.exec().ListProfiles(ctx, &ctxfsv1.ListProfilesRequest{})
	return resp.GetProfiles(), execError("listprofiles", err)
}

// GetProcess returns a process, running or ended.
func (c Exec) GetProcess(ctx context.Context, processID string) (*ctxfsv1.Process, error) {
	resp, err := c.exec().GetProcess(ctx, &ctxfsv1.GetProcessRequest{ProcessId: processID})
	return resp.GetProcess(), execError("getprocess", err)
}

// WaitProcess waits until a process has ended, and returns it.
func (c Exec) WaitProcess(ctx context.Context, processID string) (*ctxfsv1.Process, error) {
	resp, err := c.exec().Wait(ctx, &ctxfsv1.WaitRequest{ProcessId: processID})
	return resp.GetProcess(), execError("wait", err)
}

// ResizeProcess changes the size of a process's terminal, in characters.
func (c Exec) ResizeProcess(ctx context.Context, processID string, cols, rows int) error {
	_, err := c.exec().Resize(ctx, &ctxfsv1.ResizeRequest{ProcessId: processID, Cols: uint32(cols), Rows: uint32(rows)})
	return execError("resize", err)
}

// Attachment is a connection to a process. Its methods may be called at the same time, Recv from one goroutine.
type Attachment struct {
	stream  ctxfsv1.ExecService_AttachClient
	process *ctxfsv1.Process

	// sending guards the stream's sends. over says that the process has ended.
	sending sync.Mutex
	over    bool
}

// Attach connects to a process. The connection ends with ctx; the process's OnDisconnect decides whether it then ends too.
func (c Exec) Attach(ctx context.Context, open *ctxfsv1.AttachOpen) (*Attachment, error) {
	stream, err := c.exec().Attach(ctx)
	if err != nil {
		return nil, execError("attach", err)
	}
	a := &Attachment{stream: stream}
	if err := a.send(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Open{Open: open}}); err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, execError("attach", err)
	}
	a.process = first.GetAttached()
	return a, nil
}

// Process is the process as it was when the connection began.
func (a *Attachment) Process() *ctxfsv1.Process { return a.process }

// Recv returns the next output, or the process's exit. It returns io.EOF after the exit, and after Detach.
func (a *Attachment) Recv() (*ctxfsv1.AttachResponse, error) {
	m, err := a.stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil, err
	}
	if m.GetExited() != nil {
		a.sending.Lock()
		defer a.sending.Unlock()
		a.over = true
		return m, execError("attach", a.stream.CloseSend())
	}
	return m, execError("attach", err)
}

// Write sends up to 1 MiB to the standard input or the terminal of the process. It implements io.Writer.
func (a *Attachment) Write(data []byte) (int, error) {
	return len(data), a.send(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Stdin{Stdin: data}})
}

// CloseInput closes the standard input of the process, or types Ctrl-D into its terminal.
func (a *Attachment) CloseInput() error {
	return a.send(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Eof{Eof: true}})
}

// Resize changes the size of the terminal, in characters.
func (a *Attachment) Resize(cols, rows int) error {
	size := &ctxfsv1.TerminalSize{Cols: uint32(cols), Rows: uint32(rows)}
	return a.send(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Resize{Resize: size}})
}

// Signal sends a signal, by its Linux number.
func (a *Attachment) Signal(signal int) error {
	return a.send(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Signal{Signal: int32(signal)}})
}

// Detach ends the connection and leaves the process running.
func (a *Attachment) Detach() error {
	return a.send(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Detach{Detach: true}})
}

// send sends a message. When the process or the connection has ended, it returns nil: Recv has the reason.
func (a *Attachment) send(m *ctxfsv1.AttachRequest) error {
	a.sending.Lock()
	defer a.sending.Unlock()
	if a.over {
		return nil
	}
	if err := a.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return execError("attach", err)
	}
	return nil
}
