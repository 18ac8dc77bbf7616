package fsservice

import (
	"errors"
	"path"
	"strings"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// condition is what a request requires of a path before it changes something. The zero condition requires nothing.
type condition struct {
	// match is the etag that the file must have.
	match string
	// none says that nothing may have the name.
	none bool
}

// conditionOf returns the condition of a request's if_match and if_none_match.
func conditionOf(match, noneMatch string) (condition, error) {
	switch {
	case noneMatch != "" && noneMatch != "*":
		return condition{}, fserr.Invalid("if_none_match is %.40q; only \"*\" is possible", noneMatch)
	case noneMatch != "" && match != "":
		return condition{}, fserr.Invalid("if_match and if_none_match are both set")
	}
	return condition{match, noneMatch != ""}, nil
}

// destCondition is a request with conditions of its path and its dest.
type destCondition interface {
	GetIfMatch() string
	GetDestIfMatch() string
	GetDestIfNoneMatch() string
}

// destConditionOf returns the condition of a request's dest.
func destConditionOf(req destCondition) (condition, error) {
	return conditionOf(req.GetDestIfMatch(), req.GetDestIfNoneMatch())
}

// isCondition reports whether a condition did not hold.
func isCondition(err error) bool {
	var e *fserr.Error
	return errors.As(err, &e) && e.Kind == fserr.KindCondition
}

// empty reports whether nothing is required.
func (w condition) empty() bool { return w == condition{} }

// check compares the condition with what a path has: st and err are what Stat or Lstat have returned. It returns nil if the condition
// holds, a KindCondition error if it does not, or err.
func (w condition) check(generation uint64, st rootfs.Stat, err error) error {
	missing := fserr.CodeOf(err) == fserr.ENOENT
	switch {
	case w.empty() || w.none && missing:
		return nil
	case err != nil && !missing:
		return err
	case w.none:
		return &fserr.Error{
			Code: fserr.EEXIST, Kind: fserr.KindCondition, ETag: etagOf(generation, st), Detail: "file already exists, and if_none_match requires that it does not",
			Hint: "read it, and repeat the change with its etag as if_match, or choose another name",
		}
	case missing:
		return &fserr.Error{
			Code: fserr.ESTALE, Kind: fserr.KindCondition, Detail: "the file is gone, and if_match requires one",
			Hint: "repeat the change with if_none_match \"*\" to create it again",
		}
	}
	if now := etagOf(generation, st); now != w.match {
		return &fserr.Error{
			Code: fserr.ESTALE, Kind: fserr.KindCondition, ETag: now, Detail: "the file has changed: its etag is " + now + ", and not that of if_match",
			Hint: "read the file again, and repeat the change with its new etag",
		}
	}
	return nil
}

// missing returns the error of a path that cannot be opened: that of the condition if there is no file.
func (w condition) missing(generation uint64, err error) error {
	if fserr.CodeOf(err) != fserr.ENOENT {
		return err
	}
	if w.match == "" {
		return err
	}
	return w.check(generation, rootfs.Stat{}, err)
}

// target is a path that a call changes.
type target struct {
	path string
	// follow says that a final link is followed.
	follow bool
	want   condition
}

// errMoved ends an attempt to lock a path: it leads to another file now.
var errMoved = errors.New("the path leads elsewhere")

// guard keeps the targets as they are while the call changes them: no other call of the service replaces or removes them, and if a
// target has a condition, none changes its content either. It fails if a condition does not hold. The caller must unlock. guard waits
// until the call's context ends.
func (c *call) guard(targets ...target) (unlock func(), err error) {
	for {
		unlock, err := c.tryGuard(targets)
		if !errors.Is(err, errMoved) {
			return unlock, err
		}
		if err := fserrpb.FromContext(c); err != nil {
			return nil, err
		}
	}
}

// tryGuard fails with errMoved if a target is replaced before its locks are held.
func (c *call) tryGuard(targets []target) (unlock func(), err error) {
	use := c.useOf(targets)
	var wanted []wantedLock
	found := make([]rootfs.Stat, len(targets))
	for i, t := range targets {
		wanted = append(wanted, wantedLock{fileKey{context: c.id.Context, name: baseOf(t.path)}, use})
		if t.want.empty() {
			continue
		}
		st, err := c.look(t)
		if err == nil {
			found[i] = st
			wanted = append(wanted, wantedLock{keyOf(c.id.Context, st), use})
			wanted = append(wanted, c.linked(t, st)...)
		}
	}
	if unlock, err = c.locks.lockAll(c, wanted); err != nil {
		return nil, err
	}
	for i, t := range targets {
		if err := c.verify(t, found[i]); err != nil {
			unlock()
			return nil, err
		}
	}
	return unlock, nil
}

// useOf returns writes if a target has a condition: then the call has the names alone. Calls without one share them.
func (*call) useOf(targets []target) contexts.Use {
	for _, t := range targets {
		if !t.want.empty() {
			return writes
		}
	}
	return reads
}

// verify checks a target's condition, and that the path leads to the file that was found before.
func (c *call) verify(t target, found rootfs.Stat) error {
	if t.want.empty() {
		return nil
	}
	st, err := c.look(t)
	if err == nil && st.ID() != found.ID() {
		return errMoved
	}
	return t.want.check(c.generation, st, err)
}

// look returns the attributes of a target. Nothing may have the name if the condition says so, not even a link.
func (c *call) look(t target) (rootfs.Stat, error) {
	if t.follow && !t.want.none {
		return c.root.Stat(t.path)
	}
	return c.root.Lstat(t.path)
}

// verifyNow checks a condition of the call's path. It may cease to hold at any time.
func (c *call) verifyNow(want condition) error {
	if want.empty() {
		return nil
	}
	st, err := c.look(target{path: c.path, follow: true, want: want})
	return want.check(c.generation, st, err)
}

// taken returns err, or the error of the condition if err says that the name is taken.
func (c *call) taken(want condition, err error) error {
	if !want.none || fserr.CodeOf(err) != fserr.EEXIST || isCondition(err) {
		return err
	}
	if now := c.verifyNow(want); now != nil {
		return now
	}
	return err
}

// linked returns the lock of the name that a target which is a link leads to.
func (c *call) linked(t target, st rootfs.Stat) []wantedLock {
	own, err := c.root.Lstat(t.path)
	if err != nil || own.ID() == st.ID() {
		return nil
	}
	real, err := c.root.Realpath(t.path)
	if err != nil {
		return nil // the path does not lead there any more, which verify finds
	}
	return []wantedLock{{fileKey{context: c.id.Context, name: baseOf(real)}, writes}}
}

// baseOf returns the last component of a path, without its directory.
func baseOf(p string) string { return path.Base("/" + strings.TrimRight(p, "/")) }

// guarded runs change while the call guards the targets.
func guarded[T any](c *call, change func() (T, error), targets ...target) (T, error) {
	unlock, err := c.guard(targets...)
	if err != nil {
		var none T
		return none, err
	}
	defer unlock()
	return change()
}

// etag returns the etag of a path that was just changed; "" when it is gone already.
func (c *call) etag(path string, follow bool) string {
	st, err := c.look(target{path: path, follow: follow})
	if err != nil {
		return ""
	}
	return etagOf(c.generation, st)
}
