package command_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server/command"
)

// programEnv makes the test binary be ctxfs, with these commands.
const programEnv = "CTXFS_TEST_PROGRAM"

// versionEnv is the version of that program, if it is set.
const versionEnv = "CTXFS_TEST_VERSION"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" || len(os.Args) > 1 && os.Args[1] == "runner" { // a runner has no environment
		os.Exit(program())
	}
	if signal.Ignored(syscall.SIGHUP) { // as nohup has it: the programs that tests start would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	goleak.VerifyTestMain(pgtest.Main(m))
}

func program() int {
	ctx, stop := command.UntilSignal(context.Background())
	defer stop()
	env := command.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Args: os.Args[1:],
		Version: cmp.Or(os.Getenv(versionEnv), "0.0.0-test"),
	}
	err := rootFor(env, os.Args[1:]...).ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, "ctxfs: "+err.Error())
	}
	return codeOf(err)
}

// codeOf is the exit code that an error asks for.
func codeOf(err error) int {
	var coded interface{ ExitCode() int }
	switch {
	case errors.As(err, &coded):
		return coded.ExitCode()
	case err != nil:
		return 1
	}
	return 0
}

// lines hands on what is written to it, a line at a time.
type lines struct{ ch chan string }

func (l lines) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l.ch <- line
	}
	return len(p), nil
}

func rootFor(env command.Env, args ...string) *cobra.Command {
	root := &cobra.Command{Use: "ctxfs", SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().Bool("json", false, "")
	root.PersistentFlags().String("panel", "", "")
	root.AddCommand(command.Commands(env)...)
	root.SetArgs(args)
	return root
}

// patience bounds a wait that only a fault makes long.
const patience = time.Minute

// run runs a command and returns its exit code, outputs and error.
func run(t *testing.T, environ []string, args ...string) (code int, out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := command.Env{Stdin: strings.NewReader("given"), Stdout: &stdout, Stderr: &stderr, Environ: environ, Version: "0.0.0-test"}
	err = rootFor(env, args...).ExecuteContext(t.Context())
	return codeOf(err), stdout.String(), stderr.String(), err
}

func TestServeSaysWhatItFound(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	out := lines{make(chan string, 100)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	env := command.Env{Stdin: strings.NewReader(""), Stdout: out, Stderr: &bytes.Buffer{}, Version: "0.0.0-test"}
	go func() { done <- rootFor(env, "serve", "--workspace", ws, "--disk-reserve", "0").ExecuteContext(ctx) }()
	var text string
	for !strings.Contains(text, "\ntry ") {
		select {
		case line := <-out.ch:
			text += line
		case err := <-done:
			t.Fatalf("serve ended: %v", err)
		case <-time.After(patience):
			t.Fatal("serve said nothing")
		}
	}
	socket := filepath.Join(ws, ".contexts", ".ctxfs", "ctxfs.sock")
	for _, want := range []string{"ctxfs 0.0.0-test   workspace " + ws, "1 repository: .", "seed     2 files", "driver   copy", "grpc     unix://", "tcp      off"} {
		if !strings.Contains(text, want) {
			t.Errorf("not told: %q in\n%s", want, text)
		}
	}
	if want := "\ntry      ctxfs try    next: ctxfs panel open NAME    (grpcurl: ctxfs help grpcurl)\n"; !strings.HasSuffix(text, want) {
		t.Errorf("the banner does not end with%s:\n%s", want, text)
	}
	if _, err := os.Stat(socket); err != nil && strings.Contains(text, socket) {
		t.Error(err)
	}
	code, _, _, err := run(t, nil, "serve", "--workspace", ws, "--disk-reserve", "0")
	if code != 75 || !strings.Contains(err.Error(), "already served by pid") {
		t.Errorf("a second server: exit %d, %v", code, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// TestSignalsStopTheProgram ends serve and run by each signal that asks a program to stop; a closed terminal sends SIGHUP.
// Either way the server removes its socket, which one that was killed leaves.
func TestSignalsStopTheProgram(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	socket := filepath.Join(ws, ".contexts", ".ctxfs", "ctxfs.sock")
	for _, c := range []struct {
		signal syscall.Signal
		args   []string
		want   int
	}{
		{syscall.SIGTERM, []string{"serve"}, 0},
		{syscall.SIGHUP, []string{"serve"}, 0},
		{syscall.SIGHUP, []string{"run", "--", "sh", "-c", "echo grpc; read line; exit 6"}, 128 + int(syscall.SIGHUP)},
		// The shell looks for signals between commands: one that comes just before a read waits for the read.
		{syscall.SIGHUP, []string{"run", "--", "sh", "-c", "trap 'exit 5' HUP; echo grpc; while sleep 0.05; do :; done; exit 6"}, 5},
	} {
		t.Run(fmt.Sprint(c.signal, " of ", c.args), func(t *testing.T) {
			args := append([]string{c.args[0], "--workspace", ws, "--disk-reserve", "0"}, c.args[1:]...)
			cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
			cmd.Env, cmd.Stderr = append(os.Environ(), programEnv+"=1"), os.Stderr
			stdin, err := cmd.StdinPipe()
			must(t, err)
			defer stdin.Close()
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			for in := bufio.NewScanner(out); in.Scan() && !strings.HasPrefix(in.Text(), "grpc"); { // it serves
			}
			_, err = os.Lstat(socket)
			must(t, err)
			must(t, cmd.Process.Signal(c.signal))
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.want {
				t.Errorf("%v, want exit %d", cmd.ProcessState, c.want)
			}
			if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket is left: %v", err)
			}
		})
	}
}

// TestRunForwardsASignalThatComesAtOnce has the child signal its parent as soon as it has started.
func TestRunForwardsASignalThatComesAtOnce(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	for range 20 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "run", "--workspace", ws, "--disk-reserve", "0", "--",
			"sh", "-c", "trap 'exit 5' HUP; kill -HUP $PPID; for i in $(seq 1200); do sleep 0.1; done; exit 6")
		cmd.Env, cmd.Stderr = append(os.Environ(), programEnv+"=1"), os.Stderr
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 5 {
			t.Fatalf("%v, want exit 5: the signal did not reach the child", cmd.ProcessState)
		}
	}
}

// TestIgnoredHangupStaysIgnored starts the server as nohup does.
func TestIgnoredHangupStaysIgnored(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0], "serve", "--workspace", servertest.Workspace(t), "--disk-reserve", "0", "--exit-on-stdin-close")
	cmd.Env, cmd.Stderr = append(os.Environ(), programEnv+"=1"), os.Stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	for in := bufio.NewScanner(out); in.Scan() && !strings.HasPrefix(in.Text(), "grpc"); {
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Skipf("not tested: the system does not tell which signals a process ignores: %v", err)
	}
	_, mask, _ := strings.Cut(string(status), "SigIgn:\t")
	if len(mask) < 16 || !strings.ContainsAny(mask[15:16], "13579bdf") { // SIGHUP is the lowest bit
		t.Errorf("SigIgn: %.16s, want SIGHUP ignored", mask)
	}
	must(t, stdin.Close())
	_, _ = io.Copy(io.Discard, out)
	must(t, cmd.Wait())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServeRefusals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	newer := t.TempDir()
	state := filepath.Join(newer, ".contexts", ".ctxfs")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "FORMAT"), []byte(`{"format":2,"written_by":"0.3.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"a workspace that is a file", []string{"--workspace", file}, 1, "not a directory"},
		{"no workspace", []string{"--workspace", file + "x"}, 1, "no such file"},
		{"a newer state", []string{"--workspace", newer}, 78, "nothing was changed"},
		{"a bad setting", []string{"--log-level", "loud"}, 64, "log_level"},
		{"an unknown driver", []string{"--driver", "magic"}, 64, "auto, copy, overlay"},
		{"an argument", []string{"here"}, 2, "--help"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, _, err := run(t, nil, append([]string{"serve"}, c.args...)...)
			if code != c.code || err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("exit %d, %v; want %d, %q", code, err, c.code, c.text)
			}
		})
	}
}

func TestConfigTellsOrigins(t *testing.T) {
	t.Parallel()
	_, out, _, err := run(t, []string{"CTXFS_TOKEN_TTL=2h"}, "config", "--json", "--http", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var settings []struct{ Key, Origin string }
	if err := json.Unmarshal([]byte(out), &settings); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range settings {
		got[s.Key] = s.Origin
	}
	for key, want := range map[string]string{"token_ttl": "env CTXFS_TOKEN_TTL", "http": "flag --http", "workspace": "default"} {
		if got[key] != want {
			t.Errorf("%s comes from %q, want %q", key, got[key], want)
		}
	}
}

func TestRunGivesTheChildAPanel(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	script := `test -z "$CTXFS_PANEL" && cat; printf '|%s|' "$CTXFS_CONTEXT"; test -n "$CTXFS_TOKEN" && test -S "${CTXFS_ADDRESS#unix://}" && exit 7`
	environ := append(os.Environ(), "CTXFS_TOKEN=stale", "CTXFS_PANEL=other")
	code, out, errs, err := run(t, environ, "run", "--ephemeral", "--workspace", ws, "--disk-reserve", "0", "--panel", "p/x", "--", "sh", "-c", script)
	if code != 7 || out != "given|ctx_p~x|" || err.Error() != "" {
		t.Errorf("exit %d, %q, %q, %v", code, out, errs, err)
	}
	if _, err := os.Stat(filepath.Join(ws, ".contexts")); err == nil {
		t.Error("an ephemeral run left contexts in the workspace")
	}
	if code, _, _, _ := run(t, os.Environ(), "run", "--ephemeral", "--workspace", ws, "--disk-reserve", "0", "--", "sh", "-c", "kill -TERM $$"); code != 128+15 {
		t.Errorf("a killed child: exit %d, want 143", code)
	}
	if code, _, _, _ := run(t, nil, "run"); code != 2 {
		t.Errorf("no command: exit %d, want 2", code)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	base := []string{"doctor", "--workspace", ws, "--disk-reserve", "0"}
	code, out, _, err := run(t, nil, base...)
	if code != 0 || !strings.Contains(out, "ok    workspace  1 repository: ., 2 files") || !strings.Contains(out, "none yet") {
		t.Errorf("a fresh workspace: exit %d, %v\n%s", code, err, out)
	}
	code, out, _, err = run(t, nil, append(base, "--seed-max-files", "1")...)
	if code != 1 || !strings.Contains(out, "fail  seed") || !strings.Contains(err.Error(), "seed failed") {
		t.Errorf("beyond the guard: exit %d, %v\n%s", code, err, out)
	}
	code, out, _, _ = run(t, nil, append(base, "--workspace", ws+"/nowhere", "--json")...)
	if code != 1 || !strings.Contains(out, `"mark": "fail"`) {
		t.Errorf("no workspace: exit %d\n%s", code, out)
	}
}

func TestRepairRebuildsALostDatabase(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	args := []string{"--workspace", ws, "--disk-reserve", "0"}
	if code, _, errs, err := run(t, os.Environ(), append(append([]string{"run"}, args...), "--", "true")...); code != 0 {
		t.Fatalf("run: %v\n%s", err, errs)
	}
	db := filepath.Join(ws, ".contexts", ".ctxfs", "ctxfs.db")
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(db + suffix)
	}
	if err := os.WriteFile(db, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, _, err := run(t, nil, append([]string{"serve"}, args...)...); code == 0 || !strings.Contains(err.Error(), "doctor --repair") {
		t.Fatalf("a corrupt database was served: %v", err)
	}
	code, out, _, err := run(t, nil, append([]string{"doctor", "--repair"}, args...)...)
	if code != 0 || !strings.Contains(out, "moved to") || !strings.Contains(out, "made a record of ctx_run") || !strings.Contains(out, "which panels") {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
	if aside, _ := filepath.Glob(db + ".corrupt-*"); len(aside) != 1 {
		t.Errorf("the corrupt database was not kept: %q", aside)
	}
	if code, _, errs, err := run(t, os.Environ(), append(append([]string{"run"}, args...), "--", "true")...); code != 0 {
		t.Errorf("run after the repair: %v\n%s", err, errs)
	}
	if _, out, _, err := run(t, nil, append([]string{"doctor"}, args...)...); !strings.Contains(out, "ok    review     ") || !strings.Contains(out, " B: 0 contents, 0 log entries, 0 submitted revisions\n") {
		t.Errorf("doctor after the repair: %v\n%s", err, out)
	}
}
