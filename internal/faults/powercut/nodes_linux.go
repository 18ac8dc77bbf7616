package powercut

import (
	"context"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// cached is how long the kernel keeps names and attributes, which change by its own calls only.
const cached = time.Hour

// mount shows a disk at a place.
func mount(d *disk, at string) (*fuse.Server, error) {
	kept := cached
	return fs.Mount(at, &node{disk: d, inode: d.root, session: d.session}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, AllowOther: true, FsName: "powercut", Name: "powercut", MaxWrite: 1 << 20, Options: []string{"default_permissions"}},
		AttrTimeout:  &kept, EntryTimeout: &kept, NullPermissions: true, RootStableAttr: &fs.StableAttr{Ino: d.root.ino},
	})
}

// node is an inode in the kernel's tree.
type node struct {
	fs.Inode
	disk    *disk
	inode   *inode
	session int
}

// do runs an operation, which fails if the disk is off.
func (n *node) do(op func(d *disk) syscall.Errno) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if n.disk.off || n.session != n.disk.session {
		return unix.EIO
	}
	return op(n.disk)
}

func (n *inode) fill(out *fuse.Attr) {
	a := n.now
	out.Ino, out.Size, out.Blksize, out.Nlink, out.Mode, out.Rdev = n.ino, uint64(n.data.size), pageSize, n.nlink, a.mode, a.rdev
	out.Blocks, out.Owner = uint64(len(n.data.pages)*pageSize/512), fuse.Owner{Uid: a.uid, Gid: a.gid}
	if a.mode&unix.S_IFMT == unix.S_IFLNK {
		out.Size = uint64(len(a.target))
	}
	out.SetTimes(&a.atime, &a.mtime, &a.ctime)
}

// child is the node of an inode.
func (n *node) child(ctx context.Context, i *inode, out *fuse.EntryOut) *fs.Inode {
	i.fill(&out.Attr)
	return n.NewInode(ctx, &node{disk: n.disk, inode: i, session: n.session}, fs.StableAttr{Mode: i.now.mode & unix.S_IFMT, Ino: i.ino})
}

// Statfs implements fs.NodeStatfser.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	*out = fuse.StatfsOut{Bsize: pageSize, Frsize: pageSize, Blocks: 1 << 20, Bfree: 1 << 19, Bavail: 1 << 19, Files: 1 << 20, Ffree: 1 << 19, NameLen: 255}
	return 0
}

// Lookup implements fs.NodeLookuper.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (found *fs.Inode, errno syscall.Errno) {
	errno = n.do(func(*disk) syscall.Errno {
		i := n.inode.names[name]
		if i == nil {
			return unix.ENOENT
		}
		found = n.child(ctx, i, out)
		return 0
	})
	return found, errno
}

// Getattr implements fs.NodeGetattrer.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return n.do(func(*disk) syscall.Errno {
		n.inode.fill(&out.Attr)
		return 0
	})
}

// Setattr implements fs.NodeSetattrer.
func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.do(func(d *disk) syscall.Errno {
		i := n.inode
		if size, ok := in.GetSize(); ok {
			d.truncate(i, int64(size))
		}
		d.touch(i)
		if mode, ok := in.GetMode(); ok {
			i.now.mode = i.now.mode&unix.S_IFMT | mode&^unix.S_IFMT
		}
		if uid, ok := in.GetUID(); ok {
			i.now.uid = uid
		}
		if gid, ok := in.GetGID(); ok {
			i.now.gid = gid
		}
		if at, ok := in.GetATime(); ok {
			i.now.atime = at
		}
		if at, ok := in.GetMTime(); ok {
			i.now.mtime = at
		}
		i.fill(&out.Attr)
		return 0
	})
}

// made gives a new inode a name.
func (n *node) made(ctx context.Context, name string, mode uint32, out *fuse.EntryOut, with func(i *inode)) (made *fs.Inode, errno syscall.Errno) {
	errno = n.do(func(d *disk) syscall.Errno {
		if n.inode.names[name] != nil {
			return unix.EEXIST
		}
		i := d.makeFor(ctx, n.inode, mode, with)
		d.change(entry{n.inode, name, i})
		made = n.child(ctx, i, out)
		return 0
	})
	return made, errno
}

// makeFor makes an inode that belongs to the caller, and to the group that the directory's setgid bit says.
func (d *disk) makeFor(ctx context.Context, dir *inode, mode uint32, with func(i *inode)) *inode {
	var uid, gid uint32
	if caller, ok := fuse.FromContext(ctx); ok {
		uid, gid = caller.Uid, caller.Gid
	}
	if dir.now.mode&unix.S_ISGID != 0 {
		gid = dir.now.gid
		if mode&unix.S_IFMT == unix.S_IFDIR {
			mode |= unix.S_ISGID
		}
	}
	i := d.make(mode, uid, gid)
	if with != nil {
		with(i)
		i.disk = i.now
	}
	return i
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	made, errno := n.made(ctx, name, unix.S_IFREG|mode&^unix.S_IFMT, out, nil)
	return made, nil, fuse.FOPEN_KEEP_CACHE, errno
}

// Tmpfile implements fs.NodeTmpfiler.
func (n *node) Tmpfile(ctx context.Context, _, mode uint32, out *fuse.EntryOut) (made *fs.Inode, _ fs.FileHandle, flags uint32, errno syscall.Errno) {
	errno = n.do(func(d *disk) syscall.Errno {
		made = n.child(ctx, d.makeFor(ctx, n.inode, unix.S_IFREG|mode&^unix.S_IFMT, nil), out)
		return 0
	})
	return made, nil, fuse.FOPEN_KEEP_CACHE, errno
}

// Mkdir implements fs.NodeMkdirer.
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.made(ctx, name, unix.S_IFDIR|mode&^unix.S_IFMT, out, nil)
}

// Mknod implements fs.NodeMknoder.
func (n *node) Mknod(ctx context.Context, name string, mode, dev uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.made(ctx, name, mode, out, func(i *inode) { i.now.rdev = dev })
}

// Symlink implements fs.NodeSymlinker.
func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.made(ctx, name, unix.S_IFLNK|0o777, out, func(i *inode) { i.now.target = target })
}

// Link implements fs.NodeLinker.
func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (linked *fs.Inode, errno syscall.Errno) {
	errno = n.do(func(d *disk) syscall.Errno {
		if n.inode.names[name] != nil {
			return unix.EEXIST
		}
		i := target.(*node).inode
		d.change(entry{n.inode, name, i})
		linked = n.child(ctx, i, out)
		return 0
	})
	return linked, errno
}

// Readlink implements fs.NodeReadlinker.
func (n *node) Readlink(context.Context) (target []byte, errno syscall.Errno) {
	errno = n.do(func(*disk) syscall.Errno {
		target = []byte(n.inode.now.target)
		return 0
	})
	return target, errno
}

// Unlink implements fs.NodeUnlinker.
func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	return n.do(func(d *disk) syscall.Errno {
		if n.inode.names[name] == nil {
			return unix.ENOENT
		}
		d.change(entry{n.inode, name, nil})
		return 0
	})
}

// Rmdir implements fs.NodeRmdirer.
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	return n.do(func(d *disk) syscall.Errno {
		switch i := n.inode.names[name]; {
		case i == nil:
			return unix.ENOENT
		case len(i.names) > 0:
			return unix.ENOTEMPTY
		}
		d.change(entry{n.inode, name, nil})
		return 0
	})
}

// Rename implements fs.NodeRenamer.
func (n *node) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	return n.do(func(d *disk) syscall.Errno {
		dir := to.(*node).inode
		from, over := n.inode.names[name], dir.names[newName]
		switch {
		case from == nil:
			return unix.ENOENT
		case flags&^uint32(unix.RENAME_EXCHANGE|unix.RENAME_NOREPLACE) != 0:
			return unix.EINVAL
		case flags&unix.RENAME_EXCHANGE != 0 && over == nil:
			return unix.ENOENT
		case flags&unix.RENAME_EXCHANGE != 0:
			d.change(entry{n.inode, name, over}, entry{dir, newName, from})
			return 0
		case flags&unix.RENAME_NOREPLACE != 0 && over != nil:
			return unix.EEXIST
		case over == from:
			return 0
		case over != nil && over.isDir() && len(over.names) > 0:
			return unix.ENOTEMPTY
		}
		d.change(entry{n.inode, name, nil}, entry{dir, newName, from})
		return 0
	})
}

// Readdir implements fs.NodeReaddirer.
func (n *node) Readdir(context.Context) (stream fs.DirStream, errno syscall.Errno) {
	errno = n.do(func(*disk) syscall.Errno {
		var all []fuse.DirEntry
		for _, name := range slices.Sorted(maps.Keys(n.inode.names)) {
			i := n.inode.names[name]
			all = append(all, fuse.DirEntry{Name: name, Ino: i.ino, Mode: i.now.mode & unix.S_IFMT})
		}
		stream = fs.NewListDirStream(all)
		return 0
	})
	return stream, errno
}

// Open implements fs.NodeOpener.
func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, n.do(func(*disk) syscall.Errno { return 0 })
}

// Read implements fs.NodeReader.
func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (res fuse.ReadResult, errno syscall.Errno) {
	errno = n.do(func(*disk) syscall.Errno {
		res = fuse.ReadResultData(dest[:n.inode.data.at(dest, off)])
		return 0
	})
	return res, errno
}

// Write implements fs.NodeWriter.
func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	return uint32(len(data)), n.do(func(d *disk) syscall.Errno {
		d.write(n.inode, data, off)
		return 0
	})
}

// Allocate implements fs.NodeAllocater. The loop device punches holes and zeroes ranges by it.
func (n *node) Allocate(_ context.Context, _ fs.FileHandle, off, size uint64, mode uint32) syscall.Errno {
	return n.do(func(d *disk) syscall.Errno {
		i, start, end := n.inode, int64(off), int64(off+size)
		switch {
		case mode&^uint32(unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_ZERO_RANGE) != 0:
			return unix.EOPNOTSUPP
		case mode&(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_ZERO_RANGE) != 0:
			d.write(i, make([]byte, max(0, min(end, i.data.size)-start)), start)
		}
		if mode&unix.FALLOC_FL_KEEP_SIZE == 0 && end > i.data.size {
			d.truncate(i, end)
		}
		return 0
	})
}

// Fsync implements fs.NodeFsyncer, for directories too.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return n.do(func(d *disk) syscall.Errno {
		d.flush(n.inode)
		return 0
	})
}

// Getxattr implements fs.NodeGetxattrer.
func (n *node) Getxattr(_ context.Context, name string, dest []byte) (size uint32, errno syscall.Errno) {
	errno = n.do(func(*disk) syscall.Errno {
		value, ok := n.inode.now.xattrs[name]
		size = uint32(len(value))
		switch {
		case !ok:
			return unix.ENODATA
		case len(dest) < len(value):
			return unix.ERANGE
		}
		copy(dest, value)
		return 0
	})
	return size, errno
}

// Setxattr implements fs.NodeSetxattrer.
func (n *node) Setxattr(_ context.Context, name string, data []byte, flags uint32) syscall.Errno {
	return n.do(func(d *disk) syscall.Errno {
		_, there := n.inode.now.xattrs[name]
		switch {
		case flags&unix.XATTR_CREATE != 0 && there:
			return unix.EEXIST
		case flags&unix.XATTR_REPLACE != 0 && !there:
			return unix.ENODATA
		}
		all := maps.Clone(n.inode.now.xattrs)
		if all == nil {
			all = map[string][]byte{}
		}
		all[name] = slices.Clone(data)
		n.inode.now.xattrs = all
		d.touch(n.inode)
		return 0
	})
}

// Removexattr implements fs.NodeRemovexattrer.
func (n *node) Removexattr(_ context.Context, name string) syscall.Errno {
	return n.do(func(d *disk) syscall.Errno {
		if _, there := n.inode.now.xattrs[name]; !there {
			return unix.ENODATA
		}
		all := maps.Clone(n.inode.now.xattrs)
		delete(all, name)
		n.inode.now.xattrs = all
		d.touch(n.inode)
		return 0
	})
}

// Listxattr implements fs.NodeListxattrer.
func (n *node) Listxattr(_ context.Context, dest []byte) (size uint32, errno syscall.Errno) {
	errno = n.do(func(*disk) syscall.Errno {
		var all []byte
		for _, name := range slices.Sorted(maps.Keys(n.inode.now.xattrs)) {
			all = append(append(all, name...), 0)
		}
		size = uint32(len(all))
		if len(dest) < len(all) {
			return unix.ERANGE
		}
		copy(dest, all)
		return 0
	})
	return size, errno
}
