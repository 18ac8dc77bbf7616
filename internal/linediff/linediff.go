// Package linediff compares two texts line by line, and writes unified diffs. Lines that occur once in both texts anchor the comparison, as
// in a patience diff, so that it takes O(n log n) time, and memory for each line but not for each pair of lines.
package linediff

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// MaxLines is how many lines two texts may have together to be compared, which takes up to 64 MiB. Callers show such a pair as a whole.
const MaxLines = 1 << 19

// LineMemory is about how much memory the comparison takes for each line of either text besides the texts, in bytes.
const LineMemory = 128

// Lines splits a text after each newline. Only the last line may lack one.
func Lines(text string) []string {
	if text == "" {
		return nil
	}
	lines := make([]string, 0, strings.Count(text, "\n")+1)
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}

// Run is a run of changed lines: where it begins in both texts, from 0, and how many lines of each it has.
type Run struct{ Before, After, Removed, Added int }

// Runs returns the runs of lines that differ, in order. Between two runs is at least one line that both texts have.
func Runs(before, after []string) []Run {
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	x, y := before[head:], after[head:]
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	var runs []Run
	done := pair{}
	for _, m := range anchors(x, y) {
		if m.x < done.x {
			continue // an earlier match reaches beyond it
		}
		start, end := m, m
		for start.x > done.x && start.y > done.y && x[start.x-1] == y[start.y-1] {
			start.x, start.y = start.x-1, start.y-1
		}
		for end.x < len(x) && end.y < len(y) && x[end.x] == y[end.y] {
			end.x, end.y = end.x+1, end.y+1
		}
		if r := (Run{head + done.x, head + done.y, start.x - done.x, start.y - done.y}); r.Removed+r.Added > 0 {
			runs = append(runs, r)
		}
		done = end
	}
	return runs
}

// pair is an index in both texts.
type pair struct{ x, y int }

// anchors returns a longest sequence of lines that occur once in both texts and in the same order, and the end of both.
func anchors(x, y []string) []pair {
	type seen struct{ inX, inY, at int32 } // how often, and where in y
	lines := make(map[string]*seen, len(x))
	for _, line := range x {
		if s := lines[line]; s != nil {
			s.inX++
		} else {
			lines[line] = &seen{inX: 1}
		}
	}
	for i, line := range y {
		if s := lines[line]; s != nil {
			s.inY, s.at = s.inY+1, int32(i)
		}
	}
	// Patience sorting: piles has the lowest last line of y of the sequences of each length, and before the match that precedes each one.
	var matches []pair
	var piles, before []int32
	for i, line := range x {
		s := lines[line]
		if s.inX != 1 || s.inY != 1 {
			continue
		}
		n, _ := slices.BinarySearchFunc(piles, int(s.at), func(m int32, at int) int { return matches[m].y - at })
		before = append(before, last(piles[:n]))
		if n == len(piles) {
			piles = append(piles, 0)
		}
		piles[n] = int32(len(matches))
		matches = append(matches, pair{i, int(s.at)})
	}
	out := make([]pair, len(piles)+1)
	out[len(piles)] = pair{len(x), len(y)}
	for i, m := len(piles)-1, last(piles); i >= 0; i, m = i-1, before[m] {
		out[i] = matches[m]
	}
	return out
}

// last returns the last of indexes, or -1.
func last(indexes []int32) int32 {
	if len(indexes) == 0 {
		return -1
	}
	return indexes[len(indexes)-1]
}

// Diff is the difference between two texts.
type Diff struct {
	// Removed and Added count lines.
	Removed, Added int
	// Lines are those of a unified diff, as Unified returns them.
	Lines iter.Seq[string]
}

// Compare compares two texts of any size. Texts that differ in more than MaxLines between their first and their last difference have one run,
// from the one to the other.
func Compare(before, after string, context int) Diff {
	skipped, x, y := middle(before, after, context)
	n, m := Count(x), Count(y)
	if n+m > MaxLines {
		return Diff{n, m, replaced(skipped, x, n, y, m)}
	}
	a, b := Lines(x), Lines(y)
	runs := Runs(a, b)
	d := Diff{Lines: unified(skipped, a, b, runs, context)}
	for _, r := range runs {
		d.Removed, d.Added = d.Removed+r.Removed, d.Added+r.Added
	}
	return d
}

// Count returns how many lines a text has. The last one may lack a newline.
func Count(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// middle returns two texts without the lines that both begin with and those that both end with, except for at least so many of these as context, and how
// many lines it left out at the beginning.
func middle(before, after string, context int) (skipped int, x, y string) {
	head := 0
	for head < min(len(before), len(after)) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	from := head
	for range context + 1 { // head may be within a line
		from = strings.LastIndexByte(before[:max(from-1, 0)], '\n') + 1
	}
	end := len(before) - tail
	for range context + 1 {
		i := strings.IndexByte(before[end:], '\n')
		if i < 0 {
			end = len(before)
			break
		}
		end += i + 1
	}
	return strings.Count(before[:from], "\n"), before[from:end], after[from : len(after)-(len(before)-end)]
}

// replaced returns the lines of a unified diff that replaces n lines by m.
func replaced(skipped int, x string, n int, y string, m int) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield("@@ -" + span(skipped, n) + " +" + span(skipped, m) + " @@\n") {
			return
		}
		for line := range strings.Lines(x) {
			if !yield(marked('-', line)) {
				return
			}
		}
		for line := range strings.Lines(y) {
			if !yield(marked('+', line)) {
				return
			}
		}
	}
}

// marked returns a line of a diff.
func marked(mark byte, line string) string {
	line = string(mark) + line
	if !strings.HasSuffix(line, "\n") {
		line += "\n\\ No newline at end of file\n"
	}
	return line
}

// Unified returns the lines of a unified diff in git's form, without file names, with so many lines of context around each run. The runs are
// those of Runs, or some of these. A last line without a newline comes with the line that says so.
func Unified(before, after []string, runs []Run, context int) iter.Seq[string] {
	return unified(0, before, after, runs, context)
}

// unified is Unified for texts of which so many lines were left out at the beginning.
func unified(skipped int, before, after []string, runs []Run, context int) iter.Seq[string] {
	return func(yield func(string) bool) {
		all := func(mark byte, lines []string) bool {
			return !slices.ContainsFunc(lines, func(line string) bool { return !yield(marked(mark, line)) })
		}
		runs, shift := runs, skipped // shift is by how much further down the later text is, up to here
		for len(runs) > 0 {
			n, more := 1, runs[0].Added-runs[0].Removed
			for ; n < len(runs) && runs[n].Before-(runs[n-1].Before+runs[n-1].Removed) <= 2*context; n++ {
				more += runs[n].Added - runs[n].Removed
			}
			from, to := max(0, runs[0].Before-context), min(len(before), runs[n-1].Before+runs[n-1].Removed+context)
			if !yield("@@ -" + span(skipped+from, to-from) + " +" + span(shift+from, to-from+more) + " @@\n") {
				return
			}
			for _, r := range runs[:n] {
				if !all(' ', before[from:r.Before]) || !all('-', before[r.Before:r.Before+r.Removed]) || !all('+', after[r.After:r.After+r.Added]) {
					return
				}
				from = r.Before + r.Removed
			}
			if !all(' ', before[from:to]) {
				return
			}
			runs, shift = runs[n:], shift+more
		}
	}
}

// span says where lines begin, from 1, and how many there are. Without lines it names the line before.
func span(from, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, count)
}
