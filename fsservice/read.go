package fsservice

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// readStep is how much is read between two looks at the caller's patience.
const readStep = 1 << 20

// ReadFile implements FsService.
func (s *Service) ReadFile(ctx context.Context, req *ctxfsv1.ReadFileRequest) (*ctxfsv1.ReadFileResponse, error) {
	return inBudget(ctx, "readFile", func() (*ctxfsv1.ReadFileResponse, error) {
		if req.Fd != nil {
			return onHandle(ctx, s, "read", reads, req, func(c *handleCall) (*ctxfsv1.ReadFileResponse, error) {
				return c.readRest(req)
			})
		}
		return onPath(ctx, s, "open", useOf(ctxfsv1.FsService_ReadFile_FullMethodName, req), req, func(c *call) (*ctxfsv1.ReadFileResponse, error) {
			enc, err := encodingOf(req.GetEncoding())
			if err != nil {
				return nil, err
			}
			data, err := s.readFile(c, req, enc)
			if err != nil {
				return nil, err
			}
			resp, err := readReply(c, data, enc)
			return resp, at(err, "readFile", c.path)
		})
	})
}

func readFileFlags(req *ctxfsv1.ReadFileRequest) (openFlags, error) {
	switch f := req.GetFlagForm().(type) {
	case *ctxfsv1.ReadFileRequest_Flag:
		return flagsOf(&f.Flag, nil, "r")
	case *ctxfsv1.ReadFileRequest_FlagNumber:
		return flagsOf(nil, &f.FlagNumber, "r")
	}
	return flagsOf(nil, nil, "r")
}

func (s *Service) readFile(c *call, req *ctxfsv1.ReadFileRequest, enc encoding) ([]byte, error) {
	flags, err := readFileFlags(req)
	if err != nil {
		return nil, err
	}
	if err := c.chargeCreate(flags); err != nil {
		return nil, err
	}
	f, st, err := c.openStat(flags.Flags, 0o666&^umask)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return s.readWhole(c, f, st, enc)
}

// readWhole reads f, just opened and found to be as st says, while nobody writes it as a whole.
func (s *Service) readWhole(c *call, f rootfs.File, st rootfs.Stat, enc encoding) ([]byte, error) {
	if err := isDirectory(st); err != nil {
		return nil, at(err, "read", c.path)
	}
	lock, err := s.locks.lock(c, c.id.Context, st, reads)
	if err != nil {
		return nil, at(err, "read", c.path)
	}
	defer lock.unlock()
	data, err := readBounded(c, f, st.Size, enc)
	if fserr.CodeOf(err) == fserr.EFBIG {
		return nil, at(err, "readFile", c.path)
	}
	return data, at(err, "read", c.path)
}

// readBounded reads r, which should hold size bytes more, to its end; more than a reply holds is EFBIG.
// When there are just as many, and no more came though more were asked for, that is the end. What it reads, and its text in enc,
// is reserved.
func readBounded(ctx context.Context, r io.Reader, size int64, enc encoding) ([]byte, error) {
	if size > maxReply {
		return nil, tooBig(size, "ReadStream")
	}
	if err := reserve(ctx, enc.memory(size)); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, max(size, 0)+1) // one more, to see the end at once
	for {
		if err := fserrpb.FromContext(ctx); err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			if err := reserve(ctx, enc.memory(maxReply)); err != nil { // the file has grown
				return nil, err
			}
			buf = append(buf, 0)[:len(buf)]
		}
		room := buf[len(buf):min(cap(buf), len(buf)+readStep)]
		n, err := r.Read(room)
		buf = buf[:len(buf)+n]
		switch {
		case err == nil && int64(len(buf)) == size && n < len(room):
			return buf, nil
		case len(buf) > maxReply:
			return nil, tooBig(int64(len(buf)), "ReadStream")
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, err
		}
	}
}

// tooBig refuses a unary reply of size bytes and names the streaming RPC.
func tooBig(size int64, rpc string) error {
	return &fserr.Error{
		Code: fserr.EFBIG, Detail: fmt.Sprintf("reply of %.1f MiB exceeds 3.5 MiB", float64(size)/(1<<20)),
		Hint: "use FsService/" + rpc,
	}
}

func readReply(ctx context.Context, data []byte, enc encoding) (*ctxfsv1.ReadFileResponse, error) {
	if enc == "" {
		return &ctxfsv1.ReadFileResponse{Content: &ctxfsv1.ReadFileResponse_Data{Data: data}}, nil
	}
	text, lossy := enc.decode(data)
	if len(text) > maxReply {
		return nil, tooBig(int64(len(text)), "ReadStream")
	}
	budget.Of(ctx).Keep(int64(len(text)))
	return &ctxfsv1.ReadFileResponse{Lossy: lossy, Content: &ctxfsv1.ReadFileResponse_Text{Text: text}}, nil
}

// readRest reads from the handle's position to the end.
func (c *handleCall) readRest(req *ctxfsv1.ReadFileRequest) (*ctxfsv1.ReadFileResponse, error) {
	enc, err := encodingOf(req.GetEncoding())
	if err != nil {
		return nil, err
	}
	c.handle.Position.Lock()
	defer c.handle.Position.Unlock()
	st, err := c.handle.File.Stat()
	if err == nil {
		err = isDirectory(st)
	}
	if err != nil {
		return nil, err
	}
	from, err := c.handle.File.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	data, err := readBounded(c, c.handle.File, st.Size-from, enc)
	if err != nil {
		_, _ = c.handle.File.Seek(from, io.SeekStart) // nothing was delivered
		return nil, err
	}
	return readReply(c, data, enc)
}
