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
				if req.GetLines() != nil {
					return nil, fserr.Invalid("lines need a path, not a handle")
				}
				return c.readRest(req)
			})
		}
		return onPath(ctx, s.opener, "open", useOf(ctxfsv1.FsService_ReadFile_FullMethodName, req), req, func(c *call) (*ctxfsv1.ReadFileResponse, error) {
			enc, err := encodingOf(req.GetEncoding())
			if err != nil {
				return nil, err
			}
			lines, err := linesOf(req, enc)
			if err != nil {
				return nil, at(err, "readFile", c.path)
			}
			read, err := c.readFile(req, enc, lines)
			if err != nil {
				return nil, err
			}
			resp, err := readReply(c, read.data, enc)
			if err != nil {
				return nil, at(err, "readFile", c.path)
			}
			resp.Etag, resp.TotalLines = read.etag, read.lines
			return resp, nil
		})
	})
}

// fileRead is what a readFile has read. lines is how many lines the file has, nil if they were not counted.
type fileRead struct {
	data  []byte
	etag  string
	lines *int64
}

// readFile reads the call's file, or only lines unless that is nil.
func (c *call) readFile(req *ctxfsv1.ReadFileRequest, enc encoding, lines *lineScan) (fileRead, error) {
	flags, err := flagsOf(req.GetFlagForm(), "r")
	if err != nil {
		return fileRead{}, err
	}
	if err := c.chargeCreate(flags); err != nil {
		return fileRead{}, err
	}
	f, st, err := c.openStat(flags.Flags, 0o666&^umask)
	if err != nil {
		return fileRead{}, err
	}
	defer func() { _ = f.Close() }()
	read, err := c.readWhole(f, st, enc, lines)
	if fserr.CodeOf(err) == fserr.EFBIG {
		return read, at(err, "readFile", c.path)
	}
	return read, at(err, "read", c.path)
}

// readWhole reads f, whose attributes are st, while no writeFile writes it. The etag is never newer than the content.
func (c *call) readWhole(f rootfs.File, st rootfs.Stat, enc encoding, lines *lineScan) (read fileRead, err error) {
	if err := isDirectory(st); err != nil {
		return read, err
	}
	lock, err := c.locks.lock(c, c.id.Context, st, reads)
	if err != nil {
		return read, err
	}
	defer lock.unlock()
	if lock.waited {
		if st, err = f.Stat(); err != nil {
			return read, err
		}
	}
	read.etag = etagOf(c.generation, st)
	if lines == nil {
		read.data, err = readBounded(c, f, st.Size, enc)
		return read, err
	}
	read.lines, err = lines.read(c, f, enc)
	read.data = lines.kept
	return read, err
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
	want  condition
}

// conditionalContent is a request that writes content and may have a condition.
type conditionalContent interface {
	contentRequest
	GetFlush() bool
	GetIfMatch() string
	GetIfNoneMatch() string
}

func newContent(req conditionalContent, flagForm any, defaultFlag string, modeForm any) (w content, err error) {
	var flagErr, modeErr, wantErr error
	w.flush = req.GetFlush()
	w.data, err = contentOf(req)
	w.flags, flagErr = flagsOf(flagForm, defaultFlag)
	w.mode, modeErr = newMode(modeForm, 0o666)
	w.want, wantErr = conditionOf(req.GetIfMatch(), req.GetIfNoneMatch())
	return w, errors.Join(err, flagErr, modeErr, wantErr, w.flags.allows(w.want))
}

// pathConditions refuses the conditions of a request that names a handle.
func pathConditions(req interface {
	GetIfMatch() string
	GetIfNoneMatch() string
}) error {
	if req.GetIfMatch() != "" || req.GetIfNoneMatch() != "" {
		return fserr.Invalid("if_match and if_none_match need a path, not a handle")
	}
	return nil
}

// WriteFile implements FsService.
func (s *paths) WriteFile(ctx context.Context, req *ctxfsv1.WriteFileRequest) (*ctxfsv1.WriteFileResponse, error) {
	if req.Fd != nil {
		return onHandle(ctx, s.opener, "write", writes, req, func(c *handleCall) (*ctxfsv1.WriteFileResponse, error) {
			if req.GetAtomic() {
				return nil, fserr.Invalid("atomic needs a path, not a handle")
			}
			if err := pathConditions(req); err != nil {
				return nil, err
			}
			n, err := c.writeContent(req, req.GetFlush())
			return &ctxfsv1.WriteFileResponse{BytesWritten: n}, err
		})
	}
	return onPath(ctx, s.opener, "open", writes, req, func(c *call) (*ctxfsv1.WriteFileResponse, error) {
		w, err := newContent(req, req.GetFlagForm(), "w", req.GetModeForm())
		if err != nil {
			return nil, err
		}
		if err := c.access.Charge(int64(len(w.data)), 1); err != nil {
			return nil, err
		}
		write := c.writeFile
		if req.GetAtomic() {
			write = c.writeAtomic
		}
		tag, err := write(w)
		return &ctxfsv1.WriteFileResponse{BytesWritten: int64(len(w.data)), Etag: tag}, err
	})
}

// AppendFile implements FsService.
func (s *paths) AppendFile(ctx context.Context, req *ctxfsv1.AppendFileRequest) (*ctxfsv1.AppendFileResponse, error) {
	if req.Fd != nil {
		return onHandle(ctx, s.opener, "write", writes, req, func(c *handleCall) (*ctxfsv1.AppendFileResponse, error) {
			if err := pathConditions(req); err != nil {
				return nil, err
			}
			n, err := c.writeContent(req, req.GetFlush())
			return &ctxfsv1.AppendFileResponse{BytesWritten: n}, err
		})
	}
	return onPath(ctx, s.opener, "open", writes, req, func(c *call) (*ctxfsv1.AppendFileResponse, error) {
		w, err := newContent(req, req.GetFlagForm(), "a", req.GetModeForm())
		if err == nil {
			err = c.access.Charge(int64(len(w.data)), 1)
		}
		if err != nil {
			return nil, err
		}
		tag, err := c.writeFile(w)
		return &ctxfsv1.AppendFileResponse{BytesWritten: int64(len(w.data)), Etag: tag}, err
	})
}

// writeAtomic makes the content appear at c.path whole, in place of what is there. It is on the disk then: otherwise a power failure could leave
// the new name without its content.
func (c *call) writeAtomic(w content) (etag string, err error) {
	if !w.flags.replaces() {
		return "", fserr.Invalid("atomic goes with flag \"w\" or \"wx\" only")
	}
	w.flush = true
	return c.create(w, w.flags.Flags&rootfs.O_EXCL != 0)
}

// create writes the content to a new file which appears at its end.
func (c *call) create(w content, exclusive bool) (etag string, err error) {
	f, err := c.createAtomic(w.mode, exclusive, w.want)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if _, err := writeAll(c, f.Write, w.data); err != nil {
		_ = f.Abort()
		return "", at(unwritten(err), "write", c.path)
	}
	return c.appear(f, w.want, w.flush)
}

// createAtomic begins a file that appear puts at the call's path. A condition is checked now, so that a request that cannot succeed fails
// early, and again by appear.
func (c *call) createAtomic(mode uint32, exclusive bool, want condition) (rootfs.AtomicFile, error) {
	if err := c.verifyNow(want); err != nil {
		return nil, err
	}
	f, err := c.root.CreateAtomic(c.path, mode, exclusive || want.none)
	return f, c.taken(want, err)
}

// appear makes an atomic file appear at the call's path, if the condition holds, and returns its etag.
func (c *call) appear(f rootfs.AtomicFile, want condition, flush bool) (etag string, err error) {
	unlock, err := c.guard(target{path: f.Base()}, target{path: c.path, follow: true, want: want})
	if err != nil {
		_ = f.Abort()
		return "", err
	}
	defer unlock()
	var old rootfs.Stat
	if want.match != "" {
		if old, err = c.root.Stat(c.path); err != nil {
			return "", err
		}
	}
	etag, err = c.put(f, old, flush)
	return etag, c.taken(want, err)
}

// put makes an atomic file appear in place of old, whose name is locked, and returns its etag. If another call has written the file by
// then, the etag is one that the file does not have any more.
func (c *call) put(f rootfs.AtomicFile, old rootfs.Stat, flush bool) (etag string, err error) {
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if old.Ino != 0 {
		st = advance(f, old, st)
	}
	if err := f.Commit(flush); err != nil {
		return "", err
	}
	now := f.Appeared()
	if now.MtimeNs != st.MtimeNs || now.Size != st.Size {
		now = st
	}
	return etagOf(c.generation, now), nil
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

// maxReopens bounds how often a write in place begins again because the file was replaced.
const maxReopens = 100

// errReplaced ends a write in place to a file that was replaced or removed before it was locked.
var errReplaced = errors.New("the file was replaced")

// writeFile writes an existing file in place, as Node's writeFile does. A new file appears whole.
func (c *call) writeFile(w content) (etag string, err error) {
	creates := w.flags.Flags&rootfs.O_CREAT != 0 && w.want.match == ""
	if creates && (w.flags.Flags&rootfs.O_EXCL != 0 || w.want.none) {
		return c.create(w, true)
	}
	err = reopening(func() error {
		etag, err = c.tryWriteFile(w, creates)
		return err
	})
	return etag, err
}

// reopening calls try, which opens a file and changes it in place, until it does not fail with errReplaced.
func reopening(try func() error) error {
	err := errReplaced
	for n := 0; n < maxReopens && errors.Is(err, errReplaced); n++ {
		err = try()
	}
	if errors.Is(err, errReplaced) {
		return &fserr.Error{Code: fserr.EBUSY, Detail: "the file was replaced again and again", Hint: "retry when its other writers are done", Err: err}
	}
	return err
}

// tryWriteFile fails with errReplaced if the file is replaced while it is opened.
func (c *call) tryWriteFile(w content, creates bool) (etag string, err error) {
	flags := w.flags.Flags &^ (rootfs.O_CREAT | rootfs.O_EXCL | rootfs.O_TRUNC)
	if w.flags.Flags&rootfs.O_TRUNC != 0 {
		flags &^= rootfs.O_APPEND // the content replaces the file, which is cut behind it
	}
	if creates && strings.HasSuffix(c.path, "/") {
		flags |= rootfs.O_CREAT // makes it EISDIR, whatever is there
	}
	f, st, err := c.openStat(flags, 0)
	if creates && fserr.CodeOf(err) == fserr.ENOENT {
		if etag, err = c.create(w, true); fserr.CodeOf(err) != fserr.EEXIST {
			return etag, err
		}
		// It was created meanwhile, or it is a link to a file that is missing.
		f, st, err = c.openStat(flags|rootfs.O_CREAT, w.mode)
	}
	if err != nil {
		return "", w.want.missing(c.generation, err)
	}
	defer func() { _ = f.Close() }()
	etag, err = c.changeInPlace(f, st, w.want, func() (rootfs.Stat, error) { return c.writeInPlace(f, w) })
	return etag, at(err, "write", c.path)
}

// changeInPlace runs change, which changes the content of f, if the condition holds. No call of the service reads or writes f's content
// meanwhile. opened has the attributes of f when it was opened. change returns those that f has then. changeInPlace fails with
// errReplaced, before it changes anything, if the path does not lead to f any more.
func (c *call) changeInPlace(f rootfs.File, opened rootfs.Stat, want condition, change func() (rootfs.Stat, error)) (etag string, err error) {
	lock, err := c.locks.lock(c, c.id.Context, opened, writes)
	if err != nil {
		return "", err
	}
	defer lock.unlock()
	before, err := c.stillThere(c.path, f, opened, want)
	if err != nil {
		return "", err
	}
	st, err := change()
	if err != nil {
		return "", err
	}
	return etagOf(c.generation, advance(f, before, st)), nil
}

// stillThere returns the attributes of f, which was opened by the path, and is locked since. It fails with errReplaced if the path does
// not lead to f any more, and with a KindCondition error if the condition does not hold. Without a condition, a file with as many names as
// when it was opened is taken to be there, which saves a system call.
func (c *call) stillThere(path string, f rootfs.File, opened rootfs.Stat, want condition) (rootfs.Stat, error) {
	now, err := f.Stat()
	if err != nil || want.empty() && now.Nlink == opened.Nlink && now.Nlink > 0 {
		return now, err
	}
	if err := want.check(c.generation, now, nil); err != nil {
		return now, err
	}
	st, err := c.root.Stat(path)
	if err != nil || st.ID() != now.ID() {
		return now, errReplaced
	}
	return now, nil
}

// writeInPlace writes the content over the file and cuts it afterwards, so that a reader never finds it empty.
func (c *call) writeInPlace(f rootfs.File, w content) (st rootfs.Stat, err error) {
	if _, err := writeAll(c, f.Write, w.data); err != nil {
		return st, err
	}
	if w.flags.Flags&rootfs.O_TRUNC != 0 {
		st, err = cut(f, int64(len(w.data)))
	} else {
		st, err = f.Stat()
	}
	if err == nil && w.flush {
		err = f.Sync(false)
	}
	return st, err
}

// cut shrinks f to size, and returns its attributes.
func cut(f rootfs.File, size int64) (rootfs.Stat, error) {
	st, err := f.Stat()
	if err != nil || st.Size <= size {
		return st, err
	}
	if err := f.Truncate(size); err != nil {
		return st, err
	}
	return f.Stat()
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
		tag, err := c.truncate(req)
		return &ctxfsv1.TruncateResponse{Etag: tag}, err
	})
}

// truncate sets the size of the call's file while no readFile or writeFile uses it.
func (c *call) truncate(req *ctxfsv1.TruncateRequest) (etag string, err error) {
	want := condition{match: req.GetIfMatch()}
	err = reopening(func() error {
		etag, err = c.tryTruncate(req.GetLen(), want)
		return err
	})
	return etag, err
}

func (c *call) tryTruncate(size int64, want condition) (etag string, err error) {
	f, st, err := c.openStat(rootfs.O_RDWR, 0)
	if err != nil {
		return "", want.missing(c.generation, err)
	}
	defer func() { _ = f.Close() }()
	etag, err = c.truncateInPlace(f, st, size, want)
	return etag, at(err, "ftruncate", c.path)
}

func (c *call) truncateInPlace(f rootfs.File, opened rootfs.Stat, size int64, want condition) (etag string, err error) {
	return c.changeInPlace(f, opened, want, func() (rootfs.Stat, error) {
		if err := f.Truncate(size); err != nil {
			return rootfs.Stat{}, err
		}
		return f.Stat()
	})
}

func wantLength(n int64) error {
	if n < 0 {
		return fserr.Invalid("a length of %d is negative", n)
	}
	return nil
}
