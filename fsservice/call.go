package fsservice

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
)

// What operations do with a context.
const (
	reads  = contexts.Read
	writes = contexts.Write
)

// useOf returns the use of a request whose method's effect depends on it.
func useOf(name string, req proto.Message) contexts.Use {
	if method.Of(name).Changes(req) {
		return writes
	}
	return reads
}

// opener opens what operations work on: contexts, and the handles of the caller.
type opener struct {
	gate    Gate
	admit   func(ctx context.Context) error
	handles *handles.Table
	locks   fileLocks
}

// acquire opens the gate of the context that a call is about: ctxID, or the caller's own when that is empty. A panel's first access
// seeds. The Context of the returned identity is the one acquired. The caller must Release the Access.
func (o *opener) acquire(ctx context.Context, ctxID string, w contexts.Use) (*contexts.Access, panels.Identity, error) {
	id, err := identify(ctx, ctxID)
	if err != nil {
		return nil, id, err
	}
	a, err := o.enter(ctx, id, id.Context, w)
	if err != nil && id.Panel != "" && id.Snapshot == "" && notReady(err) {
		a, err = o.ensure(ctx, id, w)
	}
	return a, id, err
}

// enter opens the gate of a context, or the snapshot of it that the caller reads.
func (o *opener) enter(ctx context.Context, caller panels.Identity, id contexts.ID, w contexts.Use) (*contexts.Access, error) {
	if caller.Snapshot == "" {
		return o.gate.Acquire(ctx, id, w)
	}
	if w == writes {
		return nil, &fserr.Error{Code: fserr.EROFS, Hint: "a snapshot does not change"}
	}
	return o.gate.AcquireSnapshot(ctx, id, caller.Snapshot, caller.SnapshotTaken)
}

// identify returns the caller, with the context that the call is about.
func identify(ctx context.Context, ctxID string) (panels.Identity, error) {
	id := panels.IdentityFrom(ctx)
	switch {
	case ctx.Err() != nil:
		return id, fserrpb.FromContext(ctx)
	case id.Role == panels.RoleNone:
		return id, errUnknownCaller
	case ctxID == "" && id.Context == "":
		return id, &fserr.Error{Code: fserr.EINVAL, Kind: fserr.KindContext, Detail: "no context", Hint: "set context_id, or send -H 'ctxfs-panel: NAME'"}
	case ctxID == "" || contexts.ID(ctxID) == id.Context:
		return id, nil
	case id.Panel != "" || id.Role == panels.RolePanel:
		return id, &fserr.Error{
			Code: fserr.EACCES, Kind: fserr.KindContext,
			Detail: fmt.Sprintf("context '%.200s' is not this panel's", strings.ToValidUTF8(ctxID, "\uFFFD")), Hint: "leave context_id empty",
		}
	}
	if _, err := contexts.ParseID(ctxID); err != nil {
		return id, err
	}
	id.Context = contexts.ID(ctxID)
	return id, nil
}

var errUnknownCaller = &fserr.Error{Code: fserr.EACCES, Detail: "the caller is not known"}

// notReady reports whether Ensure may make the context ready. Without the database it cannot.
func notReady(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ESTALE || code == fserr.EAGAIN && !contexts.IsUnrecorded(err)
}

// ensure seeds the panel's context and acquires it.
func (o *opener) ensure(ctx context.Context, id panels.Identity, w contexts.Use) (*contexts.Access, error) {
	if err := o.admit(ctx); err != nil {
		return nil, err
	}
	var opts contexts.EnsureOptions
	if contexts.DerivedFrom(id.Context, id.Panel) {
		opts.OwnerPanel = id.Panel
	}
	if _, err := o.gate.Ensure(ctx, id.Context, opts, nil); err != nil {
		return nil, err
	}
	return o.gate.Acquire(ctx, id.Context, w)
}

// reacquire opens the gate again for a file that was opened at a generation. If the context was replaced since, it fails with
// ESTALE.
func (o *opener) reacquire(ctx context.Context, id contexts.ID, generation uint64, w contexts.Use) (*contexts.Access, error) {
	if err := fserrpb.FromContext(ctx); err != nil {
		return nil, err
	}
	a, err := o.enter(ctx, panels.IdentityFrom(ctx), id, w)
	if err != nil {
		return nil, err
	}
	if a.Generation != generation {
		a.Release()
		return nil, contextReplaced(id)
	}
	return a, nil
}

// contextReplaced is the error of a file that was opened before its context was replaced.
func contextReplaced(id contexts.ID) error {
	return &fserr.Error{
		Code: fserr.ESTALE, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' was replaced since the file was opened", id), Hint: "open it again",
	}
}

// hold looks up a handle of the caller and keeps it open until release.
func (o *opener) hold(ctx context.Context, w contexts.Use, req fdRequest) (h *handles.Handle, release func(), err error) {
	id := panels.IdentityFrom(ctx)
	if id.Role == panels.RoleNone {
		return nil, nil, errUnknownCaller
	}
	if h, release, err = o.handles.Use(id.Owner, req.GetFd(), req.GetContextId()); err != nil {
		return nil, nil, err
	}
	if w == writes {
		if err := readOnly(id); err != nil {
			release()
			return nil, nil, err
		}
	}
	return h, release, nil
}

// readOnly refuses a change by an identity that may only read.
func readOnly(id panels.Identity) error {
	if !id.ReadOnly {
		return nil
	}
	return &fserr.Error{Code: fserr.EROFS, Hint: "this panel was opened read-only"}
}

// call is an operation on paths, behind the gate of its context.
type call struct {
	context.Context
	id         panels.Identity
	access     *contexts.Access
	root       rootfs.Root
	generation uint64
	locks      *fileLocks
	// closing ends when the context is about to be deleted.
	closing context.Context
	// path and dest as the request names them; below says that what is below path may change too.
	path, dest string
	below      bool
}

// admit charges the context for a further entry that is copied.
func (c *call) admit(st rootfs.Stat) error {
	if st.Type() != rootfs.TypeFile {
		return c.access.Charge(0, 1)
	}
	return c.access.Charge(allocated(st), 1)
}

// allocated returns the disk space of a file's copy that keeps its holes, in bytes.
func allocated(st rootfs.Stat) int64 { return min(st.Size, st.Blocks*512) }

// openStat opens the call's path and returns its attributes.
func (c *call) openStat(flags rootfs.Flags, mode uint32) (rootfs.File, rootfs.Stat, error) {
	if flags&(rootfs.O_CREAT|rootfs.O_TRUNC) == 0 {
		return c.root.OpenStat(c.path, flags)
	}
	f, err := c.root.OpenFile(c.path, flags, mode)
	if err != nil {
		return nil, rootfs.Stat{}, err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
	}
	return f, st, err
}

// run opens the gate and runs f.
func run[T any](ctx context.Context, o *opener, ctxID string, w contexts.Use, c *call, f func(*call) (T, error)) (T, error) {
	var none T
	a, id, err := o.acquire(ctx, ctxID, w)
	if err != nil {
		return none, err
	}
	defer a.Release()
	if w == writes {
		if err := readOnly(id); err != nil {
			return none, err
		}
		a.Touch(c.path, c.below)
		a.Touch(c.dest, true)
	}
	o.behind(ctx, c, id, a)
	return f(c)
}

// behind sets what a call has behind the gate.
func (o *opener) behind(ctx context.Context, c *call, id panels.Identity, a *contexts.Access) {
	c.Context, c.id, c.access, c.root, c.generation, c.locks, c.closing = ctx, id, a, a.Root, a.Generation, &o.locks, a.Closing()
}

type pathRequest interface {
	GetContextId() string
	GetPath() string
	GetRawPath() []byte
}

// onPath runs f for a request with one path. Errors name op and the path.
func onPath[T any](ctx context.Context, o *opener, op string, w contexts.Use, req pathRequest, f func(*call) (T, error)) (T, error) {
	path, err := pathOf(req.GetPath(), req.GetRawPath())
	var resp T
	if err == nil {
		resp, err = run(ctx, o, req.GetContextId(), w, &call{path: path, below: op == "rm"}, f)
	}
	return resp, failAt(err, op, path, "")
}

type destRequest interface {
	pathRequest
	GetDest() string
	GetRawDest() []byte
}

// onTwoPaths runs f for a request with path and dest, which changes something. Errors name op and both paths.
func onTwoPaths[T any](ctx context.Context, o *opener, op string, req destRequest, f func(*call) (T, error)) (T, error) {
	path, err := pathOf(req.GetPath(), req.GetRawPath())
	dest, destErr := oneOf("dest", req.GetDest(), req.GetRawDest())
	if err == nil {
		err = destErr
	}
	var resp T
	if err == nil {
		resp, err = run(ctx, o, req.GetContextId(), writes, &call{path: path, dest: dest, below: true}, f)
	}
	return resp, failAt(err, op, path, dest)
}

// handleCall is an operation on an open file, behind the gate of its context.
type handleCall struct {
	context.Context
	access *contexts.Access
	handle *handles.Handle
	locks  *fileLocks
}

type fdRequest interface {
	GetContextId() string
	GetFd() int32
}

// onHandle runs f for a request with a handle. It opens the gate for this operation alone. The handle must be of the context's
// present generation. Errors name op.
func onHandle[T any](ctx context.Context, o *opener, op string, w contexts.Use, req fdRequest, f func(*handleCall) (T, error)) (T, error) {
	resp, err := useHandle(ctx, o, w, req, f)
	return resp, failAt(err, op, "", "")
}

func useHandle[T any](ctx context.Context, o *opener, w contexts.Use, req fdRequest, f func(*handleCall) (T, error)) (T, error) {
	var none T
	h, release, err := o.hold(ctx, w, req)
	if err != nil {
		return none, err
	}
	defer release()
	a, err := o.reacquire(ctx, h.Context, h.Generation, w)
	if err != nil {
		return none, err
	}
	defer a.Release()
	if w == writes {
		a.Touch(h.Path, false)
	}
	return f(&handleCall{ctx, a, h, &o.locks})
}

// fail returns err as the status of a handler: about op, path and dest, with the names that Node gives.
func fail(err error, op, path, dest string) error {
	if err == nil {
		return nil
	}
	if _, done := err.(interface{ GRPCStatus() *status.Status }); done { // a status of a cause is not the error's own
		return err
	}
	var e *fserr.Error
	err = fserr.Wrap(err, op, path, dest)
	if errors.As(err, &e) && e.Code == fserr.ENAMETOOLONG && e.Hint == "" {
		e.Hint = fmt.Sprintf("a name has at most %d bytes, a path %d", rootfs.MaxName, rootfs.MaxPath)
	}
	return fserrpb.ToStatus(err)
}

// failAt is fail, but an error from at keeps its own operation and path.
func failAt(err error, op, path, dest string) error {
	if err == nil {
		return nil // errors.As allocates
	}
	var where *atError
	if errors.As(err, &where) {
		return fail(err, where.op, where.path, "")
	}
	return fail(err, op, path, dest)
}

// atError is an error with an operation and a path of its own.
type atError struct {
	error
	op, path string
}

func at(err error, op, path string) error {
	if err == nil {
		return nil
	}
	return &atError{fserr.Wrap(err, op, path, ""), op, path}
}

func (e *atError) Unwrap() error { return e.error }

// errNoRoom ends an operation whose reply does not fit into the memory budget now. inBudget waits for room and runs it again.
var errNoRoom = &fserr.Error{Code: fserr.EAGAIN, Detail: "no memory for the reply"}

// reserve counts n bytes of a reply before they are allocated. It fails with errNoRoom when there is no room. It never waits, since
// its caller keeps the context's gate open and may have locked a file.
func reserve(ctx context.Context, n int64) error {
	if budget.Of(ctx).Try(n) {
		return nil
	}
	return errNoRoom
}

// inBudget runs f, whose reply reserves memory. When there is no room, it waits for room with nothing open and nothing locked, and
// runs f again. f must not have changed anything when reserve fails.
func inBudget[T any](ctx context.Context, op string, f func() (T, error)) (T, error) {
	for {
		resp, err := f()
		h := budget.Of(ctx)
		n := h.Wanted()
		if n == 0 || err == nil {
			return resp, err
		}
		if err := h.Wait(ctx, n); err != nil {
			var none T
			return none, fail(budget.Refusal(err, "the reply"), op, "", "")
		}
	}
}
