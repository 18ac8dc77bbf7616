package command

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (e Env) configCommand() *cobra.Command {
	return withSettings(&cobra.Command{
		Use: "config", Short: "Print a server's settings here and where each comes from", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, origins, err := e.load(cmd)
			if err != nil {
				return err
			}
			settings := cfg.Settings(origins)
			if wantsJSON(cmd) {
				enc := json.NewEncoder(e.Stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(settings)
			}
			w := tabwriter.NewWriter(e.Stdout, 0, 4, 2, ' ', 0)
			if _, err := fmt.Fprintln(w, "KEY\tVALUE\tORIGIN"); err != nil {
				return err
			}
			for _, s := range settings {
				if _, err := fmt.Fprintf(w, "%s\t%v\t%s\n", s.Key, s.Value, s.Origin); err != nil {
					return err
				}
			}
			return w.Flush()
		},
	})
}
