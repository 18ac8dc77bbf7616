package webconn_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
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

	"github.com/ctxfs/ctxfs/internal/webconn"
)

// limit is the size of the largest message in these tests, in bytes.
const limit = 256 << 10

// testConn counts writes. It returns single bytes from Read if slow is set.
type testConn struct {
	net.Conn
	writes atomic.Int32
	slow   bool
}

func (c *testConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func (c *testConn) Read(p []byte) (int, error) {
	if c.slow {
		p = p[:min(1, len(p))]
	}
	return c.Conn.Read(p)
}

// ends is a Socket, what is below it, and a WebSocket of another implementation at its other end.
type ends struct {
	socket *webconn.Socket
	conn   *webconn.Conn
	raw    *testConn
	other  *websocket.Conn
}

func newEnds(t *testing.T, server, slow bool) *ends {
	t.Helper()
	e := &ends{raw: &testConn{}}
	e.conn = &webconn.Conn{Conn: e.raw, Keepalive: time.Minute}
	if server {
		e.beServer(t)
	} else {
		e.beClient(t)
	}
	e.raw.slow = slow
	e.other.SetReadLimit(-1)
	e.socket = webconn.NewSocket(webconn.Config{Conn: e.conn, Close: e.raw.Close, Server: server, Buffers: &webconn.Buffers{}}, limit)
	t.Cleanup(func() {
		_ = e.socket.CloseNow()
		_ = e.other.CloseNow()
	})
	return e
}

// request asks for a WebSocket. Its key and the answer to it are those of RFC 6455.
const (
	request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	accepted = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

func (e *ends) beClient(t *testing.T) {
	t.Helper()
	other := make(chan *websocket.Conn, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		other <- ws
	}))
	t.Cleanup(server.Close)
	var err error
	if e.raw.Conn, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(e.raw.Conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(e.raw.Conn), nil)
	if err != nil || resp.Header.Get("Sec-Websocket-Accept") != accepted {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	e.other = <-other
}

func (e *ends) beServer(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Sec-WebSocket-Accept", webconn.AcceptKey(r.Header.Get("Sec-WebSocket-Key")))
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
		}
		e.raw.Conn = conn
		close(done)
	}))
	t.Cleanup(server.Close)
	ws, _, err := websocket.Dial(t.Context(), server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	e.other = ws
}

// bothEnds runs a test with a client's Socket and a server's.
func bothEnds(t *testing.T, test func(t *testing.T, server bool)) {
	t.Helper()
	t.Run("client", func(t *testing.T) { test(t, false) })
	t.Run("server", func(t *testing.T) { test(t, true) })
}

func send(s *webconn.Socket, message []byte) error {
	return s.Send(len(message), func(b []byte) ([]byte, error) { return append(b, message...), nil })
}

func content(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// TestMessages sends messages around the bounds of headers and buffers, both ways, whole and in two frames.
func TestMessages(t *testing.T) {
	bothEnds(t, func(t *testing.T, server bool) {
		e, slow := newEnds(t, server, false), newEnds(t, server, true)
		for _, size := range []int{0, 1, 7, 8, 9, 125, 126, 127, 4000, 4096, 8190, 8192, 8193, 65535, 65536, limit} {
			t.Run(fmt.Sprint(size), func(t *testing.T) {
				want, before := content(size), e.raw.writes.Load()
				sent := make(chan error, 1)
				go func() { sent <- send(e.socket, want) }()
				if _, got, err := e.other.Read(t.Context()); err != nil || !bytes.Equal(got, want) {
					t.Errorf("the other end received %d bytes, %v", len(got), err)
				}
				if err := <-sent; err != nil {
					t.Error(err)
				}
				if n := e.raw.writes.Load() - before; size <= 64<<10-16 && n != 1 {
					t.Errorf("%d writes", n)
				}
				for _, e := range []*ends{e, slow} {
					e.receives(t, want, func() error { return e.other.Write(t.Context(), websocket.MessageBinary, want) })
					e.receives(t, want, func() error { return inFrames(t.Context(), e.other, want) })
				}
			})
		}
	})
}

// inFrames sends a message in several frames, with a ping in between.
func inFrames(ctx context.Context, ws *websocket.Conn, message []byte) error {
	w, err := ws.Writer(ctx, websocket.MessageBinary)
	if err != nil {
		return err
	}
	half := len(message) / 2
	_, err = w.Write(message[:half])
	_, err2 := w.Write(message[half:])
	return errors.Join(err, err2, w.Close())
}

// receives checks that the Socket receives what the other end sends.
func (e *ends) receives(t *testing.T, want []byte, say func() error) {
	t.Helper()
	said := make(chan error, 1)
	go func() { said <- say() }()
	got, _, err := e.socket.Receive()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("received %d bytes, %v; want %d", len(got), err, len(want))
	}
	if err := <-said; err != nil {
		t.Error(err)
	}
}

// TestInterruptedReceiveLosesNothing interrupts a Receive after each byte of a message.
func TestInterruptedReceiveLosesNothing(t *testing.T) {
	for _, frame := range [][]byte{
		append([]byte{0x82, 5}, "hello"...),
		append([]byte{0x82, 126, 0, 200}, content(200)...),
		append(append([]byte{0x02, 3}, "hel"...), 0x80, 2, 'l', 'o'),
		append(binary.BigEndian.AppendUint64([]byte{0x82, 127}, 70_000), content(70_000)...),
	} {
		near, far := connected(t)
		conn := &webconn.Conn{Conn: near, Keepalive: time.Minute}
		s := webconn.NewSocket(webconn.Config{Conn: conn, Close: near.Close, Buffers: &webconn.Buffers{}}, limit)
		step := max(1, len(frame)/300)
		for ; len(frame) > step; frame = frame[step:] {
			if _, err := far.Write(frame[:step]); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(0, conn.Interrupt)
			if _, _, err := s.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if _, err := far.Write(frame); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Receive(); err != nil || len(got) < 5 {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// connected returns the ends of a connection.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if near, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(near.Close(), far.Close()) })
	return near, far
}

// TestPingsAreAnswered has the other end ping while a Socket receives.
func TestPingsAreAnswered(t *testing.T) {
	bothEnds(t, func(t *testing.T, server bool) {
		e := newEnds(t, server, false)
		received := make(chan error, 1)
		go func() {
			_, _, err := e.socket.Receive()
			received <- err
		}()
		listening, stop := context.WithCancel(t.Context())
		defer stop()
		e.other.CloseRead(listening)
		for range 3 {
			if err := e.other.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.other.Write(t.Context(), websocket.MessageBinary, nil); err != nil {
			t.Error(err)
		}
		if err := <-received; err != nil {
			t.Error(err)
		}
	})
}

// TestNewestPingIsAnswered has pings arrive at a client while its pong to an earlier one cannot be written. A close that arrives then must be
// answered too.
func TestNewestPingIsAnswered(t *testing.T) {
	for name, c := range map[string]struct{ frames, want string }{
		"pings": {"\x89\x012\x89\x013", "\x8a1\x8a3"},
		"close": {"\x89\x012\x88\x02\x03\xe8", "\x8a1\x88\x03\xe8"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe() // a write waits for the other end's read
				socket := webconn.NewSocket(webconn.Config{
					Conn: &webconn.Conn{Conn: near, Keepalive: time.Hour}, Close: near.Close, Buffers: &webconn.Buffers{},
				}, limit)
				received := make(chan error, 1)
				go func() {
					_, _, err := socket.Receive()
					received <- err
				}()
				for _, frames := range []string{"\x89\x011", c.frames} {
					if _, err := io.WriteString(far, frames); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if got := string(append(maskedControl(t, far), maskedControl(t, far)...)); got != c.want {
					t.Errorf("%q was answered with %q, want %q", c.frames, got, c.want)
				}
				_ = far.Close()
				<-received
			})
		})
	}
}

// maskedControl reads a control frame of a client, and returns its first byte and its content.
func maskedControl(t *testing.T, r io.Reader) []byte {
	t.Helper()
	head := make([]byte, 6) // two bytes and the mask
	if _, err := io.ReadFull(r, head); err != nil {
		t.Fatal(err)
	}
	content := make([]byte, head[1]&0x7f)
	if _, err := io.ReadFull(r, content); err != nil {
		t.Fatal(err)
	}
	for i := range content {
		content[i] ^= head[2+i%4]
	}
	return append(head[:1], content...)
}

func TestTheOtherEndCloses(t *testing.T) {
	bothEnds(t, func(t *testing.T, server bool) {
		for code, peace := range map[websocket.StatusCode]bool{
			websocket.StatusNormalClosure: true, websocket.StatusGoingAway: true, websocket.StatusNoStatusRcvd: true, websocket.StatusInternalError: false,
		} {
			e := newEnds(t, server, false)
			closed := make(chan error, 1)
			go func() { closed <- e.other.Close(code, "") }()
			for range 2 {
				_, _, err := e.socket.Receive()
				if c, ok := errors.AsType[*webconn.CloseError](err); !ok || c.Code != int(code) || c.InPeace() != peace {
					t.Errorf("%v after a close with %d", err, code)
				}
			}
			if err := <-closed; err != nil {
				t.Errorf("the other end has no answer: %v", err)
			}
		}
	})
}

// TestCloseWith closes while the other end has more to say.
func TestCloseWith(t *testing.T) {
	bothEnds(t, func(t *testing.T, server bool) {
		e := newEnds(t, server, false)
		for range 3 {
			if err := e.other.Write(t.Context(), websocket.MessageBinary, content(10_000)); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.socket.CloseWith(int(websocket.StatusPolicyViolation), "enough")
		}()
		_, _, err := e.other.Read(t.Context())
		var closed websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != websocket.StatusPolicyViolation || closed.Reason != "enough" {
			t.Error(err)
		}
		<-done
		if err := send(e.socket, nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("sent after the close: %v", err)
		}
	})
}

// TestRefusedFrames sends a server's Socket what it must not take.
func TestRefusedFrames(t *testing.T) {
	masked := func(first, second byte, length ...byte) []byte {
		return append(append([]byte{first, 0x80 | second}, length...), 0, 0, 0, 0)
	}
	for _, c := range []struct {
		name  string
		frame []byte
		want  error
	}{
		{"text", masked(0x81, 0), webconn.ErrText},
		{"too large", masked(0x82, 127, 0, 0, 0, 0, 0, 4, 0, 1), webconn.ErrTooLarge},
		{"far too large", masked(0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255), webconn.ErrTooLarge},
		{"too large in frames", append(append(masked(0x02, 126, 255, 255), content(65535)...), masked(0x80, 127, 0, 0, 0, 0, 0, 4, 0, 0)...), webconn.ErrTooLarge},
		{"not masked", []byte{0x82, 0}, nil},
		{"an extension", masked(0xc2, 0), nil},
		{"an unknown type", masked(0x83, 0), nil},
		{"an unknown control frame", masked(0x8b, 0), nil},
		{"a control frame in parts", masked(0x09, 0), nil},
		{"a large control frame", masked(0x89, 126, 0, 126), nil},
		{"a continuation of nothing", masked(0x80, 0), nil},
		{"a message within a message", append(masked(0x02, 0), masked(0x82, 0)...), nil},
		{"half a frame", masked(0x82, 1), io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			near, far := net.Pipe()
			said := make(chan []byte, 1)
			go func() {
				_, _ = far.Write(c.frame)
				if c.want == io.ErrUnexpectedEOF { //nolint:errorlint // a value of the table
					_ = far.Close()
				}
				b, _ := io.ReadAll(far)
				said <- b
			}()
			conn := &webconn.Conn{Conn: near, Keepalive: time.Minute}
			s := webconn.NewSocket(webconn.Config{Conn: conn, Close: near.Close, Server: true, Buffers: &webconn.Buffers{}}, limit)
			_, _, err := s.Receive()
			_ = near.Close()
			switch b := <-said; {
			case c.want != nil && !errors.Is(err, c.want), err == nil:
				t.Errorf("%v, want %v", err, c.want)
			case c.want == nil && !bytes.Equal(b, []byte{0x88, 2, 1002 >> 8, 1002 & 0xff}):
				t.Errorf("the other end received %x", b)
			}
		})
	}
}

// FuzzReceive feeds a Socket any bytes, in pieces of any size: it neither panics nor returns more than its limit.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0x82, 0x80 | 5, 1, 2, 3, 4, 'h', 'e', 'l', 'l', 'o'}, true, uint8(3))
	f.Add([]byte{0x82, 126, 0, 200}, false, uint8(1))
	f.Add([]byte{0x02, 0x81, 0, 0, 0, 0, 1, 0x89, 0x80, 0, 0, 0, 0, 0x80, 0x80, 0, 0, 0, 0}, true, uint8(200))
	f.Fuzz(func(t *testing.T, data []byte, server bool, piece uint8) {
		const limit = 1000
		s := webconn.NewSocket(webconn.Config{
			Conn: &pieces{Reader: bytes.NewReader(data), size: int(piece) + 1}, Close: func() error { return nil }, Server: server, Buffers: &webconn.Buffers{},
		}, limit)
		for {
			message, _, err := s.Receive()
			if err != nil {
				return
			}
			if len(message) > limit {
				t.Fatalf("%d bytes", len(message))
			}
		}
	})
}

// pieces gives at most size bytes at a time, and takes all.
type pieces struct {
	io.Reader
	size int
}

func (p *pieces) Read(b []byte) (int, error)  { return p.Reader.Read(b[:min(len(b), p.size)]) }
func (p *pieces) Write(b []byte) (int, error) { return len(b), nil }
