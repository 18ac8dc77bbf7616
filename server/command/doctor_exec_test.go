package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

func TestDoctorRunsACommand(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	if err := os.Chmod(filepath.Dir(ws), 0o755); err != nil {
		t.Fatal(err)
	}
	doctor := func(args ...string) string {
		_, out, _, _ := run(t, nil, append([]string{"doctor", "--workspace", ws, "--disk-reserve", "0"}, args...)...)
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line[4:], "  exec ") {
				return line
			}
		}
		return out
	}
	user := "4321:4321"
	if os.Geteuid() != 0 {
		user = ""
	}
	want := "ok    exec       commands run isolated"
	cfg := server.DefaultConfig()
	cfg.ExecUser = user
	if err := server.ExecRefusal(t.Context(), cfg, ws); err != nil {
		want = "warn  exec       " + err.Error()
	}
	if got := doctor("--exec-user", user); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := doctor("--exec-user", user); strings.HasPrefix(got, "ok") && !strings.Contains(got, exec.Protections()) {
		t.Errorf("got %q, want what isolates commands", got)
	}
	if got := doctor("--exec-user", "0:0"); !strings.HasPrefix(got, "fail  exec") || !strings.Contains(got, "exec") {
		t.Errorf("as root: %q", got)
	}
}
