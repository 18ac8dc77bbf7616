package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/server"
)

// program is the test binary as another program, which the end of its input ends.
type program struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	hear *bufio.Scanner
	// first is its first line.
	first string
}

// startChild starts one and waits for its first line.
func startChild(t *testing.T, as string, env ...string) *program {
	t.Helper()
	return startIn(t, nil, as, env...)
}

// startIn is startChild with what the system is to give the program.
func startIn(t *testing.T, attr *syscall.SysProcAttr, as string, env ...string) *program {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+as), env...)
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, attr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		t.Skipf("not tested: this machine does not start the other program: %v", err)
	}
	c := &program{cmd: cmd, in: in, hear: bufio.NewScanner(out)}
	if !c.hear.Scan() {
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != cannot {
			t.Fatalf("%s ended at once: %v", as, err)
		}
		t.Skip("not tested: this machine cannot do it; the reason is above")
	}
	c.first = c.hear.Text()
	t.Cleanup(func() {
		must(t, in.Close())
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", as, err)
		}
	})
	return c
}

// faulty is a disk whose operations fail or hang on command.
type faulty struct {
	*testing.T
	at string
	c  *program
}

// faultyDisk mounts one, served by a process of its own.
func faultyDisk(t *testing.T) *faulty {
	t.Helper()
	at := mountable(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("not tested: there is no FUSE: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) }) // which is done, unless the program failed
	return &faulty{t, at, startChild(t, "disk", sourceEnv+"="+t.TempDir(), mountEnv+"="+at)}
}

func (d *faulty) use(c *server.Config) { c.ContextsDir = d.at + "/contexts" }

// fault begins one: operations, as "read,write" or "any"; a part of the names; "EIO", "EROFS" or "hang".
func (d *faulty) fault(ops, part, what string) { d.say(ops + " " + part + " " + what) }

// heal ends all faults.
func (d *faulty) heal() { d.say("heal") }

func (d *faulty) say(line string) {
	d.Helper()
	if _, err := fmt.Fprintln(d.c.in, line); err != nil || !d.c.hear.Scan() {
		d.Fatalf("the disk does not answer to %q: %v", line, err)
	}
}

// config is a server's whose contexts are there.
func (d *faulty) config(t *testing.T) server.Config {
	t.Helper()
	cfg := settings(t)
	d.use(&cfg)
	return cfg
}
