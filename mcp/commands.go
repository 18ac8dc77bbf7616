package mcp

import (
	"context"
	"fmt"
	"strings"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

type execArgs struct {
	Command string `json:"command" jsonschema:"a command for sh"`
	Dir     string `json:"cwd,omitempty" jsonschema:"the working directory; the root without it"`
	Seconds int64  `json:"timeoutSeconds,omitempty" jsonschema:"when the command is killed; 120 without it, at most 3600"`
}

// The time that a command has, in seconds.
const defaultSeconds, maxSeconds = 120, 3600

func (s *Server) addCommands() {
	add(s, "exec", "Run a command", "Runs a shell command over the files, isolated from the machine, and returns its exit code and the end of its output.", hints{open: true}, s.run)
}

func (s *Server) run(ctx context.Context, in execArgs) (string, error) {
	if in.Seconds < 0 || in.Seconds > maxSeconds {
		return "", fmt.Errorf("timeoutSeconds is %d; use 1 to %d", in.Seconds, maxSeconds)
	}
	if in.Seconds == 0 {
		in.Seconds = defaultSeconds
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Both outputs are one stream, so that their order stays.
	argv := []string{"sh", "-c", "exec 2>&1; " + in.Command}
	stream, err := s.exec.Run(ctx, &ctxfsv1.RunRequest{Command: &ctxfsv1.Command{
		ContextId: s.context, Argv: argv, Cwd: in.Dir, Limits: &ctxfsv1.ExecLimits{WallMs: in.Seconds * 1000},
	}})
	out := tail{most: s.limit}
	var exit *ctxfsv1.Exit
	err = each(stream, err, func(r *ctxfsv1.RunResponse) error {
		out.add(r.GetOutput())
		if p := r.GetExited(); p != nil {
			exit = p.GetExit()
		}
		return nil
	})
	return ended(exit) + "\n" + out.text(), err
}

// ended says how a command ended.
func ended(e *ctxfsv1.Exit) string {
	if e.GetReason() == ctxfsv1.ExitReason_EXIT_REASON_EXITED {
		return fmt.Sprintf("exit code %d", e.GetCode())
	}
	reason := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(e.GetReason().String(), "EXIT_REASON_"), "_", " "))
	return strings.TrimSpace("ended by the server: " + reason + " " + e.GetDetail())
}

// tail keeps the end of an output.
type tail struct {
	data []byte
	lost int64
	most int
}

func (t *tail) add(o *ctxfsv1.Output) {
	t.lost += o.GetDropped()
	t.data = append(t.data, o.GetData()...)
	if over := len(t.data) - t.most; over > 0 {
		t.lost += int64(over)
		t.data = append(t.data[:0], t.data[over:]...)
	}
}

func (t *tail) text() string {
	out := strings.ToValidUTF8(string(t.data), "\uFFFD")
	if t.lost > 0 {
		return fmt.Sprintf("[%d bytes before this are left out; write the output to a file to read all of it]\n%s", t.lost, out)
	}
	return out
}
