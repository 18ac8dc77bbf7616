package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// NoticeKind is what a Notice of a feed is about.
type NoticeKind string

// The kinds of notices.
const (
	// NoticeChange: a call changed something.
	NoticeChange NoticeKind = "change"
	// NoticeReady: all changes up to now were reported. It comes once.
	NoticeReady NoticeKind = "ready"
	// NoticeReset: changes are missing; read everything again. The feed continues.
	NoticeReset NoticeKind = "reset"
	// NoticeIdle: nothing happened for 30 s, or nothing of the path. Its cursor may be newer than that of the last change.
	NoticeIdle NoticeKind = "idle"
)

// Notice is one message of a feed.
type Notice struct {
	Kind NoticeKind
	// Cursor continues behind the notice: keep it once you have dealt with the notice.
	Cursor string
	// Reason of a reset.
	Reason string
	// Change is set for NoticeChange.
	Change Change
}

// Change is a call that changed something, or may have.
type Change struct {
	// Sequence numbers the changes of the context without gaps.
	Sequence int64
	Time     time.Time
	// Role is "panel", "host" or "server"; Panel is "" for a host that acted for none.
	Role, Panel string
	// Operation is the RPC's name: "WriteFile", "Rename", "Batch".
	Operation string
	// Path and Dest are absolute in the context. Dest is "" when there is none.
	Path, Dest string
	// Below says that what is below them may have changed too.
	Below bool
	// Steps are those of a Batch.
	Steps []ChangeStep
	// Also are where the paths lead through links.
	Also []string
	// Failed is the errno of a call that failed and may have made a part of its change; "" when it succeeded.
	Failed string
	// RequestID is the call's, as in the audit log.
	RequestID string
}

// ChangeStep is a step of a Batch.
type ChangeStep struct{ Operation, Path, Dest string }

// FeedOptions of Feed.
type FeedOptions struct {
	// Path limits the feed to a path and what is below it; "" means all.
	Path string
	// Cursor is that of the last notice that was dealt with; "" begins at the present end.
	Cursor string
	// Once ends the feed at NoticeReady.
	Once bool
}

// Feed reports the calls that change the context, in order, from a cursor on, until the FS's context ends (With) or the caller breaks off. A consumer that
// keeps the cursor of each notice gets every change once, over restarts of itself and of the server. The last pair has the error that ended the
// feed: call Feed again with the last cursor. The end of the context is no error.
func (f *FS) Feed(o FeedOptions) iter.Seq2[Notice, error] {
	return func(yield func(Notice, error) bool) {
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		p, raw := f.wire(o.Path)
		s, err := f.rpc.WatchChanges(ctx, &ctxfsv1.WatchChangesRequest{ContextId: f.id, Path: p, RawPath: raw, Cursor: o.Cursor, Follow: proto.Bool(!o.Once)})
		for err == nil {
			var r *ctxfsv1.WatchChangesResponse
			if r, err = s.Recv(); err == nil && !yield(noticeOf(r), nil) {
				return
			}
		}
		if ctx.Err() == nil && !errors.Is(err, io.EOF) {
			yield(Notice{}, f.pathError("watchChanges", o.Path, err))
		}
	}
}

func noticeOf(r *ctxfsv1.WatchChangesResponse) Notice {
	switch n := r.GetNotice().(type) {
	case *ctxfsv1.WatchChangesResponse_Change:
		return Notice{Kind: NoticeChange, Cursor: n.Change.GetCursor(), Change: changeOf(n.Change)}
	case *ctxfsv1.WatchChangesResponse_Ready:
		return Notice{Kind: NoticeReady, Cursor: n.Ready.GetCursor()}
	case *ctxfsv1.WatchChangesResponse_Reset_:
		return Notice{Kind: NoticeReset, Cursor: n.Reset_.GetCursor(), Reason: n.Reset_.GetReason()}
	}
	return Notice{Kind: NoticeIdle, Cursor: r.GetKeepalive().GetCursor()}
}

func changeOf(c *ctxfsv1.FeedChange) Change {
	out := Change{
		Sequence: c.GetSequence(), Time: time.Unix(0, c.GetTimeNs()), Role: c.GetRole(), Panel: c.GetPanelId(), Operation: c.GetOperation(),
		Path: untwin(c.GetPath(), c.GetRawPath()), Dest: untwin(c.GetDest(), c.GetRawDest()), Below: c.GetBelow(), Failed: c.GetFailed(), RequestID: c.GetRequestId(),
	}
	for _, s := range c.GetSteps() {
		out.Steps = append(out.Steps, ChangeStep{s.GetOperation(), untwin(s.GetPath(), s.GetRawPath()), untwin(s.GetDest(), s.GetRawDest())})
	}
	for _, p := range c.GetAlso() {
		out.Also = append(out.Also, untwin(p.GetPath(), p.GetRawPath()))
	}
	return out
}
