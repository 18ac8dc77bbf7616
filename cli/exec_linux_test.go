package cli_test

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/outputtest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// execShell serves a workspace in whose contexts commands run. It skips the test where they cannot.
func execShell(t *testing.T, changes ...func(*server.Config)) *shell {
	t.Helper()
	t.Parallel()
	ws := servertest.Workspace(t)
	settings := func(*server.Config) {}
	if os.Geteuid() == 0 {
		settings = func(cfg *server.Config) { cfg.ExecUser = "4321:4321" }
		if err := os.Chmod(filepath.Dir(ws), 0o755); err != nil { // that user passes through it
			t.Fatal(err)
		}
	}
	cfg := server.DefaultConfig()
	settings(&cfg)
	if err := server.ExecRefusal(t.Context(), cfg, ws); err != nil {
		t.Skip(err)
	}
	servertest.Start(t, ws, func(cfg *server.Config) {
		settings(cfg)
		for _, change := range changes {
			change(cfg)
		}
	})
	s := &shell{t: t, dir: ws, env: map[string]string{}}
	s.ok("panel", "open", "panels/a")
	return s
}

func TestExecFromTheShell(t *testing.T) {
	s := execShell(t)
	s.expect("package main\n", "exec", "panels/a", "--", "cat", "src/main.go")
	s.expect("/context/src v\n", "exec", "panels/a", "-w", "src", "-e", "A=v", "--", "sh", "-c", "echo $PWD $A")
	s.stdin = "from here\n"
	s.expect("from here\n", "exec", "-i", "panels/a", "--", "cat")
	s.stdin = ""
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"exec", "panels/a", "--", "sh", "-c", "echo oops >&2; exit 42"}, 42, "oops\n"},
		{[]string{"exec", "panels/a", "--", "no-such-program"}, 127, "no such program in PATH"},
		{[]string{"exec", "panels/a", "--", "/context/README.md"}, 126, "permission denied"},
		{[]string{"exec", "panels/a", "--", "sh", "-c", "kill -15 $$"}, 143, ""},
		{[]string{"exec", "panels/a", "--time-limit", "300ms", "--", "sleep", "100"}, 124, "time limit"},
		{[]string{"exec", "panels/a", "-w", "nope", "--", "true"}, 125, "ENOENT"},
		{[]string{"exec", "panels/a"}, 2, "exec CONTEXT -- COMMAND"},
		{[]string{"exec", "panels/a", "-e", "A", "--", "true"}, 2, "NAME=VALUE"},
		{[]string{"exec", "panels/none", "--", "true"}, 1, "panels/none"},
		{[]string{"logs", "p-none"}, 1, "'ctxfs ps -a'"},
		{[]string{"kill", "p-none"}, 1, "p-none"},
	} {
		if code, _, stderr := s.run(c.args...); code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("ctxfs %s: exit %d, %q; want %d, %q", strings.Join(c.args, " "), code, stderr, c.code, c.stderr)
		}
	}
}

func TestBackgroundCommandFromTheShell(t *testing.T) {
	s := execShell(t)
	id := strings.TrimSpace(s.ok("exec", "-d", "panels/a", "--", "sh", "-c", "echo begun; sleep 1000"))
	if got := s.ok("ps", "panels/a"); !regexp.MustCompile(`(?m)^` + id + ` +- +ctx_panels~a +running +- +\S+ +sh -c `).MatchString(got) {
		t.Errorf("ps printed %s", got)
	}
	for s.ok("logs", id) == "" && t.Context().Err() == nil { // the command has not begun
	}
	s.expect("", "kill", id)
	s.expect("begun\n", "logs", id)
	if code, out, _ := s.run("logs", "-f", id); code != 137 || out != "begun\n" {
		t.Errorf("logs -f: exit %d, %q", code, out)
	}
	if got := s.ok("ps"); strings.Contains(got, id) {
		t.Errorf("ps after the kill printed %s", got)
	}
	var list []struct {
		ProcessID string `json:"processId"`
		Exit      struct {
			Reason string `json:"reason"`
		} `json:"exit"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(s.ok("ps", "-a", "--json"))), &list); err != nil || len(list) != 1 || list[0].ProcessID != id || list[0].Exit.Reason != "killed" {
		t.Errorf("ps -a --json: %+v, %v", list, err)
	}
}

func TestProfilesFromTheShell(t *testing.T) {
	s := execShell(t)
	s.expect("hello\n", "exec", "panels/a", "--sandbox", "dev", "--network", "example.com", "--", "echo", "hello")
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"exec", "panels/a", "--profile", "nope", "--", "true"}, 125, "git, offline, packages"},
		{[]string{"exec", "panels/a", "--network", "host", "--", "true"}, 125, "EACCES"},
		{[]string{"exec", "panels/a", "--network", "10.0.0.1", "--", "true"}, 125, "10.0.0.1"},
		{[]string{"exec", "panels/a", "--network", "none", "--network", "example.com", "--", "true"}, 125, "ALLOWED"},
		{[]string{"exec", "panels/a", "--network", "example.com", "--", "curl", "-sS", "http://bad.example.org"}, 0, "ctxfs: no connection to bad.example.org port 80: the name is not permitted; permit it with --network bad.example.org"},
		{[]string{"explain-exec", "panels/a", "--profile", "nope", "--", "true"}, 125, "git, offline, packages"},
	} {
		if code, _, stderr := s.run(c.args...); code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("ctxfs %s: exit %d, %q; want %d, %q", strings.Join(c.args, " "), code, stderr, c.code, c.stderr)
		}
	}
	got := s.ok("explain-exec", "panels/a", "--profile", "git", "-w", "src", "-e", "A=secret-value", "--", "true")
	for _, want := range []string{"profile    git\n", "directory  /context/src\n", "ports 22, 80, 443: ", " A ", "processes 512 (rlimit)", "/context context, writable\n", "/tmp memory, writable, 1.0 GiB\n", "landlock   "} {
		if !strings.Contains(got, want) {
			t.Errorf("explain-exec printed %s, without %q", got, want)
		}
	}
	if strings.Contains(got, "secret-value") {
		t.Errorf("explain-exec printed the value of a variable: %s", got)
	}
	commands, types := readShapes(t)
	checkCommand(t, commands, types, "explain-exec", s.ok("--json", "explain-exec", "panels/a", "--", "true"))
	if got := s.ok("exec-profiles"); !regexp.MustCompile(`(?m)^offline +no network +none$`).MatchString(got) {
		t.Errorf("exec-profiles printed %s", got)
	}
}

// process is what 'ctxfs ps --json' says.
type process struct {
	StdoutBytes int64 `json:"stdoutBytes"`
	Exit        *struct {
		Code   int    `json:"code"`
		Reason string `json:"reason"`
	} `json:"exit"`
}

// process returns the newest process.
func (s *shell) process() process {
	s.t.Helper()
	var list []process
	if err := json.Unmarshal([]byte(s.ok("ps", "-a", "--json")), &list); err != nil || len(list) == 0 {
		s.t.Fatal(list, err)
	}
	return list[0]
}

// TestMissingOutputShowsInTheExitCode reads the output of commands that wrote more than the server keeps, and of one that did not.
func TestMissingOutputShowsInTheExitCode(t *testing.T) {
	s := execShell(t)
	detached := func(script string) string {
		id := strings.TrimSpace(s.ok("exec", "-d", "panels/a", "--", "sh", "-c", script))
		clocktest.Await(t, "the command has ended", func() bool { return s.process().Exit != nil })
		return id
	}
	large, _ := outputtest.Numbers(17 << 20)
	whole, holed, failed := detached("echo all"), detached(large), detached(large+"; exit 3")
	for _, c := range []struct {
		args string
		code int
	}{
		{"logs " + whole, 0}, {"logs -f " + whole, 0}, {"attach -a " + whole, 0},
		{"logs " + holed, 125}, {"logs -f " + holed, 125}, {"attach -a " + holed, 125}, {"attach " + holed, 0},
		{"logs " + failed, 125}, {"logs -f " + failed, 3}, {"attach -a " + failed, 3},
	} {
		code, out, stderr := s.run(strings.Fields(c.args)...)
		if code != c.code || strings.Contains(stderr, "1.0 MiB of the output are missing\n") != (code == 125) {
			t.Errorf("ctxfs %s: exit %d after %d bytes, %q; want %d", c.args, code, len(out), stderr, c.code)
		}
	}
	if code, _, stderr := s.run("--json", "logs", holed); code != 125 || !strings.Contains(stderr, `{"error":{"code":"OUTPUT_MISSING","message":"1.0 MiB of the output are missing",`) {
		t.Errorf("with --json: exit %d, %q", code, stderr)
	}
}

// TestCheckpointNamesWhatItDoesNotRecord has a command that writes into a new ignored directory.
func TestCheckpointNamesWhatItDoesNotRecord(t *testing.T) {
	s := execShell(t)
	if err := os.WriteFile(filepath.Join(s.dir, ".gitignore"), []byte("deps/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("panel", "open", "panels/b") // its context is seeded with the rule
	code, _, stderr := s.run("exec", "--checkpoint", "panels/b", "--", "sh", "-c", "mkdir deps; echo d > deps/d; echo n > new")
	if code != 0 || !strings.Contains(stderr, "not recorded: undo leaves them alone: /deps\n") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	entry := regexp.MustCompile(`ctxfs undo (\d+)`).FindStringSubmatch(stderr)
	if entry == nil {
		t.Fatal("no entry")
	}
	if got := s.ok("undo", entry[1]); !strings.Contains(got, "left out  deps  ignored\n") {
		t.Errorf("undo printed %q", got)
	}
}

// TestExecIsAPipe runs the program with its output in a pipe whose reader is slow, and whose reader leaves.
func TestExecIsAPipe(t *testing.T) {
	s := execShell(t)
	begin := func(script string) (*exec.Cmd, io.ReadCloser) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "exec", "panels/a", "--", "sh", "-c", script)
		cmd.Dir, cmd.Stderr, cmd.Env = s.dir, os.Stderr, append(os.Environ(), programEnv+"=1")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	const size, every = 32 << 20, 8 << 20
	script, want := outputtest.Numbers(size)
	cmd, out := begin(script)
	h := sha256.New()
	for got := int64(0); ; {
		n, err := io.CopyN(h, out, every)
		if got += n; err != nil {
			break
		}
		clocktest.Await(t, "the command is as far ahead as it may be", func() bool { return s.process().StdoutBytes >= min(size, got+outputtest.Ahead) })
	}
	if err := cmd.Wait(); err != nil || outputtest.Sum(h) != want {
		t.Errorf("a slow reader gets other output, %v", err)
	}

	cmd, out = begin("yes")
	if _, err := io.ReadFull(out, make([]byte, 1000)); err != nil {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("ctxfs exec ended with %v", err)
	}
	clocktest.Await(t, "the command has ended", func() bool { return s.process().Exit != nil })
	if exit := s.process().Exit; exit.Code != 141 || exit.Reason != "exited" {
		t.Errorf("the command ended with %+v", exit)
	}
}
