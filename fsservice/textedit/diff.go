package textedit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// MaxDiff bounds the text of a Change, in bytes.
const MaxDiff = 256 << 10

// around is how many lines of context a diff has, which diff.Diff decides.
const around = 3

// Change is what edits did to a text.
type Change struct {
	// Diff is unified; "" when nothing changed. Truncated says that only its first lines are here.
	Diff      string
	Truncated bool
	// Added and Removed count lines.
	Added, Removed int32
}

// Compare returns the difference between two versions of the text at a path.
func Compare(path string, before, after []byte) Change {
	if bytes.Equal(before, after) {
		return Change{}
	}
	skipped, body := compare(before, after)
	var c Change
	var out strings.Builder
	out.WriteString("--- a" + path + "\n+++ b" + path + "\n")
	for line := range bytes.Lines(body) {
		switch line[0] {
		case '+':
			c.Added++
		case '-':
			c.Removed++
		case '@':
			line = shift(line, skipped)
		}
		if c.Truncated = c.Truncated || out.Len()+len(line) > MaxDiff; !c.Truncated {
			out.Write(line)
		}
	}
	c.Diff = out.String()
	return c
}

// compare returns the chunks of a diff, whose lines are counted after those that it skipped.
func compare(before, after []byte) (skipped int, body []byte) {
	for context := around; ; context *= 16 {
		skipped, rest, first, second := middle(before, after, context)
		body := diff.Diff("a", first, "b", second)
		for range 3 { // its own header
			_, body, _ = bytes.Cut(body, []byte("\n"))
		}
		// Where lines repeat, diff.Diff may find changes among the lines of context.
		if (skipped == 0 || shared(body, false) >= around) && (rest == 0 || shared(body, true) >= around) {
			return skipped, body
		}
	}
}

// shared counts the lines of context at the beginning of the first chunk, or at the end of the last one.
func shared(body []byte, atEnd bool) (n int) {
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))[1:]
	if atEnd {
		slices.Reverse(lines)
	}
	for n < len(lines) && bytes.HasPrefix(lines[n], []byte(" ")) {
		n++
	}
	return n
}

// middle returns what is left of two versions without the lines that both begin with and those that both end with, except for so many of
// them as context. It left out skipped lines before, and rest bytes behind. It makes the diff of a small change to a large text cheap.
func middle(before, after []byte, context int) (skipped, rest int, first, second []byte) {
	n := commonPrefix(before, after)
	from := n
	for range context + 1 { // n may be within a line
		from = bytes.LastIndexByte(before[:max(from-1, 0)], '\n') + 1
	}
	end := commonSuffix(before[n:], after[n:])
	keep := end
	for range context + 1 {
		i := bytes.IndexByte(before[len(before)-keep:], '\n')
		if i < 0 {
			keep = 0
			break
		}
		keep -= i + 1
	}
	return bytes.Count(before[:from], []byte("\n")), keep, before[from : len(before)-keep], after[from : len(after)-keep]
}

// commonPrefix returns how many bytes two texts have in common at their beginning.
func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// commonSuffix returns how many bytes two texts have in common at their end.
func commonSuffix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// shift adds skipped lines to the head of a chunk: "@@ -from,count +from,count @@".
func shift(head []byte, skipped int) []byte {
	var from, count, to, also int
	if n, err := fmt.Sscanf(string(head), "@@ -%d,%d +%d,%d @@", &from, &count, &to, &also); err != nil || n != 4 {
		return head // diff.Diff's form is fixed
	}
	return fmt.Appendf(nil, "@@ -%d,%d +%d,%d @@\n", from+skipped, count, to+skipped, also)
}
