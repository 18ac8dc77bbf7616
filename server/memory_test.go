package server

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/long"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// rawClient speaks HTTP/2. Unlike a gRPC client it can leave its windows closed and its requests unfinished.
type rawClient struct {
	t    *testing.T
	conn net.Conn
	fr   *http2.Framer

	// write guards what is written and the encoder's state.
	write  sync.Mutex
	head   bytes.Buffer
	enc    *hpack.Encoder
	stream uint32

	mu sync.Mutex
	// room is what may still be sent: by stream, and with key 0 by the connection.
	room map[uint32]int64
	// status is the grpc-status of each stream that has ended.
	status map[uint32]string
	// changed is closed when room or status has changed.
	changed chan struct{}
	closed  bool
}

// initialWindow is HTTP/2's, in bytes.
const initialWindow = 64<<10 - 1

// dialHTTP2 connects to addr. window is how much of each reply the server may send before it is read, in bytes.
func dialHTTP2(t *testing.T, addr string, window uint32) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &rawClient{
		t: t, conn: conn, fr: http2.NewFramer(conn, conn), stream: 1,
		room: map[uint32]int64{0: initialWindow}, status: map[uint32]string{}, changed: make(chan struct{}),
	}
	c.enc = hpack.NewEncoder(&c.head)
	t.Cleanup(c.close)
	_, err = io.WriteString(conn, http2.ClientPreface)
	c.must(err)
	c.must(c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	go c.read(hpack.NewDecoder(4096, nil))
	return c
}

func (c *rawClient) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *rawClient) close() { _ = c.conn.Close() }

// read takes what the server sends until the connection ends.
func (c *rawClient) read(dec *hpack.Decoder) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		c.note()
	}()
	window := int64(initialWindow)
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				continue
			}
			c.mu.Lock()
			if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
				for id := range c.room {
					if id != 0 {
						c.room[id] += int64(v) - window
					}
				}
				window = int64(v)
			}
			c.note()
			c.mu.Unlock()
			c.write.Lock()
			_ = c.fr.WriteSettingsAck()
			c.write.Unlock()
		case *http2.PingFrame:
			c.write.Lock()
			_ = c.fr.WritePing(true, f.Data)
			c.write.Unlock()
		case *http2.WindowUpdateFrame:
			c.mu.Lock()
			c.room[f.StreamID] += int64(f.Increment)
			c.note()
			c.mu.Unlock()
		case *http2.HeadersFrame:
			fields, _ := dec.DecodeFull(f.HeaderBlockFragment())
			c.mu.Lock()
			for _, field := range fields {
				if field.Name == "grpc-status" {
					c.status[f.StreamID] = field.Value
				}
			}
			c.note()
			c.mu.Unlock()
		case *http2.RSTStreamFrame:
			c.mu.Lock()
			if c.status[f.StreamID] == "" {
				c.status[f.StreamID] = "reset"
			}
			c.note()
			c.mu.Unlock()
		}
	}
}

// note signals a change. c.mu is held.
func (c *rawClient) note() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// begin sends a call's headers, and returns its stream.
func (c *rawClient) begin(method, token string, more ...string) uint32 {
	c.t.Helper()
	c.write.Lock()
	defer c.write.Unlock()
	c.head.Reset()
	fields := []string{
		":method", "POST", ":scheme", "http", ":path", method, ":authority", "localhost", "content-type", "application/grpc", "te", "trailers",
	}
	if token != "" {
		fields = append(fields, "authorization", bearerOf(token))
	}
	fields = append(fields, more...)
	for i := 0; i < len(fields); i += 2 {
		c.must(c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	id := c.stream
	c.stream += 2
	c.mu.Lock()
	if _, ok := c.room[id]; !ok {
		c.room[id] = initialWindow
	}
	c.mu.Unlock()
	c.must(c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.head.Bytes(), EndHeaders: true}))
	return id
}

// send sends data on a stream as far as the server's windows let it, and returns how much that was.
func (c *rawClient) send(id uint32, data []byte, end bool) (sent int) {
	for {
		c.mu.Lock()
		n := int(min(int64(len(data)-sent), 16<<10, c.room[id], c.room[0]))
		c.room[id] -= int64(max(n, 0))
		c.room[0] -= int64(max(n, 0))
		c.mu.Unlock()
		last := end && sent+n == len(data)
		if n <= 0 && !last {
			return sent
		}
		c.write.Lock()
		err := c.fr.WriteData(id, last, data[sent:sent+n])
		c.write.Unlock()
		if sent += n; err != nil || last {
			return sent
		}
	}
}

// call makes a unary call, and does not wait for its end.
func (c *rawClient) call(method, token string, m proto.Message) uint32 {
	c.t.Helper()
	body, err := proto.Marshal(m)
	c.must(err)
	id := c.begin(method, token)
	c.send(id, framed(0, body, len(body)), true)
	return id
}

// framed is gRPC's for a message of the given length.
func framed(flag byte, body []byte, length int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(length)), body...)
}

// ended waits for a stream's end, and returns its status.
func (c *rawClient) ended(id uint32) string {
	c.t.Helper()
	for {
		c.mu.Lock()
		status, changed, closed := c.status[id], c.changed, c.closed
		c.mu.Unlock()
		if status != "" || closed {
			return status
		}
		<-changed
	}
}

// largeFile puts a file of n bytes into a panel's context.
func (r *running) largeFile(t *testing.T, panel string, n int) {
	t.Helper()
	write(t, filepath.Join(r.folder("ctx_"+panel), "large"), strings.Repeat("x", n))
}

// wantHeap checks that no more than limit bytes are in use beyond before, though the collector has run.
func wantHeap(t *testing.T, before uint64, limit int64) {
	t.Helper()
	grown := int64(heap()) - int64(before)
	t.Logf("the heap grew by %.1f MiB", float64(grown)/(1<<20))
	if grown > limit {
		t.Errorf("the heap grew by %d MiB, want at most %d MiB", grown>>20, limit>>20)
	}
}

// settled waits until count does not rise any more.
func settled(t *testing.T, what string, count func() int) {
	t.Helper()
	was, still := -1, 0
	eventually(t, what, func() bool {
		n := count()
		if still++; n != was {
			was, still = n, 0
		}
		return still > 40
	})
}

func readLarge() *ctxfsv1.ReadFileRequest { return &ctxfsv1.ReadFileRequest{Path: "/large"} }

func opReadLarge() proto.Message {
	return readLarge()
}

const largeReply = 3 << 20

// unread are the ways in which a panel asks for n large replies and reads none. Each returns what ends its connection.
var unread = map[string]func(t *testing.T, r *running, token string, n int) (cut func()){
	"unary": func(t *testing.T, r *running, token string, n int) func() {
		c := dialHTTP2(t, r.Info().Addresses.TCP[0], 0)
		for range n {
			c.call(ctxfsv1.FsService_ReadFile_FullMethodName, token, readLarge())
		}
		return c.close
	},
	"grpc session": func(t *testing.T, r *running, token string, n int) func() {
		c := dialHTTP2(t, r.Info().Addresses.TCP[0], 0)
		id := c.begin(ctxfsv1.FsService_Session_FullMethodName, token)
		say := func(m *ctxfsv1.SessionRequest) {
			body, err := proto.Marshal(m)
			c.must(err)
			c.send(id, framed(0, body, len(body)), false)
		}
		say(openRequest("", ""))
		for i := range n {
			say(sessiontest.Call(uint64(i+1), opReadLarge()))
		}
		return c.close
	},
	"websocket": func(t *testing.T, r *running, token string, n int) func() {
		s := beginWeb(t, r.Info().Addresses.HTTP, token, "")
		for range n {
			s.ask(opReadLarge())
		}
		return s.cut
	},
}

// smallMemory returns settings with which a panel's memory has room for one large reply. A session may run no third call while its client reads
// nothing: the receiver sends the reply of a call that it ran itself, and waits. So more memory may never be full.
func smallMemory(t *testing.T) Config {
	t.Helper()
	cfg := sessionConfig(t)
	cfg.MemoryPerPanel, cfg.MemoryPerConnection = 4<<20, 4<<20
	return cfg
}

// TestUnreadRepliesStayInBudget has a panel ask for much more than fits into its share of the memory, and read nothing.
func TestUnreadRepliesStayInBudget(t *testing.T) {
	for way, ask := range unread {
		for _, connections := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s over %d connections", way, connections), func(t *testing.T) {
				r := start(t, sessionConfig(t))
				token := r.openPanel(t, "p").GetToken()
				r.largeFile(t, "p", largeReply)
				other := beginGRPC(t, r.Info().Addresses.TCP[0], r.openPanel(t, "q").GetToken(), "")
				before := heap()
				var cuts []func()
				for range connections {
					cuts = append(cuts, ask(t, r, token, 100))
				}
				settled(t, "no more is read", func() int { return r.reads(t) })
				other.works(opStat("/"))
				wantHeap(t, before, 160<<20)
				for _, cut := range cuts {
					cut()
				}
				eventually(t, "the memory is given back", func() bool { return int64(heap())-int64(before) < 32<<20 })
			})
		}
	}
}

// compressed is a gRPC message that inflates to n zero bytes.
func compressed(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(make([]byte, n))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return framed(1, b.Bytes(), b.Len())
}

// TestCompressedRequestsAreNotInflated sends messages that would become 16 MiB of zeros, which are no protobuf message: a server that
// inflates one answers INTERNAL.
func TestCompressedRequestsAreNotInflated(t *testing.T) {
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	body := compressed(t, 16<<20)
	for name, test := range map[string]struct{ method, token, status string }{
		"no token":           {ctxfsv1.FsService_Stat_FullMethodName, "", "16"},
		"health":             {"/grpc.health.v1.Health/Check", "", "12"},
		"a stream of health": {"/grpc.health.v1.Health/Watch", "", "12"},
		"a token":            {ctxfsv1.FsService_Stat_FullMethodName, token, "12"},
		"a session":          {ctxfsv1.FsService_Session_FullMethodName, token, "12"},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialHTTP2(t, r.Info().Addresses.TCP[0], initialWindow)
			id := c.begin(test.method, test.token, "grpc-encoding", "gzip")
			c.send(id, body, true)
			if got := c.ended(id); got != test.status {
				t.Errorf("status %s, want %s", got, test.status)
			}
		})
	}
}

// TestHalfSentRequestsStayInBudget begins 200 requests of 16 MiB, sends as much of 4 MiB each as the server takes, and ends none.
func TestHalfSentRequestsStayInBudget(t *testing.T) {
	for name, test := range map[string]struct {
		method string
		panel  bool
		limit  int64
	}{
		"write":  {ctxfsv1.FsService_WriteFile_FullMethodName, true, 96 << 20},
		"health": {"/grpc.health.v1.Health/Check", false, 32 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, sessionConfig(t))
			token := ""
			if test.panel {
				token = r.openPanel(t, "p").GetToken()
			}
			other := beginGRPC(t, r.Info().Addresses.TCP[0], r.openPanel(t, "q").GetToken(), "")
			before := heap()
			c := dialHTTP2(t, r.Info().Addresses.TCP[0], initialWindow)
			body := framed(0, make([]byte, 4<<20), 16<<20)
			type half struct {
				id   uint32
				sent int
			}
			var halves []*half
			for range 200 {
				halves = append(halves, &half{id: c.begin(test.method, token)})
			}
			total := 0
			settled(t, "the server takes no more", func() int {
				for _, h := range halves {
					n := c.send(h.id, body[h.sent:], false)
					h.sent += n
					total += n
				}
				return total
			})
			t.Logf("the server took %.1f MiB", float64(total)/(1<<20))
			other.works(opStat("/"))
			wantHeap(t, before, test.limit)
			c.close()
			eventually(t, "the memory is given back", func() bool { return int64(heap())-int64(before) < 16<<20 })
		})
	}
}

// TestUnreadStreamsStayInBudget has a panel begin many ReadStreams of large chunks and listings, and read none of them; another
// stream of the same connection still makes progress.
func TestUnreadStreamsStayInBudget(t *testing.T) {
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	r.largeFile(t, "p", 8<<20)
	c := dialHTTP2(t, r.Info().Addresses.TCP[0], 0)
	before := heap()
	for range 300 {
		c.call(ctxfsv1.FsService_ReadStream_FullMethodName, token, &ctxfsv1.ReadStreamRequest{Path: "/large", ChunkSize: 1 << 20})
	}
	eventually(t, "the streams are there", func() bool { return r.streams.count() == 300 })
	settled(t, "no more is read", func() int { return int(heap() >> 20) })
	wantHeap(t, before, 96<<20)
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	stream, err := fs.ReadStream(with(t, "authorization", bearerOf(token)), &ctxfsv1.ReadStreamRequest{Path: "/large"})
	n := 0
	for err == nil {
		var m *ctxfsv1.ReadStreamResponse
		m, err = stream.Recv()
		n += len(m.GetData())
	}
	if n != 8<<20 || !errors.Is(err, io.EOF) {
		t.Errorf("a stream that is read got %d bytes, %v", n, err)
	}
	c.close()
	eventually(t, "the memory is given back", func() bool { return r.calls.limits.memory.Held() == 0 })
}

// waiting are the operations that wait for memory now, or did.
func (r *running) waiting(t *testing.T) (n int) {
	t.Helper()
	for line := range strings.Lines(r.metricsText(t)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "} "); strings.HasPrefix(name, "ctxfs_limit_waits_total{") {
			more, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			n += more
		}
	}
	return n
}

// TestOperationsThatWaitForMemoryAreCanceled fills a panel's memory by one session, and cancels what waits in another.
func TestOperationsThatWaitForMemoryAreCanceled(t *testing.T) {
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, smallMemory(t))
		token := r.openPanel(t, "p").GetToken()
		r.largeFile(t, "p", largeReply)
		cut := unread["unary"](t, r, token, 10)
		eventually(t, "the memory is full", func() bool { return r.waiting(t) > 0 })
		s := begin(t, addr(r), token, "")
		s.works(opStat("/"))
		asked := map[uint64]bool{}
		for range 100 {
			asked[s.ask(opReadLarge())] = true
		}
		for id := range asked {
			s.must(s.say(&ctxfsv1.SessionRequest{Id: id, Request: &ctxfsv1.SessionRequest_Cancel{Cancel: &ctxfsv1.SessionCancel{}}}))
		}
		for range asked {
			if m := s.next(); !asked[m.GetId()] || m.GetError().GetReason() != "ECANCELED" {
				t.Fatalf("got %v, want ECANCELED", m)
			}
		}
		s.works(opStat("/"))
		waits := s.ask(opReadLarge())
		cut()
		if m := s.next(); m.GetId() != waits || len(sessiontest.ResultOf(m).GetReadFile().GetData()) != largeReply {
			t.Errorf("after the other connection's end: %d, error %v", m.GetId(), m.GetError())
		}
	})
}

// TestClientThatLeavesEndsItsWaits hangs up while the session's first receiver, which was replaced, waits for memory.
func TestClientThatLeavesEndsItsWaits(t *testing.T) {
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, smallMemory(t))
		token := r.openPanel(t, "p").GetToken()
		r.largeFile(t, "p", largeReply)
		unread["unary"](t, r, token, 10)
		eventually(t, "the memory is full", func() bool { return r.waiting(t) > 0 })
		had := r.waiting(t)
		s := begin(t, addr(r), token, "")
		s.works(opStat("/")) // from here on, the receiver does short operations itself
		for range 3 {
			s.ask(opReadLarge())
		}
		eventually(t, "the reads wait", func() bool { return r.waiting(t) >= had+3 })
		s.cut()
		eventually(t, "the session ends", func() bool { return r.sessions.Count() == 0 })
	})
}

// TestWaitingForMemoryBlocksNoSnapshot has the host make a snapshot of a context whose panel waits for memory.
func TestWaitingForMemoryBlocksNoSnapshot(t *testing.T) {
	r := start(t, smallMemory(t))
	token := r.openPanel(t, "p").GetToken()
	r.largeFile(t, "p", largeReply)
	for _, ask := range unread {
		ask(t, r, token, 100)
	}
	eventually(t, "the memory is full", func() bool { return r.waiting(t) > 0 })
	cc := ctxfsv1.NewContextServiceClient(r.host(t))
	if _, err := cc.Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: "ctx_p", Name: "s"}); err != nil {
		t.Error(err)
	}
	if _, err := cc.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: "ctx_p", DiscardChanges: true}); err != nil {
		t.Error(err)
	}
}

// TestClosedPanelHoldsNoMemory closes a panel whose replies are not read.
func TestClosedPanelHoldsNoMemory(t *testing.T) {
	for way, ask := range unread {
		t.Run(way, func(t *testing.T) {
			r := start(t, smallMemory(t))
			token := r.openPanel(t, "p").GetToken()
			r.largeFile(t, "p", largeReply)
			ask(t, r, token, 50)
			eventually(t, "the memory is full", func() bool { return r.waiting(t) > 0 })
			if _, err := ctxfsv1.NewPanelServiceClient(r.host(t)).ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "p"}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the memory is given back", func() bool { return r.calls.limits.memory.Held() == 0 })
		})
	}
}

// TestConnectionForgetsClosedPanels has a host act for one panel after another by one connection.
func TestConnectionForgetsClosedPanels(t *testing.T) {
	r := start(t, sessionConfig(t))
	shares := &connShares{}
	for i := range 10 {
		panel := fmt.Sprint("p", i)
		shares.of(r.calls.limits.use(panel), 0)
		r.calls.limits.forget(panel)
	}
	if n := len(shares.shares); n > 1 {
		t.Errorf("%d panels are known", n)
	}
}

// TestPanelsThatReadNothingLeaveMemoryToOthers has more panels than fit into the server's memory read nothing.
func TestPanelsThatReadNothingLeaveMemoryToOthers(t *testing.T) {
	cfg := sessionConfig(t)
	cfg.MemoryTotal = 64 << 20
	cfg.Keepalive = 2 * time.Second
	r := start(t, cfg)
	for i := range 10 {
		panel := fmt.Sprint("p", i)
		token := r.openPanel(t, panel).GetToken()
		r.largeFile(t, panel, largeReply)
		for range 4 {
			unread["unary"](t, r, token, 20)
		}
	}
	eventually(t, "all wait", func() bool { return r.waiting(t) > 100 })
	if held := r.calls.limits.memory.Held(); held > 64<<20 {
		t.Errorf("%d MiB are held", held>>20)
	}
	token := r.openPanel(t, "q").GetToken()
	s := beginGRPC(t, r.Info().Addresses.TCP[0], token, "")
	s.works(opWriteFile("/small", strings.Repeat("x", 48<<10)))
	if got := s.works(&ctxfsv1.ReadFileRequest{Path: "/small"}); len(got.GetReadFile().GetData()) != 48<<10 {
		t.Errorf("a small file: %v", got)
	}
	r.largeFile(t, "q", largeReply)
	if got := s.works(opReadLarge()); len(got.GetReadFile().GetData()) != largeReply { // once connections that take nothing are cut
		t.Errorf("a large file has %d bytes", len(got.GetReadFile().GetData()))
	}
}

// TestBusyPanelsStayInBudget has 60 panels, or 200, read nothing of what they ask for, and end none of their requests.
func TestBusyPanelsStayInBudget(t *testing.T) {
	panels := long.Of(60, 200)
	cfg := sessionConfig(t)
	cfg.MemoryTotal = Size(panels) * (256 << 20) / 200
	r := start(t, cfg)
	addr := r.Info().Addresses.TCP[0]
	tokens := make([]string, panels)
	for i := range tokens {
		panel := fmt.Sprint("p", i)
		tokens[i] = r.openPanel(t, panel).GetToken()
		if err := os.Truncate(write(t, filepath.Join(r.folder("ctx_"+panel), "large"), ""), largeReply); err != nil {
			t.Fatal(err)
		}
	}
	idle := heap()
	body := framed(0, make([]byte, 256<<10), 16<<20)
	type half struct {
		*rawClient
		id   uint32
		sent int
	}
	var halves []*half
	for _, token := range tokens {
		c := dialHTTP2(t, addr, 0)
		for range 10 {
			c.call(ctxfsv1.FsService_ReadFile_FullMethodName, token, readLarge())
		}
		for range 10 {
			halves = append(halves, &half{rawClient: c, id: c.begin(ctxfsv1.FsService_WriteFile_FullMethodName, token)})
		}
	}
	total := 0
	settled(t, "the server takes no more", func() int {
		for _, h := range halves {
			n := h.send(h.id, body[h.sent:], false)
			h.sent += n
			total += n
		}
		return total + r.waiting(t)
	})
	held := r.calls.limits.memory.Held()
	t.Logf("%d busy panels hold %d MiB of %d, and sent %d MiB; the heap grew by %d MiB to %d", panels, held>>20, int64(cfg.MemoryTotal)>>20, total>>20, (heap()-idle)>>20, heap()>>20)
	// What arrived of requests that wait is bounded by their windows, 64 KiB each.
	if limit := int64(cfg.MemoryTotal) + int64(panels)*10*streamWindow; held > int64(cfg.MemoryTotal) || int64(heap()-idle) > limit+limit/4 {
		t.Errorf("want at most %d MiB, and %d MiB of heap", int64(cfg.MemoryTotal)>>20, limit>>20)
	}
	for _, h := range halves {
		h.close()
	}
	eventually(t, "the memory is given back", func() bool { return r.calls.limits.memory.Held() == 0 })
}

// TestQueuedWritesBlockNoReadOfTheirHandle has a read of a handle stand behind a slow operation, and writes that take all memory
// behind the read.
func TestQueuedWritesBlockNoReadOfTheirHandle(t *testing.T) {
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		const length = 256 << 10
		cfg := sessionConfig(t)
		cfg.MemoryPerConnection, cfg.MemoryPerPanel = 4<<20, 4<<20
		r := start(t, cfg)
		s := begin(t, addr(r), r.openPanel(t, "p").GetToken(), "")
		s.works(opWriteFile("/a", strings.Repeat("x", length)))
		fd := s.file("/a")
		h, release, err := r.parts.handles.Use("p", fd, "")
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		defer time.AfterFunc(clocktest.Patience, s.cut).Stop()
		h.Position.Lock()
		unlock := sync.OnceFunc(h.Position.Unlock)
		defer unlock()
		s.ask(opWrite(fd, "x"))
		eventually(t, "it is under way", func() bool { return r.calls.limits.use("p").inFlight.Load() == 1 })
		s.ask(opRead(fd, 0, length))
		said := make(chan error, 1)
		go func() { // the server stops receiving
			for id := range uint64(20) {
				m := sessiontest.Call(1000+id, opWrite(fd, strings.Repeat("y", length)))
				if err := s.say(m); err != nil {
					said <- err
					return
				}
			}
			said <- nil
		}()
		eventually(t, "the memory is full", func() bool { return r.waiting(t) > 0 })
		unlock()
		for range 22 {
			if m := s.next(); m.GetError() != nil {
				t.Fatalf("got %v", m.GetError())
			}
		}
		s.must(<-said)
	})
}
