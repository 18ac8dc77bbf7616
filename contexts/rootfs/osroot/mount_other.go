//go:build !linux

package osroot

import (
	"os"
)

// mountID identifies the mount that a file is on, by its device.
type mountID struct {
	dev uint64
	// ByID is always false: these systems have no mount IDs.
	ByID bool
}

func osMount(n *dirNode, name string) (mountID, error) {
	st, err := n.Lstat(name)
	return mountID{dev: st.Dev}, err
}

func osMountOf(f *os.File) (mountID, error) {
	st, err := osFstat(f)
	return mountID{dev: st.Dev}, err
}
