package batch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// undo puts back what actions did, the last first. All were made, but the last may not be begun, or be interrupted. What a program has saved
// at the path of a file since stays there, as if the batch had never been.
func undo(p *tree.Places, actions []action, j *journal) error {
	for i, a := range slices.Backward(actions) {
		if err := undoOne(p, a); err != nil {
			return fmt.Errorf("undo %s: %w", a.Kind, err)
		}
		if err := j.note(i); err != nil {
			return err
		}
	}
	return nil
}

func undoOne(p *tree.Places, a action) error {
	switch a.Kind {
	case actExchange:
		return exchangeBack(p, a)
	case actPlace:
		return takeBack(p, a)
	case actAway:
		return giveBack(p, a)
	case actMove:
		return moveBack(p, a)
	case actMkdir:
		return tree.Ignoring(gone(p.Rmdir(string(a.To))), fserr.ENOTEMPTY, fserr.EEXIST) // a program has files in it
	case actChmod:
		return gone(p.Chmod(string(a.To), a.Was))
	}
	return fserr.Invalid("unknown action %q", a.Kind)
}

// exchangeBack undoes an exchange.
func exchangeBack(p *tree.Places, a action) error {
	from, to := string(a.From), string(a.To)
	old, err := p.Lstat(from)
	if err != nil || old.Ino == a.Ino { // it is undone, or not begun
		return gone(err)
	}
	now, err := p.Lstat(to)
	if err == nil && !a.moves(now) {
		return nil
	}
	err = p.Exchange(from, to)
	if fserr.CodeOf(err) == fserr.ENOENT { // a program has removed what the step wrote
		return gone(p.Move(from, to, false))
	}
	if err != nil {
		return gone(err)
	}
	if out, err := p.Lstat(from); err == nil && !a.moves(out) { // a program has saved between Lstat and Exchange
		return gone(p.Exchange(from, to))
	}
	return nil
}

// takeBack undoes a place.
func takeBack(p *tree.Places, a action) error {
	from, to := string(a.From), string(a.To)
	now, err := p.Lstat(to)
	if err != nil || !a.moves(now) {
		return gone(err)
	}
	if _, err := p.Lstat(from); err == nil { // it is not begun
		return nil
	}
	return gone(p.Move(to, from, false))
}

// giveBack undoes an away.
func giveBack(p *tree.Places, a action) error {
	if now, err := p.Lstat(string(a.From)); err == nil && !a.Dir && !now.IsDir() {
		return nil // a program has saved there, or it is not begun
	}
	return moveBack(p, a)
}

// moveBack undoes a move. What a program has put in the old place since gives way: it is removed.
func moveBack(p *tree.Places, a action) error {
	from, to := string(a.From), string(a.To)
	if _, err := p.Lstat(to); err != nil {
		return gone(err)
	}
	if !a.Dir {
		if old, err := p.Lstat(from); err == nil && a.moves(old) { // it is not begun
			return nil
		}
	}
	if a.Dir {
		if begun, err := a.begun(p); err != nil || !begun {
			return gone(err)
		}
		if err := p.Remove(context.Background(), from); err != nil {
			return err
		}
	}
	err := p.Move(to, from, a.Dir)
	if fserr.CodeOf(err) != fserr.EEXIST {
		return gone(err) // a program may have removed the directory that it was in
	}
	if err := p.Exchange(to, from); err != nil {
		return err
	}
	return p.Remove(context.Background(), to)
}

// begun reports whether the move of a directory was begun. What a program has put at To since is not what was moved: it has not all files
// that are at From. A move of a lower directory that was interrupted leaves some of them, which are at To as well.
func (a action) begun(p *tree.Places) (bool, error) {
	old, err := p.Lstat(string(a.From))
	if err != nil || a.Ino == 0 || old.Ino != a.Ino { // an earlier version's journal does not say
		return true, gone(err)
	}
	return p.Covers(context.Background(), string(a.From), string(a.To))
}

// moves reports whether a file is the one that the action puts at To, unchanged. An earlier version's journal does not say.
func (a action) moves(now rootfs.Stat) bool {
	return a.Mtime == 0 || !now.IsDir() && now.Size == a.Size && now.MtimeNs == a.Mtime
}

// gone ignores that something is not there, such as what a program has removed meanwhile.
func gone(err error) error {
	return tree.Ignoring(err, fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP)
}

// ErrLeftovers says that a batch is made or undone, and that what it replaced could not be removed. Only further batches must wait for that.
var ErrLeftovers = errors.New("what an earlier batch replaced could not be removed")

// Recover undoes, or cleans up after, the batch whose journal is in dir. The caller keeps everybody else out of the context. An error that
// is ErrLeftovers leaves the context as it should be.
func Recover(ctx context.Context, root rootfs.Root, dir string) error {
	j, r, err := openJournal(dir)
	if j == nil || err != nil {
		return err
	}
	p := tree.NewPlaces(root)
	defer func() { _ = p.Close() }() // closing a directory writes nothing
	if n := min(r.begun, len(r.Actions)); n > 0 && isOf(p, r) {
		if err = undo(p, r.Actions[:n], j); err == nil {
			err = flush(root, r.Actions[:n], true) // before the journal goes
		}
	}
	if err == nil {
		if left := removeHidden(ctx, p, r.Hidden, true); left != nil {
			err = fmt.Errorf("%w: %w", ErrLeftovers, left)
		}
	}
	if err != nil {
		j.keep()
		return err
	}
	return j.end()
}

// GiveUp ends the batch whose journal is in dir, after Recover has failed: it undoes what it can, and leaves the rest as it is. What could not
// be put back stays in directories of the context, whose names it returns. The caller keeps everybody else out of the context.
func GiveUp(ctx context.Context, root rootfs.Root, dir string) (kept []string, err error) {
	j, r, err := openJournal(dir)
	if j == nil || err != nil {
		return nil, err
	}
	p := tree.NewPlaces(root)
	defer func() { _ = p.Close() }() // closing a directory writes nothing
	var failures []error
	if n := min(r.begun, len(r.Actions)); n > 0 && isOf(p, r) {
		for _, a := range slices.Backward(r.Actions[:n]) {
			failures = append(failures, undoOne(p, a))
		}
	}
	for _, hidden := range r.Hidden {
		if errors.Join(failures...) == nil && p.Remove(ctx, string(hidden)) == nil {
			continue
		}
		name := path.Join(path.Dir(string(hidden)), keptPrefix+rand.Text())
		err := p.Move(string(hidden), name, true)
		if err == nil {
			kept = append(kept, name)
		}
		if gone(err) != nil {
			j.keep()
			return kept, fmt.Errorf("keep what a batch replaced: %w", err)
		}
	}
	return kept, j.end()
}

// keptPrefix begins the names of the directories that GiveUp leaves.
const keptPrefix = "ctxfs-batch-"

// isOf reports whether a journal is of the tree as it is: a restore replaces the tree, hidden directories included.
func isOf(p *tree.Places, r record) bool {
	for _, dir := range r.Hidden {
		if _, err := p.Lstat(string(dir)); err != nil {
			return false
		}
	}
	return true
}
