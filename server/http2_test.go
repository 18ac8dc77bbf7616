package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// frames is a client that speaks HTTP/2 frame by frame.
type frames struct {
	*testing.T
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	encode *hpack.Encoder
}

// dialFrames connects and begins HTTP/2.
func dialFrames(t *testing.T, address string) *frames {
	t.Helper()
	return beginFrames(t, dialPlain(t, "tcp", address))
}

// beginFrames begins HTTP/2 on a connection.
func beginFrames(t *testing.T, conn net.Conn) *frames {
	t.Helper()
	c := &frames{T: t, conn: conn}
	if _, err := io.WriteString(c.conn, preface); err != nil {
		t.Fatal(err)
	}
	c.framer = http2.NewFramer(c.conn, c.conn)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encode = hpack.NewEncoder(&c.block)
	return c
}

func (c *frames) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// encoded returns the header block of a call, with further fields as pairs of name and value.
func (c *frames) encoded(method string, pairs ...string) []byte {
	c.block.Reset()
	fields := append([]string{
		":method", "POST", ":scheme", "http", ":path", method, ":authority", "localhost", "content-type", "application/grpc", "te", "trailers",
	}, pairs...)
	for i := 0; i < len(fields); i += 2 {
		c.must(c.encode.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return c.block.Bytes()
}

// headers begins a call.
func (c *frames) headers(stream uint32, ends bool, method string, pairs ...string) {
	c.Helper()
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: c.encoded(method, pairs...), EndStream: ends, EndHeaders: true,
	}))
}

// next returns the next frame of the server, which it acknowledges if it is settings.
func (c *frames) next() (http2.Frame, error) {
	c.must(c.conn.SetReadDeadline(time.Now().Add(clocktest.Patience)))
	f, err := c.framer.ReadFrame()
	if settings, ok := f.(*http2.SettingsFrame); ok && !settings.IsAck() {
		return f, c.framer.WriteSettingsAck()
	}
	return f, err
}

// awaitMessages reads until n frames of content have come.
func (c *frames) awaitMessages(n int) {
	c.Helper()
	for n > 0 {
		f, err := c.next()
		c.must(err)
		if f.Header().Type == http2.FrameData {
			n--
		}
	}
}

// wantTrailer reads until the call has ended, and checks its gRPC status.
func (c *frames) wantTrailer(stream uint32, status string) {
	c.Helper()
	for {
		f, err := c.next()
		c.must(err)
		m, ok := f.(*http2.MetaHeadersFrame)
		if !ok || m.StreamID != stream || !m.StreamEnded() {
			continue
		}
		for _, field := range m.Fields {
			if field.Name == "grpc-status" && field.Value != status {
				c.Errorf("grpc-status %s, want %s: %v", field.Value, status, m.Fields)
			}
		}
		return
	}
}

// others is what a test of a hostile client compares: another panel that is served meanwhile, and what the server holds.
type others struct {
	*talk
	r          *running
	goroutines int
	heap       uint64
}

func beginOthers(t *testing.T, r *running) *others {
	t.Helper()
	s := beginWeb(t, r.Info().Addresses.HTTP, r.openPanel(t, "other").GetToken(), "")
	s.works(opWriteFile("/kept", "x"))
	return &others{s, r, runtime.NumGoroutine(), heap()}
}

// served makes a call of the other panel.
func (o *others) served() { o.works(opStat("/kept")) }

// wantBack waits until the server holds no more than at the beginning.
func (o *others) wantBack() {
	o.Helper()
	o.served()
	eventually(o.T, "streams, goroutines and memory return", func() bool {
		return o.r.streams.count() == 1 && runtime.NumGoroutine() <= o.goroutines+10 && heap() <= o.heap+16<<20
	})
}

// TestHugeHeadersAreRefused sends headers of 8 MiB, with an end and without one, over several connections.
func TestHugeHeadersAreRefused(t *testing.T) {
	const clients, size = 16, 8 << 20
	piece := bytes.Repeat([]byte("x"), 1<<14)
	for name, ends := range map[string]bool{"whole": true, "without an end": false} {
		t.Run(name, func(t *testing.T) {
			r := start(t, sessionConfig(t))
			o := beginOthers(t, r)
			token := r.openPanel(t, "p").GetToken()
			var all []*frames
			for range clients {
				c := dialFrames(t, r.Info().Addresses.TCP[0])
				c.headers(1, true, ctxfsv1.FsService_WriteStream_FullMethodName, "authorization", bearerOf(token)) // the server knows it
				c.wantTrailer(1, "3")
				// The last field is a literal without Huffman code (RFC 7541, 6.2.3), whose value follows in pieces.
				block := append(c.encoded(ctxfsv1.FsService_Stat_FullMethodName, "authorization", bearerOf(token)), "\x10\x01x\x7f"...)
				block = binary.AppendUvarint(block, size-127)
				c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block}))
				for left := size; left > 0; left -= len(piece) { // the server may end the connection meanwhile
					if c.framer.WriteContinuation(3, ends && left == len(piece), piece) != nil {
						break
					}
				}
				all = append(all, c)
				o.served()
			}
			if grown := int64(heap()) - int64(o.heap); grown > 32<<20 {
				t.Errorf("the headers take %d MiB", grown>>20)
			}
			for _, c := range all {
				c.wantRefused(3)
			}
			o.wantBack()
		})
	}
}

// wantRefused reads until the server resets a stream or ends the connection.
func (c *frames) wantRefused(stream uint32) {
	c.Helper()
	for {
		f, err := c.next()
		if reset, ok := f.(*http2.RSTStreamFrame); err != nil || ok && reset.StreamID == stream {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.Error("the server takes the headers")
			}
			return
		}
		if m, ok := f.(*http2.MetaHeadersFrame); ok && m.StreamID == stream {
			c.Errorf("the server answers: %v", m.Fields)
			return
		}
	}
}

// drain reads all that the server sends, so that it never waits for the client, and counts the streams that it refused.
func (c *frames) drain() (refused func() int) {
	var n atomic.Int64
	ended := make(chan struct{})
	c.Cleanup(func() {
		_ = c.conn.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		framer := http2.NewFramer(io.Discard, c.conn) // acknowledges nothing, and interprets no headers
		for {
			f, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if reset, ok := f.(*http2.RSTStreamFrame); ok && reset.ErrCode == http2.ErrCodeRefusedStream {
				n.Add(1)
			}
		}
	}()
	return func() int { return int(n.Load()) }
}

// TestTenThousandStreamsOfOneConnection opens that many write streams, and ends none.
func TestTenThousandStreamsOfOneConnection(t *testing.T) {
	const streams = 10_000
	r := start(t, sessionConfig(t))
	o := beginOthers(t, r)
	token := r.openPanel(t, "p").GetToken()
	c := dialFrames(t, r.Info().Addresses.TCP[0])
	refused := c.drain()
	for i := range streams {
		c.headers(uint32(2*i+1), false, ctxfsv1.FsService_WriteStream_FullMethodName, "authorization", bearerOf(token))
		if i%1000 == 0 {
			o.served()
		}
	}
	eventually(t, "the streams beyond 1,000 are refused", func() bool { return refused() == streams-maxStreams })
	if n := r.streams.count(); n > maxStreams+1 {
		t.Errorf("%d streams run", n)
	}
	o.served()
	c.must(c.conn.Close())
	o.wantBack()
}

// TestRapidResetsLeaveNothing begins and resets 20,000 streams (CVE-2023-44487).
func TestRapidResetsLeaveNothing(t *testing.T) {
	const streams = 20_000
	r := start(t, sessionConfig(t))
	o := beginOthers(t, r)
	token := r.openPanel(t, "p").GetToken()
	c := dialFrames(t, r.Info().Addresses.TCP[0])
	c.drain()
	most := 0
	for i := range streams {
		id := uint32(2*i + 1)
		c.headers(id, false, ctxfsv1.FsService_WriteStream_FullMethodName, "authorization", bearerOf(token))
		c.must(c.framer.WriteRSTStream(id, http2.ErrCodeCancel))
		if i%1000 == 0 {
			o.served()
			most = max(most, runtime.NumGoroutine()-o.goroutines)
		}
	}
	if most > 4*maxStreams {
		t.Errorf("%d goroutines run at once", most)
	}
	c.must(c.conn.Close())
	o.wantBack()
}
