package cli

import "syscall"

// keepSignal cannot be sent here, where no commands run.
const keepSignal = syscall.Signal(0)
