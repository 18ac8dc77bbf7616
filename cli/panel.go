package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (a *app) panelCommand() *cobra.Command {
	return parent("panel", "Open, close and list panels",
		a.panelOpenCommand(),
		&cobra.Command{Use: "close ID…", Short: "Revoke panels' tokens and close their handles; folders stay", Args: usage(cobra.MinimumNArgs(1)), RunE: a.withHost(a.panelClose)},
		a.panelListCommand(),
	)
}

func (a *app) panelOpenCommand() *cobra.Command {
	var o panelFlags
	cmd := &cobra.Command{
		Use: "open ID", Short: "Open a panel: seed its context and print a token", Args: usage(cobra.ExactArgs(1)),
		Long: "Opens a panel: seeds its context unless it is there, and prints a token. Opening it again prints a further token.\n" +
			"The context's folder ('ctxfs path ID') has no .git, so that git there cannot change the workspace's repository: use\n" +
			"'ctxfs snapshot', or make a repository of its own with 'git init'.",
		Example: "  eval \"$(ctxfs panel open --export panels/editor)\"",
		RunE: a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := a.open(ctx, c, args[0], o)
			if err != nil {
				return err
			}
			defer func() { _ = p.Close() }()
			if why := p.Opened().GetTemplateUnasked(); why != "" {
				if err := a.warn("the template may have moved: " + printable(why)); err != nil {
					return err
				}
			}
			if o.export && !a.json {
				return a.exports(c, p)
			}
			return a.printPanel(p)
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&o.export, "export", false, "print shell exports of CTXFS_ADDRESS, CTXFS_TOKEN and CTXFS_CONTEXT")
	f.BoolVar(&o.readOnly, "read-only", false, "refuse mutations to the panel")
	f.BoolVar(&o.review, "review", false, "let the panel review the changes of other panels' contexts; its older tokens end when it is opened without this")
	f.BoolVar(&o.exec, "exec", false, "let the panel run commands in its context; its older tokens end when it is opened without this")
	f.BoolVar(&o.gitPush, "git-push", false, "let the panel push the commits that it staged; its older tokens end when it is opened without this")
	f.StringVar(&o.zones, "zones", "", "file with the zones of a new context, in the format of context-zones.yml, instead of the one beside the panel's source; the only way to direct zones, unless the server trusts the files of the workspace")
	f.StringVar(&o.template, "template", "", "make the context from this template, a folder or file of the workspace")
	f.StringArrayVar(&o.seedFrom, "seed-from", nil, seedFromUsage)
	f.BoolVar(&o.unsafe, "unsafe", false, "allow an unsafe_noctx context, which starts empty")
	labelFlag(cmd, &o.labels, "the panel, and its context if that is its own or new,")
	f.DurationVar(&o.ttl, "ttl", 0, "life of the token; 0 means the server's default")
	return cmd
}

// open opens a panel, and shows a bar while its context is seeded.
func (a *app) open(ctx context.Context, c *client.Client, panel string, o panelFlags) (*client.Panel, error) {
	id, err := a.contextNamed(ctx, c, a.context)
	if err != nil {
		return nil, err
	}
	layout, err := readZones(o.zones)
	if err != nil {
		return nil, err
	}
	set, err := pairs("label", "KEY=VALUE", o.labels)
	if err != nil {
		return nil, err
	}
	var r *ctxfsv1.EnsureReady
	switch {
	case o.unsafe, strings.HasPrefix(id, "unsafe_"): // starts empty, or is refused
	case layout != nil: // only OpenPanel makes a context with zones
	case id != "":
		r, err = a.ensure(ctx, c, id, o.seedFrom...)
	case o.template != "":
		_, err = a.build(ctx, c, o.template)
	default:
		_, r, err = a.seedPanel(ctx, c, panel, o.seedFrom...)
	}
	if err != nil {
		return nil, err
	}
	if r.GetSeeded() && len(set) > 0 {
		if _, err := c.SetLabels(ctx, r.GetContext().GetContextId(), set); err != nil {
			return nil, err
		}
	}
	opts := append(o.options(id), client.WithLabels(set))
	if layout != nil {
		opts = append(opts, client.WithZones(layout))
	}
	p, err := c.OpenPanel(ctx, panel, opts...)
	if err == nil && r.GetSeeded() {
		p.Opened().Seeded, p.Opened().DurationMs = true, p.Opened().GetDurationMs()+r.GetDurationMs()
	}
	return p, err
}

// seedFromUsage is of the flag --seed-from.
const seedFromUsage = "seed from this repository or folder of the workspace alone; may be repeated"

// panelFlags are those of panel open.
type panelFlags struct {
	export, readOnly, review, exec, gitPush, unsafe bool
	template, zones                                 string
	seedFrom, labels                                []string
	ttl                                             time.Duration
}

func (o panelFlags) options(contextID string) []client.PanelOption {
	opts := []client.PanelOption{client.TokenLife(o.ttl)}
	if contextID != "" {
		opts = append(opts, client.InContext(contextID))
	}
	if o.template != "" {
		opts = append(opts, client.FromTemplate(o.template))
	}
	if o.readOnly {
		opts = append(opts, client.ReadOnly())
	}
	if o.review {
		opts = append(opts, client.CanReview())
	}
	if o.exec {
		opts = append(opts, client.CanExec())
	}
	if o.gitPush {
		opts = append(opts, client.CanPush())
	}
	if len(o.seedFrom) > 0 {
		opts = append(opts, client.SeedFrom(o.seedFrom...))
	}
	if o.unsafe {
		opts = append(opts, client.Unsafe())
	}
	return opts
}

func (a *app) exports(c *client.Client, p *client.Panel) error {
	token, _ := p.Token()
	return a.printf("export CTXFS_ADDRESS=%s\nexport CTXFS_TOKEN=%s\nexport CTXFS_CONTEXT=%s\n",
		shellQuote(c.Address()), shellQuote(token), shellQuote(p.ContextID()))
}

// shellQuote quotes for a POSIX shell, whatever s holds.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// argument writes a path as the last argument of a command that is shown. Bytes that a terminal might obey are escaped as
// bash and zsh read them.
func argument(path string, raw []byte) string {
	name := strings.TrimPrefix(cmp.Or(string(raw), path), "/")
	text := shellQuote(name)
	if show(name) != name {
		text = "$'"
		for _, b := range []byte(name) {
			if b < ' ' || b > '~' || b == '\'' || b == '\\' {
				text += fmt.Sprintf(`\%03o`, b)
			} else {
				text += string(b)
			}
		}
		text += "'"
	}
	if strings.HasPrefix(name, "-") {
		text = "-- " + text
	}
	return text
}

func (a *app) printPanel(p *client.Panel) error {
	if a.json {
		return a.printProto(p.Opened())
	}
	token, expires := p.Token()
	rows := [][]string{{"panel", p.ID()}, {"context", p.ContextID()}, {"partition", p.Partition()}, {"token", token}}
	if rights := rightNames(p.Opened().GetRights()); rights != "" {
		rows = append(rows, []string{"rights", rights})
	}
	if p.Opened().GetZoneMode() == ctxfsv1.ZoneMode_ZONE_MODE_DIRECT {
		rows = append(rows, []string{"zones", "direct: the panel writes real directories, unreviewed ('ctxfs zones list " + p.ContextID() + "')"})
	}
	return a.table(nil, append(rows, [][]string{
		{"expires", expires.Format("2006-01-02 15:04:05")},
		{"files", fmt.Sprintf("%s, %s; seeded now: %t, %d ms", number(p.Opened().GetFiles()), size(p.Opened().GetBytes()), p.Opened().GetSeeded(), p.Opened().GetDurationMs())},
	}...))
}

// rightNames joins the names of rights: "review, exec".
func rightNames(rights []ctxfsv1.PanelRight) string {
	names := make([]string, len(rights))
	for i, r := range rights {
		names[i] = strings.ToLower(strings.TrimPrefix(r.String(), "PANEL_RIGHT_"))
	}
	return strings.Join(names, ", ")
}

func (a *app) panelClose(ctx context.Context, c *client.Client, args []string) error {
	closed := []object{}
	for _, id := range args {
		r, err := c.ClosePanel(ctx, id)
		if errors.Is(err, fserr.ENOENT) {
			names, _ := a.panelNames(ctx, c, nil, "") // only for the suggestion
			return fmt.Errorf("there is no panel %s%s; 'ctxfs panel list' lists them", show(id), didYouMean(id, names))
		}
		if err != nil {
			return err
		}
		if closed = append(closed, append(object{{"panelId", id}}, jsonOf(r.ProtoReflect())...)); a.json {
			continue
		}
		if err := a.printf("%s closed, %d tokens revoked, %d handles closed\n", show(id), r.GetTokensRevoked(), r.GetHandlesClosed()); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(closed)
	}
	return nil
}

func (a *app) panelListCommand() *cobra.Command {
	var selectors []string
	cmd := &cobra.Command{Use: "list", Short: "List the panels", Args: usage(cobra.NoArgs)}
	selectFlag(cmd, &selectors, "panels")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, _ []string) error { return a.panelList(ctx, c, selectors) })
	return cmd
}

func (a *app) panelList(ctx context.Context, c *client.Client, selectors []string) error {
	list, err := c.ListPanels(ctx, selectors...)
	if err != nil {
		return err
	}
	if a.json {
		return printProtos(a, list)
	}
	rows := make([][]string, len(list))
	for i, p := range list {
		state := "closed"
		if p.GetOpen() {
			state = "open"
		}
		if p.GetReadOnly() {
			state += ", read-only"
		}
		if rights := rightNames(p.GetRights()); rights != "" {
			state += ", " + rights
		}
		rows[i] = []string{show(p.GetPanelId()), p.GetContextId(), state, fmt.Sprint(p.GetTokens()), fmt.Sprint(p.GetHandles()), clock(p.GetOpenedNs())}
	}
	head, rows := withLabels([]string{"PANEL", "CONTEXT", "STATE", "TOKENS", "HANDLES", "OPENED"}, rows, list)
	return a.table(head, rows)
}
