package overlay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"
)

func observed() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	return zap.New(core), logs
}

func TestRefusal(t *testing.T) {
	const all = 1<<41 - 1
	for _, c := range []struct {
		name  string
		facts facts
		want  string
	}{
		{"root", facts{caps: all}, ""},
		{"root of a container", facts{caps: all &^ (1 << unix.CAP_SYS_ADMIN)}, "no CAP_SYS_ADMIN"},
		{"a user", facts{uid: 1000}, "no CAP_SYS_ADMIN: ctxfs runs as uid 1000, not root"},
		{"a user who was given it", facts{uid: 1000, caps: all}, ""},
		{"a user namespace", facts{userns: true, caps: all}, "in a user namespace, where overlayfs cannot keep its notes"},
	} {
		if got := rootMode().refusal(c.facts); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		name  string
		facts facts
		want  string
	}{
		{"who laid them aside", facts{userns: true, permitted: all}, ""},
		{"a container's user namespace", facts{userns: true}, "no CAP_SYS_ADMIN in its user namespace"},
		{"root of the machine", facts{caps: all, permitted: all}, "not in a user namespace of its own, which 'ctxfs serve' and 'ctxfs run' make for it"},
	} {
		if got := usernsMode().refusal(c.facts); got != c.want {
			t.Errorf("overlay-userns for %s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	refused := func(err error) error { return mountError(&kernelError{call: "mount", err: err, text: "e overlay: x"}) }
	const ext4 = unix.EXT4_SUPER_MAGIC
	for _, c := range []struct {
		name  string
		err   error
		facts facts
		fs    int64
		want  string
	}{
		{"seccomp", refused(unix.EPERM), facts{seccomp: true}, ext4, "mount EPERM (e overlay: x) (container seccomp)"},
		{"AppArmor", refused(unix.EPERM), facts{}, ext4, "a security module refuses"},
		{"overlay on overlay", refused(unix.EINVAL), facts{}, unix.OVERLAYFS_SUPER_MAGIC, "lies on overlayfs itself"},
		{"NFS", refused(unix.EINVAL), facts{}, unix.NFS_SUPER_MAGIC, "put it on a local disk"},
		{"old kernel of a user", refused(unix.EINVAL), facts{userns: true}, ext4, "Linux 5.11 or later is needed in a user namespace"},
		{"no module", refused(unix.ENODEV), facts{}, ext4, "modprobe overlay"},
		{"old kernel", refused(unix.ENOSYS), facts{}, ext4, "Linux 5.8"},
		{"the kernel's words", refused(unix.EINVAL), facts{}, ext4, "mount EINVAL (e overlay: x)"},
		{"another step", errors.New("disk full"), facts{}, ext4, "disk full"},
	} {
		if got := explain(c.err, c.facts, c.fs).Error(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q does not say %q", c.name, got, c.want)
		}
	}
}

func TestHidden(t *testing.T) {
	for _, c := range []struct {
		name, pid, mine, first string
		err                    error
		want                   string
	}{
		{"the machine", pidInit, "mnt:[1]", "mnt:[1]", nil, ""},
		{"a container", "pid:[4026532501]", "mnt:[2]", "mnt:[2]", nil, "container"},
		{"a sandbox", pidInit, "mnt:[2]", "mnt:[1]", nil, "systemd sandbox"},
		{"the machine, whose first process may not be asked", pidInit, mntInit, "", unix.EACCES, ""},
		{"somebody who may not ask", pidInit, "mnt:[1]", "", unix.EACCES, "/proc/1 does not tell"},
		{"no /proc", "", "", "", nil, "/proc does not tell"},
	} {
		got := hidden(c.pid, c.mine, c.first, c.err)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// checkEnv makes the test binary check the directory it names and print what it finds.
const checkEnv = "CTXFS_TEST_CHECK"

func TestChild(t *testing.T) {
	dir := os.Getenv(checkEnv)
	if dir == "" {
		t.Skip("run by TestCheckWithoutRights")
	}
	t.Logf("check: %v", New(Options{}).Check(t.Context(), dir))
}

func TestCheckWithoutRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not tested here: it takes rights away, and needs root for that")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "ctxfs")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	exe, err := os.ReadFile(os.Args[0])
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "test"), exe, 0o755))
	mapped := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	for _, c := range []struct {
		name string
		attr *syscall.SysProcAttr
		want string
	}{
		{"a user", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}, "no CAP_SYS_ADMIN: ctxfs runs as uid 65534"},
		{"root of a user namespace", &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: mapped, GidMappings: mapped,
		}, "in a user namespace"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "test"), "-test.run=^TestChild$", "-test.v")
		cmd.Env, cmd.Dir, cmd.SysProcAttr = append(os.Environ(), checkEnv+"="+dir), dir, c.attr
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "check: overlay driver: "+c.want) {
			t.Errorf("%s: %v: %s", c.name, err, out)
		}
	}
}

// TestCheckSeesWhatTheFileSystemCannot puts the contexts directory on overlayfs, as in a container's own file system.
func TestCheckSeesWhatTheFileSystemCannot(t *testing.T) {
	d := usable(t, New(Options{}))
	p := place(t, d)
	must(t, d.Mount(t.Context(), p))
	err := d.Check(t.Context(), p.Folder)
	if err == nil || !strings.Contains(err.Error(), "lies on overlayfs itself") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Folder, ".ctxfs-tmp-*")); len(left) != 0 {
		t.Errorf("the check left %v", left)
	}
}

// killedEnv has the test binary check a directory, and stop while the tree is mounted.
const killedEnv = "CTXFS_TEST_KILLED_CHECK"

func checkUntilKilled(dir string) int {
	d := New(Options{probing: func() {
		fmt.Println("mounted")
		select {}
	}})
	fmt.Println(d.Check(context.Background(), dir))
	return 1
}

// TestKilledCheckIsSwept kills a process in its check, while another one checks.
func TestKilledCheckIsSwept(t *testing.T) {
	d := usable(t, New(Options{}))
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "mounted\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	if names, err := d.LeftChecks(dir); err != nil || len(names) != 0 {
		t.Errorf("of a check that runs, %v is taken for left (%v)", names, err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	names, err := d.LeftChecks(dir)
	if err != nil || len(names) != 1 {
		t.Fatalf("left are %v, %v", names, err)
	}
	must(t, d.RemoveCheck(t.Context(), dir, names[0]))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v is there, %v", entries, err)
	}
}
