// Package killtest kills a process in a phase of its work, for tests of what the next process finds.
package killtest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// Stop prints that a process is in a phase, and blocks until At kills the process.
func Stop(phase string) {
	_, _ = io.WriteString(os.Stdout, stopped+phase+"\n") // At fails if it does not read this
	select {}
}

const stopped = "stopped at "

// At starts cmd, kills it when it calls Stop in phase, and returns when cmd and every process that it started have ended. Until such a process
// executes its program, it holds copies of all of cmd's files, and with them cmd's locks.
func At(t testing.TB, cmd *exec.Cmd, phase string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("kill a process in phase %s: %v", phase, err)
		}
	}
	// The processes inherit alive, and no process writes to it: ended reads EOF when they have all ended.
	ended, alive, err := os.Pipe()
	must(err)
	defer func() { _ = errors.Join(ended.Close(), alive.Close()) }()
	inherits := runtime.GOOS != "windows" // where a process inherits no files
	if inherits {
		cmd.ExtraFiles = append(cmd.ExtraFiles, alive)
	}
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	must(alive.Close())
	buf := make([]byte, 4096)
	n, _ := out.Read(buf)
	must(cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	if inherits {
		must(ended.SetReadDeadline(time.Now().Add(clocktest.Patience)))
	}
	if _, err := ended.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("a process that the killed one started does not end: %v", err)
	}
	if text := string(buf[:n]); !strings.HasPrefix(text, stopped+phase) {
		t.Fatalf("the process printed %q, it should have stopped at %s", text, phase)
	}
}
