//go:build unix

package drivertest

import (
	"testing"

	"golang.org/x/sys/unix"
)

func fifo(t *testing.T, path string) {
	t.Helper()
	must(t, unix.Mkfifo(path, 0o600))
}
