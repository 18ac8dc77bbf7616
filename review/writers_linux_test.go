package review

import (
	"errors"
	"io"
	"os"
	"testing"
)

// A program that keeps a file open for writing could write after the apply, to a file that has no name any more. The apply is refused.
func TestApplyBesideAWriterThatWritesLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n", "b": "base\n"})
	write(t, w.in(id), files{"a": "panel\n", "b": "panel\n"})
	w.decide(Approved, Selection{All: true})
	f, err := os.OpenFile(w.in("workspace")+"/a", os.O_WRONLY, 0)
	must(t, err)
	_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	if c := wantReason(t, err, Conflicting).Conflicts; len(c) != 1 || c[0] != (Conflict{"a", ConflictChangedMeanwhile}) {
		t.Errorf("the conflicts are %v", c)
	}
	_, err = f.WriteString("late\n")
	must(t, errors.Join(err, f.Close()))
	same(t, "the workspace", read(t, w.in("workspace")), files{"a": "late\n", "b": "base\n"})
}

// A program that is about to save is waited for, and what it saves counts.
func TestApplyWaitsForAWriter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n", "b": "base\n"})
	write(t, w.in(id), files{"a": "panel\n", "b": "panel\n"})
	w.decide(Approved, Selection{All: true})
	f, err := os.OpenFile(w.in("workspace")+"/a", os.O_RDWR, 0)
	must(t, err)
	closed := make(chan error, 1)
	w.at("all taken", func() {
		go func() { closed <- f.Close() }()
	})
	w.apply(ApplyRequest{})
	must(t, <-closed)
	same(t, "the workspace", read(t, w.in("workspace")), files{"a": "panel\n", "b": "panel\n"})
}

// A program that has opened a new file before it is put back, and writes to it then, keeps what it wrote.
func TestPutBackKeepsWhatWasWrittenToTheNewFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n", "b": "base\n"})
	write(t, w.in(id), files{"a": "panel\n", "b": "panel\n", "new": "new\n"})
	w.decide(Approved, Selection{All: true})
	late, err := os.OpenFile(w.in("workspace")+"/b", os.O_WRONLY, 0)
	must(t, err)
	w.at("all taken", func() {
		for _, name := range []string{"a", "new"} {
			f, err := os.OpenFile(w.in("workspace")+"/"+name, os.O_RDWR, 0)
			must(t, err)
			text, err := io.ReadAll(f)
			must(t, err)
			_, err = f.WriteString("and the user's\n")
			must(t, errors.Join(err, f.Close()))
			if name == "a" && string(text) != "panel\n" {
				t.Errorf("a is %q", text)
			}
		}
		_, err := late.WriteString("late\n")
		must(t, errors.Join(err, late.Close()))
	})
	_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	wantReason(t, err, Conflicting)
	same(t, "the workspace", read(t, w.in("workspace")), files{"a": "panel\nand the user's\n", "b": "late\n", "new": "new\nand the user's\n"})
}
