package review

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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
	repeated := block + "one\n" + block + "two\n" + block
	twins := ids(repeated, strings.ReplaceAll(repeated, "old", "new"))
	if len(twins) != 3 || twins[1] != twins[0]+"~2" || twins[2] != twins[0]+"~3" {
		t.Errorf("equal hunks are named %v", twins)
	}
}
