package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// templateCommand has what is done through a server; explain, which needs none, is added by Root's caller.
func (a *app) templateCommand() *cobra.Command {
	return parent("template", "Explain, build and list context templates",
		&cobra.Command{
			Use: "build [PATH]", Short: "Build what contexts of a template are made from, before the first one needs it",
			Args: usage(cobra.MaximumNArgs(1)), RunE: a.withHost(a.templateBuild),
		},
		&cobra.Command{Use: "list", Short: "List the templates that are built", Args: usage(cobra.NoArgs), RunE: a.withHost(a.templateList)},
	)
}

func (a *app) templateBuild(ctx context.Context, c *client.Client, args []string) error {
	path := ""
	if len(args) > 0 {
		path = args[0]
	}
	r, err := a.build(ctx, c, path)
	if err != nil {
		return err
	}
	if a.json {
		return a.printProto(r)
	}
	what := "was there"
	if r.GetBuilt() {
		what = fmt.Sprintf("built in %d ms", r.GetDurationMs())
	}
	t := r.GetTemplate()
	return a.table(nil, [][]string{
		{"template", strings.Join(t.GetTemplate().GetChain(), " -> ")}, {"hash", t.GetTemplate().GetHash()},
		{"files", fmt.Sprintf("%s, %s; %s", number(t.GetFiles()), size(t.GetBytes()), what)},
	})
}

func (a *app) templateList(ctx context.Context, c *client.Client, _ []string) error {
	list, err := c.ListTemplates(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return printProtos(a, list)
	}
	rows := make([][]string, len(list))
	for i, t := range list {
		rows[i] = []string{
			fmt.Sprintf("%.12s", t.GetTemplate().GetHash()), show(t.GetTemplate().GetChain()[0]), number(t.GetFiles()), size(t.GetBytes()),
			fmt.Sprint(t.GetContexts()), clock(t.GetBuiltNs()),
		}
	}
	return a.table([]string{"HASH", "TEMPLATE", "FILES", "SIZE", "CONTEXTS", "BUILT"}, rows)
}

// build builds a template with a bar.
func (a *app) build(ctx context.Context, c *client.Client, path string) (*ctxfsv1.TemplateReady, error) {
	b := a.newBar(false)
	defer b.end()
	b.set("asking repositories", 0, 0)
	return c.BuildTemplate(ctx, path, b.template)
}

// addCommands adds commands to root; those of a group that root has already go into it.
func addCommands(root *cobra.Command, more []*cobra.Command) {
	for _, cmd := range more {
		if have, _, err := root.Find([]string{cmd.Name()}); err == nil && have != root {
			have.AddCommand(cmd.Commands()...)
			continue
		}
		cmd.GroupID = "server"
		root.AddCommand(cmd)
	}
}
