package fsservice

import (
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// globSet matches paths, relative to a base directory, with several doublestar patterns.
type globSet struct {
	base     string // virtual absolute path that relative patterns count from
	patterns []globPattern
}

type globPattern struct {
	text     string
	parts    []string
	absolute bool
	// nameOnly patterns have no slash and are matched with the last component.
	nameOnly bool
}

// newGlobSet checks the patterns; a bad one, or one with "..", is EINVAL. With
// names, a pattern without a slash is matched with an entry's name, as in gitignore.
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
	// maxGlob bounds a pattern, in bytes: a path is no longer either.
	maxGlob = rootfs.MaxPath
	// maxAlternatives bounds the patterns that one stands for by its braces, and maxNesting how deep
	// those are: to match tries them one by one, and nobody can cancel that.
	maxAlternatives = 1000
	maxNesting      = 16
	// maxGlobSet bounds the bytes of all patterns of a list, each counted as often as it has alternatives. To match one path of 4 KiB
	// with so much takes up to 250 ms, and a search ends with its caller between two paths.
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

func badGlob(text, why string) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad pattern %.200q: %s", text, why)}
}

func hasDotDot(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// alternatives counts the patterns that braces stand for: those that follow one another
// multiply. What is more than maxAlternatives, or too deep, is maxAlternatives and one.
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

// splitGlob splits at slashes; nil when a slash stands inside braces or a class,
// so that the parts alone would mean something else.
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

// below reports whether something below the directory rel could match, so that
// a walk need not enter the others.
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
