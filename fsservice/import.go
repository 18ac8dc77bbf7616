package fsservice

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice/archive"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Import implements FsService. The gate is open only while something is written, so that a slow client does not keep the context from
// being deleted or forked.
func (s *archives) Import(stream grpc.ClientStreamingServer[ctxfsv1.ImportRequest, ctxfsv1.ImportResponse]) error {
	in := &arriving{stream: stream}
	open, err := in.open()
	if err != nil {
		return fail(err, "import", "", "")
	}
	sum, err := s.importAll(stream.Context(), nil, open, in)
	if err != nil {
		return failAt(err, "import", open.GetPath()+string(open.GetRawPath()), "")
	}
	return stream.SendAndClose(&ctxfsv1.ImportResponse{Summary: sum})
}

// Extract implements FsService.
func (s *archives) Extract(ctx context.Context, req *ctxfsv1.ExtractRequest) (*ctxfsv1.ExtractResponse, error) {
	if _, err := pathOf(req.GetPath(), req.GetRawPath()); err != nil {
		return nil, fail(err, "import", "", "")
	}
	if err := readOnly(panels.IdentityFrom(ctx)); err != nil {
		return nil, fail(err, "import", "", "")
	}
	h, release, err := s.hold(ctx, writes, req)
	if err != nil {
		return nil, fail(err, "import", "", "")
	}
	defer release()
	var sum *ctxfsv1.ArchiveSummary
	st, err := h.File.Stat()
	if err == nil {
		err = isDirectory(st)
	}
	if err == nil {
		sum, err = s.importAll(ctx, &h.Generation, &ctxfsv1.ImportOpen{
			ContextId: string(h.Context), Path: req.GetPath(), RawPath: req.GetRawPath(), Format: req.GetFormat(), Overwrite: req.GetOverwrite(),
		}, &archiveFile{ctx, io.NewSectionReader(h.File, 0, st.Size)})
	}
	if err != nil {
		return nil, failAt(err, "import", req.GetPath()+string(req.GetRawPath()), "")
	}
	return &ctxfsv1.ExtractResponse{Summary: sum}, nil
}

// importAll imports the archive that in has. generation is that of the handle that has the archive, whose context may have been replaced; nil
// if it is in no handle.
func (s *archives) importAll(ctx context.Context, generation *uint64, open *ctxfsv1.ImportOpen, in io.Reader) (*ctxfsv1.ArchiveSummary, error) {
	if open.GetPath() == "" && len(open.GetRawPath()) == 0 {
		open.Path = "/"
	}
	path, err := pathOf(open.GetPath(), open.GetRawPath())
	if err != nil {
		return nil, err
	}
	reserve, done := keeping(ctx)
	defer done()
	x := &importer{archives: s, ctx: ctx, path: path, sum: &ctxfsv1.ArchiveSummary{}, reserve: reserve}
	x.draft, err = run(ctx, s.opener, open.GetContextId(), writes, &call{path: path, below: true}, func(c *call) (*tree.Draft, error) {
		x.context, x.generation = c.id.Context, c.generation
		if generation != nil && *generation != c.generation {
			return nil, contextReplaced(x.context)
		}
		return tree.NewDraft(c.root, c.path)
	})
	if err != nil {
		return nil, err
	}
	defer x.close()
	x.draft.Reserve = x.reserve
	buf := s.buffers.Get(contentPiece)
	defer s.buffers.Put(buf)
	x.buf = *buf
	r, err := x.reader(open.GetFormat(), in)
	if err == nil {
		err = x.extract(r)
	}
	if stream, ok := in.(*arriving); ok && err == nil {
		_, err = io.Copy(io.Discard, stream) // a program that writes the rest into a pipe must not fail
	}
	if err != nil {
		return nil, err
	}
	return x.sum, x.place(open.GetOverwrite())
}

// arriving is the archive as its messages arrive.
type arriving struct {
	stream grpc.ClientStreamingServer[ctxfsv1.ImportRequest, ctxfsv1.ImportResponse]
	rest   []byte
}

// open returns the first message.
func (a *arriving) open() (*ctxfsv1.ImportOpen, error) {
	msg, err := a.stream.Recv()
	if errors.Is(err, io.EOF) || err == nil && msg.GetOpen() == nil {
		return nil, fserr.Invalid("the first message of an Import must be open")
	}
	return msg.GetOpen(), err
}

func (a *arriving) Read(b []byte) (int, error) {
	for len(a.rest) == 0 {
		msg, err := a.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return 0, io.EOF
		case err != nil:
			return 0, ended(a.stream.Context(), err)
		case msg.GetOpen() != nil:
			return 0, fserr.Invalid("an Import has one open, its first message")
		}
		a.rest = msg.GetData()
	}
	n := copy(b, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// archiveFile is an archive in a file. Its reads fail when the call has ended: the file may have holes of any length.
type archiveFile struct {
	ctx     context.Context
	content *io.SectionReader
}

func (f *archiveFile) Read(b []byte) (int, error) {
	if err := fserrpb.FromContext(f.ctx); err != nil {
		return 0, err
	}
	return f.content.Read(b)
}

func (f *archiveFile) ReadAt(b []byte, off int64) (int, error) {
	if err := fserrpb.FromContext(f.ctx); err != nil {
		return 0, err
	}
	return f.content.ReadAt(b, off)
}

// importer extracts an archive into a draft, and moves that to its place.
type importer struct {
	*archives
	ctx        context.Context
	context    contexts.ID
	generation uint64
	path       string
	draft      *tree.Draft
	// spool is the whole archive, of a format that is not read as it arrives; nil for others.
	spool rootfs.File
	// reserve counts further memory for names.
	reserve func(bytes int64) error
	buf     []byte
	sum     *ctxfsv1.ArchiveSummary
}

// step runs f, which writes, behind the gate. f's context ends also when the context is about to be deleted.
func (x *importer) step(ctx context.Context, f func(ctx context.Context, a *contexts.Access) error) error {
	a, err := x.reacquire(ctx, x.context, x.generation, writes)
	if err != nil {
		return err
	}
	defer a.Release()
	a.Touch(x.path, true)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.Closing(), cancel)()
	x.draft.Admit = func(entries int64) error { return a.Charge(0, entries) }
	return f(ctx, a)
}

// close removes the draft, also when the caller is gone. That of a context which is being deleted goes with it.
func (x *importer) close() {
	if x.spool != nil {
		_ = x.spool.Close() // it is removed
	}
	removed := false
	err := x.step(context.WithoutCancel(x.ctx), func(ctx context.Context, _ *contexts.Access) error {
		removed = true
		return x.draft.Drop(ctx)
	})
	if !removed {
		x.draft.Leave()
	}
	if err != nil {
		x.log.Warn("what an import made could not be removed; it is removed when the context is opened after a restart",
			zap.String("context", string(x.context)), zap.Error(err))
	}
}

// reader returns a reader of the archive. A zip archive is complete before it is read, since its directory is at its end.
func (x *importer) reader(format ctxfsv1.ArchiveFormat, in io.Reader) (archive.Reader, error) {
	switch format {
	case ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_UNSPECIFIED, ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_TAR:
		return archive.NewTarReader(in), nil
	case ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_ZIP:
	default:
		return nil, errArchiveFormat
	}
	if whole, ok := in.(*archiveFile); ok {
		return archive.NewZipReader(whole, whole.content.Size(), x.reserve)
	}
	spool, size, err := x.write(in, x.draft.Spool, nil)
	if x.spool = spool; err != nil {
		return nil, err
	}
	return archive.NewZipReader(spool, size, x.reserve)
}

// write writes content to the file that create makes, a piece at a time. finish, which may be nil, is called after the last one. The caller
// closes the file, unless it is nil.
func (x *importer) write(content io.Reader, create func() (rootfs.File, error), finish func(rootfs.File) error) (f rootfs.File, size int64, err error) {
	for done := false; !done; {
		n, readErr := fill(x.buf, content)
		done = readErr == io.EOF //nolint:errorlint // an error that wraps it is another one
		if readErr != nil && !done {
			return f, size, readErr
		}
		err := x.step(x.ctx, func(_ context.Context, a *contexts.Access) (err error) {
			if f == nil {
				f, err = create()
			}
			if err == nil {
				err = a.Charge(int64(n), 0)
			}
			if err == nil {
				_, err = f.Write(x.buf[:n])
			}
			if err == nil && done && finish != nil {
				err = finish(f)
			}
			return err
		})
		if err != nil {
			return f, size, err
		}
		size += int64(n)
	}
	return f, size, nil
}

// extract makes all entries of the archive.
func (x *importer) extract(r archive.Reader) error {
	for {
		e, content, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = clash(x.entry(e, content), e)
		}
		if err != nil {
			return err
		}
	}
}

func (x *importer) entry(e archive.Entry, content io.Reader) error {
	switch e.Type {
	case archive.File:
		x.sum.Files++
		n, err := x.file(e, content)
		x.sum.Bytes += n
		return err
	case archive.HardLink:
		x.sum.Files++
	case archive.Symlink:
		x.sum.Symlinks++
	case archive.Directory:
		if e.Name != archive.Top {
			x.sum.Directories++
		}
	}
	return x.step(x.ctx, func(context.Context, *contexts.Access) error {
		switch e.Type {
		case archive.Symlink:
			return x.draft.Symlink(e.Name, e.Target, e.MtimeNs)
		case archive.HardLink:
			return x.draft.Link(e.Name, e.Target)
		}
		return x.draft.Dir(e.Name, tree.DirAttributes{Mode: e.Mode, MtimeNs: e.MtimeNs})
	})
}

func (x *importer) file(e archive.Entry, content io.Reader) (int64, error) {
	f, n, err := x.write(content,
		func() (rootfs.File, error) { return x.draft.File(e.Name, e.Mode) },
		func(f rootfs.File) error { return f.Utimes(e.MtimeNs, e.MtimeNs) })
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	return n, err
}

// clash says in the words of the archive why an entry could not be made.
func clash(err error, e archive.Entry) error {
	if err == nil {
		return nil
	}
	name := "'" + fserrpb.Printable(e.Name) + "'"
	switch code := fserr.CodeOf(err); {
	case code == fserr.EEXIST:
		return &fserr.Error{Code: fserr.EEXIST, Detail: fmt.Sprintf("the archive has the name %s twice", name), Err: err}
	case code == fserr.ENOTDIR, code == fserr.ELOOP:
		return &fserr.Error{Code: fserr.EACCES, Detail: fmt.Sprintf("%s in the archive is also a file or a link there, or is below one", name), Err: err}
	case e.Type == archive.HardLink && (code == fserr.ENOENT || code == fserr.EPERM):
		return fserr.Invalid("%s in the archive is a hard link to '%s', which is no file before it", name, fserrpb.Printable(e.Target))
	}
	return err
}

// place moves the draft to its place.
func (x *importer) place(overwrite bool) error {
	err := x.step(x.ctx, func(ctx context.Context, _ *contexts.Access) error { return x.draft.Place(ctx, overwrite) })
	if e, ok := errors.AsType[*fserr.Error](err); ok && e.Code == fserr.EEXIST && !overwrite {
		told := *e
		told.Hint = "nothing was changed; set overwrite to replace files"
		return &told
	}
	return err
}
