package fsservice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
)

// fail is the one way out of a handler: err as a status about op, path and dest,
// named as Node names the system call.
func fail(err error, op, path, dest string) error {
	if err == nil {
		return nil
	}
	if _, done := err.(interface{ GRPCStatus() *status.Status }); done { // a cause's status is not the error's own
		return err
	}
	var e *fserr.Error
	err = fserr.Wrap(err, op, path, dest)
	if errors.As(err, &e) && e.Code == fserr.ENAMETOOLONG && e.Hint == "" {
		e.Hint = fmt.Sprintf("a name has at most %d bytes, a path %d", rootfs.MaxName, rootfs.MaxPath)
	}
	return fserrpb.ToStatus(err)
}

// at names the operation and path of an error that is not about the handler's own.
// fail keeps them.
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

func invalid(format string, args ...any) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf(format, args...)}
}

// acquire opens the gate of the context that a call is about: ctxID, or the
// caller's own when that is empty. A panel's first access seeds. The identity's
// Context is the one acquired. The caller must Release the Access.
func (s *Service) acquire(ctx context.Context, ctxID string, w access) (*contexts.Access, panels.Identity, error) {
	id, err := identify(ctx, ctxID)
	if err != nil {
		return nil, id, err
	}
	a, err := s.gate.Acquire(ctx, id.Context, w)
	if err != nil && id.Panel != "" && notReady(err) {
		a, err = s.ensure(ctx, id, w)
	}
	return a, id, err
}

// identify says who calls and about which context.
func identify(ctx context.Context, ctxID string) (panels.Identity, error) {
	id := panels.IdentityFrom(ctx)
	switch {
	case ctx.Err() != nil:
		return id, fserrpb.FromContext(ctx)
	case id.Role == panels.RoleNone:
		return id, &fserr.Error{Code: fserr.EACCES, Detail: "the caller is not known"}
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

// notReady tells a context that Ensure may make ready from other failures.
func notReady(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ESTALE || code == fserr.EAGAIN
}

// ensure seeds the panel's context and acquires it.
func (s *Service) ensure(ctx context.Context, id panels.Identity, w access) (*contexts.Access, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	var opts contexts.EnsureOptions
	if contexts.DerivedFrom(id.Context, id.Panel) {
		opts.OwnerPanel = id.Panel
	}
	if _, err := s.gate.Ensure(ctx, id.Context, opts, nil); err != nil {
		return nil, err
	}
	return s.gate.Acquire(ctx, id.Context, w)
}

// reacquire opens the gate again for something that was opened at a generation;
// when the context was replaced since, that is ESTALE.
func (s *Service) reacquire(ctx context.Context, id contexts.ID, generation uint64, w access) (*contexts.Access, error) {
	if err := fserrpb.FromContext(ctx); err != nil {
		return nil, err
	}
	a, err := s.gate.Acquire(ctx, id, w)
	if err != nil {
		return nil, err
	}
	if a.Generation != generation {
		a.Release()
		return nil, &fserr.Error{
			Code: fserr.ESTALE, Kind: fserr.KindContext,
			Detail: fmt.Sprintf("context '%s' was replaced since the file was opened", id), Hint: "open it again",
		}
	}
	return a, nil
}

// readOnly refuses a change by an identity that may not make it.
func readOnly(id panels.Identity) error {
	if !id.ReadOnly {
		return nil
	}
	return &fserr.Error{Code: fserr.EROFS, Hint: "this panel was opened read-only"}
}

// pathOf returns the path of a request from its text and its bytes; one of them
// takes the other's place. "" is left for rootfs to refuse.
func pathOf(path string, raw []byte) (string, error) { return oneOf("path", path, raw) }

func oneOf(field, text string, raw []byte) (string, error) {
	if len(raw) == 0 {
		return text, nil
	}
	if text != "" {
		return "", invalid("%s and raw_%s are both set", field, field)
	}
	return string(raw), nil
}

// wirePath is pathOf's reverse: UTF-8 travels as text, other bytes as raw.
func wirePath(p string) (text string, raw []byte) {
	if utf8.ValidString(p) {
		return p, nil
	}
	return "", []byte(p)
}

// call is one operation behind the gate.
type call struct {
	context.Context
	id         panels.Identity
	access     *contexts.Access
	root       rootfs.Root
	generation uint64
	// closing ends when somebody wants to delete the context.
	closing context.Context
	// path and dest as the request names them.
	path, dest string
}

// admit asks whether the context may hold a further entry that is copied.
func (c *call) admit(st rootfs.Stat) error {
	if st.Type() != rootfs.TypeFile {
		return c.access.Charge(0, 1)
	}
	return c.access.Charge(allocated(st), 1)
}

// allocated is what a copy of a file takes, in bytes, that keeps its holes.
func allocated(st rootfs.Stat) int64 { return min(st.Size, st.Blocks*512) }

// openStat opens the call's path and tells what it found.
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

// access says whether an operation changes something.
type access = contexts.Use

const (
	reads  = contexts.Read
	writes = contexts.Write
)

// useOf returns how a request enters the gate whose method's effect depends on it.
func useOf(name string, req proto.Message) access {
	if method.Of(name).Changes(req) {
		return writes
	}
	return reads
}

// run opens the gate, does f, and gives its error op, path and dest.
func run[T any](ctx context.Context, s *Service, ctxID string, w access, c *call, f func(*call) (T, error)) (T, error) {
	var none T
	a, id, err := s.acquire(ctx, ctxID, w)
	if err != nil {
		return none, err
	}
	defer a.Release()
	if w == writes {
		if err := readOnly(id); err != nil {
			return none, err
		}
	}
	c.Context, c.id, c.access, c.root, c.generation, c.closing = ctx, id, a, a.Root, a.Generation, a.Closing()
	return f(c)
}

type pathRequest interface {
	GetContextId() string
	GetPath() string
	GetRawPath() []byte
}

// onPath runs f for a request with one path.
func onPath[T any](ctx context.Context, s *Service, op string, w access, req pathRequest, f func(*call) (T, error)) (T, error) {
	path, err := pathOf(req.GetPath(), req.GetRawPath())
	var resp T
	if err == nil {
		resp, err = run(ctx, s, req.GetContextId(), w, &call{path: path}, f)
	}
	return resp, failAt(err, op, path, "")
}

type destRequest interface {
	pathRequest
	GetDest() string
	GetRawDest() []byte
}

// onTwoPaths runs f for a request with path and dest, which changes something.
func onTwoPaths[T any](ctx context.Context, s *Service, op string, req destRequest, f func(*call) (T, error)) (T, error) {
	path, err := pathOf(req.GetPath(), req.GetRawPath())
	dest, destErr := oneOf("dest", req.GetDest(), req.GetRawDest())
	if err == nil {
		err = destErr
	}
	var resp T
	if err == nil {
		resp, err = run(ctx, s, req.GetContextId(), writes, &call{path: path, dest: dest}, f)
	}
	return resp, failAt(err, op, path, dest)
}

// failAt is fail, but an error that says where it happened (at) keeps its operation and path.
func failAt(err error, op, path, dest string) error {
	if err == nil {
		return nil // before the look for its place, which allocates
	}
	var where *atError
	if errors.As(err, &where) {
		return fail(err, where.op, where.path, "")
	}
	return fail(err, op, path, dest)
}
