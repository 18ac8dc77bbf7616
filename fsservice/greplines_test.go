package fsservice

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLineMatcherAgreesWithLineByLine compares the search over many lines at
// once with the plain way: each line by itself.
func TestLineMatcherAgreesWithLineByLine(t *testing.T) {
	exprs := []string{"a", "^a", "a$", "^$", "$", `\s`, "[^x]", "a.b", "a\nb", `(?s)a.b`, `b*`, "ab|ba", `\w+$`,
		"abx", "^a*bab$", "(aab)+x|ba", "(x(abx|b))+", "(?:bab){2,3}", "(?i:bab)x", "a(aba)?b", `\Aa`, `b\z`, `\A\z`, "\uFFFDbab", "\uFFFD\uFFFD\uFFFD", "abx\nab"}
	rapid.Check(t, func(t *rapid.T) {
		expr, err := compileGrep(rapid.SampledFrom(exprs).Draw(t, "expr"), false, false)
		if err != nil {
			t.Fatal(err)
		}
		text := []byte(rapid.StringOfN(rapid.SampledFrom([]rune("ab \nx\r\uFFFD")), 0, 60, -1).Draw(t, "text"))
		if rapid.Bool().Draw(t, "invalid") { // which the expression takes for U+FFFD
			text = bytes.ReplaceAll(text, []byte("\uFFFD"), []byte{0xFF})
		}
		m := lineMatcher{
			expr: expr, literal: requiredLiteral(expr.String()),
			before: rapid.IntRange(0, 3).Draw(t, "before"), after: rapid.IntRange(0, 3).Draw(t, "after"),
			maxCount: rapid.IntRange(0, 3).Draw(t, "max"), piece: rapid.IntRange(1, 70).Draw(t, "piece"),
		}
		var got []string
		lines, matches := m.find(t.Context(), text)
		for _, l := range lines {
			got = append(got, fmt.Sprintf("%d:%v:%s", l.GetLineNumber(), l.GetContext(), l.GetText()))
		}
		want, wantMatches := lineByLine(m, text)
		if diff := cmp.Diff(want, got); diff != "" || matches != wantMatches {
			t.Fatalf("%q in %q: %d matches, want %d (-want +got):\n%s", expr, text, matches, wantMatches, diff)
		}
	})
}

func lineByLine(m lineMatcher, text []byte) (out []string, matches int64) {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	show := map[int]bool{} // line -> is context
	for i, line := range lines {
		if m.maxCount > 0 && matches == int64(m.maxCount) {
			break
		}
		if !m.expr.Match(bytes.TrimSuffix(line, []byte("\n"))) {
			continue
		}
		matches++
		show[i] = false
		for j := max(0, i-m.before); j <= min(len(lines)-1, i+m.after); j++ {
			if _, ok := show[j]; !ok {
				show[j] = true
			}
		}
	}
	for i, line := range lines {
		if context, ok := show[i]; ok {
			out = append(out, fmt.Sprintf("%d:%v:%s", i+1, context, strings.ToValidUTF8(string(trimEOL(line)), "\uFFFD")))
		}
	}
	return out, matches
}

// endsSoon has ended when it was asked a third time.
type endsSoon struct {
	context.Context
	asked int
}

func (c *endsSoon) Err() error {
	if c.asked++; c.asked < 3 {
		return nil
	}
	return context.Canceled
}

// TestASearchEndsWithItsCaller searches with an expression that takes minutes for the whole.
func TestASearchEndsWithItsCaller(t *testing.T) {
	expr, err := compileGrep("a{0,1000}[bc]", false, false)
	if err != nil {
		t.Fatal(err)
	}
	m := lineMatcher{expr: expr, piece: 1 << 10}
	for name, line := range map[string]int{"one long line": 8 << 20, "short lines": 500} {
		text := bytes.Repeat(append(bytes.Repeat([]byte("a"), line), '\n'), (8<<20)/line)
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.find(&endsSoon{Context: t.Context()}, text)
		}()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the search goes on for nobody", name)
		}
	}
}

func TestALongLineHasItsSpans(t *testing.T) {
	m := lineMatcher{expr: regexp.MustCompile("(?m)(?:b+)"), piece: 8}
	for text, want := range map[string][][]int{
		"abbacbaaaaaaaaaaaab": {{1, 3}, {5, 6}}, "aaaaaaaaaaaaaaabb": {{15, 17}}, "aaaaaaaaaaaaaa": nil, "aabbbbbbbbbbbbbb": {{2, 16}},
	} {
		if diff := cmp.Diff(want, m.spans(t.Context(), []byte(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestGrepLineKeepsWhatIsNotUTF8(t *testing.T) {
	l := newGrepLine(1, []byte("a\xffb"), [][]int{{0, 1}})
	if !l.GetLossy() || string(l.GetRawText()) != "a\xffb" || l.GetText() != "a\uFFFDb" {
		t.Errorf("got %v", l)
	}
}

func TestGrepLineIsCutBetweenCharacters(t *testing.T) {
	long := strings.Repeat("ä", maxGrepLine)
	l := newGrepLine(1, []byte("x"+long), [][]int{{0, 1}, {maxGrepLine + 4, maxGrepLine + 6}})
	if !l.GetTruncated() || l.GetLossy() || len(l.GetText()) > maxGrepLine || len(l.GetSpans()) != 1 {
		t.Errorf("truncated %v, lossy %v, %d bytes, %d spans", l.GetTruncated(), l.GetLossy(), len(l.GetText()), len(l.GetSpans()))
	}
}
