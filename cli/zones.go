package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts/zones"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (a *app) zonesCommand() *cobra.Command {
	return parent("zones", "List, explain and clear the zones of contexts",
		a.zonesListCommand(),
		a.zonesExplainCommand(),
		&cobra.Command{
			Use: "resolve NAME PATH", Short: "Print where a path of a context is on the server's disk", Args: usage(cobra.ExactArgs(2)), RunE: a.withContext(a.zonesResolve),
			Long: "Prints where a path of a context is on the server's disk, for programs of your own. It follows the links of the path's directory, and not\n" +
				"of its last part, which need not exist.",
			Example: "  less \"$(ctxfs zones resolve panels/editor /workspace/report.md)\"",
		},
		&cobra.Command{
			Use: "clear NAME ZONE", Short: "Remove everything in a zone that is never committed", Args: usage(cobra.ExactArgs(2)), RunE: a.withContext(a.zonesClear),
			Example: "  ctxfs zones clear panels/editor /cache",
		},
	)
}

func (a *app) zonesListCommand() *cobra.Command {
	var measure bool
	cmd := &cobra.Command{
		Use: "list NAME", Short: "List the zones of a context, named by its ID or by its panel", Args: usage(cobra.ExactArgs(1)),
		RunE: a.withContext(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.ListZones(ctx, args[0], measure)
			if err != nil {
				return err
			}
			if a.json {
				return a.printProto(r)
			}
			return a.printZones(r.GetZones())
		}),
	}
	cmd.Flags().BoolVar(&measure, "measure", false, "sum up the sizes of the files in each zone")
	return cmd
}

func (a *app) zonesExplainCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "explain [FOLDER]", Short: "Say what a layout of zones would mean, and what is wrong with it", Args: usage(cobra.MaximumNArgs(1)),
		Long: "Says what a layout of zones would mean on the server: the context-zones.yml in a folder of the workspace, or a file of yours\n" +
			"with --zones. It changes nothing.",
		Example: "  ctxfs zones explain panels/editor\n  ctxfs zones explain --zones zones.yml",
		RunE: a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
			l, err := readZones(file)
			if err != nil {
				return err
			}
			folder := "."
			if len(args) > 0 {
				folder = args[0]
			}
			r, err := c.ExplainZones(ctx, l, folder)
			if err != nil {
				return err
			}
			return a.printExplainedZones(r)
		}),
	}
	cmd.Flags().StringVar(&file, "zones", "", "file with the layout, in the format of context-zones.yml")
	return cmd
}

// readZones reads a layout from a file; nil for no file.
func readZones(file string) (*ctxfsv1.ZoneLayout, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // without a file there is no layout
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	l, err := zones.Parse(file, data)
	if err != nil {
		return nil, err
	}
	pb := &ctxfsv1.ZoneLayout{Mode: ctxfsv1.ZoneMode_ZONE_MODE_SANDBOXED}
	if l.Mode == zones.Direct {
		pb.Mode = ctxfsv1.ZoneMode_ZONE_MODE_DIRECT
	}
	for _, z := range l.Zones {
		pb.Zones = append(pb.Zones, &ctxfsv1.ZoneSpec{
			Path: z.Path, From: z.From, Dir: z.Dir, ReadOnly: z.ReadOnly, NeverCommit: z.NeverCommit, MaxBytes: z.MaxBytes, KeepMs: z.Keep.Milliseconds(),
		})
	}
	return pb, nil
}

func (a *app) printExplainedZones(r *ctxfsv1.ExplainZonesResponse) error {
	if a.json {
		return a.printProto(r)
	}
	if err := a.printZones(r.GetZones()); err != nil {
		return err
	}
	for _, note := range r.GetNotes() {
		if err := a.printf("note: %s\n", printable(note)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printZones(list []*ctxfsv1.Zone) error {
	rows := make([][]string, len(list))
	for i, z := range list {
		bytes := ""
		if z.GetBytes() >= 0 {
			bytes = size(z.GetBytes())
		}
		rows[i] = []string{show(z.GetPath()), show(z.GetDir()), bytes, zoneRules(z)}
	}
	return a.table([]string{"ZONE", "DIRECTORY", "SIZE", "RULES"}, rows)
}

// zoneRules says what a zone is for: "from repositories", "never committed, at most 2.0 GiB".
func zoneRules(z *ctxfsv1.Zone) string {
	var rules []string
	if from := z.GetFrom(); len(from) > 0 {
		rules = append(rules, "from "+printable(strings.Join(from, ", ")))
	}
	if z.GetReadOnly() {
		rules = append(rules, "read-only")
	}
	if z.GetNeverCommit() {
		rules = append(rules, "never committed")
	}
	if n := z.GetMaxBytes(); n > 0 {
		rules = append(rules, "at most "+size(n))
	}
	if ms := z.GetKeepMs(); ms > 0 {
		rules = append(rules, "files are kept "+(time.Duration(ms)*time.Millisecond).String())
	}
	return strings.Join(rules, ", ")
}

func (a *app) zonesResolve(ctx context.Context, c *client.Client, args []string) error {
	dir, err := c.ResolvePath(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(object{{"contextId", args[0]}, {"path", valid(args[1])}, {"rawPath", raw(args[1])}, {"dir", valid(dir)}, {"rawDir", raw(dir)}})
	}
	return a.printf("%s\n", dir)
}

func (a *app) zonesClear(ctx context.Context, c *client.Client, args []string) error {
	n, err := c.ClearZone(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(object{{"contextId", args[0]}, {"zone", args[1]}, {"removed", n}})
	}
	return a.printf("Removed %s from %s of %s.\n", entries(n), show(args[1]), args[0])
}

func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%s entries", number(n))
}
