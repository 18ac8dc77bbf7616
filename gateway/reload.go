package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The names in ownFolder.
const (
	reloadScript = "reload.js"
	reloadEvents = "events"
)

const (
	// gather is how long changes are collected before a page is reloaded. An editor's save is a few events.
	gather = 50 * time.Millisecond
	// eventsKeepalive is how often a silent stream of events sends a comment.
	eventsKeepalive = 20 * time.Second
)

// reloadSource runs in pages of sites with live reload. A stream that was interrupted may have missed something.
const reloadSource = `(() => {
  const source = new EventSource(new URL("events", document.currentScript.src));
  let opened = false;
  source.onopen = () => {
    if (opened) location.reload();
    opened = true;
  };
  source.addEventListener("reload", () => location.reload());
  source.addEventListener("css", () => {
    for (const link of document.querySelectorAll('link[rel~="stylesheet"][href]')) {
      const url = new URL(link.href);
      if (url.host !== new URL(source.url).host) continue;
      url.searchParams.set("ctxfs", Date.now());
      const next = link.cloneNode();
      next.onload = () => link.remove();
      next.href = url;
      link.after(next);
    }
  });
})();
`

// own serves the folder that the gateway fills itself.
func (v *visit) own() {
	name := strings.Join(v.names[1:], "/")
	switch {
	case !v.site.Options.LiveReload || v.dir:
		v.fail(fserr.ENOENT)
	case name == reloadScript:
		v.page(http.StatusOK, mimeType(name), reloadSource)
	case name == reloadEvents && v.r.Method == http.MethodGet:
		v.call(ctxfsv1.FsService_Watch_FullMethodName, nil, v.events)
	default:
		v.fail(fserr.ENOENT)
	}
}

// events sends an event after each change below the site's root, until the client leaves or the site ends. The watch ends with the
// context's generation; the page then opens another stream, and is reloaded.
func (v *visit) events(ctx context.Context, t *transfer) error {
	ctx, cancel := context.WithCancel(ctx)
	notices := make(chan *ctxfsv1.WatchResponse)
	watched := make(chan error, 1)
	req := &ctxfsv1.WatchRequest{Path: v.site.Options.Root + "/", Recursive: true}
	go func() {
		defer close(notices)
		watched <- v.g.cfg.Files.Watch(req, &watchStream{ctx: ctx, notices: notices})
	}()
	defer func() {
		cancel()
		for range notices { //nolint:revive // the watch ends before its call
		}
	}()
	pending := &change{}
	due := time.NewTimer(gather)
	due.Stop()
	defer due.Stop()
	quiet := time.NewTicker(eventsKeepalive)
	defer quiet.Stop()
	for {
		text := ""
		select {
		case n, ok := <-notices:
			switch {
			case !ok:
				return <-watched
			case n.GetReady() != nil:
				v.w.Header().Set("Content-Type", "text/event-stream")
				v.w.Header().Set("Cache-Control", "no-store")
				t.begun = true
				text = "retry: 500\n\n"
			case pending.add(n, v.hidden):
				due.Reset(gather)
			}
		case <-due.C:
			text = pending.event()
		case <-quiet.C:
			text = ": alive\n\n"
		}
		if text == "" || !t.begun {
			continue
		}
		if err := v.flush(ctx, t, text); err != nil {
			return err
		}
	}
}

func (v *visit) flush(ctx context.Context, t *transfer, text string) error {
	err := t.extend(ctx, t.control.SetWriteDeadline)
	if err == nil {
		_, err = io.WriteString(v.w, text)
	}
	if err == nil {
		err = t.control.Flush()
	}
	return err
}

// change is what happened since the last event.
type change struct{ sheets, others int }

// add counts a notice, and reports whether it is the first that matters to a page.
func (c *change) add(n *ctxfsv1.WatchResponse, hidden func(name string) bool) bool {
	first := *c == change{}
	if n.GetOverflow() != nil {
		c.others++
		return first
	}
	if n.GetEvent() == nil {
		return false
	}
	name := n.GetEvent().GetFilename() + string(n.GetEvent().GetRawFilename())
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "node_modules" || hidden(segment) {
			return false
		}
	}
	if path.Ext(name) == ".css" {
		c.sheets++
	} else {
		c.others++
	}
	return first
}

// event returns the event for what was counted, and begins anew.
func (c *change) event() string {
	kind := "reload"
	if c.others == 0 {
		kind = "css"
	}
	*c = change{}
	return fmt.Sprintf("event: %s\ndata:\n\n", kind)
}

// watchStream passes the messages of Watch on.
type watchStream struct {
	grpc.ServerStream
	ctx     context.Context //nolint:containedctx // grpc.ServerStream has it
	notices chan<- *ctxfsv1.WatchResponse
}

// Context implements grpc.ServerStream.
func (s *watchStream) Context() context.Context { return s.ctx }

// Send implements grpc.ServerStreamingServer.
func (s *watchStream) Send(m *ctxfsv1.WatchResponse) error { return s.SendMsg(m) }

// SendMsg implements grpc.ServerStream.
func (s *watchStream) SendMsg(m any) error {
	if out, ok := m.(*codec.Outgoing); ok {
		defer out.Written()
		m = out.Message
	}
	notice, ok := m.(proto.Message).(*ctxfsv1.WatchResponse)
	if !ok {
		return fmt.Errorf("a watch sent a %T", m)
	}
	select {
	case s.notices <- notice:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}
