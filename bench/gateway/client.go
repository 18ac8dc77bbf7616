package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/compare"
	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
)

// target is where a server listens, and the name by which it is asked.
type target struct{ address, host string }

// dialer opens a connection for each worker.
func (t target) dialer(sizes compare.Sizes) func(context.Context, int) (*peers.Conn, error) {
	last := []byte(compare.EntryName(sizes.Entries - 1))
	return func(ctx context.Context, workers int) (*peers.Conn, error) {
		var conns []*wire
		end := func() (err error) {
			for _, w := range conns {
				err = errors.Join(err, w.conn.Close())
			}
			return err
		}
		for range workers {
			w, err := t.connect(ctx)
			if err != nil {
				return nil, errors.Join(err, end())
			}
			conns = append(conns, w)
		}
		scratch := make([]byte, 1<<20)
		return &peers.Conn{
			Close: end,
			Read:  func(worker int, name string) ([]byte, error) { return conns[worker].fetch(name) },
			List: func(worker int, dir string) (int, []string, error) {
				b, err := conns[worker].fetch(dir + "/")
				if !bytes.Contains(b, last) {
					return 0, nil, errors.Join(err, errors.New("the listing has not all files"))
				}
				return sizes.Entries, nil, err
			},
			ReadLarge: func(name string) (int64, error) {
				body, err := conns[0].ask(name, "*/*")
				if err != nil {
					return 0, err
				}
				return io.CopyBuffer(struct{ io.Writer }{io.Discard}, body, scratch)
			},
		}, nil
	}
}

func (t target) connect(ctx context.Context) (*wire, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, host: t.host, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// wire is a connection that speaks as little HTTP as the servers need: a client such as net/http's takes longer than the servers do, and
// would hide what differs between them.
type wire struct {
	conn net.Conn
	host string
	in   *bufio.Reader
	out  []byte
	body bytes.Buffer
	// events is the body of an event stream.
	events *bufio.Reader
}

// ask requests a path without its first slash, and returns the body of the response. It must be read to its end.
func (w *wire) ask(name, accept string) (io.Reader, error) {
	w.out = fmt.Appendf(w.out[:0], "GET /%s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nUser-Agent: bench\r\n\r\n", name, w.host, accept)
	if _, err := w.conn.Write(w.out); err != nil {
		return nil, err
	}
	length, chunked := int64(-1), false
	for first := true; ; first = false {
		b, err := w.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		line := strings.TrimRight(string(b), "\r\n")
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case first && !strings.HasPrefix(line, "HTTP/1.1 200 "):
			return nil, fmt.Errorf("GET /%s: %s", name, line)
		case strings.EqualFold(key, "Content-Length"):
			if length, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, err
			}
		case strings.EqualFold(key, "Transfer-Encoding"):
			chunked = true
		case line == "" && chunked:
			return &chunks{httputil.NewChunkedReader(w.in), w.in}, nil
		case line == "" && length < 0:
			return nil, fmt.Errorf("GET /%s: the response has no length", name)
		case line == "":
			return io.LimitReader(w.in, length), nil
		}
	}
}

// chunks is a body in chunks, which ends with an empty line.
type chunks struct {
	io.Reader
	in *bufio.Reader
}

// Read implements io.Reader.
func (c *chunks) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		if _, end := c.in.ReadSlice('\n'); end != nil {
			return n, end
		}
	}
	return n, err
}

// fetch returns a whole body, which is valid until the next call.
func (w *wire) fetch(name string) ([]byte, error) {
	body, err := w.ask(name, "*/*")
	if err != nil {
		return nil, err
	}
	w.body.Reset()
	_, err = w.body.ReadFrom(body)
	return w.body.Bytes(), err
}

// streams opens event streams of live reload, and says what they cost and how soon they report changes.
func (t target) streams(ctx context.Context, server *peers.Ctxfs, n, edits int) (text string, err error) {
	var open []*wire
	defer func() {
		for _, w := range open {
			err = errors.Join(err, w.conn.Close())
		}
	}()
	more := func(n int) (peers.Memory, error) {
		for range n {
			w, err := t.connect(ctx)
			if err != nil {
				return peers.Memory{}, err
			}
			open = append(open, w)
			body, err := w.ask("__ctxfs/events", "text/event-stream")
			if err != nil {
				return peers.Memory{}, err
			}
			w.events = bufio.NewReader(body)
			if err := w.await("retry:"); err != nil {
				return peers.Memory{}, err
			}
		}
		return server.Memory(ctx)
	}
	before, err := more(1) // what the first one makes is not counted
	if err != nil {
		return "", err
	}
	after, err := more(n)
	if err != nil {
		return "", err
	}
	var firsts, lasts []time.Duration
	for i := range edits {
		took := make([]time.Duration, len(open))
		begin := time.Now()
		var g errgroup.Group
		for j, w := range open {
			g.Go(func() error {
				err := w.await("event: reload")
				took[j] = time.Since(begin)
				return err
			})
		}
		if err := errors.Join(os.WriteFile(filepath.Join(server.Folder, "edited.txt"), fmt.Appendf(nil, "%d\n", i), 0o644), g.Wait()); err != nil {
			return "", err
		}
		firsts, lasts = append(firsts, slices.Min(took)), append(lasts, slices.Max(took))
	}
	table, count, each := &report.Table{Head: []string{"what", ">measured"}}, report.Thousands(int64(n)), func(after, before int64) float64 { return float64(after-before) / float64(n) }
	table.Add("heap and stacks for each of "+count+" streams", report.Bytes(each(after.Heap+after.Stacks, before.Heap+before.Stacks)))
	table.Add("resident memory for each", report.Bytes(each(after.Resident, before.Resident)))
	table.Add("goroutines for each", fmt.Sprintf("%.1f", each(int64(after.Goroutines), int64(before.Goroutines))))
	table.Add("from a change to its event, the first stream", report.Duration(report.Median(firsts)))
	table.Add("from a change to its event, the last of "+count, report.Duration(report.Median(lasts)))
	return table.String() + fmt.Sprintf("\nThe streams are of one site with live reload, each on a connection of its own. Heap and stacks are what they add after a collection; resident memory "+
		"is what the system counts. A change is a write to a file of the site; the times are medians of %d changes, and include the 50 ms in which the server gathers changes.\n", edits), nil
}

// await reads until a line that begins with prefix, and to the end of its event.
func (w *wire) await(prefix string) error {
	if err := w.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	for found := false; ; {
		line, err := w.events.ReadString('\n')
		if err != nil {
			return fmt.Errorf("wait for %q: %w", prefix, err)
		}
		found = found || strings.HasPrefix(line, prefix)
		if found && line == "\n" {
			return nil
		}
	}
}
