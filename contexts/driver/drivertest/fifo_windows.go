package drivertest

import "testing"

func fifo(t *testing.T, _ string) {
	t.Helper()
	t.Skip("Windows has no FIFOs in its file systems")
}
