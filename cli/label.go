package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
)

// labelFlag adds the flag --label to a command that makes something.
func labelFlag(cmd *cobra.Command, given *[]string, what string) {
	cmd.Flags().StringArrayVar(given, "label", nil, "give "+what+" this label, KEY=VALUE; repeatable")
}

// selectFlag adds the flag --label to a command that lists something.
func selectFlag(cmd *cobra.Command, selectors *[]string, what string) {
	cmd.Flags().StringArrayVar(selectors, "label", nil, "only "+what+" with this label: KEY=VALUE, KEY for any value, '!KEY' for those without it; repeatable, all must match")
}

func (a *app) labelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "label [CONTEXT] [KEY=VALUE | KEY-]…", Short: "Show, set and remove the labels of a context or a panel",
		Long: "Sets labels (KEY=VALUE) of a context and removes others (KEY-), and prints all that it has then. CONTEXT is its ID or a panel's name. With\n" +
			"--panel and no CONTEXT, the labels are the panel's own. The flag --label of other commands selects by labels.\n\n" +
			"A key has 1 to 63 of a-z 0-9 . _ / -, and begins with a letter or a digit. A value has up to 256 bytes. At most 16 labels are kept.",
		Example: "  ctxfs label ctx_fix owner=ada task=1204\n  ctxfs label ctx_fix task-\n  ctxfs context list --label owner=ada --label '!task'",
		Args:    cobra.ArbitraryArgs,
	}
	cmd.RunE = a.withHost(a.label)
	return cmd
}

func (a *app) label(ctx context.Context, c *client.Client, args []string) error {
	name, panel := a.context, a.panel
	if len(args) > 0 && !strings.Contains(args[0], "=") && (isContextID(args[0]) || !strings.HasSuffix(args[0], "-")) {
		name, panel, args = args[0], "", args[1:]
	}
	if name == "" && panel == "" {
		return usagef("label what? name a context, or a panel with --panel NAME")
	}
	put, remove, err := labelChanges(args)
	if err != nil {
		return err
	}
	if name == "" {
		set, err := c.SetPanelLabels(ctx, panel, put, remove...)
		if err != nil {
			return err
		}
		return a.printLabels("panelId", panel, set)
	}
	id, err := a.contextNamed(ctx, c, name)
	if err != nil {
		return err
	}
	set, err := c.SetLabels(ctx, id, put, remove...)
	if err != nil {
		return err
	}
	return a.printLabels("contextId", id, set)
}

// labelChanges reads KEY=VALUE and KEY-.
func labelChanges(args []string) (put map[string]string, remove []string, err error) {
	put = map[string]string{}
	for _, arg := range args {
		key, value, set := strings.Cut(arg, "=")
		removed, cut := strings.CutSuffix(arg, "-")
		switch {
		case set && key != "":
			put[key] = value
		case cut && removed != "":
			remove = append(remove, removed)
		default:
			return nil, nil, usagef("%s is neither KEY=VALUE nor KEY-", show(arg))
		}
	}
	return put, remove, nil
}

func (a *app) printLabels(key, name string, set map[string]string) error {
	if a.json {
		if set == nil {
			set = map[string]string{}
		}
		return a.printJSON(object{{key, name}, {"labels", set}})
	}
	rows := make([][]string, 0, len(set))
	for _, k := range slices.Sorted(maps.Keys(set)) {
		rows = append(rows, []string{k, printable(set[k])})
	}
	if len(rows) == 0 {
		return a.printf("%s has no labels\n", show(name))
	}
	return a.table(nil, rows)
}

// withLabels adds a column with the labels of what a table lists, if there are any.
func withLabels[T interface{ GetLabels() map[string]string }](head []string, rows [][]string, list []T) ([]string, [][]string) {
	if !slices.ContainsFunc(list, func(x T) bool { return len(x.GetLabels()) > 0 }) {
		return head, rows
	}
	for i, x := range list {
		rows[i] = append(rows[i], labelList(x.GetLabels()))
	}
	return append(head, "LABELS"), rows
}

// labelList is a set of labels in one line: "owner=ada, task=1204".
func labelList(set map[string]string) string {
	list := make([]string, 0, len(set))
	for _, k := range slices.Sorted(maps.Keys(set)) {
		list = append(list, fmt.Sprintf("%s=%s", k, printable(set[k])))
	}
	return strings.Join(list, ", ")
}
