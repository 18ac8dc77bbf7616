package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/mcp"
)

func (a *app) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mcp", Short: "Offer a context's files to a model, over MCP on stdin and stdout", Args: onlyCommands,
		Long: "Offers the files of a panel (--panel) or a context (-c) to a model, over the Model Context Protocol on standard input and output.\n" +
			"The program of an agent starts this command: 'ctxfs mcp install AGENT' prints the settings for it.\n\n" +
			"The tools have the names and arguments of the reference file-system server. Further tools search, edit, show changes and submit\n" +
			"them for review. A panel that was opened with --exec has a tool that runs commands. No tool approves, applies or pushes anything.",
		Example: "  ctxfs mcp --panel panels/agent",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			id, err := a.filesOf(ctx, c)
			if err != nil {
				return err
			}
			return a.serveMCP(ctx, c, id)
		}),
	}
	cmd.AddCommand(a.mcpInstallCommand())
	return cmd
}

// serveMCP serves a session until standard input ends.
func (a *app) serveMCP(ctx context.Context, c *client.Client, id string) error {
	s, err := mcp.New(ctx, mcp.Config{Conn: c.Conn(), Context: id, Version: a.env.Version})
	if err != nil {
		return err
	}
	defer s.Close()
	err = s.SDK.Run(ctx, mcp.Stdio(a.env.Stdin, a.env.Stdout))
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// agent is a program whose settings are known.
type agent struct {
	name string
	// file has the settings, for people.
	file string
	// object has the servers by name; "" means TOML as Codex reads it.
	object string
	// kind is what a server's "type" says; "" if it has none.
	kind string
}

var agents = []agent{
	{"claude-code", ".mcp.json in the project's root", "mcpServers", "stdio"},
	{"claude-desktop", "claude_desktop_config.json: Settings > Developer > Edit Config opens it", "mcpServers", ""},
	{"codex", "~/.codex/config.toml", "", ""},
	{"cursor", ".cursor/mcp.json in the project's root, or ~/.cursor/mcp.json", "mcpServers", ""},
	{"gemini", ".gemini/settings.json in the project's root, or ~/.gemini/settings.json", "mcpServers", ""},
	{"vscode", ".vscode/mcp.json in the project's root", "servers", "stdio"},
	{"zed", "~/.config/zed/settings.json", "context_servers", ""},
}

func (a *app) mcpInstallCommand() *cobra.Command {
	var names []string
	for _, x := range agents {
		names = append(names, x.name)
	}
	list := strings.Join(names, ", ")
	return &cobra.Command{
		Use: "install AGENT", Short: "Print the settings with which an agent's program starts 'ctxfs mcp'", Args: usage(cobra.ExactArgs(1)), ValidArgs: names,
		Long: "Prints the settings with which an agent's program starts 'ctxfs mcp', and names their file. It changes no file.\n" +
			"AGENT is one of " + list + ".\n\n" +
			"The settings name the panel (--panel) or the context (-c), and the server: that of --address, or the one that is found from here\n" +
			"upwards. They hold no token: for an agent of another user, set CTXFS_TOKEN here and where its program starts, and name no panel.",
		Example: "  ctxfs mcp install claude-code --panel panels/agent > .mcp.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, x := range agents {
				if x.name == args[0] {
					return a.printSettings(cmd.Context(), x)
				}
			}
			return usagef("%s is no agent whose settings are known; use one of %s%s", show(args[0]), list, didYouMean(args[0], names))
		},
	}
}

// printSettings prints the settings of an agent to standard output, and the name of their file to standard error.
func (a *app) printSettings(ctx context.Context, x agent) error {
	command, err := a.mcpCommandLine(ctx)
	if err != nil {
		return err
	}
	server := map[string]any{"command": command[0], "args": command[1:]}
	if x.kind != "" {
		server["type"] = x.kind
	}
	settings, err := json.MarshalIndent(map[string]any{x.object: map[string]any{"ctxfs": server}}, "", "  ")
	if x.object == "" {
		settings, err = tomlOf(command)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.env.Stderr, "add this to %s\n", x.file); err != nil {
		return err
	}
	return a.printf("%s\n", settings)
}

// tomlOf returns the settings of Codex. A string of JSON is one of TOML.
func tomlOf(command []string) ([]byte, error) {
	name, err := json.Marshal(command[0])
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(command[1:])
	return fmt.Appendf(nil, "[mcp_servers.ctxfs]\ncommand = %s\nargs = %s", name, args), err
}

// mcpCommandLine returns the command that serves the files that the flags name, from any directory.
func (a *app) mcpCommandLine(ctx context.Context) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := []string{program, "mcp"}
	switch {
	case a.panelID() != "":
		command = append(command, "--panel", a.panelID())
	case a.contextID() != "":
		command = append(command, "--context", a.contextID())
	case a.token == "" && a.env.Getenv("CTXFS_TOKEN") == "":
		return nil, usagef("whose files? name a panel with --panel NAME, or a context with -c ID (or CTXFS_TOKEN, for the panel of a token)")
	}
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	c, err := a.dial(ctx, "")
	if err != nil {
		return nil, err
	}
	return append(command, "--address", c.Address()), c.Close()
}
