package disk

import (
	"os"
	"path/filepath"
	"strconv"
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

// Add adds those below dir to which a directory of descriptors in /proc has links. dir is a path in the mount namespace of the process. It
// returns the names of the links to sockets.
func (found Nameless) Add(links, dir string) (sockets []string) {
	f, err := os.Open(links)
	if err != nil {
		return nil // the process has ended
	}
	names, _ := f.Readdirnames(-1) // as above
	_ = f.Close()                  // it was only read
	for _, name := range names {
		if found.AddLink(filepath.Join(links, name), dir) == unix.S_IFSOCK {
			sockets = append(sockets, name)
		}
	}
	return sockets
}

// AddLink adds the file to which one such link leads, and returns its type (S_IFMT).
func (found Nameless) AddLink(link, dir string) (kind uint32) {
	var st unix.Stat_t
	if err := unix.Stat(link, &st); err != nil {
		return 0
	}
	kind = st.Mode & unix.S_IFMT
	if st.Nlink > 0 || kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return kind
	}
	if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, dir+"/") {
		found[Inode{st.Dev, st.Ino}] = st.Blocks * block //nolint:unconvert // the types differ between architectures
	}
	return kind
}

// HasNumber reports whether a file with an inode number, in decimal, is one of them.
func (found Nameless) HasNumber(number string) bool {
	for inode := range found {
		if strconv.FormatUint(inode.Number, 10) == number {
			return true
		}
	}
	return false
}

// Usage returns the sum.
func (found Nameless) Usage() (u Usage) {
	for _, bytes := range found {
		u.Bytes += bytes
	}
	u.Entries = int64(len(found))
	return u
}
