package command_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// TestWithoutBubblewrap serves a workspace, and examines it, with a PATH that has git and no bwrap.
func TestWithoutBubblewrap(t *testing.T) {
	t.Parallel()
	s := &station{T: t, ws: servertest.Workspace(t), driver: server.DriverCopy}
	if os.Geteuid() == 0 {
		s.user = "4321:4321"
	}
	bin := t.TempDir()
	git, err := exec.LookPath("git")
	s.must(err)
	s.must(os.Symlink(git, filepath.Join(bin, "git")))

	doctor := exec.CommandContext(t.Context(), os.Args[0], "doctor", "--workspace", s.ws, "--disk-reserve", "0", "--exec-user", s.user)
	doctor.Env = append(os.Environ(), programEnv+"=1", "PATH="+bin)
	out, err := doctor.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	told := false
	for line := range bytes.Lines(out) {
		told = told || strings.HasPrefix(string(line), "warn  exec ") && strings.Contains(string(line), "bubblewrap is not installed (apt install bubblewrap)")
	}
	if !told {
		t.Errorf("doctor says:\n%s", out)
	}

	r := s.serve("PATH=" + bin)
	r.seed("ctx_a")
	cmd := &ctxfsv1.Command{ContextId: "ctx_a", Argv: []string{"true"}}
	_, startErr := r.exec.Start(t.Context(), &ctxfsv1.StartRequest{Command: cmd})
	_, explainErr := r.exec.ExplainExec(t.Context(), &ctxfsv1.ExplainExecRequest{Command: cmd})
	for what, err := range map[string]error{"Start": startErr, "ExplainExec": explainErr} {
		st := status.Convert(err)
		if st.Code() != codes.FailedPrecondition || !strings.HasPrefix(st.Message(), "EXEC_UNAVAILABLE: ") || !strings.Contains(st.Message(), "bubblewrap is not installed") {
			t.Errorf("%s: %v", what, err)
		}
		for _, d := range st.Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok && (info.GetReason() != "EXEC_UNAVAILABLE" || info.GetMetadata()["hint"] != "apt install bubblewrap") {
				t.Errorf("%s: %v", what, info)
			}
		}
	}
	files := ctxfsv1.NewFsServiceClient(r.cc)
	_, err = files.WriteFile(t.Context(), &ctxfsv1.WriteFileRequest{ContextId: "ctx_a", Path: "/made", Content: &ctxfsv1.WriteFileRequest_Text{Text: "made\n"}})
	if got := r.read("ctx_a", "/made"); err != nil || got != "made\n" {
		t.Errorf("file calls: %q, %v", got, err)
	}
}
