//go:build !linux

package repos

// killed is only for Linux.
var killed func(dir string) error
