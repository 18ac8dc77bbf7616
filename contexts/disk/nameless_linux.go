package disk

import (
	"maps"
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
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return found
	}
	links, err := os.Open("/proc/self/fd")
	if err != nil {
		return found
	}
	names, _ := links.Readdirnames(-1)
	_ = links.Close() // it was only read
	for _, name := range names {
		found.AddLink(filepath.Join("/proc/self/fd", name), real)
	}
	return found
}

// AddLink adds the file below dir to which a link in /proc leads, and returns its type (S_IFMT). dir is a path in the mount namespace of the
// process that has the link.
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

// HasAll reports whether files with all these inode numbers are among them.
func (found Nameless) HasAll(numbers map[uint64]bool) bool {
	missing := maps.Clone(numbers)
	for inode := range found {
		delete(missing, inode.Number)
	}
	return len(missing) == 0
}

// Usage returns the sum.
func (found Nameless) Usage() (u Usage) {
	for _, bytes := range found {
		u.Bytes += bytes
	}
	u.Entries = int64(len(found))
	return u
}
