package node

import (
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
type FileID struct{ dev, ino uint64 }

func (s Stat) ID() FileID { return FileID{s.Dev, s.Ino} }

// heldDir is a directory with several holders; the last one to let go closes it.
type Held struct {
	Node
	holders atomic.Int32
}

func Hold(n Node) *Held {
	h := &Held{Node: n}
	h.holders.Store(1)
	return h
}

func (h *Held) Share() *Held {
	h.holders.Add(1)
	return h
}

func (h *Held) Release() {
	if h.holders.Add(-1) == 0 {
		_ = h.Close()
	}
}

// trail is the chain of directories from the top of a recursive operation down
// to where it stands. The top is always open.
type Trail struct {
	levels []trailLevel
	// low is the first level below the top that, but for milestones, is open; all after it are, too.
	low int
}

type trailLevel struct {
	// name is the directory's within the level above.
	name string
	// reopen opens a directory that cannot be reached by name without following
	// a link; nil for all others.
	reopen func() (Node, error)
	dir    *Held
	id     FileID
}

// newTrail starts at top, which it takes over.
func NewTrail(top Node, id FileID) *Trail {
	return &Trail{levels: []trailLevel{{dir: Hold(top), id: id}}, low: 1}
}

// enter opens the directory name below the current one and returns its attributes.
func (t *Trail) Enter(name string) (Stat, error) {
	here, err := t.Here()
	if err != nil {
		return Stat{}, err
	}
	n, err := here.OpenDir(name)
	if err != nil {
		return Stat{}, err
	}
	st, err := n.Lstat("")
	if err != nil {
		_ = n.Close()
		return Stat{}, err
	}
	t.push(trailLevel{name: name, dir: Hold(n), id: st.ID()})
	return st, nil
}

func (t *Trail) push(l trailLevel) {
	t.levels = append(t.levels, l)
	if len(t.levels)-t.low >= maxOpenLevels {
		if !isMilestone(t.low) {
			t.letGo(t.low)
		}
		t.low++
	}
}

// descend goes down to dir, found as name; it takes dir over unless it fails.
func (t *Trail) Descend(name string, dir Node, id FileID) error {
	if t.Depth() >= maxWalkLevels {
		return fserr.ENAMETOOLONG
	}
	t.push(trailLevel{name: name, dir: Hold(dir), id: id})
	return nil
}

// jump goes down to dir, which is not found under name alone: reopen opens it again.
func (t *Trail) Jump(name string, dir Node, id FileID, reopen func() (Node, error)) {
	t.push(trailLevel{name: name, reopen: reopen, dir: Hold(dir), id: id})
}

// top returns the first directory.
func (t *Trail) Top() *Held { return t.levels[0].dir }

// path is the way from the top to the current directory, each name after a slash.
func (t *Trail) Path() string {
	var b strings.Builder
	for _, l := range t.levels[1:] {
		b.WriteString("/" + l.name)
	}
	return b.String()
}

// depth is the number of levels below the top.
func (t *Trail) Depth() int { return len(t.levels) - 1 }

func (t *Trail) letGo(level int) {
	if d := t.levels[level].dir; d != nil {
		d.Release()
		t.levels[level].dir = nil
	}
}

// leave goes back up one level.
func (t *Trail) Leave() {
	last := len(t.levels) - 1
	if last > 0 && t.levels[last-1].dir == nil && t.levels[last].dir != nil {
		t.climb(last - 1)
	}
	t.letGo(last)
	t.levels = t.levels[:last]
	t.low = max(1, min(t.low, last))
}

// climb opens level, which was let go, from the level below it. If that fails, here opens it by name.
func (t *Trail) climb(level int) {
	l := &t.levels[level]
	below := t.levels[level+1]
	if l.reopen != nil || below.reopen != nil {
		return
	}
	n, err := below.dir.Up()
	if err != nil {
		return
	}
	if st, err := n.Lstat(""); err != nil || st.ID() != l.id {
		_ = n.Close()
		return
	}
	l.dir = Hold(n)
}

// rewind goes back to the top.
func (t *Trail) Rewind() {
	for t.Depth() > 0 {
		t.Leave()
	}
}

// take returns the current directory, which is the caller's from then on; the
// trail is of no use after that but to be closed.
func (t *Trail) Take() (Node, error) {
	d, err := t.Here()
	if err != nil {
		return nil, err
	}
	t.levels[t.Depth()].dir = nil
	return d.Node, nil
}

// here returns the current directory. It stays the trail's; share it to keep it.
// ESTALE tells that the directory was let go and is no longer where it was.
func (t *Trail) Here() (*Held, error) {
	last := len(t.levels) - 1
	if t.levels[last].dir == nil {
		if err := t.reach(last); err != nil {
			return nil, err
		}
	}
	return t.levels[last].dir, nil
}

// open returns the current directory if it is open, else nil.
func (t *Trail) Opened() *Held { return t.levels[len(t.levels)-1].dir }

// reach opens the way down to level again, from the last directory that is
// still open, and keeps the end of it open.
func (t *Trail) reach(level int) error {
	start := level - 1
	for t.levels[start].dir == nil {
		start--
	}
	t.low = max(1, level-maxOpenLevels/2)
	at := t.levels[start].dir.Share()
	for i := start + 1; i <= level; i++ {
		next, err := t.reopen(at, i)
		at.Release()
		if err != nil {
			return err
		}
		if i >= t.low || isMilestone(i) {
			t.levels[i].dir = next.Share()
		}
		at = next
	}
	at.Release()
	return nil
}

func (t *Trail) reopen(parent *Held, level int) (*Held, error) {
	l := t.levels[level]
	open := l.reopen
	if open == nil {
		open = func() (Node, error) { return parent.OpenDir(l.name) }
	}
	n, err := open()
	if err != nil {
		return nil, stale(err)
	}
	if st, err := n.Lstat(""); err != nil || st.ID() != l.id {
		_ = n.Close()
		return nil, stale(err)
	}
	return Hold(n), nil
}

// stale is the error for a directory that was moved away while it was let go.
func stale(cause error) error {
	if Vanished(cause) || cause == nil {
		return &fserr.Error{Code: fserr.ESTALE, Detail: "a directory was moved away meanwhile", Hint: "repeat the call", Err: cause}
	}
	return cause
}

// close lets go of everything.
func (t *Trail) Close() {
	for len(t.levels) > 0 {
		t.Leave()
	}
}

// holds tells whether a directory is on the trail already.
func (t *Trail) Holds(id FileID) bool {
	for i := range t.levels {
		if t.levels[i].id == id {
			return true
		}
	}
	return false
}

// vanished tells that a name listed a moment ago is gone, or is no longer the
// directory (or the file) that it was.
func Vanished(err error) bool {
	switch fserr.CodeOf(err) {
	case fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP:
		return true
	}
	return false
}
