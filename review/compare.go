package review

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/git"
)

// Rules by which a path can never be applied.
const (
	BarredGit     = "git-directory"
	BarredState   = "state-directory"
	BarredSpecial = "special-file"
	BarredSetuid  = "setuid"
	BarredTooDeep = "path-too-long"
)

// Difference is a path at which a context and its base, or two other trees, differ.
type Difference struct {
	Path Path
	// Before and After are the versions; a zero one says that there is nothing. They have hashes unless the difference is barred, Unstable or a Tree.
	Before, After Version
	// Unstable says that another program wrote the file while it was read, or that it wrote so many large files that the call did not
	// read all of them, of the context and of its base.
	Unstable bool
	// Barred is the rule by which it can never be applied, "" when there is none.
	Barred string
	// Tree is set for a new directory that is ignored, which is one difference with all that it holds.
	Tree *TreeSize
	// gits are the git directories in Tree, at most maxGits.
	gits []Path
	// held are the contents of Before and After, as far as compare has kept them.
	held [2]*heldContent
}

// TreeSize counts the files and links in a directory, and their bytes.
type TreeSize struct{ Entries, Bytes int64 }

// comparison finds where a tree differs from a base.
type comparison struct {
	base *base
	root rootfs.Root
	// known has a mark for each entry of the layer's manifest that was found equal before. learned says that the comparison added one.
	known   seed.Marks
	learned bool
	// ignored reports whether the workspace's ignore files exclude a directory; nil means that trees are listed file by file.
	ignored func(dir Path) (bool, error)

	begun time.Time
	// directories are those of the tree that were looked at, above what is compared.
	directories map[Path]bool
	// seenAt says of each entry of the manifest whether the tree has it.
	seenAt []bool
	// room has the contents that the differences hold.
	room *room

	mu sync.Mutex // of what follows, and of ignored
	// seen is seenAt for paths that are not in the manifest.
	seen map[Path]bool
	// candidates are the files and links whose contents must be compared.
	candidates []candidate
	out        []Difference
	// later says that large files must be read first.
	later bool
	// alone has the barred paths of the tree. What the base has there cannot be compared.
	alone map[Path]bool
}

// candidate is a file or link whose content must be compared.
type candidate struct {
	path Path
	entry
}

// compare compares what is at each of the paths and below it; "" is everything. The differences are sorted by path. It fails with errLater if large files
// must be read first, all of which it has named by then.
func (c *comparison) compare(ctx context.Context, paths ...Path) ([]Difference, error) {
	c.begun, c.out, c.seen, c.directories, c.alone = time.Now(), nil, map[Path]bool{}, map[Path]bool{}, map[Path]bool{}
	c.base.order()
	if m := c.base.manifest; m != nil {
		c.seenAt = make([]bool, len(m.Entries))
		if len(c.known) != len(m.Entries) {
			c.known = make(seed.Marks, len(m.Entries))
		}
	}
	for _, p := range outermost(c.widened(paths)) {
		if err := c.side(ctx, p); err != nil {
			return nil, err
		}
		if err := c.contents(ctx); err != nil {
			return nil, err
		}
		for e := range c.base.below(p) {
			if c.isSeen(e) || c.isLeftAlone(e.path) {
				continue
			}
			v, err := c.base.version(ctx, e)
			unread := errors.Is(err, errUnstable)
			switch {
			case errors.Is(err, errLater):
				c.later = true
				continue
			case err != nil && !unread:
				return nil, err
			}
			c.out = append(c.out, Difference{Path: e.path, Before: v, Unstable: unread})
		}
	}
	if c.later {
		return nil, errLater
	}
	slices.SortFunc(c.out, func(a, b Difference) int { return cmp.Compare(a.Path, b.Path) })
	return c.out, ctx.Err()
}

// widened replaces each path below a barred one by that, and each path below a directory that the base does not have by that directory: these may be one
// difference.
func (c *comparison) widened(paths []Path) []Path {
	out := make([]Path, len(paths))
	for i, p := range paths {
		for at := range p {
			if p[at] == '/' && BarredName(p[:at]) != "" {
				p = p[:at]
				break
			}
		}
		out[i] = p
		if c.ignored == nil {
			continue
		}
		for at := range p {
			if p[at] == '/' && !c.base.has(p[:at]) {
				out[i] = p[:at]
				break
			}
		}
	}
	return out
}

// outermost sorts paths and drops those that are below another one.
func outermost(paths []Path) []Path {
	var out []Path
	paths = slices.Clone(paths)
	slices.SortFunc(paths, compareTrees)
	for _, p := range paths {
		if len(out) == 0 || !isWithin(p, out[len(out)-1]) {
			out = append(out, p)
		}
	}
	return out
}

// compareTrees orders paths so that what is below a directory follows it at once: a slash is the least byte.
func compareTrees(a, b Path) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		default:
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

func (c *comparison) isSeen(e entry) bool {
	if e.index >= 0 {
		return c.seenAt[e.index]
	}
	return c.seen[e.path]
}

// side visits what the tree has at p and below it.
func (c *comparison) side(ctx context.Context, p Path) error {
	if p != "" {
		if in, err := isInDirectories(c.root, p, c.directories); !in || err != nil {
			return err
		}
		st, err := c.root.Lstat(string(p))
		if isAbsent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		err = c.visit(ctx, p, st)
		if errors.Is(err, tree.SkipDir) || st.Type() != rootfs.TypeDirectory {
			return unlessSkip(err)
		}
		if err != nil {
			return err
		}
	}
	// Several goroutines walk the directories that lie two levels below p.
	var below []Path
	err := c.walk(ctx, p, splitDepth, func(q Path, depth int) {
		if depth == splitDepth {
			below = append(below, q)
		}
	})
	if err != nil {
		return err
	}
	return spread(ctx, len(below), 2, 1, func(i int) error { return c.walk(ctx, below[i], 0, func(Path, int) {}) })
}

// splitDepth is how many levels of directories one goroutine walks before several do.
const splitDepth = 2

// walk visits what is below p, so many levels deep; 0 is all. It calls entered with each directory that is not one difference, and its depth.
func (c *comparison) walk(ctx context.Context, p Path, levels int, entered func(q Path, depth int)) error {
	visited := false
	err := c.root.Walk(ctx, "/"+string(p), tree.WalkOptions{Stats: true, MaxDepth: levels}, func(rel string, e rootfs.Entry, walkErr error) error {
		visited = true
		q := Path(rel)
		if p != "" {
			q = p + "/" + q
		}
		if walkErr != nil {
			c.differ(Difference{Path: q, After: Version{Type: rootfs.TypeDirectory}, Barred: BarredTooDeep})
			return nil
		}
		if e.Stat == nil { // it vanished
			return nil
		}
		err := c.visit(ctx, q, *e.Stat)
		if err == nil && e.Stat.IsDir() {
			entered(q, 1+strings.Count(rel, "/"))
		}
		return err
	})
	switch {
	case err == nil || visited || p == "" || ctx.Err() != nil:
		return err
	case isAbsent(err): // it vanished
		return nil
	}
	c.differ(Difference{Path: p, After: Version{Type: rootfs.TypeDirectory}, Barred: BarredTooDeep})
	return nil
}

func (c *comparison) differ(d Difference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, d)
	if d.Barred != "" {
		c.alone[d.Path] = true
	}
}

// isLeftAlone reports whether a path of the base cannot be compared, and is therefore no difference: its name, or what the tree has at the path or above
// it, is barred.
func (c *comparison) isLeftAlone(p Path) bool {
	return BarredName(p) != "" || c.alone[p] || below(p, c.alone)
}

func unlessSkip(err error) error {
	if errors.Is(err, tree.SkipDir) {
		return nil
	}
	return err
}

// visit compares one path of the tree. It returns tree.SkipDir for a directory that is one difference.
func (c *comparison) visit(ctx context.Context, p Path, st rootfs.Stat) error {
	if BarredName(p) != "" && c.base.has(p) {
		return tree.SkipDir // it was seeded, and is not compared
	}
	if rule := barred(p, st); rule != "" {
		c.differ(Difference{Path: p, After: Version{Type: st.Type(), Mode: st.Perm()}, Barred: rule})
		return tree.SkipDir
	}
	if st.Type() == rootfs.TypeDirectory {
		return c.directory(ctx, p)
	}
	e := c.base.lookup(p)
	if e.index >= 0 {
		c.seenAt[e.index] = true
		if c.known[e.index].Is(st, &c.base.manifest.Entries[e.index]) {
			return nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.index < 0 {
		c.seen[p] = true
	}
	c.candidates = append(c.candidates, candidate{p, e})
	return nil
}

// contents compares the contents of the candidates.
func (c *comparison) contents(ctx context.Context) error {
	all := c.candidates
	c.candidates = nil
	return inParallel(ctx, len(all), func(i int) error { return c.content(ctx, all[i].path, all[i].entry) })
}

// content compares the contents of a file or link.
func (c *comparison) content(ctx context.Context, p Path, e entry) error {
	d := Difference{Path: p}
	after, st, err := readVersion(ctx, c.root, p, c.room.holding(c.base.store, &d.held[1]))
	d.After, d.Unstable = after, errors.Is(err, errUnstable)
	if isAbsent(err) {
		c.unsee(e)
		return nil
	}
	later := errors.Is(err, errLater)
	if err != nil && !d.Unstable && !later {
		return err
	}
	d.Before, err = c.base.read(ctx, e, c.room.holding(c.base.store, &d.held[0]))
	later = later || errors.Is(err, errLater)
	unread := errors.Is(err, errUnstable)
	if err != nil && !later && !unread {
		return err
	}
	d.Unstable = d.Unstable || unread
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case later: // the others are compared first
		c.later = true
		return nil
	case d.Unstable || !d.Before.Same(after):
		c.out = append(c.out, d)
		return nil
	case e.index >= 0 && seed.Settled(st.CtimeNs, c.begun):
		c.known[e.index], c.learned = seed.Mark{Ino: st.Ino, CtimeNs: st.CtimeNs}, true
	}
	for _, held := range d.held {
		c.room.takeContent(held)
	}
	return nil
}

// unsee makes an entry whose file vanished a deletion.
func (c *comparison) unsee(e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.index >= 0 {
		c.seenAt[e.index] = false
	}
	delete(c.seen, e.path)
}

// directory skips one that is new and ignored, as one difference.
func (c *comparison) directory(ctx context.Context, p Path) error {
	if c.ignored == nil || c.base.hasDir(p) {
		return nil
	}
	if ignored, err := c.isIgnored(p); err != nil || !ignored {
		return err
	}
	size := &TreeSize{}
	var gits []Path
	err := c.root.Walk(ctx, "/"+string(p), tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, walkErr error) error {
		if e.Type == rootfs.TypeDirectory && git.IsDotGit(rel[strings.LastIndexByte(rel, '/')+1:]) && len(gits) < maxGits {
			gits = append(gits, p+"/"+Path(rel))
		}
		if walkErr == nil && e.Stat != nil && e.Type != rootfs.TypeDirectory {
			size.Entries++
			size.Bytes += e.Stat.Size
		}
		return nil
	})
	if err != nil && !isAbsent(err) {
		return err
	}
	c.differ(Difference{Path: p, After: Version{Type: rootfs.TypeDirectory}, Tree: size, gits: gits})
	return tree.SkipDir
}

func (c *comparison) isIgnored(dir Path) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ignored(dir)
}

// contextsDir and stateDir are the names of the directory of contexts and of the server's state. They are barred wherever they stand.
const contextsDir, stateDir = ".contexts", ".ctxfs"

// setIDs are the bits that make a program run with another's rights.
const setIDs = 0o6000

// BarredName returns the rule by which a path can never be applied because of a name in it, "" when there is none.
func BarredName(p Path) string {
	for name := range strings.SplitSeq(string(p), "/") {
		if git.IsDotGit(name) {
			return BarredGit
		}
		if folded := git.FoldName(name); folded == contextsDir || folded == stateDir {
			return BarredState
		}
	}
	return ""
}

// barred returns the rule by which what stands at p can never be applied, "" when there is none. The directories above p are not barred.
func barred(p Path, st rootfs.Stat) string {
	if rule := BarredName(p[strings.LastIndexByte(string(p), '/')+1:]); rule != "" {
		return rule
	}
	switch st.Type() {
	case rootfs.TypeDirectory, rootfs.TypeSymlink:
		return ""
	case rootfs.TypeFile:
		if st.Mode&setIDs != 0 {
			return BarredSetuid
		}
		return ""
	}
	return BarredSpecial
}
