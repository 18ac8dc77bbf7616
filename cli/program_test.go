package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/cli"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
	"github.com/ctxfs/ctxfs/server/command"
)

// programEnv makes the test binary be ctxfs, with all its commands.
const programEnv = "CTXFS_TEST_PROGRAM"

func program() int {
	ctx, stop := command.UntilSignal(context.Background())
	defer stop()
	env := command.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Args: os.Args[1:], Version: "0.0.0-test"}
	root := cli.Root(cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Version: "0.0.0-test", PlanSeed: env.PlanSeed}, command.Commands(env)...)
	return cli.Run(ctx, root, os.Args[1:])
}

// ctxfs runs the program in a folder, and returns its exit code and outputs.
func ctxfs(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), programEnv+"=1", "CTXFS_DISK_RESERVE=0")
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestServerInTheBackground starts a server, looks at it, and stops it.
func TestServerInTheBackground(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	audit := filepath.Join(t.TempDir(), "audit.log")
	run := func(want int, args ...string) (string, string) {
		t.Helper()
		code, out, errs := ctxfs(t, ws, args...)
		if code != want {
			t.Fatalf("ctxfs %v: exit %d, want %d\n%s%s", args, code, want, out, errs)
		}
		return out, errs
	}
	if _, errs := run(1, "status"); !strings.Contains(errs, "no ctxfs server found") {
		t.Errorf("status said %q", errs)
	}
	if out, _ := run(0, "seed", "plan"); !strings.Contains(out, "2 files, 27 B from 1 repository") {
		t.Errorf("without a server the plan is %q", out)
	}
	if out, _ := run(0, "serve", "--detach", "--audit-log", audit); !strings.Contains(out, "'ctxfs stop' ends it") || !strings.Contains(out, "1 repository: .") {
		t.Errorf("serve said %q", out)
	}
	defer ctxfs(t, ws, "stop")
	if _, errs := run(75, "serve", "--detach"); !strings.Contains(errs, "already served by pid") {
		t.Errorf("a second server said %q", errs)
	}
	folder, errs := run(0, "path", "panels/a")
	if want := filepath.Join(ws, ".contexts", "ctx_panels~a"); strings.TrimSpace(folder) != want || !strings.Contains(errs, "panels/a is new") {
		t.Errorf("the folder is %q, want %s; it said %q", folder, want, errs)
	}
	run(0, "-c", "panels/a", "mkdir", "new")
	for _, want := range []string{"Mkdir", "/new", "ctx_panels~a", "ok"} {
		if out, _ := run(0, "audit"); !strings.Contains(out, want) {
			t.Errorf("the log has no %s:\n%s", want, out)
		}
	}
	out, _ := run(0, "status", "--json")
	var status struct{ Workspace, Started, AuditLog string }
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.Workspace != ws || status.AuditLog != audit {
		t.Errorf("status is %s, %v", out, err)
	}
	if out, _ := run(0, "stop"); !strings.HasPrefix(out, "stopped pid ") {
		t.Errorf("stop said %q", out)
	}
	run(1, "health")
}

// TestServeNamesTheRepositoryAbove serves a part of a repository.
func TestServeNamesTheRepositoryAbove(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	code, out, errs := ctxfs(t, filepath.Join(ws, "src"), "serve", "--detach")
	defer ctxfs(t, filepath.Join(ws, "src"), "stop")
	if code != 0 || !strings.Contains(out, "it is part of the repository "+ws) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// TestRunBesideAServer runs commands as a panel of a server that runs already.
func TestRunBesideAServer(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	servertest.Start(t, ws, nil)
	folder := filepath.Join(ws, ".contexts", "ctx_run")
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"the folder is in the environment", []string{"run", "--", "sh", "-c", "echo $CTXFS_FOLDER"}, 0, folder + "\n"},
		{"it starts in the folder", []string{"run", "--in-context", "--", "pwd"}, 0, folder + "\n"},
		{"flags after the command are its own", []string{"run", "echo", "--workspace", "-n", "--json", "x"}, 0, "--workspace -n --json x\n"},
		{"its exit code", []string{"run", "sh", "-c", "exit 9"}, 9, ""},
		{"no such command", []string{"run", "--", "no-such-command"}, 127, ""},
		{"no program", []string{"run", "--", filepath.Join(ws, "README.md")}, 126, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if code, out, errs := ctxfs(t, ws, c.args...); code != c.code || out != c.out {
				t.Errorf("exit %d, want %d; %q, want %q; %s", code, c.code, out, c.out, errs)
			}
		})
	}
}

// TestLogFollows reads lines as they come, also when the log is rotated.
func TestLogFollows(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	servertest.Start(t, ws, func(c *server.Config) { c.AuditLog, c.AuditMaxSize = path, 1<<10 })
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "p"}}
	s.run("mkdir", "/0")
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan string, 100)
	root := cli.Root(cli.Env{Stdin: strings.NewReader(""), Stdout: lineChannel(seen), Stderr: os.Stderr, Dir: ws, Getenv: func(string) string { return "" }})
	done := make(chan int, 1)
	go func() { done <- cli.Run(ctx, root, []string{"audit", "-f"}) }()
	for i := range 30 {
		for line := ""; !strings.Contains(line, "Mkdir") || !strings.Contains(line, "/"+strconv.Itoa(i)); {
			line = <-seen
		}
		s.ok("mkdir", "/"+strconv.Itoa(i+1))
	}
	cancel()
	<-done
	if rotated, err := filepath.Glob(path + ".*"); err != nil || len(rotated) == 0 {
		t.Errorf("the log was not rotated: %v, %v", rotated, err)
	}
}

type lineChannel chan string

func (c lineChannel) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		c <- line
	}
	return len(p), nil
}
