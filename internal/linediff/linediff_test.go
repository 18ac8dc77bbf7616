package linediff_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/internal/linediff"
)

// texts draws two versions of a text of few different lines.
func texts(t *rapid.T) (before, after string) {
	line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n", "long line\n", "\r\n", "d\n", "e\n", "f\n", "g\n"})
	text := func(name string) string { return strings.Join(rapid.SliceOfN(line, 0, 12).Draw(t, name), "") }
	end := rapid.SampledFrom([]string{"", "end", "a"})
	head, tail := text("head"), text("tail")
	return head + text("before") + tail + end.Draw(t, "end of before"), head + text("after") + tail + end.Draw(t, "end of after")
}

// TestRunsMakeTheLaterText replaces the runs of changed lines.
func TestRunsMakeTheLaterText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before, after := texts(t)
		x, y := linediff.Lines(before), linediff.Lines(after)
		var made []string
		from := 0
		for i, r := range linediff.Runs(x, y) {
			if r.Removed+r.Added == 0 || i > 0 && r.Before == from {
				t.Fatalf("%q and %q: run %d is %+v", before, after, i, r)
			}
			made = append(append(made, x[from:r.Before]...), y[r.After:r.After+r.Added]...)
			from = r.Before + r.Removed
		}
		made = append(made, x[from:]...)
		if got := strings.Join(made, ""); got != after {
			t.Fatalf("%q becomes %q, want %q", before, got, after)
		}
	})
}

// TestPatchAppliesTheDiff gives diffs to patch(1), which must make of the version before the one after.
func TestPatchAppliesTheDiff(t *testing.T) {
	t.Parallel()
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("patch(1) is not installed")
	}
	file := filepath.Join(t.TempDir(), "f")
	rapid.Check(t, func(t *rapid.T) {
		before, after := texts(t)
		before, after = "x\n"+before, "x\n"+after // patch(1) removes empty files
		d := linediff.Compare(before, after, rapid.IntRange(0, 4).Draw(t, "context"))
		diff := strings.Join(slices.Collect(d.Lines), "")
		if (diff == "") != (before == after) {
			t.Fatalf("%q and %q: the diff is %q", before, after, diff)
		}
		if diff == "" {
			return
		}
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(context.Background(), patch, "-s", "--fuzz=0", file)
		cmd.Stdin = strings.NewReader("--- a/f\n+++ b/f\n" + diff)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("patch: %v, %s, of %s", err, out, diff)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != after {
			t.Fatalf("patch made %q (%v), want %q, of %s", got, err, after, diff)
		}
	})
}

// TestAnchors has texts in which a line that occurs once decides what is taken for unchanged.
func TestAnchors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, after string
		want                []linediff.Run
	}{
		{"equal", "a\nb\n", "a\nb\n", nil},
		{"both empty", "", "", nil},
		{"a new text", "", "a\nb\n", []linediff.Run{{Added: 2}}},
		{"a text that goes", "a\nb", "", []linediff.Run{{Removed: 2}}},
		{"a function before another one", "}\nfunc a\n}\n", "}\nfunc b\n}\nfunc a\n}\n", []linediff.Run{{1, 1, 0, 2}}},
		{"a line that moved", "one\ntwo\nthree\n", "two\nthree\none\n", []linediff.Run{{0, 0, 1, 0}, {3, 2, 0, 1}}},
		{"repeated lines", "a\na\na\n", "a\na\n", []linediff.Run{{2, 2, 1, 0}}},
		{"an end without a newline", "a\nb\n", "a\nb", []linediff.Run{{1, 1, 1, 1}}},
	} {
		if got := linediff.Runs(linediff.Lines(c.before), linediff.Lines(c.after)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestTextsOfManyLinesAreReplaced compares texts that differ in more lines than are compared: the diff replaces what lies between the first and
// the last difference.
func TestTextsOfManyLinesAreReplaced(t *testing.T) {
	t.Parallel()
	same := strings.Repeat("same\n", 10)
	many := strings.Repeat("x\n", linediff.MaxLines/2)
	d := linediff.Compare(same+"first\n"+many+"\nlast\n"+same, same+"1\n"+many+"last 1"+"\n"+same, 3)
	if n := linediff.MaxLines/2 + 10; d.Removed != n || d.Added != n-1 {
		t.Errorf("-%d +%d", d.Removed, d.Added)
	}
	next, stop := iter.Pull(d.Lines)
	defer stop()
	head := fmt.Sprintf("@@ -7,%d +7,%d @@\n", d.Removed, d.Added)
	for i, want := range []string{head, "-same\n", "-same\n", "-same\n", "-same\n", "-first\n", "-x\n"} {
		if line, _ := next(); line != want {
			t.Errorf("line %d is %q, want %q", i, line, want)
		}
	}
}
