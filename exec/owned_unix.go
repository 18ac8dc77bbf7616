//go:build unix

package exec

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByOperator reports whether a file belongs to root or to the user of this process.
func ownedByOperator(st fs.FileInfo) bool {
	own, ok := st.Sys().(*syscall.Stat_t)
	return ok && (own.Uid == 0 || int(own.Uid) == os.Geteuid())
}
