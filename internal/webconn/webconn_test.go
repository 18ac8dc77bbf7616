package webconn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/internal/webconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAnInterruptIsNotLost interrupts the wait for the first message before it has begun.
func TestAnInterruptIsNotLost(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c := &webconn.Conn{Conn: near, Keepalive: time.Minute}
	if err := c.AwaitFirst(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c.Interrupt()
	go func() { _, _ = far.Write([]byte{1}) }() // what a Read that had forgotten it would get
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
}

// TestSilence has the other end answer two pings, and no third.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		begun, pings := time.Now(), 0
		c := &webconn.Conn{Conn: near, Keepalive: 3 * time.Second, Ping: func() {
			if pings++; pings < 3 {
				go func() { _, _ = far.Write([]byte{1}) }()
			}
		}}
		b := make([]byte, 1)
		var err error
		for err == nil {
			_, err = c.Read(b)
		}
		if !errors.Is(err, webconn.ErrSilent) || pings != 3 || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %v and %d pings", err, time.Since(begun), pings)
		}
	})
}

// TestWhoTakesNothingIsCutOff writes to an end that does not read.
func TestWhoTakesNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		begun := time.Now()
		c := &webconn.Conn{Conn: near, Keepalive: time.Second}
		if _, err := c.Write(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is open: %v", err)
		}
	})
}

// counted counts writes.
type counted struct {
	net.Conn
	writes atomic.Int32
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestAMessageIsOneWrite sends messages around the size of the WebSocket's own buffer.
func TestAMessageIsOneWrite(t *testing.T) {
	got := make(chan []byte)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		ws.SetReadLimit(-1)
		defer func() { _ = ws.CloseNow() }()
		for {
			_, data, err := ws.Read(context.Background())
			if err != nil {
				close(got)
				return
			}
			got <- data
		}
	}))
	defer server.Close()
	c, raw := &webconn.Conn{Keepalive: time.Minute}, &counted{}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		raw.Conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		c.Conn = raw
		return c, err
	}}
	ws, _, err := websocket.Dial(t.Context(), server.URL, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	var buffers webconn.Buffers
	for _, size := range []int{0, 1, 4000, 4079, 4080, 4081, 4096, 64 << 10, 65 << 10, 200 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			message, before := bytes.Repeat([]byte{7}, size), raw.writes.Load()
			if err := c.Send(ws, &buffers, message); err != nil {
				t.Fatal(err)
			}
			if data := <-got; !bytes.Equal(data, message) {
				t.Errorf("%d bytes came", len(data))
			}
			if n := raw.writes.Load() - before; size < 64<<10 && n != 1 {
				t.Errorf("%d writes", n)
			}
		})
	}
	_ = ws.CloseNow()
	if _, open := <-got; open {
		t.Error("more came")
	}
	if err := c.Send(ws, &buffers, make([]byte, 5000)); err == nil {
		t.Error("a message was sent on a closed connection")
	}
}
