package review

import (
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// A program that obeys .vscode/tasks.json obeys tools/vs/tasks.json as well if .vscode is a link to tools/vs. What follows finds the places that links
// with sensitive names lead to. Only such links are resolved, and links in what they lead to.

// linked marks the changes of what links with sensitive names lead to, in the base or in the context, which has the differences all. workspace is the
// directory that absolute targets may name.
func linked(changes []*Change, all []Difference, b *base, root rootfs.Root, workspace string) error {
	if len(changes) == 0 {
		return nil
	}
	was := linksOf(b)
	trees := []map[Path]opener{was}
	now := maps.Clone(was)
	put := func(d Difference) {
		if _, had := was[d.Path]; !had && d.After.Type != rootfs.TypeSymlink {
			return
		}
		trees = []map[Path]opener{was, now}
		delete(now, d.Path)
		if d.After.Type == rootfs.TypeSymlink && d.Barred == "" {
			now[d.Path] = openerIn(root, d)
		}
	}
	for _, d := range all {
		put(d)
	}
	for _, links := range trees {
		v := &linkView{links: links, workspace: workspace, at: map[Path]*lead{}}
		if err := v.follow(); err != nil {
			return err
		}
		for _, c := range changes {
			v.mark(c)
		}
	}
	return nil
}

// linksOf returns the links of a base.
func linksOf(b *base) map[Path]opener {
	out := map[Path]opener{}
	for e := range b.below("") {
		if e.Type == rootfs.TypeSymlink {
			out[e.path] = func() (io.ReadCloser, error) { return b.open(e) }
		}
	}
	return out
}

// linkView finds what the links of one tree lead to.
type linkView struct {
	links     map[Path]opener
	workspace string
	// sorted are the paths of links.
	sorted []Path
	// at says by which names programs find what is at a path, and below it. Paths are in lower case.
	at map[Path]*lead
	// to are the paths, as the tree has them, whose leads have grown.
	to []Path
}

// lead says why a path is sensitive for the names that links give it.
type lead struct {
	// is are the reasons of the path itself, below those of everything below it.
	is, below map[string]bool
	// above are beginnings of sensitive names, such as ".github", that stand for the path.
	above map[string]bool
}

// follow fills at.
func (v *linkView) follow() error {
	v.sorted = slices.Sorted(maps.Keys(v.links))
	for _, p := range v.sorted {
		if l := leadOf(string(p)); !l.isEmpty() {
			if err := v.resolve(p, l, nil); err != nil {
				return err
			}
		}
	}
	for len(v.to) > 0 {
		dir := v.to[len(v.to)-1]
		v.to = v.to[:len(v.to)-1]
		for _, p := range v.within(dir) {
			l := v.at[folded(dir)].child(folded(p)[len(childPrefix(folded(dir))):])
			if l.isEmpty() {
				continue
			}
			if err := v.resolve(p, l, &dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// within returns the links below a directory.
func (v *linkView) within(dir Path) []Path {
	prefix := childPrefix(dir)
	from, _ := slices.BinarySearch(v.sorted, Path(prefix))
	to := from
	for to < len(v.sorted) && strings.HasPrefix(string(v.sorted[to]), prefix) {
		to++
	}
	return v.sorted[from:to]
}

// childPrefix is what the paths below a directory begin with.
func childPrefix(dir Path) string {
	if dir == "" {
		return ""
	}
	return string(dir) + "/"
}

func folded(p Path) Path { return Path(strings.ToLower(string(p))) }

// maxHops is how many links the kernel follows in one path.
const maxHops = 40

// resolve adds the lead of a link to what it leads to, and to the links that it leads through. A link in a directory that a link leads to is not followed
// to where it leads back above that directory.
func (v *linkView) resolve(p Path, l *lead, in *Path) error {
	rest := strings.Split(string(p), "/")
	at := Path("")
	for hops := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return nil // out of the tree
			}
			at = parentOf(at)
			continue
		}
		next := Path(path.Join(string(at), name))
		open, isLink := v.links[next]
		if !isLink {
			at = next
			continue
		}
		if hops++; hops > maxHops {
			return nil
		}
		if next != p {
			v.add(next, &lead{is: union(l.is, l.below)}, false)
		}
		data, err := content(open)
		if isAbsent(err) {
			return nil // it is no link any more
		}
		if err != nil {
			return err
		}
		target := string(data)
		if strings.HasPrefix(target, "/") {
			inside, ok := strings.CutPrefix(path.Clean(target)+"/", path.Clean(v.workspace)+"/")
			if !ok {
				return nil
			}
			target, at = inside, ""
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	if in == nil || !isWithin(*in, at) {
		v.add(at, l, true)
	}
	return nil
}

// add adds to the lead of a path. Links below it are followed if it is what a link leads to.
func (v *linkView) add(p Path, l *lead, isTarget bool) {
	has := v.at[folded(p)]
	if has == nil {
		has = &lead{map[string]bool{}, map[string]bool{}, map[string]bool{}}
		v.at[folded(p)] = has
	}
	before := has.size()
	maps.Copy(has.is, l.is)
	maps.Copy(has.below, l.below)
	maps.Copy(has.above, l.above)
	if isTarget && has.size() > before {
		v.to = append(v.to, p)
	}
}

// mark adds the reasons of the places that a change is in.
func (v *linkView) mark(c *Change) {
	p := folded(c.Path)
	reasons := map[string]bool{}
	if v.links[c.Path] != nil { // it may be one that the context removes
		reasons = setOf(sensitives.linkReasons(c.Path))
	}
	if l := v.at[p]; l != nil {
		maps.Copy(reasons, l.is)
	}
	for dir := p; dir != ""; {
		dir = parentOf(dir)
		if l := v.at[dir]; l != nil {
			maps.Copy(reasons, l.child(p[len(childPrefix(dir)):]).is)
		}
	}
	c.Sensitive = slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(c.Sensitive, maps.Keys(reasons)))))
}

// anyName stands for a name that no rule has.
const anyName = "\x00"

// leadOf returns the lead of what a link at this path leads to.
func leadOf(name string) *lead {
	name = strings.ToLower(name)
	l := &lead{is: setOf(sensitives.reasons(Path(name))), below: setOf(sensitives.reasons(Path(name + "/" + anyName))), above: map[string]bool{}}
	for _, begin := range nameBeginnings {
		if name == begin || strings.HasSuffix(name, "/"+begin) {
			l.above[begin] = true
		}
	}
	return l
}

// child is the lead of what is at a path below.
func (l *lead) child(rest Path) *lead {
	out := &lead{is: maps.Clone(l.below), below: maps.Clone(l.below), above: map[string]bool{}}
	for begin := range l.above {
		c := leadOf(begin + "/" + string(rest))
		maps.Copy(out.is, c.is)
		maps.Copy(out.below, c.below)
		maps.Copy(out.above, c.above)
	}
	return out
}

func (l *lead) size() int { return len(l.is) + len(l.below) + len(l.above) }

func (l *lead) isEmpty() bool { return l.size() == 0 }

func setOf(names []string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

func union(sets ...map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, s := range sets {
		maps.Copy(out, s)
	}
	return out
}

// nameBeginnings are the directories above the sensitive names of several components, in lower case.
var nameBeginnings = func() []string {
	var out []string
	for _, rule := range SensitiveRules {
		for _, name := range rule.Names {
			for dir := path.Dir(strings.ToLower(strings.TrimSuffix(name, "/"))); dir != "."; dir = path.Dir(dir) {
				out = append(out, dir)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}()
