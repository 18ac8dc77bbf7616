package gateway

import (
	"context"
	_ "embed"
	"io"
	"strconv"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// eventsKeepalive is how often a silent stream of events sends a comment.
const eventsKeepalive = 20 * time.Second

// errStopping (ECANCELED): the gateway takes no requests.
var errStopping = &fserr.Error{Code: fserr.ECANCELED, Detail: "the server is stopping"}

// reloadSource runs in pages of sites with live reload.
//
//go:embed reload.js
var reloadSource string

// events sends an event after each change below the site's root, until the client leaves or the site ends. age, in the query, says how many
// ms ago the browser requested the page: what was changed since is not in it.
func (v *visit) events(ctx context.Context, t *transfer) error {
	since := time.Now()
	if age, err := strconv.ParseUint(v.r.URL.Query().Get("age"), 10, 31); err == nil {
		since = since.Add(-time.Duration(age) * time.Millisecond)
	}
	kinds, leave, err := v.g.feeds.listen(ctx, v.site, since)
	if err != nil {
		return err
	}
	defer leave()
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("Cache-Control", "no-store")
	t.begun = true
	if err := v.flush(ctx, t, "retry: 500\n\n"); err != nil {
		return err
	}
	quiet := time.NewTicker(eventsKeepalive)
	defer quiet.Stop()
	for {
		text := ": alive\n\n"
		select {
		case kind := <-kinds:
			text = "event: " + kind + "\ndata:\n\n"
		case <-quiet.C:
		case <-ctx.Done():
			return ctx.Err()
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
