package client

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

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

func (c *Client) exec() ctxfsv1.ExecServiceClient { return ctxfsv1.NewExecServiceClient(c.conn) }

// RunCommand runs a command until it has ended, and calls report for each message: the start, the output, the exit. The server kills the
// command if ctx ends or report fails.
func (c *Client) RunCommand(ctx context.Context, cmd *ctxfsv1.Command, report func(*ctxfsv1.RunResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.exec().Run(ctx, &ctxfsv1.RunRequest{Command: cmd})
	if err == nil {
		err = each(stream, report)
	}
	return execError("exec", err)
}

// StartCommand starts a command in the background.
func (c *Client) StartCommand(ctx context.Context, cmd *ctxfsv1.Command) (*ctxfsv1.Process, error) {
	resp, err := c.exec().Start(ctx, &ctxfsv1.StartRequest{Command: cmd})
	return resp.GetProcess(), execError("exec", err)
}

// FollowOutput calls report for the output of a process, and for its exit if it has ended.
func (c *Client) FollowOutput(ctx context.Context, req *ctxfsv1.FollowOutputRequest, report func(*ctxfsv1.FollowOutputResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.exec().FollowOutput(ctx, req)
	if err == nil {
		err = each(stream, report)
	}
	return execError("followoutput", err)
}

// Processes lists the processes of a context, or of all contexts if contextID is "", newest first.
func (c *Client) Processes(ctx context.Context, contextID string, running bool) ([]*ctxfsv1.Process, error) {
	resp, err := c.exec().ListProcesses(ctx, &ctxfsv1.ListProcessesRequest{ContextId: contextID, Running: running})
	return resp.GetProcesses(), execError("listprocesses", err)
}

// SendInput writes to the standard input of a process. Without data it closes the input.
func (c *Client) SendInput(ctx context.Context, processID string, data []byte) error {
	if len(data) == 0 {
		_, err := c.exec().CloseInput(ctx, &ctxfsv1.CloseInputRequest{ProcessId: processID})
		return execError("closeinput", err)
	}
	_, err := c.exec().SendInput(ctx, &ctxfsv1.SendInputRequest{ProcessId: processID, Data: data})
	return execError("sendinput", err)
}

// KillProcess ends a process, and returns it when it has ended.
func (c *Client) KillProcess(ctx context.Context, processID string) (*ctxfsv1.Process, error) {
	resp, err := c.exec().Kill(ctx, &ctxfsv1.KillRequest{ProcessId: processID})
	return resp.GetProcess(), execError("kill", err)
}

// SignalProcess sends a signal, by its Linux number, to the process group of a command.
func (c *Client) SignalProcess(ctx context.Context, processID string, signal int) error {
	_, err := c.exec().SendSignal(ctx, &ctxfsv1.SendSignalRequest{ProcessId: processID, Signal: int32(signal)})
	return execError("sendsignal", err)
}

// ExplainCommand reports how a command would run.
func (c *Client) ExplainCommand(ctx context.Context, cmd *ctxfsv1.Command) (*ctxfsv1.ExplainExecResponse, error) {
	resp, err := c.exec().ExplainExec(ctx, &ctxfsv1.ExplainExecRequest{Command: cmd})
	return resp, execError("explainexec", err)
}

// ExecProfiles lists the profiles of commands, sorted by name.
func (c *Client) ExecProfiles(ctx context.Context) ([]*ctxfsv1.ExecProfile, error) {
	resp, err := c.exec().ListProfiles(ctx, &ctxfsv1.ListProfilesRequest{})
	return resp.GetProfiles(), execError("listprofiles", err)
}
