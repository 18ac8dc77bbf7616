package fsservice

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/fserr"
)

const (
	// maxGrepPattern bounds an expression, in bytes, and maxGrepProgram what it is compiled to, in instructions. Together they bound
	// the memory of one: about 10 MiB while it is compiled, 2 MiB for each thread that searches with it.
	maxGrepPattern = 4 << 10
	maxGrepProgram = 10_000
)

// grepExpr is an expression to search lines for.
type grepExpr struct {
	// expr is compiled with (?m), so that it can search many lines at once.
	expr *regexp.Regexp
	// further finds the same behind the first character, in its first group.
	further func() *regexp.Regexp
	// literal is in every line that matches; empty when none is known. To look for it first is much quicker.
	literal []byte
	// piece is how much is searched at once, in bytes: what takes grepSteps. A longer line is searched by itself, so that the search
	// can end within it. short is how long a line may be whose matches are all looked for at once, which is quadratic.
	piece, short int
}

// compileGrep compiles an RE2 expression. EINVAL when it is empty, malformed or too large.
func compileGrep(pattern string, fixed, ignoreCase bool) (*grepExpr, error) {
	switch {
	case pattern == "":
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "pattern is empty", Hint: "give an RE2 expression"}
	case len(pattern) > maxGrepPattern:
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("pattern has %d bytes, more than %d", len(pattern), maxGrepPattern),
			Hint: "search for a part of it, or in several calls"}
	}
	if fixed {
		pattern = regexp.QuoteMeta(pattern)
	}
	flags := "(?m)"
	if ignoreCase {
		flags = "(?mi)"
	}
	tree, err := syntax.Parse(flags+"(?:"+pattern+")", syntax.Perl)
	if err != nil {
		return nil, badExpression(err)
	}
	tree = eachLine(tree)
	size := programSize(tree)
	if size > maxGrepProgram {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("pattern compiles to more than %d instructions", maxGrepProgram),
			Hint: "use smaller repetitions, such as a* for a{0,1000}"}
	}
	expr, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, badExpression(err)
	}
	e := &grepExpr{expr: expr, literal: requiredLiteral(expr.String())}
	e.further = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A(?s:.)(?s:.*?)(` + expr.String() + `)`) })
	e.piece = min(grepPiece, max(1, grepSteps/size))
	for e.short = 16; 4*e.short*e.short*size <= grepSteps; {
		e.short *= 2
	}
	return e, nil
}

func badExpression(err error) error {
	return &fserr.Error{Code: fserr.EINVAL, Err: err,
		Detail: fmt.Sprintf("bad expression: %v", err), Hint: "the syntax is RE2's; fixed_strings searches for plain text"}
}

// eachLine has "\A" and "\z" mean a line's beginning and end, whatever else is searched together with it, and removes groups: to
// keep where each matched would take memory.
func eachLine(tree *syntax.Regexp) *syntax.Regexp {
	for tree.Op == syntax.OpCapture {
		tree = tree.Sub[0]
	}
	switch tree.Op {
	case syntax.OpBeginText:
		tree.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		tree.Op = syntax.OpEndLine
	}
	for i, sub := range tree.Sub {
		tree.Sub[i] = eachLine(sub)
	}
	return tree
}

// programSize returns about how many instructions an expression is compiled to, at least 1, without compiling it; more than
// maxGrepProgram may be any such number.
func programSize(tree *syntax.Regexp) int {
	size := 0
	for _, sub := range tree.Sub {
		size = min(size+programSize(sub), maxGrepProgram+1)
	}
	switch tree.Op {
	case syntax.OpLiteral:
		size = len(tree.Rune)
	case syntax.OpConcat:
	case syntax.OpRepeat:
		size = size*max(1, tree.Min) + (size+1)*max(1, tree.Max-tree.Min)
	default:
		size += max(1, len(tree.Sub))
	}
	return min(max(1, size), maxGrepProgram+1)
}

// minLiteral is how long a literal is, in bytes, that is looked for before the expression:
// shorter ones stand in every other line.
const minLiteral = 3

// requiredLiteral returns the longest text that the expression says is in all that
// matches it; nil when there is none that is worth looking for.
func requiredLiteral(expr string) []byte {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil
	}
	if s := literalIn(re); len(s) >= minLiteral {
		return []byte(s)
	}
	return nil
}

func literalIn(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return plain(re)
	case syntax.OpCapture, syntax.OpPlus:
		return literalIn(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literalIn(re.Sub[0])
		}
	case syntax.OpConcat:
		longest := ""
		for _, sub := range re.Sub {
			if s := literalIn(sub); len(s) > len(longest) {
				longest = s
			}
		}
		return longest
	}
	return ""
}

// plain is a literal's text, unless other bytes match it too: those of another case, and
// for U+FFFD all that is not UTF-8. One across lines is in none of them.
func plain(re *syntax.Regexp) string {
	s := string(re.Rune)
	if re.Flags&syntax.FoldCase != 0 || strings.ContainsAny(s, "\n"+string(utf8.RuneError)) {
		return ""
	}
	return s
}
