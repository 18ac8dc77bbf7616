// Package openapi describes the RPCs that a server answers as JSON over HTTP, in an OpenAPI 3.1 document. The document is made from
// the contract and its comments (internal/manual) and from the method table, so no RPC is described by hand. It owns the shape of that
// document, and serves nothing.
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/internal/manual"
	"github.com/ctxfs/ctxfs/internal/method"
)

// Document returns the document in JSON. It is made once.
var Document = sync.OnceValues(document)

type object = map[string]any

// about is the document's description.
const about = `Each call is a POST whose body is the request in JSON, and whose answer is the response in JSON. An empty body is a request without fields.

Names of fields are in lowerCamelCase; requests may use the names of the protos (snake_case) too. 64-bit integers are strings, bytes are base64, enums are names; in requests, integers and enums may be numbers. A field that is absent has its zero value. A field that the request does not have is an error.

An RPC that streams its response answers with application/x-ndjson: a JSON object on each line, sent at once. A stream that fails after it has begun ends with a line {"error": Status} and with the trailer Ctxfs-Error. A client that closes its connection cancels the call.

An error is a google.rpc.Status with the HTTP status of its code. The header Ctxfs-Error has the name of the errno, or the reason of a refusal, as in docs/reference/errors.md.

Files of any size are read by GET /v1/content and written by PUT /v1/content, without JSON; docs/reference/operations.md describes both.`

func document() ([]byte, error) {
	files, err := manual.Load()
	if err != nil {
		return nil, err
	}
	d := &describer{schemas: object{}}
	paths, tags := object{}, []object{}
	for _, s := range files.Services() {
		tags = append(tags, object{"name": s.Name(), "description": manual.Comment(s)})
		for i := range s.Methods().Len() {
			if m := s.Methods().Get(i); !m.IsStreamingClient() {
				paths["/v1/"+string(s.Name())+"/"+string(m.Name())] = object{"post": d.operation(m)}
			}
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	addFixed(d.schemas)
	all := object{
		"openapi": "3.1.0",
		"info":    object{"title": "ctxfs", "version": "v1", "summary": "A gRPC filesystem service, as JSON over HTTP", "description": about},
		"servers": []object{{"url": "http://127.0.0.1:7421", "description": "the address of ctxfs serve --http"}},
		"tags":    tags, "paths": paths, "security": []object{{"token": []string{}}},
		"components": object{"schemas": d.schemas, "parameters": parameters, "responses": responses, "securitySchemes": object{
			"token": object{"type": "http", "scheme": "bearer", "description": "a panel's token, or the host token. The unix socket needs none for the server's own user."},
		}},
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	err = out.Encode(all)
	return text.Bytes(), err
}

// describer describes RPCs, and the messages and enums that they use.
type describer struct {
	schemas object
	// err is the first failure.
	err error
}

// operation describes an RPC.
func (d *describer) operation(m protoreflect.MethodDescriptor) object {
	comment := manual.Comment(m)
	summary, _, _ := strings.Cut(strings.ReplaceAll(comment, "\n", " "), ". ")
	kind, schema, text := "application/json", d.message(m.Output()), "The response."
	if m.IsStreamingServer() {
		kind, text = "application/x-ndjson", "A response on each line."
		schema = object{"anyOf": []object{schema, ref("schemas", "StreamError")}}
	}
	return object{
		"operationId": string(m.Parent().Name()) + "_" + string(m.Name()), "tags": []string{string(m.Parent().Name())},
		"summary": strings.TrimSuffix(summary, "."), "description": comment + "\n\nIt is " + method.New(m).Summary() + ".",
		"parameters":  []object{ref("parameters", "panel"), ref("parameters", "timeout"), ref("parameters", "requestID")},
		"requestBody": object{"content": object{"application/json": object{"schema": d.message(m.Input())}}},
		"responses": object{
			"200":     object{"description": text, "content": object{kind: object{"schema": schema}}},
			"default": ref("responses", "error"),
		},
	}
}

func ref(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

// nameOf returns the name of a message's or an enum's schema.
func nameOf(desc protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(desc.FullName()), string(desc.ParentFile().Package())+".")
}

// message returns a reference to the schema of a message, and describes it when it is the first.
func (d *describer) message(m protoreflect.MessageDescriptor) object {
	name := nameOf(m)
	if _, known := d.schemas[name]; known {
		return ref("schemas", name)
	}
	if m.ParentFile().Package() != "ctxfs.v1" && m.FullName() != "google.protobuf.Any" && d.err == nil {
		d.err = fmt.Errorf("%s has a form of its own in JSON, which this package does not describe", m.FullName())
	}
	properties := object{}
	schema := object{"type": "object", "properties": properties}
	d.schemas[name] = schema // before its fields, since a message may have itself as a field
	if m.FullName() == "google.protobuf.Any" {
		return ref("schemas", name) // addFixed describes it
	}
	describe(schema, manual.Comment(m))
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		field := d.field(f)
		describe(field, manual.Comment(f)+oneOf(f))
		properties[f.JSONName()] = field
	}
	return ref("schemas", name)
}

func describe(schema object, text string) {
	if text = strings.TrimSpace(text); text != "" {
		schema["description"] = text
	}
}

// oneOf returns the sentence about the other fields of a oneof; "" for a field of none.
func oneOf(f protoreflect.FieldDescriptor) string {
	group := f.ContainingOneof()
	if group == nil || group.IsSynthetic() || group.Fields().Len() == 1 {
		return ""
	}
	var names []string
	for i := range group.Fields().Len() {
		names = append(names, group.Fields().Get(i).JSONName())
	}
	return "\nOnly one is set of: " + strings.Join(names, ", ") + "."
}

// field returns the schema of a field.
func (d *describer) field(f protoreflect.FieldDescriptor) object {
	switch {
	case f.IsMap():
		return object{"type": "object", "additionalProperties": d.value(f.MapValue())}
	case f.IsList():
		return object{"type": "array", "items": d.value(f)}
	}
	return d.value(f)
}

// value returns the schema of a single value of a field, in the JSON of protobuf (https://protobuf.dev/programming-guides/json).
func (d *describer) value(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return object{"type": "integer", "format": "int32"}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return object{"type": "integer", "format": "int64", "minimum": 0, "maximum": 1<<32 - 1}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return object{"type": "string", "format": "int64", "pattern": "^-?[0-9]+$"}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return object{"type": "string", "format": "uint64", "pattern": "^[0-9]+$"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return object{"type": []string{"number", "string"}, "format": "double"} // NaN and Infinity are strings
	case protoreflect.EnumKind:
		return d.enum(f.Enum())
	}
	return d.message(f.Message())
}

// enum returns a reference to the schema of an enum.
func (d *describer) enum(e protoreflect.EnumDescriptor) object {
	var names, about []string
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		names = append(names, string(v.Name()))
		about = append(about, "- "+string(v.Name())+": "+manual.Comment(v))
	}
	schema := object{"type": "string", "enum": names}
	describe(schema, manual.Comment(e)+"\n"+strings.Join(about, "\n"))
	d.schemas[nameOf(e)] = schema
	return ref("schemas", nameOf(e))
}

// addFixed adds the schemas of errors.
func addFixed(schemas object) {
	schemas["Any"] = object{
		"type": "object", "description": "A message of any type, with the URL of its type in @type.",
		"properties": object{"@type": object{"type": "string"}}, "required": []string{"@type"}, "additionalProperties": true,
	}
	schemas["Status"] = object{
		"type": "object", "description": "An error, as google.rpc.Status.", "required": []string{"code", "message"},
		"properties": object{
			"code":    object{"type": "integer", "format": "int32", "description": "The gRPC code, such as 5 for NOT_FOUND."},
			"message": object{"type": "string", "description": "The error for people: ENOENT: no such file or directory, open '/a.txt'."},
			"details": object{
				"type": "array", "items": ref("schemas", "Any"),
				"description": "A google.rpc.ErrorInfo of the domain ctxfs: its reason is the errno's name, and its metadata have errno, syscall, path, dest and hint. A google.rpc.RetryInfo says when to call again.",
			},
		},
	}
	schemas["StreamError"] = object{
		"type": "object", "description": "The last line of a stream that has failed.", "required": []string{"error"},
		"properties": object{"error": ref("schemas", "Status")},
	}
}

var parameters = object{
	"panel":     parameter("Ctxfs-Panel", "The panel that a host acts for. A panel does not send it."),
	"timeout":   parameter("Ctxfs-Timeout", "How long the call may take, as 5s or 500ms."),
	"requestID": parameter("X-Request-Id", "An ID of the call for the server's log, of at most 64 printable characters. The answer of a call that fails has the ID."),
}

func parameter(name, text string) object {
	return object{"name": name, "in": "header", "description": text, "schema": object{"type": "string"}}
}

var responses = object{"error": object{
	"description": "The call failed.",
	"headers":     object{"Ctxfs-Error": object{"description": "The name of the errno, such as ENOENT, or the reason of a refusal, such as CONFLICT.", "schema": object{"type": "string"}}},
	"content":     object{"application/json": object{"schema": ref("schemas", "Status")}},
}}
