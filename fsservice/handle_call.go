package fsservice

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/panels"
)

// handleCall is one operation on an open file, behind the gate of its context.
type handleCall struct {
	context.Context
	id     panels.Identity
	access *contexts.Access
	handle *handles.Handle
}

type fdRequest interface {
	GetContextId() string
	GetFd() int32
}

// onHandle runs f for a request with a handle. The gate is opened for this operation
// alone, and the handle must be of the context's present generation.
func onHandle[T any](ctx context.Context, s *Service, op string, w access, req fdRequest, f func(*handleCall) (T, error)) (T, error) {
	resp, err := useHandle(ctx, s, w, req, f)
	return resp, failAt(err, op, "", "")
}

func useHandle[T any](ctx context.Context, s *Service, w access, req fdRequest, f func(*handleCall) (T, error)) (T, error) {
	var none T
	h, release, id, err := s.hold(ctx, w, req)
	if err != nil {
		return none, err
	}
	defer release()
	a, err := s.reacquire(ctx, h.Context, h.Generation, w)
	if err != nil {
		return none, err
	}
	defer a.Release()
	return f(&handleCall{ctx, id, a, h})
}

// hold looks the caller's handle up and keeps it open until release.
func (s *Service) hold(ctx context.Context, w access, req fdRequest) (*handles.Handle, func(), panels.Identity, error) {
	id := panels.IdentityFrom(ctx)
	if id.Role == panels.RoleNone {
		return nil, nil, id, &fserr.Error{Code: fserr.EACCES, Detail: "the caller is not known"}
	}
	h, release, err := s.handles.Use(id.Owner, req.GetFd(), req.GetContextId())
	if err != nil {
		return nil, nil, id, err
	}
	if w == writes {
		if err := readOnly(id); err != nil {
			release()
			return nil, nil, id, err
		}
	}
	return h, release, id, nil
}
