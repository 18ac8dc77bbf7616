package exec

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRemountHoldsNoFilesOfTheServer forks while a pipe is open, and has the process wait for a named pipe. The pipe ends when the server closes it.
func TestRemountHoldsNoFilesOfTheServer(t *testing.T) {
	t.Parallel()
	process1, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(process1) }()
	remount, err := newRemount(os.Getpid(), process1, User{UID: os.Getuid(), GID: os.Getgid()})
	if err != nil {
		t.Fatal(err)
	}
	waits := filepath.Join(t.TempDir(), "waits")
	if err := unix.Mkfifo(waits, 0o600); err != nil {
		t.Fatal(err)
	}
	if remount.userNamespace, err = unix.BytePtrFromString(waits); err != nil {
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
		t.Errorf("it did not wait: %v, %v", state, err)
	}
}

// TestCommandWaitsUntilItsSandboxIsReady starts a sandbox by hand, with the command let begin or not.
func TestCommandWaitsUntilItsSandboxIsReady(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	if err := s.sandbox.probe(t.Context(), s.starter); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		do   func(*box) error
		want string
	}{
		{(*box).letBegin, "begun\n"},
		{func(b *box) error { return b.begun.Close() }, "ctxfs: wait for the beginning: EOF\n"},
	} {
		fd, err := unix.Open("/usr/share", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := assemble(os.NewFile(uintptr(fd), "/usr/share"), home, nil, s.user(t), tmpBytes)
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		var l plumbing
		defer func() { closeAll(l.ours) }()
		box, err := newBox(b, &l)
		if err != nil {
			t.Fatal(err)
		}
		defer box.block.Close()
		argv, err := b.enter(Limits{}.step(0), "echo", "begun")
		if err != nil {
			t.Fatal(err)
		}
		if box.cmd, err = b.command(*s.sandbox.bwrap.Load(), s.user(t), argv); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		box.cmd.Stdout, box.cmd.Stderr = &out, &out
		if err := s.starter.start(box.cmd); err != nil {
			t.Fatal(err)
		}
		closeAll(l.theirs)
		b.close()
		if err := errors.Join(box.identify(t.Context()), box.unblock(t.Context()), box.boundTerminals(t.Context(), s.user(t)), c.do(box)); err != nil {
			t.Error(err)
		}
		if err := box.cmd.Wait(); (err == nil) != strings.HasPrefix(c.want, "begun") || out.String() != c.want {
			t.Errorf("%v, %q, want %q", err, out.String(), c.want)
		}
		if err := unix.Close(box.init); err != nil {
			t.Error(err)
		}
	}
}
