package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/manual"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/internal/openapi"
	"github.com/ctxfs/ctxfs/review"
	"github.com/ctxfs/ctxfs/server"
)

// generated is the second line of each page.
const generated = "<!-- make generate writes this page from the code. -->\n"

// commands writes the page of all commands.
func commands(w io.Writer) error {
	root := program()
	root.InitDefaultCompletionCmd()
	shared := settingFlags()
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Commands\n%s\n`ctxfs COMMAND --help` prints the same. Results in JSON are on [a page of their own](cli-json.md).\n\n## Flags of all commands\n```\n%s```\n", generated, root.PersistentFlags().FlagUsages())
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if !c.IsAvailableCommand() || c.Name() == "completion" {
				continue
			}
			if c.Runnable() && len(c.Commands()) == 0 {
				describe(&out, c, shared)
			}
			visit(c)
		}
	}
	visit(root)
	out.WriteString("\n## ctxfs completion\nPrints a script that completes commands, flags, panels, contexts, snapshots and paths in contexts.\n```\nctxfs completion bash|zsh|fish|powershell\n```\n")
	_, err := out.WriteTo(w)
	return err
}

// describe writes the section of one command.
func describe(out *bytes.Buffer, c *cobra.Command, shared *pflag.FlagSet) {
	fmt.Fprintf(out, "\n## %s\n%s.\n```\n%s\n```\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."), c.UseLine())
	if c.Long != "" {
		fmt.Fprintf(out, "```text\n%s\n```\n", c.Long)
	}
	if c.Example != "" {
		fmt.Fprintf(out, "For example:\n```\n%s\n```\n", c.Example)
	}
	own, settings := pflag.NewFlagSet("", pflag.ContinueOnError), false
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if shared.Lookup(f.Name) != nil {
			settings = true
		} else if f.Name != "help" {
			own.AddFlag(f)
		}
	})
	if own.HasFlags() {
		fmt.Fprintf(out, "```\n%s```\n", own.FlagUsages())
	}
	if settings {
		out.WriteString("It also takes the flags of all [settings](settings.md).\n")
	}
}

func settingFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	server.Flags(flags)
	return flags
}

// settings writes the page of all settings.
func settings(w io.Writer) error {
	flags := settingFlags()
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Settings\n%s\nA setting is a flag, a variable or a key of the YAML file that `--config` names. The flag overrides the variable, and the variable the file.\nAn unknown key in the file is an error. `ctxfs config` prints each setting with its value and its origin. [deploy/ctxfs.yaml](../../deploy/ctxfs.yaml)\nshows them in a file. [Operation](operations.md#limits) explains the limits.\n\n| flag | key | variable | default | meaning |\n|---|---|---|---|---|\n", generated)
	for _, s := range server.DefaultConfig().Settings(nil) {
		f := flags.Lookup(strings.ReplaceAll(s.Key, "_", "-"))
		if f == nil {
			return fmt.Errorf("the setting %s has no flag", s.Key)
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&out, "| `--%s` | `%s` | `CTXFS_%s` | %s | %s |\n", f.Name, s.Key, strings.ToUpper(s.Key), value, cell(f.Usage))
	}
	_, err := out.WriteTo(w)
	return err
}

// errnos writes the page of all errors and exit codes.
func errnos(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Errors\n%s\nAn error of a call is one gRPC status with a `google.rpc.ErrorInfo` of the domain `ctxfs`. Its `reason` is the name of an errno, and its metadata\nhave `errno`, `syscall`, `path`, `dest`, `detail` and `hint`. The message is Node's: `ENOENT: no such file or directory, open '/a.txt'`. Paths are those in\nthe context, each cut at 1 KiB. The Go client returns `*fs.PathError` and `*os.LinkError`; the npm client returns Node's errors. The numbers are\nLinux's on every system. [Operation](operations.md#starting-and-stopping) lists the exit codes of the program, and [JSON output](cli-json.md#errors)\nits errors in JSON.\n\nA condition (`if_match`, `if_none_match`) that does not hold is `Aborted`, with the reason `ESTALE` or `EEXIST`, `kind` `condition`, and the present\n`etag` in the metadata.\n\n| errno | number | gRPC code | text |\n|---|---|---|---|\n", generated)
	for n := range fserr.Code(134) {
		if text := n.Text(); text != "unknown error" {
			fmt.Fprintf(&out, "| `%s` | %d | %s | %s |\n", n, int32(n), fserrpb.GRPCCode(n), text)
		}
	}
	out.WriteString("\n## Refusals\nA refusal of a review, of git or of a command has no errno. Its `reason` is one of these, and its metadata have `detail` and `hint`. Nothing was\ndone, unless `detail` or `hint` says that files keep what was applied. A `ctxfs.v1.RefusedFiles` among the details of the status has the files that it is about, as many as fit into 8 KiB of trailers, with\n`file_count`, how many there are, and `listed_by`, the call or the command that lists them all. The Go client returns a `*ReviewError`, a `*GitError` or\nan `*ExecUnavailableError`, and the npm client a `CtxfsError`. Metrics, the audit log, the header `Ctxfs-Error` and `--json` have the reason too.\n\n| reason | gRPC code | when |\n|---|---|---|\n")
	reasons := fserrpb.Reasons()
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", name, reasons[name].Code, reasons[name].Text)
	}
	_, err := out.WriteTo(w)
	return err
}

// sensitive writes the page of the files that a reviewer selects by their own names.
func sensitive(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Sensitive files\n%s\n`--all` and a directory select no sensitive change: a reviewer names it ([review](../how-to/review.md)). A file is sensitive if a program runs it, or\nobeys it, without being told its name: when a person builds, tests, installs, commits, opens the folder, or pushes. Source files are not, nor files that\nonly say how a formatter lays out text. A name counts in any directory, and one that ends in a slash is a directory with all that it holds. A `*`\nstands for any characters of a name, `[1-9]` for a digit. A name counts in every spelling that some file system takes for it: case does not matter,\ninvisible characters do not, and `ſ` is `s`. What a link with such a name leads to counts as well, in the base and in the context.\n\nSensitive are also files that become executable (`executable`), links whose target is absolute, leads out of the context or into a `.git`\n(`link-leaves-repository`), and `HEAD`, `config` and `hooks/` of a directory that git would take for a bare repository (`hook`).\n\n", generated)
	for _, reason := range []struct{ name, text string }{
		{review.SensitiveWorkflow, "run by CI and hosting services"},
		{review.SensitiveHook, "run or obeyed by git, shells, editors and agents"},
		{review.SensitiveScript, "what builds, tests and installs run"},
		{review.SensitiveSeeding, "what later contexts get, and what counts as ignored"},
	} {
		fmt.Fprintf(&out, "## `%s`: %s\n\n| tool | names |\n|---|---|\n", reason.name, reason.text)
		for _, rule := range review.SensitiveRules {
			if rule.Reason == reason.name {
				fmt.Fprintf(&out, "| %s | `%s` |\n", rule.Tool, strings.Join(rule.Names, "` `"))
			}
		}
		out.WriteString("\n")
	}
	_, err := w.Write(append(bytes.TrimSpace(out.Bytes()), '\n'))
	return err
}

// methods writes the page of all RPCs.
func methods(w io.Writer) error {
	files, err := manual.Load()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Methods\n%s\nThe services of package `ctxfs.v1`. `ctxfs help METHOD` and grpcurl's `describe` print the fields of each request and reply with their comments.\n`ctxfs call METHOD` makes a call. Sessions carry the same methods ([sessions](../explanation/sessions.md)).\n", generated)
	for _, s := range files.Services() {
		fmt.Fprintf(&out, "\n## %s\n%s\n", s.Name(), manual.Comment(s))
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			fmt.Fprintf(&out, "\n### %s\n%s\n\n- %s\n- request: %s\n- reply: %s\n", m.Name(), manual.Comment(m), method.New(m).Summary(), fields(m.Input()), fields(m.Output()))
		}
	}
	_, err = out.WriteTo(w)
	return err
}

// fields lists the fields of a message; those of bytes that take the place of a text are left out.
func fields(m protoreflect.MessageDescriptor) string {
	var names []string
	for i := range m.Fields().Len() {
		names = append(names, string(m.Fields().Get(i).Name()))
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "raw_") })
	if len(names) == 0 {
		return "no fields"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// cell makes a text fit for a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// openAPI writes the document that a server has at /v1/openapi.json.
func openAPI(w io.Writer) error {
	document, err := openapi.Document()
	if err != nil {
		return err
	}
	_, err = w.Write(document)
	return err
}
