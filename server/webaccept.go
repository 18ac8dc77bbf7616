package server

import (
	"bufio"
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
	l := &webLink{buffers: k.buffers}
	l.conn = &webconn.Conn{Keepalive: k.keepalive, Ping: l.ping}
	// The origin was checked. Content that compresses is the client's to compress.
	opts := &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled}
	ws, err := websocket.Accept(&hijacked{w, l.conn}, r, opts)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1) // Recv has one, and tells of it
	l.ws = ws
	return l, nil
}

// hijacked lets a WebSocket take a webconn in the place of the connection that it is made for.
type hijacked struct {
	http.ResponseWriter
	conn *webconn.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	limitBuffer(conn)
	h.conn.Conn = conn
	rw.Writer.Reset(h.conn)
	return h.conn, rw, nil
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
