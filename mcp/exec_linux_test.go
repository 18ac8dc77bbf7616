package mcp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/server"
)

// TestCommands runs commands as a panel with the right to.
func TestCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *server.Config) {
		if os.Geteuid() == 0 {
			cfg.ExecUser = "4321:4321"
			if err := os.Chmod(filepath.Dir(cfg.Workspace), 0o755); err != nil { // that user passes through it
				t.Fatal(err)
			}
		}
		if err := server.ExecRefusal(t.Context(), *cfg, cfg.Workspace); err != nil {
			t.Skip(err)
		}
	})
	eachWay(t, w, func(m *model) {
		m.is("exit code 0\n# A workspace\n", "exec", object{"command": "cat README.md"})
		m.is("exit code 3\nout\nerr\n", "exec", object{"command": "cd src && echo out && echo err >&2; exit 3", "cwd": "/"})
		m.want("ended by the server: timeout", "exec", object{"command": "sleep 60", "timeoutSeconds": 1})
		m.refuses("ENOENT", "exec", object{"command": "true", "cwd": "/none"})
		m.refuses("timeoutSeconds", "exec", object{"command": "true", "timeoutSeconds": -1})
		got := m.ok("exec", object{"command": "seq 100000; echo end"})
		if len(got) > 70<<10 || !strings.HasPrefix(got, "exit code 0\n[") || !strings.HasSuffix(got, "\n100000\nend\n") {
			m.t.Errorf("a long output has %d bytes: %.100q", len(got), got)
		}
		const size = 40 << 20 // more than the server keeps
		got = m.ok("exec", object{"command": fmt.Sprintf("head -c %d /dev/zero | tr '\\0' Z", size)})
		shown := strings.Count(got, "Z")
		if want := fmt.Sprintf("exit code 0\n[%d bytes before this are left out", size-shown); shown < 1<<10 || !strings.HasPrefix(got, want) {
			m.t.Errorf("of a longer one it says %.100q, want %q", got, want)
		}
	}, client.CanExec())
}
