package fsservice

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// defaultRead is Read's length when none is given, in bytes, as in Node.
	defaultRead = 16 << 10
	// maxBuffers bounds the buffers of Readv and Writev, as IOV_MAX does on Linux.
	maxBuffers = 1024
)

// openFiles has the RPCs that work on handles.
type openFiles struct {
	*opener
	leases *panels.Leases
}

// Open implements FsService.
func (s *openFiles) Open(ctx context.Context, req *ctxfsv1.OpenRequest) (*ctxfsv1.OpenResponse, error) {
	return onPath(ctx, s.opener, "open", useOf(ctxfsv1.FsService_Open_FullMethodName, req), req, func(c *call) (*ctxfsv1.OpenResponse, error) {
		flags, flagErr := flagsOf(req.GetFlagsForm(), "r")
		mode, modeErr := newMode(req.GetModeForm(), 0o666)
		want, wantErr := conditionOf(req.GetIfMatch(), req.GetIfNoneMatch())
		if err := errors.Join(flagErr, modeErr, wantErr, flags.allows(want)); err != nil {
			return nil, err
		}
		if err := c.chargeCreate(flags); err != nil {
			return nil, err
		}
		instance, err := s.openInstance(c.id, req.GetClientInstance())
		if err != nil {
			return nil, err
		}
		fd, err := s.handles.Open(c.id.Owner, func() (handles.Spec, error) {
			f, st, err := c.open(flags, mode, req.GetAtomic(), want)
			return handles.Spec{
				Context: c.id.Context, Generation: c.generation, Path: c.path, Flags: flags.text, Instance: instance, File: f, Stat: st,
				IfMatch: req.GetIfMatch(), IfNoneMatch: req.GetIfNoneMatch(),
			}, err
		})
		if err == nil && instance != "" && !s.leases.Held(c.id.Owner, instance) {
			// The lease ended while the file was opened, so its end did not close it.
			_ = s.handles.CloseFD(c.id.Owner, fd, "")
			return nil, noLease(instance)
		}
		return &ctxfsv1.OpenResponse{Fd: fd}, err
	})
}

// chargeCreate charges the context for the file that an open with flags may create.
func (c *call) chargeCreate(flags openFlags) error {
	if flags.Flags&rootfs.O_CREAT == 0 {
		return nil
	}
	return c.access.Charge(0, 1)
}

// open opens the call's path, if the condition holds. With atomic the file replaces the one there at Close.
func (c *call) open(flags openFlags, mode uint32, atomic bool, want condition) (rootfs.File, rootfs.Stat, error) {
	switch {
	case !atomic:
		return c.openIf(flags, mode, want)
	case !flags.replaces():
		return nil, rootfs.Stat{}, fserr.Invalid("atomic goes with the flags w, wx, w+ and wx+ only")
	}
	f, err := c.createAtomic(mode, flags.Flags&rootfs.O_EXCL != 0, want)
	return f, rootfs.Stat{}, err
}

// openIf opens the call's path in place, if the condition holds. The file is truncated after the check.
func (c *call) openIf(flags openFlags, mode uint32, want condition) (f rootfs.File, st rootfs.Stat, err error) {
	switch {
	case want.none:
		f, st, err = c.openStat(flags.Flags|rootfs.O_EXCL, mode)
		return f, st, c.taken(want, err)
	case want.match == "" && !flags.Writable(): // only a writer needs the attributes
		f, err = c.root.OpenFile(c.path, flags.Flags, mode)
		return f, st, err
	case want.match == "" && flags.Flags&(rootfs.O_TRUNC|rootfs.O_EXCL) != rootfs.O_TRUNC:
		return c.openStat(flags.Flags, mode)
	}
	err = reopening(func() error {
		f, st, err = c.openLocked(flags, mode, want)
		return err
	})
	return f, st, err
}

// openLocked opens the file, and then checks the condition and truncates the file while it is locked: a caller that has checked a condition
// of its own must not find the file truncated. It fails with errReplaced if the path leads elsewhere by then.
func (c *call) openLocked(flags openFlags, mode uint32, want condition) (rootfs.File, rootfs.Stat, error) {
	open := flags.Flags &^ rootfs.O_TRUNC
	if want.match != "" {
		open &^= rootfs.O_CREAT
	}
	f, st, err := c.openStat(open, mode)
	if err != nil {
		return nil, st, want.missing(c.generation, err)
	}
	if flags.Flags&rootfs.O_TRUNC != 0 {
		_, err = c.truncateInPlace(f, st, 0, want)
	} else {
		_, err = c.stillThere(c.path, f, st, want)
	}
	if err != nil {
		_ = f.Close()
	}
	return f, st, err
}

// openInstance returns the client instance that a new handle belongs to: the session's, or one that the request names and that has a
// lease.
func (s *openFiles) openInstance(id panels.Identity, named string) (string, error) {
	switch {
	case named == "" || named == id.Instance:
		return id.Instance, nil
	case id.Instance != "":
		return "", fserr.Invalid("client_instance is another than the session's")
	case !s.leases.Held(id.Owner, named):
		return "", noLease(named)
	}
	return named, nil
}

func noLease(instance string) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("client instance '%.64s' has no lease", instance), Hint: "hold one by FsService/Hold first, or leave client_instance empty"}
}

// Close implements FsService. Without commit and flush it opens no gate, so it closes handles of a context that was deleted.
func (s *openFiles) Close(ctx context.Context, req *ctxfsv1.CloseRequest) (*ctxfsv1.CloseResponse, error) {
	if req.GetCommit() {
		return onHandle(ctx, s.opener, "close", writes, req, func(c *handleCall) (*ctxfsv1.CloseResponse, error) {
			tag, err := s.commit(c)
			return &ctxfsv1.CloseResponse{Etag: tag}, err
		})
	}
	var err error
	if req.GetFlush() {
		_, err = useHandle(ctx, s.opener, reads, req, func(c *handleCall) (struct{}, error) { return struct{}{}, c.handle.File.Sync(false) })
	}
	if err == nil {
		err = s.handles.CloseFD(panels.IdentityFrom(ctx).Owner, req.GetFd(), req.GetContextId())
	}
	return &ctxfsv1.CloseResponse{}, fail(err, "close", "", "")
}

// commit makes the file of an atomic handle appear on the disk, and returns its etag. It closes the handle, even when it fails.
func (s *openFiles) commit(c *handleCall) (etag string, err error) {
	h := c.handle
	f, atomic := h.File.(rootfs.AtomicFile)
	if !atomic {
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("handle %d is not atomic", h.FD), Hint: "open it with atomic, or close it without commit"}
	}
	want, err := conditionOf(h.IfMatch, h.IfNoneMatch)
	if err == nil {
		err = s.handles.Take(h)
	}
	if err != nil {
		return "", err
	}
	at := &call{path: h.Path}
	s.behind(c, at, panels.Identity{Context: h.Context}, c.access)
	defer func() { _ = f.Close() }()
	return at.appear(f, want, true)
}

// ListHandles implements FsService.
func (s *openFiles) ListHandles(ctx context.Context, req *ctxfsv1.ListHandlesRequest) (*ctxfsv1.ListHandlesResponse, error) {
	return inBudget(ctx, "listHandles", func() (*ctxfsv1.ListHandlesResponse, error) { return s.listHandles(ctx, req) })
}

func (s *openFiles) listHandles(ctx context.Context, req *ctxfsv1.ListHandlesRequest) (*ctxfsv1.ListHandlesResponse, error) {
	id := panels.IdentityFrom(ctx)
	owner := id.Owner
	switch {
	case id.Role == panels.RoleNone:
		return nil, fail(fserr.Invalid("the caller is not known"), "listHandles", "", "")
	case id.Role == panels.RoleHost && id.Panel == "":
		owner = ""
	}
	resp := &ctxfsv1.ListHandlesResponse{}
	for _, h := range s.handles.List(owner) {
		if want := contexts.ID(req.GetContextId()); want == "" || want == h.Context {
			resp.Handles = append(resp.Handles, wireHandle(h))
		}
	}
	n := proto.Size(resp)
	if n > maxReply {
		return nil, fail(&fserr.Error{
			Code: fserr.EFBIG, Detail: fmt.Sprintf("reply of %.1f MiB exceeds 3.5 MiB", float64(n)/(1<<20)), Hint: "name a context_id, or close some handles",
		}, "listHandles", "", "")
	}
	return resp, fail(reserve(ctx, int64(n)), "listHandles", "", "")
}

func wireHandle(h *handles.Handle) *ctxfsv1.Handle {
	text, raw := wirePath(h.Path)
	return &ctxfsv1.Handle{
		Fd: h.FD, Owner: h.Owner, ContextId: string(h.Context), Path: text, RawPath: raw,
		Flags: h.Flags, OpenedNs: h.OpenedAt.UnixNano(), LastUsedNs: h.LastUsed().UnixNano(),
		ClientInstance: h.Instance, Atomic: isAtomic(h),
	}
}

func isAtomic(h *handles.Handle) bool {
	_, atomic := h.File.(rootfs.AtomicFile)
	return atomic
}

// Fstat implements FsService.
func (s *openFiles) Fstat(ctx context.Context, req *ctxfsv1.FstatRequest) (*ctxfsv1.FstatResponse, error) {
	return onHandle(ctx, s.opener, "fstat", reads, req, func(c *handleCall) (*ctxfsv1.FstatResponse, error) {
		st, err := c.handle.File.Stat()
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.FstatResponse{Stat: wireStat(st), Etag: etagOf(c.access.Generation, st)}, nil
	})
}

// Ftruncate implements FsService.
func (s *openFiles) Ftruncate(ctx context.Context, req *ctxfsv1.FtruncateRequest) (*ctxfsv1.FtruncateResponse, error) {
	return onHandle(ctx, s.opener, "ftruncate", writes, req, func(c *handleCall) (*ctxfsv1.FtruncateResponse, error) {
		if err := wantLength(req.GetLen()); err != nil {
			return nil, err
		}
		lock, err := c.share()
		if err != nil {
			return nil, err
		}
		defer lock.unlock()
		return &ctxfsv1.FtruncateResponse{}, c.handle.File.Truncate(req.GetLen())
	})
}

// Fchmod implements FsService.
func (s *openFiles) Fchmod(ctx context.Context, req *ctxfsv1.FchmodRequest) (*ctxfsv1.FchmodResponse, error) {
	return onHandle(ctx, s.opener, "fchmod", writes, req, func(c *handleCall) (*ctxfsv1.FchmodResponse, error) {
		mode, err := wantMode(req.GetModeForm())
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.FchmodResponse{}, c.handle.File.Chmod(mode)
	})
}

// Fchown implements FsService.
func (s *openFiles) Fchown(ctx context.Context, req *ctxfsv1.FchownRequest) (*ctxfsv1.FchownResponse, error) {
	return onHandle(ctx, s.opener, "fchown", writes, req, func(c *handleCall) (*ctxfsv1.FchownResponse, error) {
		uid, gid, err := wantOwner(req.Uid, req.Gid)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.FchownResponse{}, c.handle.File.Chown(uid, gid)
	})
}

// Futimes implements FsService.
func (s *openFiles) Futimes(ctx context.Context, req *ctxfsv1.FutimesRequest) (*ctxfsv1.FutimesResponse, error) {
	return onHandle(ctx, s.opener, "futime", writes, req, func(c *handleCall) (*ctxfsv1.FutimesResponse, error) {
		atime, mtime, err := wantTimes(req.AtimeNs, req.MtimeNs)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.FutimesResponse{}, c.handle.File.Utimes(atime, mtime)
	})
}

// Fsync implements FsService.
func (s *openFiles) Fsync(ctx context.Context, req *ctxfsv1.FsyncRequest) (*ctxfsv1.FsyncResponse, error) {
	return onHandle(ctx, s.opener, "fsync", reads, req, func(c *handleCall) (*ctxfsv1.FsyncResponse, error) {
		return &ctxfsv1.FsyncResponse{}, c.handle.File.Sync(false)
	})
}

// Fdatasync implements FsService.
func (s *openFiles) Fdatasync(ctx context.Context, req *ctxfsv1.FdatasyncRequest) (*ctxfsv1.FdatasyncResponse, error) {
	return onHandle(ctx, s.opener, "fdatasync", reads, req, func(c *handleCall) (*ctxfsv1.FdatasyncResponse, error) {
		return &ctxfsv1.FdatasyncResponse{}, c.handle.File.Sync(true)
	})
}

// Read implements FsService.
func (s *openFiles) Read(ctx context.Context, req *ctxfsv1.ReadRequest) (*ctxfsv1.ReadResponse, error) {
	return inBudget(ctx, "read", func() (*ctxfsv1.ReadResponse, error) {
		return onHandle(ctx, s.opener, "read", reads, req, func(c *handleCall) (*ctxfsv1.ReadResponse, error) {
			n := int64(defaultRead)
			if req.Length != nil {
				n = req.GetLength()
			}
			enc, err := encodingOf(req.GetEncoding())
			if err == nil {
				err = wantReadLength(n)
			}
			if err != nil {
				return nil, err
			}
			data, err := c.read(req.Position, n, enc)
			if err != nil {
				return nil, err
			}
			return wireRead(c, data, enc)
		})
	})
}

func wantReadLength(n int64) error {
	if n > maxReply {
		return fserr.Invalid("a length of %d exceeds %d (3.5 MiB); read less at a time, or use FsService/ReadStream", n, maxReply)
	}
	return wantLength(n)
}

func wireRead(ctx context.Context, data []byte, enc encoding) (*ctxfsv1.ReadResponse, error) {
	resp := &ctxfsv1.ReadResponse{BytesRead: int64(len(data))}
	if enc == "" {
		resp.Content = &ctxfsv1.ReadResponse_Data{Data: data}
		return resp, nil
	}
	text, lossy := enc.decode(data)
	if len(text) > maxReply {
		return nil, tooBig(int64(len(text)), "ReadStream")
	}
	budget.Of(ctx).Keep(int64(len(text)))
	resp.Lossy, resp.Content = lossy, &ctxfsv1.ReadResponse_Text{Text: text}
	return resp, nil
}

// Readv implements FsService.
func (s *openFiles) Readv(ctx context.Context, req *ctxfsv1.ReadvRequest) (*ctxfsv1.ReadvResponse, error) {
	return inBudget(ctx, "read", func() (*ctxfsv1.ReadvResponse, error) {
		return onHandle(ctx, s.opener, "read", reads, req, func(c *handleCall) (*ctxfsv1.ReadvResponse, error) {
			n, err := sum(req.GetLengths())
			if err != nil {
				return nil, err
			}
			data, err := c.read(req.Position, n, "")
			if err != nil {
				return nil, err
			}
			return &ctxfsv1.ReadvResponse{BytesRead: int64(len(data)), Data: data}, nil
		})
	})
}

// sum adds the lengths of Readv.
func sum(lengths []int64) (int64, error) {
	if err := wantBuffers(len(lengths)); err != nil {
		return 0, err
	}
	var n int64
	for _, l := range lengths {
		if err := wantReadLength(l); err != nil {
			return 0, err
		}
		n += l
	}
	return n, wantReadLength(n)
}

func wantBuffers(n int) error {
	if n > maxBuffers {
		return fserr.Invalid("%d buffers are more than %d", n, maxBuffers)
	}
	return nil
}

// Write implements FsService.
func (s *openFiles) Write(ctx context.Context, req *ctxfsv1.WriteRequest) (*ctxfsv1.WriteResponse, error) {
	return onHandle(ctx, s.opener, "write", writes, req, func(c *handleCall) (*ctxfsv1.WriteResponse, error) {
		data, err := contentOf(req)
		if err != nil {
			return nil, err
		}
		n, after, err := c.write(req.Position, data)
		return &ctxfsv1.WriteResponse{BytesWritten: n, Position: after}, err
	})
}

// Writev implements FsService.
func (s *openFiles) Writev(ctx context.Context, req *ctxfsv1.WritevRequest) (*ctxfsv1.WritevResponse, error) {
	return onHandle(ctx, s.opener, "write", writes, req, func(c *handleCall) (*ctxfsv1.WritevResponse, error) {
		if err := wantBuffers(len(req.GetBuffers())); err != nil {
			return nil, err
		}
		n, _, err := c.write(req.Position, req.GetBuffers()...)
		return &ctxfsv1.WritevResponse{BytesWritten: n}, err
	})
}

// position returns where an operation starts. own says that it is the handle's own position.
func position(p *int64) (off int64, own bool, err error) {
	switch {
	case p == nil || *p == -1:
		return 0, true, nil
	case *p < 0:
		return 0, false, fserr.Invalid("position %d is negative", *p)
	}
	return *p, false, nil
}

// read reads up to n bytes from a position. It reserves memory for them and for their text in enc.
func (c *handleCall) read(p *int64, n int64, enc encoding) ([]byte, error) {
	off, own, err := position(p)
	if err != nil {
		return nil, err
	}
	if own {
		c.handle.Position.Lock()
		defer c.handle.Position.Unlock()
		if off, err = c.handle.File.Seek(0, io.SeekCurrent); err != nil {
			return nil, err
		}
	}
	if n, err = c.within(off, n); err != nil {
		return nil, err
	}
	if err := reserve(c, enc.memory(n)); err != nil {
		return nil, err
	}
	buf := make([]byte, n)
	var got int
	if own {
		got, err = io.ReadFull(c.handle.File, buf)
	} else {
		got, err = c.handle.File.ReadAt(buf, off)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return buf[:got], err
}

// within lowers a large n to what the file has beyond off, to save memory. For a small n a system call would cost more.
func (c *handleCall) within(off, n int64) (int64, error) {
	if n <= 64<<10 {
		return n, nil
	}
	st, err := c.handle.File.Stat()
	if err == nil {
		err = isDirectory(st)
	}
	return min(n, max(st.Size-off, 4096)), err
}

// write writes buffers, in order, from a position, and returns how much was written. after is the handle's own position after that;
// nil when the write did not use it.
func (c *handleCall) write(p *int64, buffers ...[]byte) (done int64, after *int64, err error) {
	off, own, err := position(p)
	if err == nil {
		err = c.access.Charge(length(buffers), 0)
	}
	if err != nil {
		return 0, nil, err
	}
	lock, err := c.share()
	if err != nil {
		return 0, nil, err
	}
	defer lock.unlock()
	if !own {
		done, err = c.writeBy(func(b []byte) (int, error) {
			n, err := c.handle.File.WriteAt(b, off)
			off += int64(n)
			return n, err
		}, buffers)
		return done, nil, err
	}
	c.handle.Position.Lock()
	defer c.handle.Position.Unlock()
	if done, err = c.writeBy(c.handle.File.Write, buffers); err != nil {
		return done, nil, err
	}
	off, err = c.handle.File.Seek(0, io.SeekCurrent)
	return done, &off, err
}

// share locks the content of the handle's file for a write, so that none comes between a condition's check and the change. Writes through
// handles share the lock.
func (c *handleCall) share() (heldLock, error) {
	return c.locks.lock(c, c.handle.Context, c.handle.Stat, reads)
}

// length returns the number of bytes in buffers.
func length(buffers [][]byte) (n int64) {
	for _, b := range buffers {
		n += int64(len(b))
	}
	return n
}

func (c *handleCall) writeBy(put func([]byte) (int, error), buffers [][]byte) (done int64, err error) {
	for _, b := range buffers {
		n, err := writeAll(c, put, b)
		done += n
		if err != nil {
			return done, written(err, done)
		}
	}
	return done, nil
}

// writeContent writes a request's content at the handle's position.
func (c *handleCall) writeContent(req contentRequest, flush bool) (int64, error) {
	data, err := contentOf(req)
	if err != nil {
		return 0, err
	}
	n, _, err := c.write(nil, data)
	if err == nil && flush {
		err = c.handle.File.Sync(false)
	}
	return n, err
}
