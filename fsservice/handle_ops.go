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
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Open implements FsService.
func (s *Service) Open(ctx context.Context, req *ctxfsv1.OpenRequest) (*ctxfsv1.OpenResponse, error) {
	flags, mode, err := openForm(req)
	return onPath(ctx, s, "open", useOf(ctxfsv1.FsService_Open_FullMethodName, req), req, func(c *call) (*ctxfsv1.OpenResponse, error) {
		if err != nil {
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
			f, err := c.open(flags, mode, req.GetAtomic())
			return handles.Spec{Context: c.id.Context, Generation: c.generation, Path: c.path, Flags: flags.text, Instance: instance, File: f}, err
		})
		if err == nil && instance != "" && !s.leases.Held(c.id.Owner, instance) {
			// The lease ended while the file was opened: nobody would close it.
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

// open opens the call's path; atomic makes what stands there be replaced at Close.
func (c *call) open(flags openFlags, mode uint32, atomic bool) (rootfs.File, error) {
	switch {
	case !atomic:
		return c.root.OpenFile(c.path, flags.Flags, mode)
	case !flags.replaces():
		return nil, invalid("atomic goes with the flags w, wx, w+ and wx+ only")
	}
	return c.root.CreateAtomic(c.path, mode, flags.Flags&rootfs.O_EXCL != 0)
}

// openInstance is the client instance that a new handle belongs to: the session's, or
// one that the request names and that has a lease.
func (s *Service) openInstance(id panels.Identity, named string) (string, error) {
	switch {
	case named == "" || named == id.Instance:
		return id.Instance, nil
	case id.Instance != "":
		return "", invalid("client_instance is another than the session's")
	case !s.leases.Held(id.Owner, named):
		return "", noLease(named)
	}
	return named, nil
}

func noLease(instance string) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("client instance '%.64s' has no lease", instance), Hint: "hold one by FsService/Hold first, or leave client_instance empty"}
}

func openForm(req *ctxfsv1.OpenRequest) (flags openFlags, mode uint32, err error) {
	var modeErr error
	switch f := req.GetFlagsForm().(type) {
	case *ctxfsv1.OpenRequest_Flags:
		flags, err = flagsOf(&f.Flags, nil, "r")
	case *ctxfsv1.OpenRequest_FlagsNumber:
		flags, err = flagsOf(nil, &f.FlagsNumber, "r")
	default:
		flags, err = flagsOf(nil, nil, "r")
	}
	switch f := req.GetModeForm().(type) {
	case *ctxfsv1.OpenRequest_Mode:
		mode, modeErr = newMode(&f.Mode, nil, 0)
	case *ctxfsv1.OpenRequest_ModeOctal:
		mode, modeErr = newMode(nil, &f.ModeOctal, 0)
	default:
		mode = 0o666 &^ umask
	}
	return flags, mode, errors.Join(err, modeErr)
}

// Close implements FsService. Without commit and flush it needs no gate: a handle of a context that is gone can be closed.
func (s *Service) Close(ctx context.Context, req *ctxfsv1.CloseRequest) (*ctxfsv1.CloseResponse, error) {
	if req.GetCommit() {
		return onHandle(ctx, s, "close", writes, req, func(c *handleCall) (*ctxfsv1.CloseResponse, error) {
			return &ctxfsv1.CloseResponse{}, s.commit(c.handle, req.GetFlush())
		})
	}
	var err error
	if req.GetFlush() {
		_, err = useHandle(ctx, s, reads, req, func(c *handleCall) (struct{}, error) { return struct{}{}, c.handle.File.Sync(false) })
	}
	if err == nil {
		err = s.handles.CloseFD(panels.IdentityFrom(ctx).Owner, req.GetFd(), req.GetContextId())
	}
	return &ctxfsv1.CloseResponse{}, fail(err, "close", "", "")
}

// commit makes the file of an atomic handle appear. The handle is gone then, even when that failed.
func (s *Service) commit(h *handles.Handle, flush bool) error {
	f, atomic := h.File.(rootfs.AtomicFile)
	if !atomic {
		return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("handle %d is not atomic", h.FD), Hint: "open it with atomic, or close it without commit"}
	}
	if err := s.handles.Take(h); err != nil {
		return err
	}
	return f.Commit(flush)
}

// ListHandles implements FsService.
func (s *Service) ListHandles(ctx context.Context, req *ctxfsv1.ListHandlesRequest) (*ctxfsv1.ListHandlesResponse, error) {
	return inBudget(ctx, "listHandles", func() (*ctxfsv1.ListHandlesResponse, error) { return s.listHandles(ctx, req) })
}

func (s *Service) listHandles(ctx context.Context, req *ctxfsv1.ListHandlesRequest) (*ctxfsv1.ListHandlesResponse, error) {
	id := panels.IdentityFrom(ctx)
	owner := id.Owner
	switch {
	case id.Role == panels.RoleNone:
		return nil, fail(invalid("the caller is not known"), "listHandles", "", "")
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

// position returns where an operation starts; own when that is the handle's own position.
func position(p *int64) (off int64, own bool, err error) {
	switch {
	case p == nil || *p == -1:
		return 0, true, nil
	case *p < 0:
		return 0, false, invalid("position %d is negative", *p)
	}
	return *p, false, nil
}

// read fills up to n bytes from position. What it reads, and its text in enc, is reserved.
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

// within lowers a large n to what the file holds beyond off, to spare the memory;
// a small one is not worth the question.
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

// write writes buffers, in order, from position, and returns how much was written.
// after is the handle's own position then, nil when the write did not use it.
func (c *handleCall) write(p *int64, buffers ...[]byte) (done int64, after *int64, err error) {
	off, own, err := position(p)
	if err == nil {
		err = c.access.Charge(length(buffers), 0)
	}
	if err != nil {
		return 0, nil, err
	}
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

// length is how many bytes buffers have together.
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
