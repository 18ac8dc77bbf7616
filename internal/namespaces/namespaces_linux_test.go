package namespaces_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/internal/namespaces"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

func TestMain(m *testing.M) {
	namespacestest.Main()
	goleak.VerifyTestMain(m)
}

// TestAsUserInNamespaces runs the tests below in namespaces, as an ordinary user.
func TestAsUserInNamespaces(t *testing.T) {
	if namespacestest.Inside() {
		t.Skip("these tests are in one already")
	}
	namespacestest.Run(t, "^TestThere")
}

func there(t *testing.T) {
	t.Helper()
	if !namespacestest.Inside() {
		t.Skip("run by TestAsUserInNamespaces")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestThereIdentities checks what server authentication and git rely on: the user's own uid is the same inside and
// outside, and all other users appear as the overflow uid.
func TestThereIdentities(t *testing.T) {
	there(t)
	dir := t.TempDir()
	var own, root unix.Stat_t
	must(t, unix.Stat(dir, &own))
	must(t, unix.Stat("/proc/1", &root))
	if os.Geteuid() == 0 || int(own.Uid) != os.Geteuid() || int(own.Gid) != os.Getegid() {
		t.Errorf("uid %d has a file of %d:%d", os.Geteuid(), own.Uid, own.Gid)
	}
	if root.Uid != 65534 {
		t.Errorf("root is uid %d", root.Uid)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	must(t, err)
	c, err := net.Dial("unix", l.Addr().String())
	must(t, err)
	raw, err := c.(*net.UnixConn).SyscallConn()
	must(t, err)
	var peer *unix.Ucred
	must(t, raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }))
	must(t, errors.Join(err, c.Close(), l.Close()))
	if int(peer.Uid) != os.Geteuid() {
		t.Errorf("uid %d talks to uid %d", os.Geteuid(), peer.Uid)
	}
}

// TestThereCapabilitiesAreLaidAside has a process as powerless as its user, until it takes them up.
func TestThereCapabilitiesAreLaidAside(t *testing.T) {
	there(t)
	if !namespacestest.Bound() {
		t.Skip("not tested here: this test was built with cgo, where capabilities stay in use")
	}
	file := filepath.Join(t.TempDir(), "closed")
	must(t, os.WriteFile(file, nil, 0))
	read := func() error { _, err := os.ReadFile(file); return err }
	if err := read(); err == nil {
		t.Error("the modes of the own files do not bind it")
	}
	must(t, namespaces.WithCapabilities(read))
	func() {
		defer func() { _ = recover() }()
		t.Error(namespaces.WithCapabilities(func() error { panic("in between") }))
	}()
	if err := read(); err == nil {
		t.Error("they bind it no more")
	}
	out, err := exec.CommandContext(t.Context(), "cat", "/proc/self/status").Output()
	must(t, err)
	if !strings.Contains(string(out), "CapPrm:\t0000000000000000") {
		t.Errorf("a program that it starts may do\n%s", out)
	}
	if os.Getenv(namespaces.Marker) != "" {
		t.Error("a program that it starts takes itself for the second one")
	}
}

// TestThereNone has the system refuse what the settings of this namespace forbid.
func TestThereNone(t *testing.T) {
	there(t)
	must(t, namespaces.WithCapabilities(func() error {
		return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := namespaces.Start(namespaces.Command(t.Context(), "-test.run=none"))
	var refused *namespaces.StartError
	if !errors.As(err, &refused) || refused.Why != "user namespaces are off: sysctl user.max_user_namespaces is 0" {
		t.Errorf("got %v", err)
	}
}
