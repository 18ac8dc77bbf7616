package exec

import (
	"bufio"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// helperVariable makes the test program a server that runs a command until it is killed.
const helperVariable = "CTXFS_TEST_EXEC_HELPER"

// helper starts a command in a sandbox, and prints the PID of the bwrap.
func helper() error {
	user, err := (&sandboxes{user: testUser()}).runAs()
	if err != nil {
		return err
	}
	bwrap, err := lookUp()
	if err != nil {
		return err
	}
	root, err := os.Open("/usr/share")
	if err != nil {
		return err
	}
	b, err := assemble(root, home, nil, user, tmpBytes)
	if err != nil {
		return err
	}
	cmd, err := b.command(bwrap, user, []string{"sh", "-c", "trap '' TERM HUP; echo ready; setsid sleep 1000 & wait"})
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := newStarter().start(cmd); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return err
	}
	fmt.Println(cmd.Process.Pid)
	return cmd.Wait()
}

// TestKilledServerLeavesNoCommand kills a server with SIGKILL while its command runs.
func TestKilledServerLeavesNoCommand(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	server := osexec.Command(os.Args[0])
	server.Env = append(os.Environ(), helperVariable+"=1")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		t.Skip("the kernel does not list the children of a process: ", err)
	}
	first, err := strconv.Atoi(strings.Fields(string(children))[0])
	if err != nil {
		t.Fatal(err)
	}
	init, err := unix.PidfdOpen(first, 0) // the kernel ends it last
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(init)
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // it was killed
	poll := []unix.PollFd{{Fd: int32(init), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, int(waitTime/time.Millisecond)); n != 1 {
		_ = unix.Kill(first, unix.SIGKILL)
		t.Errorf("the sandbox outlived its server: %v", err)
	}
}
