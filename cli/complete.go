package cli

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// completeTime bounds how long the shell waits for a server.
const completeTime = 2 * time.Second

// candidates lists what an argument may be.
type candidates func(ctx context.Context, c *client.Client, args []string, prefix string) ([]string, error)

// completions of arguments, by the command's path; the last one also serves the arguments after it. nil stands for local files. Those
// of commands that are not named take nothing.
func (a *app) completions() map[string][]candidates {
	files, names := []candidates{a.remotePaths}, []candidates{a.contextNames}
	snapshots := []candidates{a.contextNames, a.snapshotNames}
	none := candidates(func(context.Context, *client.Client, []string, string) ([]string, error) { return nil, nil })
	return map[string][]candidates{
		"ls": files, "tree": files, "cat": files, "stat": files, "edit": files, "rm": files, "mkdir": files, "mv": files, "cp": files, "ln": files, "watch": files, "feed": files,
		"get": {a.remotePaths, nil}, "put": {nil, a.remotePaths}, "grep": {none, a.remotePaths}, "glob": {none}, "call": {a.methodNames, nil}, "batch": {nil},
		"context info": names, "context create": names, "context delete": names, "context fork": {a.contextNames, none}, "path": names, "label": {a.contextNames, none},
		"snapshot create": {a.contextNames, none}, "snapshot list": names, "snapshot restore": snapshots, "snapshot delete": snapshots,
		"panel open": {a.panelNames}, "panel close": {a.panelNames}, "template build": {nil}, "template explain": {nil}, "run": {nil},
		"open": {a.contextNames, a.remotePaths}, "sites": names,
		"git status": files, "git diff": files, "git stage": files, "git pull": {a.remotePaths, none}, "git show": {a.stagedIDs, a.remotePaths}, "git discard": {a.stagedIDs},
	}
}

// addCompletions completes arguments and the flags that name panels and contexts. Nothing is made for it.
func (a *app) addCompletions(root *cobra.Command) error {
	known := a.completions()
	var visit func(cmd *cobra.Command, name string)
	visit = func(cmd *cobra.Command, name string) {
		for _, c := range cmd.Commands() {
			visit(c, strings.TrimSpace(name+" "+c.Name()))
		}
		if lists := known[name]; lists != nil {
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
				return a.complete(cmd, lists[min(len(args), len(lists)-1)], args, prefix)
			}
		} else if !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	visit(root, "")
	for flag, list := range map[string]candidates{"panel": a.panelNames, "context": a.contextNames} {
		err := root.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return a.complete(cmd, list, args, prefix)
		})
		if err != nil {
			return fmt.Errorf("complete --%s: %w", flag, err)
		}
	}
	return nil
}

func (a *app) complete(cmd *cobra.Command, list candidates, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if list == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	c, err := a.dial(ctx, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = c.Close() }()
	all, err := list(ctx, c, args, prefix)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	directive := cobra.ShellCompDirectiveNoFileComp
	for _, name := range all {
		if strings.HasPrefix(name, prefix) && name == printable(name) {
			found = append(found, name)
		}
		if strings.HasSuffix(name, "/") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
	}
	return found, directive
}

func (a *app) panelNames(ctx context.Context, c *client.Client, _ []string, _ string) ([]string, error) {
	list, err := c.ListPanels(ctx)
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.GetPanelId()
	}
	return names, err
}

func (a *app) contextNames(ctx context.Context, c *client.Client, _ []string, _ string) ([]string, error) {
	names, err := a.panelNames(ctx, c, nil, "")
	if err != nil {
		return nil, err
	}
	list, err := c.ListContexts(ctx)
	for _, x := range list {
		names = append(names, x.GetContextId())
	}
	return names, err
}

func (a *app) snapshotNames(ctx context.Context, c *client.Client, args []string, _ string) ([]string, error) {
	id, err := a.contextNamed(ctx, c, args[0])
	if err != nil {
		return nil, err
	}
	list, err := c.ListSnapshots(ctx, id)
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.GetName()
	}
	return names, err
}

// remotePaths lists the directory that a path has come to, if the context is there.
func (a *app) remotePaths(ctx context.Context, c *client.Client, _ []string, prefix string) ([]string, error) {
	name := a.contextID()
	if name == "" {
		name = a.panelID()
	}
	id, err := a.contextNamed(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if id != "" { // else a panel's token says whose files
		x, err := c.GetContext(ctx, id)
		if err != nil || x.GetState() != ctxfsv1.ContextState_CONTEXT_STATE_READY {
			return nil, err
		}
	}
	dir, _ := path.Split(prefix)
	entries, err := c.Context(id).With(ctx).List("/"+dir, client.ListOptions{})
	names := make([]string, len(entries))
	for i, e := range entries {
		if names[i] = dir + e.Name(); e.IsDir() {
			names[i] += "/"
		}
	}
	return names, err
}

func (a *app) methodNames(context.Context, *client.Client, []string, string) ([]string, error) {
	return methodsOf(builtIn()), nil
}
