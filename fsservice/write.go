package fsservice

import (
	"context"
	"errors"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// writeStep is how much is written between two looks at the caller's patience.
const writeStep = 1 << 20

// content is what a call writes to a file, and how.
type content struct {
	data  []byte
	flags openFlags
	mode  uint32
	flush bool
}

// WriteFile implements FsService.
func (s *Service) WriteFile(ctx context.Context, req *ctxfsv1.WriteFileRequest) (*ctxfsv1.WriteFileResponse, error) {
	if req.Fd != nil {
		return onHandle(ctx, s, "write", writes, req, func(c *handleCall) (*ctxfsv1.WriteFileResponse, error) {
			if req.GetAtomic() {
				return nil, invalid("atomic needs a path, not a handle")
			}
			n, err := c.writeContent(req, req.GetFlush())
			return &ctxfsv1.WriteFileResponse{BytesWritten: n}, err
		})
	}
	return onPath(ctx, s, "open", writes, req, func(c *call) (*ctxfsv1.WriteFileResponse, error) {
		w, err := writeFileContent(req)
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

func writeFileContent(req *ctxfsv1.WriteFileRequest) (w content, err error) {
	var flag *string
	var flagNumber *int32
	switch f := req.GetFlagForm().(type) {
	case *ctxfsv1.WriteFileRequest_Flag:
		flag = &f.Flag
	case *ctxfsv1.WriteFileRequest_FlagNumber:
		flagNumber = &f.FlagNumber
	}
	var mode *uint32
	var octal *string
	switch f := req.GetModeForm().(type) {
	case *ctxfsv1.WriteFileRequest_Mode:
		mode = &f.Mode
	case *ctxfsv1.WriteFileRequest_ModeOctal:
		octal = &f.ModeOctal
	}
	w.flush = req.GetFlush()
	return w.fill(req, flag, flagNumber, "w", mode, octal)
}

// fill reads what all writing requests have in common.
func (w content) fill(req contentRequest, flag *string, flagNumber *int32, def string, mode *uint32, octal *string) (content, error) {
	var err, flagErr, modeErr error
	w.data, err = contentOf(req)
	w.flags, flagErr = flagsOf(flag, flagNumber, def)
	w.mode, modeErr = newMode(mode, octal, 0o666)
	return w, errors.Join(err, flagErr, modeErr)
}

// AppendFile implements FsService.
func (s *Service) AppendFile(ctx context.Context, req *ctxfsv1.AppendFileRequest) (*ctxfsv1.AppendFileResponse, error) {
	if req.Fd != nil {
		return onHandle(ctx, s, "write", writes, req, func(c *handleCall) (*ctxfsv1.AppendFileResponse, error) {
			n, err := c.writeContent(req, req.GetFlush())
			return &ctxfsv1.AppendFileResponse{BytesWritten: n}, err
		})
	}
	return onPath(ctx, s, "open", writes, req, func(c *call) (*ctxfsv1.AppendFileResponse, error) {
		w, err := appendFileContent(req)
		if err == nil {
			err = c.access.Charge(int64(len(w.data)), 1)
		}
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.AppendFileResponse{BytesWritten: int64(len(w.data))}, s.writeFile(c, w)
	})
}

func appendFileContent(req *ctxfsv1.AppendFileRequest) (w content, err error) {
	var flag *string
	var flagNumber *int32
	switch f := req.GetFlagForm().(type) {
	case *ctxfsv1.AppendFileRequest_Flag:
		flag = &f.Flag
	case *ctxfsv1.AppendFileRequest_FlagNumber:
		flagNumber = &f.FlagNumber
	}
	var mode *uint32
	var octal *string
	switch f := req.GetModeForm().(type) {
	case *ctxfsv1.AppendFileRequest_Mode:
		mode = &f.Mode
	case *ctxfsv1.AppendFileRequest_ModeOctal:
		octal = &f.ModeOctal
	}
	w.flush = req.GetFlush()
	return w.fill(req, flag, flagNumber, "a", mode, octal)
}

// writeAtomic makes the content appear at c.path whole, in place of what is there.
func (c *call) writeAtomic(w content) error {
	if !w.flags.replaces() {
		return invalid("atomic goes with flag \"w\" or \"wx\" only")
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

// unwritten drops the count of an error: a file that was thrown away holds nothing.
func unwritten(err error) error {
	var e *fserr.Error
	if !errors.As(err, &e) {
		return err
	}
	none := *e
	none.Written = 0
	return &none
}

// writeFile writes as Node's writeFile does: an existing file in place; but a new
// one appears whole.
func (s *Service) writeFile(c *call, w content) error {
	flags := w.flags.Flags &^ (rootfs.O_CREAT | rootfs.O_EXCL | rootfs.O_TRUNC)
	if w.flags.Flags&rootfs.O_TRUNC != 0 {
		flags &^= rootfs.O_APPEND // to nothing: the content begins the file, which is cut behind it
	}
	creates := w.flags.Flags&rootfs.O_CREAT != 0
	exclusive := creates && w.flags.Flags&rootfs.O_EXCL != 0
	if exclusive {
		return c.create(w, true)
	}
	if creates && strings.HasSuffix(c.path, "/") {
		flags |= rootfs.O_CREAT // which is EISDIR then, whatever stands there
	}
	f, st, err := c.openStat(flags, 0)
	if creates && fserr.CodeOf(err) == fserr.ENOENT {
		if err = c.create(w, true); fserr.CodeOf(err) != fserr.EEXIST {
			return err
		}
		// It came into being meanwhile, or it is a link to a file that is missing.
		f, st, err = c.openStat(flags|rootfs.O_CREAT, w.mode)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return at(s.writeInPlace(c, f, st, w), "write", c.path)
}

// writeInPlace writes the content over the file, which is cut afterwards, so that
// a reader never finds it empty, and nobody reads it as a whole meanwhile.
func (s *Service) writeInPlace(c *call, f rootfs.File, st rootfs.Stat, w content) error {
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

// writeAll gives data to write in steps until all is written or ctx ends. The error tells what was.
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
func (s *Service) Truncate(ctx context.Context, req *ctxfsv1.TruncateRequest) (*ctxfsv1.TruncateResponse, error) {
	return onPath(ctx, s, "open", writes, req, func(c *call) (*ctxfsv1.TruncateResponse, error) {
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

// truncate sets f's size while nobody reads or writes it as a whole.
func (s *Service) truncate(c *call, f rootfs.File, size int64) error {
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
		return invalid("a length of %d is negative", n)
	}
	return nil
}
