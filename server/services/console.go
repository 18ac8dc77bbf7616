package services

import (
	"context"
	"time"

	"github.com/ctxfs/ctxfs/console"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Audit reads the audit log of a server.
type Audit interface {
	// Read sends what ReadAudit reports. It returns an error of ctx when that ends.
	Read(ctx context.Context, req *ctxfsv1.ReadAuditRequest, send func(*ctxfsv1.ReadAuditResponse) error) error
}

// Samples are the measurements of a server.
type Samples interface {
	// Watch sends what WatchMetrics reports. It returns an error of ctx when that ends.
	Watch(ctx context.Context, send func(*ctxfsv1.WatchMetricsResponse) error) error
}

// Console implements ConsoleService.
type Console struct {
	ctxfsv1.UnimplementedConsoleServiceServer
	Consoles *console.Registry
	// URL is that of the page; "" if the server has no address for it.
	URL string
	// Audit is nil when there is no audit log.
	Audit   Audit
	Samples Samples
}

// OpenConsole implements ConsoleService.
func (s *Console) OpenConsole(_ context.Context, req *ctxfsv1.OpenConsoleRequest) (*ctxfsv1.OpenConsoleResponse, error) {
	if s.URL == "" {
		return nil, fserrpb.ToStatus(&fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "this server shows no console", Hint: "start the server with --http 127.0.0.1:7421"})
	}
	ttl, err := ttlOf(req.GetTtlMs())
	var code string
	var expires time.Time
	if err == nil {
		code, expires, err = s.Consoles.Open(ttl)
	}
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return &ctxfsv1.OpenConsoleResponse{Url: s.URL + "#code=" + code, Code: code, ExpiresNs: ns(expires)}, nil
}

// EndConsole implements ConsoleService.
func (s *Console) EndConsole(ctx context.Context, _ *ctxfsv1.EndConsoleRequest) (*ctxfsv1.EndConsoleResponse, error) {
	caller := panels.IdentityFrom(ctx)
	if !caller.Console {
		return &ctxfsv1.EndConsoleResponse{Ended: int32(s.Consoles.EndAll())}, nil
	}
	ended := int32(0)
	if s.Consoles.End(caller.TokenHash) {
		ended = 1
	}
	return &ctxfsv1.EndConsoleResponse{Ended: ended}, nil
}

// ReadAudit implements ConsoleService.
func (s *Console) ReadAudit(req *ctxfsv1.ReadAuditRequest, stream ctxfsv1.ConsoleService_ReadAuditServer) error {
	if s.Audit == nil {
		return fserrpb.ToStatus(&fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "this server keeps no audit log", Hint: "start the server with --audit-log PATH"})
	}
	return fserrpb.ToStatus(s.Audit.Read(stream.Context(), req, stream.Send))
}

// WatchMetrics implements ConsoleService.
func (s *Console) WatchMetrics(_ *ctxfsv1.WatchMetricsRequest, stream ctxfsv1.ConsoleService_WatchMetricsServer) error {
	return fserrpb.ToStatus(s.Samples.Watch(stream.Context(), stream.Send))
}
