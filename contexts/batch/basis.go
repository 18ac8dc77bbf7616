package batch

import (
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// basis is a file or link as the plan knows it. Flip fails if a program has changed it since.
type basis struct {
	// st are its attributes before the batch.
	st rootfs.Stat
	// made is set for one that an earlier step makes; then st does not count.
	made *staged
	// moved says that an earlier step may have changed more than lasts.
	moved bool
}

// basis returns what an entry is when the next op begins; nil for a directory: programs may change what is in it.
func (e *entry) basis() *basis {
	if e.isDir() {
		return nil
	}
	b := &basis{st: e.st, made: e.made, moved: e.modeChanged || e.st.Nlink > 1} // another step may change another name of it
	for up := e; up != nil; up = up.parent {
		b.moved = b.moved || up.moved // with some overlays the move of a directory copies what is in it
	}
	return b
}

// attributes returns those before Flip. Those of a file that a step makes are known once it is staged.
func (b *basis) attributes() rootfs.Stat {
	if b.made != nil {
		return b.made.st
	}
	return b.st
}

// is reports whether a file has the attributes as they are before an op.
func (b *basis) is(now rootfs.Stat) bool {
	if b.made != nil || b.moved {
		return b.wasBefore(now)
	}
	return b.st.SameFile(now) && !b.st.Changed(now)
}

// wasBefore is as is, and allows for what the rename of a file changes: the change time, and with some overlays the inode.
func (b *basis) wasBefore(now rootfs.Stat) bool {
	st := b.attributes()
	return now.Type() == st.Type() && now.Size == st.Size && now.MtimeNs == st.MtimeNs
}

// reliance is a file whose content or attributes decided what a step does.
type reliance struct {
	step int
	// from is its path before the batch.
	from string
	was  basis
	// check is that of a Condition; nil without one.
	check func(st *rootfs.Stat) error
}

// verify fails if a program has changed a file on which the plan relies. No action is begun.
func (b *Batch) verify() error {
	for _, r := range b.plan.relied {
		now, err := b.places.Lstat(r.from)
		if err == nil && r.was.is(now) {
			continue
		}
		return failed(r.step, &b.plan.steps[r.step], r.changed(now, err))
	}
	return nil
}

// changed returns the error for a file that is not what it was: that of the condition if it does not hold any more.
func (r *reliance) changed(now rootfs.Stat, err error) error {
	is := &now
	switch {
	case gone(err) != nil:
		return err
	case err != nil:
		is = nil
	}
	if r.check != nil {
		if err := r.check(is); err != nil {
			return err
		}
	}
	return errChanged
}

// errChanged fails a batch, which is undone.
var errChanged = &fserr.Error{
	Code: fserr.ESTALE, Kind: fserr.KindCondition, Detail: "a program changed the file during the batch", Hint: "read the file again, and repeat the batch",
}

// checkBefore fails if what an action is about to change is not what the plan knows.
func (b *Batch) checkBefore(i int) error {
	was, a := b.plan.ops[i].was, b.actions[i]
	if was == nil {
		return nil
	}
	at := a.From
	if a.Kind == actExchange || a.Kind == actChmod {
		at = a.To
	}
	now, err := b.places.Lstat(string(at))
	if err == nil && !was.is(now) {
		err = errChanged
	}
	return err
}

// checkAfter fails if what an action has replaced or moved is not what the plan knows: a program was faster than checkBefore saw, or has
// changed it since, through a file that it has open.
func (b *Batch) checkAfter(i int) error {
	was, a := b.plan.ops[i].was, b.actions[i]
	if was == nil || a.Kind == actChmod {
		return nil
	}
	at := a.To
	if a.Kind == actExchange {
		at = a.From
	}
	now, err := b.places.Lstat(string(at))
	if err == nil && !was.wasBefore(now) {
		err = errChanged
	}
	return err
}

// checkReplaced is checkAfter for everything that Clean is going to remove.
func (b *Batch) checkReplaced() error {
	for i, a := range b.actions {
		if a.Kind != actExchange && a.Kind != actAway {
			continue
		}
		if err := b.checkAfter(i); err != nil {
			return failed(a.step, &b.plan.steps[a.step], err)
		}
	}
	return nil
}
