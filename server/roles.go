package server

import (
	"strings"

	"google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// access says who may call an RPC.
type access uint8

// The zero access is nobody: an RPC that is not in the table is refused.
const (
	forNobody access = iota
	forHost
	forPanel // and hosts
	forAll
)

// rules is the table of RPC by role. A method's own rule goes before its
// service's ("/service/").
var rules = map[string]access{
	"/" + ctxfsv1.FsService_ServiceDesc.ServiceName + "/":               forPanel,
	ctxfsv1.ContextService_GetInfo_FullMethodName:                       forPanel,
	ctxfsv1.ContextService_EnsureContext_FullMethodName:                 forHost,
	ctxfsv1.ContextService_GetContext_FullMethodName:                    forHost,
	ctxfsv1.ContextService_ListContexts_FullMethodName:                  forHost,
	ctxfsv1.ContextService_PlanSeed_FullMethodName:                      forHost,
	ctxfsv1.ContextService_DeleteContext_FullMethodName:                 forHost,
	ctxfsv1.ContextService_Fork_FullMethodName:                          forHost,
	ctxfsv1.ContextService_Snapshot_FullMethodName:                      forHost,
	ctxfsv1.ContextService_ListSnapshots_FullMethodName:                 forHost,
	ctxfsv1.ContextService_Restore_FullMethodName:                       forHost,
	ctxfsv1.ContextService_DeleteSnapshot_FullMethodName:                forHost,
	ctxfsv1.ContextService_CollectGarbage_FullMethodName:                forHost,
	ctxfsv1.PanelService_OpenPanel_FullMethodName:                       forHost,
	ctxfsv1.PanelService_RenewToken_FullMethodName:                      forHost,
	ctxfsv1.PanelService_ClosePanel_FullMethodName:                      forHost,
	ctxfsv1.PanelService_ListPanels_FullMethodName:                      forHost,
	ctxfsv1.TemplateService_ExplainTemplate_FullMethodName:              forHost,
	ctxfsv1.TemplateService_BuildTemplate_FullMethodName:                forHost,
	ctxfsv1.TemplateService_ListTemplates_FullMethodName:                forHost,
	"/" + grpc_health_v1.Health_ServiceDesc.ServiceName + "/":           forAll,
	"/" + reflectv1.ServerReflection_ServiceDesc.ServiceName + "/":      forHost,
	"/" + reflectv1alpha.ServerReflection_ServiceDesc.ServiceName + "/": forHost,
	"/" + grpc_channelz_v1.Channelz_ServiceDesc.ServiceName + "/":       forHost,
}

// accessOf returns who may call a method, named "/service/method".
func accessOf(method string) access {
	if a, ok := rules[method]; ok {
		return a
	}
	if i := strings.LastIndexByte(method, '/'); i > 0 {
		return rules[method[:i+1]]
	}
	return forNobody
}

// usesContext says that a method works in the caller's context, so that a host may
// act for a panel in it.
func usesContext(method string) bool { return accessOf(method) == forPanel }
