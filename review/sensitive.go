package review

import (
	"path"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/git"
)

// Reasons for which a change is applied only if it is selected by its own name.
const (
	// SensitiveWorkflow is of files that a CI or hosting service runs, or that say what it runs.
	SensitiveWorkflow = "workflow"
	// SensitiveHook is of files by which git, a shell, an editor or an agent runs or obeys something when a person commits, enters a directory, or opens it.
	SensitiveHook = "hook"
	// SensitiveScript is of files that say what a tool runs when a person builds, tests or installs.
	SensitiveScript = "package-script"
	// SensitiveSeeding is of files that say what later contexts get, and what counts as ignored.
	SensitiveSeeding    = "seeding"
	SensitiveExecutable = "executable"
	SensitiveLink       = "link-leaves-repository"
)

// nameIndex finds the rules that a path may match without comparing it with all of them. Names are in lower case, without the slash at their end.
type nameIndex struct {
	// exact has the names without a * in their last component, by that component.
	exact map[string][]sensitiveName
	// byStem has the names that end in ".*", by what is before it; byExtension has those that end in an extension without a *, by the extension.
	byStem, byExtension map[string][]sensitiveName
	// others are compared with each path.
	others []sensitiveName
}

// sensitiveName is a pattern for the last components of a path. What matches begins with prefix, which is faster to compare.
type sensitiveName struct {
	pattern, prefix, reason string
	components              int
}

func newNameIndex() nameIndex {
	return nameIndex{exact: map[string][]sensitiveName{}, byStem: map[string][]sensitiveName{}, byExtension: map[string][]sensitiveName{}}
}

func (x *nameIndex) add(pattern, reason string) {
	n := sensitiveName{pattern: pattern, prefix: pattern, reason: reason, components: strings.Count(pattern, "/") + 1}
	if i := strings.IndexAny(pattern, "*["); i >= 0 {
		n.prefix = pattern[:i]
	}
	base := path.Base(pattern)
	ext := path.Ext(base)
	stem, isStem := strings.CutSuffix(base, ".*")
	switch {
	case !strings.Contains(base, "*"):
		x.exact[base] = append(x.exact[base], n)
	case isStem && !strings.Contains(stem, "*"):
		x.byStem[stem] = append(x.byStem[stem], n)
	case ext != "" && !strings.Contains(ext, "*"):
		x.byExtension[ext] = append(x.byExtension[ext], n)
	default:
		x.others = append(x.others, n)
	}
}

// reasons appends the reasons of the names that a folded path ends in.
func (x *nameIndex) reasons(out []string, at string) []string {
	base := path.Base(at)
	out = matching(out, at, x.exact[base])
	out = matching(out, at, x.byExtension[path.Ext(base)])
	for i := range len(base) {
		if base[i] == '.' {
			out = matching(out, at, x.byStem[base[:i]])
		}
	}
	return matching(out, at, x.others)
}

func matching(out []string, at string, names []sensitiveName) []string {
	for _, n := range names {
		last := lastComponents(at, n.components)
		if !strings.HasPrefix(last, n.prefix) {
			continue
		}
		if ok, _ := path.Match(n.pattern, last); ok { // the patterns are good
			out = append(out, n.reason)
		}
	}
	return out
}

// lastComponents returns the last n components of a path, or all that it has.
func lastComponents(at string, n int) string {
	start := len(at) + 1
	for range n {
		start = strings.LastIndexByte(at[:start-1], '/') + 1
		if start == 0 {
			break
		}
	}
	return at[start:]
}

// sensitiveNames are the SensitiveRules: names of files, of directories, and of the directories that those of several components are in.
type sensitiveNames struct{ files, dirs, parents nameIndex }

var sensitives = func() sensitiveNames {
	s := sensitiveNames{newNameIndex(), newNameIndex(), newNameIndex()}
	for _, rule := range SensitiveRules {
		for _, name := range rule.Names {
			text, isDir := strings.CutSuffix(strings.ToLower(name), "/")
			if isDir {
				s.dirs.add(text, rule.Reason)
			} else {
				s.files.add(text, rule.Reason)
			}
			for above := path.Dir(text); above != "."; above = path.Dir(above) {
				s.parents.add(above, rule.Reason)
			}
		}
	}
	return s
}()

// foldPath spells a path as file systems do that ignore case or some characters. A backslash separates names on Windows.
func foldPath(p Path) string {
	names := strings.FieldsFunc(string(p), func(r rune) bool { return r == '/' || r == '\\' })
	for i, name := range names {
		names[i] = git.FoldName(name)
	}
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return name == "" }), "/") // "..." folds to nothing
}

// reasons returns why a path is sensitive by its name.
func (s *sensitiveNames) reasons(p Path) []string {
	at := foldPath(p)
	out := s.files.reasons(nil, at)
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		out = s.dirs.reasons(out, dir)
	}
	return out
}

// linkReasons returns why a link is sensitive by its name: programs find in it what they look for in a directory of the name, or of a name below.
func (s *sensitiveNames) linkReasons(p Path) []string {
	at := foldPath(p)
	return s.parents.reasons(s.dirs.reasons(nil, at), at)
}

// sensitive returns the reasons for which a reviewer must select the change by name.
func (c *Change) sensitive(after opener) []string {
	out := sensitives.reasons(c.Path)
	if c.After.Type == rootfs.TypeSymlink {
		out = append(out, sensitives.linkReasons(c.Path)...)
	}
	if c.After.Type == rootfs.TypeFile && c.After.Mode&executable != 0 && c.Before.Mode&executable == 0 {
		out = append(out, SensitiveExecutable)
	}
	if c.After.Type == rootfs.TypeSymlink && leaves(c.Path, after) {
		out = append(out, SensitiveLink)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// leaves reports whether a link's target is absolute, may lead out of the context, or into a repository's .git. A ".." behind a name may lead out: the
// name can be another link.
func leaves(p Path, target opener) bool {
	data, err := content(target)
	if err != nil || strings.HasPrefix(string(data), "/") || BarredName(Path(data)) != "" {
		return true
	}
	up := false
	for _, name := range slices.Backward(strings.Split(string(data), "/")) {
		switch name {
		case "..":
			up = true
		case "", ".":
		default:
			if up {
				return true
			}
		}
	}
	joined := path.Join(path.Dir(string(p)), string(data))
	return joined == ".." || strings.HasPrefix(joined, "../")
}

// repositories marks the files of what git would take for a repository without a working tree: a directory with HEAD, objects and refs. In such a
// directory git obeys config and runs hooks. has reports whether the context had a file before.
func repositories(changes []*Change, has func(Path) bool) {
	heads := map[Path]bool{}
	for _, c := range changes {
		if strings.EqualFold(path.Base(string(c.Path)), "HEAD") && c.After.Exists() {
			heads[parentOf(c.Path)] = true
		}
	}
	isRepository := func(dir Path) bool { return heads[dir] || has(Path(path.Join(string(dir), "HEAD"))) }
	for _, c := range changes {
		dir := parentOf(c.Path)
		switch strings.ToLower(path.Base(string(c.Path))) {
		case "head", "config", "config.worktree", "commondir", "packed-refs":
		default:
			if !strings.EqualFold(path.Base(string(dir)), "hooks") {
				continue
			}
			dir = parentOf(dir)
		}
		if isRepository(dir) && !slices.Contains(c.Sensitive, SensitiveHook) {
			c.Sensitive = append(c.Sensitive, SensitiveHook)
			slices.Sort(c.Sensitive)
		}
	}
}
