package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/ring"
	"github.com/ctxfs/ctxfs/server"
)

// TestLogsOfCtxfsAreBounded writes more than a log may have to the log of a detached server, to that of a runner, and to a file that the caller of
// 'ctxfs serve' chose, which is the caller's.
func TestLogsOfCtxfsAreBounded(t *testing.T) {
	t.Parallel()
	cfg := server.DefaultConfig()
	cfg.Workspace = t.TempDir()
	own, _, err := openLog(cfg, "0.0.0-test")
	if err != nil || own == nil {
		t.Fatal(own, err)
	}
	other := filepath.Join(t.TempDir(), "log")
	for name, c := range map[string]struct {
		path    string
		bounded bool
		log     func(Env) io.Writer
	}{
		"of a detached server": {own.Name(), true, func(e Env) io.Writer { return e.logOf(cfg) }},
		"of a runner":          {filepath.Join(t.TempDir(), "runner.log"), true, func(e Env) io.Writer { return bounded(e.Stderr) }},
		"of the caller":        {other, false, func(e Env) io.Writer { return e.logOf(cfg) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := os.OpenFile(c.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = file.Close() })
			if err := file.Truncate(ring.Size); err != nil { // a file with a hole takes no time
				t.Fatal(err)
			}
			if _, err := fmt.Fprintln(c.log(Env{Stderr: file}), strings.Repeat("x", 100)); err != nil {
				t.Fatal(err)
			}
			if st, err := file.Stat(); err != nil || (st.Size() <= ring.Size) != c.bounded {
				t.Errorf("%d bytes, %v", st.Size(), err)
			}
		})
	}
	if err := own.Close(); err != nil {
		t.Error(err)
	}
}

// TestDetachedServerNeedsItsLog has something else in the place of the log. The server is not started, and the refusal
// names the remedy.
func TestDetachedServerNeedsItsLog(t *testing.T) {
	t.Parallel()
	for is, put := range map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":      func(path string) error { return os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), path) },
	} {
		cfg := server.DefaultConfig()
		cfg.Workspace = t.TempDir()
		l, err := cfg.Layout()
		if err == nil {
			err = l.Make("0.0.0-test")
		}
		if err == nil {
			err = put(filepath.Join(l.State, logName))
		}
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		e := Env{Stdout: &out, Stderr: &out, Args: []string{"-test.list=^$"}, Environ: os.Environ(), Version: "0.0.0-test"}
		err = e.detach(t.Context(), cfg, false)
		for _, want := range []string{"server.log is not the file that ctxfs wrote (" + is + ")", "2>>FILE"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", is, err)
			}
		}
	}
}
