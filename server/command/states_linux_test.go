package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// serveProcess starts this test's binary as ctxfs serve.
func serveProcess(t *testing.T, ws string, stdout, stderr *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0], "serve", "--workspace", ws, "--disk-reserve", "0", "--driver", "copy", "--log-level", "info")
	cmd.Env = append(os.Environ(), programEnv+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	return cmd
}

// startedServer waits until a process has written server.json. It fails when the process ends instead, which ended reports.
func startedServer(ws string, cmd *exec.Cmd, ended <-chan error) error {
	var end error
	serves := soon(func() bool {
		var r server.Record
		data, err := os.ReadFile(filepath.Join(ws, ".contexts/.ctxfs/server.json"))
		if err == nil && json.Unmarshal(data, &r) == nil && r.PID == cmd.Process.Pid {
			return true
		}
		select {
		case err := <-ended:
			end = fmt.Errorf("it ended: %w", err)
			return true
		default:
			return false
		}
	})
	if !serves {
		return fmt.Errorf("no server.json within %s", patience)
	}
	return end
}

// TestServeWithoutABanner has standard output and standard error that take nothing: the server serves all the same.
func TestServeWithoutABanner(t *testing.T) {
	t.Parallel()
	closed := func(t *testing.T) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		return w
	}
	full := func(t *testing.T) *os.File {
		f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skipf("not tested here: %v", err)
		}
		return f
	}
	for name, out := range map[string]func(t *testing.T) *os.File{"a closed pipe": closed, "a full disk": full} {
		t.Run(name, func(t *testing.T) {
			ws := servertest.Workspace(t)
			w := out(t)
			defer func() { _ = w.Close() }()
			cmd := serveProcess(t, ws, w, w)
			if err := startedServer(ws, cmd, nil); err != nil {
				t.Fatal(err)
			}
			code, said, _, err := run(t, nil, "doctor", "--workspace", ws, "--disk-reserve", "0")
			if code != 0 {
				t.Errorf("doctor: exit %d, %v\n%s", code, err, said)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
}

// kills is how often TestStartAtOnceAfterAKill kills a server.
const kills = 40

// TestStartAtOnceAfterAKill starts a server while the one before still dies: its lock is let go only when the kernel
// has closed its files.
func TestStartAtOnceAfterAKill(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	errs, err := os.Create(filepath.Join(t.TempDir(), "errors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errs.Close() }()
	for n := range kills {
		cmd := serveProcess(t, ws, nil, errs)
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if err := startedServer(ws, cmd, ended); err != nil {
			said, _ := os.ReadFile(errs.Name())
			t.Fatalf("start %d: %v\n%s", n, err, said)
		}
		// The next one starts at once, while this one ends.
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { <-ended })
	}
}

// TestDoctorLooksAtTheContextsDisk has contexts on a disk of their own, which is full, then read-only.
func TestDoctorLooksAtTheContextsDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("not tested: only root may mount a small disk")
	}
	at := t.TempDir()
	mount := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "mount", append(args, at)...).CombinedOutput(); err != nil {
			t.Skipf("not tested: this machine cannot mount it: %s", out)
		}
	}
	mount("-t", "tmpfs", "-o", "size=512k", "tmpfs")
	t.Cleanup(func() {
		if err := syscall.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	doctor := func(want string) {
		t.Helper()
		code, out, _, err := run(t, nil, "doctor", "--workspace", servertest.Workspace(t), "--contexts-dir", filepath.Join(at, "contexts"), "--disk-reserve", "0")
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %v, want %q\n%s", code, err, want, out)
		}
	}
	doctor("fail  disk       512 KiB free: the disk is full")
	mount("-o", "remount,ro")
	doctor("fail  disk       " + at + " is on a read-only file system: make it writable")
}

// TestDoctorFindsWhatIsLeft has doctor look at a state in which something was removed, replaced or moved.
func TestDoctorFindsWhatIsLeft(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	args := []string{"--workspace", ws, "--disk-reserve", "0"}
	serve := func() {
		t.Helper()
		if code, _, errs, err := run(t, os.Environ(), append(append([]string{"run"}, args...), "--", "true")...); code != 0 {
			t.Fatalf("run: %v\n%s", err, errs)
		}
	}
	state := func(name string) string { return filepath.Join(ws, ".contexts/.ctxfs", name) }
	serve()
	for _, c := range []struct {
		name, want string
		do, undo   func() error
	}{
		{"no reserve", "warn  state      the space for deletions", func() error { return os.RemoveAll(state("reserve")) }, nil},
		{
			"a link for the database's log", "ctxfs.db-wal is not a regular file",
			func() error { return os.Symlink("elsewhere", state("ctxfs.db-wal")) }, func() error { return os.Remove(state("ctxfs.db-wal")) },
		},
		{
			"a server of another place", "pid 1 was started for /elsewhere",
			func() error {
				return os.WriteFile(state("server.json"), []byte(`{"pid":1,"workspace":"/elsewhere"}`), 0o600)
			},
			func() error { return os.Remove(state("server.json")) },
		},
		{
			"no layers", "fail  review     the layers that these contexts were seeded with are missing: ctx_run;",
			func() error { return os.Rename(state("layers"), state("aside")) }, func() error { return os.Rename(state("aside"), state("layers")) },
		},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if _, out, _, _ := run(t, nil, append([]string{"doctor"}, args...)...); !strings.Contains(out, c.want) {
			t.Errorf("%s: doctor says\n%s", c.name, out)
		}
		if c.undo != nil {
			if err := c.undo(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if code, out, _, err := run(t, nil, append([]string{"doctor", "--repair"}, args...)...); code != 0 || strings.Contains(out, "warn  state") {
		t.Errorf("after a repair: exit %d, %v\n%s", code, err, out)
	}
}

// TestUserServesAFullDisk fills a disk for an ordinary user: ext4 keeps some blocks for root. The banner is on that disk too.
func TestUserServesAFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("not tested: only root may mount a small disk")
	}
	dir := namespacestest.Dir(t)
	image, at := filepath.Join(t.TempDir(), "image"), filepath.Join(dir, "disk")
	program := namespacestest.Binary(t, dir, os.Args[0])
	sh := func(script string, asUser bool) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Env = append(os.Environ(), "IMAGE="+image, "AT="+at, "TMPDIR="+dir, "HOME="+dir)
		if asUser {
			namespacestest.AsUser(cmd)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	sh(`mkdir "$AT" && truncate -s 32M "$IMAGE" && mkfs.ext4 -q -F -m 10 "$IMAGE" && mount -o loop "$IMAGE" "$AT" && chmod 777 "$AT"`, false)
	t.Cleanup(func() {
		if err := syscall.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	ws := filepath.Join(at, "ws")
	sh(`mkdir "$AT/ws" && cd "$AT/ws" && echo seeded > file && git init -q . && git add . && git -c user.name=t -c user.email=t@example.com commit -qm first`, true)
	serve := func(banner string) (cmd *exec.Cmd, c *client.Client, f *client.FS) {
		t.Helper()
		out, err := os.OpenFile(banner, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = out.Close() })
		if err := out.Chown(namespacestest.User, namespacestest.User); err != nil {
			t.Fatal(err)
		}
		cmd = exec.CommandContext(context.Background(), program, "serve", "--workspace", ws, "--disk-reserve", "0", "--pool", "0")
		cmd.Env = append(os.Environ(), programEnv+"=1", "TMPDIR="+dir, "HOME="+dir)
		cmd.Stdout = out
		namespacestest.AsUser(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
		ended := make(chan error, 1)
		if err := startedServer(ws, cmd, ended); err != nil {
			t.Fatal(err)
		}
		c, err = client.Dial(t.Context(), client.WithAddress("unix://"+filepath.Join(ws, ".contexts/.ctxfs/ctxfs.sock")))
		if err != nil {
			t.Fatal(err)
		}
		return cmd, c, c.Context("ctx_kept")
	}
	stop := func(cmd *exec.Cmd, c *client.Client) {
		t.Helper()
		if err := errors.Join(c.Close(), cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd, c, f := serve(filepath.Join(dir, "first"))
	for _, id := range []string{"ctx_kept", "ctx_large"} {
		_, err := c.EnsureContext(t.Context(), id, nil)
		must(err)
	}
	must(f.WriteFile("file", []byte("kept"), 0o644))
	must(c.Context("ctx_large").WriteFile("large", make([]byte, 4<<20), 0o644))
	stop(cmd, c)
	sh(`cat /dev/zero > "$AT/ballast"; while head -c 512 /dev/zero >> "$AT/ballast"; do :; done; sync -f "$AT"`, true)
	cmd, c, f = serve(filepath.Join(dir, "second"))
	data, err := f.ReadFile("file")
	if err != nil || string(data) != "kept" {
		t.Errorf("file holds %q, %v", data, err)
	}
	if err := f.WriteFile("new", make([]byte, 2<<20), 0o644); fserr.CodeOf(err) != fserr.ENOSPC {
		t.Errorf("a large file: %v, want ENOSPC", err)
	}
	said, err := os.ReadFile(filepath.Join(dir, "second"))
	if err != nil || !strings.Contains(string(said), "warning  the disk is full") {
		t.Errorf("the banner says %q, %v", said, err)
	}
	stop(cmd, c)
	cmd, c, f = serve(filepath.Join(at, "banner on the full disk"))
	_, err = c.DeleteContext(t.Context(), "ctx_large", client.DiscardChanges)
	must(err)
	must(f.WriteFile("new", make([]byte, 2<<20), 0o644))
	stop(cmd, c)
}
