//go:build !linux

package seeding

// lowerPriority has no portable form for one thread.
func lowerPriority() {}
