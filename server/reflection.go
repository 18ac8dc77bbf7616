package server

import (
	"google.golang.org/grpc/reflection"
	reflectv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/ctxfs/ctxfs/internal/manual"
)

// registerReflection serves gRPC reflection with the comments of the protos, which tools such as grpcurl print.
func registerReflection(registry reflection.GRPCServer) error {
	files, err := manual.Load()
	if err != nil {
		return err
	}
	opts := reflection.ServerOptions{Services: registry, DescriptorResolver: files}
	reflectv1alpha.RegisterServerReflectionServer(registry, reflection.NewServer(opts))
	reflectv1.RegisterServerReflectionServer(registry, reflection.NewServerV1(opts))
	return nil
}
