package fsservice

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// watchKeepalive is how long a watch is silent before it says that it lives.
const watchKeepalive = 30 * time.Second

// Watch serves FsService.Watch. The gate is held only while the watch is put in
// place: a watch must not keep its context from being deleted, which ends it.
func (s *Service) Watch(req *ctxfsv1.WatchRequest, stream grpc.ServerStreamingServer[ctxfsv1.WatchResponse]) error {
	w, err := onPath(stream.Context(), s, "watch", reads, req, func(c *call) (rootfs.Watcher, error) {
		return c.root.Watch(c.path, rootfs.WatchOptions{Recursive: req.GetRecursive()})
	})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := stream.Send(&ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Ready{Ready: &ctxfsv1.WatchReady{}}}); err != nil {
		return err
	}
	return forward(stream.Context(), w.Events(), stream.Send)
}

// forward sends events until there are no more, or ctx ends.
func forward(ctx context.Context, events <-chan rootfs.WatchEvent, send func(*ctxfsv1.WatchResponse) error) error {
	quiet := time.NewTimer(watchKeepalive)
	defer quiet.Stop()
	for {
		var msg *ctxfsv1.WatchResponse
		select {
		case <-ctx.Done():
			return fail(ctx.Err(), "watch", "", "")
		case e, ok := <-events:
			if !ok {
				return nil
			}
			msg = watchMessage(e)
		case <-quiet.C:
			msg = &ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Keepalive{Keepalive: &ctxfsv1.WatchKeepalive{}}}
		}
		if err := send(msg); err != nil {
			return err
		}
		quiet.Reset(watchKeepalive)
	}
}

func watchMessage(e rootfs.WatchEvent) *ctxfsv1.WatchResponse {
	if e.Kind == rootfs.WatchOverflow {
		return &ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Overflow{Overflow: &ctxfsv1.WatchOverflow{}}}
	}
	event := &ctxfsv1.WatchEvent{EventType: "change"}
	if e.Kind == rootfs.WatchRename {
		event.EventType = "rename"
	}
	event.Filename, event.RawFilename = wirePath(e.Name)
	return &ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Event{Event: event}}
}
