//go:build unix

package layer

import (
	"os"
	"syscall"
	"testing"
)

func system(t *testing.T, file string) *syscall.Stat_t {
	t.Helper()
	st, err := os.Lstat(file)
	must(t, err)
	return st.Sys().(*syscall.Stat_t)
}

// usedBy returns the bytes that a file takes on the disk.
func usedBy(t *testing.T, file string) int64 {
	t.Helper()
	return system(t, file).Blocks * 512
}

func ownerOf(t *testing.T, file string) (uid, gid uint32) {
	t.Helper()
	st := system(t, file)
	return st.Uid, st.Gid
}
