package server

import (
	"fmt"
	"time"
)

// Exit codes of a server that does not start, as of sysexits.h.
const (
	// ExitUsage is a setting that cannot be (EX_USAGE).
	ExitUsage = 64
	// ExitNoWrite is a contexts directory that cannot be written: its disk is read-only, or it belongs to somebody else (EX_CANTCREAT).
	ExitNoWrite = 73
	// ExitBusy is a workspace that is served already (EX_TEMPFAIL).
	ExitBusy = 75
	// ExitFormat is a state that a newer version wrote (EX_CONFIG).
	ExitFormat = 78
)

// ConfigError says what is wrong with a setting and where it stands.
type ConfigError struct {
	// Origin is as in Origins; "" when not known.
	Origin string
	// Key is "" when the file as a whole cannot be read.
	Key     string
	Problem string
}

func (e *ConfigError) Error() string {
	origin := e.Origin
	if origin == "" || origin == "default" {
		origin = "config"
	}
	if e.Key == "" {
		return fmt.Sprintf("%s: %s", origin, e.Problem)
	}
	return fmt.Sprintf("%s: %s: %s", origin, e.Key, e.Problem)
}

// ExitCode returns ExitUsage.
func (e *ConfigError) ExitCode() int { return ExitUsage }

// AlreadyServedError says that another server has the workspace.
type AlreadyServedError struct {
	// PID and Since are zero, and Address is "", when the other one is only just starting.
	PID     int
	Since   time.Time
	Address string
	// Workspace is the other one's when it differs: the workspace was moved, or both share a contexts directory.
	Workspace string
}

func (e *AlreadyServedError) Error() string {
	if e.PID == 0 {
		return "already served by a process that is starting or stopping; try again in a moment"
	}
	layout := "15:04"
	if time.Since(e.Since) > 24*time.Hour {
		layout = "2006-01-02 15:04"
	}
	text := fmt.Sprintf("already served by pid %d since %s; ", e.PID, e.Since.Local().Format(layout))
	if e.Workspace != "" {
		return text + "it was started for " + e.Workspace + ": if that was moved here, stop it, and start again"
	}
	return text + "connect to " + e.Address
}

// ExitCode returns ExitBusy.
func (e *AlreadyServedError) ExitCode() int { return ExitBusy }

// stateError gives an error of the contexts directory an exit code.
type stateError struct {
	err  error
	code int
}

func (e *stateError) Error() string { return e.err.Error() }
func (e *stateError) Unwrap() error { return e.err }

// ExitCode returns ExitFormat or ExitNoWrite.
func (e *stateError) ExitCode() int { return e.code }
