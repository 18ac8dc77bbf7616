//go:build !linux

package powercut

// Main does nothing: there is no disk.
func Main() {}
