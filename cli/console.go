package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
)

func (a *app) consoleCommand() *cobra.Command {
	var only, end bool
	cmd := &cobra.Command{
		Use: "console", Short: "Review and watch contexts in the browser", Args: usage(cobra.NoArgs),
		Long: `Opens the console in the browser, and prints its link. The link works once, within two minutes, and whoever uses it first has the
console. If it was used before you, your own use ends that console, and the page says so: run ctxfs console again.
The browser gets the link as an argument, which other users of this machine may see in the list of processes. With --print it is only printed.
The server needs --http.`,
		Example: "  ctxfs console\n  ctxfs console --print\n  ctxfs console --end",
		RunE: a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
			if end {
				return a.endConsoles(ctx, c)
			}
			return a.openConsole(ctx, c, !only)
		}),
	}
	cmd.Flags().BoolVar(&only, "print", false, "print the link, and start no browser")
	cmd.Flags().BoolVar(&end, "end", false, "end all consoles that are open, and the links that nobody has used")
	cmd.MarkFlagsMutuallyExclusive("print", "end")
	return cmd
}

func (a *app) openConsole(ctx context.Context, c *client.Client, browser bool) error {
	r, err := c.OpenConsole(ctx, 0)
	if errors.Is(err, fserr.EOPNOTSUPP) {
		return errors.New("this server shows no console; start it with 'ctxfs serve --http 127.0.0.1:7421'")
	}
	if err != nil {
		return err
	}
	if a.json {
		err = a.printProto(r)
	} else {
		err = a.printf("%s\n", r.GetUrl())
	}
	if err == nil && browser {
		if failed := startBrowser(ctx, r.GetUrl()); failed != nil {
			err = a.warn("no browser could be started: " + failed.Error())
		}
	}
	return err
}

func (a *app) endConsoles(ctx context.Context, c *client.Client) error {
	n, err := c.EndConsoles(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(object{{"ended", n}})
	}
	return a.printf("consoles ended: %d\n", n)
}
