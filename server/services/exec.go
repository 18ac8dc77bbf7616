package services

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Exec implements ExecService.
type Exec struct {
	ctxfsv1.UnimplementedExecServiceServer
	Processes *exec.Processes
}

// The time limit of Run, and the grace of Kill, when the request sets none.
const (
	runTime   = 10 * time.Minute
	killGrace = 5 * time.Second
	maxGrace  = time.Minute
	// maxInput bounds the data of SendInput, in bytes.
	maxInput = 1 << 20
	// maxPage bounds the processes of a page of ListProcesses, in bytes, unless the first of them is larger.
	maxPage = 1 << 20
)

// Run implements ExecService.
func (s *Exec) Run(req *ctxfsv1.RunRequest, stream grpc.ServerStreamingServer[ctxfsv1.RunResponse]) error {
	return s.RunCommand(stream.Context(), req.GetCommand(), stream.Send)
}

// RunCommand calls send with what Run reports of a command.
func (s *Exec) RunCommand(ctx context.Context, cmd *ctxfsv1.Command, send func(*ctxfsv1.RunResponse) error) error {
	command, err := commandOf(ctx, cmd, runTime, ctxfsv1.OnDisconnect_ON_DISCONNECT_KILL)
	if err != nil {
		return execStatus(err)
	}
	command.Awaited = true
	p, err := s.Processes.Start(ctx, command)
	if err != nil {
		return execStatus(err)
	}
	defer p.Connect()(false)
	err = send(&ctxfsv1.RunResponse{Event: &ctxfsv1.RunResponse_Started{Started: processToPB(p)}})
	if err == nil {
		err = p.Output(ctx, [2]int64{}, exec.Blocking, func(o exec.Output) error {
			return send(&ctxfsv1.RunResponse{Event: &ctxfsv1.RunResponse_Output{Output: outputToPB(o)}})
		})
	}
	if err != nil {
		return execStatus(err)
	}
	return send(&ctxfsv1.RunResponse{Event: &ctxfsv1.RunResponse_Exited{Exited: processToPB(p)}})
}

// Start implements ExecService.
func (s *Exec) Start(ctx context.Context, req *ctxfsv1.StartRequest) (*ctxfsv1.StartResponse, error) {
	command, err := commandOf(ctx, req.GetCommand(), 0, ctxfsv1.OnDisconnect_ON_DISCONNECT_KEEP)
	if err != nil {
		return nil, execStatus(err)
	}
	p, err := s.Processes.Start(ctx, command)
	if err != nil {
		return nil, execStatus(err)
	}
	return &ctxfsv1.StartResponse{Process: processToPB(p)}, nil
}

// commandOf is commandFromPB for a start. alone is the on_disconnect unless the command has another.
func commandOf(ctx context.Context, cmd *ctxfsv1.Command, wall time.Duration, alone ctxfsv1.OnDisconnect) (exec.Command, error) {
	command, err := commandFromPB(ctx, cmd, wall)
	command.KillAlone = cmp.Or(cmd.GetOnDisconnect(), alone) == ctxfsv1.OnDisconnect_ON_DISCONNECT_KILL
	return command, err
}

// commandFromPB converts a command of the caller. wall is its time limit if neither the request nor its profile sets one. A terminal has no
// time limit of its own.
func commandFromPB(ctx context.Context, cmd *ctxfsv1.Command, wall time.Duration) (exec.Command, error) {
	if cmd.GetPty() != nil {
		wall = 0
	}
	caller := panels.IdentityFrom(ctx)
	id, err := execTarget(caller, cmd.GetContextId())
	if err != nil {
		return exec.Command{}, err
	}
	l := cmd.GetLimits()
	limits := exec.Limits{
		Wall: milliseconds(l.GetWallMs()), CPU: milliseconds(l.GetCpuMs()), Processes: int(l.GetProcesses()), Files: int(l.GetOpenFiles()), FileBytes: l.GetFileBytes(),
		MemoryBytes: l.GetMemoryBytes(), CPUPercent: int(l.GetCpuPercent()), OutputBytes: l.GetOutputBytes(), TmpBytes: l.GetTmpBytes(),
	}
	network, err := networkFromPB(ctx, cmd.GetNetwork())
	if err != nil {
		return exec.Command{}, err
	}
	return exec.Command{
		Context: id, Argv: Argv(cmd), Cwd: cwdOf(cmd), Env: cmd.GetEnv(), Stdin: cmd.GetStdin(), OpenStdin: cmd.GetOpenStdin(), Limits: limits,
		Checkpoint: cmd.GetCheckpoint(), DefaultWall: wall, Profile: cmd.GetProfile(), Sandbox: cmd.GetSandbox(), Network: network,
		OfPanel: caller.Panel != "", ReadOnly: cmd.GetReadOnly() || caller.ReadOnly, Pty: ptyOf(cmd.GetPty()),
		Identity: exec.Identity{RequestID: cmd.GetRequestId(), Name: cmd.GetName(), Labels: cmd.GetLabels()},
	}, nil
}

// milliseconds converts a duration. One that a time.Duration cannot hold stays too large, or negative.
func milliseconds(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(max(-most, min(ms, most))) * time.Millisecond
}

// FollowOutput implements ExecService.
func (s *Exec) FollowOutput(req *ctxfsv1.FollowOutputRequest, stream grpc.ServerStreamingServer[ctxfsv1.FollowOutputResponse]) error {
	how := exec.Present
	switch {
	case req.GetBlocking():
		how = exec.Blocking
	case req.GetFollow():
		how = exec.Watching
	}
	p, err := s.process(stream.Context(), req.GetProcessId(), how == exec.Blocking)
	if err != nil {
		return execStatus(err)
	}
	offsets := [2]int64{exec.Stdout: req.GetStdoutOffset(), exec.Stderr: req.GetStderrOffset()}
	err = p.Output(stream.Context(), offsets, how, func(o exec.Output) error {
		return stream.Send(&ctxfsv1.FollowOutputResponse{Event: &ctxfsv1.FollowOutputResponse_Output{Output: outputToPB(o)}})
	})
	if err != nil || p.Ended() == nil {
		return execStatus(err)
	}
	return stream.Send(&ctxfsv1.FollowOutputResponse{Event: &ctxfsv1.FollowOutputResponse_Exited{Exited: processToPB(p)}})
}

// Wait implements ExecService.
func (s *Exec) Wait(ctx context.Context, req *ctxfsv1.WaitRequest) (*ctxfsv1.WaitResponse, error) {
	p, err := s.process(ctx, req.GetProcessId(), false)
	if err == nil {
		err = p.Wait(ctx)
	}
	if err != nil {
		return nil, execStatus(err)
	}
	return &ctxfsv1.WaitResponse{Process: processToPB(p)}, nil
}

// SendInput implements ExecService.
func (s *Exec) SendInput(ctx context.Context, req *ctxfsv1.SendInputRequest) (*ctxfsv1.SendInputResponse, error) {
	if n := len(req.GetData()); n > maxInput {
		return nil, execStatus(fserr.Invalid("data has %d bytes, more than %d", n, maxInput))
	}
	p, err := s.process(ctx, req.GetProcessId(), true)
	if err == nil {
		err = p.Write(ctx, req.GetData())
	}
	return &ctxfsv1.SendInputResponse{}, execStatus(err)
}

// CloseInput implements ExecService.
func (s *Exec) CloseInput(ctx context.Context, req *ctxfsv1.CloseInputRequest) (*ctxfsv1.CloseInputResponse, error) {
	p, err := s.process(ctx, req.GetProcessId(), true)
	if err == nil {
		err = p.CloseInput(ctx)
	}
	return &ctxfsv1.CloseInputResponse{}, execStatus(err)
}

// SendSignal implements ExecService.
func (s *Exec) SendSignal(ctx context.Context, req *ctxfsv1.SendSignalRequest) (*ctxfsv1.SendSignalResponse, error) {
	p, err := s.process(ctx, req.GetProcessId(), true)
	if err == nil {
		err = p.Signal(int(req.GetSignal()))
	}
	return &ctxfsv1.SendSignalResponse{}, execStatus(err)
}

// Kill implements ExecService.
func (s *Exec) Kill(ctx context.Context, req *ctxfsv1.KillRequest) (*ctxfsv1.KillResponse, error) {
	grace := killGrace
	if req.GraceMs != nil {
		grace = milliseconds(req.GetGraceMs())
	}
	if grace < 0 || grace > maxGrace {
		return nil, execStatus(fserr.Invalid("grace_ms is %d; use 0 to %d", req.GetGraceMs(), maxGrace.Milliseconds()))
	}
	p, err := s.process(ctx, req.GetProcessId(), true)
	if err == nil {
		err = p.Kill(ctx, grace)
	}
	if err != nil {
		return nil, execStatus(err)
	}
	return &ctxfsv1.KillResponse{Process: processToPB(p)}, nil
}

// GetProcess implements ExecService.
func (s *Exec) GetProcess(ctx context.Context, req *ctxfsv1.GetProcessRequest) (*ctxfsv1.GetProcessResponse, error) {
	p, err := s.process(ctx, req.GetProcessId(), false)
	if err != nil {
		return nil, execStatus(err)
	}
	return &ctxfsv1.GetProcessResponse{Process: processToPB(p)}, nil
}

// ListProcesses implements ExecService.
func (s *Exec) ListProcesses(ctx context.Context, req *ctxfsv1.ListProcessesRequest) (*ctxfsv1.ListProcessesResponse, error) {
	id, err := listTarget(ctx, req)
	if err != nil {
		return nil, execStatus(err)
	}
	after, err := exec.ParsePlace(req.GetPageToken())
	if err != nil {
		return nil, execStatus(err)
	}
	resp, size := &ctxfsv1.ListProcessesResponse{}, 0
	for _, p := range s.Processes.List(id) {
		if p.Place().Compare(after) <= 0 || req.GetRunning() && p.Ended() != nil {
			continue
		}
		pb := processToPB(p)
		if size += proto.Size(pb); size > maxPage && len(resp.GetProcesses()) > 0 {
			resp.NextPageToken = after.String()
			break
		}
		resp.Processes, after = append(resp.Processes, pb), p.Place()
	}
	return resp, nil
}

// RemoveProcess implements ExecService.
func (s *Exec) RemoveProcess(ctx context.Context, req *ctxfsv1.RemoveProcessRequest) (*ctxfsv1.RemoveProcessResponse, error) {
	p, err := s.process(ctx, req.GetProcessId(), true)
	if err == nil {
		err = s.Processes.Remove(p.ID)
	}
	return &ctxfsv1.RemoveProcessResponse{}, execStatus(err)
}

func processToPB(p *exec.Process) *ctxfsv1.Process {
	cmd := p.Command()
	pb := &ctxfsv1.Process{
		ProcessId: p.ID, ContextId: string(cmd.Context), StartedNs: p.Started().UnixNano(),
		StdoutBytes: p.Written(exec.Stdout), StderrBytes: p.Written(exec.Stderr),
		Profile: cmd.Profile, Sandbox: cmd.Sandbox, Refusals: refusalsToPB(p.Refusals()),
		Name: cmd.Name, Labels: cmd.Labels, Pty: ptyToPB(p.Terminal()),
	}
	pb.Argv, pb.RawArgv = argvToPB(cmd.Argv)
	pb.Cwd, pb.RawCwd = twin(cmd.Cwd)
	for _, l := range p.Enforced() {
		pb.Limits = append(pb.Limits, &ctxfsv1.EnforcedLimit{Name: l.Name, Value: l.Value, EnforcedBy: l.By})
	}
	if e := p.Ended(); e != nil {
		pb.Exit = exitToPB(e)
	}
	return pb
}

// worded is a Command or a Check.
type worded interface {
	GetArgv() []string
	GetRawArgv() [][]byte
	GetCwd() string
	GetRawCwd() []byte
}

// Argv returns the arguments of a Command or a Check, whose bytes need not be UTF-8.
func Argv(m worded) []string {
	if len(m.GetRawArgv()) == 0 {
		return m.GetArgv()
	}
	argv := make([]string, len(m.GetRawArgv()))
	for i, a := range m.GetRawArgv() {
		argv[i] = string(a)
	}
	return argv
}

func cwdOf(m worded) string {
	if len(m.GetRawCwd()) > 0 {
		return string(m.GetRawCwd())
	}
	return m.GetCwd()
}

// argvToPB returns arguments as protobuf can have them: as bytes if one is not UTF-8.
func argvToPB(argv []string) (text []string, raw [][]byte) {
	if !slices.ContainsFunc(argv, func(a string) bool { return !utf8.ValidString(a) }) {
		return argv, nil
	}
	for _, a := range argv {
		raw = append(raw, []byte(a))
	}
	return nil, raw
}

func outputToPB(o exec.Output) *ctxfsv1.Output {
	return &ctxfsv1.Output{Stream: ctxfsv1.OutputStream(o.Stream + 1), Offset: o.Offset, Dropped: o.Dropped, Data: o.Data}
}

// execStatus converts an error of a command.
func execStatus(err error) error {
	var u *exec.Unavailable
	if !errors.As(err, &u) {
		return fserrpb.ToStatus(err)
	}
	return &fserrpb.Refusal{Reason: "EXEC_UNAVAILABLE", Detail: u.Cause, Hint: u.Remedy, Err: err}
}
