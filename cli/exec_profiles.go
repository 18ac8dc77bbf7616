package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// placeFlags adds the flags that say where a command runs.
func placeFlags(f *pflag.FlagSet, spec *ctxfsv1.Command) {
	f.StringVar(&spec.Profile, "profile", "", "profile of the command, one of 'ctxfs exec-profiles' (default offline)")
	f.StringVar(&spec.Sandbox, "sandbox", "", "name of a sandbox to share with other commands of the context: its /tmp, its processes and its loopback")
	f.Var(&networkFlag{spec}, "network", "permit a name, as example.com or *.example.com; or none, allowed or host (default as the profile says); repeatable")
}

// networkFlag is --network: a mode, or a name.
type networkFlag struct{ spec *ctxfsv1.Command }

func (n *networkFlag) String() string { return "" }
func (n *networkFlag) Type() string   { return "NAME" }

// Set implements pflag.Value.
func (n *networkFlag) Set(value string) error {
	if n.spec.Network == nil {
		n.spec.Network = &ctxfsv1.Network{}
	}
	mode := ctxfsv1.NetworkMode_value["NETWORK_MODE_"+strings.ToUpper(value)]
	if mode == 0 {
		n.spec.Network.Names = append(n.spec.Network.Names, value)
	} else {
		n.spec.Network.Mode = ctxfsv1.NetworkMode(mode)
	}
	return nil
}

// printRefusals says which names the network refused to a command that has ended.
func (a *app) printRefusals(p *ctxfsv1.Process) error {
	for _, r := range p.GetRefusals() {
		hint := ""
		if r.GetReason() == "the name is not permitted" {
			hint = "; permit it with --network " + show(r.GetName())
		}
		if _, err := fmt.Fprintf(a.env.Stderr, "ctxfs: no connection to %s port %d: %s%s\n", show(r.GetName()), r.GetPort(), r.GetReason(), hint); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) explainExecCommand() *cobra.Command {
	spec := &ctxfsv1.Command{}
	var env []string
	cmd := &cobra.Command{
		Use: "explain-exec CONTEXT -- COMMAND [ARG...]", Short: "Say what 'ctxfs exec' would give a command, without running it", Args: usage(cobra.MinimumNArgs(2)),
		Long: "Prints the user, the files, the names of the variables, the limits and the network that 'ctxfs exec' with the same flags gives a command.\nCONTEXT is an ID or a panel.",
	}
	f := cmd.Flags()
	f.StringArrayVarP(&env, "env", "e", nil, "set a variable, as NAME=VALUE; repeatable")
	f.StringVarP(&spec.Cwd, "cwd", "w", "", "working directory, from the context's root")
	placeFlags(f, spec)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if spec.Env, err = pairs("env", "NAME=VALUE", env); err != nil {
			return err
		}
		return a.withContext(func(ctx context.Context, c *client.Client, args []string) error {
			spec.ContextId, spec.Argv = args[0], args[1:]
			e, err := c.ExplainCommand(ctx, spec)
			if err != nil {
				return &execFailure{err}
			}
			if a.json {
				return a.printProto(e)
			}
			return a.printExplanation(e)
		})(cmd, args)
	}
	return cmd
}

func (a *app) printExplanation(e *ctxfsv1.ExplainExecResponse) error {
	rows := [][]string{
		{"profile", e.GetProfile()}, {"user", fmt.Sprintf("%d:%d", e.GetUid(), e.GetGid())}, {"directory", show(cmp.Or(string(e.GetRawDirectory()), e.GetDirectory()))}, {"network", networkWords(e.GetNetwork())},
		{"variables", strings.Join(e.GetVariables(), " ")}, {"landlock", landlockWords(e.GetLandlock())},
	}
	for _, l := range e.GetLimits() {
		rows = append(rows, []string{"limit", limitWords(l)})
	}
	for _, m := range e.GetMounts() {
		rows = append(rows, []string{"file", mountWords(m)})
	}
	return a.table([]string{"WHAT", "VALUE"}, rows)
}

func landlockWords(version int32) string {
	if version == 0 {
		return "none: the kernel has no Landlock, or one before Linux 5.19; the mounts alone protect files"
	}
	return fmt.Sprintf("version %d, a second protection of files", version)
}

func networkWords(n *ctxfsv1.NetworkRules) string {
	switch n.GetMode() {
	case ctxfsv1.NetworkMode_NETWORK_MODE_ALLOWED:
		ports := make([]string, len(n.GetPorts()))
		for i, p := range n.GetPorts() {
			ports[i] = strconv.Itoa(int(p))
		}
		return "by name, ports " + strings.Join(ports, ", ") + ": " + strings.Join(n.GetNames(), " ")
	case ctxfsv1.NetworkMode_NETWORK_MODE_HOST:
		return "that of the machine"
	}
	return "none"
}

func limitWords(l *ctxfsv1.EnforcedLimit) string {
	by := l.GetEnforcedBy()
	if by == "" {
		by = "nothing enforces it here"
	}
	return fmt.Sprintf("%s %d (%s)", l.GetName(), l.GetValue(), by)
}

func mountWords(m *ctxfsv1.ExecMount) string {
	words := m.GetPath() + " " + m.GetKind()
	if m.GetWritable() {
		words += ", writable"
	}
	if m.GetSizeBytes() > 0 {
		words += ", " + size(m.GetSizeBytes())
	}
	return words
}

func (a *app) execProfilesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec-profiles", Short: "List the profiles that commands may have", Args: usage(cobra.NoArgs),
		Long: "Lists the profiles for 'ctxfs exec --profile': those of ctxfs, and those of the operator's file ('ctxfs serve --exec-profiles').",
	}
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
		profiles, err := c.ExecProfiles(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return printProtos(a, profiles)
		}
		rows := make([][]string, len(profiles))
		for i, p := range profiles {
			rows[i] = []string{p.GetName(), show(p.GetDescription()), networkWords(p.GetNetwork())}
		}
		return a.table([]string{"NAME", "DESCRIPTION", "NETWORK"}, rows)
	})
	return cmd
}
