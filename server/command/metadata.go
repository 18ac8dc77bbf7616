package command

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/server"
)

func (e Env) metadataCommand() *cobra.Command {
	group := &cobra.Command{Use: "metadata", Short: "Move the records of contexts and panels between SQLite and PostgreSQL", Args: noArgs}
	var from, to string
	move := withSettings(&cobra.Command{
		Use: "copy --from STORE --to STORE", Short: "Copy all records to an empty store, while no server runs, and compare both",
		Long: "Copies the records of the contexts directory here: contexts, panels, tokens, layers and sites. A STORE is the URL of a PostgreSQL\n" +
			"database, 'sqlite' for the file in the contexts directory, or the path of another SQLite file. The target must have no records;\n" +
			"it gets all or none. The source stays as it is. Start the server with --metadata and the target's URL then, or without\n" +
			"--metadata for 'sqlite'.",
		Example: "  ctxfs metadata copy --from sqlite --to postgres://ctxfs@db.example.com/ctxfs\n" +
			"  ctxfs metadata copy --from postgres://ctxfs@db.example.com/ctxfs --to sqlite",
		Args: noArgs,
	})
	move.Flags().StringVar(&from, "from", "", "store to copy from")
	move.Flags().StringVar(&to, "to", "", "store to copy to")
	move.RunE = func(cmd *cobra.Command, _ []string) error {
		if from == "" || to == "" {
			return &usageError{errors.New("give both --from and --to; see 'ctxfs metadata copy --help'")}
		}
		cfg, _, err := e.load(cmd)
		if err != nil {
			return err
		}
		moved, err := server.CopyRecords(cmd.Context(), cfg, server.Deps{Version: e.Version}, from, to)
		if err != nil {
			return err
		}
		return e.printMoved(moved, wantsJSON(cmd))
	}
	group.AddCommand(move)
	return group
}

func (e Env) printMoved(m server.Moved, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(e.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(map[string]any{
			"from": m.From, "to": m.To, "contexts": m.Contexts, "panels": m.Panels, "tokens": m.Tokens, "layers": m.Layers, "sites": m.Sites,
		})
	}
	_, err := fmt.Fprintf(e.Stdout, "copied from %s to %s, and compared: contexts %s, panels %s, tokens %s, layers %s, sites %s\n", m.From, m.To,
		seed.Count(m.Contexts), seed.Count(m.Panels), seed.Count(m.Tokens), seed.Count(m.Layers), seed.Count(m.Sites))
	return err
}
