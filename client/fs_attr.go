package client

import (
	"io/fs"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Chmod sets permission bits, following a final link; setuid and setgid are dropped.
func (f *FS) Chmod(name string, mode fs.FileMode) error {
	p, raw := f.wire(name)
	_, err := f.rpc.Chmod(f.ctx, &ctxfsv1.ChmodRequest{
		ContextId: f.id, Path: p, RawPath: raw, ModeForm: &ctxfsv1.ChmodRequest_Mode{Mode: unixMode(mode)},
		IfMatch: f.conditions.IfMatch,
	})
	return f.pathError("chmod", name, err)
}

// Chown sets owner and group, following a final link; -1 leaves one.
func (f *FS) Chown(name string, uid, gid int) error {
	p, raw := f.wire(name)
	_, err := f.rpc.Chown(f.ctx, &ctxfsv1.ChownRequest{
		ContextId: f.id, Path: p, RawPath: raw, Uid: int64Ptr(uid), Gid: int64Ptr(gid),
		IfMatch: f.conditions.IfMatch,
	})
	return f.pathError("chown", name, err)
}

// Lchown sets owner and group of the name itself; -1 leaves one.
func (f *FS) Lchown(name string, uid, gid int) error {
	p, raw := f.wire(name)
	_, err := f.rpc.Lchown(f.ctx, &ctxfsv1.LchownRequest{
		ContextId: f.id, Path: p, RawPath: raw, Uid: int64Ptr(uid), Gid: int64Ptr(gid),
		IfMatch: f.conditions.IfMatch,
	})
	return f.pathError("lchown", name, err)
}

// Chtimes sets access and modification times, following a final link. Unlike os.Chtimes
// it sets a zero Time too, which is the year 1.
func (f *FS) Chtimes(name string, atime, mtime time.Time) error {
	p, raw := f.wire(name)
	_, err := f.rpc.Utimes(f.ctx, &ctxfsv1.UtimesRequest{
		ContextId: f.id, Path: p, RawPath: raw, AtimeNs: nanos(atime), MtimeNs: nanos(mtime),
		IfMatch: f.conditions.IfMatch,
	})
	return f.pathError("utime", name, err)
}

// Lchtimes sets the times of the name itself.
func (f *FS) Lchtimes(name string, atime, mtime time.Time) error {
	p, raw := f.wire(name)
	_, err := f.rpc.Lutimes(f.ctx, &ctxfsv1.LutimesRequest{
		ContextId: f.id, Path: p, RawPath: raw, AtimeNs: nanos(atime), MtimeNs: nanos(mtime),
		IfMatch: f.conditions.IfMatch,
	})
	return f.pathError("lutime", name, err)
}

func int64Ptr(i int) *int64 {
	v := int64(i)
	return &v
}

// nanos saturates at the ends of what int64 nanoseconds can say (1677 to 2262).
func nanos(t time.Time) *int64 {
	ns := t.UnixNano()
	if got := time.Unix(0, ns); !got.Equal(t) {
		ns = 1<<63 - 1
		if t.Before(time.Unix(0, 0)) {
			ns = -1 << 63
		}
	}
	return &ns
}

// AccessMode is what Access asks for: a union of AccessRead, AccessWrite and AccessExecute; 0 asks for existence.
type AccessMode int32

// The bits of AccessMode, as in access(2).
const (
	AccessExecute AccessMode = 1
	AccessWrite   AccessMode = 2
	AccessRead    AccessMode = 4
)

// Access checks whether the server may use a name so.
func (f *FS) Access(name string, mode AccessMode) error {
	p, raw := f.wire(name)
	_, err := f.rpc.Access(f.ctx, &ctxfsv1.AccessRequest{ContextId: f.id, Path: p, RawPath: raw, Mode: int32(mode)})
	return f.pathError("access", name, err)
}

// Exists reports whether a name exists. It follows links; a link that leads outside does not exist.
func (f *FS) Exists(name string) (bool, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Exists(f.ctx, &ctxfsv1.ExistsRequest{ContextId: f.id, Path: p, RawPath: raw})
	return r.GetExists(), f.pathError("exists", name, err)
}

// Realpath resolves all links, and returns the virtual path from the context's root.
func (f *FS) Realpath(name string) (string, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Realpath(f.ctx, &ctxfsv1.RealpathRequest{ContextId: f.id, Path: p, RawPath: raw})
	return untwin(r.GetPath(), r.GetRawPath()), f.pathError("realpath", name, err)
}

// Statfs describes the file system of a name: blocks of Bsize bytes, and inodes.
func (f *FS) Statfs(name string) (*ctxfsv1.StatfsResponse, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Statfs(f.ctx, &ctxfsv1.StatfsRequest{ContextId: f.id, Path: p, RawPath: raw})
	return r, f.pathError("statfs", name, err)
}

// Handles lists the caller's open handles; a host that names no panel sees all.
func (f *FS) Handles() ([]*ctxfsv1.Handle, error) {
	r, err := f.rpc.ListHandles(f.ctx, &ctxfsv1.ListHandlesRequest{ContextId: f.id})
	return r.GetHandles(), convert("listhandles", err)
}
