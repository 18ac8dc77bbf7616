package search

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// defaultMatches is max_matches when it is 0.
const defaultMatches = 100_000

// Glob calls found for each entry below base that matches, in the order of the walk. dir is the entry's directory as a virtual
// absolute path. A bad pattern is EINVAL. Directories that cannot be read are counted in the summary.
func Glob(
	ctx context.Context, root rootfs.Root, base string, req *ctxfsv1.GlobRequest, found func(dir string, e rootfs.Entry) error,
) (*ctxfsv1.GlobSummary, error) {
	base, err := root.Realpath(base)
	if err != nil {
		return nil, err
	}
	if len(req.GetPatterns()) == 0 {
		return nil, fserr.Invalid("no patterns: give at least one, such as **/*.go")
	}
	most, err := bound("max_matches", int64(req.GetMaxMatches()), defaultMatches)
	if err != nil {
		return nil, err
	}
	patterns, err := newGlobSet(base, req.GetPatterns(), false)
	if err != nil {
		return nil, err
	}
	exclude, err := newGlobSet(base, req.GetExclude(), false)
	if err != nil {
		return nil, err
	}
	reserve, done := budget.Names(ctx)
	defer done()
	sum := &ctxfsv1.GlobSummary{}
	err = root.Walk(ctx, base, tree.WalkOptions{Sorted: true, Reserve: reserve}, func(rel string, e rootfs.Entry, err error) error {
		if err != nil {
			sum.Unreadable++
			return nil
		}
		if exclude.match(rel) {
			return tree.SkipDir
		}
		if patterns.match(rel) {
			if sum.GetMatches() == most {
				sum.Truncated = true
				return errEnough
			}
			sum.Matches++
			if err := found(path.Join(base, path.Dir(rel)), e); err != nil {
				return err
			}
		}
		if e.Type == rootfs.TypeDirectory && !patterns.below(rel) {
			return tree.SkipDir
		}
		return nil
	})
	return sum, unlessEnough(err)
}

// bound returns a limit from a request: 0 means the default, less is EINVAL.
func bound(field string, n, standard int64) (int64, error) {
	switch {
	case n < 0:
		return 0, fserr.Invalid("%s is %d; give 1 or more, or 0 for %d", field, n, standard)
	case n == 0:
		return standard, nil
	}
	return n, nil
}

// errEnough ends a walk once max_matches were found.
var errEnough = errors.New("enough was found")

func unlessEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// globSet matches paths, relative to a base directory, with several doublestar patterns.
type globSet struct {
	base     string // virtual absolute path that relative patterns start from
	patterns []globPattern
}

type globPattern struct {
	text     string
	parts    []string
	absolute bool
	// nameOnly patterns have no slash and are matched with the last component.
	nameOnly bool
}

// Excluding returns whether a path below base, relative to it, matches one of the patterns. A pattern without a slash is matched with the
// name. It fails with EINVAL for a bad pattern.
func Excluding(base string, patterns []string) (func(rel string) bool, error) {
	set, err := newGlobSet(base, patterns, true)
	if err != nil {
		return nil, err
	}
	return set.match, nil
}

// newGlobSet checks the patterns; a bad one, or one with "..", is EINVAL. With names, a pattern without a slash is matched with an
// entry's name, as in gitignore.
func newGlobSet(base string, patterns []string, names bool) (*globSet, error) {
	set := &globSet{base: base}
	size := 0
	for _, text := range patterns {
		p, err := parseGlob(text)
		if err != nil {
			return nil, err
		}
		if size += len(p.text) * alternatives(p.text); size > maxGlobSet {
			return nil, &fserr.Error{
				Code: fserr.EINVAL, Detail: fmt.Sprintf("the patterns have more than %d bytes, each counted as often as its braces stand for patterns", maxGlobSet),
				Hint: "send fewer patterns, or use * and ** instead of braces",
			}
		}
		p.nameOnly = names && len(p.parts) == 1 && !p.absolute
		set.patterns = append(set.patterns, p)
	}
	return set, nil
}

const (
	// maxGlob bounds a pattern, in bytes; paths have the same bound.
	maxGlob = rootfs.MaxPath
	// maxAlternatives bounds the patterns that the braces of one stand for, and maxNesting how deep the braces nest. Matching tries
	// the alternatives one after the other and cannot be cancelled.
	maxAlternatives = 1000
	maxNesting      = 16
	// maxGlobSet bounds the bytes of all patterns of a list, each multiplied by its alternatives. Matching one path of 4 KiB with so
	// many bytes takes up to 250 ms, and a search looks for its caller's end between two paths.
	maxGlobSet = 256 << 10
)

func parseGlob(text string) (globPattern, error) {
	trimmed := strings.TrimLeft(text, "/")
	p := globPattern{absolute: trimmed != text, text: strings.TrimSuffix(path.Clean("/" + trimmed)[1:], "/")}
	switch {
	case text == "" || strings.ContainsRune(text, 0):
		return p, badGlob(text, "it is empty or has a NUL byte")
	case hasDotDot(trimmed):
		return p, badGlob(text, "'..' leads out of the directory; set path instead")
	case len(text) > maxGlob:
		return p, badGlob(text, fmt.Sprintf("it is longer than %d bytes", maxGlob))
	case alternatives(p.text) > maxAlternatives:
		return p, badGlob(text, fmt.Sprintf("its braces stand for more than %d patterns; send several", maxAlternatives))
	case !doublestar.ValidatePattern(p.text):
		return p, badGlob(text, "it is malformed; see https://github.com/bmatcuk/doublestar#patterns")
	}
	p.parts = splitGlob(p.text)
	return p, nil
}

func badGlob(text, why string) error { return fserr.Invalid("bad pattern %.200q: %s", text, why) }

func hasDotDot(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// alternatives counts the patterns that a pattern's braces stand for: groups that follow one another multiply. If there are more
// than maxAlternatives, or the braces nest too deep, it returns maxAlternatives+1.
func alternatives(text string) int {
	type group struct{ before, sum int }
	var open []group
	n := 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '{':
			open, n = append(open, group{before: n}), 1
		case c == ',' && len(open) > 0:
			open[len(open)-1].sum += n
			n = 1
		case c == '}' && len(open) > 0:
			g := open[len(open)-1]
			open, n = open[:len(open)-1], g.before*(g.sum+n)
		}
		if n > maxAlternatives || len(open) > maxNesting {
			return maxAlternatives + 1
		}
	}
	return n
}

// splitGlob splits a pattern at its slashes. It returns nil when a slash is inside braces or a class, where the parts alone would
// have another meaning.
func splitGlob(text string) []string {
	if strings.ContainsAny(text, "{[") && strings.ContainsRune(text, '/') && splitsGroup(text) {
		return nil
	}
	return strings.Split(text, "/")
}

func splitsGroup(text string) bool {
	depth := 0
	for _, c := range text {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '/':
			if depth > 0 {
				return true
			}
		}
	}
	return false
}

// match reports whether rel matches one of the patterns.
func (s *globSet) match(rel string) bool {
	for i := range s.patterns {
		if s.patterns[i].match(s.base, rel) {
			return true
		}
	}
	return false
}

func (p *globPattern) match(base, rel string) bool {
	switch {
	case p.nameOnly:
		return doublestar.MatchUnvalidated(p.text, path.Base(rel))
	case p.absolute:
		return doublestar.MatchUnvalidated(p.text, path.Join(base, rel)[1:])
	}
	return doublestar.MatchUnvalidated(p.text, rel)
}

// below reports whether something below the directory rel could match. A walk does not enter the other directories.
func (s *globSet) below(rel string) bool {
	for i := range s.patterns {
		if s.patterns[i].below(s.base, rel) {
			return true
		}
	}
	return false
}

func (p *globPattern) below(base, rel string) bool {
	if p.nameOnly || p.parts == nil {
		return true
	}
	if p.absolute {
		rel = path.Join(base, rel)[1:]
	}
	dirs := strings.Split(rel, "/")
	for i, dir := range dirs {
		if i >= len(p.parts) {
			return false
		}
		if p.parts[i] == "**" {
			return true
		}
		if !doublestar.MatchUnvalidated(p.parts[i], dir) {
			return false
		}
	}
	return len(p.parts) > len(dirs)
}
