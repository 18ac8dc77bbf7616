package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// statHeader carries a file's Stat, as protobuf in base64; errorHeader the errno of a refusal.
	statHeader  = "Ctxfs-Stat"
	errorHeader = "Ctxfs-Error"
	// copyBuffer is how much of a body is taken at a time, in bytes.
	copyBuffer = 256 << 10
)

// errNoContent reports that this content can only be transferred over gRPC.
var errNoContent = errors.New("no content by HTTP")

// newTransport returns a transport to the server's address. Close its idle connections.
func (d *webDialer) newTransport(wrap func(net.Conn) net.Conn) *http.Transport {
	t := &http.Transport{TLSClientConfig: d.tls, IdleConnTimeout: keepalive, DisableCompression: true}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.target.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	}
	if !d.target.local() {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

// url returns that of a path on the server.
func (d *webDialer) url(path string) string {
	host, scheme := d.target.address, "http://"
	if _, ok := d.target.socket(); ok {
		host = "localhost"
	}
	if d.tls != nil {
		scheme = "https://"
	}
	return scheme + host + path
}

// content asks for what ReadStream would send of a path, by HTTP, where the server's kernel
// copies it without the server. Errors: errNoContent, the server's, ctx's.
func (d *webDialer) content(ctx context.Context, id identity, req *ctxfsv1.ReadStreamRequest) (*http.Response, error) {
	if d.base.Err() != nil || d.noContent.Load() || req.Fd != nil {
		return nil, errNoContent
	}
	q := url.Values{"path": {req.GetPath()}, "start": {strconv.FormatInt(req.GetStart(), 10)}}
	if len(req.GetRawPath()) > 0 {
		q.Set("raw_path", base64.StdEncoding.EncodeToString(req.GetRawPath()))
	}
	if req.GetContextId() != "" {
		q.Set("context_id", req.GetContextId())
	}
	if req.End != nil {
		q.Set("end", strconv.FormatInt(req.GetEnd(), 10))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url("/v1/content?"+q.Encode()), nil)
	if err != nil {
		return nil, errNoContent
	}
	if t := id.token(); t != "" {
		r.Header.Set("Authorization", "Bearer "+t)
	}
	if id.panel != "" {
		r.Header.Set(panelKey, id.panel)
	}
	resp, err := d.bulk.RoundTrip(r)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return nil, errNoContent // gRPC has the reason, or an answer
	case resp.Header.Get(statHeader) != "":
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.Header.Get(errorHeader) == "" {
		d.learn(resp.StatusCode)
		return nil, errNoContent
	}
	return nil, refusal(resp.Body)
}

// learn remembers of an answer that is not ours whether to ask again.
func (d *webDialer) learn(code int) {
	switch code {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		d.noContent.Store(true) // a server of before
	}
}

// refusal reads why the server sends no content.
func refusal(body io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(body, 64<<10))
	m := new(ctxfsv1.SessionError)
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, m)
	}
	if err != nil {
		return status.Error(codes.Unavailable, "the server's refusal could not be read: "+err.Error())
	}
	return fserrpb.FromSession(m)
}

// httpContent is the body of a response as a Reader's source.
type httpContent struct {
	ctx  context.Context //nolint:containedctx // of the request, as the body's reader needs it
	body io.ReadCloser
	left int64
}

// newHTTPContent takes a response over.
func newHTTPContent(ctx context.Context, resp *http.Response) (*httpContent, *ctxfsv1.Stat, error) {
	stat := new(ctxfsv1.Stat)
	b, err := base64.StdEncoding.DecodeString(resp.Header.Get(statHeader))
	if err == nil {
		err = proto.Unmarshal(b, stat)
	}
	if err == nil && resp.ContentLength < 0 {
		err = errors.New("its length is not told")
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, nil, status.Error(codes.Internal, fmt.Sprintf("the server's content: %v", err))
	}
	return &httpContent{ctx: ctx, body: resp.Body, left: resp.ContentLength}, stat, nil
}

// Read implements io.Reader. Errors: io.EOF, gRPC statuses.
func (c *httpContent) Read(b []byte) (int, error) {
	timer := time.AfterFunc(silence, c.close)
	n, err := c.body.Read(b)
	timer.Stop()
	c.left -= int64(n)
	switch {
	case err == nil || errors.Is(err, io.EOF) && c.left == 0:
	case c.ctx.Err() != nil:
		err = status.FromContextError(c.ctx.Err()).Err()
	default:
		err = status.Error(codes.Unavailable, "the content ended early: the file became shorter, or the connection was lost")
	}
	return n, err
}

// WriteTo implements io.WriterTo by a buffer that suits large content.
func (c *httpContent) WriteTo(w io.Writer) (int64, error) {
	return io.CopyBuffer(w, struct{ io.Reader }{c}, make([]byte, min(copyBuffer, c.left+1)))
}

// close ends the request, wherever it is.
func (c *httpContent) close() { _ = c.body.Close() }
