package seed

import (
	"io"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// IgnoreFile is the name of the file whose gitignore patterns leave things out,
// in the workspace itself and in any folder that is copied.
const IgnoreFile = ".contextignore"

// maxIgnoreFile bounds what is read of an ignore file, in bytes.
const maxIgnoreFile = 1 << 20

// alwaysExcluded are left out at any depth.
var alwaysExcluded = map[string]bool{
	".git": true, "node_modules": true, ".cache": true, ".databases": true, ".contexts": true,
}

// Ignores holds the patterns that apply in each directory of a tree. It is for one goroutine.
type Ignores struct {
	root    rootfs.Root
	exclude gitignore.Matcher
	files   []string
	// levels has an entry for each directory that was entered; it is its parent's when it has no file of its own.
	levels map[string]*level
}

type level struct {
	patterns []gitignore.Pattern
	matcher  gitignore.Matcher
}

// NewIgnores returns the patterns of a tree: exclude, which hold at any depth, and those in files of these names in any directory.
func NewIgnores(root rootfs.Root, exclude []string, files ...string) *Ignores {
	return &Ignores{root: root, exclude: gitignore.NewMatcher(parsePatterns(exclude, nil)), files: files, levels: map[string]*level{}}
}

func parsePatterns(lines, domain []string) []gitignore.Pattern {
	var out []gitignore.Pattern
	for _, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		out = append(out, gitignore.ParsePattern(line, domain))
	}
	return out
}

// enter returns the patterns of dir, reading its ignore file the first time.
func (g *Ignores) enter(dir string) *level {
	if l, ok := g.levels[dir]; ok {
		return l
	}
	parent := &level{}
	if dir != "." {
		parent = g.enter(path.Dir(dir))
	}
	l := parent
	var own []gitignore.Pattern
	for _, name := range g.files {
		own = append(own, parsePatterns(g.read(path.Join(dir, name)), domainOf(dir))...)
	}
	if len(own) > 0 {
		l = &level{patterns: append(append([]gitignore.Pattern(nil), parent.patterns...), own...)}
		l.matcher = gitignore.NewMatcher(l.patterns)
	}
	g.levels[dir] = l
	return l
}

func domainOf(dir string) []string {
	if dir == "." {
		return nil
	}
	return strings.Split(dir, "/")
}

// read returns an ignore file's lines; one that cannot be read says nothing.
func (g *Ignores) read(name string) []string {
	f, st, err := g.root.OpenNoFollow(name, rootfs.O_RDONLY)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	if st.IsDir() {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\n")
}

// ReasonAnywhere returns why p or a directory above it is left out, "" when none is.
func (g *Ignores) ReasonAnywhere(p string) string {
	for i, c := range p {
		if c == '/' {
			if reason := g.Reason(p[:i], true); reason != "" {
				return reason
			}
		}
	}
	return g.Reason(p, false)
}

// Reason returns why p is left out, "" when it is not. The directories above it are not left out.
func (g *Ignores) Reason(p string, isDir bool) string {
	base := path.Base(p)
	if alwaysExcluded[base] {
		return base
	}
	parts := strings.Split(p, "/")
	if g.exclude.Match(parts, isDir) {
		return "--seed-exclude"
	}
	if l := g.enter(path.Dir(p)); l.matcher != nil && l.matcher.Match(parts, isDir) {
		return g.files[0]
	}
	return ""
}
