package cli

import (
	"encoding/json"
	"io"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

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
