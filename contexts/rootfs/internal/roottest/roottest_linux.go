// Package roottest has what the tests of rootfs and its parts share.
package roottest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// MakeDeep makes depth nested directories called name in dir, and the file "bottom" in the last one. It works with descriptors,
// since the path may be longer than PATH_MAX.
func MakeDeep(t *testing.T, dir, name string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(fd))
		fd = next
	}
	file, err := unix.Openat(fd, "bottom", unix.O_CREAT|unix.O_WRONLY, 0o644)
	must(t, err)
	must(t, unix.Close(file))
	must(t, unix.Close(fd))
}

// OpenFiles returns how many descriptors the process has.
func OpenFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// FewDescriptors lets the process open n more files until the test calls undo.
func FewDescriptors(t *testing.T, n int) (undo func()) {
	t.Helper()
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	// The limit is one above the highest number, and a new file takes the lowest free one.
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(OpenFiles(t) + n), Max: old.Max}))
	return func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
