package fsservice

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxGrepLine bounds the text of one line in a reply, in bytes.
	maxGrepLine = 4 << 10
	// binaryProbe is how much of a file is searched for a NUL byte, as git and grep do.
	binaryProbe = 8 << 10
	// grepPiece is lineMatcher.piece: an expression may take a second for that much.
	grepPiece = 64 << 10
	// maxGrepContext bounds before_context and after_context.
	maxGrepContext = 100
)

// lineMatcher finds the lines of a text that match, with lines around them.
type lineMatcher struct {
	// expr is compiled with (?m), so that it can search many lines at once.
	expr *regexp.Regexp
	// literal is in every line that matches; empty when none is known. To look for it first is much quicker.
	literal       []byte
	before, after int
	// maxCount bounds the matching lines of one text; 0 does not.
	maxCount int
	// piece is about how much is searched before a look at whether somebody still wants to know, in bytes. A line that is
	// longer is searched by itself.
	piece int
}

// find returns the matching and surrounding lines of text, in order, and how many matched. It ends early when ctx does.
func (m *lineMatcher) find(ctx context.Context, text []byte) (lines []*ctxfsv1.GrepLine, matches int64) {
	s := lineScan{ctx: ctx, text: text, m: m}
	for pos := 0; pos < len(text) && (m.maxCount == 0 || s.matches < int64(m.maxCount)) && ctx.Err() == nil; {
		at := m.next(ctx, text, pos)
		if at < 0 {
			break
		}
		pos = s.take(at)
	}
	s.trail(len(text), m.after)
	return s.lines, s.matches
}

// next returns an offset, pos or behind it, in the next line that may match; -1 when there is none or ctx has ended.
// pos is where a line starts.
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

// spans returns where a line matches, as far as that is reported; nil when it does not, or when ctx ended before that was known.
func (m *lineMatcher) spans(ctx context.Context, line []byte) [][]int {
	if len(line) <= m.piece {
		return m.expr.FindAllIndex(line, -1)
	}
	first := m.expr.FindReaderIndex(&untilDone{ctx: ctx, from: bytes.NewReader(line)})
	if first == nil || ctx.Err() != nil {
		return nil
	}
	spans := [][]int{first}
	for _, span := range m.expr.FindAllIndex(line[:m.piece], -1) {
		if span[0] >= first[1] && span[0] > first[0] {
			spans = append(spans, span)
		}
	}
	return spans
}

// untilDone reads until ctx ends.
type untilDone struct {
	ctx  context.Context //nolint:containedctx // regexp knows none
	from io.RuneReader
	n    int
}

// ReadRune implements io.RuneReader.
func (u *untilDone) ReadRune() (rune, int, error) {
	if u.n++; u.n%4096 == 0 && u.ctx.Err() != nil {
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
	// number is the 1-based number of the line that starts at counted.
	number, counted int
	// shown is where the first line starts that has not been reported.
	shown int
	// open says that lines follow which belong to the last match's context.
	open bool
}

// take looks at the line that holds offset at, reports it when it matches by
// itself (the expression may have matched across a line's end), and returns
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
	s.lines = append(s.lines, newGrepLine(s.number+1, trimEOL(s.text[start:end]), spans))
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

// isBinary reports whether text looks like no text: a NUL byte near its beginning.
func isBinary(text []byte) bool {
	return bytes.IndexByte(text[:min(len(text), binaryProbe)], 0) >= 0
}
