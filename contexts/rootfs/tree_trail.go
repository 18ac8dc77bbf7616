package rootfs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ctxfs/ctxfs/fserr"
)

// What one trail holds open: the last maxOpenLevels directories on its way down
// and, of those before, every milestoneth up to maxMilestones of them. The rest
// are let go, and opened again, and verified, on the way back: depth costs time, never
// descriptors. A recursive operation opens such a directory as the parent of the one that it leaves
// (see up), all others open it from the milestone before it. A copy has two trails, the resolution of a path has one.
const (
	maxOpenLevels = 64
	milestone     = 48
	maxMilestones = 48
)

// maxWalkLevels is how deep the resolution of one path may lead, by way of links too:
// as deep as a path can name. It bounds what opening again can cost.
const maxWalkLevels = MaxPath / 2

func isMilestone(level int) bool { return level%milestone == 0 && level/milestone <= maxMilestones }

// fileID tells files apart within a machine.
type fileID struct{ dev, ino uint64 }

func (s Stat) id() fileID { return fileID{s.Dev, s.Ino} }

// heldDir is a directory with several holders; the last one to let go closes it.
type heldDir struct {
	dirNode
	holders atomic.Int32
}

func hold(n dirNode) *heldDir {
	h := &heldDir{dirNode: n}
	h.holders.Store(1)
	return h
}

func (h *heldDir) share() *heldDir {
	h.holders.Add(1)
	return h
}

func (h *heldDir) release() {
	if h.holders.Add(-1) == 0 {
		_ = h.Close()
	}
}

// trail is the chain of directories from the top of a recursive operation down
// to where it stands. The top is always open.
type trail struct {
	levels []trailLevel
	// low is the first level below the top that, but for milestones, is open; all after it are, too.
	low int
}

type trailLevel struct {
	// name is the directory's within the level above.
	name string
	// reopen opens a directory that cannot be reached by name without following
	// a link; nil for all others.
	reopen func() (dirNode, error)
	dir    *heldDir
	id     fileID
}

// newTrail starts at top, which it takes over.
func newTrail(top dirNode, id fileID) *trail {
	return &trail{levels: []trailLevel{{dir: hold(top), id: id}}, low: 1}
}

// enter opens the directory name below the current one and returns its attributes.
func (t *trail) enter(name string) (Stat, error) {
	here, err := t.here()
	if err != nil {
		return Stat{}, err
	}
	n, err := here.openDir(name)
	if err != nil {
		return Stat{}, err
	}
	st, err := n.lstat("")
	if err != nil {
		_ = n.Close()
		return Stat{}, err
	}
	t.push(trailLevel{name: name, dir: hold(n), id: st.id()})
	return st, nil
}

func (t *trail) push(l trailLevel) {
	t.levels = append(t.levels, l)
	if len(t.levels)-t.low >= maxOpenLevels {
		if !isMilestone(t.low) {
			t.letGo(t.low)
		}
		t.low++
	}
}

// descend goes down to dir, found as name; it takes dir over unless it fails.
func (t *trail) descend(name string, dir dirNode, id fileID) error {
	if t.depth() >= maxWalkLevels {
		return fserr.ENAMETOOLONG
	}
	t.push(trailLevel{name: name, dir: hold(dir), id: id})
	return nil
}

// jump goes down to dir, which is not found under name alone: reopen opens it again.
func (t *trail) jump(name string, dir dirNode, id fileID, reopen func() (dirNode, error)) {
	t.push(trailLevel{name: name, reopen: reopen, dir: hold(dir), id: id})
}

// top returns the first directory.
func (t *trail) top() *heldDir { return t.levels[0].dir }

// path is the way from the top to the current directory, each name after a slash.
func (t *trail) path() string {
	var b strings.Builder
	for _, l := range t.levels[1:] {
		b.WriteString("/" + l.name)
	}
	return b.String()
}

// depth is the number of levels below the top.
func (t *trail) depth() int { return len(t.levels) - 1 }

func (t *trail) letGo(level int) {
	if d := t.levels[level].dir; d != nil {
		d.release()
		t.levels[level].dir = nil
	}
}

// leave goes back up one level.
func (t *trail) leave() {
	last := len(t.levels) - 1
	if last > 0 && t.levels[last-1].dir == nil && t.levels[last].dir != nil {
		t.climb(last - 1)
	}
	t.letGo(last)
	t.levels = t.levels[:last]
	t.low = max(1, min(t.low, last))
}

// climb opens level, which was let go, from the level below it. If that fails, here opens it by name.
func (t *trail) climb(level int) {
	l := &t.levels[level]
	below := t.levels[level+1]
	if l.reopen != nil || below.reopen != nil {
		return
	}
	n, err := below.dir.up()
	if err != nil {
		return
	}
	if st, err := n.lstat(""); err != nil || st.id() != l.id {
		_ = n.Close()
		return
	}
	l.dir = hold(n)
}

// rewind goes back to the top.
func (t *trail) rewind() {
	for t.depth() > 0 {
		t.leave()
	}
}

// take returns the current directory, which is the caller's from then on; the
// trail is of no use after that but to be closed.
func (t *trail) take() (dirNode, error) {
	d, err := t.here()
	if err != nil {
		return nil, err
	}
	t.levels[t.depth()].dir = nil
	return d.dirNode, nil
}

// here returns the current directory. It stays the trail's; share it to keep it.
// ESTALE tells that the directory was let go and is no longer where it was.
func (t *trail) here() (*heldDir, error) {
	last := len(t.levels) - 1
	if t.levels[last].dir == nil {
		if err := t.reach(last); err != nil {
			return nil, err
		}
	}
	return t.levels[last].dir, nil
}

// open returns the current directory if it is open, else nil.
func (t *trail) open() *heldDir { return t.levels[len(t.levels)-1].dir }

// reach opens the way down to level again, from the last directory that is
// still open, and keeps the end of it open.
func (t *trail) reach(level int) error {
	start := level - 1
	for t.levels[start].dir == nil {
		start--
	}
	t.low = max(1, level-maxOpenLevels/2)
	at := t.levels[start].dir.share()
	for i := start + 1; i <= level; i++ {
		next, err := t.reopen(at, i)
		at.release()
		if err != nil {
			return err
		}
		if i >= t.low || isMilestone(i) {
			t.levels[i].dir = next.share()
		}
		at = next
	}
	at.release()
	return nil
}

func (t *trail) reopen(parent *heldDir, level int) (*heldDir, error) {
	l := t.levels[level]
	open := l.reopen
	if open == nil {
		open = func() (dirNode, error) { return parent.openDir(l.name) }
	}
	n, err := open()
	if err != nil {
		return nil, stale(err)
	}
	if st, err := n.lstat(""); err != nil || st.id() != l.id {
		_ = n.Close()
		return nil, stale(err)
	}
	return hold(n), nil
}

// stale is the error for a directory that was moved away while it was let go.
func stale(cause error) error {
	if vanished(cause) || cause == nil {
		return &fserr.Error{Code: fserr.ESTALE, Detail: "a directory was moved away meanwhile", Hint: "repeat the call", Err: cause}
	}
	return cause
}

// close lets go of everything.
func (t *trail) close() {
	for len(t.levels) > 0 {
		t.leave()
	}
}

// holds tells whether a directory is on the trail already.
func (t *trail) holds(id fileID) bool {
	for i := range t.levels {
		if t.levels[i].id == id {
			return true
		}
	}
	return false
}

// vanished tells that a name listed a moment ago is gone, or is no longer the
// directory (or the file) that it was.
func vanished(err error) bool {
	switch fserr.CodeOf(err) {
	case fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP:
		return true
	}
	return false
}

// stopped returns nil while ctx lasts, then ECANCELED or ETIMEDOUT saying what had been done.
func stopped(ctx context.Context, format string, done ...any) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	code := fserr.ECANCELED
	if errors.Is(err, context.DeadlineExceeded) {
		code = fserr.ETIMEDOUT
	}
	return &fserr.Error{Code: code, Detail: code.Text() + " after " + fmt.Sprintf(format, done...), Err: err}
}

// atRel adds where below the top something failed.
func atRel(err error, rel string) error {
	if err == nil || rel == "" {
		return err
	}
	var e *fserr.Error
	if !errors.As(err, &e) {
		e = &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	}
	c := *e
	if c.Detail == "" {
		c.Detail = c.Code.Text()
	}
	c.Detail += " at '" + rel + "'"
	return &c
}
