//go:build !linux

package child

import "syscall"

// endWithParent has no counterpart here: children end with their standard input.
func endWithParent() *syscall.SysProcAttr { return nil }
