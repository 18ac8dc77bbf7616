//go:build !linux

package rootfs

import "os"

// mount identifies the mount a file is on, by its device.
type mount struct {
	dev uint64
	// byID is never: it is said of mounts that have numbers.
	byID bool
}

func osMount(n *osNode, name string) (mount, error) {
	st, err := n.lstat(name)
	return mount{dev: st.Dev}, err
}

func osMountOf(f *os.File) (mount, error) {
	st, err := osFstat(f)
	return mount{dev: st.Dev}, err
}
