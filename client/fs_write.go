package client

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxUnary is the most content of one unary request, in bytes: by default a server accepts requests of up to 16 MiB.
	maxUnary = 16<<20 - 64<<10
	// leastUnary is what any server takes at once, in bytes.
	leastUnary = 1 << 20
)

// atOnce writes data in one request, or by large where that is more than the server takes.
func atOnce(data []byte, one, large func() error) error {
	if len(data) > maxUnary {
		return large()
	}
	err := one()
	if len(data) <= leastUnary || !refusedForSize(err) {
		return err
	}
	return large()
}

// refusedForSize reports whether a server, or its transport, refused a request for its size.
func refusedForSize(err error) bool {
	var refused *fserr.Error
	if errors.As(err, &refused) {
		return refused.Code == fserr.EFBIG && refused.Kind == fserr.KindRequest
	}
	var transport *TransportError
	return errors.As(err, &transport) && transport.Code == codes.ResourceExhausted && strings.Contains(transport.Err.Error(), "larger than max")
}

// WriteFile writes a file of any size, making it with perm when it is missing. An existing one is written in place,
// as Node does; one that is more than the server takes at once (16 MiB by default) appears whole or not at all.
func (f *FS) WriteFile(name string, data []byte, perm fs.FileMode) error {
	return f.writeFile(name, data, perm, false)
}

// WriteFileAtomic is WriteFile that takes effect whole or not at all, whatever the size.
func (f *FS) WriteFileAtomic(name string, data []byte, perm fs.FileMode) error {
	return f.writeFile(name, data, perm, true)
}

func (f *FS) writeFile(name string, data []byte, perm fs.FileMode, atomic bool) error {
	return atOnce(data, func() error {
		p, raw := f.wire(name)
		_, err := f.rpc.WriteFile(f.ctx, &ctxfsv1.WriteFileRequest{
			ContextId: f.id, Path: p, RawPath: raw, Atomic: atomic,
			ModeForm: &ctxfsv1.WriteFileRequest_Mode{Mode: unixMode(perm)},
			Content:  &ctxfsv1.WriteFileRequest_Data{Data: data},
			IfMatch:  f.conditions.IfMatch, IfNoneMatch: f.conditions.none(),
		})
		return f.pathError("open", name, err)
	}, func() error { return f.writeLarge(name, data, perm) })
}

func (f *FS) writeLarge(name string, data []byte, perm fs.FileMode) error {
	w, err := f.WriteStream(name, WriteOptions{Perm: perm})
	if err != nil {
		return err
	}
	if _, err := w.ReadFrom(bytes.NewReader(data)); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

// AppendFile appends to a file, making it with perm when it is missing. What is more than the server takes at once (16 MiB by
// default) is appended in pieces, between which those of others may come.
func (f *FS) AppendFile(name string, data []byte, perm fs.FileMode) error {
	return atOnce(data, func() error {
		p, raw := f.wire(name)
		_, err := f.rpc.AppendFile(f.ctx, &ctxfsv1.AppendFileRequest{
			ContextId: f.id, Path: p, RawPath: raw,
			ModeForm: &ctxfsv1.AppendFileRequest_Mode{Mode: unixMode(perm)},
			Content:  &ctxfsv1.AppendFileRequest_Data{Data: data},
			IfMatch:  f.conditions.IfMatch, IfNoneMatch: f.conditions.none(),
		})
		return f.pathError("open", name, err)
	}, func() error { return f.appendLarge(name, data, perm) })
}

func (f *FS) appendLarge(name string, data []byte, perm fs.FileMode) error {
	w, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, perm)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		_ = w.Close()
		return err
	}
	return w.Close()
}

// Truncate sets a file's size; growing fills with zeros.
func (f *FS) Truncate(name string, size int64) error {
	p, raw := f.wire(name)
	_, err := f.rpc.Truncate(f.ctx, &ctxfsv1.TruncateRequest{ContextId: f.id, Path: p, RawPath: raw, Len: &size, IfMatch: f.conditions.IfMatch})
	return f.pathError("truncate", name, err)
}

// Mkdir makes a directory.
func (f *FS) Mkdir(name string, perm fs.FileMode) error {
	_, err := f.mkdir(name, perm, false)
	return err
}

// MkdirAll makes a directory and missing parents; one that exists is no error.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	_, err := f.mkdir(name, perm, true)
	return err
}

func (f *FS) mkdir(name string, perm fs.FileMode, all bool) (string, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Mkdir(f.ctx, &ctxfsv1.MkdirRequest{
		ContextId: f.id, Path: p, RawPath: raw, Recursive: all, ModeForm: &ctxfsv1.MkdirRequest_Mode{Mode: unixMode(perm)},
		IfNoneMatch: f.conditions.none(),
	})
	return untwin(r.GetPath(), r.GetRawPath()), f.pathError("mkdir", name, err)
}

// MkdirTemp makes a new directory with mode 0700 whose name is prefix and six random
// characters, and returns its name in f. Unlike os.MkdirTemp it knows no default directory.
func (f *FS) MkdirTemp(prefix string) (string, error) {
	p, raw := f.wire(prefix)
	r, err := f.rpc.Mkdtemp(f.ctx, &ctxfsv1.MkdtempRequest{ContextId: f.id, Prefix: p, RawPrefix: raw})
	if err != nil {
		return "", f.pathError("mkdtemp", prefix, err)
	}
	return f.relative(untwin(r.GetPath(), r.GetRawPath())), nil
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error {
	err := f.Unlink(name)
	if errors.Is(err, fserr.EISDIR) {
		return f.Rmdir(name)
	}
	return err
}

// Unlink removes a name that is no directory (EISDIR).
func (f *FS) Unlink(name string) error {
	p, raw := f.wire(name)
	_, err := f.rpc.Unlink(f.ctx, &ctxfsv1.UnlinkRequest{ContextId: f.id, Path: p, RawPath: raw, IfMatch: f.conditions.IfMatch})
	return f.pathError("unlink", name, err)
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(name string) error {
	p, raw := f.wire(name)
	_, err := f.rpc.Rmdir(f.ctx, &ctxfsv1.RmdirRequest{ContextId: f.id, Path: p, RawPath: raw, IfMatch: f.conditions.IfMatch})
	return f.pathError("rmdir", name, err)
}

// RemoveAll removes a name with all that is below; a missing one is no error.
func (f *FS) RemoveAll(name string) error {
	_, err := f.Rm(name, RmOptions{Force: true, Recursive: true})
	return err
}

// RmOptions of Rm.
type RmOptions struct {
	// Force makes a missing path no error.
	Force bool
	// Recursive removes directories with their content.
	Recursive bool
}

// Rm removes as fs.rm of Node does, and says how many entries.
func (f *FS) Rm(name string, o RmOptions) (removed int64, err error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Rm(f.ctx, &ctxfsv1.RmRequest{
		ContextId: f.id, Path: p, RawPath: raw, Force: o.Force, Recursive: o.Recursive,
		IfMatch: f.conditions.IfMatch,
	})
	return r.GetRemoved(), f.pathError("rm", name, err)
}

// Rename moves, replacing as rename(2) does.
func (f *FS) Rename(from, to string) error {
	p, raw := f.wire(from)
	d, rawDest := f.wire(to)
	_, err := f.rpc.Rename(f.ctx, &ctxfsv1.RenameRequest{
		ContextId: f.id, Path: p, RawPath: raw, Dest: d, RawDest: rawDest,
		IfMatch: f.conditions.IfMatch, DestIfMatch: f.conditions.DestIfMatch, DestIfNoneMatch: f.conditions.destNone(),
	})
	return f.linkError("rename", from, to, err)
}

// Symlink stores target, byte for byte, as a link at name; an absolute target means the context's root.
func (f *FS) Symlink(target, name string) error {
	p, raw := f.wire(name)
	t, rawTarget := twin(target)
	_, err := f.rpc.Symlink(f.ctx, &ctxfsv1.SymlinkRequest{
		ContextId: f.id, Path: p, RawPath: raw, Target: t, RawTarget: rawTarget,
		IfNoneMatch: f.conditions.none(),
	})
	return f.linkError("symlink", target, name, err)
}

// Link makes to another name of from.
func (f *FS) Link(from, to string) error {
	p, raw := f.wire(from)
	d, rawDest := f.wire(to)
	_, err := f.rpc.Link(f.ctx, &ctxfsv1.LinkRequest{
		ContextId: f.id, Path: p, RawPath: raw, Dest: d, RawDest: rawDest,
		IfMatch: f.conditions.IfMatch, DestIfNoneMatch: f.conditions.destNone(),
	})
	return f.linkError("link", from, to, err)
}
