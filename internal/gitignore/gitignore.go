// Package gitignore reads the patterns of gitignore(5) and matches paths with them as git does, byte by byte. It opens no file. The time of
// a match is at most proportional to the length of the pattern multiplied by that of the path, whatever the pattern.
//
// Git's documentation leaves cases open, such as a class without an end. There the package does what git does: its tests compare it with
// "git check-ignore".
package gitignore

import (
	"bytes"
	"strings"
)

// Verdict is what patterns say of a path.
type Verdict int8

// The verdicts.
const (
	// Silent says that no pattern matches.
	Silent Verdict = iota
	// Excluded says that the last pattern that matches excludes the path.
	Excluded
	// Included says that the last pattern that matches begins with "!".
	Included
)

// Patterns are those of one ignore file. They do not change and are safe for concurrent use.
type Patterns struct {
	dir      string
	foldCase bool
	list     []pattern
}

// Parse reads the text of an ignore file that lies in dir, "" for the root of the tree. With foldCase, the ASCII letters of both cases
// match as they do in git with core.ignoreCase. Every text can be parsed: a malformed pattern matches nothing.
func Parse(text []byte, dir string, foldCase bool) *Patterns {
	p := &Patterns{dir: dir, foldCase: foldCase}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if one, ok := parse(string(bytes.TrimSuffix(line, []byte("\r"))), foldCase); ok {
			p.list = append(p.list, one)
		}
	}
	return p
}

// IsEmpty reports whether there are no patterns.
func (p *Patterns) IsEmpty() bool { return len(p.list) == 0 }

// Match says what the patterns say of a path, relative to the root of the tree. What they say of the directories above it does not count.
// Paths that are not below the directory of the patterns are Silent.
func (p *Patterns) Match(path string, isDir bool) Verdict {
	if p.dir != "" {
		rest, ok := strings.CutPrefix(path, p.dir+"/")
		if !ok {
			return Silent
		}
		path = rest
	}
	if p.foldCase {
		path = lower(path)
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(p.list) - 1; i >= 0; i-- {
		one := &p.list[i]
		text := path
		if one.nameOnly {
			text = name
		}
		switch {
		case one.dirOnly && !isDir || !one.glob.match(text):
		case one.negative:
			return Included
		default:
			return Excluded
		}
	}
	return Silent
}

// pattern is one line.
type pattern struct {
	glob glob
	// negative patterns begin with "!", and dirOnly ones end with "/". nameOnly ones have no other slash and are matched with the last
	// component of a path.
	negative, dirOnly, nameOnly bool
}

// parse returns false for a line that has no pattern.
func parse(line string, foldCase bool) (p pattern, ok bool) {
	line, _, _ = strings.Cut(line, "\x00") // to git, a line is a C string
	line = trimSpaces(line)
	if strings.HasPrefix(line, "#") {
		return p, false
	}
	line, p.negative = strings.CutPrefix(line, "!")
	line, p.dirOnly = strings.CutSuffix(line, "/")
	p.nameOnly = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	p.glob = compile(line, p.nameOnly, foldCase)
	return p, true
}

// trimSpaces removes spaces at the end, up to one that a backslash quotes. A backslash at the very end keeps all.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}

// glob is a pattern for wildmatch, git's own kind of fnmatch(3). The bytes before its first special one are its head. They are compared apart
// from the rest, as git does: therefore "a**/b" matches "ax/y/b", although gitignore(5) gives "**" no meaning after a letter.
type glob struct {
	head   string
	tokens []token
	// tail are the bytes that each match ends with, and least is how many bytes the tokens match at least.
	tail  string
	least int
	// never is set if the rest is malformed.
	never bool
}

// token matches a byte or, if it is a star, any number of bytes.
type token struct {
	kind kind
	char byte
	set  *set
}

type kind int8

const (
	char kind = iota
	// anyByte and oneOf match a byte other than "/".
	anyByte
	oneOf
	// star matches bytes other than "/", and deepStar all bytes.
	star
	deepStar
	// slash follows a deepStar. Both together match nothing, or what ends with "/".
	slash
)

// compile reads a glob. In a name "**" is "*".
func compile(text string, isName, foldCase bool) (g glob) {
	n := strings.IndexAny(text, `*?[\`)
	if n < 0 {
		n = len(text)
	}
	g.head, text = text[:n], text[n:]
	if foldCase {
		g.head = lower(g.head)
	}
	for i := 0; i < len(text); i++ {
		t := token{char: text[i]}
		switch text[i] {
		case '*':
			begin := i
			for i+1 < len(text) && text[i+1] == '*' {
				i++
			}
			t.kind = star
			rest := text[i+1:]
			if isDeep := i > begin && (begin == 0 || text[begin-1] == '/') && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)); isDeep && !isName {
				t.kind = deepStar
			}
		case '?':
			t.kind = anyByte
		case '[':
			t.kind, t.set = oneOf, &set{}
			if i = t.set.parse(text, i+1, foldCase); i == len(text) {
				return glob{never: true}
			}
		case '\\':
			if i++; i == len(text) {
				return glob{never: true}
			}
			t.char = text[i] // git does not fold its case
		case '/':
			if n := len(g.tokens); n > 0 && g.tokens[n-1].kind == deepStar {
				t.kind = slash
			}
		default:
			if foldCase {
				t.char = lowerByte(t.char)
			}
		}
		g.tokens = append(g.tokens, t)
	}
	g.measure()
	return g
}

// measure sets tail and least.
func (g *glob) measure() {
	var tail []byte
	for _, t := range g.tokens {
		if t.kind == char {
			tail = append(tail, t.char)
		} else {
			tail = tail[:0]
		}
		if t.kind <= oneOf {
			g.least++
		}
	}
	g.tail = string(tail)
}

// match reports whether the glob matches the whole text, whose case is folded already.
func (g *glob) match(text string) bool {
	text, ok := strings.CutPrefix(text, g.head)
	switch {
	case g.never || !ok || len(text) < g.least || !strings.HasSuffix(text, g.tail):
		return false
	case len(g.tokens) == 0:
		return text == ""
	}
	// reached[n] says that the first n tokens match the text up to here.
	var few [64]bool
	reached := few[:]
	if len(g.tokens) >= len(few) {
		reached = make([]bool, len(g.tokens)+1)
	}
	reached = reached[:len(g.tokens)+1]
	reached[0] = true
	g.skip(reached)
	for i := range len(text) {
		if !g.step(reached, text[i]) {
			return false
		}
	}
	return reached[len(g.tokens)]
}

// skip lets the tokens that may match nothing do so, at the beginning of the text.
func (g *glob) skip(reached []bool) {
	for n := range g.tokens {
		switch g.tokens[n].kind {
		case star, deepStar:
			reached[n+1] = reached[n]
		case slash:
			reached[n+1] = reached[n-1]
		}
	}
}

// step goes on by one byte of the text. It returns false if nothing can match any more.
func (g *glob) step(reached []bool, c byte) (alive bool) {
	before := reached[0] // what reached[n] was before the step
	reached[0] = false
	for n := range g.tokens {
		t, was := &g.tokens[n], reached[n+1]
		switch t.kind {
		case char:
			reached[n+1] = before && c == t.char
		case anyByte:
			reached[n+1] = before && c != '/'
		case oneOf:
			reached[n+1] = before && t.set.has(c)
		case star:
			reached[n+1] = reached[n] || was && c != '/'
		case deepStar:
			reached[n+1] = reached[n] || was
		case slash:
			reached[n+1] = reached[n-1] || before && c == '/'
		}
		before = was
		alive = alive || reached[n+1]
	}
	return alive
}

// set is a set of bytes.
type set [4]uint64

func (s *set) has(c byte) bool { return s[c>>6]&(1<<(c&63)) != 0 }
func (s *set) add(c byte)      { s[c>>6] |= 1 << (c & 63) }

// addIf adds the bytes that f is true for. With foldCase it adds a small letter for its capital one too.
func (s *set) addIf(foldCase bool, f func(c byte) bool) {
	for i := range 256 {
		if c := byte(i); f(c) || foldCase && 'a' <= c && c <= 'z' && f(c-'a'+'A') {
			s.add(c)
		}
	}
}

// parse reads the members of a class in text, from i on. It returns the place of the "]" that ends it, len(text) if the class is malformed.
func (s *set) parse(text string, i int, foldCase bool) (end int) {
	at := func(i int) byte { // 0 at the end, as in C
		if i < len(text) {
			return text[i]
		}
		return 0
	}
	negated := at(i) == '!' || at(i) == '^'
	if negated {
		i++
	}
	low := byte(0) // what a range may begin with
	for first := true; first || at(i) != ']'; first = false {
		c := at(i)
		switch {
		case c == '-' && low != 0 && at(i+1) != 0 && at(i+1) != ']':
			if i++; at(i) == '\\' {
				i++
			}
			from, to := low, at(i)
			s.addIf(foldCase, func(c byte) bool { return from <= c && c <= to })
			c = 0
		case c == '[' && at(i+1) == ':':
			name, _, ok := strings.Cut(text[i+2:], "]")
			if !ok {
				return len(text)
			}
			class, ok := strings.CutSuffix(name, ":")
			if !ok { // a "[" like any other byte
				s.add(c)
				break
			}
			if classes[class] == nil {
				return len(text)
			}
			s.addIf(foldCase && class == "upper", classes[class])
			i += len("[:") + len(name)
			c = 0
		case c == '\\':
			i++
			c = at(i)
			s.add(c)
		default:
			s.add(c)
		}
		if i >= len(text) {
			return len(text)
		}
		low = c
		i++
	}
	if negated {
		for i := range s {
			s[i] = ^s[i]
		}
	}
	s['/'>>6] &^= 1 << ('/' & 63)
	return i
}

// classes are those of git, which knows ASCII alone, and neither a vertical tab nor a form feed as a space.
var classes = map[string]func(c byte) bool{
	"alnum":  func(c byte) bool { return isLetter(c) || isDigit(c) },
	"alpha":  isLetter,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"print":  func(c byte) bool { return c == ' ' || isGraph(c) },
	"punct":  func(c byte) bool { return isGraph(c) && !isLetter(c) && !isDigit(c) },
	"space":  func(c byte) bool { return strings.IndexByte(" \t\n\r", c) >= 0 },
	"upper":  isUpper,
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
}

func isUpper(c byte) bool  { return 'A' <= c && c <= 'Z' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isGraph(c byte) bool  { return ' ' < c && c < 0x7f }

func lowerByte(c byte) byte {
	if isUpper(c) {
		c += 'a' - 'A'
	}
	return c
}

// lower folds the case of ASCII letters.
func lower(s string) string {
	for i := range len(s) {
		if isUpper(s[i]) {
			b := []byte(s)
			for i, c := range b {
				b[i] = lowerByte(c)
			}
			return string(b)
		}
	}
	return s
}
