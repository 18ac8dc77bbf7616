package client

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// chunkSource is a ReadStream's content.
type chunkSource struct {
	stream interface{ RecvMsg(any) error }
	// message is the last one received, content the transport's buffers of it; rest
	// and pieces are what has not been read of them.
	message ctxfsv1.ReadStreamResponse
	content codec.Incoming
	rest    []byte
	pieces  mem.BufferSlice
	err     error
}

func newChunkSource(stream interface{ RecvMsg(any) error }) (*chunkSource, *ctxfsv1.Stat, error) {
	c := &chunkSource{stream: stream}
	c.content.Message = &c.message
	if err := c.receive(); err != nil {
		return nil, nil, err
	}
	return c, c.message.GetStart().GetStat(), nil
}

// receive waits for a message, and frees the one before.
func (c *chunkSource) receive() error {
	c.rest, c.pieces = nil, nil
	if err := c.stream.RecvMsg(&c.content); err != nil {
		c.content.Free()
		return err
	}
	c.pieces = c.content.Pieces(c.message.GetData())
	return nil
}

// Read implements io.Reader.
func (c *chunkSource) Read(b []byte) (int, error) {
	if err := c.fill(); err != nil {
		return 0, err
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// fill sees to it that there is some rest.
func (c *chunkSource) fill() error {
	for len(c.rest) == 0 && c.err == nil {
		if len(c.pieces) > 0 {
			c.rest, c.pieces = c.pieces[0].ReadOnlyData(), c.pieces[1:]
			continue
		}
		c.err = c.receive()
	}
	if len(c.rest) > 0 {
		return nil
	}
	return c.err
}

// WriteTo implements io.WriterTo without a copy.
func (c *chunkSource) WriteTo(w io.Writer) (n int64, err error) {
	for {
		if err := c.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
		m, err := w.Write(c.rest)
		n += int64(m)
		c.rest = c.rest[m:]
		if err != nil {
			return n, err
		}
	}
}

// close takes what is left of the stream, whose context has ended.
func (c *chunkSource) close() {
	for c.err == nil {
		c.err = c.receive()
	}
	c.rest, c.pieces = nil, nil
	c.content.Free()
}

// chunkSink is a WriteStream.
type chunkSink struct {
	stream interface {
		SendMsg(any) error
		CloseAndRecv() (*ctxfsv1.WriteStreamResponse, error)
	}
	buffers mem.BufferPool
}

func newChunkSink(stream grpc.ClientStreamingClient[ctxfsv1.WriteStreamRequest, ctxfsv1.WriteStreamResponse], buffers mem.BufferPool, open *ctxfsv1.WriteStreamOpen) *chunkSink {
	_ = stream.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: open}}) // finish has the reason
	return &chunkSink{stream, buffers}
}

// write copies b, since the transport holds what it sends beyond the call.
func (c *chunkSink) write(b []byte) error { return c.send(mem.Copy(b, c.buffers)) }

// send sends a chunk and lets go of it.
func (c *chunkSink) send(chunk mem.Buffer) error {
	m := &codec.Outgoing{
		Message: &ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Data{}},
		Content: mem.BufferSlice{chunk},
	}
	defer m.Free()
	return c.stream.SendMsg(m)
}

// readFrom copies nothing.
func (c *chunkSink) readFrom(r io.Reader) (n int64, err, of error) {
	for {
		buf := c.buffers.Get(streamChunk)
		m, readErr := io.ReadFull(r, *buf)
		*buf = (*buf)[:m]
		chunk := mem.NewBuffer(buf, c.buffers)
		if m == 0 {
			chunk.Free()
		} else if err := c.send(chunk); err != nil {
			return n, err, nil
		}
		n += int64(m)
		if readErr != nil {
			return n, nil, unlessEnd(readErr)
		}
	}
}

// unlessEnd is nil for what io.ReadFull returns at the end.
func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// finish implements writeSink.
func (c *chunkSink) finish() (int64, error) {
	r, err := c.stream.CloseAndRecv()
	return r.GetBytesWritten(), err
}
