//go:build !linux

// Package namespacestest runs tests again in namespaces of their own, as an ordinary user.
package namespacestest

import (
	"os/exec"
	"testing"
)

// Main is what TestMain of a package calls first; there are no namespaces here.
func Main() {}

// Inside reports whether the tests run in the namespaces.
func Inside() bool { return false }

// Keep has a command keep what this process may do; there is nothing here.
func Keep(*exec.Cmd) {}

// Mounting is for tests that mount; nothing does here.
func Mounting(testing.TB) {}
