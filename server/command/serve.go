package command

import (
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/server"
)

func (e Env) serveCommand() *cobra.Command {
	return withSettings(&cobra.Command{
		Use: "serve", Short: "Serve the workspace here (or --workspace) until interrupted", Args: noArgs,
		Long: `Serve a workspace until interrupted: contexts are folders in .contexts, filled with its repositories on first access.

Settings come from flags, the environment (CTXFS_LISTEN for --listen, and so on) and the file of --config, in this
order; 'ctxfs config' shows them with their origins. Exit codes: 64 a setting that cannot be, 73 the contexts directory
cannot be written, 75 the workspace is served already, 78 its state was written by a newer version.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer takeBrokenPipes()()
			defer server.Ballast()()
			cfg, _, err := e.load(cmd)
			if err != nil {
				return err
			}
			log, err := server.NewLogger(cfg, e.Stderr)
			if err != nil {
				return err
			}
			if again, err := e.again(cmd.Context(), cfg, log); again || err != nil {
				return err
			}
			s, err := server.New(cmd.Context(), cfg, server.Deps{Log: log, Stdin: e.Stdin, Version: e.Version})
			if err != nil {
				return err
			}
			if err := banner(e.Stdout, s.Info(), cfg); err != nil {
				log.Warn("the banner could not be written", zap.Error(err))
			}
			return s.Serve(cmd.Context())
		},
	})
}
