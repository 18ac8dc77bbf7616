package review

import (
	"context"
	"io"
	"maps"
	"math/bits"
	"path"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// A program that obeys .vscode/tasks.json obeys tools/vs/tasks.json as well if .vscode is a link to tools/vs. What follows finds the places that links
// with sensitive names lead to. Only such links are resolved, and links in what they lead to.

// linked marks the changes of what links with sensitive names lead to, in the base or in the context, which has the differences all. workspace is the
// directory that absolute targets may name.
func linked(ctx context.Context, changes []*Change, all []Difference, b *base, root rootfs.Root, workspace string) error {
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
		v := &linkView{links: links, workspace: workspace, targets: map[Path]string{}, at: map[Path]lead{}}
		if err := v.follow(ctx); err != nil {
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
	// targets has what was read of links; "" for one that is no link any more.
	targets map[Path]string
	// at says by which names programs find what is at a path, and below it. Paths are in lower case.
	at map[Path]lead
	// to are the paths, as the tree has them, whose leads have grown.
	to []Path
}

// lead says why a path is sensitive for the names that links give it. A path without one has the zero lead.
type lead struct {
	// is are the reasons of the path itself, below those of everything below it.
	is, below nameSet
	// above are the nameBeginnings that stand for the path.
	above nameSet
}

// nameSet is a set of reasons, or of nameBeginnings, by their place in the list.
type nameSet uint64

// in returns the members of a set from their list.
func (s nameSet) in(list []string) (out []string) {
	for ; s != 0; s &= s - 1 {
		out = append(out, list[bits.TrailingZeros64(uint64(s))])
	}
	return out
}

// setOf is the set of names of a list.
func setOf(names, list []string) (s nameSet) {
	for _, name := range names {
		s |= 1 << slices.Index(list, name)
	}
	return s
}

func (l lead) union(m lead) lead { return lead{l.is | m.is, l.below | m.below, l.above | m.above} }

// follow fills at.
func (v *linkView) follow(ctx context.Context) error {
	v.sorted = slices.Sorted(maps.Keys(v.links))
	for _, p := range v.sorted {
		if err := v.resolve(ctx, p, leadOf(string(p)), nil); err != nil {
			return err
		}
	}
	for len(v.to) > 0 {
		dir := v.to[len(v.to)-1]
		v.to = v.to[:len(v.to)-1]
		for _, p := range v.within(dir) {
			l := v.at[folded(dir)].child(folded(p)[len(childPrefix(folded(dir))):])
			if err := v.resolve(ctx, p, l, &dir); err != nil {
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
func (v *linkView) resolve(ctx context.Context, p Path, l lead, in *Path) error {
	if l == (lead{}) || ctx.Err() != nil {
		return ctx.Err()
	}
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
		if v.links[next] == nil {
			at = next
			continue
		}
		if hops++; hops > maxHops {
			return nil
		}
		if next != p {
			v.add(next, lead{is: l.is | l.below}, false)
		}
		target, err := v.target(next)
		if target == "" || err != nil {
			return err
		}
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

// target returns what a link leads to, "" if it is no link any more. It reads each link once.
func (v *linkView) target(p Path) (string, error) {
	if target, known := v.targets[p]; known {
		return target, nil
	}
	data, err := content(v.links[p])
	if err != nil && !isAbsent(err) {
		return "", err
	}
	v.targets[p] = string(data)
	return string(data), nil
}

// add adds to the lead of a path. Links below it are followed if it is what a link leads to.
func (v *linkView) add(p Path, l lead, isTarget bool) {
	before := v.at[folded(p)]
	has := before.union(l)
	v.at[folded(p)] = has
	if isTarget && has != before {
		v.to = append(v.to, p)
	}
}

// mark adds the reasons of the places that a change is in.
func (v *linkView) mark(c *Change) {
	p := folded(c.Path)
	if v.links[c.Path] != nil { // it may be one that the context removes
		c.Sensitive = append(c.Sensitive, sensitives.linkReasons(c.Path)...)
	}
	reasons := v.at[p].is
	for dir := p; dir != ""; {
		dir = parentOf(dir)
		if l := v.at[dir]; l != (lead{}) {
			reasons |= l.child(p[len(childPrefix(dir)):]).is
		}
	}
	c.Sensitive = append(c.Sensitive, reasons.in(ruleReasons)...)
	slices.Sort(c.Sensitive)
	c.Sensitive = slices.Compact(c.Sensitive)
}

// anyName stands for a name that no rule has.
const anyName = "\x00"

// leadOf returns the lead of what a link at this path leads to.
func leadOf(name string) (l lead) {
	name = strings.ToLower(name)
	l.is, l.below = setOf(sensitives.reasons(Path(name)), ruleReasons), setOf(sensitives.reasons(Path(name+"/"+anyName)), ruleReasons)
	for i, begin := range nameBeginnings {
		if name == begin || strings.HasSuffix(name, "/"+begin) {
			l.above |= 1 << i
		}
	}
	return l
}

// child is the lead of what is at a path below.
func (l lead) child(rest Path) lead {
	out := lead{is: l.below, below: l.below}
	for _, begin := range l.above.in(nameBeginnings) {
		out = out.union(leadOf(begin + "/" + string(rest)))
	}
	return out
}

// ruleReasons are the reasons of SensitiveRules.
var ruleReasons = []string{SensitiveHook, SensitiveScript, SensitiveSeeding, SensitiveWorkflow}

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
