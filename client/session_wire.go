package client

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	stock "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxTogether bounds the requests of one message.
	maxTogether = 128
	// largeRequest is the size, in bytes, from which a request travels alone.
	largeRequest = 16 << 10
	// alsoField is SessionRequest.also.
	alsoField = 6
)

// together is requests, encoded, that go as one message: the others stand in the first
// one's also. Each caller encodes its own request: what that refers to is the caller's
// again as soon as it waits no longer.
type together [][]byte

// The fields of a call: SessionRequest.id and call, SessionCall.method and data.
const (
	idField, callField     = 1, 3
	methodField, dataField = 1, 100
)

// appendCall appends the SessionRequest of a call. It encodes the request where it travels: once, and without a message around it.
func appendCall(b []byte, x *exchange) ([]byte, error) {
	data := protowire.SizeTag(dataField) + protowire.SizeBytes(x.size)
	b = protowire.AppendTag(b, idField, protowire.VarintType)
	b = protowire.AppendVarint(b, x.id)
	b = protowire.AppendTag(b, callField, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(protowire.SizeTag(methodField)+protowire.SizeBytes(len(x.method))+data))
	b = protowire.AppendTag(b, methodField, protowire.BytesType)
	b = protowire.AppendString(b, x.method)
	b = protowire.AppendTag(b, dataField, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(x.size))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, x.args)
}

// The fields of a SessionResponse. Those from 3 to lastKind are of its kinds.
const (
	moreField, replyField, lastKind = 2, 4, 7
	alsoResponseField               = 8
)

// response is a SessionResponse.
type response struct {
	id   uint64
	more bool
	// data, of a reply, lies in the message that it came in.
	data []byte
	// other is nil of a reply.
	other *ctxfsv1.SessionResponse
}

// eachResponse calls do with each response of a message, in order; alone says that there is but one.
func eachResponse(message []byte, do func(r response, alone bool)) error {
	r, also, err := parseResponse(message)
	if err != nil {
		return err
	}
	do(r, len(also) == 0)
	for len(also) > 0 {
		number, kind, n := protowire.ConsumeTag(also)
		size := protowire.ConsumeFieldValue(number, kind, also[n:])
		if number == alsoResponseField && kind == protowire.BytesType {
			one, _ := protowire.ConsumeBytes(also[n:])
			if r, _, err = parseResponse(one); err != nil {
				return err
			}
			do(r, false)
		}
		also = also[n+size:]
	}
	return nil
}

// parseResponse parses one response, and returns where those begin that travel with it. It checks that every field is whole.
func parseResponse(b []byte) (r response, also []byte, err error) {
	isOther := true
	for rest := b; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		size := -1
		if n > 0 {
			size = protowire.ConsumeFieldValue(number, kind, rest[n:])
		}
		if size < 0 {
			return r, nil, errMalformed
		}
		value := rest[n : n+size]
		switch {
		case number == idField && kind == protowire.VarintType:
			r.id, _ = protowire.ConsumeVarint(value)
		case number == moreField && kind == protowire.VarintType:
			more, _ := protowire.ConsumeVarint(value)
			r.more = more != 0
		case number == replyField && kind == protowire.BytesType:
			reply, _ := protowire.ConsumeBytes(value)
			if r.data, err = replyData(reply, r.data); err != nil {
				return r, nil, err
			}
			isOther = false
		case number == alsoResponseField && kind == protowire.BytesType:
			if also == nil {
				also = rest
			}
		case number <= lastKind && kind == protowire.BytesType:
			isOther, r.data = true, nil
		}
		rest = rest[n+size:]
	}
	if isOther {
		r.other = &ctxfsv1.SessionResponse{}
		if proto.Unmarshal(b, r.other) != nil {
			return r, nil, errMalformed
		}
	}
	return r, also, nil
}

// replyData returns SessionReply.data; data where it has none.
func replyData(reply, data []byte) ([]byte, error) {
	for len(reply) > 0 {
		number, kind, n := protowire.ConsumeTag(reply)
		size := -1
		if n > 0 {
			size = protowire.ConsumeFieldValue(number, kind, reply[n:])
		}
		if size < 0 {
			return nil, errMalformed
		}
		if number == dataField && kind == protowire.BytesType {
			data, _ = protowire.ConsumeBytes(reply[n:])
		}
		reply = reply[n+size:]
	}
	return data, nil
}

var errMalformed = status.Error(codes.Internal, "a message of the session is malformed")

// grpcLink is the link of a gRPC stream.
type grpcLink struct{ stream grpc.ClientStream }

func (l grpcLink) send(t together) error { return l.stream.SendMsg(t) }

func (l grpcLink) receive() (message []byte, owned bool, err error) {
	var m received
	err = l.stream.RecvMsg(&m)
	return m, true, err
}

func (grpcLink) interruptible() bool { return false }
func (grpcLink) interrupt()          {}

// received is a message as it came.
type received []byte

// wireCodec encodes what is together, and leaves what is received as it is.
type wireCodec struct{ encoding.CodecV2 }

func newWireCodec() wireCodec { return wireCodec{encoding.GetCodecV2(stock.Name)} }

// Marshal implements encoding.CodecV2.
func (c wireCodec) Marshal(v any) (mem.BufferSlice, error) {
	t, ok := v.(together)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	if len(t[0]) >= largeRequest {
		return mem.BufferSlice{mem.SliceBuffer(t[0])}, nil // whose exchange does not use it again
	}
	pool := mem.DefaultBufferPool()
	buf := pool.Get(t.size())
	*buf = t.join((*buf)[:0])
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c wireCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	*m = data.Materialize()
	return nil
}

// size is at least what join takes.
func (t together) size() (n int) {
	for _, r := range t {
		n += len(r) + 1 + protowire.SizeVarint(uint64(len(r)))
	}
	return n
}

func (t together) join(b []byte) []byte {
	b = append(b, t[0]...)
	for _, r := range t[1:] {
		b = protowire.AppendTag(b, alsoField, protowire.BytesType)
		b = protowire.AppendBytes(b, r)
	}
	return b
}

// pack moves what goes as one message from the front of the batch to t, and returns how many.
func (t *together) pack(batch []outgoing) (n int) {
	clear(*t)
	*t = (*t)[:0]
	for size := 0; n < len(batch) && n < maxTogether; n++ {
		size += len(batch[n].request)
		if n > 0 && size >= largeRequest {
			break
		}
		*t = append(*t, batch[n].request)
	}
	return n
}
