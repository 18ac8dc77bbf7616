// Package namespacestest runs tests again in namespaces of their own, as an ordinary user.
package namespacestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// User is the uid that tests run as if root starts them. It belongs to no account, and is not the overflow uid.
const User = 54321

// The steps of a test binary that runs itself again, as stepEnv says: as the user, then in the namespaces.
const (
	stepEnv  = "CTXFS_TEST_NAMESPACES"
	stepUser = "user"
	stepIn   = "in"
)

// Main is what TestMain of a package calls first that uses Run.
func Main() {
	if namespaces.Inside() {
		if _, err := namespaces.Enter(); err != nil {
			end(1, err)
		}
	}
	if os.Getenv(stepEnv) == stepUser {
		end(enter())
	}
}

func end(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// refused is the exit code for a system without usable namespaces.
const refused = 77

func enter() (int, error) {
	runtime.LockOSThread() // the thread is the child's parent
	if err := os.Setenv(stepEnv, stepIn); err != nil {
		return 1, err
	}
	cmd := namespaces.Command(context.Background(), os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	var no *namespaces.StartError
	if err := namespaces.Start(cmd); errors.As(err, &no) {
		fmt.Println(no)
		return refused, nil
	} else if err != nil {
		return 1, err
	}
	_ = cmd.Wait() // ProcessState has the exit code
	return cmd.ProcessState.ExitCode(), nil
}

// Inside reports whether the tests run in the namespaces.
func Inside() bool { return os.Getenv(stepEnv) == stepIn }

// Bound reports whether file modes bind the tests as they bind a user, because capabilities were laid aside. A test that is
// built with cgo cannot lay them aside.
func Bound() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	return unix.Capget(&header, &caps[0]) == nil && caps[0].Effective == 0
}

// Run runs the package's tests that match run in namespaces, as an ordinary user: the current user, or User if that is root.
// If namespaces are not available, it skips the test and logs the reason. env is added to the environment. Run returns the output.
func Run(t *testing.T, run string, env ...string) string {
	t.Helper()
	alone(t)
	dir := Dir(t)
	args := []string{"-test.run=" + run, "-test.v", "-test.timeout=8m", fmt.Sprint("-test.short=", testing.Short())}
	cmd := exec.CommandContext(t.Context(), Binary(t, dir, os.Args[0]), args...) //nolint:gosec // it is this program
	cmd.Env = append(append(os.Environ(), stepEnv+"="+stepUser, "TMPDIR="+dir, "HOME="+dir), env...)
	AsUser(cmd)
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == refused:
		t.Skipf("not tested here: %s", out)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "no tests to run") || !strings.Contains(string(out), "--- PASS"):
		t.Errorf("nothing ran:\n%s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "not tested here") {
			t.Log(strings.TrimSpace(line))
		}
	}
	return string(out)
}

// Alone is for tests that have other programs make mount namespaces.
func Alone(t testing.TB) { alone(t) }

// Dir is a directory that the ordinary user owns.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctxfs")
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(dir, User, User)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Binary copies a program to where the user may run it. Another program does: a file that this process has open for writing cannot be executed as long as
// a child that another test starts has a copy of the descriptor.
func Binary(t testing.TB, dir, program string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return program
	}
	copied := filepath.Join(dir, "program")
	if out, err := exec.CommandContext(t.Context(), "install", "-m", "755", program, copied).CombinedOutput(); err != nil { //nolint:gosec // it is a program of the tests
		t.Fatalf("%v: %s", err, out)
	}
	return copied
}

// AsUser has root start a command as User.
func AsUser(cmd *exec.Cmd) {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: User, Gid: User}}
	}
	cmd.Dir = os.TempDir()
	for _, v := range cmd.Env {
		if dir, ok := strings.CutPrefix(v, "TMPDIR="); ok {
			cmd.Dir = dir
		}
	}
}

// Keep has a command that is started in the namespaces keep what this process has there.
func Keep(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	for c := range uintptr(unix.CAP_LAST_CAP) + 1 {
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, c)
	}
	cmd.Env = append(cmd.Env, namespaces.Marker+"=test")
}
