package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

func (a *app) callCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "call METHOD [KEY=VALUE… | JSON…]",
		Short: "Make any call by its name, as the server describes it",
		Long: `Make any call of the server by its name: ReadFile, FsService/ReadFile or ctxfs.v1.FsService/ReadFile.

-c names the context, unless the request does. The request is put together from KEY=VALUE, where KEY may go into messages with dots (open.path=/a) and VALUE
is the content of a file when it begins with @ (@- is standard input; @@ is an @); a key that is repeated
adds to a list. Or it is given as JSON. A stream of requests is several JSON arguments. Answers are printed as
JSON; those of a stream one a line.`,
		Example: "  ctxfs call ReadFile path=/a.txt encoding=utf8\n  ctxfs call Readdir '{\"path\":\"/\",\"withStats\":true}'",
		Args:    usage(cobra.MinimumNArgs(1)),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			method, err := findMethod(ctx, c.Conn(), args[0])
			if err != nil {
				return err
			}
			requests, err := a.requests(method, args[1:])
			if err != nil {
				return err
			}
			if err := a.inContext(ctx, c, method, requests); err != nil {
				return err
			}
			return plainError(a.invoke(ctx, c.Conn(), method, requests))
		}),
	}
}

// inContext makes the context ready that a call on files is about, and names it in the requests that do not.
func (a *app) inContext(ctx context.Context, c *client.Client, method protoreflect.MethodDescriptor, requests []proto.Message) error {
	field := method.Input().Fields().ByName("context_id")
	if method.Parent().Name() != "FsService" {
		return nil
	}
	id, err := a.contextNamed(ctx, c, a.contextID())
	if panel := a.panelID(); err == nil && panel != "" && id == "" {
		_, err = a.ready(ctx, c, panel)
	}
	if err != nil || field == nil || id == "" {
		return err
	}
	for _, r := range requests {
		if m := r.ProtoReflect(); !m.Has(field) {
			m.Set(field, protoreflect.ValueOfString(id))
		}
	}
	return nil
}

// plainError gives an error of ctxfs its own text instead of gRPC's.
func plainError(err error) error {
	if e, ok := fserrpb.FromStatus(err); ok {
		return e
	}
	return err
}

func (a *app) invoke(ctx context.Context, cc grpc.ClientConnInterface, m protoreflect.MethodDescriptor, requests []proto.Message) error {
	name := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: m.IsStreamingClient(), ServerStreams: m.IsStreamingServer()}, name)
	if err != nil {
		return err
	}
	for _, r := range requests {
		if err := stream.SendMsg(r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		reply := dynamicpb.NewMessage(m.Output())
		err := stream.RecvMsg(reply)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := writeProto(a.env.Stdout, reply, !m.IsStreamingServer()); err != nil {
			return err
		}
		if !m.IsStreamingServer() {
			return nil
		}
	}
}
