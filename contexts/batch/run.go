package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// Batch is a batch in a context. Its life is New, Stage, Flip, Clean; before Flip it may end with Drop.
type Batch struct {
	plan    *plan
	places  *tree.Places
	journal *journal
	// hidden has the hidden directory of each zone; that of a context without zones has the key "".
	hidden  map[string]string
	count   int
	actions []action
	// Point is called after each phase with its name; nil is not called. Tests stop there.
	Point func(phase string)
}

// New plans a batch, and changes nothing. It fails with the error of the first step that fails.
func New(ctx context.Context, root rootfs.Root, steps []Step) (*Batch, error) {
	p, err := newPlan(ctx, root, steps)
	if err != nil {
		return nil, err
	}
	return &Batch{plan: p, hidden: map[string]string{}}, nil
}

// Cost is what a batch makes.
type Cost struct {
	// Size is the size of all new contents, Takes their space on the disk, in bytes: sparse files that are copied stay sparse. Both are at
	// most math.MaxInt64.
	Size, Takes int64
	// Entries counts files, directories and links.
	Entries int64
}

// Cost returns what Stage and Flip make.
func (b *Batch) Cost() (c Cost) {
	for _, o := range b.plan.ops {
		if o.made != nil || o.kind == opMkdir {
			c.Entries++
		}
		if o.made != nil && o.made.content != nil {
			c.Size, c.Takes = sum(c.Size, o.made.content.size), sum(c.Takes, o.made.content.takes)
		}
	}
	return c
}

// sum adds numbers that are not negative. A sum that is too large is math.MaxInt64: a sparse file may say that it has 8 EiB.
func sum(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

func (b *Batch) point(phase string) {
	if b.Point != nil {
		b.Point(phase)
	}
}

// Stage writes the new contents and the journal, in the directory dir. With sync the contents are on the disk afterwards. If it fails
// nothing is left of the batch.
func (b *Batch) Stage(ctx context.Context, dir string, sync bool) (err error) {
	if b.journal, err = beginJournal(dir, b.hide()); err != nil {
		return err
	}
	b.point("journal")
	b.places = tree.NewPlaces(b.plan.root)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Drop())
		}
	}()
	for _, hidden := range b.hidden {
		if err := b.places.Mkdir(hidden, 0o700); err != nil {
			return fserr.Wrap(err, "mkdir", path.Dir(hidden), "")
		}
	}
	for _, o := range b.plan.ops {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		a, err := b.stage(ctx, o, sync)
		if err != nil {
			return failed(o.step, &b.plan.steps[o.step], err)
		}
		a.step = o.step
		b.actions = append(b.actions, a)
		b.point("staged")
	}
	if err := b.journal.add(record{Actions: b.actions}); err != nil {
		return err
	}
	b.point("recorded")
	return b.journal.file.Sync()
}

// hide names the hidden directories that the batch needs: one in each zone that it changes. Recover knows by them that the journal is of
// this tree.
func (b *Batch) hide() (hidden []rawPath) {
	for _, o := range b.plan.ops {
		zone := b.zone(o)
		if b.hidden[zone] == "" {
			b.hidden[zone] = path.Join("/", zone, tree.SwapName())
			hidden = append(hidden, rawPath(b.hidden[zone]))
		}
	}
	return hidden
}

// zone returns the zone that an op changes; "" in a context without zones.
func (b *Batch) zone(o op) string {
	switch {
	case !b.plan.zoned:
		return ""
	case o.to != "":
		return zoneOf(o.to)
	}
	return zoneOf(o.from)
}

// stage prepares an op, and returns the action that it is.
func (b *Batch) stage(ctx context.Context, o op, sync bool) (action, error) {
	switch o.kind {
	case opAway:
		return action{Kind: actMove, From: rawPath(o.from), To: rawPath(b.hiddenName(o)), Dir: o.isDir}, nil
	case opMove:
		return action{Kind: actMove, From: rawPath(o.from), To: rawPath(o.to), Dir: o.isDir}, nil
	case opMkdir:
		return action{Kind: actMkdir, To: rawPath(o.to), Mode: o.mode}, nil
	case opChmod:
		return action{Kind: actChmod, To: rawPath(o.to), Mode: o.mode, Was: o.was}, nil
	}
	tmp := b.hiddenName(o)
	if o.made.content == nil {
		return action{Kind: actMove, From: rawPath(tmp), To: rawPath(o.to)}, b.places.Symlink(o.made.target, tmp)
	}
	file := tree.NewFile{From: o.made.content.from, Mode: o.made.mode, Like: o.made.like, Sync: sync}
	if file.From == "" {
		file.Content = bytes.NewReader(o.made.content.data)
	}
	st, err := b.places.Create(ctx, tmp, file)
	if o.kind == opReplace {
		return action{Kind: actExchange, From: rawPath(tmp), To: rawPath(o.to), Ino: st.Ino}, err
	}
	return action{Kind: actMove, From: rawPath(tmp), To: rawPath(o.to)}, err
}

// hiddenName returns a free name in the hidden directory.
func (b *Batch) hiddenName(o op) string {
	b.count++
	return path.Join(b.hidden[b.zone(o)], strconv.Itoa(b.count))
}

// ErrBroken says that a batch failed and could not be undone. Its journal is left for Recover.
var ErrBroken = errors.New("the changes of a batch could not be undone")

// Flip makes all changes, or none: then it fails with the error of a step. Only an error that is ErrBroken says that some are made. It
// returns the attributes of what each step wrote, if that is there after the last step, else nil.
func (b *Batch) Flip() ([]*rootfs.Stat, error) {
	for i, a := range b.actions {
		if err := b.journal.note(i + 1); err != nil {
			return nil, b.back(i, err)
		}
		b.point("begin")
		err := do(b.places, a)
		if err != nil {
			if errors.Is(err, rootfs.ErrHalfMoved) {
				i++
			}
			return nil, b.back(i, failed(a.step, &b.plan.steps[a.step], changedMeanwhile(err)))
		}
		b.point("done")
	}
	if err := b.journal.note(finished); err != nil {
		return nil, b.back(len(b.actions), err)
	}
	b.point("finished")
	return b.stats(), nil
}

// back undoes the first n actions because of an error, and returns it.
func (b *Batch) back(n int, because error) error {
	if err := undo(b.places, b.actions[:n], b.journal); err != nil {
		b.leave()
		return fmt.Errorf("%w: %w; %w", ErrBroken, because, err)
	}
	return errors.Join(because, b.Drop())
}

// changedMeanwhile explains an error that the plan excluded.
func changedMeanwhile(err error) error {
	switch code := fserr.CodeOf(err); code {
	case fserr.EEXIST, fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP:
		return &fserr.Error{Code: code, Hint: "a program changed the path during the batch; retry", Err: err}
	}
	return err
}

func (b *Batch) stats() []*rootfs.Stat {
	out := make([]*rootfs.Stat, len(b.plan.touched))
	for i, e := range b.plan.touched {
		if e == nil || !e.alive() {
			continue
		}
		if st, err := b.plan.root.Lstat(e.path()); err == nil {
			out[i] = &st
		}
	}
	return out
}

// do makes an action.
func do(p *tree.Places, a action) error {
	switch a.Kind {
	case actMove:
		return p.Move(string(a.From), string(a.To), a.Dir)
	case actExchange:
		return p.Exchange(string(a.From), string(a.To))
	case actMkdir:
		return p.Mkdir(string(a.To), a.Mode)
	case actChmod:
		return p.Chmod(string(a.To), a.Mode)
	}
	return fserr.Invalid("unknown action %q", a.Kind)
}

// undo puts back what actions did, the last first. All were made, but the last may not be begun, or be interrupted.
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
	from, to := string(a.From), string(a.To)
	switch a.Kind {
	case actMove:
		return moveBack(p, a)
	case actExchange:
		st, err := p.Lstat(from)
		if err != nil || st.Ino == a.Ino {
			return gone(err)
		}
		err = p.Exchange(from, to)
		if fserr.CodeOf(err) == fserr.ENOENT { // a program has removed what the step wrote
			err = gone(p.Move(from, to, false))
		}
		return err
	case actMkdir:
		return p.Remove(context.Background(), to)
	case actChmod:
		return gone(p.Chmod(to, a.Was))
	}
	return fserr.Invalid("unknown action %q", a.Kind)
}

// moveBack undoes a move. What a program has put in the old place since gives way: it is removed.
func moveBack(p *tree.Places, a action) error {
	from, to := string(a.From), string(a.To)
	if _, err := p.Lstat(to); err != nil {
		return gone(err)
	}
	if a.Dir { // a move of a lower directory that was interrupted leaves some of it
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

// gone ignores that something is not there, such as what a program has removed meanwhile.
func gone(err error) error {
	return tree.Ignoring(err, fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP)
}

// Drop ends a batch whose changes are not made, or undone.
func (b *Batch) Drop() error {
	if err := b.journal.note(0); err != nil {
		b.leave()
		return err
	}
	return b.Clean(context.Background())
}

// leave leaves the rest to Recover.
func (b *Batch) leave() {
	b.journal.keep()
	_ = b.places.Close() // closing a directory writes nothing
}

// Clean removes what the batch replaced, and the journal. A failure leaves the rest to Recover.
func (b *Batch) Clean(ctx context.Context) error {
	var dirs []rawPath
	for _, dir := range b.hidden {
		dirs = append(dirs, rawPath(dir))
	}
	err := errors.Join(removeHidden(ctx, b.places, dirs), b.places.Close())
	if err != nil {
		b.journal.keep()
		return err
	}
	b.point("cleaned")
	return b.journal.end()
}

func removeHidden(ctx context.Context, p *tree.Places, dirs []rawPath) error {
	for _, dir := range dirs {
		if err := p.Remove(ctx, string(dir)); err != nil {
			return fmt.Errorf("remove what a batch replaced: %w", err)
		}
	}
	return nil
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
		err = undo(p, r.Actions[:n], j)
	}
	if err == nil {
		if left := removeHidden(ctx, p, r.Hidden); left != nil {
			err = fmt.Errorf("%w: %w", ErrLeftovers, left)
		}
	}
	if err != nil {
		j.keep()
		return err
	}
	return j.end()
}

// isOf reports whether a journal is of the tree as it is: a restore replaces the tree, hidden directories included.
func isOf(p *tree.Places, r record) bool {
	for _, dir := range r.Hidden {
		if _, err := p.Lstat(string(dir)); err != nil {
			return false
		}
	}
	return true
}
