package fsservice

import (
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

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
