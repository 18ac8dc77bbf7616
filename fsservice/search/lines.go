package search

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxGrepLine bounds the text of one line in a reply, in bytes, and maxGrepSpans the places where it matches.
	maxGrepLine, maxGrepSpans = 4 << 10, 256
	// maxGrepFile bounds the lines of one file, in bytes; one match with its context may be more. Once the lines of a batch take
	// grepBatchSize, its other files wait. So a Grep holds at most 8 MiB for each of the grepAhead+2 batches under way.
	maxGrepFile, grepBatchSize = 4 << 20, 4 << 20
	// grepLineSize and grepSpanSize are about what a GrepLine and a GrepSpan take besides their text, in bytes.
	grepLineSize, grepSpanSize = 160, 64
	// binaryProbe is how much of a file is searched for a NUL byte, as git and grep do.
	binaryProbe = 8 << 10
	// maxGrepContext bounds before_context and after_context.
	maxGrepContext = 100
	// grepPiece is the most text that is searched before the caller's context is checked again, in bytes.
	grepPiece = 64 << 10
	// grepSteps bounds the same in steps: an expression of n instructions takes up to n for a byte. A step takes up to 25 ns, so a
	// search ends within 100 ms of processor time after its caller.
	grepSteps = 4 << 20
)

// lineMatcher finds the lines of a text that match, with lines around them.
type lineMatcher struct {
	*grepExpr
	before, after int
	// maxCount bounds the matching lines of one text; 0 does not.
	maxCount int
}

func newLineMatcher(req *ctxfsv1.GrepRequest) (m lineMatcher, err error) {
	m.before, m.after, m.maxCount = int(req.GetBeforeContext()), int(req.GetAfterContext()), int(req.GetMaxCount())
	for field, n := range map[string]int{"before_context": m.before, "after_context": m.after} {
		if n < 0 || n > maxGrepContext {
			return m, fserr.Invalid("%s is %d; give 0 to %d", field, n, maxGrepContext)
		}
	}
	if m.maxCount < 0 {
		return m, fserr.Invalid("max_count is %d; give 0 or more", m.maxCount)
	}
	m.grepExpr, err = compileGrep(req.GetPattern(), req.GetFixedStrings(), req.GetIgnoreCase())
	return m, err
}

// find returns the matching and surrounding lines of text, in order, how many matched, and about how much memory they take. It
// stops when ctx ends, and, with cut set, when the lines take maxGrepFile.
func (m *lineMatcher) find(ctx context.Context, text []byte) (lines []*ctxfsv1.GrepLine, matches int64, size int, cut bool) {
	s := lineScan{ctx: ctx, text: text, m: m}
	for pos := 0; pos < len(text) && (m.maxCount == 0 || s.matches < int64(m.maxCount)) && ctx.Err() == nil; {
		at := m.next(ctx, text, pos)
		if at < 0 {
			break
		}
		if s.size >= maxGrepFile {
			return s.lines, s.matches, s.size, true
		}
		pos = s.take(at)
	}
	s.trail(len(text), m.after)
	return s.lines, s.matches, s.size, false
}

// next returns an offset in the next line at or after pos that may match; -1 when there is none or ctx has ended. A line starts at
// pos.
func (m *lineMatcher) next(ctx context.Context, text []byte, pos int) int {
	if len(m.literal) > 0 {
		at := bytes.Index(text[pos:], m.literal)
		if at < 0 {
			return -1
		}
		return pos + at
	}
	for pos < len(text) && ctx.Err() == nil {
		end := len(text)
		if end-pos > m.piece {
			if end = pos + bytes.LastIndexByte(text[pos:pos+m.piece], '\n') + 1; end == pos {
				return pos // a long line may match
			}
		}
		if at := m.nextIn(text[:end], pos); at >= 0 {
			return at
		}
		pos = end
	}
	return -1
}

func (m *lineMatcher) nextIn(text []byte, pos int) int {
	loc := m.expr.FindIndex(text[pos:])
	if loc == nil {
		return -1
	}
	at := min(pos+loc[0], len(text)-1) // "$" matches behind the last byte
	if at < pos+loc[0] && text[at] == '\n' {
		return -1 // behind the last line's end there is no further line
	}
	return at
}

// spans returns the places where a line matches, as many as are reported. It returns nil when the line does not match or ctx ends.
func (m *lineMatcher) spans(ctx context.Context, line []byte) [][]int {
	if len(line) <= m.short {
		return m.expr.FindAllIndex(line, maxGrepSpans)
	}
	var spans [][]int
	// This loop finds the same matches as FindAllIndex, and can stop within the line.
	for pos, last := 0, -1; pos <= min(len(line), maxGrepLine) && len(spans) < maxGrepSpans && ctx.Err() == nil; {
		span := m.from(ctx, line, pos)
		if span == nil {
			break
		}
		if span[1] > pos {
			pos = span[1]
		} else if _, size := utf8.DecodeRune(line[pos:]); size > 0 {
			pos += size
		} else {
			pos++ // behind the end
		}
		if span[0] < span[1] || span[0] != last { // an empty match right after another does not count
			spans = append(spans, span)
		}
		last = span[1]
	}
	if ctx.Err() != nil {
		return nil
	}
	return spans
}

// from returns the first match in a line at or after pos; nil when there is none or ctx has ended.
func (m *lineMatcher) from(ctx context.Context, line []byte, pos int) []int {
	if pos == 0 {
		return m.expr.FindReaderIndex(m.reader(ctx, line))
	}
	_, size := utf8.DecodeLastRune(line[:pos])
	at := pos - size // "^" and "\b" depend on the character before
	span := m.further().FindReaderSubmatchIndex(m.reader(ctx, line[at:]))
	if span == nil {
		return nil
	}
	return []int{at + span[2], at + span[3]}
}

func (m *lineMatcher) reader(ctx context.Context, line []byte) io.RuneReader {
	return &untilDone{ctx: ctx, from: bytes.NewReader(line), every: m.piece}
}

// untilDone reads until ctx ends, which it checks once per every characters.
type untilDone struct {
	ctx      context.Context //nolint:containedctx // regexp takes no context
	from     io.RuneReader
	n, every int
}

// ReadRune implements io.RuneReader.
func (u *untilDone) ReadRune() (rune, int, error) {
	if u.n++; u.n%u.every == 0 && u.ctx.Err() != nil {
		return 0, 0, u.ctx.Err()
	}
	return u.from.ReadRune()
}

// lineScan is a text being searched from its beginning to its end.
type lineScan struct {
	ctx     context.Context //nolint:containedctx // it lives as long as the search
	text    []byte
	m       *lineMatcher
	lines   []*ctxfsv1.GrepLine
	matches int64
	// size is about how much memory the lines take, in bytes.
	size int
	// number is the 1-based number of the line that starts at counted.
	number, counted int
	// shown is where the first line starts that has not been reported.
	shown int
	// open says that the lines after the last match have not been reported yet.
	open bool
}

// take reports the line at an offset if the line alone matches: the expression may have matched across the line's end. It returns
// where the next line starts.
func (s *lineScan) take(at int) int {
	start := bytes.LastIndexByte(s.text[:at], '\n') + 1
	end := lineEnd(s.text, at)
	line := bytes.TrimSuffix(s.text[start:end], []byte{'\n'}) // as in ripgrep, "$" is not before "\r"
	spans := s.m.spans(s.ctx, line)
	if spans == nil {
		return end
	}
	s.trail(start, s.m.after)
	s.lead(start)
	s.report(start, end, spans)
	s.matches++
	s.open = true
	return end
}

// lead reports the lines before start.
func (s *lineScan) lead(start int) {
	from := start
	for n := 0; n < s.m.before && from > s.shown; n++ {
		from = bytes.LastIndexByte(s.text[:from-1], '\n') + 1
	}
	for pos := max(from, s.shown); pos < start; {
		end := lineEnd(s.text, pos)
		s.report(pos, end, nil)
		pos = end
	}
}

// trail reports up to n lines after the last match, but none from limit on.
func (s *lineScan) trail(limit, n int) {
	if !s.open {
		return
	}
	for ; n > 0 && s.shown < limit; n-- {
		s.report(s.shown, lineEnd(s.text, s.shown), nil)
	}
	s.open = false
}

func (s *lineScan) report(start, end int, spans [][]int) {
	s.number += bytes.Count(s.text[s.counted:start], []byte{'\n'})
	s.counted, s.shown = start, end
	line := newGrepLine(s.number+1, trimEOL(s.text[start:end]), spans)
	s.lines = append(s.lines, line)
	s.size += grepLineSize + len(line.GetText()) + len(line.GetRawText()) + len(line.GetSpans())*grepSpanSize
}

func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

func trimEOL(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}

func newGrepLine(number int, text []byte, spans [][]int) *ctxfsv1.GrepLine {
	l := &ctxfsv1.GrepLine{LineNumber: int64(number), Context: spans == nil}
	if len(text) > maxGrepLine {
		text, l.Truncated = cutLine(text), true
	}
	for _, span := range spans {
		if span[0] <= len(text) {
			l.Spans = append(l.Spans, &ctxfsv1.GrepSpan{Start: int32(span[0]), End: int32(min(span[1], len(text)))})
		}
	}
	l.Text = string(text)
	if !utf8.ValidString(l.Text) {
		l.Lossy, l.RawText, l.Text = true, bytes.Clone(text), strings.ToValidUTF8(l.Text, "\uFFFD")
	}
	return l
}

// cutLine cuts at maxGrepLine without splitting a character of valid UTF-8.
func cutLine(text []byte) []byte {
	cut := maxGrepLine
	for back := 0; back < utf8.UTFMax && !utf8.RuneStart(text[cut]); back++ {
		cut--
	}
	return text[:cut]
}

// isBinary reports whether a file is binary: it has a NUL byte near its beginning.
func isBinary(text []byte) bool {
	return bytes.IndexByte(text[:min(len(text), binaryProbe)], 0) >= 0
}

const (
	// maxGrepPattern bounds an expression, in bytes, and maxGrepProgram the program that it compiles to, in instructions. Together
	// they bound an expression's memory: about 10 MiB to compile it, 2 MiB for each thread that searches with it.
	maxGrepPattern = 4 << 10
	maxGrepProgram = 10_000
)

// grepExpr is an expression to search lines for.
type grepExpr struct {
	// expr is compiled with (?m), so that it searches many lines at once.
	expr *regexp.Regexp
	// further finds the same after the first character, in its first group.
	further func() *regexp.Regexp
	// literal is in every line that matches; empty when none is known. Looking for it first is much faster.
	literal []byte
	// piece is how much is searched at once, in bytes, which takes grepSteps. A longer line is searched alone, so that the search can
	// stop within it. short is the longest line whose matches are all found in one call, which is quadratic in time.
	piece, short int
}

// compileGrep compiles an RE2 expression. An empty, malformed or too large one is EINVAL.
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

// eachLine makes "\A" and "\z" match a line's beginning and end, since many lines are searched together. It removes groups, whose
// matches would take memory.
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

// programSize estimates how many instructions an expression compiles to, without compiling it. The result is 1 to
// maxGrepProgram+1.
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

// minLiteral is the least length of a literal that is looked for before the expression, in bytes: shorter ones are in every other
// line.
const minLiteral = 3

// requiredLiteral returns the longest text that everything that matches contains; nil when there is none of minLiteral.
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

// plain returns a literal's text. It returns "" for literals that other bytes match too (another case, and for U+FFFD all that is
// not UTF-8), and for those that have a line's end.
func plain(re *syntax.Regexp) string {
	s := string(re.Rune)
	if re.Flags&syntax.FoldCase != 0 || strings.ContainsAny(s, "\n"+string(utf8.RuneError)) {
		return ""
	}
	return s
}
