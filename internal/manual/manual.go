// Package manual has the contract with its comments. The code that protoc-gen-go makes has none, so a program that is to print them, or
// to give them to gRPC tools, needs this package. It reads an embedded file, which make generate builds, and nothing else.
package manual

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	// The options of the methods are extensions that this package registers.
	_ "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// encoded is a google.protobuf.FileDescriptorSet of package ctxfs.v1.
//
//go:embed ctxfs.binpb
var encoded []byte

// Files resolves the files and names of package ctxfs.v1 to descriptors with comments, and all others to those of the program.
type Files struct{ own protoregistry.Files }

// Load returns the contract. It parses the embedded file once.
var Load = sync.OnceValues(load)

func load() (*Files, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(encoded, &set); err != nil {
		return nil, fmt.Errorf("reading the embedded contract: %w", err)
	}
	f := &Files{}
	for _, file := range set.GetFile() { // buf writes a file after those that it imports
		desc, err := protodesc.NewFile(file, f)
		if err != nil {
			return nil, fmt.Errorf("reading %s of the embedded contract: %w", file.GetName(), err)
		}
		if err := f.own.RegisterFile(desc); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// FindFileByPath implements protodesc.Resolver.
func (f *Files) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if desc, err := f.own.FindFileByPath(path); err == nil {
		return desc, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (f *Files) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if desc, err := f.own.FindDescriptorByName(name); err == nil {
		return desc, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// Services returns the services of package ctxfs.v1, by name.
func (f *Files) Services() []protoreflect.ServiceDescriptor {
	var all []protoreflect.ServiceDescriptor
	f.own.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			all = append(all, file.Services().Get(i))
		}
		return true
	})
	slices.SortFunc(all, func(a, b protoreflect.ServiceDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	return all
}

// Comment returns the comment of a descriptor without the slashes; "" for a descriptor without a comment.
func Comment(d protoreflect.Descriptor) string {
	loc := d.ParentFile().SourceLocations().ByDescriptor(d)
	text := loc.LeadingComments
	if text == "" {
		text = loc.TrailingComments
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, " ")
	}
	return strings.Join(lines, "\n")
}

// TypeOf returns the type of a field as a reader of JSON needs it: "string", "list of Stat", "map of string to Any".
func TypeOf(f protoreflect.FieldDescriptor) string {
	if f.IsMap() {
		return "map of " + TypeOf(f.MapKey()) + " to " + TypeOf(f.MapValue())
	}
	name := f.Kind().String()
	switch {
	case f.Message() != nil:
		name = string(f.Message().Name())
	case f.Enum() != nil:
		name = string(f.Enum().Name())
	}
	switch {
	case f.IsList():
		return "list of " + name
	case f.ContainingOneof() != nil && !f.ContainingOneof().IsSynthetic():
		return name + ", one of " + string(f.ContainingOneof().Name())
	case f.HasOptionalKeyword():
		return "optional " + name
	}
	return name
}
