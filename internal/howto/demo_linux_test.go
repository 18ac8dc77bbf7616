package howto

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDemoLeavesNothing runs scripts/demo to its end, and in ways in which it does not get there: before it has taken its change back.
// A .contexts that the checkout has stays as it is.
func TestDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	// Programs inherit which signals are ignored: with nohup, and in the background of a script, the demo would not get these. Those that a test handles
	// are not ignored.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT)
	t.Cleanup(func() { signal.Stop(signals) })
	for name, c := range map[string]struct {
		undo string // what the command undo does
		code int
		ends string
	}{
		"all steps":      {`exec "$real" "$@"`, 0, "\n  ctxfs stop\n"},
		"a failed step":  {"exit 1", 1, ""},
		"an interrupt":   {"kill -INT $PPID", 130, "ok    in the checkout: kept over a restart\n"},
		"a lost console": {"kill -HUP $PPID", 130, "ok    in the checkout: kept over a restart\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.must(`mkdir -p tmp checkout/scripts checkout/.contexts/ctx_mine && cp '` + demo(t) + `' checkout/scripts
				echo kept >checkout/.contexts/ctx_mine/file; echo /.contexts/ >checkout/.gitignore
				printf '#!/bin/sh\nreal=%s\nif [ "$1" = undo ]; then\n%s\nelse exec "$real" "$@"; fi\n' "$HOME/bin/ctxfs" ` + "'" + c.undo + "'" + ` >program && chmod +x program
				cd checkout && git init -q && git add . && git commit -qm first`)
			before := h.tree()
			cmd := exec.CommandContext(t.Context(), filepath.Join(h.dir, "checkout/scripts/demo"), filepath.Join(h.dir, "program"))
			cmd.Env = environ(filepath.Join(h.dir, "bin"), "HOME="+h.dir, "TMPDIR="+filepath.Join(h.dir, "tmp"))
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run() // its exit code is looked at
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.HasSuffix(out.String(), c.ends) {
				t.Errorf("exit %d, want %d and the end %q:\n%s%s", code, c.code, c.ends, &out, &errs)
			}
			if strings.Contains(out.String(), `"level"`) {
				t.Errorf("it printed lines of the server's log:\n%s", &out)
			}
			if after := h.tree(); after != before {
				t.Errorf("it left\n%s\nbefore there was\n%s", after, before)
			}
			if left := running(t, h.dir); len(left) > 0 {
				t.Errorf("these programs run still: %q", left)
			}
		})
	}
}

// demo returns the path of the script.
func demo(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "scripts", "demo"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// tree lists the checkout and the directory of temporary files.
func (h *home) tree() string {
	h.t.Helper()
	list, err := h.run(`cd; find tmp checkout -not -path '*/.git/*' -type f | sort; git -C checkout status --porcelain --ignored; cat checkout/.contexts/ctx_mine/file`)
	if err != nil {
		h.t.Fatal(err, list)
	}
	return list
}

// running returns the command lines of the processes that name a directory.
func running(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(dir)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
