package server

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/outputtest"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// window is how much a session's client takes without credit, in bytes.
	window = 1 << 20
	// onTheWay is how much output connections may hold between a command and its reader, in bytes.
	onTheWay = 8 << 20
)

// writtenBy is how much a process has written to standard output, in bytes.
func writtenBy(t *testing.T, c ctxfsv1.ExecServiceClient, id string) int {
	t.Helper()
	resp, err := c.GetProcess(t.Context(), &ctxfsv1.GetProcessRequest{ProcessId: id})
	if err != nil {
		t.Fatal(err)
	}
	return int(resp.GetProcess().GetStdoutBytes())
}

// runForm calls take with each event of Run, until take returns false or the call ends.
type runForm func(t *testing.T, h *house, cmd *ctxfsv1.Command, take func(*ctxfsv1.RunResponse) bool)

// runForms are the ways in which programs run a command.
var runForms = map[string]runForm{
	"gRPC": func(t *testing.T, h *house, cmd *ctxfsv1.Command, take func(*ctxfsv1.RunResponse) bool) {
		t.Helper()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		stream, err := ctxfsv1.NewExecServiceClient(h.cc).Run(ctx, &ctxfsv1.RunRequest{Command: cmd})
		if err != nil {
			t.Fatal(err)
		}
		for {
			if m, err := stream.Recv(); err != nil || !take(m) {
				return
			}
		}
	},
	"HTTP": func(t *testing.T, h *house, cmd *ctxfsv1.Command, take func(*ctxfsv1.RunResponse) bool) {
		t.Helper()
		body, err := protojson.Marshal(&ctxfsv1.RunRequest{Command: cmd})
		if err != nil {
			t.Fatal(err)
		}
		resp := askByUnix(t, h.r.Info().Addresses.Socket).rpc("ExecService/Run", string(body))
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadBytes('\n')
			m := &ctxfsv1.RunResponse{}
			if err != nil || protojson.Unmarshal(line, m) != nil || !take(m) {
				return
			}
		}
	},
	"session": func(t *testing.T, h *house, cmd *ctxfsv1.Command, take func(*ctxfsv1.RunResponse) bool) {
		t.Helper()
		s := beginOn(t, h.r.host(t), readToken(t, h.r), "")
		data, err := proto.Marshal(&ctxfsv1.RunRequest{Command: cmd})
		s.must(err)
		s.must(s.say(&ctxfsv1.SessionRequest{Id: 7, Request: &ctxfsv1.SessionRequest_Call{Call: &ctxfsv1.SessionCall{
			Method: ctxfsv1.ExecService_Run_FullMethodName, Data: data, Window: window,
		}}}))
		// The client receives all that comes, as programs do. Only credit holds up the server.
		events := make(chan *ctxfsv1.SessionResponse, 100)
		defer func() { // after the session, which ends the goroutine
			for range events {
			}
		}()
		defer s.cut()
		go func() {
			defer close(events)
			for {
				m, err := s.hear()
				if err != nil {
					return
				}
				for _, m := range append([]*ctxfsv1.SessionResponse{m}, m.GetAlso()...) {
					events <- m
				}
			}
		}()
		for m := range events {
			r := &ctxfsv1.RunResponse{}
			s.must(proto.Unmarshal(m.GetReply().GetData(), r))
			if m.GetError() != nil || !m.GetMore() || !take(r) {
				return
			}
			s.must(s.say(&ctxfsv1.SessionRequest{Id: 7, Request: &ctxfsv1.SessionRequest_Credit{Credit: &ctxfsv1.SessionCredit{Bytes: int64(len(m.GetReply().GetData()))}}}))
		}
	},
}

// TestSlowReaderOfRunGetsAllOutput has readers that take a part only when the command waits for them.
func TestSlowReaderOfRunGetsAllOutput(t *testing.T) { //nolint:paralleltest // it measures the heap
	h, c := execHouse(t)
	size, every := 1<<30, 64<<20
	if testing.Short() {
		size, every = 32<<20, 4<<20
	}
	script, want := outputtest.Numbers(int64(size))
	for name, run := range runForms {
		t.Run(name, func(t *testing.T) {
			sum, got, id, most := sha256.New(), 0, "", int64(0)
			var exit *ctxfsv1.Exit
			before := int64(heap())
			run(t, h, inShell(script), func(m *ctxfsv1.RunResponse) bool {
				o := m.GetOutput()
				switch {
				case m.GetStarted() != nil:
					id = m.GetStarted().GetProcessId()
				case m.GetExited() != nil:
					exit = m.GetExited().GetExit()
				case o.GetDropped() > 0:
					t.Errorf("%d bytes before %d were dropped", o.GetDropped(), o.GetOffset())
					return false
				case got/every != (got+len(o.GetData()))/every:
					eventually(t, "the command is as far ahead as it may be", func() bool { return writtenBy(t, c, id) >= min(size, got+outputtest.Ahead) })
					if n := writtenBy(t, c, id); n > got+outputtest.Ahead+onTheWay {
						t.Errorf("the command is %d bytes ahead", n-got)
					}
					most = max(most, int64(heap())-before)
				}
				sum.Write(o.GetData())
				got += len(o.GetData())
				return true
			})
			if outputtest.Sum(sum) != want || exit == nil || exit.GetCode() != 0 {
				t.Errorf("got %d of %d bytes, and not the same; %v", got, size, exit)
			}
			if t.Logf("the heap grew by %d KiB", most>>10); most > 16<<20 {
				t.Errorf("the heap grew by %d MiB", most>>20)
			}
		})
	}
}

// TestReaderThatLeavesBreaksPipe leaves Run while the command writes.
func TestReaderThatLeavesBreaksPipe(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	for name, run := range runForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := ""
			run(t, h, inShell("yes"), func(m *ctxfsv1.RunResponse) bool {
				if m.GetStarted() != nil {
					id = m.GetStarted().GetProcessId()
				}
				return m.GetOutput() == nil
			})
			done, err := c.Wait(t.Context(), &ctxfsv1.WaitRequest{ProcessId: id})
			if exit := done.GetProcess().GetExit(); err != nil || exit.GetCode() != 141 || exit.GetReason() != ctxfsv1.ExitReason_EXIT_REASON_EXITED {
				t.Errorf("it ended with %v, %v", exit, err)
			}
		})
	}
}

// TestStalledReaderDelaysNothingElse has a command wait for its reader, and uses the same connection, and other commands.
func TestStalledReaderDelaysNothingElse(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	for name, run := range runForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := ""
			run(t, h, inShell("yes"), func(m *ctxfsv1.RunResponse) bool {
				if m.GetStarted() != nil {
					id = m.GetStarted().GetProcessId()
					return true
				}
				eventually(t, "the command waits", func() bool { return writtenBy(t, c, id) >= outputtest.Ahead })
				if list, err := c.ListProcesses(t.Context(), &ctxfsv1.ListProcessesRequest{Running: true}); err != nil || len(list.GetProcesses()) == 0 {
					t.Errorf("what runs: %v, %v", list, err)
				}
				if r, err := other(t, c); err != nil || r.out != "fine\n" {
					t.Errorf("another command: %+v, %v", r, err)
				}
				killed, err := c.Kill(t.Context(), &ctxfsv1.KillRequest{ProcessId: id})
				if reason := killed.GetProcess().GetExit().GetReason(); err != nil || reason != ctxfsv1.ExitReason_EXIT_REASON_KILLED {
					t.Errorf("the command that waits ended with %v, %v", reason, err)
				}
				return false
			})
		})
	}
}

func other(t *testing.T, c ctxfsv1.ExecServiceClient) (*ran, error) {
	t.Helper()
	return run(t.Context(), c, inShell("echo fine"))
}

// TestBlockingFollowOutputNeedsRightToChange follows a process that may write, as a read-only panel.
func TestBlockingFollowOutputNeedsRightToChange(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	id := startIn(t, c, inShell("echo out"))
	panel := h.execPanel(&ctxfsv1.OpenPanelRequest{PanelId: "r", ContextId: "ctx_a", ReadOnly: true}, ctxfsv1.PanelRight_PANEL_RIGHT_EXEC)
	stream, err := c.FollowOutput(panel, &ctxfsv1.FollowOutputRequest{ProcessId: id, Blocking: true})
	if err == nil {
		_, err = stream.Recv()
	}
	wantError(t, err, codes.FailedPrecondition, "EROFS", "read-only")
	if r := follow(t, c, &ctxfsv1.FollowOutputRequest{ProcessId: id, Blocking: true}); r.out != "out\n" || r.exited == nil {
		t.Errorf("as the host: %+v", r)
	}
}

// TestSessionCallWithWindowWaitsForCredit calls an RPC that streams, with a window that has room for one response.
func TestSessionCallWithWindowWaitsForCredit(t *testing.T) {
	t.Parallel()
	h, _ := execHouse(t)
	s := beginOn(t, h.r.host(t), readToken(t, h.r), "i")
	defer s.cut()
	data, err := proto.Marshal(&ctxfsv1.RunRequest{Command: inShell("echo out")})
	s.must(err)
	s.must(s.say(&ctxfsv1.SessionRequest{Id: 7, Request: &ctxfsv1.SessionRequest_Call{Call: &ctxfsv1.SessionCall{
		Method: ctxfsv1.ExecService_Run_FullMethodName, Data: data, Window: 1,
	}}}))
	credit := func(id uint64, n int64) {
		s.must(s.say(&ctxfsv1.SessionRequest{Id: id, Request: &ctxfsv1.SessionRequest_Credit{Credit: &ctxfsv1.SessionCredit{Bytes: n}}}))
	}
	for _, want := range []string{"Started", "Output", "Exited"} {
		m := s.next()
		r := &ctxfsv1.RunResponse{}
		s.must(proto.Unmarshal(m.GetReply().GetData(), r))
		if got := fmt.Sprintf("%T", r.GetEvent()); m.GetId() != 7 || got != "*ctxfsv1.RunResponse_"+want {
			t.Errorf("message of %d: %s, want %s", m.GetId(), got, want)
		}
		if want == "Exited" {
			break // its last message needs no credit
		}
		// The session answers other calls; the call that waits for credit has sent nothing before them.
		s.must(s.say(sessiontest.Call(8, &ctxfsv1.StatRequest{ContextId: "ctx_a", Path: "/"})))
		if m := s.next(); m.GetId() != 8 || m.GetError() != nil {
			t.Errorf("beside it came message of %d, %v", m.GetId(), m.GetError())
		}
		credit(9, 1) // no such call
		credit(7, 1<<62)
	}
	if m := s.next(); m.GetMore() || m.GetError() != nil {
		t.Errorf("the last message is %v", m)
	}
	credit(7, 0)
	if m := s.next(); m.GetClosing() == nil {
		t.Errorf("after a credit of 0 came %v", m)
	} else {
		wantError(t, fserrpb.FromSession(m.GetClosing().GetError()), codes.InvalidArgument, "EINVAL", "credit of 0 bytes")
	}
}
