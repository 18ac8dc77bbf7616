package cgrouptest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// count makes the names of cgroups distinct.
var count atomic.Int64

// Make makes a cgroup below the one of this process, in the hierarchy of a controller of version 1, or in that of version 2 (""). It fails where
// the test may not make one. The test fails if something is left in the cgroup at its end.
func Make(t testing.TB, controller string) (dir string, err error) {
	t.Helper()
	root, err := rootOf(controller)
	if err != nil {
		return "", err
	}
	path, err := pathOf(controller)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(root, path, fmt.Sprintf("ctxfs-test-%d-%d", os.Getpid(), count.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	t.Cleanup(func() {
		err := unix.Rmdir(dir)
		for end := time.Now().Add(clocktest.Patience); errors.Is(err, unix.EBUSY) && time.Now().Before(end); err = unix.Rmdir(dir) {
			time.Sleep(time.Millisecond) // the kernel counts a process that was just reaped for a moment longer
		}
		if err != nil {
			t.Errorf("a sandbox left its cgroup: %v", err)
		}
	})
	return dir, nil
}

// Need is Make for a test that skips without a cgroup.
func Need(t testing.TB, controller string) string {
	t.Helper()
	dir, err := Make(t, controller)
	if err != nil {
		t.Skip("no cgroup can be made: ", err)
	}
	return dir
}

// All makes one cgroup in each hierarchy that limits commands, as far as this test may.
func All(t testing.TB) (dirs []string) {
	t.Helper()
	for _, controller := range []string{"", "memory", "pids", "cpu"} {
		dir, err := Make(t, controller)
		if err != nil {
			t.Logf("cgroup %q: %v", controller, err)
			continue
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// Left lists what is below cgroups.
func Left(dirs []string) (left []string) {
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		if err == nil { // the pattern is a good one
			left = append(left, names...)
		}
	}
	return left
}

func rootOf(controller string) (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if controller == "" && f[2] == "cgroup2" || controller != "" && f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), controller) {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("no cgroup hierarchy with %q", controller)
}

func pathOf(controller string) (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(own)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			return f[2], nil
		}
	}
	return "", nil
}
