package review

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// texts generates a text with few different lines, so that versions have much in common, and every kind of end.
func texts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		line := rapid.SampledFrom([]string{"a", "b", "c", "d", "", "- x", "+ y", "@@ -1 +1 @@", "\\ No newline", "tab\t", "cr\r"})
		text := strings.Join(rapid.SliceOfN(line, 0, 12).Draw(t, "lines"), "\n")
		return text + rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
	})
}

func TestEverySelectionOfHunksIsWhatGitApplies(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		before, after := texts().Draw(t, "before"), texts().Draw(t, "after")
		d := DiffText("f", []byte(before), []byte(after))
		if got := d.Select(func(*Hunk) bool { return true }); string(got) != after {
			t.Fatalf("all hunks give %q, want %q", got, after)
		}
		if got := d.Select(func(*Hunk) bool { return false }); string(got) != before {
			t.Fatalf("no hunk gives %q, want %q", got, before)
		}
		chosen := map[string]bool{}
		for i := range d.Hunks {
			chosen[d.Hunks[i].ID] = rapid.Bool().Draw(t, "chosen")
		}
		some := func(h *Hunk) bool { return chosen[h.ID] }
		patch := d.Unified(FileHeader{Path: "f", BeforeMode: 0o644, AfterMode: 0o644}, 3, some)
		got := gitApplied(t, dir, before, patch)
		if want := d.Select(some); string(got) != string(want) {
			t.Fatalf("git applies the patch to %q, Select gives %q\n%s", got, want, patch)
		}
	})
}

// gitApplied returns the text with a patch that git applies.
func gitApplied(t *rapid.T, dir, text string, patch []byte) []byte {
	if len(patch) == 0 {
		return []byte(text)
	}
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "apply", "--whitespace=nowarn", "--unidiff-zero", "-")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, out, patch)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestHunkIDs(t *testing.T) {
	ids := func(before, after string) []string {
		var out []string
		for _, h := range DiffText("f", []byte(before), []byte(after)).Hunks {
			out = append(out, h.ID)
		}
		return out
	}
	const base = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"
	one := ids(base, strings.Replace(base, "6\n", "six\n", 1))
	both := ids(base, strings.Replace(strings.Replace(base, "6\n", "six\n", 1), "12\n", "twelve\n", 1))
	if len(one) != 1 || len(both) != 2 || both[0] != one[0] {
		t.Errorf("an edit elsewhere renamed a hunk: %v, then %v", one, both)
	}
	if other := ids(base, strings.Replace(base, "6\n", "Six\n", 1)); other[0] == one[0] {
		t.Error("two contents have one ID")
	}
	if other := DiffText("g", []byte(base), []byte(strings.Replace(base, "6\n", "six\n", 1))).Hunks[0].ID; other == one[0] {
		t.Error("two files have one ID")
	}
	block := "p\nq\nr\nold\ns\nt\nu\n"
	repeated := block + block + block
	in := func(n int) string {
		blocks := []string{block, block, block}
		blocks[n] = strings.Replace(block, "old", "new", 1)
		return strings.Join(blocks, "")
	}
	seen := map[string]bool{}
	for n := range 3 {
		got := ids(repeated, in(n))
		if len(got) != 1 || seen[got[0]] || len(got[0]) != idLength {
			t.Errorf("the edit of block %d of three equal ones has the IDs %v, the others have %v", n, got, seen)
		}
		seen[got[0]] = true
	}
	// A text may have NULs after its head, so a panel could write what separates the parts.
	if a, b := idOf("k", []string{"a\x00b"}, []string{"c"}), idOf("k", []string{"a"}, []string{"b\x00c"}); a == b {
		t.Error("lines that moved to another part have one ID")
	}
}

// place is a text of three equal blocks, with an edit in some of them.
func place(above string, edited ...int) string {
	blocks := []string{"[dev]\n", "[test]\n", "[production]\n"}
	for i := range blocks {
		body := "one\ntwo\nthree\nurl = old\nfour\nfive\nsix\n"
		if slices.Contains(edited, i) {
			body = strings.Replace(body, "old", "new", 1)
		}
		blocks[i] += body
	}
	return above + strings.Join(blocks, "")
}

// A panel that moves an approved edit to an equal place elsewhere in the file needs another approval.
func TestApprovalCoversThePlace(t *testing.T) {
	w := newWorld(t, files{"f": place("")})
	write(t, w.in(id), files{"f": place("", 0)})
	hunk := w.changes(Query{}).Changes[0].HunkIDs()[0]
	sel := Selection{Changes: []Selected{{Path: "f", Hunks: []string{hunk}}}}
	w.decide(Approved, sel)

	write(t, w.in(id), files{"f": place("", 2)})
	l := w.changes(Query{})
	if whole, hunks := l.Verdict(l.Changes[0]); whole.Decision != "" || len(hunks) != 0 {
		t.Errorf("the edit elsewhere has the verdicts %v and %v", whole, hunks)
	}
	ctx := t.Context()
	_, err := w.reviews.Apply(ctx, ApplyRequest{Context: id, Selection: &Selection{Changes: []Selected{{Path: "f"}}}})
	wantReason(t, err, NotApproved)
	for name, call := range map[string]func() error{
		"Decide": func() error {
			_, err := w.reviews.Decide(ctx, DecideRequest{Context: id, Selection: sel, Decision: Approved})
			return err
		},
		"Apply": func() error {
			_, err := w.reviews.Apply(ctx, ApplyRequest{Context: id, Selection: &sel, Approve: true})
			return err
		},
		"Discard": func() error { _, err := w.reviews.Discard(ctx, id, sel, "", "host"); return err },
	} {
		if e := wantReason(t, call(), StaleRevision); len(e.Paths) != 1 {
			t.Errorf("%s names %v", name, e.Paths)
		}
	}
	w.apply(ApplyRequest{})
	same(t, "what is applied is what was approved", read(t, w.in("workspace")), files{"f": place("", 0)})
}

// Verdicts move with their hunks when the base moves, and only with them.
func TestVerdictsMoveWithTheBase(t *testing.T) {
	verdicts := func(w *world) string {
		l := w.changes(Query{})
		var out []string
		for _, c := range l.Changes {
			_, hunks := l.Verdict(c)
			for _, h := range c.Text.Hunks {
				out = append(out, fmt.Sprintf("%d %s", h.Base+1, hunks[h.ID].Decision))
			}
		}
		return strings.Join(out, ", ")
	}
	begin := func(t *testing.T) *world {
		w := newWorld(t, files{"f": place("")})
		write(t, w.in(id), files{"f": place("", 0, 1, 2)})
		for i, d := range []Decision{Approved, Rejected} {
			w.decide(d, Selection{Changes: []Selected{{Path: "f", Hunks: []string{w.changes(Query{}).Changes[0].HunkIDs()[i]}}}})
		}
		if got, want := verdicts(w), "5 approved, 13 rejected, 21 "; got != want {
			t.Fatalf("the verdicts are %q, want %q", got, want)
		}
		return w
	}
	rebase := func(w *world) {
		_, err := w.reviews.Rebase(w.t.Context(), RebaseRequest{Context: id, Actor: "host"})
		must(w.t, err)
	}
	for _, c := range []struct {
		name string
		do   func(w *world)
		want string
	}{
		{"apply", func(w *world) { w.apply(ApplyRequest{}) }, "13 rejected, 21 "},
		{"apply and undo", func(w *world) { e := w.apply(ApplyRequest{}); _, err := w.undo(e.ID); must(w.t, err) }, "5 , 13 rejected, 21 "},
		{"rebase onto lines above", func(w *world) {
			write(w.t, w.in("workspace"), files{"f": place("title\n\n")})
			rebase(w)
		}, "7 approved, 15 rejected, 23 "},
		{"rebase onto an equal block above", func(w *world) {
			write(w.t, w.in("workspace"), files{"f": place("[local]\none\ntwo\nthree\nurl = old\nfour\nfive\nsix\n")})
			rebase(w)
		}, "13 approved, 21 rejected, 29 "},
		{"rebase onto lines within the surroundings", func(w *world) {
			write(w.t, w.in("workspace"), files{"f": strings.Replace(place(""), "six\n[test]\none\n", "six\n[test]\nzero\none\n", 1)})
			rebase(w)
		}, "5 approved, 14 rejected, 22 "},
		{"rebase onto a line beside a hunk", func(w *world) {
			write(w.t, w.in("workspace"), files{"f": strings.Replace(place(""), "five\n", "5\n", 1)})
			rebase(w)
		}, "5 , 13 rejected, 21 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := begin(t)
			c.do(w)
			if got := verdicts(w); got != c.want {
				t.Errorf("the verdicts are %q, want %q", got, c.want)
			}
		})
	}
}

// TestFilesOfManyLinesAreDecidedAsAWhole lists, diffs and applies files that have as many lines as a file of 4 MiB can have. It takes no memory for
// each of their lines: with hunks, the one listing takes 500 MB.
func TestFilesOfManyLinesAreDecidedAsAWhole(t *testing.T) {
	many := strings.Repeat("\n", MaxText)
	w := newWorld(t, files{"edited": many, "short": strings.Repeat("\n", MaxTextLines)})
	write(t, w.in(id), files{"edited": "x" + many[1:], "new": many, "short": "x" + strings.Repeat("\n", MaxTextLines)})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := w.changes(Query{})
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 100 {
		t.Errorf("the listing took %d MiB", got)
	}
	for _, c := range l.Changes {
		want := TooLarge
		if c.Path == "short" {
			want = Text
		}
		if c.Content != want || (c.Text != nil) != (want == Text) {
			t.Errorf("%s is %v, want %v", c.Path, c.Content, want)
		}
	}
	if len(l.Changes) != 3 {
		t.Errorf("%d changes", len(l.Changes))
	}
	w.decide(Approved, Selection{All: true})
	w.apply(ApplyRequest{})
	same(t, "the workspace", read(t, w.in("workspace")), read(t, w.in(id)))
}
