package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
)

// The exit codes of the program; errors of a server's start have their own (sysexits.h).
const (
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// ExitCode is 2.
func (e *usageError) ExitCode() int { return exitUsage }

// usage makes what a check of arguments finds a usageError.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		return &usageError{fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())}
	}
}

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// Run runs root with args and returns the exit code: 0, 1 for a failure, 2 for a command
// line that makes no sense, or what the error's ExitCode says. The error goes to standard error in one
// line, unless it is empty.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if text := oneLine(client.Describe(err)); text != "" {
		_, _ = fmt.Fprintln(root.ErrOrStderr(), "ctxfs: "+text)
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return exitFailure
}

// oneLine keeps an error in one line, and a terminal safe from it.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = printable(strings.TrimSpace(l))
	}
	return strings.Join(lines, " ")
}
