package review

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
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

// A file that a program is saving can be empty, or have a part of its content. Rebase waits until it is saved.
func TestRebaseWaitsForASave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n", "b": "base\n"})
	f, err := os.OpenFile(w.in("workspace")+"/a", os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	var once sync.Once
	w.at("being saved", func() {
		once.Do(func() {
			_, err := f.WriteString("saved\n")
			must(t, errors.Join(err, f.Close()))
		})
	})
	w.rebase(RebaseRequest{})
	same(t, "the context", read(t, w.in(id)), files{"a": "saved\n", "b": "base\n"})
}

func TestRebaseTakesAFileThatIsOpenAndQuiet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n", "log": "base\n"})
	log, err := os.OpenFile(w.in("workspace")+"/log", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer func() { must(t, log.Close()) }()
	_, err = log.WriteString("line\n")
	must(t, err)
	w.rebase(RebaseRequest{})
	same(t, "the context", read(t, w.in(id)), files{"a": "base\n", "log": "base\nline\n"})
}

// A file that a program writes again and again is not taken in the middle of it.
func TestRebaseRefusesAFileThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"log": "base\n"})
	log, err := os.OpenFile(w.in("workspace")+"/log", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer func() { must(t, log.Close()) }()
	line := func() {
		_, err := log.WriteString("line\n")
		must(t, err)
	}
	line()
	w.at("being saved", line)
	_, err = w.tryRebase(RebaseRequest{})
	if c := wantReason(t, err, Conflicting).Conflicts; len(c) != 1 || c[0] != (Conflict{"log", ConflictChangedMeanwhile}) {
		t.Errorf("the conflicts are %v", c)
	}
	same(t, "the context", read(t, w.in(id)), files{"log": "base\n"})
}

// TestRebaseRecordsNoConflictWithAHalfSavedFile has a program that has truncated a file of the context, and has not written it yet.
func TestRebaseRecordsNoConflictWithAHalfSavedFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": numbered(30)})
	write(t, w.in("workspace"), files{"a": strings.Replace(numbered(30), "line 5\n", "five\n", 1)})
	saved := strings.Replace(numbered(30), "line 25\n", "twenty-five\n", 1)
	f, err := os.OpenFile(w.in(id)+"/a", os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	_, err = w.tryRebase(RebaseRequest{OnConflict: RecordConflicts})
	if c := wantReason(t, err, Conflicting).Conflicts; len(c) != 1 || c[0] != (Conflict{"a", ConflictChangedMeanwhile}) {
		t.Errorf("the conflicts are %v", c)
	}
	_, err = f.WriteString(saved)
	must(t, errors.Join(err, f.Close()))
	w.rebase(RebaseRequest{OnConflict: RecordConflicts})
	same(t, "the context", read(t, w.in(id)), files{"a": strings.Replace(saved, "line 5\n", "five\n", 1)})
}

// TestPutBackKeepsASaveWithAnOldTime has one program that saves the new file and gives it an old time, as tools that copy times do, and another
// one that has the old file open.
func TestPutBackKeepsASaveWithAnOldTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n", "b": "base\n"})
	write(t, w.in(id), files{"a": "panel\n", "b": "panel\n"})
	w.decide(Approved, Selection{All: true})
	open, err := os.OpenFile(w.in("workspace")+"/a", os.O_WRONLY, 0)
	must(t, err)
	defer func() { must(t, open.Close()) }()
	w.at("all taken", func() {
		write(t, w.in("workspace"), files{"a": "saved\n"})
		must(t, os.Chtimes(w.in("workspace")+"/a", time.Unix(1, 0), time.Unix(1, 0)))
	})
	_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	wantReason(t, err, Conflicting)
	same(t, "the workspace", read(t, w.in("workspace")), files{"a": "saved\n", "b": "base\n"})
}
