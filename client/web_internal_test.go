package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// answering is a server that answers each connection by hand. It returns its address.
func answering(t *testing.T, answer func(conn net.Conn, r *bufio.Reader)) *webDialer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				answer(conn, bufio.NewReader(conn))
			})
		}
	})
	d := newWebDialer(target{address: l.Addr().String()}, nil)
	t.Cleanup(func() {
		d.close()
		_ = l.Close()
		serving.Wait()
	})
	return d
}

func nobody() identity { return identity{token: func() string { return "" }} }

// TestARefusedWebSocketLeavesNoConnection refuses with an answer that keeps the connection alive: the client must close it.
func TestARefusedWebSocketLeavesNoConnection(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 1)
	d := answering(t, func(conn net.Conn, r *bufio.Reader) {
		_, _ = http.ReadRequest(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		_, err := r.ReadByte()
		gone <- err
	})
	if link, err := d.dial(t.Context(), ""); err == nil {
		link.close()
		t.Error("the refusal was taken for a WebSocket")
	}
	if err := <-gone; !errors.Is(err, io.EOF) {
		t.Errorf("the connection: %v", err)
	}
}

// TestAnswersOnTheWayToOne sends some that say nothing, and the wish for the body twice.
func TestAnswersOnTheWayToOne(t *testing.T) {
	t.Parallel()
	d := answering(t, func(conn net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nCtxfs-Written: 3\r\n\r\n")
	})
	p, err := d.put(t.Context(), nobody(), &ctxfsv1.WriteStreamOpen{Path: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write([]byte("abc")); err != nil {
		t.Error(err)
	}
	if n, err := p.finish(); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestAnswersWithoutAnEnd never sends the last one.
func TestAnswersWithoutAnEnd(t *testing.T) {
	t.Parallel()
	d := answering(t, func(conn net.Conn, r *bufio.Reader) {
		_, _ = http.ReadRequest(r)
		_, _ = io.WriteString(conn, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100))
		_, _ = r.ReadByte()
	})
	if _, err := d.put(t.Context(), nobody(), &ctxfsv1.WriteStreamOpen{Path: "/a"}); !errors.Is(err, errNoContent) {
		t.Error(err)
	}
}

// TestNobodyWritesIntoARequest has names that would end the head and begin another request.
func TestNobodyWritesIntoARequest(t *testing.T) {
	t.Parallel()
	d := answering(t, func(_ net.Conn, r *bufio.Reader) {
		if line, err := r.ReadString('\n'); err == nil {
			t.Errorf("a request came: %q", line)
		}
	})
	evil := "p\r\n\r\n0\r\n\r\nPUT /v1/content?path=/b HTTP/1.1\r\n"
	for _, id := range []identity{{token: func() string { return evil }}, {token: func() string { return "" }, panel: evil}} {
		if _, err := d.put(t.Context(), id, &ctxfsv1.WriteStreamOpen{Path: "/a"}); !errors.Is(err, errNoContent) {
			t.Error(err)
		}
		if _, err := d.content(t.Context(), id, &ctxfsv1.ReadStreamRequest{Path: "/a"}); !errors.Is(err, errNoContent) {
			t.Error(err)
		}
	}
}

// TestForeignAnswersAreForgotten asks again after what may pass, and not after what says that there is nothing to ask.
func TestForeignAnswersAreForgotten(t *testing.T) {
	t.Parallel()
	for status, off := range map[string]bool{"503 Service Unavailable": false, "404 Not Found": true} {
		d := answering(t, func(conn net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			_, _ = io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		})
		if _, err := d.content(t.Context(), nobody(), &ctxfsv1.ReadStreamRequest{Path: "/a"}); !errors.Is(err, errNoContent) || d.noContent.Load() != off {
			t.Errorf("%s: %v, off %v", status, err, d.noContent.Load())
		}
	}
}

// TestNothingGoesByAClosedDialer checks that a closed dialer neither finishes a write nor begins one.
func TestNothingGoesByAClosedDialer(t *testing.T) {
	t.Parallel()
	d := answering(t, func(conn net.Conn, r *bufio.Reader) {
		_, _ = http.ReadRequest(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		_, _ = r.ReadByte()
	})
	f := &FS{ctx: context.Background(), rpc: &fsClient{bulk: d}}
	ctx, cancel := f.streamContext()
	defer cancel()
	p, err := d.put(ctx, nobody(), &ctxfsv1.WriteStreamOpen{Path: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	<-ctx.Done()
	if _, err := p.finish(); err == nil {
		t.Error("a write was finished")
	}
	if _, err := d.put(t.Context(), nobody(), &ctxfsv1.WriteStreamOpen{Path: "/a"}); !errors.Is(err, errNoContent) {
		t.Error(err)
	}
}
