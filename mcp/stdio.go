package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// answerTime is how long the calls that are under way when the input ends have until the session ends.
const answerTime = 5 * time.Second

// Stdio returns the transport of a client that writes to in and reads from out. It closes neither. When in ends, calls under way are still
// answered if that takes a few seconds at most.
func Stdio(in io.Reader, out io.Writer) sdk.Transport {
	return stdio{&sdk.IOTransport{Reader: io.NopCloser(in), Writer: unclosed{out}}}
}

type stdio struct{ sdk.Transport }

// Connect implements sdk.Transport.
func (t stdio) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return &answering{Connection: c, calls: map[jsonrpc.ID]bool{}, answered: make(chan struct{}, 1)}, err
}

// unclosed is a writer that the end of a session leaves open.
type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }

// answering delays the end of the input until calls are answered.
type answering struct {
	sdk.Connection
	mu sync.Mutex
	// calls are those under way. answered has an element if there was an answer.
	calls    map[jsonrpc.ID]bool
	answered chan struct{}
}

// Read implements sdk.Connection.
func (c *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && r.Method != "subscriptions/listen" { // which has no answer until the end
		c.mu.Lock()
		c.calls[r.ID] = true
		c.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		c.finish(ctx)
	}
	return m, err
}

// Write implements sdk.Connection.
func (c *answering) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.calls, r.ID)
		c.mu.Unlock()
		select {
		case c.answered <- struct{}{}:
		default: // there is one already
		}
	}
	return err
}

func (c *answering) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) == 0
}

// finish returns when no call is under way, or the time for that has passed.
func (c *answering) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for !c.idle() {
		select {
		case <-c.answered:
		case <-ctx.Done():
			return
		}
	}
}
