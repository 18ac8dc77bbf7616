package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// writtenHeader is how many bytes were written.
const writtenHeader = "Ctxfs-Written"

// finishTime is how long a server may take to have all on its disk.
const finishTime = 5 * time.Minute

// maxInterim bounds the answers that are not the last.
const maxInterim = 10

// putSink writes content over HTTP, on a connection of its own. It sends a chunked body, because the length
// is not known in advance, from the caller's memory to the socket without a copy.
type putSink struct {
	ctx  context.Context //nolint:containedctx // the request's, which ends every wait
	conn net.Conn
	// begun closes when the server asks for the body. over closes when it has answered, or can no longer answer.
	begun, over chan struct{}
	// answer, nil when there is none, and err are set before over closes.
	answer *http.Response
	err    error
	// broken says that the body ends in the middle of a chunk.
	broken bool
	// head is the room for a chunk's.
	head [20]byte
}

// put asks to write a file. errNoContent says that gRPC must do it.
func (d *webDialer) put(ctx context.Context, id identity, open *ctxfsv1.WriteStreamOpen) (*putSink, error) {
	if d.base.Err() != nil || d.noContent.Load() || d.tls != nil || !d.target.local() || open.Fd != nil {
		return nil, errNoContent
	}
	if !httpguts.ValidHeaderFieldValue(id.token()) || !httpguts.ValidHeaderFieldValue(id.panel) {
		return nil, errNoContent // gRPC refuses it
	}
	conn, err := d.bulk.DialContext(ctx, "tcp", d.target.address)
	if err != nil {
		return nil, errNoContent // gRPC has the reason
	}
	if bulk, ok := conn.(*bulkConn); ok {
		conn = bulk.Conn // which takes several pieces at once
	}
	p := &putSink{ctx: ctx, conn: conn, begun: make(chan struct{}), over: make(chan struct{})}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	if _, err := conn.Write(putRequest(d.url("/v1/content?"+putQuery(open)), id)); err != nil {
		_ = conn.Close()
		return nil, errNoContent
	}
	go p.receive()
	timer := time.NewTimer(silence)
	defer timer.Stop()
	select {
	case <-p.begun:
	case <-p.over:
	case <-ctx.Done():
	case <-timer.C:
		p.end()
		return nil, errNoContent
	}
	switch {
	case ctx.Err() != nil:
		p.end()
		return nil, status.FromContextError(ctx.Err()).Err()
	case p.isOver() && (p.answer == nil || p.answer.Header.Get(errorHeader) == ""):
		p.end()
		if p.answer != nil {
			d.learn(p.answer.StatusCode)
		}
		return nil, errNoContent
	}
	return p, nil
}

func putQuery(open *ctxfsv1.WriteStreamOpen) string {
	q := url.Values{"path": {open.GetPath()}}
	set := func(key, value string) {
		if value != "" {
			q.Set(key, value)
		}
	}
	set("raw_path", base64.StdEncoding.EncodeToString(open.GetRawPath()))
	set("context_id", open.GetContextId())
	set("flag", open.GetFlag())
	set("if_match", open.GetIfMatch())
	set("if_none_match", open.GetIfNoneMatch())
	if _, ok := open.GetModeForm().(*ctxfsv1.WriteStreamOpen_Mode); ok {
		q.Set("mode", strconv.FormatUint(uint64(open.GetMode()), 8))
	}
	if open.Start != nil {
		q.Set("start", strconv.FormatInt(open.GetStart(), 10))
	}
	if open.GetFlush() {
		q.Set("flush", "true")
	}
	return q.Encode()
}

// putRequest returns the head of a request. The body follows in chunks, once the server asks for it.
func putRequest(address string, id identity) []byte {
	var b bytes.Buffer
	u, _ := url.Parse(address) // which is ours
	fmt.Fprintf(&b, "PUT %s HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n", u.RequestURI(), u.Host)
	if t := id.token(); t != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", t)
	}
	if id.panel != "" {
		fmt.Fprintf(&b, "%s: %s\r\n", panelKey, id.panel)
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// receive reads the server's answers: first 100 Continue, which asks for the body, then the result.
func (p *putSink) receive() {
	defer close(p.over)
	r := bufio.NewReader(p.conn)
	request := &http.Request{Method: http.MethodPut}
	begun := sync.OnceFunc(func() { close(p.begun) })
	for range maxInterim {
		answer, err := http.ReadResponse(r, request) //nolint:bodyclose // the connection is closed, which is all that it has
		switch {
		case err != nil:
			p.err = err
			return
		case answer.StatusCode >= http.StatusOK:
			p.answer = answer
			return
		case answer.StatusCode == http.StatusContinue:
			begun()
		}
	}
	p.err = errors.New("the server answers without an end")
}

func (p *putSink) isOver() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// end closes the connection and waits for receive.
func (p *putSink) end() {
	_ = p.conn.Close()
	<-p.over
}

// write implements writeSink.
func (p *putSink) write(b []byte) error {
	switch {
	case p.isOver():
		return p.lost(io.ErrClosedPipe)
	case len(b) == 0:
		return nil // which would end the body
	}
	if err := p.conn.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return p.lost(err)
	}
	head := append(strconv.AppendInt(p.head[:0], int64(len(b)), 16), "\r\n"...)
	if _, err := (&net.Buffers{head, b, []byte("\r\n")}).WriteTo(p.conn); err != nil {
		p.broken = true
		return p.lost(err)
	}
	return nil
}

func (p *putSink) lost(err error) error {
	if p.ctx.Err() != nil {
		return status.FromContextError(p.ctx.Err()).Err()
	}
	return status.Error(codes.Unavailable, "the connection to the server was lost: "+err.Error())
}

// readFrom implements writeSink.
func (p *putSink) readFrom(r io.Reader) (n int64, err, of error) {
	buf := make([]byte, streamChunk)
	for {
		m, readErr := io.ReadFull(r, buf)
		if err := p.write(buf[:m]); err != nil {
			return n, err, nil
		}
		n += int64(m)
		if readErr != nil {
			return n, nil, unlessEnd(readErr)
		}
	}
}

// finish implements writeSink. A body that is not ended is not taken for whole.
func (p *putSink) finish() (int64, error) {
	defer p.end()
	if p.ctx.Err() != nil {
		return 0, status.FromContextError(p.ctx.Err()).Err()
	}
	if !p.isOver() && !p.broken {
		_, _ = io.WriteString(p.conn, "0\r\n\r\n") // its failure is the lack of an answer
	}
	timer := time.NewTimer(finishTime)
	defer timer.Stop()
	select {
	case <-p.over:
	case <-p.ctx.Done():
		return 0, status.FromContextError(p.ctx.Err()).Err()
	case <-timer.C:
		return 0, p.lost(os.ErrDeadlineExceeded)
	}
	switch {
	case p.answer == nil:
		return 0, p.lost(p.err)
	case p.answer.StatusCode == http.StatusNoContent:
		return strconv.ParseInt(p.answer.Header.Get(writtenHeader), 10, 64)
	}
	return 0, refusal(p.answer.Body)
}
