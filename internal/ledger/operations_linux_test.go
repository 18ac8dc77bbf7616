package ledger

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// operation plans what a worker may do next: the calls, nil when it is not possible now.
type operation struct {
	name string
	plan func(l *lane) []step
}

// operations are all that change something.
func operations() []operation {
	return slices.Concat(contentOperations(), nameOperations(), treeOperations(), attributeOperations(), handleOperations(), batchOperations(), archiveOperations())
}

// The places that lanes use. They are few, so that operations meet.
var (
	fileSlots = []string{"f0", "f1", "f2", "f3", "d0/x", "d0/y", "d1/x", "d1/s/z", "d2/x", "d2/s/z"}
	dirSlots  = []string{"d0", "d1", "d2", "d0/s", "d1/s", "d2/s"}
	linkSlots = []string{"l0", "l1", "d0/l"}
	// What the service's mask (022) leaves; chmod is not bound by it.
	filePerms = []fs.FileMode{0o600, 0o640, 0o644, 0o755}
	dirPerms  = []fs.FileMode{0o700, 0o750, 0o755}
	anyPerms  = []fs.FileMode{0o666, 0o664, 0o775, 0o777}
)

// chooser picks operations: a share that read, and of the others half of the time any, else the one that was in flight least often.
type chooser struct {
	mu         sync.Mutex
	all, reads []operation
	flight     map[string]int
	// reading is the share of those that read, of 1.
	reading float64
}

func newChooser() *chooser {
	return &chooser{all: operations(), reads: readOperations(), flight: map[string]int{}, reading: 0.05}
}

func (c *chooser) choose(rng *rand.Rand) operation {
	if rng.Float64() < c.reading {
		return c.reads[rng.IntN(len(c.reads))]
	}
	o := c.all[rng.IntN(len(c.all))]
	if rng.IntN(2) == 0 {
		return o
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for range 6 {
		if other := c.all[rng.IntN(len(c.all))]; c.flight[other.name] < c.flight[o.name] {
			o = other
		}
	}
	return o
}

func (c *chooser) saw(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flight[name]++
}

// text is content that nothing else holds, of a random length below limit.
func (l *lane) text(limit int) string {
	l.serial++
	unit := fmt.Sprintf("%s.%d;", l.name, l.serial)
	return strings.Repeat(unit, 1+l.rng.IntN(limit)/len(unit))
}

// content is mostly short.
func (l *lane) content() string {
	if l.rng.IntN(6) == 0 {
		return l.text(200 << 10)
	}
	return l.text(2 << 10)
}

func pick[T any](l *lane, from []T) T { return from[l.rng.IntN(len(from))] }

// one is a random path of those for which ok holds; "" when there is none.
func (l *lane) one(ok func(p string, n node) bool) string {
	if all := l.state.paths(ok); len(all) > 0 {
		return pick(l, all)
	}
	return ""
}

func isFile(_ string, n node) bool    { return n.kind == 0 }
func isDir(_ string, n node) bool     { return n.kind == fs.ModeDir }
func isSymlink(_ string, n node) bool { return n.kind == fs.ModeSymlink }

// free is a random slot where nothing stands, in a directory that is there; "" when there is none.
func (l *lane) free(slots []string) string {
	var all []string
	for _, s := range slots {
		_, taken := l.state[s]
		if parent := path.Dir(s); !taken && (parent == "." || l.state[parent].kind == fs.ModeDir) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return pick(l, all)
}

// empty reports whether a directory is empty.
func (l *lane) empty(dir string) bool { return len(l.state.below(dir)) == 0 }

// newID is for a file that gets a second name.
func (l *lane) newID() uint64 {
	l.serial++
	return uint64(l.serial)
}

// one step, where all names are there.
func single(s step, names ...string) []step {
	if slices.Contains(names, "") {
		return nil
	}
	return []step{s}
}

func nameOperations() []operation {
	return []operation{
		{"rename", renameFile}, {"rename over", renameOver}, {"rename directory", renameDir}, {"rename link", renameLink},
		{"unlink", func(l *lane) []step { return remove(l, "unlink", l.fsys.Unlink, l.one(notDir)) }},
		{"rmdir", func(l *lane) []step {
			return remove(l, "rmdir", l.fsys.Rmdir, l.one(func(p string, n node) bool { return isDir(p, n) && l.empty(p) }))
		}},
		{"mkdir", mkdir}, {"mkdtemp", mkdtemp}, {"symlink", symlink}, {"link", hardLink},
	}
}

func notDir(p string, n node) bool { return !isDir(p, n) }

func rename(l *lane, name, from, to string) []step {
	if from == "" || to == "" {
		return nil
	}
	return single(step{
		name: name, after: l.state.moved(from, to),
		do: func() error { return l.fsys.Rename(l.at(from), l.at(to)) },
	})
}

func renameFile(l *lane) []step { return rename(l, "rename", l.one(isFile), l.free(fileSlots)) }
func renameLink(l *lane) []step {
	return rename(l, "rename link", l.one(isSymlink), l.free(linkSlots))
}

// renameOver replaces another file; two names of one file would stay, as rename(2) says.
func renameOver(l *lane) []step {
	from := l.one(isFile)
	to := l.one(func(p string, n node) bool {
		return isFile(p, n) && p != from && (n.id == 0 || n.id != l.state[from].id)
	})
	return rename(l, "rename over", from, to)
}

func renameDir(l *lane) []step {
	from := l.one(isDir)
	to := l.one(func(p string, n node) bool { return isDir(p, n) && l.empty(p) && p != from })
	if to == "" || l.rng.IntN(3) > 0 {
		to = l.free(dirSlots)
	}
	if to == "" || within(to, from) || within(from, to) {
		return nil
	}
	steps := rename(l, "rename directory", from, to)
	if len(steps) > 0 && namespacestest.Inside() {
		steps[0].partly = leavesOld(from, steps[0].after)
	}
	return steps
}

func remove(l *lane, name string, call func(string) error, at string) []step {
	return single(step{name: name, after: l.state.without(at), do: func() error { return call(l.at(at)) }}, at)
}

func mkdir(l *lane) []step {
	at, perm := l.free(dirSlots), pick(l, dirPerms)
	return single(step{
		name: "mkdir", after: l.state.with(at, dir(perm)),
		do: func() error { return l.fsys.Mkdir(l.at(at), perm) },
	}, at)
}

const tempPrefix = "tmp-"

// mkdtemp makes a directory. Its name is known only from the answer.
func mkdtemp(l *lane) []step {
	temporary := func(p string, _ node) bool { return strings.HasPrefix(p, tempPrefix) }
	if len(l.state.paths(temporary)) > 3 {
		return nil
	}
	s := step{name: "mkdtemp", after: l.state, partly: func(before, got tree) bool {
		for p, n := range got {
			if _, old := before[p]; !old && temporary(p, n) && n.perm == 0o700 {
				return same(before.with(p, dir(0o700)), got)
			}
		}
		return false
	}}
	steps := []step{s}
	steps[0].do = func() error {
		made, err := l.fsys.MkdirTemp(l.at(tempPrefix))
		if err == nil {
			steps[0].after = l.state.with(strings.TrimPrefix(strings.TrimPrefix(made, "/"), l.name+"/"), dir(0o700))
		}
		return err
	}
	return steps
}

func symlink(l *lane) []step {
	at := l.free(linkSlots)
	l.serial++
	target := fmt.Sprintf("f%d", l.serial)
	return single(step{
		name: "symlink", after: l.state.with(at, link(target)),
		do: func() error { return l.fsys.Symlink(target, l.at(at)) },
	}, at)
}

func hardLink(l *lane) []step {
	from, to := l.one(isFile), l.free(fileSlots)
	if from == "" || to == "" {
		return nil
	}
	after := l.state
	if after[from].id == 0 {
		after = after.changed(from, func(n *node) { n.id = l.newID() })
	}
	return single(step{
		name: "link", after: after.with(to, after[from]),
		do: func() error { return l.fsys.Link(l.at(from), l.at(to)) },
	})
}

// copied is what a copy of n is: a file of its own, made now.
func copied(n node) node {
	n.id, n.mtime = 0, 0
	return n
}

func treeOperations() []operation {
	return []operation{{"cp", cp}, {"cp -r", cpTree}, {"cp -r over", cpOver}, {"rm", rm}, {"rm -r", rmTree}, {"mkdir -p", mkdirAll}}
}

func rm(l *lane) []step {
	at := l.one(notDir)
	return single(step{name: "rm", after: l.state.without(at), do: func() error {
		_, err := l.fsys.Rm(l.at(at), rmOne)
		return err
	}}, at)
}

func rmTree(l *lane) []step {
	at := l.one(isDir)
	return single(step{
		name: "rm -r", after: l.state.without(at), partly: fewer(at),
		do: func() error { return l.fsys.RemoveAll(l.at(at)) },
	}, at)
}

func mkdirAll(l *lane) []step {
	at, perm := pick(l, dirSlots)+"/deep/er", pick(l, dirPerms)
	after := l.state.clone()
	top := ""
	for p := at; p != "."; p = path.Dir(p) {
		if _, there := after[p]; !there {
			after[p], top = dir(perm), p
		}
	}
	if top == "" {
		return nil
	}
	return single(step{
		name: "mkdir -p", after: after, partly: more(top, after),
		do: func() error { return l.fsys.MkdirAll(l.at(at), perm) },
	})
}

func cpTree(l *lane) []step {
	from, to := l.one(isDir), l.free(dirSlots)
	if from == "" || to == "" || within(to, from) {
		return nil
	}
	after := l.state.with(to, l.state[from])
	for p, n := range l.state.below(from) {
		after[to+"/"+p] = copied(n)
	}
	return single(step{
		name: "cp -r", after: after, partly: more(to, maps.Clone(after)),
		do: func() error {
			_, err := l.fsys.Cp(l.at(from), l.at(to), cpAll)
			return err
		},
	})
}

// cpOver copies a tree over another: files that stand there are removed and made anew.
func cpOver(l *lane) []step {
	from := l.one(func(p string, n node) bool { return isDir(p, n) && !l.empty(p) })
	to := l.one(func(p string, n node) bool { return isDir(p, n) && !within(p, from) && !within(from, p) })
	if from == "" || to == "" {
		return nil
	}
	after := l.state.clone()
	for p, n := range l.state.below(from) {
		old, there := after[to+"/"+p]
		if there && (old.kind != n.kind || n.id != 0 && old.id == n.id) {
			return nil // a file over a directory, or over itself, is refused
		}
		n = copied(n)
		if there && n.kind == fs.ModeDir {
			n.perm = old.perm
		}
		after[to+"/"+p] = n
	}
	return single(step{
		name: "cp -r over", after: after, partly: merged(to, after),
		do: func() error {
			_, err := l.fsys.Cp(l.at(from), l.at(to), cpAll)
			return err
		},
	})
}
