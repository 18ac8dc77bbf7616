package drivertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func setXattrs(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		must(t, unix.Setxattr(p, "user.ctxfs.test", []byte("value\x00of "+p[len(p)-1:]), 0))
	}
}

// xattrs lists what a user may set of path.
func xattrs(t *testing.T, path string) string {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(path, buf)
	must(t, err)
	names := strings.FieldsFunc(string(buf[:n]), func(r rune) bool { return r == 0 })
	slices.Sort(names)
	out := ""
	for _, name := range names {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		value := make([]byte, 4096)
		n, err := unix.Lgetxattr(path, name, value)
		must(t, err)
		out += fmt.Sprintf(" %s=%q", name, value[:n])
	}
	return out
}
