package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
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

// requests puts the requests of a call together from its arguments.
func (a *app) requests(m protoreflect.MethodDescriptor, args []string) ([]proto.Message, error) {
	if len(args) > 0 && strings.HasPrefix(strings.TrimSpace(args[0]), "{") {
		return jsonRequests(m, args)
	}
	tree := map[string]any{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, usagef("%q is neither KEY=VALUE nor JSON", arg)
		}
		if err := a.set(tree, m.Input(), key, value); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return jsonRequests(m, []string{string(data)})
}

func jsonRequests(m protoreflect.MethodDescriptor, args []string) ([]proto.Message, error) {
	if len(args) > 1 && !m.IsStreamingClient() {
		return nil, usagef("%s takes one request, here are %d", m.Name(), len(args))
	}
	var out []proto.Message
	for _, arg := range args {
		msg := dynamicpb.NewMessage(m.Input())
		if err := protojson.Unmarshal([]byte(arg), msg); err != nil {
			return nil, usagef("the request of %s: %w", m.Name(), err)
		}
		out = append(out, msg)
	}
	return out, nil
}

// set puts a value at a dotted key, in the terms of protojson.
func (a *app) set(tree map[string]any, md protoreflect.MessageDescriptor, key, text string) error {
	head, rest, nested := strings.Cut(key, ".")
	field := md.Fields().ByJSONName(head)
	if field == nil {
		field = md.Fields().ByTextName(head)
	}
	if field == nil {
		return usagef("%s has no field %q; it has %s", md.Name(), head, fieldNames(md))
	}
	name := field.JSONName()
	if nested {
		if field.Message() == nil || field.IsList() {
			return usagef("field %q of %s is no message", head, md.Name())
		}
		below, ok := tree[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			tree[name] = below
		}
		return a.set(below, field.Message(), rest, text)
	}
	value, err := a.value(field, text)
	if err != nil {
		return err
	}
	if _, whole := value.([]any); field.IsList() && !whole {
		list, _ := tree[name].([]any)
		value = append(list, value)
	}
	tree[name] = value
	return nil
}

func fieldNames(md protoreflect.MessageDescriptor) string {
	var names []string
	for i := range md.Fields().Len() {
		names = append(names, string(md.Fields().Get(i).Name()))
	}
	return strings.Join(names, ", ")
}

// value is text in the type of its field.
func (a *app) value(field protoreflect.FieldDescriptor, text string) (any, error) {
	content, err := a.content(text)
	if err != nil {
		return nil, err
	}
	if field.IsList() && strings.HasPrefix(content, "[") {
		var list []any
		err := json.Unmarshal([]byte(content), &list)
		return list, asUsage(field, err)
	}
	switch field.Kind() {
	case protoreflect.BytesKind:
		return []byte(content), nil
	case protoreflect.BoolKind, protoreflect.MessageKind:
		var v any
		err := json.Unmarshal([]byte(content), &v)
		return v, asUsage(field, err)
	case protoreflect.StringKind, protoreflect.EnumKind:
		if !utf8.ValidString(content) {
			return nil, usagef("the value of %s is not UTF-8: %q; a field raw_%[1]s takes other bytes, if there is one", field.Name(), content)
		}
		return content, nil
	}
	return strings.TrimSpace(content), nil // protojson takes numbers in quotes
}

func asUsage(field protoreflect.FieldDescriptor, err error) error {
	if err == nil {
		return nil
	}
	return usagef("the value of %s: %w", field.Name(), err)
}

// content reads @file.
func (a *app) content(text string) (string, error) {
	file, ok := strings.CutPrefix(text, "@")
	if !ok || strings.HasPrefix(file, "@") {
		return strings.TrimPrefix(text, "@"), nil
	}
	if file == "-" {
		data, err := io.ReadAll(a.env.Stdin)
		return string(data), err
	}
	data, err := os.ReadFile(file)
	return string(data), err
}
