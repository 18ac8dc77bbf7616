package fsservice

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts/feed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Feeds has the feeds of changes (feed.Feeds).
type Feeds interface {
	// Read returns a reader of a context's feed that begins behind a cursor.
	Read(context, cursor string) (*feed.Reader, error)
}

// feeds has the RPC that reports changes from a feed.
type feeds struct {
	*opener
	all Feeds
}

// WatchChanges implements FsService. The gate is open only while the feed is opened, so that the context can be deleted, which ends the
// call.
func (s *feeds) WatchChanges(req *ctxfsv1.WatchChangesRequest, stream grpc.ServerStreamingServer[ctxfsv1.WatchChangesResponse]) error {
	path, err := pathOf(req.GetPath(), req.GetRawPath())
	if err == nil {
		err = s.watchChanges(stream.Context(), req, absolute(path), &bounded{stream.Context(), stream, make(chan struct{}, maxUnwritten)})
	}
	return fail(err, "watchChanges", path, "")
}

func (s *feeds) watchChanges(ctx context.Context, req *ctxfsv1.WatchChangesRequest, path string, out *bounded) error {
	r, err := s.read(ctx, req)
	if err != nil {
		return err
	}
	defer r.Close()
	quiet := time.NewTimer(watchKeepalive)
	defer quiet.Stop()
	for ready := false; ; {
		if err := sendChanges(ctx, r, path, out, quiet); err != nil {
			return err
		}
		if !ready {
			ready = true
			err := out.send(&ctxfsv1.WatchChangesResponse{Notice: &ctxfsv1.WatchChangesResponse_Ready{Ready: &ctxfsv1.FeedReady{Cursor: r.Cursor()}}})
			if err != nil || req.Follow != nil && !req.GetFollow() {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.Grown():
		case <-quiet.C:
			err := out.send(&ctxfsv1.WatchChangesResponse{Notice: &ctxfsv1.WatchChangesResponse_Keepalive{Keepalive: &ctxfsv1.FeedKeepalive{Cursor: r.Cursor()}}})
			if err != nil {
				return err
			}
			quiet.Reset(watchKeepalive)
		}
	}
}

// read opens the feed of the context that a request is about.
func (s *feeds) read(ctx context.Context, req *ctxfsv1.WatchChangesRequest) (*feed.Reader, error) {
	if s.all == nil {
		return nil, &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "this server keeps no feeds of changes"}
	}
	a, id, err := s.acquire(ctx, req.GetContextId(), reads)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	if id.Snapshot != "" {
		return nil, fserr.Invalid("a snapshot does not change, and has no feed")
	}
	r, err := s.all.Read(string(id.Context), req.GetCursor())
	if fserr.CodeOf(err) == fserr.ENOSPC {
		return nil, &fserr.Error{Code: fserr.ENOSPC, Detail: "no space for a feed of changes on the server's disk", Hint: "free some space, or delete contexts", Err: err}
	}
	return r, err
}

// sendChanges sends what the feed has by now of a path and of what is below it.
func sendChanges(ctx context.Context, r *feed.Reader, path string, out *bounded, quiet *time.Timer) error {
	for ctx.Err() == nil {
		e, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		msg, err := feedMessage(e, path)
		if msg == nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := out.send(msg); err != nil {
			return err
		}
		quiet.Reset(watchKeepalive)
	}
	return ctx.Err()
}

// feedMessage returns the message of an event; nil for a change that is not about the path.
func feedMessage(e feed.Event, path string) (*ctxfsv1.WatchChangesResponse, error) {
	if e.Reset != "" {
		return &ctxfsv1.WatchChangesResponse{Notice: &ctxfsv1.WatchChangesResponse_Reset_{Reset_: &ctxfsv1.FeedReset{Cursor: e.Cursor, Reason: e.Reset}}}, nil
	}
	c := &ctxfsv1.FeedChange{}
	if err := proto.Unmarshal(e.Record, c); err != nil {
		return nil, fmt.Errorf("read a change: %w", err)
	}
	if !concerns(c, path) {
		return nil, nil //nolint:nilnil // there is nothing to send
	}
	c.Cursor, c.Sequence = e.Cursor, int64(e.Sequence)
	return &ctxfsv1.WatchChangesResponse{Notice: &ctxfsv1.WatchChangesResponse_Change{Change: c}}, nil
}

// concerns reports whether a change may be about a path, or about what is below it.
func concerns(c *ctxfsv1.FeedChange, path string) bool {
	if path == "/" {
		return true
	}
	hits := func(text string, raw []byte) bool {
		p := text + string(raw)
		return p != "" && (isBelow(p, path) || c.GetBelow() && isBelow(path, p))
	}
	if len(c.GetSteps()) == 0 && hits(c.GetPath(), c.GetRawPath()) || hits(c.GetDest(), c.GetRawDest()) {
		return true
	}
	for _, p := range c.GetAlso() {
		if hits(p.GetPath(), p.GetRawPath()) {
			return true
		}
	}
	for _, s := range c.GetSteps() {
		if hits(s.GetPath(), s.GetRawPath()) || hits(s.GetDest(), s.GetRawDest()) {
			return true
		}
	}
	return false
}

// isBelow reports whether an absolute path is dir, or below it.
func isBelow(p, dir string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

// bounded is a stream whose messages wait once the transport has some that it has not written: it counts only their bytes.
type bounded struct {
	ctx       context.Context //nolint:containedctx // the stream's
	stream    grpc.ServerStream
	unwritten chan struct{}
}

// send counts a message in the memory budget until the transport has written it, unless it is small.
func (b *bounded) send(m proto.Message) error {
	select {
	case b.unwritten <- struct{}{}:
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
	n := int64(proto.Size(m))
	if n <= budget.Small {
		return b.stream.SendMsg(&codec.Outgoing{Message: m, Written: func() { <-b.unwritten }})
	}
	held := budget.Of(b.ctx).More()
	if err := held.Wait(b.ctx, n); err != nil {
		return budget.Refusal(err, "a change")
	}
	err := b.stream.SendMsg(&codec.Outgoing{Message: m, Written: func() {
		held.Release()
		<-b.unwritten
	}})
	if err != nil {
		held.Release()
	}
	return err
}
