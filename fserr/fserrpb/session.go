package fserrpb

import (
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// ToSession returns err as a session's error message: what ToStatus would say by a status.
func ToSession(err error) *ctxfsv1.SessionError {
	err = ToStatus(err)
	var done *statusError
	if !errors.As(err, &done) {
		return plain(status.Convert(err))
	}
	return &ctxfsv1.SessionError{
		Code: int32(done.code), Message: messageOf(done.e), Reason: done.e.Code.String(), Metadata: metadataOf(done.e),
		RetryAfterMs: done.e.RetryAfter.Milliseconds(),
	}
}

// plain is a status that was made elsewhere; one of ctxfs keeps its details.
func plain(st *status.Status) *ctxfsv1.SessionError {
	m := &ctxfsv1.SessionError{Code: int32(st.Code()), Message: st.Message()}
	if info, retry := detailsOf(st); info != nil {
		m.Reason, m.Metadata, m.RetryAfterMs = info.GetReason(), info.GetMetadata(), retry.Milliseconds()
	}
	for _, d := range st.Proto().GetDetails() {
		if !d.MessageIs((*errdetails.ErrorInfo)(nil)) && !d.MessageIs((*errdetails.RetryInfo)(nil)) {
			m.Details = append(m.Details, d)
		}
	}
	return m
}

// FromSession returns a session's error message as the error that the RPC itself would
// have given: a gRPC status, and for FromStatus the *fserr.Error in it.
func FromSession(m *ctxfsv1.SessionError) error {
	code := codes.Code(uint32(m.GetCode()))
	if m.GetReason() == "" {
		return status.Error(code, m.GetMessage())
	}
	if len(m.GetDetails()) > 0 {
		return withDetails(code, m)
	}
	e := errorOf(m.GetReason(), code, m.GetMetadata())
	e.RetryAfter = time.Duration(m.GetRetryAfterMs()) * time.Millisecond
	return &statusError{e, code}
}

// withDetails returns a status with the details of a session's error message.
func withDetails(code codes.Code, m *ctxfsv1.SessionError) error {
	info, err := anypb.New(&errdetails.ErrorInfo{Reason: m.GetReason(), Domain: Domain, Metadata: m.GetMetadata()})
	if err != nil {
		return status.Error(code, m.GetMessage())
	}
	return status.FromProto(&spb.Status{Code: int32(code), Message: m.GetMessage(), Details: append([]*anypb.Any{info}, m.GetDetails()...)}).Err()
}
