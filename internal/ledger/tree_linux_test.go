package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// node is what stands at a name.
type node struct {
	kind fs.FileMode // 0 a file, fs.ModeDir, fs.ModeSymlink
	perm fs.FileMode // of a link 0
	// text is a file's content, or a link's target.
	text string
	// mtime in ns is 0 when it is not known.
	mtime int64
	// id is the same for the names of one file, in a model; 0 means that there is no other name. In what was found on disk it is the inode.
	id uint64
	// names is the link count and ctime the time of the last change, of what was found on disk.
	names uint64
	ctime int64
}

func file(text string, perm fs.FileMode) node { return node{text: text, perm: perm} }
func dir(perm fs.FileMode) node               { return node{kind: fs.ModeDir, perm: perm} }
func link(target string) node                 { return node{kind: fs.ModeSymlink, text: target} }

// tree is what stands below a directory, by path without a leading slash.
type tree map[string]node

func (t tree) clone() tree { return maps.Clone(t) }

// with is t and one more name.
func (t tree) with(name string, n node) tree {
	c := t.clone()
	c[name] = n
	return c
}

// without is t less a name and what is below it.
func (t tree) without(name string) tree {
	c := t.clone()
	maps.DeleteFunc(c, func(p string, _ node) bool { return within(p, name) })
	return c
}

// within reports whether p is top or below it.
func within(p, top string) bool { return p == top || strings.HasPrefix(p, top+"/") }

// changed is t with a file changed, under all of its names.
func (t tree) changed(name string, change func(n *node)) tree {
	c := t.clone()
	n := c[name]
	id := n.id
	change(&n)
	c[name] = n
	for p, o := range c {
		if id != 0 && o.id == id {
			c[p] = n
		}
	}
	return c
}

// rewritten is t with other content in a file.
func (t tree) rewritten(name, text string) tree {
	return t.changed(name, func(n *node) { n.text, n.mtime = text, 0 })
}

// below returns what is in a directory, by path from it.
func (t tree) below(top string) tree {
	out := tree{}
	for p, n := range t {
		if rest, ok := strings.CutPrefix(p, top+"/"); ok {
			out[rest] = n
		}
	}
	return out
}

// moved is t with a name, and what is below it, at another, in place of what stood there.
func (t tree) moved(from, to string) tree {
	c := t.without(to)
	for p, n := range t {
		if within(p, from) {
			delete(c, p)
			c[to+strings.TrimPrefix(p, from)] = n
		}
	}
	return c
}

// paths are those for which ok holds, sorted.
func (t tree) paths(ok func(p string, n node) bool) []string {
	var out []string
	for p, n := range t {
		if ok(p, n) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// differ says in what got, found on disk, is not want, a model; "" when it is.
func differ(want, got tree) string {
	for _, p := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[p]
		if !ok {
			return p + " is missing"
		}
		if d := differs(want[p], g); d != "" {
			return p + " " + d
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[p]; !ok {
			return fmt.Sprintf("%s is there (%s), which should not be", p, got[p])
		}
	}
	return differentFiles(want, got)
}

func same(want, got tree) bool { return differ(want, got) == "" }

func differs(want, got node) string {
	switch {
	case want.kind != got.kind:
		return fmt.Sprintf("is of kind %v, not %v", got.kind, want.kind)
	case want.perm != got.perm:
		return fmt.Sprintf("has mode %o, not %o", got.perm, want.perm)
	case want.text != got.text:
		return fmt.Sprintf("holds %s, not %s", brief(got.text), brief(want.text))
	case want.mtime != 0 && want.mtime != got.mtime:
		return fmt.Sprintf("has mtime %d, not %d", got.mtime, want.mtime)
	}
	return ""
}

// differentFiles describes two names that should be one file and are not, or the reverse; "" if there are none. It compares
// inode numbers. An overlay shows a file's number in the layer while that has one name, and layers come and go that share the file: so two names of
// a file that was copied up can show two numbers. Then all else is the same.
func differentFiles(want, got tree) string {
	ofID, ofInode := map[uint64]string{}, map[uint64]string{}
	for _, p := range slices.Sorted(maps.Keys(want)) {
		w, inode := want[p], got[p].id
		if w.kind != 0 {
			continue
		}
		if first, ok := ofID[w.id]; w.id != 0 && ok && got[first].id != inode && !got[first].sameFile(got[p]) {
			return p + " is no name of its file any more"
		}
		if other, ok := ofInode[inode]; ok && (w.id == 0 || w.id != want[other].id) {
			return fmt.Sprintf("%s and %s are one file", p, other)
		}
		ofID[w.id], ofInode[inode] = p, p
	}
	return ""
}

// sameFile reports whether two nodes that were found on disk are one file with several names, by all but the inode number.
func (n node) sameFile(o node) bool {
	return n.names > 1 && n.names == o.names && n.ctime == o.ctime && n.mtime == o.mtime && n.perm == o.perm && n.text == o.text
}

func (n node) String() string {
	switch n.kind {
	case fs.ModeDir:
		return fmt.Sprintf("dir %o", n.perm)
	case fs.ModeSymlink:
		return "link " + n.text
	}
	return fmt.Sprintf("file %o %s", n.perm, brief(n.text))
}

func brief(text string) string {
	if len(text) <= 40 {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%d bytes %q…%q", len(text), text[:16], text[len(text)-16:])
}

// scan reads a directory of the disk.
func scan(top string) (tree, error) {
	t := tree{}
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == top {
			return err
		}
		n, err := look(path)
		t[path[len(top)+1:]] = n
		return err
	})
	return t, err
}

func look(path string) (node, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return node{}, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return node{}, errors.New("no inode is told of " + path)
	}
	n := node{kind: st.Mode().Type(), perm: st.Mode().Perm(), mtime: st.ModTime().UnixNano(), id: sys.Ino, names: uint64(sys.Nlink), ctime: sys.Ctim.Nano()}
	switch n.kind {
	case 0:
		text, err := os.ReadFile(path)
		n.text = string(text)
		return n, err
	case fs.ModeSymlink:
		n.text, err = os.Readlink(path)
		n.perm = 0
	}
	return n, err
}

// identify gives the files of a context their inode numbers in its upper directory, in which overlay-userns keeps all paths: without the kernel's
// index, two names of one file of the layer can show different numbers. A file that is not there was never written to and has one name.
func (t tree) identify(upper string) {
	for p, n := range t {
		st, err := os.Lstat(filepath.Join(upper, p))
		if err != nil {
			continue
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			n.id = sys.Ino
			t[p] = n
		}
	}
}

// asModel converts a tree found on disk to a model that the next steps can start from.
func (t tree) asModel() tree {
	names := map[uint64]int{}
	for _, n := range t {
		names[n.id]++
	}
	out := tree{}
	for p, n := range t {
		n.mtime = 0
		if n.kind != 0 || names[n.id] == 1 {
			n.id = 0
		}
		out[p] = n
	}
	return out
}
