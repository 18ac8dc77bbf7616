package contexts

import (
	"testing"

	"golang.org/x/sys/unix"
)

const poolXattr = "user.ctxfs.test"

func setPoolXattr(t testing.TB, path, value string) {
	t.Helper()
	must(t, unix.Setxattr(path, poolXattr, []byte(value), 0))
}

func poolXattrs(t testing.TB, path string) string {
	t.Helper()
	value := make([]byte, 100)
	n, err := unix.Lgetxattr(path, poolXattr, value)
	if err != nil {
		return ""
	}
	return " xattr " + string(value[:n])
}
