package server

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
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
	contentPart = 128 << 10
	// statHeader carries the file's Stat, as protobuf in base64; errorHeader the errno of a refusal.
	statHeader  = "Ctxfs-Stat"
	errorHeader = "Ctxfs-Error"
	// writtenHeader is how many bytes were written.
	writtenHeader = "Ctxfs-Written"
)

// getContent answers GET /v1/content?path=/a&start=0&end=9: what ReadStream sends, as the
// body of a response, which the kernel copies from the file to the socket by itself. start
// and end are as in ReadStreamRequest. The token is Authorization's.
func (k *sockets) getContent(w http.ResponseWriter, r *http.Request) {
	req, err := readQuery(r.URL.RawQuery)
	k.transfer(w, r, err, ctxfsv1.FsService_ReadStream_FullMethodName, req, func(ctx context.Context, t *transfer) error {
		content, err := k.fs.OpenContent(ctx, req)
		if err != nil {
			return err
		}
		defer content.Close()
		return t.send(ctx, content)
	})
}

// putContent answers PUT /v1/content?path=/a&flag=w&mode=0644&start=0&flush=true: the body is
// what WriteStream would be sent, and the parameters are as in WriteStreamOpen, mode in octal.
func (k *sockets) putContent(w http.ResponseWriter, r *http.Request) {
	open, err := writeQuery(r.URL.RawQuery)
	if r.ContentLength == 0 && r.Header.Get("Content-Length") == "" && len(r.TransferEncoding) == 0 {
		err = &fserr.Error{Code: fserr.EINVAL, Detail: "the length of the body is not told", Hint: "send Content-Length, or chunks"}
	}
	if twice := oneLength(w, r); twice != nil {
		err = twice
	}
	k.transfer(w, r, err, ctxfsv1.FsService_WriteStream_FullMethodName, open, func(ctx context.Context, t *transfer) error {
		n, err := k.fs.WriteContent(ctx, open, &bodyReader{ctx, t, r.Body})
		t.wrote.Store(n)
		if err == nil {
			err = t.control.SetWriteDeadline(time.Now().Add(t.keepalive)) // also when ctx has ended: it is written
		}
		if err == nil {
			w.Header().Set(writtenHeader, strconv.FormatInt(n, 10))
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	})
}

// transfer does what a request for content asks, as a call of method, unless the query was wrong.
func (k *sockets) transfer(w http.ResponseWriter, r *http.Request, wrong error, method string, query any, do func(context.Context, *transfer) error) {
	if !k.enter(w) {
		return
	}
	defer k.users.leave()
	if !k.mayAsk(w, r) {
		return
	}
	t := &transfer{ResponseWriter: w, takes: r.Method == http.MethodPut, bodyless: r.Method == http.MethodHead, control: http.NewResponseController(w), keepalive: k.keepalive}
	err := wrong
	if err == nil {
		err = k.asCall(r, method, query, t, do)
		t.users.end()
	}
	switch {
	case err == nil || t.whole:
	case t.begun:
		panic(http.ErrAbortHandler) // the client learns by the connection that there is less than was said
	default:
		_ = t.control.SetWriteDeadline(time.Now().Add(t.keepalive)) // which may have been over
		refuse(w, err)
	}
}

func (k *sockets) asCall(r *http.Request, method string, query any, t *transfer, do func(context.Context, *transfer) error) error {
	md, err := headersOf(r)
	if err != nil {
		return err
	}
	conn := &connInfo{}
	if shared := sharedConnOf(r.Context()); shared != nil {
		*conn = *shared
	} else {
		conn.id, conn.accepted = k.connIDs.Add(1), acceptedConnOf(r.Context())
	}
	conn.web, conn.http = false, true
	ctx := metadata.NewIncomingContext(r.Context(), md)
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: remoteAddr(r.RemoteAddr), AuthInfo: conn})
	c := k.calls.begin(ctx, method)
	c.about.Store(&about{first: query})
	t.wrote = &c.wrote
	return k.calls.around(ctx, c, func(ctx context.Context) error {
		if !t.users.enter() {
			return fserr.ECANCELED
		}
		defer t.users.leave()
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
	// takes says that the client's body is wanted, and not ours.
	takes bool
	// bodyless says that only the head of the response is wanted.
	bodyless bool
	// begun says that the response has begun, whole that all of it was sent.
	begun, whole bool
	// wrote is the call's.
	wrote *atomic.Int64
}

// interrupt ends what waits for the client. A body is not read on then; nor may another
// request come by the connection, whose reader has ended.
func (t *transfer) interrupt() {
	if t.takes {
		_ = t.control.SetReadDeadline(time.Unix(1, 0))
		return
	}
	_ = t.control.SetWriteDeadline(time.Unix(1, 0))
}

// extend gives the client a further keepalive to take something, or to give it, by what sets
// the deadline. It fails once ctx has ended: the deadline would undo an interrupt.
func (t *transfer) extend(ctx context.Context, set func(time.Time) error) error {
	if err := set(time.Now().Add(t.keepalive)); err != nil {
		return err
	}
	return ctx.Err()
}

// send sends all of content. A client may be slow; one that takes no part within a keepalive is cut off.
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

// bodyReader reads the body of a request. A client may be slow; one that gives nothing for a keepalive is cut off.
type bodyReader struct {
	ctx  context.Context //nolint:containedctx // of the request
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
	case codes.AlreadyExists, codes.Aborted:
		return http.StatusConflict
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
