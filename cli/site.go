package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// policies are the values of --policy.
var policies = map[string]ctxfsv1.SitePolicy{
	"open": ctxfsv1.SitePolicy_SITE_POLICY_OPEN, "no-network": ctxfsv1.SitePolicy_SITE_POLICY_NO_NETWORK, "strict": ctxfsv1.SitePolicy_SITE_POLICY_STRICT,
}

// siteFlags are those of open.
type siteFlags struct {
	browser, sandbox, noReload bool
	policy                     string
	life                       time.Duration
	options                    *ctxfsv1.SiteOptions
}

func (a *app) openCommand() *cobra.Command {
	o := siteFlags{options: &ctxfsv1.SiteOptions{Listing: true}}
	cmd := &cobra.Command{
		Use: "open NAME [PATH]", Short: "Show the files of a panel or context in a browser: open a site and print its URL", Args: usage(cobra.RangeArgs(1, 2)),
		Long: "Opens a site, which shows the files of a panel or context to browsers, and prints its URL. Pages reload when a file changes.\n" +
			"With --snapshot the site shows what a snapshot has, and browsers keep its files. Whoever has the URL can read the files until the site ends: with its panel, with its context, by 'ctxfs sites --close ID', or\n" +
			"after its life. The server needs --gateway.",
		Example: "  ctxfs open panels/editor --browser\n  ctxfs open panels/editor report/index.html --sandbox --policy no-network",
		RunE: a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
			return a.openSite(ctx, c, args, o)
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&o.browser, "browser", false, "open the page in the default browser as well")
	f.StringVar(&o.options.Root, "root", "", "directory that the site shows as /")
	f.StringVar(&o.options.Index, "index", "", "file that stands for its directory (default index.html)")
	f.BoolVar(&o.options.Spa, "spa", false, "answer links to missing paths without an extension with the root's index file")
	f.BoolVar(&o.options.Hidden, "hidden", false, "show names that begin with a dot")
	f.BoolVar(&o.sandbox, "sandbox", false, "give pages no origin of their own: no storage, no cookies, no root-absolute URLs")
	f.BoolVar(&o.options.Hub, "hub", false, "give the site a hub, with which a page of --parent shows it without the server")
	f.BoolVar(&o.noReload, "no-reload", false, "do not reload pages when a file changes")
	f.StringVar(&o.policy, "policy", "open", "what pages may load: open, no-network (only files of the site) or strict (no inline scripts either)")
	f.StringSliceVar(&o.options.Parents, "parent", nil, "origin that may show the site in a frame, such as http://localhost:5173; repeatable")
	f.StringVar(&o.options.Snapshot, "snapshot", "", "show what this snapshot of the context has, which no edit changes; the site ends when the snapshot is deleted")
	f.BoolVar(&o.options.Isolate, "isolate", false, "isolate pages from other origins, so that they may use SharedArrayBuffer")
	f.DurationVar(&o.life, "ttl", 0, "life of the site; 0 means 24 hours")
	return cmd
}

func (a *app) openSite(ctx context.Context, c *client.Client, args []string, o siteFlags) error {
	policy, ok := policies[o.policy]
	if !ok {
		return fmt.Errorf("--policy %s is none of open, no-network and strict", show(o.policy))
	}
	o.options.Policy, o.options.LiveReload, o.options.Form = policy, !o.noReload && o.options.GetSnapshot() == "", ctxfsv1.SiteForm_SITE_FORM_HOST
	if o.sandbox {
		o.options.Form = ctxfsv1.SiteForm_SITE_FORM_PATH
	}
	id := args[0]
	if !isContextID(id) {
		var err error
		if id, err = a.ready(ctx, c, args[0]); err != nil {
			return err
		}
		if args[0] != a.acting { // the site ends with the panel
			ctx = metadata.AppendToOutgoingContext(ctx, "ctxfs-panel", args[0])
		}
	}
	r, err := c.OpenSite(ctx, id, o.options, o.life)
	if errors.Is(err, fserr.EOPNOTSUPP) {
		return errors.New("this server shows no sites; start it with 'ctxfs serve --gateway 127.0.0.1:7422'")
	}
	if err != nil {
		return err
	}
	if len(args) > 1 {
		r.Url += (&url.URL{Path: strings.TrimLeft(args[1], "/")}).EscapedPath()
	}
	if a.json {
		err = a.printProto(r)
	} else {
		err = a.printf("%s\n", r.GetUrl())
	}
	if err == nil && o.browser {
		if failed := startBrowser(ctx, r.GetUrl()); failed != nil {
			err = a.warn("no browser could be started: " + failed.Error())
		}
	}
	return err
}

// startBrowser asks the system to show a page.
func startBrowser(ctx context.Context, page string) error {
	program := []string{"xdg-open", page}
	switch runtime.GOOS {
	case "darwin":
		program = []string{"open", page}
	case "windows":
		program = []string{"rundll32", "url.dll,FileProtocolHandler", page}
	}
	return exec.CommandContext(ctx, program[0], program[1:]...).Run()
}

func (a *app) sitesCommand() *cobra.Command {
	var ids []string
	cmd := &cobra.Command{
		Use: "sites [NAME]", Short: "List the open sites, of one panel or context or of all, or close some", Args: usage(cobra.MaximumNArgs(1)),
		Example: "  ctxfs sites panels/editor\n  ctxfs sites --close site_0123456789abcdef",
		RunE: a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
			if len(ids) > 0 {
				return a.closeSites(ctx, c, ids)
			}
			id := ""
			if len(args) > 0 {
				var err error
				if id, err = a.contextNamed(ctx, c, args[0]); err != nil {
					return err
				}
			}
			return a.listSites(ctx, c, id)
		}),
	}
	cmd.Flags().StringSliceVar(&ids, "close", nil, "close the site with this ID; repeatable")
	return cmd
}

func (a *app) closeSites(ctx context.Context, c *client.Client, ids []string) error {
	closed := []object{}
	for _, id := range ids {
		if err := c.CloseSite(ctx, id); err != nil {
			if errors.Is(err, fserr.ENOENT) {
				return fmt.Errorf("no site %s is open; 'ctxfs sites' lists the sites", show(id))
			}
			return err
		}
		if closed = append(closed, object{{"siteId", id}}); a.json {
			continue
		}
		if err := a.printf("%s closed\n", show(id)); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(closed)
	}
	return nil
}

func (a *app) listSites(ctx context.Context, c *client.Client, contextID string) error {
	list, err := c.ListSites(ctx, contextID)
	if err != nil {
		return err
	}
	if a.json {
		return printProtos(a, list)
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		form := "host"
		if s.GetOptions().GetForm() == ctxfsv1.SiteForm_SITE_FORM_PATH {
			form = "sandbox"
		}
		rows[i] = []string{
			s.GetSiteId(), s.GetContextId(), s.GetOptions().GetSnapshot(), show(s.GetPanelId()), show("/" + strings.TrimPrefix(s.GetOptions().GetRoot(), "/")), form, clock(s.GetExpiresNs()),
		}
	}
	return a.table([]string{"SITE", "CONTEXT", "SNAPSHOT", "PANEL", "ROOT", "FORM", "EXPIRES"}, rows)
}
