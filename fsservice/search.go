package fsservice

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice/search"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// globBatch is how many entries travel in one message of a Glob.
	globBatch = 256
	// grepMessage is about how many bytes of lines travel in one message of a Grep.
	grepMessage = 256 << 10
)

// searches has the RPCs that search.
type searches struct {
	*opener
	search *search.Searcher
}

// Glob implements FsService.
func (s *searches) Glob(req *ctxfsv1.GlobRequest, stream grpc.ServerStreamingServer[ctxfsv1.GlobResponse]) error {
	if req.GetPath() == "" && len(req.GetRawPath()) == 0 {
		req.Path = "/"
	}
	return streamPath(s.opener, "glob", req, stream, func(c *call, send func(*ctxfsv1.GlobResponse) error) error {
		var batch []*ctxfsv1.DirEntry
		flush := func() error {
			if len(batch) == 0 {
				return nil
			}
			event := &ctxfsv1.GlobResponse_Matches{Matches: &ctxfsv1.DirEntryBatch{Entries: batch}}
			batch = nil
			return send(&ctxfsv1.GlobResponse{Event: event})
		}
		sum, err := search.Glob(c, c.root, c.path, req, func(dir string, e rootfs.Entry) error {
			entry := &ctxfsv1.DirEntry{}
			entry.Name, entry.RawName = wirePath(e.Name)
			entry.ParentPath, entry.RawParentPath = wirePath(dir)
			if req.GetWithFileTypes() {
				entry.Type = fileType(e.Type)
			}
			if batch = append(batch, entry); len(batch) < globBatch {
				return nil
			}
			return flush()
		})
		if err == nil {
			err = flush()
		}
		if err != nil {
			return err
		}
		return send(&ctxfsv1.GlobResponse{Event: &ctxfsv1.GlobResponse_Summary{Summary: sum}})
	})
}

// Grep implements FsService.
func (s *searches) Grep(req *ctxfsv1.GrepRequest, stream grpc.ServerStreamingServer[ctxfsv1.GrepResponse]) error {
	if req.GetPath() == "" && len(req.GetRawPath()) == 0 {
		req.Path = "/"
	}
	return streamPath(s.opener, "grep", req, stream, func(c *call, send func(*ctxfsv1.GrepResponse) error) error {
		sum, err := s.search.Grep(c, c.root, c.path, req, func(name string, lines []*ctxfsv1.GrepLine) error {
			return sendLines(send, name, lines)
		})
		if err != nil {
			return err
		}
		return send(&ctxfsv1.GrepResponse{Event: &ctxfsv1.GrepResponse_Summary{Summary: sum}})
	})
}

// sendLines sends a file's lines in as many messages as they need.
func sendLines(send func(*ctxfsv1.GrepResponse) error, name string, lines []*ctxfsv1.GrepLine) error {
	for len(lines) > 0 {
		n, size := 0, 0
		for n < len(lines) && size < grepMessage {
			size += len(lines[n].GetText()) + len(lines[n].GetRawText()) + 16
			n++
		}
		file := &ctxfsv1.GrepFile{Lines: lines[:n]}
		file.Path, file.RawPath = wirePath(name)
		if err := send(&ctxfsv1.GrepResponse{Event: &ctxfsv1.GrepResponse_File{File: file}}); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

// streamPath serves an RPC on one path that answers with many messages. f runs behind the gate, in a goroutine of its own, and the
// handler's goroutine sends what f produces. So a slow client does not keep the gate: a batch does not wait for it, and when the context is
// about to be deleted, f ends with ESTALE, whatever the client has read.
func streamPath[M any](o *opener, op string, req pathRequest, stream grpc.ServerStreamingServer[M], f func(c *call, send func(*M) error) error) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	box := &outbox[M]{messages: make(chan *M)}
	go box.fill(func() error {
		_, err := onPath(ctx, o, op, reads, req, func(c *call) (struct{}, error) {
			return struct{}{}, untilClosing(c, func(c *call) error {
				return f(c, func(m *M) error { return box.put(c, c.access, m) })
			})
		})
		return err
	})
	sendErr := box.drain(stream, cancel)
	switch {
	case box.panicked != nil:
		panic(box.panicked)
	case sendErr != nil:
		return sendErr
	}
	return box.err
}

// outbox passes messages from the goroutine that produces them to the one that sends them. err and panicked are set before
// messages is closed.
type outbox[M any] struct {
	messages chan *M
	err      error
	panicked any
}

func (o *outbox[M]) fill(produce func() error) {
	defer close(o.messages)
	// The handler panics again with it: panics are caught, logged and answered there.
	defer func() { o.panicked = recover() }()
	o.err = produce()
}

// put passes a message on. While it waits for a slow client, the operation does not keep a batch from the context.
func (o *outbox[M]) put(ctx context.Context, a *contexts.Access, m *M) error {
	select {
	case o.messages <- m:
		return nil
	default:
	}
	resume := a.Rest()
	var err error
	select {
	case o.messages <- m:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if resumeErr := resume(ctx); err == nil {
		err = resumeErr
	}
	return err
}

// drain sends messages until there are no more. When the client is gone it calls cancel, and still waits for the end.
func (o *outbox[M]) drain(stream grpc.ServerStreamingServer[M], cancel func()) error {
	var err error
	for m := range o.messages {
		if err != nil {
			continue
		}
		if err = stream.Send(m); err != nil {
			cancel()
		}
	}
	return err
}

// untilClosing runs f with a call that is cancelled when its context is about to be deleted.
func untilClosing(c *call, f func(*call) error) error {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	stop := context.AfterFunc(c.closing, cancel)
	defer stop()
	inner := *c
	inner.Context = ctx
	err := f(&inner)
	if err != nil && c.closing.Err() != nil && c.Err() == nil {
		return &fserr.Error{
			Code: fserr.ESTALE, Kind: fserr.KindContext, Err: err,
			Detail: fmt.Sprintf("context '%s' is being deleted", c.id.Context),
		}
	}
	return err
}
