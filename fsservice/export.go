package fsservice

import (
	"context"
	"errors"
	"io"
	pathpkg "path"
	"slices"
	"strings"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice/archive"
	"github.com/ctxfs/ctxfs/fsservice/search"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// archives has the RPCs that send and receive archives.
type archives struct {
	*opener
	buffers mem.BufferPool
	log     *zap.Logger
}

// keeping returns a function that counts further memory for names that a call keeps to its end, and a function that gives it back.
func keeping(ctx context.Context) (reserve func(bytes int64) error, done func()) {
	names, done := budget.Names(ctx)
	var kept int64
	return func(bytes int64) error {
		kept += bytes
		return names(kept)
	}, done
}

// maxLeftOut bounds the names of a summary.
const maxLeftOut = 1000

// Export implements FsService.
func (s *archives) Export(req *ctxfsv1.ExportRequest, stream grpc.ServerStreamingServer[ctxfsv1.ExportResponse]) error {
	if req.GetPath() == "" && len(req.GetRawPath()) == 0 {
		req.Path = "/"
	}
	return streamPath(s.opener, "export", req, stream, func(c *call, send func(*ctxfsv1.ExportResponse) error) error {
		held := budget.Of(stream.Context()).More()
		defer held.Release()
		// One message is being filled, one waits and one is being sent. Like ReadStream, an export never waits for memory.
		out := &messages{send: send, size: defaultChunk}
		if !held.Try(3 * defaultChunk) {
			out.size = leastChunk
		}
		reserve, done := keeping(c)
		defer done()
		e, err := newExport(c, req, out, reserve)
		if err == nil {
			err = e.run()
		}
		if err != nil {
			return err
		}
		return send(&ctxfsv1.ExportResponse{Event: &ctxfsv1.ExportResponse_Summary{Summary: e.sum}})
	})
}

// messages sends what is written to it.
type messages struct {
	send func(*ctxfsv1.ExportResponse) error
	size int
	buf  []byte
}

func (m *messages) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if m.buf == nil {
			m.buf = make([]byte, 0, m.size) // the message before may be on its way
		}
		part := b[n:min(len(b), n+m.size-len(m.buf))]
		m.buf = append(m.buf, part...)
		n += len(part)
		if len(m.buf) < m.size {
			continue
		}
		if err := m.flush(); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (m *messages) flush() error {
	if len(m.buf) == 0 {
		return nil
	}
	data := m.buf
	m.buf = nil
	return m.send(&ctxfsv1.ExportResponse{Event: &ctxfsv1.ExportResponse_Chunk{Chunk: data}})
}

// export writes a directory, or a file, into an archive.
type export struct {
	*call
	base     string
	excluded func(rel string) bool
	git      bool
	out      *messages
	archive  archive.Writer
	// links has the first names of files with several. reserve counts their memory.
	links   map[inode]string
	reserve func(bytes int64) error
	sum     *ctxfsv1.ArchiveSummary
}

// inode identifies a file.
type inode struct{ dev, ino uint64 }

func newExport(c *call, req *ctxfsv1.ExportRequest, out *messages, reserve func(bytes int64) error) (*export, error) {
	base, err := c.root.Realpath(c.path)
	if err != nil {
		return nil, err
	}
	e := &export{call: c, base: base, out: out, links: map[inode]string{}, reserve: reserve, git: req.GetGit(), sum: &ctxfsv1.ArchiveSummary{}}
	if !e.git && slices.ContainsFunc(strings.Split(base, "/"), git.IsDotGit) {
		return nil, &fserr.Error{Code: fserr.EACCES, Detail: "the data of a git repository is left out of archives", Hint: "set git"}
	}
	if e.excluded, err = search.Excluding(base, req.GetExclude()); err != nil {
		return nil, err
	}
	switch req.GetFormat() {
	case ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_UNSPECIFIED, ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_TAR:
		e.archive = archive.NewTarWriter(out)
	case ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_ZIP:
		e.archive = archive.NewZipWriter(out, reserve)
	default:
		return nil, errArchiveFormat
	}
	return e, nil
}

var errArchiveFormat = &fserr.Error{Code: fserr.EINVAL, Detail: "unknown format of archives", Hint: "the formats are ARCHIVE_FORMAT_TAR and ARCHIVE_FORMAT_ZIP"}

func (e *export) run() error {
	st, err := e.root.Lstat(e.base)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		err = e.tree(st)
	default:
		err = e.leaf(e.base, pathpkg.Base(e.base), st)
	}
	if err == nil {
		err = e.archive.Close()
	}
	if err != nil {
		return err
	}
	return e.out.flush()
}

// tree adds the directory and all below it.
func (e *export) tree(st rootfs.Stat) error {
	if err := e.archive.Add(entryOf(archive.Top, archive.Directory, st), nil); err != nil {
		return err
	}
	reserve, done := budget.Names(e)
	defer done()
	return e.root.Walk(e, e.base, tree.WalkOptions{Stats: true, Sorted: true, Reserve: reserve}, func(rel string, entry rootfs.Entry, err error) error {
		switch {
		case e.excluded(rel):
			return tree.SkipDir
		case !e.git && git.IsDotGit(pathpkg.Base(rel)):
			e.leaveOut(rel)
			return tree.SkipDir
		case err != nil:
			return e.unlessUnreadable(rel, err)
		case entry.Stat == nil: // it vanished
			return nil
		case entry.Stat.IsDir():
			e.sum.Directories++
			return e.archive.Add(entryOf(rel, archive.Directory, *entry.Stat), nil)
		}
		return e.leaf(under(e.base, rel), rel, *entry.Stat)
	})
}

func entryOf(name string, t archive.Type, st rootfs.Stat) archive.Entry {
	return archive.Entry{Name: name, Type: t, Mode: st.Perm() &^ 0o6000, MtimeNs: st.MtimeNs, Size: st.Size}
}

// leaf adds what is no directory.
func (e *export) leaf(path, name string, st rootfs.Stat) error {
	switch st.Type() {
	case rootfs.TypeSymlink:
		target, err := e.root.Readlink(path)
		if err != nil {
			return e.unlessUnreadable(name, err)
		}
		link := entryOf(name, archive.Symlink, st)
		link.Target = target
		e.sum.Symlinks++
		return e.archive.Add(link, nil)
	case rootfs.TypeFile:
		return e.file(path, name)
	}
	e.leaveOut(name)
	return nil
}

// file adds a file, or a further name of one that was added.
func (e *export) file(path, name string) error {
	f, st, err := e.root.OpenNoFollow(path, rootfs.O_RDONLY)
	if err == nil {
		defer func() { _ = f.Close() }()
		err = isDirectory(st)
	}
	if err != nil {
		return e.unlessUnreadable(name, err)
	}
	entry := entryOf(name, archive.File, st)
	e.sum.Files++
	if st.Nlink > 1 && e.archive.Links() {
		id := inode{st.Dev, st.Ino}
		if entry.Target = e.links[id]; entry.Target != "" {
			entry.Type = archive.HardLink
			return e.archive.Add(entry, nil)
		}
		const each = 256
		if err := e.reserve(int64(len(name)) + each); err != nil {
			return err
		}
		e.links[id] = name
	}
	e.sum.Bytes += st.Size
	return e.archive.Add(entry, &exactly{e.Context, f, name, st.Size, st.Size})
}

// unlessUnreadable returns err unless a name is gone, or cannot be read, which the summary says.
func (e *export) unlessUnreadable(name string, err error) error {
	switch fserr.CodeOf(err) {
	case fserr.ENOENT:
		return nil
	case fserr.EACCES, fserr.EPERM, fserr.ENAMETOOLONG, fserr.EOPNOTSUPP, fserr.ELOOP, fserr.ENOTDIR, fserr.EISDIR:
		e.leaveOut(name)
		return nil
	}
	return err
}

func (e *export) leaveOut(name string) {
	if e.sum.LeftOut++; e.sum.GetLeftOut() <= maxLeftOut {
		e.sum.LeftOutNames = append(e.sum.LeftOutNames, fserrpb.Printable(name))
	}
}

// exactly reads as many bytes of a file as its entry says.
type exactly struct {
	ctx        context.Context
	f          io.Reader
	name       string
	size, left int64
}

func (x *exactly) Read(b []byte) (int, error) {
	if x.left == 0 {
		return 0, io.EOF
	}
	if err := fserrpb.FromContext(x.ctx); err != nil {
		return 0, err
	}
	n, err := x.f.Read(b[:min(int64(len(b)), x.left)])
	x.left -= int64(n)
	if errors.Is(err, io.EOF) && x.left > 0 {
		return n, at(&fserr.Error{
			Code: fserr.EBUSY, Detail: "the file became shorter while it was exported", Hint: "export a fork of the context, which nothing changes",
		}, "read", "/"+x.name)
	}
	return n, err
}
