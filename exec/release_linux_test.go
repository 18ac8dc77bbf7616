package exec

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/exec/entry"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// heldSandbox starts a sandbox that waits to be released. Its command would write to output.
func heldSandbox(t *testing.T) (b *box, output *os.File) {
	t.Helper()
	needSandbox(t)
	user, err := (&sandboxes{user: testUser()}).runAs()
	must(t, err)
	bwrap, err := lookUp()
	must(t, err)
	root, err := os.Open("/usr/share")
	must(t, err)
	made, err := assemble(root, home, nil, user, tmpBytes)
	must(t, err)
	defer made.close()
	var l plumbing
	t.Cleanup(func() { closeAll(l.ours) })
	b, err = newBox(made, &l)
	must(t, err)
	made.add("--new-session")
	argv, err := made.enter(entry.Step{}, "echo", "ran")
	must(t, err)
	b.cmd, err = made.command(bwrap, user, argv)
	must(t, err)
	theirs, output, err := l.pipe(true)
	must(t, err)
	b.cmd.Stdout = theirs
	starter := newStarter()
	t.Cleanup(starter.close)
	must(t, starter.start(b.cmd))
	closeAll(l.theirs)
	return b, output
}

// TestSandboxThatIsNotReleasedRunsNoCommand has the engine go without releasing a sandbox, as when it is killed: bwrap then continues.
func TestSandboxThatIsNotReleasedRunsNoCommand(t *testing.T) {
	t.Parallel()
	for _, released := range []bool{false, true} {
		b, output := heldSandbox(t)
		must(t, b.identify(t.Context()))
		if released {
			must(t, b.unblock(t.Context()))
			must(t, b.letBegin())
		} else {
			must(t, b.begun.Close())
		}
		must(t, b.block.Close())
		err := b.cmd.Wait()
		if out := make([]byte, 4); (err == nil) != released || (readPresent(output, out) > 0) != released {
			t.Errorf("released: %t; the command ended with %v, and wrote %q", released, err, out)
		}
		must(t, b.empty())
	}
}

// TestAbortedSandboxLeavesNoProcess ends a start before the engine knows the first process of the sandbox.
func TestAbortedSandboxLeavesNoProcess(t *testing.T) {
	t.Parallel()
	b, _ := heldSandbox(t)
	must(t, b.identify(t.Context()))
	first := b.init
	defer unix.Close(first)
	b.init = -1
	must(t, b.abort())
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(first), Events: unix.POLLIN}}, int(waitTime/time.Millisecond)); n != 1 {
		_ = unix.PidfdSendSignal(first, unix.SIGKILL, nil, 0) // the test has failed
		t.Errorf("the first process of the sandbox is left: %v", err)
	}
}

// TestCommandWithoutItsCgroupDoesNotRun has the kernel refuse to move a sandbox into its cgroup.
func TestCommandWithoutItsCgroupDoesNotRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	s.cgroups = &cgroups{v1: map[string]string{"cpu": t.TempDir()}} // no file of it can be written
	for _, sandbox := range []string{"", "shared"} {
		p, err := s.Start(t.Context(), Command{Context: testContext, Argv: []string{"touch", "ran"}, Sandbox: sandbox})
		if err == nil {
			t.Errorf("sandbox %q: the command started: %+v", sandbox, p)
			s.result(p)
		}
		if _, err := os.Stat(filepath.Join(s.workspace, ".contexts", string(testContext), "ran")); !os.IsNotExist(err) {
			t.Errorf("sandbox %q: the command ran: %v", sandbox, err)
		}
	}
}
