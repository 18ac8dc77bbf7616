package fsservice

import (
	"context"

	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// defaultRead is Read's length when none is given, in bytes, as in Node.
	defaultRead = 16 << 10
	// maxBuffers bounds the buffers of Readv and Writev, as IOV_MAX does on Linux.
	maxBuffers = 1024
)

// Read implements FsService.
func (s *Service) Read(ctx context.Context, req *ctxfsv1.ReadRequest) (*ctxfsv1.ReadResponse, error) {
	return inBudget(ctx, "read", func() (*ctxfsv1.ReadResponse, error) {
		return onHandle(ctx, s, "read", reads, req, func(c *handleCall) (*ctxfsv1.ReadResponse, error) {
			n := int64(defaultRead)
			if req.Length != nil {
				n = req.GetLength()
			}
			enc, err := encodingOf(req.GetEncoding())
			if err == nil {
				err = wantReadLength(n)
			}
			if err != nil {
				return nil, err
			}
			data, err := c.read(req.Position, n, enc)
			if err != nil {
				return nil, err
			}
			return wireRead(c, data, enc)
		})
	})
}

func wantReadLength(n int64) error {
	if n > maxReply {
		return invalid("a length of %d exceeds %d (3.5 MiB); read less at a time, or use FsService/ReadStream", n, maxReply)
	}
	return wantLength(n)
}

func wireRead(ctx context.Context, data []byte, enc encoding) (*ctxfsv1.ReadResponse, error) {
	resp := &ctxfsv1.ReadResponse{BytesRead: int64(len(data))}
	if enc == "" {
		resp.Content = &ctxfsv1.ReadResponse_Data{Data: data}
		return resp, nil
	}
	text, lossy := enc.decode(data)
	if len(text) > maxReply {
		return nil, tooBig(int64(len(text)), "ReadStream")
	}
	budget.Of(ctx).Keep(int64(len(text)))
	resp.Lossy, resp.Content = lossy, &ctxfsv1.ReadResponse_Text{Text: text}
	return resp, nil
}

// Readv implements FsService.
func (s *Service) Readv(ctx context.Context, req *ctxfsv1.ReadvRequest) (*ctxfsv1.ReadvResponse, error) {
	return inBudget(ctx, "read", func() (*ctxfsv1.ReadvResponse, error) {
		return onHandle(ctx, s, "read", reads, req, func(c *handleCall) (*ctxfsv1.ReadvResponse, error) {
			n, err := sum(req.GetLengths())
			if err != nil {
				return nil, err
			}
			data, err := c.read(req.Position, n, "")
			if err != nil {
				return nil, err
			}
			return &ctxfsv1.ReadvResponse{BytesRead: int64(len(data)), Data: data}, nil
		})
	})
}

// sum adds the lengths of Readv.
func sum(lengths []int64) (int64, error) {
	if err := wantBuffers(len(lengths)); err != nil {
		return 0, err
	}
	var n int64
	for _, l := range lengths {
		if err := wantReadLength(l); err != nil {
			return 0, err
		}
		n += l
	}
	return n, wantReadLength(n)
}

func wantBuffers(n int) error {
	if n > maxBuffers {
		return invalid("%d buffers are more than %d", n, maxBuffers)
	}
	return nil
}

// Write implements FsService.
func (s *Service) Write(ctx context.Context, req *ctxfsv1.WriteRequest) (*ctxfsv1.WriteResponse, error) {
	return onHandle(ctx, s, "write", writes, req, func(c *handleCall) (*ctxfsv1.WriteResponse, error) {
		data, err := contentOf(req)
		if err != nil {
			return nil, err
		}
		n, after, err := c.write(req.Position, data)
		return &ctxfsv1.WriteResponse{BytesWritten: n, Position: after}, err
	})
}

// Writev implements FsService.
func (s *Service) Writev(ctx context.Context, req *ctxfsv1.WritevRequest) (*ctxfsv1.WritevResponse, error) {
	return onHandle(ctx, s, "write", writes, req, func(c *handleCall) (*ctxfsv1.WritevResponse, error) {
		if err := wantBuffers(len(req.GetBuffers())); err != nil {
			return nil, err
		}
		n, _, err := c.write(req.Position, req.GetBuffers()...)
		return &ctxfsv1.WritevResponse{BytesWritten: n}, err
	})
}
