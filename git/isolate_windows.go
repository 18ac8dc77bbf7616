package git

import (
	"os"
	"os/exec"
)

// isolate does nothing: git has no terminal, and the processes it started see their pipes close.
func isolate(*exec.Cmd) {}

// isOurs reports whether this process's user owns a file. Windows has no simple answer, so configuration of the user counts.
func isOurs(string) bool { return true }

// isProgram reports whether git runs a file as a hook: any, since there are no executable bits.
func isProgram(os.FileInfo) bool { return true }
