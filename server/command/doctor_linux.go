package command

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/seed"
)

// inotify compares the user's watches (inotify(7)) with the directories of a context.
func (x *examination) inotify() {
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil || x.scan == nil {
		return
	}
	watches, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return
	}
	dirs := x.directories() * int64(max(1, x.countContexts()))
	if watches < dirs {
		x.say(markWarn, "inotify", "%s watches, %s directories: sysctl fs.inotify.max_user_watches=524288", seed.Count(watches), seed.Count(dirs))
		return
	}
	x.say(markOK, "inotify", "%s watches, %s directories", seed.Count(watches), seed.Count(dirs))
}

func freeBytes(dir string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}

func openToOthers(st os.FileInfo) bool { return st.Mode().Perm()&0o077 != 0 }
