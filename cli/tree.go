package cli

import (
	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
)

func (a *app) treeCommand() *cobra.Command {
	var depth int
	cmd := &cobra.Command{
		Use: "tree [PATH]", Short: "Show a directory as a tree", Args: usage(cobra.MaximumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			if a.json {
				return a.ls(f, pathArg(args), true)
			}
			return a.tree(f, pathArg(args), depth)
		}),
	}
	cmd.Flags().IntVarP(&depth, "depth", "d", 0, "go no deeper; 0 means all the way")
	return cmd
}

// branches are a tree's directories and what they hold, by virtual path.
type branches map[string][]client.Entry

func (a *app) tree(f *client.FS, name string, depth int) error {
	top, err := f.Realpath(name)
	if err != nil {
		return err
	}
	entries, err := f.List(top, client.ListOptions{Recursive: true})
	if err != nil {
		return err
	}
	b := branches{}
	for _, e := range entries {
		b[e.Parent()] = append(b[e.Parent()], e)
	}
	if err := a.printf("%s\n", show(name)); err != nil {
		return err
	}
	return a.branch(b, top, "", depth)
}

func (a *app) branch(b branches, dir, indent string, depth int) error {
	for i, e := range b[dir] {
		stem, next := "├── ", "│   "
		if i == len(b[dir])-1 {
			stem, next = "└── ", "    "
		}
		name := show(e.Name())
		if e.IsDir() {
			name += "/"
		}
		if err := a.printf("%s%s%s\n", indent, stem, name); err != nil {
			return err
		}
		if e.IsDir() && depth != 1 {
			if err := a.branch(b, e.Path(), indent+next, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}
