package faults

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// rule is a fault: what the operations answer, on the names that hold a part, or that they hang.
type rule struct {
	ops   []string
	part  string
	errno syscall.Errno
}

// rules are the faults that a disk has now.
type rules struct {
	mu   sync.Mutex
	now  []rule
	over chan struct{}
}

func newRules() *rules { return &rules{over: make(chan struct{})} }

// set adds the fault "OP,OP PART ERRNO", or "OP,OP PART hang"; no words end all faults.
func (r *rules) set(words []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(words) == 3 {
		errnos := map[string]syscall.Errno{"EIO": unix.EIO, "EROFS": unix.EROFS, "ENOSPC": unix.ENOSPC, "hang": 0}
		r.now = append(r.now, rule{strings.Split(words[0], ","), words[1], errnos[words[2]]})
		return
	}
	r.now = nil
	close(r.over)
	r.over = make(chan struct{})
}

// meet is what an operation on a name meets: nothing, an errno, or a wait for the fault's end.
func (r *rules) meet(op, name string) syscall.Errno {
	r.mu.Lock()
	over := r.over
	var met *rule
	for i, rule := range r.now {
		if strings.Contains(name, rule.part) && (rule.ops[0] == "any" || slices.Contains(rule.ops, op)) {
			met = &r.now[i]
		}
	}
	r.mu.Unlock()
	switch {
	case met == nil:
		return 0
	case met.errno == 0:
		<-over
	}
	return met.errno
}

// handle is what a loopback's open file can do, except passing its descriptor to the kernel, which would then bypass the disk.
type handle interface {
	fs.FileReader
	fs.FileWriter
	fs.FileFsyncer
	fs.FileFlusher
	fs.FileReleaser
	fs.FileGetattrer
	fs.FileSetattrer
	fs.FileAllocater
	fs.FileLseeker
}

type file struct{ handle }

func asked(f fs.FileHandle) fs.FileHandle {
	if h, ok := f.(handle); ok {
		return file{h}
	}
	return f
}

// node is a file that may fail.
type node struct {
	*fs.LoopbackNode
	rules *rules
}

// WrapChild implements fs.NodeWrapChilder.
func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{ops.(*fs.LoopbackNode), n.rules}
}

func (n *node) meet(op, name string) syscall.Errno {
	return n.rules.meet(op, filepath.Join(n.Path(n.Root()), name))
}

// Lookup implements fs.NodeLookuper.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.meet("lookup", name); errno != 0 {
		return nil, errno
	}
	return n.LoopbackNode.Lookup(ctx, name, out)
}

// Getattr implements fs.NodeGetattrer.
func (n *node) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if errno := n.meet("getattr", ""); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Getattr(ctx, f, out)
}

// Setattr implements fs.NodeSetattrer.
func (n *node) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if errno := n.meet("setattr", ""); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Setattr(ctx, f, in, out)
}

// Open implements fs.NodeOpener.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.meet("open", ""); errno != 0 {
		return nil, 0, errno
	}
	f, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	return asked(f), fuseFlags, errno
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.meet("create", name); errno != 0 {
		return nil, nil, 0, errno
	}
	made, f, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return made, asked(f), fuseFlags, errno
}

// Tmpfile implements fs.NodeTmpfiler: the loopback could make such a file, but not give it a name afterwards.
func (n *node) Tmpfile(context.Context, uint32, uint32, *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, unix.ENOSYS
}

// Mkdir implements fs.NodeMkdirer.
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.meet("mkdir", name); errno != 0 {
		return nil, errno
	}
	return n.LoopbackNode.Mkdir(ctx, name, mode, out)
}

// Unlink implements fs.NodeUnlinker.
func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	if errno := n.meet("unlink", name); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Unlink(ctx, name)
}

// Rename implements fs.NodeRenamer.
func (n *node) Rename(ctx context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if errno := n.meet("rename", name); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Rename(ctx, name, to, newName, flags)
}

// OpendirHandle implements fs.NodeOpendirHandler.
func (n *node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.meet("readdir", ""); errno != 0 {
		return nil, 0, errno
	}
	return n.LoopbackNode.OpendirHandle(ctx, flags)
}

// Read implements fs.NodeReader.
func (n *node) Read(ctx context.Context, f fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if errno := n.meet("read", ""); errno != 0 {
		return nil, errno
	}
	return f.(fs.FileReader).Read(ctx, dest, off)
}

// Write implements fs.NodeWriter.
func (n *node) Write(ctx context.Context, f fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if errno := n.meet("write", ""); errno != 0 {
		return 0, errno
	}
	return f.(fs.FileWriter).Write(ctx, data, off)
}

// Fsync implements fs.NodeFsyncer.
func (n *node) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	if errno := n.meet("fsync", ""); errno != 0 {
		return errno
	}
	return f.(fs.FileFsyncer).Fsync(ctx, flags)
}
