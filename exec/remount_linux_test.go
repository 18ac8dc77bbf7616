package exec

import (
	"errors"
	"io"
	"os"
	osexec "os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRemountHoldsNoFilesOfTheServer forks while a pipe is open, for a sandbox whose second user namespace never comes. The pipe ends when the server
// closes it.
func TestRemountHoldsNoFilesOfTheServer(t *testing.T) {
	t.Parallel()
	waits := osexec.CommandContext(t.Context(), "sleep", "60")
	waits.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	if err := waits.Start(); err != nil {
		t.Skip("no user namespaces: ", err)
	}
	defer func() { _ = waits.Wait() }() // it was killed
	defer func() { _ = waits.Process.Kill() }()
	process1, err := unix.PidfdOpen(waits.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(process1) }()
	remount, err := newRemount(waits.Process.Pid, process1, User{UID: os.Getuid(), GID: os.Getgid()})
	if err != nil {
		t.Fatal(err)
	}
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	pid, errno := remount.fork()
	if errno != 0 {
		t.Fatal(errno)
	}
	child, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writes.Close(), reads.SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	if _, err := reads.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the pipe does not end: %v", err)
	}
	_ = child.Kill() // it may have ended
	if state, err := child.Wait(); err != nil || state.Exited() {
		t.Errorf("it did not wait for the sandbox: %v, %v", state, err)
	}
}
