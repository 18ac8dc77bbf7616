package client

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// ApplyChecked runs checks on the result of an Apply and then applies. It calls report for what the checks do, and for what was applied.
// It fails with ReasonCheckFailed if a check fails that is not optional.
func (r *Review) ApplyChecked(ctx context.Context, req *ctxfsv1.ApplyCheckedRequest, report func(*ctxfsv1.ApplyCheckedResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req.Apply.ContextId = r.id
	req.Checks = slices.Clone(req.GetChecks())
	for i, c := range req.GetChecks() {
		if argv, raw := rawArgv(c.GetArgv()); len(raw) > 0 {
			c, _ = proto.Clone(c).(*ctxfsv1.Check)
			c.Argv, c.RawArgv = argv, raw
			req.Checks[i] = c
		}
	}
	stream, err := r.c.reviews().ApplyChecked(ctx, req)
	if err == nil {
		err = each(stream, report)
	}
	var refused *ReviewError
	if e := reviewError("apply", err); errors.As(e, &refused) {
		return e
	}
	return execError("apply", err)
}
