//go:build unix

package handles

import (
	"math"

	"golang.org/x/sys/unix"
)

// DescriptorLimit returns the process's limit of descriptors (RLIMIT_NOFILE), 0 when it is not known or has no bound.
func DescriptorLimit() int {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil || uint64(lim.Cur) > math.MaxInt32 {
		return 0
	}
	return int(lim.Cur)
}
