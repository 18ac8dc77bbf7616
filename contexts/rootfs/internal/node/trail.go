package node

import (
	"strings"
	"sync/atomic"

	"github.com/ctxfs/ctxfs/fserr"
)

// A trail keeps open the last maxOpenLevels directories on its way down. Of those before, it keeps every milestoneth, up to
// maxMilestones of them. It closes the rest, and opens and verifies them again on the way back: depth costs time, never descriptors.
// To open a directory again, the trail asks the one below (Node.Up), or goes down from the milestone above.
const (
	maxOpenLevels = 64
	milestone     = 48
	maxMilestones = 48
)

// maxWalkLevels bounds how deep the resolution of one path may lead, links included: as deep as a path can name.
const maxWalkLevels = MaxPath / 2

func isMilestone(level int) bool { return level%milestone == 0 && level/milestone <= maxMilestones }

// FileID identifies a file within a machine.
type FileID struct{ dev, ino uint64 }

// ID returns the file's identity.
func (s Stat) ID() FileID { return FileID{s.Dev, s.Ino} }

// Held is a Node with several holders. The last holder's Release closes it.
type Held struct {
	Node
	holders atomic.Int32
}

// Hold takes over n for a first holder.
func Hold(n Node) *Held {
	h := &Held{Node: n}
	h.holders.Store(1)
	return h
}

// Share adds a holder.
func (h *Held) Share() *Held {
	h.holders.Add(1)
	return h
}

// Release ends one holder's use.
func (h *Held) Release() {
	if h.holders.Add(-1) == 0 {
		_ = h.Close()
	}
}

// Trail is the chain of directories from a top down to the current one. The top is always open.
type Trail struct {
	levels []trailLevel
	// low is the first level below the top from which on all are open. Above it, only milestones are.
	low int
}

type trailLevel struct {
	// name is the directory's name in the level above.
	name string
	// reopen opens a directory that only a link leads to; nil for all others.
	reopen func() (Node, error)
	dir    *Held
	id     FileID
}

// NewTrail starts at top, which it takes over.
func NewTrail(top Node, id FileID) *Trail {
	return &Trail{levels: []trailLevel{{dir: Hold(top), id: id}}, low: 1}
}

// Enter opens the directory name below the current one and returns its attributes.
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

// Descend goes down to dir, found as name, during the resolution of a path. It takes dir over unless it fails with ENAMETOOLONG.
func (t *Trail) Descend(name string, dir Node, id FileID) error {
	if t.Depth() >= maxWalkLevels {
		return fserr.ENAMETOOLONG
	}
	t.push(trailLevel{name: name, dir: Hold(dir), id: id})
	return nil
}

// Jump goes down to dir, which is behind a link called name. reopen opens it again.
func (t *Trail) Jump(name string, dir Node, id FileID, reopen func() (Node, error)) {
	t.push(trailLevel{name: name, reopen: reopen, dir: Hold(dir), id: id})
}

// Top returns the first directory.
func (t *Trail) Top() *Held { return t.levels[0].dir }

// Path returns the way from the top to the current directory, each name after a slash.
func (t *Trail) Path() string {
	var b strings.Builder
	for _, l := range t.levels[1:] {
		b.WriteString("/" + l.name)
	}
	return b.String()
}

// Depth returns the number of levels below the top.
func (t *Trail) Depth() int { return len(t.levels) - 1 }

func (t *Trail) letGo(level int) {
	if d := t.levels[level].dir; d != nil {
		d.Release()
		t.levels[level].dir = nil
	}
}

// Leave goes back up one level.
func (t *Trail) Leave() {
	last := len(t.levels) - 1
	if last > 0 && t.levels[last-1].dir == nil && t.levels[last].dir != nil {
		t.climb(last - 1)
	}
	t.letGo(last)
	t.levels = t.levels[:last]
	t.low = max(1, min(t.low, last))
}

// climb opens level, which was closed, from the level below it. If that fails, Here opens it by name.
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

// Rewind goes back to the top.
func (t *Trail) Rewind() {
	for t.Depth() > 0 {
		t.Leave()
	}
}

// Take gives the current directory to the caller. After that, the trail can only be closed.
func (t *Trail) Take() (Node, error) {
	d, err := t.Here()
	if err != nil {
		return nil, err
	}
	t.levels[t.Depth()].dir = nil
	return d.Node, nil
}

// Here returns the current directory. It stays the trail's; share it to keep it. Here fails with ESTALE if the trail has closed the
// directory and it is no longer where it was.
func (t *Trail) Here() (*Held, error) {
	last := len(t.levels) - 1
	if t.levels[last].dir == nil {
		if err := t.reach(last); err != nil {
			return nil, err
		}
	}
	return t.levels[last].dir, nil
}

// Opened returns the current directory if it is open, else nil.
func (t *Trail) Opened() *Held { return t.levels[len(t.levels)-1].dir }

// reach opens the way down to level again, from the last directory that is open, and keeps the end of it open.
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

// stale returns the error for a directory that was moved away while it was closed.
func stale(cause error) error {
	if Vanished(cause) || cause == nil {
		return &fserr.Error{Code: fserr.ESTALE, Detail: "a directory was moved away meanwhile", Hint: "repeat the call", Err: cause}
	}
	return cause
}

// Close closes all directories.
func (t *Trail) Close() {
	for len(t.levels) > 0 {
		t.Leave()
	}
}

// Holds reports whether a directory is on the trail already.
func (t *Trail) Holds(id FileID) bool {
	for i := range t.levels {
		if t.levels[i].id == id {
			return true
		}
	}
	return false
}

// Vanished reports whether err means that a name listed a moment ago is gone, or is no longer the directory or file that it was.
func Vanished(err error) bool {
	switch fserr.CodeOf(err) {
	case fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP:
		return true
	}
	return false
}
