package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/mcp"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxMCPBody bounds a message of MCP, in bytes.
	maxMCPBody = 4 << 20
	// mcpCost is the memory that a message takes, as a multiple of what a request of JSON takes while it is decoded.
	mcpCost = 3
	// maxMCPSessions bounds the sessions of a panel, and maxMCPRequests its requests at once.
	maxMCPSessions, maxMCPRequests = 32, 64
	// mcpGrace is how long a client may take to receive its answers once its session has ended.
	mcpGrace = time.Second
	// mcpIdle is how long a session without a request stays.
	mcpIdle = 30 * time.Minute
	// sessionless is the first version of the protocol whose requests need no session.
	sessionless = "2026-07-28"
	// The headers of the protocol.
	mcpSessionHeader, mcpVersionHeader, mcpMethodHeader = "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method"
)

// mcpTable has the MCP sessions, and counts the requests of each panel.
type mcpTable struct {
	g       *Gateway
	schemas *sdk.SchemaCache

	mu     sync.Mutex
	by     map[string]*mcpSession
	panels map[string]mcpUse
}

// mcpUse is how much a panel has at once.
type mcpUse struct{ sessions, requests int }

func newMCPTable(g *Gateway) *mcpTable {
	return &mcpTable{g: g, schemas: sdk.NewSchemaCache(), by: map[string]*mcpSession{}, panels: map[string]mcpUse{}}
}

// MCPSessions returns how many MCP sessions there are.
func (g *Gateway) MCPSessions() int {
	g.mcp.mu.Lock()
	defer g.mcp.mu.Unlock()
	return len(g.mcp.by)
}

// use counts sessions and requests of a panel. It refuses them beyond the bounds.
func (t *mcpTable) use(panel string, sessions, requests int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.panels[panel]
	u.sessions, u.requests = u.sessions+sessions, u.requests+requests
	switch {
	case u.sessions > maxMCPSessions && sessions > 0:
		return &fserr.Error{Code: fserr.EMFILE, Detail: fmt.Sprintf("the panel has %d MCP sessions", maxMCPSessions), Hint: "end some with DELETE"}
	case u.requests > maxMCPRequests && requests > 0:
		return &fserr.Error{Code: fserr.EAGAIN, Detail: fmt.Sprintf("the panel has %d MCP requests at once", maxMCPRequests), Hint: "wait for some", RetryAfter: time.Second}
	}
	if t.panels[panel] = u; u == (mcpUse{}) {
		delete(t.panels, panel)
	}
	return nil
}

// mcpSession is a session of MCP. It belongs to the panel and the context that began it.
type mcpSession struct {
	t    *mcpTable
	id   string
	conn *localConn
	// server and handler answer the session's requests.
	server  *mcp.Server
	handler http.Handler
	// end ends the session. ended is closed when that is done.
	end   context.CancelFunc
	ended chan struct{}
	// using counts the requests, and idle ends a session that has none. requests are those under way, by the ID that the SDK passes on. The
	// table's mutex guards all.
	using    int
	idle     *time.Timer
	requests map[string]*mcpRequest
}

// serveMCP answers /v1/mcp: the streamable HTTP transport of the Model Context Protocol.
func (g *Gateway) serveMCP(w http.ResponseWriter, r *http.Request) {
	twoLengths := oneLength(w, r) // before any other answer, since it may close the connection
	if !g.enter(w, r) {
		return
	}
	defer g.requests.leave()
	allowMCP(w, r)
	switch {
	case twoLengths != nil:
		refuseRPC(w, 0, twoLengths)
	case r.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	default:
		if code, err := g.answerMCP(w, r); err != nil {
			refuseRPC(w, code, err)
		}
	}
}

// allowMCP lets the page that sent the request read the answer, as allowOrigin does.
func allowMCP(w http.ResponseWriter, r *http.Request) {
	allowOrigin(w, r)
	h := w.Header()
	jsonHeaders(h, "")
	h.Del("Content-Type")
	if r.Header.Get("Origin") == "" {
		return
	}
	h.Set("Access-Control-Expose-Headers", h.Get("Access-Control-Expose-Headers")+", "+mcpSessionHeader+", "+mcpVersionHeader)
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Ctxfs-Panel, Last-Event-Id, Mcp-Method, Mcp-Name, "+mcpSessionHeader+", "+mcpVersionHeader)
	}
}

// answerMCP authenticates a request and passes it to its session. It returns an error, with its HTTP status, for a request that it did
// not answer.
func (g *Gateway) answerMCP(w http.ResponseWriter, r *http.Request) (code int, err error) {
	md, err := g.headersOf(r)
	if err != nil {
		return 0, err
	}
	info, done := g.cfg.Calls.Conn(r.Context(), false)
	defer done()
	conn := &localConn{g: g, info: info, addr: remoteAddr(r.RemoteAddr), ctx: r.Context(), md: md}
	caller, err := ctxfsv1.NewContextServiceClient(conn).GetInfo(r.Context(), &ctxfsv1.GetInfoRequest{})
	if e, ok := fserrpb.FromStatus(err); ok && e.Code == fserr.EINVAL {
		return 0, &fserr.Error{Code: fserr.EACCES, Detail: "MCP is for panels", Hint: "send the token of a panel, or with the host token 'Ctxfs-Panel: NAME'"}
	}
	if err != nil {
		return 0, err
	}
	if err := g.mcp.use(caller.GetPanelId(), 0, 1); err != nil {
		return 0, err
	}
	defer func() { _ = g.mcp.use(caller.GetPanelId(), 0, -1) }()
	held, err := g.cfg.Calls.Hold(callContext(r.Context(), r, md, info))
	if err != nil {
		return 0, err
	}
	defer held.Release()
	if code, err := g.readMCP(w, r, held); err != nil {
		return code, err
	}
	s, code, err := g.mcp.session(r, md, caller)
	if err != nil {
		return code, err
	}
	defer s.leave()
	s.answer(&mcpWriter{ResponseWriter: w, control: http.NewResponseController(w), keepalive: g.cfg.Keepalive}, &mcpRequest{r: r, md: md, info: info})
	return 0, nil
}

// readMCP reads the body of a request, whose memory held counts, and lifts the deadlines, since an answer may be a stream of events.
func (g *Gateway) readMCP(w http.ResponseWriter, r *http.Request, held *budget.Hold) (code int, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), bodyTime)
	defer cancel()
	held.Times(mcpCost)
	body, err := newRPCStream(g, w, r, nil).body(ctx, maxMCPBody, func(bytes int64) error {
		if err := held.Reserve(ctx, bytes); err != nil {
			return budget.Refusal(err, "the request")
		}
		return nil
	})
	if large, ok := errors.AsType[*TooLargeError](err); ok {
		err = &fserr.Error{Code: fserr.EFBIG, Detail: fmt.Sprintf("the message has %d bytes, and %d MiB are the most", large.Size, maxMCPBody>>20), Hint: "write large files with PUT /v1/content"}
		code = http.StatusRequestEntityTooLarge
	}
	if err != nil {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		return code, err
	}
	// The limits count requests, so a request is one message. Versions of the protocol since 2025-06-18 have no arrays of messages either.
	if text := bytes.TrimLeft(body, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		return 0, &fserr.Error{Code: fserr.EINVAL, Detail: "the body is an array of messages", Hint: "send each message as a request of its own"}
	}
	decodes, err := codec.FootprintJSON(body)
	if err == nil && decodes > int64(len(body)) {
		if err = held.Reserve(ctx, int64(len(body))+decodes/mcpCost); err != nil {
			err = budget.Refusal(err, "the request")
		}
	}
	if err != nil {
		return 0, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return 0, http.NewResponseController(w).SetWriteDeadline(time.Time{})
}

// session returns the session that a request names, or a new one. The caller must call leave.
func (t *mcpTable) session(r *http.Request, md metadata.MD, caller *ctxfsv1.GetInfoResponse) (s *mcpSession, code int, err error) {
	if id := r.Header.Get(mcpSessionHeader); id != "" {
		if s = t.join(id, caller); s == nil {
			return nil, http.StatusNotFound, &fserr.Error{Code: fserr.ENOENT, Detail: "this panel has no such MCP session", Hint: "begin another with initialize"}
		}
		s.conn.renew(md)
		return s, 0, nil
	}
	s, err = t.begin(r, md, caller.GetPanelId())
	return s, 0, err
}

// join returns a session of the caller by its ID; nil if the caller has none of that ID.
func (t *mcpTable) join(id string, caller *ctxfsv1.GetInfoResponse) *mcpSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.by[id]
	if s == nil || s.conn.ctx.Err() != nil || s.server.Panel() != caller.GetPanelId() || s.server.Context() != caller.GetContextId() {
		return nil
	}
	s.using++
	s.idle.Stop()
	return s
}

// leave ends a request. A session that its client has ended, or never began, ends with it.
func (s *mcpSession) leave() {
	s.t.mu.Lock()
	s.using--
	last := s.using == 0
	if last && s.conn.ctx.Err() == nil { // close stops it after that
		s.idle.Reset(s.t.g.MCPIdle)
	}
	s.t.mu.Unlock()
	for range s.server.SDK.Sessions() {
		return
	}
	if s.end(); last {
		<-s.ended
	}
}

// begin begins a session. Requests of a sessionless version have one each, which no ID names.
func (t *mcpTable) begin(r *http.Request, md metadata.MD, panel string) (*mcpSession, error) {
	once := r.Header.Get(mcpVersionHeader) >= sessionless
	if !t.g.requests.enter() {
		return nil, errStopping
	}
	ctx, end := context.WithCancel(context.WithoutCancel(r.Context()))
	info, done := t.g.cfg.Calls.Conn(ctx, false)
	s := &mcpSession{t: t, id: rand.Text(), end: end, ended: make(chan struct{}), using: 1}
	s.conn = &localConn{g: t.g, info: info, addr: remoteAddr(r.RemoteAddr), ctx: ctx, md: md}
	s.requests = map[string]*mcpRequest{}
	begun := make(chan error, 1)
	go func() {
		defer t.g.requests.leave()
		defer done()
		defer close(s.ended)
		s.run(ctx, panel, once && r.Header.Get(mcpMethodHeader) != "subscriptions/listen", begun)
	}()
	if err := <-begun; err != nil {
		end()
		return nil, err
	}
	// The gateway checks host names and origins itself.
	opts := &sdk.StreamableHTTPOptions{Stateless: once, PropagateRequestCancellation: true, DisableLocalhostProtection: true, MaxRequestBodyBytes: maxMCPBody}
	s.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.server.SDK }, opts)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.idle = time.AfterFunc(t.g.MCPIdle, end)
	s.idle.Stop()                  // until the request has ended
	if !once && ctx.Err() == nil { // close forgets it after that
		t.by[s.id] = s
	}
	return s, nil
}

// run holds a session until it ends, and then closes what it has. It sends begun the error of the beginning. short says that the session
// is one short request, which is not counted.
func (s *mcpSession) run(ctx context.Context, panel string, short bool, begun chan<- error) {
	defer s.conn.calls.end()
	defer s.end()
	defer context.AfterFunc(s.t.g.ending, s.end)()
	if !short {
		if err := s.t.use(panel, 1, 0); err != nil {
			begun <- err
			return
		}
		defer func() { _ = s.t.use(panel, -1, 0) }()
	}
	var err error
	s.server, err = mcp.New(ctx, mcp.Config{Conn: s.conn, Version: s.t.g.cfg.Version, SessionID: func() string { return s.id }, Schemas: s.t.schemas})
	if err != nil {
		begun <- err
		return
	}
	s.server.SDK.AddReceivingMiddleware(s.asRequested)
	defer s.close()
	if short {
		begun <- nil
		<-ctx.Done()
		return
	}
	s.live(ctx, begun)
}

// live makes the session a call of FsService/Session, which ends with the panel's token. If the client has sent another token meanwhile,
// another call follows. It sends begun the error of the first call, or nil once that has begun.
func (s *mcpSession) live(ctx context.Context, begun chan<- error) {
	first := sync.OnceFunc(func() { begun <- nil })
	for {
		md := s.conn.identity()
		err := s.t.g.cfg.Calls.Call(s.conn.caller(ctx), ctxfsv1.FsService_Session_FullMethodName, nil, func(ctx context.Context, _ *atomic.Int64) error {
			first()
			<-ctx.Done()
			return ctx.Err()
		})
		if now := s.conn.identity(); ctx.Err() == nil && tokenIn(now) != tokenIn(md) {
			continue
		}
		select {
		case begun <- err: // the first call was refused
		default: // nobody waits any longer
		}
		return
	}
}

func tokenIn(md metadata.MD) string {
	if v := md.Get("authorization"); len(v) > 0 {
		return v[0]
	}
	return ""
}

// close forgets the session and closes what it has. Its context has ended, and with it its calls.
func (s *mcpSession) close() {
	s.end()
	s.t.mu.Lock()
	delete(s.t.by, s.id)
	if s.idle != nil { // begin has not failed
		s.idle.Stop()
	}
	s.t.mu.Unlock()
	for session := range s.server.SDK.Sessions() {
		_ = session.Close() // its client sees the end of its streams
	}
	s.server.Close()
}

// mcpWriter is the answer to a request. A slow client is served, but one that receives nothing within a keepalive is cut off, and one whose
// session has ended within mcpGrace.
type mcpWriter struct {
	http.ResponseWriter
	control   *http.ResponseController
	keepalive time.Duration

	mu sync.Mutex
	// until is when the answer must be received; zero as long as the session lives.
	until time.Time
}

// Unwrap serves http.ResponseController.
func (w *mcpWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w *mcpWriter) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		if err := w.extend(time.Now().Add(w.keepalive)); err != nil {
			return sent, err
		}
		n, err := w.ResponseWriter.Write(p[sent:min(len(p), sent+contentPart)])
		if err == nil {
			err = w.control.Flush()
		}
		if sent += n; err != nil {
			return sent, err
		}
	}
	return len(p), w.extend(time.Time{})
}

// extend sets when the next part must be received; zero for no limit.
func (w *mcpWriter) extend(until time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.until.IsZero() {
		until = w.until
	}
	return w.control.SetWriteDeadline(until)
}

// end bounds the time for the rest of the answer.
func (w *mcpWriter) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = time.Now().Add(mcpGrace)
	return w.control.SetWriteDeadline(w.until)
}

// Flush implements http.Flusher.
func (w *mcpWriter) Flush() { _ = w.control.Flush() } // Write has flushed
