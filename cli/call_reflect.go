package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// describer asks a server what it serves (grpc.reflection.v1).
type describer struct {
	stream reflectionpb.ServerReflection_ServerReflectionInfoClient
	files  map[string]*descriptorpb.FileDescriptorProto
}

// findMethod resolves a method's name, with or without its service and package. Where the
// server does not describe itself, as to a panel, what this program was built with serves.
func findMethod(ctx context.Context, cc grpc.ClientConnInterface, name string) (protoreflect.MethodDescriptor, error) {
	stream, err := reflectionpb.NewServerReflectionClient(cc).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, plainError(err)
	}
	d := &describer{stream: stream, files: map[string]*descriptorpb.FileDescriptorProto{}}
	services, err := d.services()
	if code := status.Code(err); code == codes.PermissionDenied || code == codes.Unimplemented {
		return pick(protoregistry.GlobalFiles, builtIn(), name)
	}
	if err != nil {
		return nil, plainError(err)
	}
	registry, err := d.load(services)
	if err != nil {
		return nil, fmt.Errorf("the server's description cannot be read: %w", err)
	}
	return pick(registry, services, name)
}

// builtIn names the services of ctxfs that this program knows.
func builtIn() []string {
	var names []string
	protoregistry.GlobalFiles.RangeFilesByPackage("ctxfs.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			names = append(names, string(f.Services().Get(i).FullName()))
		}
		return true
	})
	return names
}

// methodsOf names the methods of services that this program knows.
func methodsOf(services []string) (names []string) {
	for _, s := range services {
		if d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s)); err == nil {
			for methods, i := d.(protoreflect.ServiceDescriptor).Methods(), 0; i < methods.Len(); i++ {
				names = append(names, string(methods.Get(i).Name()))
			}
		}
	}
	return names
}

// pick finds a method; one of ctxfs goes before one of another service.
func pick(registry *protoregistry.Files, services []string, name string) (protoreflect.MethodDescriptor, error) {
	service, method, ok := strings.Cut(strings.Trim(name, "/"), "/")
	if !ok {
		service, method = "", service
	}
	var found []protoreflect.MethodDescriptor
	var names []string
	for _, s := range services {
		desc, err := registry.FindDescriptorByName(protoreflect.FullName(s))
		sd, isService := desc.(protoreflect.ServiceDescriptor)
		if err != nil || !isService {
			continue
		}
		own := strings.HasPrefix(s, "ctxfs.")
		for i := range sd.Methods().Len() {
			if own {
				names = append(names, string(sd.Methods().Get(i).Name()))
			}
		}
		if service != "" && s != service && !strings.HasSuffix(s, "."+service) {
			continue
		}
		if m := methodOf(sd, method); m != nil {
			if own && service == "" {
				return m, nil // Watch is the files', not the health service's
			}
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, usagef("the server has no method %q%s; it has %s", name, didYouMean(method, names), strings.Join(names, ", "))
	}
	return nil, usagef("several services have %q: name %s/%s or %s/%s", name, found[0].Parent().FullName(), method, found[1].Parent().FullName(), method)
}

// methodOf finds a method whatever its case: readFile is Node's name of ReadFile.
func methodOf(sd protoreflect.ServiceDescriptor, name string) protoreflect.MethodDescriptor {
	for i := range sd.Methods().Len() {
		if m := sd.Methods().Get(i); strings.EqualFold(string(m.Name()), name) {
			return m
		}
	}
	return nil
}

func (d *describer) ask(req *reflectionpb.ServerReflectionRequest) (*reflectionpb.ServerReflectionResponse, error) {
	if err := d.stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} // io.EOF means that the server has ended the stream, and Recv returns why
	r, err := d.stream.Recv()
	if err != nil {
		return nil, err
	}
	if e := r.GetErrorResponse(); e != nil {
		return nil, errors.New(e.GetErrorMessage())
	}
	return r, nil
}

func (d *describer) services() ([]string, error) {
	r, err := d.ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range r.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	return names, nil
}

// load fetches the files of all services, with those that they import.
func (d *describer) load(services []string) (*protoregistry.Files, error) {
	for _, s := range services {
		err := d.fetch(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: s}})
		if err != nil {
			return nil, err
		}
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range d.files {
		set.File = append(set.File, f)
	}
	return protodesc.NewFiles(set)
}

func (d *describer) fetch(req *reflectionpb.ServerReflectionRequest) error {
	r, err := d.ask(req)
	if err != nil {
		return err
	}
	for _, data := range r.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var f descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(data, &f); err != nil {
			return err
		}
		d.files[f.GetName()] = &f
	}
	return d.fetchImports()
}

func (d *describer) fetchImports() error {
	for _, f := range d.files {
		for _, dep := range f.GetDependency() {
			if d.files[dep] == nil {
				return d.fetch(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: dep}})
			}
		}
	}
	return nil
}
