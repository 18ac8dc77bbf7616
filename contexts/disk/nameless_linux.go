package disk

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Nameless are files and directories that have no name any more, and keep their space as long as they are open. Its values are bytes.
type Nameless map[Inode]int64

// Open returns those below a directory that this process has open, with files that never had a name (O_TMPFILE). A file with another name
// counts where that is.
func Open(dir string) Nameless {
	found := Nameless{}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		found.Add("/proc/self/fd", real)
	}
	return found
}

// Add adds those below dir to which a directory of /proc has links: the descriptors of a process, or its mappings. dir is a path in the mount
// namespace of the process.
func (found Nameless) Add(links, dir string) {
	f, err := os.Open(links)
	if err != nil {
		return // the process has ended
	}
	names, _ := f.Readdirnames(-1) // as above
	_ = f.Close()                  // it was only read
	for _, name := range names {
		found.add(filepath.Join(links, name), dir)
	}
}

func (found Nameless) add(link, dir string) {
	var st unix.Stat_t
	if err := unix.Stat(link, &st); err != nil || st.Nlink > 0 {
		return
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return
	}
	if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, dir+"/") {
		found[Inode{st.Dev, st.Ino}] = st.Blocks * block //nolint:unconvert // the types differ between architectures
	}
}

// Usage returns the sum.
func (found Nameless) Usage() (u Usage) {
	for _, bytes := range found {
		u.Bytes += bytes
	}
	u.Entries = int64(len(found))
	return u
}
