package server

import (
	"strings"

	"google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// access is who may call an RPC.
type access uint8

// The zero access is nobody: an RPC without options is refused.
const (
	forNobody access = iota
	forHost
	forPanel // and hosts
	forAll
)

// foreign are gRPC's own services, whose protos have no options of ours.
var foreign = map[string]access{
	grpc_health_v1.Health_ServiceDesc.ServiceName:           forAll,
	reflectv1.ServerReflection_ServiceDesc.ServiceName:      forHost,
	reflectv1alpha.ServerReflection_ServiceDesc.ServiceName: forHost,
	grpc_channelz_v1.Channelz_ServiceDesc.ServiceName:       forHost,
}

// accessOf returns who may call a method.
func accessOf(m *method.Method) access {
	switch m.Callers() {
	case ctxfsv1.Callers_CALLERS_HOST:
		return forHost
	case ctxfsv1.Callers_CALLERS_PANEL:
		return forPanel
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(m.Name, "/"), "/")
	return foreign[service]
}
