//go:build !linux

package background

// lowerPriority does nothing: the system gives priorities to processes only, or this package does not know how it does.
func lowerPriority() {}
