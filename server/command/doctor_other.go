//go:build !linux

package command

import (
	"os"
	"runtime"
)

// inotify is Linux's.
func (x *examination) inotify() {
	if x.scan != nil {
		x.say(markOK, "watch", "by the system's own means; a context has %d directories", x.directories())
	}
}

func freeBytes(string) (int64, bool) { return 0, false }

// openToOthers knows no modes on Windows, where access lists decide.
func openToOthers(st os.FileInfo) bool {
	return runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0
}
