//go:build unix

package cli

import "syscall"

// keepSignal asks a server to stop and to leave commands running.
const keepSignal = syscall.SIGUSR1
