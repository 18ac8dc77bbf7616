// Package codec is a gRPC codec that hands file content on without copying it.
//
// A protobuf message with a file's bytes in it is, by the stock codec, joined from the
// transport's buffers and copied out of the joined one at the receiver, and copied
// into an encoding at the sender. Here the content travels beside its message: a sender
// passes an Outgoing, a receiver an Incoming, to SendMsg and RecvMsg. On the wire nothing
// differs: either end may use the stock codec. All other messages go the stock way.
//
// Content is the singular bytes field "data" with number 100, in the message itself or
// in one that singular message fields lead to. This package defines that rule, and when
// each side frees a buffer. It must never look into content.
package codec

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	stock "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/internal/budget"
)

// threshold is the least content, in bytes, that is worth a reference instead of a copy.
const threshold = 8 << 10

// leastPooled is the least capacity, in bytes, of a buffer that gRPC gives back (mem.IsBelowBufferPoolingThreshold).
const leastPooled = 1<<10 + 1

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

// Buffers returns the pool that New was given.
func (c *Codec) Buffers() mem.BufferPool { return c.pool }

// Outgoing is a message to send with its content beside it, by pointer:
//
//	err := stream.SendMsg(&codec.Outgoing{Message: m, Content: chunks})
//
// Exactly one content field of Message must be set, to nothing (one without presence
// needs no setting). The references in Content pass to the transport, which frees them
// when they are written, or to the codec when it fails. A SendMsg that fails before it
// calls the codec does not free them. It is always correct to call Free after SendMsg.
type Outgoing struct {
	Message proto.Message
	Content mem.BufferSlice
	// Written, unless nil, is called when the transport has written or dropped a message that has no content. gRPC bounds
	// the bytes that a stream has queued; a small message takes far more memory than it has bytes.
	Written func()
}

// Free frees what has not passed to the transport.
func (o *Outgoing) Free() {
	o.Content.Free()
	o.Content = nil
}

// Held is a message to send, by pointer, and what it holds of a memory budget: that is released when the transport has freed the
// message's encoding. Marshal takes large content out of Message, and hands it on without a copy. When it fails it releases nothing.
type Held struct {
	Message proto.Message
	Hold    *budget.Hold
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

// Marshal implements encoding.CodecV2.
func (c *Codec) Marshal(v any) (mem.BufferSlice, error) {
	if h, ok := v.(*Held); ok {
		return c.marshalHeld(h)
	}
	o, ok := v.(*Outgoing)
	if !ok {
		return c.plain(v)
	}
	if o.Content.Len() == 0 {
		o.Free()
		if o.Written != nil {
			return reported(o)
		}
		return c.plain(o.Message)
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

// reported encodes a message whose end in the transport its sender hears of.
func reported(o *Outgoing) (mem.BufferSlice, error) {
	size := proto.Size(o.Message)
	buf, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(make([]byte, 0, max(size, leastPooled)), o.Message)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(&buf, freed(o.Written))}, nil
}

// freed is the pool of a buffer that is not used again.
type freed func()

// Get implements mem.BufferPool.
func (freed) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put implements mem.BufferPool.
func (f freed) Put(*[]byte) { f() }

// SendHeld sends m on a stream, and releases h, what m holds, when the transport has freed it, or when SendHeld fails. h may be nil.
// m must not be used any more.
func SendHeld(stream grpc.ServerStream, m proto.Message, h *budget.Hold) error {
	if h.Held() == 0 {
		return stream.SendMsg(m)
	}
	err := stream.SendMsg(&Held{Message: m, Hold: h})
	switch {
	case err != nil:
		h.Release()
	case stream.Context().Err() != nil:
		// The transport drops, and does not free, what comes after the end of a stream.
		h.ReleaseWhenLost()
	}
	return err
}

// leastHeld is the size of a buffer that the transport gives back, in bytes: smaller ones it leaves to the garbage collector.
const leastHeld = 4 << 10

func (c *Codec) marshalHeld(h *Held) (mem.BufferSlice, error) {
	if content := c.takeContent(h.Message); content != nil {
		header, err := c.header(&Outgoing{Message: h.Message, Content: mem.BufferSlice{mem.SliceBuffer(content)}})
		if err != nil {
			return nil, err
		}
		return mem.BufferSlice{header, mem.NewBuffer(&content, h.Hold.From(mem.NopBufferPool{}))}, nil
	}
	return c.pooled(h.Message, max(proto.Size(h.Message), leastHeld), h.Hold.From(c.pool))
}

// pooled encodes m, whose size is cached, into a buffer of at least so many bytes that goes back to the pool to.
func (c *Codec) pooled(m proto.Message, size int, to mem.BufferPool) (mem.BufferSlice, error) {
	buf := c.pool.Get(size)
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buf)[:0], m)
	if err != nil {
		c.pool.Put(buf)
		return nil, err
	}
	*buf = data
	return mem.BufferSlice{mem.NewBuffer(buf, to)}, nil
}

// plain encodes a message that has no content beside it. The stock codec would take a buffer of 1 MiB for one of 33 KiB.
func (c *Codec) plain(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return c.stock.Marshal(v)
	}
	size := proto.Size(m)
	if !mem.IsBelowBufferPoolingThreshold(size) {
		return c.pooled(m, size, c.pool)
	}
	data, err := proto.MarshalOptions{UseCachedSize: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

// takeContent returns the content of m and sets its field to nothing; nil when there is not just one, or little.
func (c *Codec) takeContent(m proto.Message) []byte {
	var p path
	root := m.ProtoReflect()
	if c.tables.of(m).places(root, &p, 0) != 1 {
		return nil
	}
	holder, field := p.holder(root)
	content := holder.Get(field).Bytes()
	if len(content) < c.threshold {
		return nil
	}
	holder.Set(field, protoreflect.ValueOfBytes([]byte{}))
	return content
}

// ownedThreshold is the least content, in bytes, that UnmarshalOwned refers to.
const ownedThreshold = 1 << 10

// UnmarshalOwned is Unmarshal of an encoding in one piece that m may keep: content of 1 KiB or more in m refers to data.
func (c *Codec) UnmarshalOwned(data []byte, m proto.Message) error {
	if len(data) < ownedThreshold {
		return proto.Unmarshal(data, m)
	}
	in := Incoming{Message: m}
	if err := c.unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &in, ownedThreshold); err != nil || in.Content == nil {
		return err
	}
	var p path
	root := m.ProtoReflect()
	c.tables.of(m).places(root, &p, 0)
	holder, field := p.holder(root)
	holder.Set(field, protoreflect.ValueOfBytes(in.Content[0].ReadOnlyData()))
	return nil
}

// Unmarshal implements encoding.CodecV2.
func (c *Codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*Incoming)
	if !ok {
		return c.stock.Unmarshal(data, v)
	}
	return c.unmarshal(data, in, c.threshold)
}

// unmarshal refers to content of at least threshold bytes.
func (c *Codec) unmarshal(data mem.BufferSlice, in *Incoming, threshold int) error {
	in.Free()
	if data.Len() < threshold {
		return c.stock.Unmarshal(data, in.Message)
	}
	found := c.find(data, in.Message, threshold)
	if !found.content() {
		return c.stock.Unmarshal(data, in.Message)
	}
	return c.split(data, &found, in)
}

// Name implements encoding.CodecV2: the wire is protobuf's.
func (c *Codec) Name() string { return stock.Name }
