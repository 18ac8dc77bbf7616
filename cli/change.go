package cli

import (
	"errors"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
)

func (a *app) cpCommand() *cobra.Command {
	o := client.CopyOptions{VerbatimSymlinks: true} // as cp(1); Node's cp, which the call follows, makes relative links absolute
	cmd := &cobra.Command{
		Use: "cp FROM TO", Short: "Copy within the context", Args: usage(cobra.ExactArgs(2)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			to, err := into(f, args[0], args[1])
			if err != nil {
				return err
			}
			done, err := f.Cp(args[0], to, o)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(object{{"files", done.Files}, {"bytes", done.Bytes}, {"specialSkipped", done.SpecialSkipped}, {"unstable", append([]string{}, done.Unstable...)}})
			}
			return a.printf("%s, %s\n", files(done.Files), size(done.Bytes))
		}),
	}
	cmd.Flags().BoolVarP(&o.Recursive, "recursive", "r", false, "copy directories")
	cmd.Flags().BoolVarP(&o.PreserveTimestamps, "preserve-timestamps", "p", false, "keep times")
	cmd.Flags().BoolVarP(&o.Dereference, "dereference", "L", false, "copy what links point to")
	cmd.Flags().BoolVarP(&o.NoForce, "no-clobber", "n", false, "keep existing files")
	return cmd
}

// into is where cp and mv put a name: below an existing directory, as the shell's do.
func into(f *client.FS, from, to string) (string, error) {
	info, err := f.Stat(to)
	if errors.Is(err, fs.ErrNotExist) {
		return to, nil
	}
	if err != nil || !info.IsDir() {
		return to, err
	}
	base := baseName(from)
	if base == "" {
		return to, nil
	}
	return to + "/" + base, nil
}

func (a *app) mvCommand() *cobra.Command {
	return &cobra.Command{
		Use: "mv FROM TO", Short: "Move or rename", Args: usage(cobra.ExactArgs(2)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			to, err := into(f, args[0], args[1])
			if err != nil {
				return err
			}
			if err := f.Rename(args[0], to); err != nil || !a.json {
				return err
			}
			return a.printJSON(object{{"from", args[0]}, {"to", to}})
		}),
	}
}

func (a *app) rmCommand() *cobra.Command {
	var o client.RmOptions
	cmd := &cobra.Command{
		Use: "rm PATH…", Short: "Remove", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			var total int64
			for _, name := range args {
				n, err := f.Rm(name, o)
				total += n
				if err != nil {
					return err
				}
			}
			if a.json {
				return a.printJSON(object{{"removed", total}})
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&o.Recursive, "recursive", "r", false, "remove directories with their content")
	cmd.Flags().BoolVarP(&o.Force, "force", "f", false, "a missing path is no error")
	return cmd
}

func (a *app) mkdirCommand() *cobra.Command {
	var parents bool
	var mode string
	cmd := &cobra.Command{
		Use: "mkdir PATH…", Short: "Make directories", Args: usage(cobra.MinimumNArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			perm, err := strconv.ParseUint(mode, 8, 12)
			if err != nil {
				return usagef("--mode %q is no octal number", mode)
			}
			mkdir := f.Mkdir
			if parents {
				mkdir = f.MkdirAll
			}
			for _, name := range args {
				if err := mkdir(name, fs.FileMode(perm)); err != nil {
					return err
				}
			}
			if a.json {
				return a.printJSON(object{{"created", args}})
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make missing parents; an existing directory is no error")
	cmd.Flags().StringVarP(&mode, "mode", "m", "777", "permission bits, octal, before the server's umask")
	return cmd
}

func (a *app) lnCommand() *cobra.Command {
	var symbolic bool
	cmd := &cobra.Command{
		Use: "ln TARGET PATH", Short: "Make a link", Args: usage(cobra.ExactArgs(2)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			link := f.Link
			if symbolic {
				link = f.Symlink
			}
			if err := link(args[0], args[1]); err != nil || !a.json {
				return err
			}
			return a.printJSON(object{{"target", args[0]}, {"path", args[1]}})
		}),
	}
	cmd.Flags().BoolVarP(&symbolic, "symbolic", "s", false, "a symbolic link; an absolute target means the context's root")
	return cmd
}
