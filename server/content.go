package server

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
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// contentPart is what a client must take within a keepalive, in bytes.
	contentPart = 1 << 20
	// statHeader carries the file's Stat, as protobuf in base64; errorHeader the errno of a refusal.
	statHeader  = "Ctxfs-Stat"
	errorHeader = "Ctxfs-Error"
)

// content answers GET /v1/content?path=/a&start=0&end=9: what ReadStream sends, as the body
// of a response, which the kernel copies from the file to the socket by itself. The token
// is Authorization's, and start and end are as in ReadStreamRequest.
func (k *sockets) content(w http.ResponseWriter, r *http.Request) {
	k.running.Add(1)
	defer k.running.Done()
	if !k.mayAsk(w, r) {
		return
	}
	out := &contentWriter{ResponseWriter: w, control: http.NewResponseController(w), keepalive: k.keepalive}
	err := k.sendContent(out, r)
	out.users.end()
	switch {
	case err == nil:
	case out.begun:
		panic(http.ErrAbortHandler) // the client learns by the connection that there is less than was said
	default:
		refuse(w, err)
	}
}

func (k *sockets) sendContent(w *contentWriter, r *http.Request) error {
	req, err := contentRequest(r.URL.Query())
	if err != nil {
		return err
	}
	conn := sharedConnOf(r.Context())
	if conn == nil {
		conn = &connInfo{id: k.conns.Add(1), web: true}
	}
	ctx := metadata.NewIncomingContext(r.Context(), headersOf(r))
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: remoteAddr(r.RemoteAddr), AuthInfo: conn})
	return k.calls.around(ctx, ctxfsv1.FsService_ReadStream_FullMethodName, func(ctx context.Context) error {
		if !w.users.enter() {
			return fserr.ECANCELED
		}
		defer w.users.leave()
		content, err := k.fs.OpenContent(ctx, req)
		if err != nil {
			return err
		}
		defer content.Close()
		defer context.AfterFunc(ctx, w.interrupt)()
		return w.send(ctx, content)
	})
}

// contentRequest reads the query of a request for content.
func contentRequest(q url.Values) (*ctxfsv1.ReadStreamRequest, error) {
	req := &ctxfsv1.ReadStreamRequest{Path: q.Get("path"), ContextId: q.Get("context_id")}
	for key := range q {
		switch key {
		case "path", "raw_path", "context_id", "start", "end", panelKey:
		default:
			return nil, badQuery("no parameter is called '%s'", fserrpb.Printable(key))
		}
	}
	raw, err := base64.StdEncoding.DecodeString(q.Get("raw_path"))
	if err != nil {
		return nil, badQuery("raw_path is no base64")
	}
	req.RawPath = raw
	for key, field := range map[string]**int64{"start": &req.Start, "end": &req.End} {
		if !q.Has(key) {
			continue
		}
		n, err := strconv.ParseInt(q.Get(key), 10, 64)
		if err != nil {
			return nil, badQuery("%s is no number", key)
		}
		*field = &n
	}
	return req, nil
}

func badQuery(format string, args ...any) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf(format, args...), Hint: "GET /v1/content?path=/a, and start and end as needed"}
}

// contentWriter is the response to a request for content.
type contentWriter struct {
	http.ResponseWriter
	control   *http.ResponseController
	keepalive time.Duration
	users     users
	// begun says that the response has begun.
	begun bool
}

// interrupt ends a write that waits for the client.
func (w *contentWriter) interrupt() { _ = w.control.SetWriteDeadline(time.Unix(1, 0)) }

// send sends all of content. A client may be slow; one that takes no part within a keepalive is cut off.
func (w *contentWriter) send(ctx context.Context, content *fsservice.Content) error {
	stat, err := proto.Marshal(content.Stat)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set(statHeader, base64.StdEncoding.EncodeToString(stat))
	h.Set("Content-Length", strconv.FormatInt(content.Length, 10))
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.begun = true
	for {
		part, err := content.Part(ctx, contentPart)
		if err != nil || part == nil {
			return err
		}
		if err := w.control.SetWriteDeadline(time.Now().Add(w.keepalive)); err != nil {
			return err
		}
		if ctx.Err() != nil { // or the deadline would undo an interrupt
			return ctx.Err()
		}
		want := part.Left
		if n, err := io.Copy(w.ResponseWriter, part); err != nil || n < want {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
	}
}

// refuse tells why there is no content: a SessionError in JSON, with the errno in a header.
func refuse(w http.ResponseWriter, err error) {
	m := fserrpb.ToSession(err)
	body, _ := protojson.Marshal(m) // of texts that are UTF-8
	w.Header().Set(errorHeader, m.GetReason())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(httpStatus(codes.Code(uint32(m.GetCode()))))
	_, _ = w.Write(append(body, '\n')) //nolint:gosec // JSON, said to be so; the client may be gone
}

// httpStatus is how HTTP says a gRPC code.
func httpStatus(code codes.Code) int {
	switch code {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// remoteAddr is a request's, as a net.Addr.
type remoteAddr string

// Network implements net.Addr.
func (remoteAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a remoteAddr) String() string { return string(a) }

var _ net.Addr = remoteAddr("")

// users are those who may use what ends when its owner returns. The zero value has none.
type users struct {
	mu    sync.Mutex
	ended bool
	using sync.WaitGroup
}

// enter is false once the end has begun.
func (u *users) enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended {
		u.using.Add(1)
	}
	return !u.ended
}

func (u *users) leave() { u.using.Done() }

// close lets nobody enter any more.
func (u *users) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
}

// end is close, and waits for those who are in.
func (u *users) end() {
	u.close()
	u.using.Wait()
}
