package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
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
	// sync says that the batch must survive a power failure.
	sync bool
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

// Stage writes the new contents and the journal, in the directory dir. With sync they are on the disk afterwards, and the batch is there after a
// power failure once Flip has returned, and before that as a whole or not at all. If it fails nothing is left of the batch.
func (b *Batch) Stage(ctx context.Context, dir string, sync bool) (err error) {
	if b.journal, err = beginJournal(dir, b.hide()); err != nil {
		return err
	}
	b.point("journal")
	if b.sync = sync; sync { // the journal first: only it says that the hidden directories are to be removed
		if err := errors.Join(b.journal.file.Sync(), durable.Names(dir)); err != nil {
			return errors.Join(err, b.journal.end())
		}
	}
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
	if sync { // after a power failure any of the actions may have been made
		if err := errors.Join(b.journal.note(len(b.actions)), b.flushStaged()); err != nil {
			return err
		}
	}
	return b.journal.file.Sync()
}

// flushStaged flushes the new contents with the names that they have until Flip.
func (b *Batch) flushStaged() error {
	var paths []string
	for _, hidden := range b.hidden {
		paths = append(paths, hidden, path.Dir(hidden))
	}
	for _, a := range b.actions {
		if a.Kind == actPlace || a.Kind == actExchange {
			paths = append(paths, string(a.From))
		}
	}
	return tree.Flush(b.plan.root, paths)
}

// flush flushes what actions that were made, or undone, have changed: names, modes and files that were moved, which a program may have written just
// before. An overlay may have made the names in a directory again that was moved.
func flush(root rootfs.Root, actions []action, undone bool) error {
	changed, again := map[string]bool{}, map[string]bool{}
	for i, a := range actions {
		for _, p := range []rawPath{a.From, a.To} {
			if p == "" {
				continue
			}
			at := present(actions, i, string(p), undone)
			for dir := path.Dir(at); !changed[dir]; dir = path.Dir(dir) { // a program may have made those above just before
				changed[dir] = true
			}
			switch st, err := root.Lstat(at); {
			case err != nil:
			case a.Kind == actMkdir || a.Kind == actChmod || a.Kind == actMove && !a.Dir:
				changed[at] = true
			case a.Dir && st.Ino != a.Ino:
				again[at] = true
			}
		}
	}
	err := tree.Flush(root, slices.Collect(maps.Keys(changed)))
	for dir := range again {
		err = errors.Join(err, tree.FlushBelow(root, dir))
	}
	return err
}

// present returns where a path of action i is now. Further actions may have moved a directory above it. If all were undone, earlier ones had.
func present(actions []action, i int, at string, undone bool) string {
	carry := func(from, to rawPath) {
		if rest, ok := strings.CutPrefix(at, string(from)); ok && (rest == "" || rest[0] == '/') {
			at = string(to) + rest
		}
	}
	if undone {
		for _, a := range slices.Backward(actions[:i]) {
			if a.Dir {
				carry(a.To, a.From)
			}
		}
		return at
	}
	for _, a := range actions[i+1:] {
		if a.Dir {
			carry(a.From, a.To)
		}
	}
	return at
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
		return moving(actAway, o, b.hiddenName(o)), nil
	case opMove:
		return moving(actMove, o, o.to), nil
	case opMkdir:
		return action{Kind: actMkdir, To: rawPath(o.to), Mode: o.mode}, nil
	case opChmod:
		return action{Kind: actChmod, To: rawPath(o.to), Mode: o.mode, Was: o.oldMode}, nil
	}
	tmp := b.hiddenName(o)
	st, err := b.make(ctx, o.made, tmp, sync)
	o.made.st = st
	a := action{Kind: actPlace, From: rawPath(tmp), To: rawPath(o.to), Ino: st.Ino, Size: st.Size, Mtime: st.MtimeNs}
	if o.kind == opReplace {
		a.Kind = actExchange
	}
	return a, err
}

// moving is the action that moves what is at the path of an op.
func moving(kind actionKind, o op, to string) action {
	a := action{Kind: kind, From: rawPath(o.from), To: rawPath(to), Dir: o.isDir, Ino: o.ino}
	if o.was != nil {
		st := o.was.attributes()
		a.Size, a.Mtime = st.Size, st.MtimeNs
	}
	return a
}

// make makes a file or link in the hidden directory.
func (b *Batch) make(ctx context.Context, made *staged, tmp string, sync bool) (rootfs.Stat, error) {
	if made.content == nil {
		if err := b.places.Symlink(made.target, tmp); err != nil {
			return rootfs.Stat{}, err
		}
		return b.places.Lstat(tmp)
	}
	file := tree.NewFile{From: made.content.from, Mode: made.mode, Like: made.like, Sync: sync && made.mode&readable == 0}
	if file.From == "" {
		file.Content = bytes.NewReader(made.content.data)
	}
	return b.places.Create(ctx, tmp, file)
}

// readable is what the owner needs to open a file again, for flushStaged.
const readable = 0o400

// hiddenName returns a free name in the hidden directory.
func (b *Batch) hiddenName(o op) string {
	b.count++
	return path.Join(b.hidden[b.zone(o)], strconv.Itoa(b.count))
}

// ErrBroken says that a batch failed and could not be undone. Its journal is left for Recover.
var ErrBroken = errors.New("the changes of a batch could not be undone")

// Flip makes all changes, or none: then it fails with the error of a step. It fails with KindCondition if a program has changed a file that
// the plan relies on, or that the batch replaces. Only an error that is ErrBroken says that some changes are made. It returns the attributes
// of what each step wrote, if that is there after the last step, else nil.
func (b *Batch) Flip() ([]*rootfs.Stat, error) {
	if err := b.verify(); err != nil {
		return nil, b.back(0, err)
	}
	for i := range b.actions {
		if n, err := b.act(i); err != nil {
			return nil, b.back(n, err)
		}
		b.point("done")
	}
	if err := b.checkReplaced(); err != nil {
		return nil, b.back(len(b.actions), err)
	}
	if err := b.finish(); err != nil {
		return nil, b.back(len(b.actions), err)
	}
	b.point("finished")
	return b.stats(), nil
}

// finish notes that all actions are made. Nothing that they replaced goes before that is on the disk, if it should be.
func (b *Batch) finish() error {
	if !b.sync {
		return b.journal.note(finished)
	}
	return errors.Join(flush(b.plan.root, b.actions, false), b.journal.note(finished), b.journal.file.Sync())
}

// act makes an action. If it fails, the first n actions are to be undone.
func (b *Batch) act(i int) (n int, err error) {
	a := b.actions[i]
	if !b.sync {
		if err := b.journal.note(i + 1); err != nil {
			return i, err
		}
	}
	b.point("begin")
	n, err = i, b.checkBefore(i)
	if err == nil {
		b.point("checked")
		err = do(b.places, a)
		if err == nil || errors.Is(err, rootfs.ErrHalfMoved) {
			n++
		}
	}
	if err == nil {
		err = b.checkAfter(i)
	}
	if err != nil {
		err = failed(a.step, &b.plan.steps[a.step], changedMeanwhile(err))
	}
	return n, err
}

// back undoes the first n actions because of an error, and returns it.
func (b *Batch) back(n int, because error) error {
	err := undo(b.places, b.actions[:n], b.journal)
	if err == nil && b.sync {
		err = flush(b.plan.root, b.actions[:n], true)
	}
	if err != nil {
		b.leave()
		return fmt.Errorf("%w: %w; %w", ErrBroken, because, err)
	}
	return errors.Join(because, b.Drop())
}

// changedMeanwhile explains an error that the plan excluded.
func changedMeanwhile(err error) error {
	switch code := fserr.CodeOf(err); code {
	case fserr.EEXIST, fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP:
		return &fserr.Error{Code: code, Kind: fserr.KindCondition, Hint: "a program changed the path during the batch; retry", Err: err}
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
	case actMove, actPlace, actAway:
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
	err := errors.Join(removeHidden(ctx, b.places, dirs, b.sync), b.places.Close())
	if err != nil {
		b.journal.keep()
		return err
	}
	b.point("cleaned")
	return b.journal.end()
}

// removeHidden removes the hidden directories, with sync also from the disk: the journal goes next, and nothing else names them.
func removeHidden(ctx context.Context, p *tree.Places, dirs []rawPath, sync bool) error {
	for _, dir := range dirs {
		err := p.Remove(ctx, string(dir))
		if err == nil && sync {
			err = gone(p.Flush(string(dir)))
		}
		if err != nil {
			return fmt.Errorf("remove what a batch replaced: %w", err)
		}
	}
	return nil
}
