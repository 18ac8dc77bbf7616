package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/internal/manual"
	"github.com/ctxfs/ctxfs/internal/method"
)

// addHelp makes 'ctxfs help' explain methods besides commands.
func (a *app) addHelp(root *cobra.Command) error {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		return err
	}
	help.Use = "help [COMMAND | METHOD | grpcurl]"
	help.Short = "Help about any command, about any method of the server, such as ReadFile, or about grpcurl"
	help.Long = `Help prints how to use a command, or the manual of a method: what it does, its errors, its request and its reply.
It needs no server; methods are those of this version. 'ctxfs help grpcurl' prints a line of grpcurl to paste, for the server here if one runs.`
	help.Example = "  ctxfs help panel open\n  ctxfs help ReadFile\n  ctxfs help PanelService/OpenPanel"
	commands := help.ValidArgsFunction
	help.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		names, directive := commands(cmd, args, prefix)
		for _, m := range append(methodsOf(builtIn()), grpcurlTopic) {
			if len(args) == 0 && strings.HasPrefix(m, prefix) {
				names = append(names, m)
			}
		}
		return names, directive
	}
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if found, rest, err := root.Find(args); err == nil && (len(rest) == 0 || found.HasParent()) {
			found.InitDefaultHelpFlag()
			return found.Help()
		}
		if len(args) != 1 {
			return onlyCommands(root, args)
		}
		if args[0] == grpcurlTopic {
			return a.printf("%s", a.grpcurlManual(cmd.Context()))
		}
		files, err := manual.Load()
		if err != nil {
			return err
		}
		m, err := methodNamed(files, args[0])
		if err != nil {
			return err
		}
		return a.printf("%s", methodManual(m))
	}
	return nil
}

// grpcurlTopic is what help explains besides commands and methods.
const grpcurlTopic = "grpcurl"

// grpcurlManual explains grpcurl by a line that works when pasted into a POSIX shell, if a server answers.
func (a *app) grpcurlManual(ctx context.Context) string {
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	found := "No server answers here ('ctxfs serve' starts one). With one that serves /home/me/work:"
	address, tokenFile := "unix:///home/me/work/.contexts/.ctxfs/ctxfs.sock", "/home/me/work/.contexts/.ctxfs/host.token"
	if c, err := a.dial(ctx, ""); err == nil {
		if c.Health(ctx) == nil {
			found, address, tokenFile = "The server here:", c.Address(), c.Server().TokenFile
		}
		_ = c.Close() // it was only asked whether it answers
	}
	address = shellQuote(address)
	host := ""
	if tokenFile != "" {
		host = fmt.Sprintf(" The host needs its token over TCP,\n"+
			"and with --host-auth=token over the socket too: -H \"authorization: Bearer $(cat %s)\".", shellQuote(tokenFile))
	}
	return fmt.Sprintf(`grpcurl makes any call of a server. 'make grpcurl' in a checkout of ctxfs builds bin/grpcurl.
%[1]s

  grpcurl -plaintext -H 'ctxfs-panel: demo' -d '{"path":"/"}' %[2]s ctxfs.v1.FsService/Readdir
  grpcurl -plaintext %[2]s describe ctxfs.v1.FsService.Readdir

'ctxfs-panel' names the panel that you act for, and opens it if it is new.%[3]s
A panel sends its token instead. The server does not describe itself to panels: grpcurl reads the protos,
here in a checkout of ctxfs:

  grpcurl -plaintext -import-path proto -proto ctxfs/v1/fs.proto -H "authorization: Bearer $CTXFS_TOKEN" -d '{"path":"/"}' %[2]s ctxfs.v1.FsService/Readdir

Without grpcurl: ctxfs --panel demo call Readdir path=/    (docs/how-to/grpcurl.md has more)
`, found, address, host)
}

// methodNamed finds a method of this version, with or without its service.
func methodNamed(files *manual.Files, name string) (protoreflect.MethodDescriptor, error) {
	service, short, ok := strings.Cut(strings.Trim(name, "/"), "/")
	if !ok {
		service, short = "", service
	}
	var names []string
	for _, s := range files.Services() {
		if service != "" && string(s.FullName()) != service && string(s.Name()) != service {
			continue
		}
		if m := methodOf(s, short); m != nil {
			return m, nil
		}
		for i := range s.Methods().Len() {
			names = append(names, string(s.Methods().Get(i).Name()))
		}
	}
	return nil, usagef("%q is neither a command nor a method%s; 'ctxfs help' lists the commands, docs/reference/methods.md the methods", name, didYouMean(short, names))
}

// methodManual is the manual of a method: its comment and its properties, its messages and those within them.
func methodManual(m protoreflect.MethodDescriptor) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n%s\n", m.FullName(), method.New(m).Summary(), manual.Comment(m))
	done := []protoreflect.FullName{}
	for queue := []protoreflect.MessageDescriptor{m.Input(), m.Output()}; len(queue) > 0; queue = queue[1:] {
		msg := queue[0]
		if slices.Contains(done, msg.FullName()) || msg.ParentFile().Package() != "ctxfs.v1" {
			continue
		}
		done = append(done, msg.FullName())
		fmt.Fprintf(&b, "\n%s\n", msg.Name())
		indent(&b, "  ", manual.Comment(msg))
		for i := range msg.Fields().Len() {
			f := msg.Fields().Get(i)
			fmt.Fprintf(&b, "    %s  (%s)\n", f.Name(), manual.TypeOf(f))
			indent(&b, "        ", manual.Comment(f))
			if f.Message() != nil && !f.IsMap() {
				queue = append(queue, f.Message())
			}
			if f.Enum() != nil && !slices.Contains(done, f.Enum().FullName()) {
				done = append(done, f.Enum().FullName())
				for j := range f.Enum().Values().Len() {
					v := f.Enum().Values().Get(j)
					indent(&b, "        ", fmt.Sprintf("%s: %s", v.Name(), manual.Comment(v)))
				}
			}
		}
	}
	return b.String()
}

// indent writes the lines of a text after a prefix.
func indent(b *strings.Builder, prefix, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRight(prefix+line, " ") + "\n")
	}
}
