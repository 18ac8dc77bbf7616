//go:build !linux

package child

import "time"

// CPU is 0: it is read from /proc, which only Linux has.
func CPU([]int) (time.Duration, error) { return 0, nil }

// Used is 0 for the same reason.
func Used(int) (time.Duration, error) { return 0, nil }

// Resident is 0 for the same reason.
func Resident(int) (int64, error) { return 0, nil }
