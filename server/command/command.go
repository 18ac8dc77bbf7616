// Package command holds the commands of ctxfs that are a server, or work on one's state:
// serve, run, config, doctor, template and metadata. Those that talk to a running server are in package cli.
package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/server"
)

// Env is what the commands get from their process.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Environ is as of os.Environ.
	Environ []string
	// Args are the program's own, without its name: what a second process of it gets. nil in a process that
	// cannot run itself again.
	Args []string
	// Version of the program.
	Version string
}

// Commands returns serve, run, config, doctor, template and metadata.
func Commands(env Env) []*cobra.Command {
	return []*cobra.Command{
		env.serveCommand(), env.runCommand(), env.configCommand(), env.doctorCommand(), env.templateCommand(), env.metadataCommand(), env.probeCommand(), env.runnerCommand(),
	}
}

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// ExitCode is 2.
func (e *usageError) ExitCode() int { return 2 }

func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return &usageError{fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())}
	}
	return nil
}

// withSettings gives a command the flags of a server's settings.
func withSettings(cmd *cobra.Command) *cobra.Command {
	server.Flags(cmd.Flags())
	cmd.Flags().String("config", "", "YAML file with settings (CTXFS_CONFIG)")
	for flag, values := range server.Choices() {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic("command: --" + flag + ": " + err.Error()) // a flag that server.Flags does not have
		}
	}
	return cmd
}

// load reads the settings of a command made by withSettings.
func (e Env) load(cmd *cobra.Command) (server.Config, server.Origins, error) {
	file, err := cmd.Flags().GetString("config")
	if err != nil {
		return server.Config{}, nil, err
	}
	if file == "" {
		file = e.getenv("CTXFS_CONFIG")
	}
	return server.LoadConfig(cmd.Flags(), e.Environ, file)
}

func (e Env) getenv(name string) string {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if k := name + "="; len(e.Environ[i]) > len(k) && e.Environ[i][:len(k)] == k {
			return e.Environ[i][len(k):]
		}
	}
	return ""
}

// wantsJSON reports whether the program's global flag --json was given.
func wantsJSON(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("json")
	return f != nil && f.Value.String() == "true"
}
