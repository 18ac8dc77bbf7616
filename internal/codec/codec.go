// Package codec is a gRPC codec that hands file content on without copying it.
//
// A protobuf message with a file's bytes in it is, by the stock codec, joined from the
// transport's buffers and copied out of the joined one at the receiver, and copied
// into an encoding at the sender. Here the content travels beside its message: a sender
// passes an Outgoing, a receiver an Incoming, to SendMsg and RecvMsg. On the wire nothing
// differs: either end may use the stock codec. All other messages go the stock way.
//
// Content is the singular bytes field "data" with number 100, in the message itself or
// in one that singular message fields lead to. This package owns that rule and who
// frees a buffer when; it must never look into content.
package codec

import (
	"google.golang.org/grpc/encoding"
	stock "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// threshold is the least content, in bytes, that is worth a reference instead of a copy.
const threshold = 8 << 10

// Codec is an encoding.CodecV2 named "proto", for grpc.ForceServerCodecV2 and
// grpc.ForceCodecV2. It is safe for concurrent use.
type Codec struct {
	stock     encoding.CodecV2
	pool      mem.BufferPool
	tables    tables
	threshold int
}

var _ encoding.CodecV2 = (*Codec)(nil)

// New returns a codec that takes the few buffers of its own from pool.
func New(pool mem.BufferPool) *Codec {
	return &Codec{stock: encoding.GetCodecV2(stock.Name), pool: pool, threshold: threshold}
}

// Outgoing is a message to send with its content beside it, by pointer:
//
//	err := stream.SendMsg(&codec.Outgoing{Message: m, Content: chunks})
//
// Exactly one content field of Message must be set, to nothing (one without presence
// needs no setting). The references in Content pass to the transport, which frees them
// when they are written, or to the codec when it fails. A SendMsg that fails before it
// comes to the codec leaves them: Free after SendMsg is always right.
type Outgoing struct {
	Message proto.Message
	Content mem.BufferSlice
}

// Free frees what has not passed to the transport.
func (o *Outgoing) Free() {
	o.Content.Free()
	o.Content = nil
}

// Incoming is where a message is received, by pointer:
//
//	in := codec.Incoming{Message: &ctxfsv1.WriteStreamRequest{}}
//	defer in.Free()
//	err := stream.RecvMsg(&in)
//
// Content of at least 8 KiB is in Content, as references to the transport's buffers that
// the receiver must Free, and the content field of Message is set to nothing. Smaller
// content is in Message as always, and Content is nil. An Incoming may be used for
// message after message: each frees what was left of the one before.
type Incoming struct {
	Message proto.Message
	Content mem.BufferSlice
}

// Free gives the content back. Its bytes must not be used afterwards.
func (i *Incoming) Free() {
	i.Content.Free()
	i.Content = nil
}

// Pieces are the content wherever it is, given the content field of Message. They are
// good as long as the Incoming is not freed nor used for another message.
func (i *Incoming) Pieces(field []byte) mem.BufferSlice {
	if i.Content == nil && len(field) > 0 {
		return mem.BufferSlice{mem.SliceBuffer(field)}
	}
	return i.Content
}

// Size is the length of the message in bytes, content included.
func (i *Incoming) Size() int { return proto.Size(i.Message) + i.Content.Len() }

// Marshal implements encoding.CodecV2.
func (c *Codec) Marshal(v any) (mem.BufferSlice, error) {
	o, ok := v.(*Outgoing)
	if !ok {
		return c.stock.Marshal(v)
	}
	if o.Content.Len() == 0 {
		o.Free()
		return c.stock.Marshal(o.Message)
	}
	header, err := c.header(o)
	if err != nil {
		o.Free()
		return nil, err
	}
	out := append(mem.BufferSlice{header}, o.Content...)
	o.Content = nil
	return out, nil
}

// Unmarshal implements encoding.CodecV2.
func (c *Codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*Incoming)
	if !ok {
		return c.stock.Unmarshal(data, v)
	}
	in.Free()
	if data.Len() < c.threshold {
		return c.stock.Unmarshal(data, in.Message)
	}
	found := c.find(data, in.Message)
	if !found.content() {
		return c.stock.Unmarshal(data, in.Message)
	}
	return c.split(data, &found, in)
}

// Name implements encoding.CodecV2: the wire is protobuf's.
func (c *Codec) Name() string { return stock.Name }
