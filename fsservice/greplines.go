package fsservice

import (
	"bytes"
	"context"
	"io"
	"strings"
	"unicode/utf8"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxGrepLine bounds the text of one line in a reply, in bytes, and maxGrepSpans the places where it matches.
	maxGrepLine, maxGrepSpans = 4 << 10, 256
	// maxGrepFile bounds the lines of one file, and grepBatchSize those of a batch before which its further files wait for their turn,
	// in bytes; one match with its context may be more. So a Grep holds at most 8 MiB for each of the grepAhead+2 batches
	// that are under way.
	maxGrepFile, grepBatchSize = 4 << 20, 4 << 20
	// grepLineSize and grepSpanSize are about what a GrepLine and a GrepSpan take besides their text, in bytes.
	grepLineSize, grepSpanSize = 160, 64
	// binaryProbe is how much of a file is searched for a NUL byte, as git and grep do.
	binaryProbe = 8 << 10
	// maxGrepContext bounds before_context and after_context.
	maxGrepContext = 100
	// grepPiece is the most text that is searched between two looks at the caller's context, in bytes.
	grepPiece = 64 << 10
	// grepSteps bounds the same in steps: an expression of n instructions takes up to n for a byte. A step takes up to
	// 25 ns, so that a search ends within 100 ms of processor time after its caller.
	grepSteps = 4 << 20
)

// lineMatcher finds the lines of a text that match, with lines around them.
type lineMatcher struct {
	*grepExpr
	before, after int
	// maxCount bounds the matching lines of one text; 0 does not.
	maxCount int
}

// find returns the matching and surrounding lines of text, in order, how many matched, and about how much memory they take. It ends early when ctx does, and with
// cut when the lines take maxGrepFile.
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
	if len(line) <= m.short {
		return m.expr.FindAllIndex(line, maxGrepSpans)
	}
	var spans [][]int
	// What follows finds what FindAllIndex does, and can end within the line.
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
		if span[0] < span[1] || span[0] != last { // an empty match behind another is none
			spans = append(spans, span)
		}
		last = span[1]
	}
	if ctx.Err() != nil {
		return nil
	}
	return spans
}

// from returns the first match in a line at or behind pos, nil when there is none or ctx has ended.
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

// untilDone reads until ctx ends, at which it looks after so many characters.
type untilDone struct {
	ctx      context.Context //nolint:containedctx // regexp knows none
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

// isBinary reports whether text looks like no text: a NUL byte near its beginning.
func isBinary(text []byte) bool {
	return bytes.IndexByte(text[:min(len(text), binaryProbe)], 0) >= 0
}
