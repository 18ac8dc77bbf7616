//go:build !linux

package contexts

// lowerPriority has no portable form for one thread.
func lowerPriority() {}

// sharesExtents is not looked into: copies are taken to cost what they hold.
func sharesExtents(string) bool { return false }
