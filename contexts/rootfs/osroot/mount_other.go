//go:build !linux

package osroot

import (
	"os"
)

// mountID identifies the mount a file is on, by its device.
type mountID struct {
	dev uint64
	// byID is never: it is said of mounts that have numbers.
	ByID bool
}

func osMount(n *osNode, name string) (mountID, error) {
	st, err := n.Lstat(name)
	return mountID{dev: st.Dev}, err
}

func osMountOf(f *os.File) (mountID, error) {
	st, err := osFstat(f)
	return mountID{dev: st.Dev}, err
}
