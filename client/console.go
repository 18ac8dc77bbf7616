package client

import (
	"context"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// OpenConsole returns the URL of the console, a page in which a person reviews and watches contexts. The URL works once, within life; life 0
// means two minutes, which is also the most. Whoever opens it first may do what the console does. The server needs --http.
func (c *Client) OpenConsole(ctx context.Context, life time.Duration) (*ctxfsv1.OpenConsoleResponse, error) {
	r, err := ctxfsv1.NewConsoleServiceClient(c.conn).OpenConsole(ctx, &ctxfsv1.OpenConsoleRequest{TtlMs: life.Milliseconds()})
	return r, convert("openconsole", err)
}

// EndConsoles ends all consoles, and the URLs that nobody has used. It returns how many consoles it ended.
func (c *Client) EndConsoles(ctx context.Context) (int, error) {
	r, err := ctxfsv1.NewConsoleServiceClient(c.conn).EndConsole(ctx, &ctxfsv1.EndConsoleRequest{})
	return int(r.GetEnded()), convert("endconsole", err)
}
