package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// contentPart is what a client must receive within a keepalive, in bytes.
	contentPart = 128 << 10
	// statHeader has the file's Stat, as protobuf in base64; errorHeader the errno, or the reason, of a refusal.
	statHeader  = "Ctxfs-Stat"
	errorHeader = "Ctxfs-Error"
	// writtenHeader is how many bytes were written.
	writtenHeader = "Ctxfs-Written"
	// etagHeader is the etag of the file.
	etagHeader = "Ctxfs-Etag"
)

// getContent answers GET /v1/content?path=/a&start=0&end=9 with what ReadStream sends, as the body of a response, which the kernel
// copies from the file to the socket. start and end are as in ReadStreamRequest. The token is Authorization's.
func (g *Gateway) getContent(w http.ResponseWriter, r *http.Request) {
	req, err := readQuery(r.URL.RawQuery)
	g.transfer(w, r, err, ctxfsv1.FsService_ReadStream_FullMethodName, req, func(ctx context.Context, t *transfer) error {
		content, err := g.cfg.Files.OpenContent(ctx, req, nil)
		if err != nil {
			return err
		}
		defer content.Close()
		return t.send(ctx, content)
	})
}

// putContent answers PUT /v1/content?path=/a&flag=w&mode=0644&start=0&flush=true&if_match=ETAG. The body is what a client would send to WriteStream.
// The parameters are as in WriteStreamOpen, with the mode in octal.
func (g *Gateway) putContent(w http.ResponseWriter, r *http.Request) {
	open, err := writeQuery(r.URL.RawQuery)
	if r.ContentLength == 0 && r.Header.Get("Content-Length") == "" && len(r.TransferEncoding) == 0 {
		err = &fserr.Error{Code: fserr.EINVAL, Detail: "the length of the body is not told", Hint: "send Content-Length, or chunks"}
	}
	if twice := oneLength(w, r); twice != nil {
		err = twice
	}
	g.transfer(w, r, err, ctxfsv1.FsService_WriteStream_FullMethodName, open, func(ctx context.Context, t *transfer) error {
		done, err := g.cfg.Files.WriteContent(ctx, open, &bodyReader{ctx, t, r.Body})
		t.wrote.Store(done.GetBytesWritten())
		if err == nil {
			err = t.control.SetWriteDeadline(time.Now().Add(t.keepalive)) // also when ctx has ended, since the content is written
		}
		if err == nil {
			w.Header().Set(writtenHeader, strconv.FormatInt(done.GetBytesWritten(), 10))
			w.Header().Set(etagHeader, done.GetEtag())
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	})
}

// preflight answers what a browser asks before a page of another origin may send a request for content. Only listed origins get an answer.
func (g *Gateway) preflight(w http.ResponseWriter, r *http.Request) {
	if !g.enter(w, r) {
		return
	}
	defer g.requests.leave()
	h := w.Header()
	g.shareContent(h, r)
	h.Set("Allow", "GET, HEAD, PUT, OPTIONS")
	h.Set("Cache-Control", "no-store")
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, PUT")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, "+method.PanelKey+", "+method.RequestIDKey)
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}

// shareContent lets a page of a listed origin, which enter has let in, read the response. The page's token is in Authorization: cookies and
// other credentials of the browser are never asked for.
func (g *Gateway) shareContent(h http.Header, r *http.Request) {
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || g.isOwn(plainOrigin(origin), r) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", statHeader+", "+errorHeader+", "+writtenHeader+", "+etagHeader)
}

// transfer serves a request for content as a call of rpc; wrong is what is wrong with its query.
func (g *Gateway) transfer(w http.ResponseWriter, r *http.Request, wrong error, rpc string, query any, do func(context.Context, *transfer) error) {
	if !g.enter(w, r) {
		return
	}
	defer g.requests.leave()
	g.shareContent(w.Header(), r)
	t := &transfer{ResponseWriter: w, takes: r.Method == http.MethodPut, bodyless: r.Method == http.MethodHead, control: http.NewResponseController(w), keepalive: g.cfg.Keepalive}
	err := wrong
	if err == nil {
		err = g.call(r, rpc, query, t, do)
		t.users.end()
	}
	switch {
	case err == nil || t.whole:
	case t.begun:
		panic(http.ErrAbortHandler) // the closed connection shows the client that content is missing
	default:
		_ = t.control.SetWriteDeadline(time.Now().Add(t.keepalive)) // it may have passed
		refuse(w, err)
	}
}

func (g *Gateway) call(r *http.Request, rpc string, query any, t *transfer, do func(context.Context, *transfer) error) error {
	md, err := g.headersOf(r)
	if err != nil {
		return err
	}
	conn, done := g.cfg.Calls.Conn(r.Context(), false)
	defer done()
	return g.run(callContext(r.Context(), r, md, conn), rpc, query, t, do)
}

// run runs do as a call of rpc. The end of the call interrupts what do reads and writes.
func (g *Gateway) run(ctx context.Context, rpc string, query any, t *transfer, do func(context.Context, *transfer) error) error {
	return g.cfg.Calls.Call(ctx, rpc, query, func(ctx context.Context, wrote *atomic.Int64) error {
		if !t.users.enter() {
			return fserr.ECANCELED
		}
		defer t.users.leave()
		t.wrote = wrote
		interrupted := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(interrupted)
			t.interrupt()
		})
		defer func() {
			if stop() {
				return
			}
			<-interrupted // or it would interrupt the connection's next request
			if t.takes {
				t.Header().Set("Connection", "close")
			}
		}()
		return do(ctx, t)
	})
}

// transfer is a request for content and its response.
type transfer struct {
	http.ResponseWriter
	control   *http.ResponseController
	keepalive time.Duration
	users     users
	// takes says that the client sends the content.
	takes bool
	// bodyless says that the response has a head only.
	bodyless bool
	// begun says that the response has begun, whole that all of it was sent.
	begun, whole bool
	// wrote counts what the call wrote to the file.
	wrote *atomic.Int64
}

// interrupt ends reads and writes that wait for the client. After that the connection takes no further request, since the rest of the
// body was not read.
func (t *transfer) interrupt() {
	if t.takes {
		_ = t.control.SetReadDeadline(time.Unix(1, 0))
		return
	}
	_ = t.control.SetWriteDeadline(time.Unix(1, 0))
}

// extend gives the client a further keepalive to receive or send something; set sets the deadline. It fails once ctx has ended, where
// the deadline would undo an interrupt.
func (t *transfer) extend(ctx context.Context, set func(time.Time) error) error {
	if err := set(time.Now().Add(t.keepalive)); err != nil {
		return err
	}
	return ctx.Err()
}

// send sends all of content. A slow client is served, but one that receives no part within a keepalive is cut off.
func (t *transfer) send(ctx context.Context, content *fsservice.Content) error {
	stat, err := proto.Marshal(content.Stat)
	if err != nil {
		return err
	}
	length := strconv.FormatInt(content.Length, 10)
	for {
		part, err := content.Part(ctx, contentPart)
		if err == nil {
			err = t.extend(ctx, t.control.SetWriteDeadline)
		}
		if err != nil {
			return err
		}
		if !t.begun {
			t.head(base64.StdEncoding.EncodeToString(stat), length)
		}
		if part == nil || t.bodyless {
			t.whole = true
			return nil
		}
		want := part.Left
		if n, err := io.Copy(t.ResponseWriter, part); err != nil || n < want {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
	}
}

// head begins a response that has content.
func (t *transfer) head(stat, length string) {
	t.begun = true
	h := t.Header()
	h.Set(statHeader, stat)
	h.Set("Content-Length", length)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	t.WriteHeader(http.StatusOK)
}

// bodyReader reads the body of a request. A slow client is served, but one that sends nothing for a keepalive is cut off.
type bodyReader struct {
	ctx  context.Context //nolint:containedctx // it belongs to the request
	t    *transfer
	body io.Reader
}

// Read implements io.Reader.
func (b *bodyReader) Read(p []byte) (int, error) {
	if err := b.t.extend(b.ctx, b.t.control.SetReadDeadline); err != nil {
		return 0, err
	}
	n, err := b.body.Read(p)
	var network net.Error
	if err == nil || err == io.EOF || errors.As(err, &network) || b.ctx.Err() != nil {
		return n, err
	}
	return n, &fserr.Error{Code: fserr.EINVAL, Detail: "the body is malformed, or ends early", Hint: "send as much as Content-Length says, or whole chunks", Err: err}
}

// refuse answers with the reason why there is no content: a SessionError in JSON, and the errno in a header.
func refuse(w http.ResponseWriter, err error) {
	m := fserrpb.ToSession(err)
	body, _ := protojson.Marshal(m) // all texts are UTF-8
	w.Header().Set(errorHeader, m.GetReason())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(httpStatus(codes.Code(uint32(m.GetCode())), m.GetReason()))
	_, _ = w.Write(append(body, '\n')) //nolint:gosec // it is JSON, as the header says; the client may be gone
}

// statusClientClosedRequest is nginx's for a request whose client has left, which google.rpc.Code maps CANCELLED to.
const statusClientClosedRequest = 499

// httpStatus returns the HTTP status of an error, from its gRPC code as google.rpc.Code maps them. reason is its errno, or the reason of a refusal. Errors that google.rpc.Code has as 429,
// after which clients call again, have another status when calling again cannot help.
func httpStatus(code codes.Code, reason string) int {
	switch reason {
	case fserr.EFBIG.String(), "GIT_TOO_LARGE":
		return http.StatusRequestEntityTooLarge
	case fserr.ENOSPC.String(), fserr.EDQUOT.String():
		return http.StatusInsufficientStorage
	}
	switch code {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists:
		return http.StatusConflict
	case codes.Aborted:
		if _, isErrno := fserr.ParseCode(reason); !isErrno {
			return http.StatusConflict
		}
		return http.StatusPreconditionFailed // a condition does not hold
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case codes.Canceled:
		return statusClientClosedRequest
	}
	return http.StatusInternalServerError
}

// query reads the parameters of a request for content, and keeps the first that is wrong.
type query struct {
	values url.Values
	err    error
}

// newQuery accepts path, raw_path, context_id, the panel and the parameters that are named, once each, and no others.
func newQuery(raw string, known ...string) *query {
	values, err := url.ParseQuery(raw)
	q := &query{values: values}
	if err != nil {
		q.wrong("the query is malformed")
	}
	known = append(known, "path", "raw_path", "context_id", method.PanelKey)
	for key, v := range values {
		switch {
		case !slices.Contains(known, key):
			q.wrong("no parameter is called '%s'", fserrpb.Printable(key))
		case len(v) > 1:
			q.wrong("%s is given twice", key)
		}
	}
	return q
}

func (q *query) wrong(format string, args ...any) {
	if q.err == nil {
		q.err = &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf(format, args...), Hint: "see GET and PUT /v1/content in docs/reference/operations.md"}
	}
}

func (q *query) rawPath() []byte {
	raw, err := base64.StdEncoding.Strict().DecodeString(q.values.Get("raw_path"))
	if err != nil {
		q.wrong("raw_path is no base64")
	}
	return raw
}

// number is nil when the parameter is absent.
func (q *query) number(key string) *int64 {
	if !q.values.Has(key) {
		return nil
	}
	n, err := strconv.ParseInt(q.values.Get(key), 10, 64)
	if err != nil {
		q.wrong("%s is no number", key)
	}
	return &n
}

func (q *query) boolean(key string) bool {
	if !q.values.Has(key) {
		return false
	}
	b, err := strconv.ParseBool(q.values.Get(key))
	if err != nil {
		q.wrong("%s is neither true nor false", key)
	}
	return b
}

// readQuery reads the query of a GET.
func readQuery(raw string) (*ctxfsv1.ReadStreamRequest, error) {
	q := newQuery(raw, "fd", "start", "end")
	req := &ctxfsv1.ReadStreamRequest{
		ContextId: q.values.Get("context_id"), Path: q.values.Get("path"), RawPath: q.rawPath(), Start: q.number("start"), End: q.number("end"),
	}
	if fd := q.number("fd"); fd != nil {
		req.Fd = new(int32)
		if *req.Fd = int32(*fd); int64(*req.Fd) != *fd {
			q.wrong("fd is no handle")
		}
	}
	return req, q.err
}

// writeQuery reads the query of a PUT.
func writeQuery(raw string) (*ctxfsv1.WriteStreamOpen, error) {
	q := newQuery(raw, "start", "flag", "mode", "flush", "if_match", "if_none_match")
	open := &ctxfsv1.WriteStreamOpen{
		ContextId: q.values.Get("context_id"), Path: q.values.Get("path"), RawPath: q.rawPath(), Start: q.number("start"), Flush: q.boolean("flush"),
		IfMatch: q.values.Get("if_match"), IfNoneMatch: q.values.Get("if_none_match"),
	}
	if q.values.Has("flag") {
		open.FlagForm = &ctxfsv1.WriteStreamOpen_Flag{Flag: q.values.Get("flag")}
	}
	if q.values.Has("mode") {
		open.ModeForm = &ctxfsv1.WriteStreamOpen_ModeOctal{ModeOctal: q.values.Get("mode")}
	}
	return open, q.err
}
