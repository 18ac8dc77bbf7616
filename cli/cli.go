// Package cli holds the commands of ctxfs that talk to a running server, which they do
// through package client alone. Results go to standard output, as tables or, with --json,
// as JSON; errors to standard error, in one line.
package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Env is what the commands get from their process.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv reads CTXFS_ADDRESS, CTXFS_TOKEN, CTXFS_CONTEXT, CTXFS_PANEL and CTXFS_TRUST_DIR; nil means os.Getenv.
	Getenv func(string) string
	// Dir is where the search for a server begins; "" means the working directory.
	Dir string
	// Version of the program.
	Version string
	// PlanSeed is what 'seed plan' does where no server runs; nil means that it needs one.
	PlanSeed func(ctx context.Context, largest int, seedFrom ...string) (*ctxfsv1.PlanSeedResponse, error)
}

// app is one run of the program.
type app struct {
	env     Env
	address string
	token   string
	panel   string
	context string
	ca      string
	cert    string
	key     string
	tls     bool
	json    bool
	timeout time.Duration
	// trustDirs are contexts directories of other users whose servers to believe.
	trustDirs []string
	// acting is the panel that the client names in every call.
	acting string
}

// Root returns the ctxfs command with all that talk to a server; more may be added to it.
func Root(env Env, more ...*cobra.Command) *cobra.Command {
	if env.Getenv == nil {
		env.Getenv = os.Getenv
	}
	a := &app{env: env}
	root := &cobra.Command{
		Use:           "ctxfs",
		Short:         "Real folders for panels, filled with the workspace's repositories, served over gRPC",
		Version:       env.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          onlyCommands,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetFlagErrorFunc(flagError)
	a.globalFlags(root)
	a.addGroups(root)
	addCommands(root, more)
	if err := a.addCompletions(root); err != nil {
		panic("cli: " + err.Error()) // a flag that globalFlags does not have
	}
	if err := a.addHelp(root); err != nil {
		panic("cli: " + err.Error()) // cobra's help command is missing
	}
	return root
}

func (a *app) globalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.address, "address", "", "server: unix:///path or host:port (CTXFS_ADDRESS; else found from here upwards)")
	f.StringSliceVar(&a.trustDirs, "trust-dir", nil, "contexts directory of another user whose server to believe; repeatable (CTXFS_TRUST_DIR)")
	f.StringVar(&a.token, "token", "", "bearer token (CTXFS_TOKEN, which other users of the machine do not see)")
	f.StringVar(&a.panel, "panel", "", "act for this panel, which is made if it is missing (CTXFS_PANEL)")
	f.StringVarP(&a.context, "context", "c", "", "context, by its ID or by a panel's name (CTXFS_CONTEXT)")
	f.BoolVar(&a.json, "json", false, "print JSON")
	f.DurationVar(&a.timeout, "timeout", 0, "give up after this long, such as 30s; 0 means never")
	f.BoolVar(&a.tls, "tls", false, "encrypt, trusting the system's authorities")
	f.StringVar(&a.ca, "tls-ca", "", "encrypt, trusting the authorities in this PEM file")
	f.StringVar(&a.cert, "tls-client-cert", "", "PEM file of the client's certificate")
	f.StringVar(&a.key, "tls-client-key", "", "PEM file of its key")
}

func (a *app) addGroups(root *cobra.Command) {
	groups := []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"files", "Files of a context:", a.fileCommands()},
		{"exec", "Commands in a context:", a.execCommands()},
		{"review", "What a context changed:", append(a.reviewCommands(), a.gitCommand())},
		{"admin", "Contexts and panels:", []*cobra.Command{a.contextCommand(), a.snapshotCommand(), a.labelCommand(), a.gcCommand(), a.seedCommand(), a.panelCommand(), a.pathCommand(), a.templateCommand(), a.zonesCommand(), a.openCommand(), a.sitesCommand()}},
		{"server", "The server:", []*cobra.Command{a.statusCommand(), a.stopCommand(), a.consoleCommand(), a.auditCommand(), a.tryCommand(), a.callCommand(), a.healthCommand(), a.waitCommand(), a.versionCommand()}},
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
}

func (a *app) fileCommands() []*cobra.Command {
	return []*cobra.Command{
		a.lsCommand(), a.treeCommand(), a.catCommand(), a.statCommand(), a.putCommand(), a.editCommand(), a.getCommand(), a.cpCommand(),
		a.mvCommand(), a.rmCommand(), a.mkdirCommand(), a.lnCommand(), a.batchCommand(), a.watchCommand(), a.feedCommand(), a.grepCommand(), a.globCommand(),
		a.exportPathCommand(), a.importPathCommand(), a.mcpCommand(),
	}
}

// dial connects as the flags and the environment say, as a host, or for a panel.
func (a *app) dial(ctx context.Context, panel string) (*client.Client, error) {
	opts := append(a.finding(), client.WithoutSession()) // a command makes few calls: to begin a session took a stat 5% longer
	if a.address != "" {
		opts = append(opts, client.WithAddress(a.address))
	}
	if a.token != "" {
		opts = append(opts, client.WithToken(a.token))
	}
	if a.acting = panel; panel != "" {
		opts = append(opts, client.WithPanel(panel))
	}
	t, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	if t != nil {
		opts = append(opts, client.WithTLS(t))
	}
	return client.Dial(ctx, opts...)
}

// finding says where to look for a server, and whose state to believe.
func (a *app) finding() []client.Option {
	return []client.Option{client.WithGetenv(a.env.Getenv), client.WithDir(a.env.Dir), client.WithTrustDir(a.trustDirs...)}
}

func (a *app) panelID() string {
	if a.panel == "" && a.context == "" {
		return a.env.Getenv("CTXFS_PANEL")
	}
	return a.panel
}

// contextID is the context to work in; "" when a panel's own is meant.
func (a *app) contextID() string {
	if a.context != "" || a.panelID() != "" {
		return a.context
	}
	return a.env.Getenv("CTXFS_CONTEXT")
}

func (a *app) tlsConfig() (*tls.Config, error) {
	if !a.tls && a.ca == "" && a.cert == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		pem, err := os.ReadFile(a.ca)
		if err != nil {
			return nil, fmt.Errorf("reading --tls-ca: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca %s holds no PEM certificate", a.ca)
		}
	}
	if a.cert != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, fmt.Errorf("reading --tls-client-cert and --tls-client-key: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// action is what a command does at a server.
type action func(ctx context.Context, c *client.Client, args []string) error

// withClient makes a RunE of a function that needs a server, and acts for a panel if one is named.
func (a *app) withClient(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return a.at(cmd, args, a.panelID(), do) }
}

// withHost makes a RunE of a function that needs a server, and acts for no panel.
func (a *app) withHost(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return a.at(cmd, args, "", do) }
}

func (a *app) at(cmd *cobra.Command, args []string, panel string, do action) error {
	ctx, cancel := a.deadline(cmd.Context())
	defer cancel()
	c, err := a.dial(ctx, panel)
	if err != nil && ctx.Err() != nil && cmd.Context().Err() == nil {
		return fmt.Errorf("no server answered within --timeout %s: %w", a.timeout, ctx.Err())
	}
	if err != nil {
		return err
	}
	err = errors.Join(do(ctx, c, args), c.Close())
	if err == nil {
		err = cmd.Context().Err() // an interrupt ends a watch without an error
	}
	return err
}

func (a *app) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout > 0 {
		return context.WithTimeout(ctx, a.timeout)
	}
	return context.WithCancel(ctx)
}

// withFS makes a RunE of a function that needs a context's folder.
func (a *app) withFS(do func(f *client.FS, args []string) error) func(*cobra.Command, []string) error {
	return a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := a.filesOf(ctx, c)
		if err != nil {
			return err
		}
		return do(c.Context(id).With(ctx), args)
	})
}

// filesOf returns the context that the flags name, "" for the panel's own. A panel's is seeded first, which may take a while.
func (a *app) filesOf(ctx context.Context, c *client.Client) (id string, err error) {
	if a.contextID() == "" && a.panelID() == "" && a.token == "" && a.env.Getenv("CTXFS_TOKEN") == "" {
		return "", usagef("whose files? name a context with -c ID, or a panel with --panel NAME (or CTXFS_CONTEXT, CTXFS_PANEL, CTXFS_TOKEN)")
	}
	id, err = a.contextNamed(ctx, c, a.contextID())
	if panel := a.panelID(); err == nil && panel != "" && id == "" {
		_, err = a.ready(ctx, c, panel)
	}
	return id, err
}

// isTerminal reports whether w is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
