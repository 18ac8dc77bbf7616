package server

import (
	"context"

	"github.com/ctxfs/ctxfs/fsservice"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// changed puts a call into the feed of its context, once, before it is answered.
func (i *interceptors) changed(ctx context.Context, c *call, req, resp any, err error) {
	if !i.changes.Active() || c.recorded.Swap(true) {
		return
	}
	i.changes.Record(ctx, fsservice.Recorded{
		Method: c.method, ID: c.id, Handle: c.handle(), Req: req, Resp: resp, Err: err, RequestID: func() string { return i.requestID(ctx, c) },
	})
}

// note records what is known only before the call, which may close its handle.
func (i *interceptors) note(c *call, req any) {
	if a := i.aboutHandle(c, req); a != nil {
		c.about.Store(a)
	}
}

// aboutHandle returns what the handle stands for that a call is about; nil when there is none, or when nothing records the call.
func (i *interceptors) aboutHandle(c *call, req any) *about {
	if i.audit == nil && !i.changes.Active() || !audited(c.method, req) {
		return nil
	}
	if r, ok := req.(*ctxfsv1.WriteStreamRequest); ok {
		req = r.GetOpen()
	}
	r, ok := req.(interface{ GetFd() int32 })
	if !ok || r.GetFd() == 0 {
		return nil
	}
	spec, ok := i.handleOf(c.id.Owner, r.GetFd())
	if !ok {
		return nil
	}
	return &about{handle: &spec}
}
