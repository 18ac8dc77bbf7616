package fsservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// readStep and writeStep are how much is read or written before the call's context is checked again, in bytes.
const readStep, writeStep = 1 << 20, 1 << 20

// ReadFile implements FsService.
func (s *paths) ReadFile(ctx context.Context, req *ctxfsv1.ReadFileRequest) (*ctxfsv1.ReadFileResponse, error) {
	return inBudget(ctx, "readFile", func() (*ctxfsv1.ReadFileResponse, error) {
		if req.Fd != nil {
			return onHandle(ctx, s.opener, "read", reads, req, func(c *handleCall) (*ctxfsv1.ReadFileResponse, error) {
				return c.readRest(req)
			})
		}
		return onPath(ctx, s.opener, "open", useOf(ctxfsv1.FsService_ReadFile_FullMethodName, req), req, func(c *call) (*ctxfsv1.ReadFileResponse, error) {
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

func (s *paths) readFile(c *call, req *ctxfsv1.ReadFileRequest, enc encoding) ([]byte, error) {
	flags, err := flagsOf(req.GetFlagForm(), "r")
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

// readWhole reads f, whose attributes are st, while no writeFile writes it.
func (s *paths) readWhole(c *call, f rootfs.File, st rootfs.Stat, enc encoding) ([]byte, error) {
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

// readBounded reads r to its end, which should be size bytes away; more than a reply holds is EFBIG. A short read after size bytes is
// the end. readBounded reserves memory for what it reads and for its text in enc.
func readBounded(ctx context.Context, r io.Reader, size int64, enc encoding) ([]byte, error) {
	if size > maxReply {
		return nil, tooBig(size, "ReadStream")
	}
	if err := reserve(ctx, enc.memory(size)); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, max(size, 0)+1) // one more, so that a short read shows the end
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
		_, _ = c.handle.File.Seek(from, io.SeekStart) // the reply has nothing
		return nil, err
	}
	return readReply(c, data, enc)
}

// content is what a call writes to a file, and how.
type content struct {
	data  []byte
	flags openFlags
	mode  uint32
	flush bool
}

func newContent(req contentRequest, flagForm any, defaultFlag string, modeForm any, flush bool) (w content, err error) {
	var flagErr, modeErr error
	w.flush = flush
	w.data, err = contentOf(req)
	w.flags, flagErr = flagsOf(flagForm, defaultFlag)
	w.mode, modeErr = newMode(modeForm, 0o666)
	return w, errors.Join(err, flagErr, modeErr)
}

// WriteFile implements FsService.
func (s *paths) WriteFile(ctx context.Context, req *ctxfsv1.WriteFileRequest) (*ctxfsv1.WriteFileResponse, error) {
	if req.Fd != nil {
		return onHandle(ctx, s.opener, "write", writes, req, func(c *handleCall) (*ctxfsv1.WriteFileResponse, error) {
			if req.GetAtomic() {
				return nil, fserr.Invalid("atomic needs a path, not a handle")
			}
			n, err := c.writeContent(req, req.GetFlush())
			return &ctxfsv1.WriteFileResponse{BytesWritten: n}, err
		})
	}
	return onPath(ctx, s.opener, "open", writes, req, func(c *call) (*ctxfsv1.WriteFileResponse, error) {
		w, err := newContent(req, req.GetFlagForm(), "w", req.GetModeForm(), req.GetFlush())
		if err != nil {
			return nil, err
		}
		if err := c.access.Charge(int64(len(w.data)), 1); err != nil {
			return nil, err
		}
		if req.GetAtomic() {
			err = c.writeAtomic(w)
		} else {
			err = s.writeFile(c, w)
		}
		return &ctxfsv1.WriteFileResponse{BytesWritten: int64(len(w.data))}, err
	})
}

// AppendFile implements FsService.
func (s *paths) AppendFile(ctx context.Context, req *ctxfsv1.AppendFileRequest) (*ctxfsv1.AppendFileResponse, error) {
	if req.Fd != nil {
		return onHandle(ctx, s.opener, "write", writes, req, func(c *handleCall) (*ctxfsv1.AppendFileResponse, error) {
			n, err := c.writeContent(req, req.GetFlush())
			return &ctxfsv1.AppendFileResponse{BytesWritten: n}, err
		})
	}
	return onPath(ctx, s.opener, "open", writes, req, func(c *call) (*ctxfsv1.AppendFileResponse, error) {
		w, err := newContent(req, req.GetFlagForm(), "a", req.GetModeForm(), req.GetFlush())
		if err == nil {
			err = c.access.Charge(int64(len(w.data)), 1)
		}
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.AppendFileResponse{BytesWritten: int64(len(w.data))}, s.writeFile(c, w)
	})
}

// writeAtomic makes the content appear at c.path whole, in place of what is there.
func (c *call) writeAtomic(w content) error {
	if !w.flags.replaces() {
		return fserr.Invalid("atomic goes with flag \"w\" or \"wx\" only")
	}
	return c.create(w, w.flags.Flags&rootfs.O_EXCL != 0)
}

// create writes the content to a new file which appears at its end.
func (c *call) create(w content, exclusive bool) error {
	f, err := c.root.CreateAtomic(c.path, w.mode, exclusive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := writeAll(c, f.Write, w.data); err != nil {
		_ = f.Abort()
		return at(unwritten(err), "write", c.path)
	}
	return f.Commit(w.flush)
}

// unwritten removes the count of bytes from an error: they were in a file that was removed.
func unwritten(err error) error {
	var e *fserr.Error
	if !errors.As(err, &e) {
		return err
	}
	none := *e
	none.Written = 0
	return &none
}

// writeFile writes an existing file in place, as Node's writeFile does. A new file appears whole.
func (s *paths) writeFile(c *call, w content) error {
	flags := w.flags.Flags &^ (rootfs.O_CREAT | rootfs.O_EXCL | rootfs.O_TRUNC)
	if w.flags.Flags&rootfs.O_TRUNC != 0 {
		flags &^= rootfs.O_APPEND // the content replaces the file, which is cut behind it
	}
	creates := w.flags.Flags&rootfs.O_CREAT != 0
	exclusive := creates && w.flags.Flags&rootfs.O_EXCL != 0
	if exclusive {
		return c.create(w, true)
	}
	if creates && strings.HasSuffix(c.path, "/") {
		flags |= rootfs.O_CREAT // makes it EISDIR, whatever is there
	}
	f, st, err := c.openStat(flags, 0)
	if creates && fserr.CodeOf(err) == fserr.ENOENT {
		if err = c.create(w, true); fserr.CodeOf(err) != fserr.EEXIST {
			return err
		}
		// It was created meanwhile, or it is a link to a file that is missing.
		f, st, err = c.openStat(flags|rootfs.O_CREAT, w.mode)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return at(s.writeInPlace(c, f, st, w), "write", c.path)
}

// writeInPlace writes the content over the file and cuts it afterwards, so that a reader never finds it empty. No readFile reads it
// meanwhile.
func (s *paths) writeInPlace(c *call, f rootfs.File, st rootfs.Stat, w content) error {
	lock, err := s.locks.lock(c, c.id.Context, st, writes)
	if err != nil {
		return err
	}
	defer lock.unlock()
	if _, err := writeAll(c, f.Write, w.data); err != nil {
		return err
	}
	if w.flags.Flags&rootfs.O_TRUNC != 0 {
		if err := cut(f, int64(len(w.data))); err != nil {
			return err
		}
	}
	if w.flush {
		return f.Sync(false)
	}
	return nil
}

// cut shrinks f to size.
func cut(f rootfs.File, size int64) error {
	st, err := f.Stat()
	if err != nil || st.Size <= size {
		return err
	}
	return f.Truncate(size)
}

// writeAll writes data in steps until all is written or ctx ends. The error has the number of bytes written.
func writeAll(ctx context.Context, write func([]byte) (int, error), data []byte) (int64, error) {
	done := 0
	for done < len(data) {
		err := fserrpb.FromContext(ctx)
		if err == nil {
			var n int
			n, err = write(data[done:min(len(data), done+writeStep)])
			done += n
		}
		if err != nil {
			return int64(done), written(err, int64(done))
		}
	}
	return int64(done), nil
}

// written puts the number of bytes that reached a file into an error.
func written(err error, n int64) error {
	e := &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	var inner *fserr.Error
	if errors.As(err, &inner) {
		*e = *inner
	}
	e.Written = n
	return e
}

// Truncate implements FsService.
func (s *paths) Truncate(ctx context.Context, req *ctxfsv1.TruncateRequest) (*ctxfsv1.TruncateResponse, error) {
	return onPath(ctx, s.opener, "open", writes, req, func(c *call) (*ctxfsv1.TruncateResponse, error) {
		if err := wantLength(req.GetLen()); err != nil {
			return nil, at(err, "ftruncate", c.path)
		}
		f, err := c.root.OpenFile(c.path, rootfs.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		return &ctxfsv1.TruncateResponse{}, at(s.truncate(c, f, req.GetLen()), "ftruncate", c.path)
	})
}

// truncate sets f's size while no readFile or writeFile uses it.
func (s *paths) truncate(c *call, f rootfs.File, size int64) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	lock, err := s.locks.lock(c, c.id.Context, st, writes)
	if err != nil {
		return err
	}
	defer lock.unlock()
	return f.Truncate(size)
}

func wantLength(n int64) error {
	if n < 0 {
		return fserr.Invalid("a length of %d is negative", n)
	}
	return nil
}
