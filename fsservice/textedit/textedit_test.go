package textedit_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice/textedit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestApply(t *testing.T) {
	t.Parallel()
	text := func(old, with string) textedit.Edit { return textedit.Edit{Old: old, New: with} }
	lines := func(first, last int64, with string) textedit.Edit {
		return textedit.Edit{First: first, Last: last, New: with}
	}
	for name, c := range map[string]struct {
		before string
		edits  []textedit.Edit
		after  string
		fails  string
	}{
		"text":                              {"a b c\n", []textedit.Edit{text("b", "x")}, "a x c\n", ""},
		"text over lines":                   {"a\nb\nc\n", []textedit.Edit{text("a\nb", "x")}, "x\nc\n", ""},
		"all":                               {"a a a\n", []textedit.Edit{{Old: "a", New: "aa", All: true}}, "aa aa aa\n", ""},
		"each edit sees those before":       {"a\n", []textedit.Edit{text("a", "b"), text("b", "c")}, "c\n", ""},
		"CRLF stays":                        {"a\r\nb\r\n", []textedit.Edit{text("a\nb", "x\ny\nz")}, "x\r\ny\r\nz\r\n", ""},
		"mixed ends are bytes":              {"a\r\nb\n", []textedit.Edit{text("b\n", "x\ny\n")}, "a\r\nx\ny\n", ""},
		"a line":                            {"a\nb\nc\n", []textedit.Edit{lines(2, 2, "x")}, "a\nx\nc\n", ""},
		"a line with its end":               {"a\nb\nc\n", []textedit.Edit{lines(2, 2, "x\n")}, "a\nx\nc\n", ""},
		"several lines":                     {"a\nb\nc\n", []textedit.Edit{lines(1, 2, "x\ny\nz")}, "x\ny\nz\nc\n", ""},
		"no lines in place of a line":       {"a\nb\nc\n", []textedit.Edit{lines(2, 2, "")}, "a\nc\n", ""},
		"an empty line in place of a line":  {"a\nb\nc\n", []textedit.Edit{lines(2, 2, "\n")}, "a\n\nc\n", ""},
		"before the first line":             {"a\n", []textedit.Edit{lines(1, 0, "x")}, "x\na\n", ""},
		"after the last line":               {"a\n", []textedit.Edit{lines(2, 1, "x")}, "a\nx\n", ""},
		"the last line keeps that no end":   {"a\nb", []textedit.Edit{lines(2, 2, "x\n")}, "a\nx", ""},
		"after a last line without an end":  {"a\nb", []textedit.Edit{lines(3, 2, "x\n")}, "a\nb\nx", ""},
		"into an empty file":                {"", []textedit.Edit{lines(1, 0, "x\ny")}, "x\ny", ""},
		"lines of CRLF":                     {"a\r\nb\r\n", []textedit.Edit{lines(2, 2, "x\ny")}, "a\r\nx\r\ny\r\n", ""},
		"lines that are inserted into CRLF": {"a\r\nb", []textedit.Edit{lines(1, 0, "x")}, "x\r\na\r\nb", ""},

		"missing":           {"func one() {\n}\nfunc two() {\n}\n", []textedit.Edit{text("func  two() {", "x")}, "", `old_text is not in the file; the nearest lines are 1: "func one() {", 3: "func two() {"`},
		"unlike everything": {"abc\n", []textedit.Edit{text("xyz", "x")}, "", "old_text is not in the file"},
		"ambiguous":         {"a\nb\na\n\na\n", []textedit.Edit{text("a", "x")}, "", "old_text occurs 3 times, in lines 1, 3, 5"},
		"overlapping":       {"aaa\n", []textedit.Edit{text("aa", "x")}, "", "old_text occurs 2 times, in lines 1, 1"},
		"many":              {strings.Repeat("a\n", 30), []textedit.Edit{text("a", "x")}, "", "old_text occurs more than 20 times, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, …"},
		"everywhere":        {strings.Repeat("a", 8<<20), []textedit.Edit{text(strings.Repeat("a", 4<<20), "x")}, "", "old_text occurs more than 20 times, in lines 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, …"},
		"the second":        {"a\n", []textedit.Edit{text("a", "b"), text("a", "c")}, "", "edit 2 of 2: old_text is not in the file"},
		"no old text":       {"a\n", []textedit.Edit{text("", "b")}, "", "old_text is empty"},
		"both forms":        {"a\n", []textedit.Edit{{Old: "a", First: 1, Last: 1}}, "", "old_text and start_line are both set"},
		"beyond the end":    {"a\n", []textedit.Edit{lines(2, 2, "b")}, "", "lines 2 to 2 are not in the file, which has 1"},
		"backwards":         {"a\nb\nc\n", []textedit.Edit{lines(3, 1, "b")}, "", "lines 3 to 1 are not in the file, which has 3"},
		"binary":            {"a\x00", []textedit.Edit{text("a", "b")}, "", "the file has NUL bytes, so it is no text"},
		"not UTF-8":         {"a\xff", []textedit.Edit{text("a", "b")}, "", "the file is not UTF-8"},
		"new binary":        {"a", []textedit.Edit{text("a", "\x00")}, "", "new_text has NUL bytes, or is not UTF-8"},
		"grows too large": {
			strings.Repeat("a", 1<<20), []textedit.Edit{{Old: "a", New: strings.Repeat("b", 17), All: true}}, "",
			"a text of 17.0 MiB exceeds the 16 MiB that can be edited",
		},
	} {
		t.Run(name, func(t *testing.T) {
			after, counts, err := textedit.Apply([]byte(c.before), c.edits)
			var e *fserr.Error
			if errors.As(err, &e) {
				if e.Detail != c.fails || e.Hint == "" {
					t.Errorf("got  %s\nwant %s, and a hint", e.Detail, c.fails)
				}
				return
			}
			if err != nil || c.fails != "" || string(after) != c.after || len(counts) != len(c.edits) {
				t.Errorf("got %q, %v, %v; want %q (%s)", after, counts, err, c.after, c.fails)
			}
		})
	}
}

// TestApplyAgainstLines compares edits of a text with those of a list of its lines, each of which has a text of its own.
func TestApplyAgainstLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
		model := rapid.SliceOfNDistinct(rapid.StringMatching(`<[a-zß]{0,3}>`), 1, 8, rapid.ID).Draw(t, "lines")
		last := rapid.SampledFrom([]string{end, ""}).Draw(t, "last")
		if len(model) == 1 {
			last = end // the text shows what its ends are
		}
		text := []byte(strings.Join(model, end) + last)
		for n := range rapid.IntRange(1, 5).Draw(t, "edits") {
			with := rapid.SliceOfN(rapid.StringMatching(`\[[a-z]{2}\]`), 1, 3).Draw(t, "new")
			from := rapid.IntRange(0, len(model)-1).Draw(t, "from")
			to := rapid.IntRange(from, len(model)).Draw(t, "to")
			e := textedit.Edit{First: int64(from + 1), Last: int64(to), New: strings.Join(with, "\n")}
			byText := strings.Join(model[from:to], "\n")
			if to > from && bytes.Count(text, []byte(strings.Join(model[from:to], end))) == 1 && rapid.Bool().Draw(t, "by text") {
				e = textedit.Edit{Old: byText, New: strings.Join(with, "\n")}
			}
			after, counts, err := textedit.Apply(text, []textedit.Edit{e})
			if err != nil || counts[0] != 1 {
				t.Fatalf("edit %d, %+v of %q: %v, %v", n, e, text, counts, err)
			}
			model = append(append(append([]string(nil), model[:from]...), with...), model[to:]...)
			if want := strings.Join(model, end) + last; string(after) != want {
				t.Fatalf("edit %d, %+v of %q: got %q, want %q", n, e, text, after, want)
			}
			text = after
			if len(model) == 1 && last == "" {
				end = "\n" // the text shows no ends any more
			}
		}
	})
}

// TestLargeDiffsAreTruncated has more changed lines than a diff shows.
func TestLargeDiffsAreTruncated(t *testing.T) {
	t.Parallel()
	before := strings.Repeat("a line of the file\n", 20_000)
	c := textedit.Compare("/f", []byte(before), []byte(strings.ReplaceAll(before, "line", "row")))
	if !c.Truncated || len(c.Diff) > textedit.MaxDiff || !strings.HasSuffix(c.Diff, "\n") || c.Added != 20_000 || c.Removed != 20_000 {
		t.Errorf("truncated %v, %d bytes, +%d -%d", c.Truncated, len(c.Diff), c.Added, c.Removed)
	}
}

// TestTextsOfManyLinesTakeLittleMemory compares texts of as many lines as a text can have: with a comparison of all of them, it takes 3.6 GB.
func TestTextsOfManyLinesTakeLittleMemory(t *testing.T) {
	before := bytes.Repeat([]byte("\n"), textedit.MaxSize)
	for name, after := range map[string][]byte{
		"one line":               append([]byte("x"), before[:len(before)-1]...),
		"the first and the last": append(append([]byte("x"), before[:len(before)-2]...), "x\n"...),
		"each line":              bytes.Repeat([]byte("x\n"), textedit.MaxSize/2),
		"nothing is left":        nil,
	} {
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		c := textedit.Compare("/f", before, after)
		runtime.ReadMemStats(&end)
		if got := (end.TotalAlloc - start.TotalAlloc) >> 20; got > 64 {
			t.Errorf("%s: the comparison took %d MiB", name, got)
		}
		if len(c.Diff) > textedit.MaxDiff || c.Removed == 0 {
			t.Errorf("%s: a diff of %d bytes, +%d -%d", name, len(c.Diff), c.Added, c.Removed)
		}
	}
}
