package client

import (
	"google.golang.org/grpc/encoding"
	stock "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
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

// wireCodec is the stock codec that also takes a *together.
type wireCodec struct{ encoding.CodecV2 }

func newWireCodec() wireCodec { return wireCodec{encoding.GetCodecV2(stock.Name)} }

// Marshal implements encoding.CodecV2.
func (c wireCodec) Marshal(v any) (mem.BufferSlice, error) {
	t, ok := v.(*together)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	if first := (*t)[0]; len(first) >= largeRequest {
		return mem.BufferSlice{mem.SliceBuffer(first)}, nil // whose exchange does not use it again
	}
	pool := mem.DefaultBufferPool()
	buf := pool.Get(t.size())
	*buf = t.join((*buf)[:0])
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

// size is at least what join takes.
func (t *together) size() (n int) {
	for _, r := range *t {
		n += len(r) + 1 + protowire.SizeVarint(uint64(len(r)))
	}
	return n
}

func (t *together) join(b []byte) []byte {
	b = append(b, (*t)[0]...)
	for _, r := range (*t)[1:] {
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
