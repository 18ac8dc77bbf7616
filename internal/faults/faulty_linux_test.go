package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/server"
)

// faulty is a disk whose operations fail or hang as it is told.
type faulty struct {
	*testing.T
	at   string
	tell io.WriteCloser
	hear *bufio.Scanner
}

// faultyDisk mounts one, served by a process of its own.
func faultyDisk(t *testing.T) *faulty {
	t.Helper()
	at := mountable(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("not tested: there is no FUSE: %v", err)
	}
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=disk", sourceEnv+"="+t.TempDir(), mountEnv+"="+at)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	d := &faulty{t, at, in, bufio.NewScanner(out)}
	if !d.hear.Scan() {
		t.Skipf("not tested: this machine cannot mount FUSE: %v", cmd.Wait())
	}
	t.Cleanup(func() {
		must(t, in.Close())
		if err := cmd.Wait(); err != nil {
			t.Errorf("the disk: %v", err)
			_ = unix.Unmount(at, unix.MNT_DETACH)
		}
	})
	return d
}

func (d *faulty) use(c *server.Config) { c.ContextsDir = d.at + "/contexts" }

// fault begins one: operations, as "read,write" or "any"; a part of the names; "EIO", "EROFS" or "hang".
func (d *faulty) fault(ops, part, what string) { d.say(ops + " " + part + " " + what) }

// heal ends all faults.
func (d *faulty) heal() { d.say("heal") }

func (d *faulty) say(line string) {
	d.Helper()
	if _, err := fmt.Fprintln(d.tell, line); err != nil || !d.hear.Scan() {
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
