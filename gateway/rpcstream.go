package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/method"
)

const (
	// bodyTime is how long a client may take to send a call's request.
	bodyTime = 30 * time.Second
	// maxNesting bounds how deep the objects of a request nest.
	maxNesting = 64
	// requestCost is the memory that a request takes while it is decoded, as a multiple of its size.
	requestCost = 3
	// unannounced is how much of a body without Content-Length is read before memory is reserved for the largest, in bytes.
	unannounced = 16 << 10
	// maxComplaint bounds what a refusal quotes of a request, in bytes.
	maxComplaint = 200
)

// rpcStream is a call over HTTP as its RPC sees it: a gRPC stream. Its messages travel as JSON, one request as the body of the HTTP
// request, and the responses as lines of the answer.
type rpcStream struct {
	*transfer
	r      *http.Request
	method *method.Method
	codec  *codec.Codec
	// ctx is the call's, set before the call begins. until is the context that ends its reads and writes.
	ctx, until context.Context //nolint:containedctx // grpc.ServerStream has one
	// stop ends the wait for the end of until.
	stop func()
	// broken says that a write failed, so that the answer cannot be completed.
	broken  bool
	trailer metadata.MD
}

var _ grpc.ServerStream = (*rpcStream)(nil)

func newRPCStream(g *Gateway, w http.ResponseWriter, r *http.Request, m *method.Method) *rpcStream {
	t := &transfer{ResponseWriter: w, control: http.NewResponseController(w), keepalive: g.cfg.Keepalive}
	return &rpcStream{transfer: t, r: r, method: m, codec: g.codec, ctx: r.Context(), until: r.Context(), stop: func() {}}
}

// errNoHeaders refuses metadata before the first message, which no RPC of ctxfs sends.
var errNoHeaders = errors.New("a call over HTTP has no header metadata")

// Context implements grpc.ServerStream.
func (s *rpcStream) Context() context.Context { return s.ctx }

// SetHeader implements grpc.ServerStream.
func (*rpcStream) SetHeader(metadata.MD) error { return errNoHeaders }

// SendHeader implements grpc.ServerStream.
func (*rpcStream) SendHeader(metadata.MD) error { return errNoHeaders }

// SetTrailer implements grpc.ServerStream.
func (s *rpcStream) SetTrailer(md metadata.MD) {
	s.trailer = metadata.Join(s.trailer, md)
}

// RecvMsg implements grpc.ServerStream. The server receives by ReceiveRequest, which it finds in the context of the call.
func (*rpcStream) RecvMsg(any) error {
	return errors.New("the request of a call over HTTP is received by ReceiveRequest")
}

// TooLargeError refuses a request.
type TooLargeError struct {
	// Size is what the client announced or sent, in bytes.
	Size int
}

// Error implements error.
func (e *TooLargeError) Error() string { return fmt.Sprintf("a request of %d bytes", e.Size) }

// ReceiveRequest receives the request into m, whose size is limited. ctx is the call's: its end ends reads and writes from now on.
// ReceiveRequest calls reserve with the memory that it will take, in bytes, before it takes it. It returns the request's size in bytes, and
// fails with *TooLargeError for one that it does not read.
func (s *rpcStream) ReceiveRequest(ctx context.Context, m proto.Message, limit int, reserve func(bytes int64) error) (size int, err error) {
	if !s.users.enter() {
		return 0, fserr.ECANCELED
	}
	defer s.users.leave()
	s.until, s.stop = ctx, onEnd(ctx, s.control.SetWriteDeadline)
	body, err := s.body(ctx, int64(limit)*4/3, reserve) // content in base64 takes a third more than it is
	if err != nil {
		s.Header().Set("Connection", "close") // the rest of the body is not read
		return 0, err
	}
	decodes, err := codec.FootprintJSON(body)
	if err == nil && decodes > int64(len(body)) {
		err = reserve(requestCost*int64(len(body)) + decodes)
	}
	if err != nil {
		return 0, err
	}
	return len(body), decodeRequest(body, m)
}

// onEnd sets a deadline that has passed when ctx ends. The caller must call stop, which waits for that: later it would interrupt the
// connection's next request.
func onEnd(ctx context.Context, set func(time.Time) error) (stop func()) {
	interrupted := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = set(time.Unix(1, 0))
	})
	return func() {
		if !cancel() {
			<-interrupted
		}
	}
}

// body reads the body, of at most so many bytes. After it, the connection is read without a deadline: the end of the connection ends
// the call, and the end of a deadline would too.
func (s *rpcStream) body(ctx context.Context, most int64, reserve func(bytes int64) error) ([]byte, error) {
	length := s.r.ContentLength
	if length > most {
		return nil, &TooLargeError{int(length)}
	}
	if err := reserve(requestCost * length); err != nil {
		return nil, err
	}
	if err := s.control.SetReadDeadline(time.Now().Add(bodyTime)); err != nil {
		return nil, err
	}
	stop := onEnd(ctx, s.control.SetReadDeadline)
	body, err := s.readBody(length, most, reserve)
	stop()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case int64(len(body)) > most:
		return nil, &TooLargeError{len(body)}
	}
	return body, s.control.SetReadDeadline(time.Time{})
}

// readBody reads the body, or a part of one with more than most bytes. length is negative when it is not known.
func (s *rpcStream) readBody(length, most int64, reserve func(bytes int64) error) ([]byte, error) {
	first := length
	if length < 0 {
		first = min(most, unannounced)
	}
	var body bytes.Buffer
	body.Grow(int(first) + bytes.MinRead)
	_, err := body.ReadFrom(io.LimitReader(s.r.Body, first+1))
	if err == nil && length < 0 && int64(body.Len()) > first {
		if err := reserve(requestCost * most); err != nil {
			return nil, err
		}
		_, err = body.ReadFrom(io.LimitReader(s.r.Body, most-first))
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &fserr.Error{Code: fserr.ETIMEDOUT, Detail: "the request did not come in " + bodyTime.String(), Hint: "send it at once"}
	case err != nil:
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "the body is malformed, or ends early", Hint: "send as much as Content-Length says, or whole chunks", Err: err}
	}
	return body.Bytes(), nil
}

// decodeRequest decodes a request in JSON. An empty one is a request without fields.
func decodeRequest(body []byte, m proto.Message) error {
	if len(body) == 0 {
		return nil
	}
	err := protojson.UnmarshalOptions{RecursionLimit: maxNesting}.Unmarshal(body, m)
	if err == nil {
		return nil
	}
	// The library begins its errors with its name and, at random, one of two spaces.
	text := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	if len(text) > maxComplaint {
		text = text[:maxComplaint] + "…"
	}
	return &fserr.Error{
		Code: fserr.EINVAL, Detail: "the request is no " + string(m.ProtoReflect().Descriptor().Name()) + " in JSON: " + strings.ToValidUTF8(text, "\uFFFD"),
		Hint: "GET /v1/openapi.json has the fields of each request",
	}
}

// SendMsg implements grpc.ServerStream.
func (s *rpcStream) SendMsg(m any) error {
	if !s.users.enter() {
		return fserr.ECANCELED
	}
	defer s.users.leave()
	line, free, err := s.encode(m)
	defer free()
	if err != nil {
		return err
	}
	return s.write(line)
}

// encode returns a message as a line of JSON, and the function that gives back what the message holds.
func (s *rpcStream) encode(v any) (line []byte, free func(), err error) {
	pieces, err := s.codec.Marshal(v)
	if err != nil {
		return nil, func() {}, err
	}
	m, err := message(v)
	if err == nil {
		// A message may have content beside it, and fields that are encoded already.
		m = m.ProtoReflect().New().Interface()
		err = proto.Unmarshal(pieces.Materialize(), m)
	}
	if err == nil {
		line, err = protojson.Marshal(m)
	}
	return append(compact(line), '\n'), pieces.Free, err
}

// message returns the message of what a handler sends.
func message(v any) (proto.Message, error) {
	switch v := v.(type) {
	case *codec.Held:
		return v.Message, nil
	case *codec.Outgoing:
		return v.Message, nil
	case proto.Message:
		return v, nil
	}
	return nil, fmt.Errorf("a response is a %T", v)
}

// compact removes spaces between the tokens of JSON in place: the library puts some there, at random.
func compact(line []byte) []byte {
	out, quoted := line[:0], false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			out = append(out, c)
			i++
			c = line[i]
		case c == ' ' && !quoted:
			continue
		}
		out = append(out, c)
	}
	return out
}

// head begins an answer whose first line has n bytes.
func (s *rpcStream) head(n int) {
	s.begun = true
	h := s.Header()
	if s.method.Desc.IsStreamingServer() {
		jsonHeaders(h, "application/x-ndjson")
		h.Set("Trailer", errorHeader+", X-Request-Id")
	} else {
		jsonHeaders(h, "application/json")
		h.Set("Content-Length", strconv.Itoa(n))
	}
	s.WriteHeader(http.StatusOK)
}

// write sends a line. A slow client is served, but one that receives no part within a keepalive is cut off.
func (s *rpcStream) write(b []byte) error {
	for sent := 0; sent < len(b); {
		part := b[sent:min(len(b), sent+contentPart)]
		if err := s.extend(s.until, s.control.SetWriteDeadline); err != nil {
			s.broken = sent > 0
			return err
		}
		if !s.begun {
			s.head(len(b))
		}
		_, err := s.Write(part)
		if err == nil {
			err = s.control.Flush()
		}
		if err != nil {
			s.broken = true
			return fmt.Errorf("%w: %w", context.Canceled, err)
		}
		sent += len(part)
	}
	return nil
}

// end completes the answer; err is the call's. A stream that has begun has its error in the last line and in the trailers.
func (s *rpcStream) end(err error) {
	s.users.end()
	s.stop()
	_ = s.control.SetWriteDeadline(time.Now().Add(s.keepalive)) // it may have passed
	for _, id := range s.trailer.Get(method.RequestIDKey) {
		s.Header().Set("X-Request-Id", id)
	}
	switch {
	case s.broken || err != nil && s.begun && !s.method.Desc.IsStreamingServer():
		panic(http.ErrAbortHandler) // the closed connection shows the client that something is missing
	case err == nil && !s.begun:
		s.head(0)
	case err == nil:
	case !s.begun:
		refuseRPC(s.ResponseWriter, 0, err)
	default:
		s.lastLine(status.Convert(fserrpb.ToStatus(err)))
	}
}

// lastLine ends a stream that has failed.
func (s *rpcStream) lastLine(st *status.Status) {
	if reason := fserrpb.ReasonOf(st.Err()); reason != "" {
		s.Header().Set(errorHeader, reason)
	}
	if _, err := fmt.Fprintf(s.ResponseWriter, `{"error":%s}`+"\n", bytes.TrimSpace(statusJSON(st))); err != nil { //nolint:gosec // it is JSON, as the header says
		panic(http.ErrAbortHandler)
	}
}
