package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// hostility is a client that tries to harm others.
type hostility struct {
	name string
	// budget is how much the server's heap may grow meanwhile, in bytes; see docs/explanation/security.md, "Memory budget".
	budget int64
	// attack runs until ctx ends, and returns after its connections are closed. Its error means that the test failed,
	// not that the server refused a call.
	attack func(ctx context.Context, a *target) error
}

const (
	// slack is what any attack may take beside what its budget counts: goroutines, connections, HTTP/2 state.
	slack = 64 << 20
	// panelReplies is the default bound of the replies of one panel that wait to be sent, in bytes.
	panelReplies = 64 << 20
	// grepFiles is what all greps hold of files, in bytes.
	grepFiles = 128 << 20
	// panelRequests is what a panel's requests that are being received may hold, in bytes.
	panelRequests = 256 << 20
	// panelWatches is the default bound of the events of one panel that wait to be sent, in bytes.
	panelWatches = 8 << 20
)

const (
	fsPath       = "/ctxfs.v1.FsService/"
	manyConns    = 8
	manyRequests = 120
)

func hostilities() []hostility {
	return []hostility{
		{"unread replies of unary calls", panelReplies + slack, unreadUnary},
		{"unread replies of gRPC sessions", panelReplies + slack, unreadSessions},
		{"unread replies of WebSocket sessions", panelReplies + slack, unreadSockets},
		{"unread content over HTTP", slack, unreadContent},
		{"slow readers", panelReplies + slack, slowReaders},
		{"unread streams", panelReplies + grepFiles + slack, unreadStreams},
		{"unread watches and a storm of events", panelWatches + slack, unreadWatches},
		{"patterns that explode", slack, explodingPatterns},
		{"silent connections", slack, silentConnections},
		{"half-open connections", slack, halfOpenConnections},
		{"slow writers", panelRequests + slack, slowWriters},
		{"huge headers", slack, hugeHeaders},
		{"compressed bombs without a token", slack, compressedBombs},
		{"10,000 streams", slack, manyStreams},
		{"rapid resets", slack, rapidResets},
	}
}

// each runs do n times at once, and returns the first error that is not the server's doing.
func each(n int, do func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- do(i) }()
	}
	var all error
	for range n {
		if err := <-errs; err != nil && all == nil {
			all = err
		}
	}
	return all
}

// dialed is a connection to one of the server's addresses, which is closed when ctx ends.
func (a *target) dialed(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, address = "unix", path
	}
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn, nil
}

// raw is an HTTP/2 connection without any manners.
type raw struct {
	conn net.Conn
	mu   sync.Mutex
	*http2.Framer
	next uint32
	// gone is closed when the server has closed the connection.
	gone chan struct{}
}

// raw connects, and lets the server send no content: every stream's window is closed.
func (a *target) raw(ctx context.Context, address string) (*raw, error) {
	conn, err := a.dialed(ctx, address)
	if err != nil {
		return nil, err
	}
	r := &raw{conn: conn, Framer: http2.NewFramer(conn, conn), next: 1, gone: make(chan struct{})}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	if err := r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		return nil, err
	}
	go r.read()
	return r, nil
}

// read answers what must be answered, until the connection ends.
func (r *raw) read() {
	defer close(r.gone)
	for {
		f, err := r.ReadFrame()
		if err != nil {
			return
		}
		r.mu.Lock()
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = r.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = r.WritePing(true, f.Data)
			}
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// begin opens a stream for a method. more are pairs of further headers.
func (r *raw) begin(method, token string, more ...string) (stream uint32, err error) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	fields := append([]string{
		":method", "POST", ":scheme", "http", ":path", method, ":authority", "localhost", "content-type", "application/grpc", "te", "trailers",
	}, more...)
	if token != "" {
		fields = append(fields, "authorization", "Bearer "+token)
	}
	for i := 0; i < len(fields); i += 2 {
		if err := enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			return 0, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	stream = r.next
	r.next += 2
	const frame = 16 << 10
	first := block.Next(frame)
	err = r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: block.Len() == 0})
	for err == nil && block.Len() > 0 {
		part := block.Next(frame)
		err = r.WriteContinuation(stream, block.Len() == 0, part)
	}
	return stream, err
}

// send sends a gRPC message on a stream, or its beginning.
func (r *raw) send(stream uint32, end bool, message []byte) error {
	const frame = 16 << 10
	for {
		n := min(len(message), frame)
		r.mu.Lock()
		err := r.WriteData(stream, end && n == len(message), message[:n])
		r.mu.Unlock()
		if message = message[n:]; err != nil || len(message) == 0 {
			return err
		}
	}
}

// framed is a gRPC message of so many bytes as its head says.
func framed(compressed bool, size int, body []byte) []byte {
	head := make([]byte, 5, 5+len(body))
	if compressed {
		head[0] = 1
	}
	binary.BigEndian.PutUint32(head[1:], uint32(size))
	return append(head, body...)
}

func framedMessage(m proto.Message) []byte {
	body, err := proto.Marshal(m)
	if err != nil {
		panic(err) // of a message of this file
	}
	return framed(false, len(body), body)
}

// onRaw runs do on connections of its own until ctx ends; that the server closes one is no error.
func (a *target) onRaw(ctx context.Context, n int, address string, do func(r *raw) error) error {
	return each(n, func(int) error {
		r, err := a.raw(ctx, address)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		defer func() { _ = r.conn.Close() }() // which the server may have done
		if err := do(r); err != nil && !refusedByPeer(err) {
			return unlessEnded(ctx, err)
		}
		select {
		case <-ctx.Done():
		case <-r.gone:
		}
		return nil
	})
}

func unlessEnded(ctx context.Context, err error) error {
	code := status.Code(err)
	if ctx.Err() != nil || refusedByPeer(err) || code == codes.DeadlineExceeded || code == codes.Canceled {
		return nil
	}
	return err
}

// refusedByPeer reports whether the server, or the end of the attack, closed the connection.
func refusedByPeer(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func unreadUnary(ctx context.Context, a *target) error {
	return a.onRaw(ctx, manyConns, a.Unix, func(r *raw) error {
		for range manyRequests {
			stream, err := r.begin(fsPath+"ReadFile", a.Hostile)
			if err == nil {
				err = r.send(stream, true, framedMessage(&ctxfsv1.ReadFileRequest{Path: "/big"}))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// manyReads calls send with requests whose replies are of about 3 MiB each. Half of them are listings, which have a
// goroutine each from the start.
func manyReads(send func(*ctxfsv1.SessionRequest) error) error {
	for id := range uint64(manyRequests) {
		var req proto.Message = &ctxfsv1.ReadFileRequest{Path: "/big"}
		if id%2 == 0 {
			req = &ctxfsv1.ReaddirRequest{Path: "/many", WithStats: true}
		}
		if err := send(sessiontest.Call(id+2, req)); err != nil {
			return err
		}
	}
	return nil
}

func opening(token string) *ctxfsv1.SessionRequest {
	return &ctxfsv1.SessionRequest{Id: 1, Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{Token: token}}}
}

func unreadSessions(ctx context.Context, a *target) error {
	return each(manyConns, func(int) error {
		cc, err := dial(a.Unix)
		if err != nil {
			return err
		}
		defer func() { _ = cc.Close() }()
		s, err := ctxfsv1.NewFsServiceClient(cc).Session(as(ctx, a.Hostile))
		if err != nil {
			return unlessEnded(ctx, err)
		}
		if err = s.Send(opening("")); err == nil {
			_ = manyReads(s.Send) // the server may end the session, or stop receiving until the attack is over
		}
		if err != nil {
			return unlessEnded(ctx, err)
		}
		<-ctx.Done()
		return nil
	})
}

func unreadSockets(ctx context.Context, a *target) error {
	return each(manyConns, func(int) error {
		ws, _, err := websocket.Dial(ctx, "ws://"+a.HTTP+"/v1/session", nil)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		defer func() { _ = ws.CloseNow() }()
		if err = writeSocket(ctx, ws, opening(a.Hostile)); err == nil {
			_ = manyReads(func(m *ctxfsv1.SessionRequest) error { return writeSocket(ctx, ws, m) }) // as above
		}
		if err != nil {
			return unlessEnded(ctx, err)
		}
		<-ctx.Done()
		return nil
	})
}

func writeSocket(ctx context.Context, ws *websocket.Conn, m *ctxfsv1.SessionRequest) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return ws.Write(ctx, websocket.MessageBinary, data)
}

func unreadContent(ctx context.Context, a *target) error {
	return a.sayAndWait(ctx, 64, a.HTTP, "GET /v1/content?path=/big HTTP/1.1\r\nHost: "+a.HTTP+"\r\nAuthorization: Bearer "+a.Hostile+"\r\n\r\n")
}

// slowReaders take the replies of unary calls, of streams and of HTTP a few bytes at a time.
func slowReaders(ctx context.Context, a *target) error {
	return each(manyConns, func(i int) error {
		if i%2 == 0 {
			return a.slowContent(ctx)
		}
		return a.onRaw(ctx, 1, a.Unix, func(r *raw) error {
			var streams []uint32
			for range manyRequests {
				stream, err := r.begin(fsPath+"ReadFile", a.Hostile)
				if err == nil {
					err = r.send(stream, true, framedMessage(&ctxfsv1.ReadFileRequest{Path: "/big"}))
				}
				if err != nil {
					return err
				}
				streams = append(streams, stream)
			}
			return everyTick(ctx, func() error {
				r.mu.Lock()
				defer r.mu.Unlock()
				for _, stream := range streams {
					if err := r.WriteWindowUpdate(stream, 10); err != nil {
						return err
					}
				}
				return nil
			})
		})
	})
}

// slowContent reads a file by HTTP.
func (a *target) slowContent(ctx context.Context) error {
	conn, err := a.dialed(ctx, a.HTTP)
	if err == nil {
		_, err = io.WriteString(conn, "GET /v1/content?path=/big HTTP/1.1\r\nHost: "+a.HTTP+"\r\nAuthorization: Bearer "+a.Hostile+"\r\n\r\n")
	}
	if err == nil {
		var few [16]byte
		err = everyTick(ctx, func() error {
			_, err := conn.Read(few[:])
			return err
		})
	}
	return unlessEnded(ctx, err)
}

// everyTick calls do now and then until ctx ends or do fails.
func everyTick(ctx context.Context, do func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := do(); err != nil {
			return err
		}
	}
}

// sayAndWait says something on many connections, reads nothing, and holds them until ctx ends or the server closes.
func (a *target) sayAndWait(ctx context.Context, n int, address, text string) error {
	return each(n, func(int) error {
		conn, err := a.dialed(ctx, address)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		defer func() { _ = conn.Close() }() // which the attack's end may have done
		if _, err := io.WriteString(conn, text); err != nil && !refusedByPeer(err) {
			return unlessEnded(ctx, err)
		}
		<-ctx.Done()
		return nil
	})
}

func unreadStreams(ctx context.Context, a *target) error {
	for _, call := range []struct {
		method string
		req    proto.Message
	}{
		{"ReadStream", &ctxfsv1.ReadStreamRequest{Path: "/big"}},
		{"Opendir", &ctxfsv1.OpendirRequest{Path: "/"}},
		{"Glob", &ctxfsv1.GlobRequest{Patterns: []string{"**/*"}}},
		{"Grep", &ctxfsv1.GrepRequest{Pattern: "a"}},
	} {
		r, err := a.raw(ctx, a.Unix)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		for range manyRequests {
			stream, err := r.begin(fsPath+call.method, a.Hostile)
			if err == nil {
				err = r.send(stream, true, framedMessage(call.req))
			}
			if err != nil {
				return unlessEnded(ctx, err)
			}
		}
	}
	<-ctx.Done()
	return nil
}

// unreadWatches opens as many watches as a panel may have, and makes events meanwhile.
func unreadWatches(ctx context.Context, a *target) error {
	for range 4 {
		r, err := a.raw(ctx, a.Unix)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		for range 240 {
			stream, err := r.begin(fsPath+"Watch", a.Hostile)
			if err == nil {
				err = r.send(stream, true, framedMessage(&ctxfsv1.WatchRequest{Path: "/", Recursive: true}))
			}
			if err != nil {
				return unlessEnded(ctx, err)
			}
		}
	}
	cc, err := dial(a.Unix)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	fs := ctxfsv1.NewFsServiceClient(cc)
	for n := 0; ctx.Err() == nil; n++ {
		path := fmt.Sprintf("/%s%d", strings.Repeat("n", 150), n%50)
		if _, err := fs.WriteFile(as(ctx, a.Hostile), &ctxfsv1.WriteFileRequest{Path: path}); err != nil {
			return unlessEnded(ctx, err)
		}
	}
	return nil
}

func explodingPatterns(ctx context.Context, a *target) error {
	cc, err := dial(a.Unix)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	fs := ctxfsv1.NewFsServiceClient(cc)
	patterns := []string{strings.Repeat("(a?)", 20_000) + "b", strings.Repeat("(a?)", 200) + strings.Repeat("a", 200) + "b", "((a{1,100}){1,100}){1,10}b", "(a|a)*b"}
	return each(2*len(patterns), func(i int) error {
		for ctx.Err() == nil {
			short, cancel := context.WithTimeout(as(ctx, a.Hostile), 200*time.Millisecond) // clock: the attacker gives up often
			s, err := fs.Grep(short, &ctxfsv1.GrepRequest{Path: "/line", Pattern: patterns[i%len(patterns)]})
			for err == nil {
				_, err = s.Recv()
			}
			cancel()
		}
		return nil
	})
}

func silentConnections(ctx context.Context, a *target) error {
	for _, address := range []string{a.Unix, a.TCP, a.HTTP} {
		for range 300 {
			if _, err := a.dialed(ctx, address); err != nil {
				return unlessEnded(ctx, err)
			}
		}
	}
	<-ctx.Done()
	return nil
}

func halfOpenConnections(ctx context.Context, a *target) error {
	says := map[string][]string{
		a.Unix: {"P", http2.ClientPreface}, a.TCP: {"PRI * HT", http2.ClientPreface, "GET /v1/sess"},
		a.HTTP: {"GET / HTTP/1.1\r\nHost: " + a.HTTP + "\r\nX: ", "GET /v1/session HTTP/1.1\r\n"},
	}
	for address, texts := range says {
		for _, text := range texts {
			for range 100 {
				conn, err := a.dialed(ctx, address)
				if err == nil {
					_, err = io.WriteString(conn, text)
				}
				if err != nil && !refusedByPeer(err) {
					return unlessEnded(ctx, err)
				}
			}
		}
	}
	<-ctx.Done()
	return nil
}

// slowWriters send the most of requests of 16 MiB, and nothing more.
func slowWriters(ctx context.Context, a *target) error {
	const size = 15 << 20
	most := framed(false, size, make([]byte, 2<<20))
	return a.onRaw(ctx, manyConns, a.Unix, func(r *raw) error {
		for range 25 {
			stream, err := r.begin(fsPath+"WriteFile", a.Hostile)
			if err == nil {
				err = r.send(stream, false, most)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func hugeHeaders(ctx context.Context, a *target) error {
	huge := strings.Repeat("h", 8<<20)
	err := a.onRaw(ctx, manyConns, a.TCP, func(r *raw) error {
		_, err := r.begin(fsPath+"Stat", "", "x-huge", huge)
		return err
	})
	return errors.Join(err, a.sayAndWait(ctx, manyConns, a.HTTP, "GET / HTTP/1.1\r\nHost: "+a.HTTP+"\r\nX: "+huge))
}

// compressedBombs have requests inflated for a caller without a token.
func compressedBombs(ctx context.Context, a *target) error {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 15<<20)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	message := framed(true, bomb.Len(), bomb.Bytes())
	return a.onRaw(ctx, manyConns, a.TCP, func(r *raw) error {
		for range manyRequests {
			stream, err := r.begin(fsPath+"WriteFile", "", "grpc-encoding", "gzip")
			if err == nil {
				err = r.send(stream, true, message)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func manyStreams(ctx context.Context, a *target) error {
	return a.onRaw(ctx, 1, a.Unix, func(r *raw) error {
		for range 10_000 {
			if _, err := r.begin(fsPath+"Stat", a.Hostile); err != nil {
				return err
			}
		}
		return nil
	})
}

// rapidResets opens streams and resets them at once (CVE-2023-44487).
func rapidResets(ctx context.Context, a *target) error {
	return a.onRaw(ctx, 2, a.Unix, func(r *raw) error {
		for range 20_000 {
			stream, err := r.begin(fsPath+"Stat", a.Hostile)
			if err == nil {
				r.mu.Lock()
				err = r.WriteRSTStream(stream, http2.ErrCodeCancel)
				r.mu.Unlock()
			}
			if err != nil || ctx.Err() != nil {
				return err
			}
		}
		return nil
	})
}
