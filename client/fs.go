package client

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"google.golang.org/grpc/mem"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// FS is a context's folder. The methods of io/fs (Open, ReadFile, ReadDir, ReadLink, Sub,
// Glob) take names as io/fs requires: clean, and without a leading slash. All others take any
// virtual path, like package os, and resolve it as POSIX does. Names may contain
// any bytes except NUL and slash. An FS is safe for concurrent use.
type FS struct {
	ctx  context.Context
	rpc  *fsClient
	id   string
	root string
	// conditions are those of If.
	conditions Conditions
	// buffers keeps content on its way to the server.
	buffers mem.BufferPool
}

var (
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.ReadFileFS = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
	_ fs.SubFS      = (*FS)(nil)
	_ fs.GlobFS     = (*FS)(nil)
	_ fs.ReadLinkFS = (*FS)(nil)
)

// With returns a copy whose calls, and those of files opened by it, end with ctx.
func (f *FS) With(ctx context.Context) *FS {
	c := *f
	c.ctx = ctx
	return &c
}

// ContextID is the context's ID; "" means the caller's own.
func (f *FS) ContextID() string { return f.id }

// Open opens a file or directory for reading; it implements fs.FS.
func (f *FS) Open(name string) (fs.File, error) {
	if !valid(name) {
		return nil, invalid("open", name)
	}
	file, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// ReadFile returns a file's content, of any size; it implements fs.ReadFileFS.
func (f *FS) ReadFile(name string) ([]byte, error) {
	if !valid(name) {
		return nil, invalid("readfile", name)
	}
	p, raw := f.wire(name)
	r, err := f.rpc.ReadFile(f.ctx, &ctxfsv1.ReadFileRequest{ContextId: f.id, Path: p, RawPath: raw})
	if err == nil {
		return r.GetData(), nil
	}
	if fserr.CodeOf(convert("readfile", err)) != fserr.EFBIG {
		return nil, f.pathError("open", name, err)
	}
	return f.readLarge(name)
}

func (f *FS) readLarge(name string) ([]byte, error) {
	r, err := f.ReadStream(name, ReadOptions{})
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, r.stat.GetSize()+1)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, r.Close()
		}
		if err != nil {
			_ = r.Close()
			return nil, err
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data)/4+512)
		}
	}
}

// ReadDir lists a directory by name, with attributes; it implements fs.ReadDirFS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if !valid(name) {
		return nil, invalid("readdir", name)
	}
	return f.readDir(name)
}

func (f *FS) readDir(name string) ([]fs.DirEntry, error) {
	entries, err := f.List(name, ListOptions{Stats: true})
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		out[i] = e
	}
	return out, nil
}

// ListOptions of List.
type ListOptions struct {
	// Recursive lists what is below as well; links are not followed.
	Recursive bool
	// Stats asks for attributes in the same call.
	Stats bool
}

// List lists a directory of any size, sorted by path.
func (f *FS) List(name string, o ListOptions) ([]Entry, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Readdir(f.ctx, &ctxfsv1.ReaddirRequest{
		ContextId: f.id, Path: p, RawPath: raw, Recursive: o.Recursive, WithFileTypes: true, WithStats: o.Stats,
	})
	listed := r.GetEntries()
	if err != nil && fserr.CodeOf(convert("scandir", err)) == fserr.EFBIG {
		listed, err = f.opendir(name, o)
	}
	if err != nil {
		return nil, f.pathError("scandir", name, err)
	}
	return f.sorted(listed), nil
}

// sorted sorts while an entry is but a pointer.
func (f *FS) sorted(listed []*ctxfsv1.DirEntry) []Entry {
	slices.SortFunc(listed, func(a, b *ctxfsv1.DirEntry) int {
		if by := strings.Compare(untwin(a.GetParentPath(), a.GetRawParentPath()), untwin(b.GetParentPath(), b.GetRawParentPath())); by != 0 {
			return by
		}
		return strings.Compare(untwin(a.GetName(), a.GetRawName()), untwin(b.GetName(), b.GetRawName()))
	})
	entries := make([]Entry, len(listed))
	for i, e := range listed {
		entries[i] = f.newEntry(e)
	}
	return entries
}

func (f *FS) opendir(name string, o ListOptions) ([]*ctxfsv1.DirEntry, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	p, raw := f.wire(name)
	s, err := f.rpc.Opendir(ctx, &ctxfsv1.OpendirRequest{
		ContextId: f.id, Path: p, RawPath: raw, Recursive: o.Recursive, WithStats: o.Stats, BufferSize: 1000,
	})
	if err != nil {
		return nil, err
	}
	var listed []*ctxfsv1.DirEntry
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return listed, nil
		}
		if err != nil {
			return nil, err
		}
		listed = append(listed, r.GetEntries().GetEntries()...)
	}
}

// Stat follows a final link. Sys of the result is the *ctxfsv1.Stat.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Stat(f.ctx, &ctxfsv1.StatRequest{ContextId: f.id, Path: p, RawPath: raw})
	if err != nil {
		return nil, f.pathError("stat", name, err)
	}
	return newInfo(name, r.GetStat(), r.GetEtag()), nil
}

// Lstat describes the name itself.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Lstat(f.ctx, &ctxfsv1.LstatRequest{ContextId: f.id, Path: p, RawPath: raw})
	if err != nil {
		return nil, f.pathError("lstat", name, err)
	}
	return newInfo(name, r.GetStat(), r.GetEtag()), nil
}

// ReadLink returns a link's target, byte for byte; it implements fs.ReadLinkFS.
func (f *FS) ReadLink(name string) (string, error) {
	if !valid(name) {
		return "", invalid("readlink", name)
	}
	return f.Readlink(name)
}

// Readlink is ReadLink for any virtual path.
func (f *FS) Readlink(name string) (string, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Readlink(f.ctx, &ctxfsv1.ReadlinkRequest{ContextId: f.id, Path: p, RawPath: raw})
	if err != nil {
		return "", f.pathError("readlink", name, err)
	}
	return untwin(r.GetTarget(), r.GetRawTarget()), nil
}

// Sub returns the FS of a directory. As with os.DirFS it is no fence: links lead out of it,
// though never out of the context.
func (f *FS) Sub(dir string) (fs.FS, error) {
	if !valid(dir) {
		return nil, invalid("sub", dir)
	}
	if dir == "." {
		return f, nil
	}
	c := *f
	c.root = path.Join("/", f.root, dir)
	return &c, nil
}
