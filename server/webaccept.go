package server

import (
	"bufio"
	"bytes"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/ctxfs/ctxfs/internal/webconn"
)

// sendBuffer is what the system holds of what is sent to a WebSocket, in bytes: as much as
// it likes would keep a ping from a slow client for minutes.
const sendBuffer = 256 << 10

// accept answers a request by a WebSocket, or refuses it.
func (k *sockets) accept(w http.ResponseWriter, r *http.Request) (*webLink, error) {
	l := &webLink{}
	l.conn = &webconn.Conn{Keepalive: k.keepalive, Ping: l.ping}
	// The origin was checked. Content that compresses is the client's to compress.
	opts := &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled}
	h := &hijacked{ResponseWriter: w, conn: l.conn}
	var err error
	if l.accepted, err = websocket.Accept(h, r, opts); err != nil {
		return nil, err
	}
	l.ws = webconn.NewSocket(webconn.Config{Conn: l.conn, Early: h.early, Close: l.accepted.CloseNow, Server: true, Buffers: k.buffers}, maxWebOpen)
	return l, nil
}

// hijacked lets a WebSocket take a webconn in the place of the connection that it is made for.
type hijacked struct {
	http.ResponseWriter
	conn *webconn.Conn
	// early is what came before the answer.
	early []byte
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	limitBuffer(conn)
	h.conn.Conn = conn
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	h.early = bytes.Clone(early)
	return h.conn, bufio.NewReadWriter(bufio.NewReaderSize(h.conn, 16), bufio.NewWriterSize(h.conn, 16)), nil // which are of no use
}

// limitBuffer bounds what the system holds for a client; one that refuses serves as well.
func limitBuffer(conn net.Conn) {
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = outer.NetConn()
	}
	if c, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = c.SetWriteBuffer(sendBuffer)
	}
}
