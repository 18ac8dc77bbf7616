package search

import (
	"bytes"
	"context"
	"fmt"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// TestLineMatcherAgreesWithLineByLine compares the search over many lines at
// once with the plain way: one line at a time.
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
		expr.piece = rapid.IntRange(1, 70).Draw(t, "piece")
		m := lineMatcher{
			grepExpr: expr,
			before:   rapid.IntRange(0, 3).Draw(t, "before"), after: rapid.IntRange(0, 3).Draw(t, "after"),
			maxCount: rapid.IntRange(0, 3).Draw(t, "max"),
		}
		var got []string
		lines, matches, _, _ := m.find(t.Context(), text)
		for _, l := range lines {
			got = append(got, fmt.Sprintf("%d:%v:%s", l.GetLineNumber(), l.GetContext(), l.GetText()))
		}
		want, wantMatches := lineByLine(m, text)
		if diff := cmp.Diff(want, got); diff != "" || matches != wantMatches {
			t.Fatalf("%q in %q: %d matches, want %d (-want +got):\n%s", expr.expr, text, matches, wantMatches, diff)
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
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	expr, err := compileGrep("a{0,1000}[bc]", false, false)
	if err != nil {
		t.Fatal(err)
	}
	m := lineMatcher{grepExpr: expr}
	for name, line := range map[string]int{"one long line": 8 << 20, "short lines": 500} {
		text := bytes.Repeat(append(bytes.Repeat([]byte("a"), line), '\n'), (8<<20)/line)
		begun := clocktest.ProcessorTime()
		m.find(&endsSoon{Context: t.Context()}, text)
		if took := clocktest.ProcessorTime() - begun; took > 30*time.Second {
			t.Errorf("%s: the search took %v after its caller ended", name, took)
		}
	}
}

// TestLongLineHasTheSpansOfAShortOne compares the search that can end within a line with regexp's.
func TestLongLineHasTheSpansOfAShortOne(t *testing.T) {
	exprs := []string{"b+", "b*", "a*?", "^a", "a$", `\bab`, `\B`, "(a|ab)(b?)", "x|$", "(?:)", "[^x]", "a.*b|a", "ä", "\uFFFD"}
	rapid.Check(t, func(t *rapid.T) {
		expr, err := compileGrep(rapid.SampledFrom(exprs).Draw(t, "expr"), false, false)
		if err != nil {
			t.Fatal(err)
		}
		line := []byte(rapid.StringOfN(rapid.SampledFrom([]rune("ab xä\uFFFD")), 0, 40, -1).Draw(t, "line"))
		if rapid.Bool().Draw(t, "invalid") {
			line = bytes.ReplaceAll(line, []byte("\uFFFD"), []byte{0xFF})
		}
		want := expr.expr.FindAllIndex(line, -1)
		expr.short = -1
		m := lineMatcher{grepExpr: expr}
		if diff := cmp.Diff(want, m.spans(t.Context(), line)); diff != "" {
			t.Fatalf("%q in %q (-want +got):\n%s", expr.expr, line, diff)
		}
	})
}

// watched measures how much processor time the search takes without checking its context, which ends after 150 ms of it.
type watched struct {
	context.Context
	begun, last, longest time.Duration
}

func (c *watched) Err() error {
	now := clocktest.ProcessorTime()
	c.longest = max(c.longest, now-c.last)
	c.last = now
	if now-c.begun > 150*time.Millisecond {
		return context.Canceled
	}
	return nil
}

// TestSearchLooksForItsCallerWithinALine searches with expressions that take minutes or more for the line. The figure in the
// docs is 100 ms of processor time; the bound here allows for a slow machine and the race detector.
func TestSearchLooksForItsCallerWithinALine(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	long := bytes.Repeat([]byte("a"), 1<<20)
	medium := bytes.Repeat(append(bytes.Repeat([]byte("a"), 60<<10), '\n'), 100)
	for _, pattern := range []string{"a.*b|a", strings.Repeat("(a?){1000}", 3) + "b|a", strings.Repeat("(a|ab|aab)*", 300) + "b"} {
		expr, err := compileGrep(pattern, false, false)
		if err != nil {
			t.Fatal(err)
		}
		m := lineMatcher{grepExpr: expr}
		for name, text := range map[string][]byte{"one line": long, "lines of 60 KiB": medium} {
			begun := clocktest.ProcessorTime()
			ctx := &watched{Context: t.Context(), begun: begun, last: begun}
			m.find(ctx, text)
			longest := max(ctx.longest, clocktest.ProcessorTime()-ctx.last)
			t.Logf("%.30s in %s: piece %d, short %d, at most %v", pattern, name, expr.piece, expr.short, longest)
			if longest > 5*time.Second {
				t.Errorf("%.30s in %s: the search went on for %v without a look at its caller", pattern, name, longest)
			}
		}
	}
}

func TestLargeExpressionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		pattern string
		fixed   bool
		words   string
	}{
		"20,000 groups":       {strings.Repeat("(a?)", 20_000), false, "more than 4096"},
		"a long text":         {strings.Repeat("a", 5000), true, "more than 4096"},
		"nested repetitions":  {strings.Repeat("((a?){30}){30}", 6), false, "10000 instructions"},
		"repeated classes":    {strings.Repeat(`\pL{1,900}x`, 12), false, "10000 instructions"},
		"many repetitions":    {strings.Repeat("a{1000}", 11), false, "10000 instructions"},
		"optional in the end": {strings.Repeat("a{0,1000}", 6), false, "10000 instructions"},
	} {
		_, err := compileGrep(c.pattern, c.fixed, false)
		if fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(fmt.Sprint(err), c.words) {
			t.Errorf("%s: got %v, want EINVAL with %q", name, err, c.words)
		}
	}
	for _, pattern := range []string{`func \w+\(`, `[a-z]{1,1000}[0-9]{0,500}`, strings.Repeat("word|", 800) + "end", strings.Repeat("a", 4096)} {
		if _, err := compileGrep(pattern, false, true); err != nil {
			t.Errorf("%.20s: %v", pattern, err)
		}
	}
}

// TestProgramSizeIsThatOfTheProgram holds the estimate that bounds memory and time to what is compiled.
func TestProgramSizeIsThatOfTheProgram(t *testing.T) {
	for _, pattern := range []string{"abc", "a|b|c", "(a?){300}", "a{0,500}", "(ab*c+?){20,40}", `[[:alpha:]]\pL+`, "(?i)abc", "((a|b){3}){4,}", "a{5,}", "()()()*", "x*"} {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(eachLine(tree).Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if n := programSize(tree); len(prog.Inst) > n+4 {
			t.Errorf("%s: %d instructions, estimated %d", pattern, len(prog.Inst), n)
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
func TestRequiredLiteral(t *testing.T) {
	for expr, want := range map[string]string{
		"plain":                "plain",
		`func \w+\(in`:         "func ",
		"(?m)(?:a longer one)": "a longer one",
		"(abc)+x":              "abc",
		"(?:abcd){2,}":         "abcd",
		"(abcd)?efg":           "efg",
		"(abcd)*":              "",
		"(abcd){0,3}":          "",
		"abcd|abef":            "",
		"(?i)abcd":             "",
		"(?i)abcd(?-i)efg":     "efg",
		"ab":                   "",
		"a.b.c":                "",
		"one\ntwo":             "",
		"one\uFFFDtwo":         "",
		"(":                    "",
	} {
		if got := string(requiredLiteral(expr)); got != want {
			t.Errorf("%q requires %q, want %q", expr, got, want)
		}
	}
}
