package attack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/method"
)

// jsonConn makes calls as JSON over HTTP, so that whatever attacks by gRPC attacks by this door too. It passes calls that stream their
// requests, and those of gRPC's own services, to plain.
type jsonConn struct {
	w     *world
	plain grpc.ClientConnInterface
}

// post sends a call's request, with the metadata that ctx carries as headers.
func (c *jsonConn) post(ctx context.Context, rpc string, req any) (*http.Response, error) {
	body, err := protojson.Marshal(req.(proto.Message)) //nolint:forcetypeassert // the attacks send nothing else
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error()) // gRPC does not send it either
	}
	url := "http://" + c.w.server.Info().Addresses.HTTP + "/v1/" + strings.TrimPrefix(rpc, "/ctxfs.v1.")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	md, _ := metadata.FromOutgoingContext(ctx)
	for key, values := range md {
		for _, v := range values {
			r.Header.Add(key, v)
		}
	}
	resp, err := c.w.web.Do(r)
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	for _, values := range resp.Header {
		c.w.checkBytes(rpc+"'s header in JSON", []byte(strings.Join(values, " ")))
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	c.w.checkBytes(rpc+"'s error in JSON", text)
	return nil, asError(text)
}

// asError returns the error that a google.rpc.Status in JSON is.
func asError(text []byte) error {
	st := &spb.Status{}
	if err := protojson.Unmarshal(text, st); err != nil {
		return status.Errorf(codes.Unknown, "%.200q is no status: %v", text, err)
	}
	return status.FromProto(st).Err()
}

// Invoke implements grpc.ClientConnInterface.
func (c *jsonConn) Invoke(ctx context.Context, rpc string, req, reply any, opts ...grpc.CallOption) error {
	if !inJSON(rpc) {
		return c.plain.Invoke(ctx, rpc, req, reply, opts...)
	}
	s, err := c.NewStream(ctx, nil, rpc)
	if err != nil {
		return err
	}
	return errors.Join(s.SendMsg(req), s.RecvMsg(reply))
}

// inJSON reports whether an RPC can be called in JSON.
func inJSON(rpc string) bool {
	m := method.Of(rpc)
	return strings.HasPrefix(rpc, "/ctxfs.v1.") && m.Desc != nil && !m.Desc.IsStreamingClient()
}

// NewStream implements grpc.ClientConnInterface.
func (c *jsonConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, rpc string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !inJSON(rpc) {
		return c.plain.NewStream(ctx, desc, rpc, opts...)
	}
	return &jsonClient{conn: c, ctx: ctx, rpc: rpc}, nil
}

// jsonClient is the client's side of a call.
type jsonClient struct {
	grpc.ClientStream
	conn *jsonConn
	ctx  context.Context //nolint:containedctx // it is the stream's
	rpc  string

	resp  *http.Response
	lines *bufio.Reader
	err   error
}

// SendMsg implements grpc.ClientStream. RecvMsg returns the error of the call.
func (s *jsonClient) SendMsg(m any) error {
	if s.resp, s.err = s.conn.post(s.ctx, s.rpc, m); s.err == nil {
		s.lines = bufio.NewReader(s.resp.Body)
		context.AfterFunc(s.ctx, func() { _ = s.resp.Body.Close() })
	}
	return nil
}

// CloseSend implements grpc.ClientStream.
func (*jsonClient) CloseSend() error { return nil }

// Trailer implements grpc.ClientStream.
func (s *jsonClient) Trailer() metadata.MD {
	md := metadata.MD{}
	if s.resp != nil {
		for key, values := range s.resp.Trailer {
			md.Append(key, values...)
		}
	}
	return md
}

// RecvMsg implements grpc.ClientStream.
func (s *jsonClient) RecvMsg(m any) error {
	if s.err != nil {
		return s.err
	}
	line, err := s.lines.ReadBytes('\n')
	s.conn.w.checkBytes(s.rpc+" in JSON", line)
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return io.EOF
	case err != nil:
		return err
	}
	var last struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(line, &last); err == nil && last.Error != nil {
		return asError(last.Error)
	}
	return protojson.Unmarshal(line, m.(proto.Message)) //nolint:forcetypeassert // as above
}
