package gateway

import (
	"cmp"
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

// events sends an event after each change below the site's root, until the client leaves or the site ends. The ID of an event is its time:
// a browser that connects again sends it, and gets what it has missed. The first event has no name, and only tells the time.
func (v *visit) events(ctx context.Context, t *transfer) error {
	since, again := v.since()
	events, leave, err := v.g.feeds.listen(ctx, v.site, since, again)
	if err != nil {
		return err
	}
	defer leave()
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("Cache-Control", "no-store")
	t.begun = true
	if err := v.flush(ctx, t, "retry: 500\nid: "+strconv.FormatInt(since.UnixNano(), 10)+"\ndata:\n\n"); err != nil {
		return err
	}
	quiet := time.NewTicker(eventsKeepalive)
	defer quiet.Stop()
	for {
		text := ": alive\n\n"
		select {
		case e := <-events:
			text = "event: " + e.kind + "\nid: " + strconv.FormatInt(e.at.UnixNano(), 10) + "\ndata:\n\n"
		case <-quiet.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := v.flush(ctx, t, text); err != nil {
			return err
		}
	}
}

// since returns the time since which changes are not in the page that listens: that of the last event that it got (again), or else when the
// browser requested it. age, in the query, says how many ms ago that was.
func (v *visit) since() (since time.Time, again bool) {
	since, query := time.Now(), v.r.URL.Query()
	if ns, err := strconv.ParseInt(cmp.Or(v.r.Header.Get("Last-Event-ID"), query.Get("since")), 10, 64); err == nil {
		return time.Unix(0, ns), true
	}
	if age, err := strconv.ParseUint(query.Get("age"), 10, 31); err == nil {
		since = since.Add(-time.Duration(age) * time.Millisecond)
	}
	return since, false
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
