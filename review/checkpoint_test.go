package review

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func nobody(Path) bool { return false }

// command does something to ctx_a between two checkpoints, and returns what was recorded of it.
func (w *world) command(do func(), others func(Path) bool) Recorded {
	w.t.Helper()
	before, err := w.reviews.Checkpoint(w.t.Context(), id)
	must(w.t, err)
	do()
	done, err := w.reviews.Record(w.t.Context(), before, "host", "make all", others)
	must(w.t, err)
	return done
}

// takeBack undoes an entry.
func (w *world) takeBack(entry int64) error {
	_, err := w.undo(entry)
	return err
}

// TestCommandOfThousandFilesIsUndone lets a command change 1,000 files in all ways, twice: on what the layer has, and on what the panel made.
func TestCommandOfThousandFilesIsUndone(t *testing.T) {
	t.Parallel()
	seeded := files{"keep.txt": "kept\n", "run.sh": "echo\n", "link": "-> keep.txt", "gone/deep/er.txt": "deep\n", "turned": "a file\n", "bin": "\x00\x01\xff"}
	for i := range 500 {
		seeded[fmt.Sprintf("src/d%d/f%d.txt", i%10, i)] = fmt.Sprintf("line %d\nsecond\n", i)
	}
	w := newWorld(t, seeded)
	write(t, w.in(id), files{"mine.txt": "the panel's\n", "src/d1/f1.txt": "the panel's too\n"})
	remove(t, w.in(id), "src/d2/f2.txt")
	before := read(t, w.in(id))
	change := func() {
		for i := range 500 {
			if i != 2 {
				write(t, w.in(id), files{fmt.Sprintf("src/d%d/f%d.txt", i%10, i): fmt.Sprintf("line %d\nchanged\n", i)})
			}
			write(t, w.in(id), files{fmt.Sprintf("out/d%d/o%d.txt", i%10, i): fmt.Sprint("out ", i)})
		}
		write(t, w.in(id), files{"run.sh": "+x echo\n", "mine.txt": "the command's\n", "src/d2/f2.txt": seeded["src/d2/f2.txt"], "bin": "\x00\x02"})
		remove(t, w.in(id), "gone/deep/er.txt", "link", "turned")
		write(t, w.in(id), files{"link": "-> run.sh", "turned": "-> keep.txt"})
	}
	done := w.command(change, nobody)
	if done.Entry == 0 || len(done.LeftOut) > 0 {
		t.Fatalf("recorded %+v", done)
	}
	changed := read(t, w.in(id))
	l, err := w.reviews.EntryChanges(t.Context(), id, done.Entry, func(e *Entry) error {
		if e.Command != "make all" || e.Kind != EntryExec {
			t.Errorf("the entry is %+v", e)
		}
		return nil
	})
	must(t, err)
	differ := map[string]bool{}
	for p := range changed {
		differ[p] = before[p] != changed[p]
	}
	for p := range before {
		differ[p] = before[p] != changed[p]
	}
	maps.DeleteFunc(differ, func(_ string, d bool) bool { return !d })
	if len(l.Changes) != len(differ) {
		t.Errorf("%d changes are listed, want %d", len(l.Changes), len(differ))
	}
	for _, c := range l.Changes {
		if !differ[string(c.Path)] || c.ID != "" {
			t.Errorf("%s is listed with the ID %q", c.Path, c.ID)
		}
	}
	must(t, l.Close())
	must(t, w.takeBack(done.Entry))
	same(t, "after the undo", read(t, w.in(id)), before)
	same(t, "the workspace", read(t, w.in("workspace")), seeded)

	undone, err := w.reviews.journal.ids(doneSuffix)
	must(t, err)
	must(t, w.takeBack(slices.Max(undone)))
	same(t, "after the redo", read(t, w.in(id)), changed)
}

// TestCommandBesideAChangeOfIgnoreFiles has ignored directories whose content no checkpoint keeps. While a command runs, the workspace's ignore files
// change, so that one of the checkpoints lists the content. The undo of the command leaves it alone.
func TestCommandBesideAChangeOfIgnoreFiles(t *testing.T) {
	t.Parallel()
	for name, ignored := range map[string][2]string{"ignored before": {"/out/\n", "#\n"}, "ignored afterwards": {"#\n", "/out/\n"}} {
		w := newWorld(t, files{"a": "a\n"})
		write(t, w.in("workspace"), files{".gitignore": ignored[0]})
		write(t, w.in(id), files{"out/made/x": "of before\n"})
		done := w.command(func() {
			write(t, w.in(id), files{"a": "changed\n"})
			write(t, w.in("workspace"), files{".gitignore": ignored[1]})
		}, nobody)
		e, err := w.reviews.journal.read(done.Entry, doneSuffix)
		must(t, err)
		if len(e.Steps) != 1 || !slices.Equal(done.Unrecorded, []Path{"out"}) {
			t.Errorf("%s: recorded are %d files, and %v are not", name, len(e.Steps), done.Unrecorded)
		}
		must(t, w.takeBack(done.Entry))
		same(t, name, read(t, w.in(id)), files{"a": "a\n", "out/made/x": "of before\n"})
	}
}

func TestEntryPatchIsOfThatTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a.txt": "one\n", "b.bin": "\x00old"})
	done := w.command(func() { write(t, w.in(id), files{"a.txt": "two\n", "b.bin": "\x00new"}) }, nobody)
	write(t, w.in(id), files{"a.txt": "three\n", "b.bin": "\x00later"})
	l, err := w.reviews.EntryChanges(t.Context(), id, done.Entry, func(*Entry) error { return nil })
	must(t, err)
	dir := t.TempDir()
	write(t, dir, files{"a.txt": "one\n", "b.bin": "\x00old"})
	var patch strings.Builder
	for _, c := range l.Changes {
		must(t, w.reviews.Patch(t.Context(), l, c, 3, &patch))
	}
	must(t, l.Close())
	if !strings.Contains(patch.String(), "+two\n") || strings.Contains(patch.String(), "three") || strings.Count(patch.String(), "diff --git") != 2 {
		t.Errorf("the patch is %s", patch.String())
	}
	if _, err := w.reviews.EntryChanges(t.Context(), "ctx_b", done.Entry, func(*Entry) error { return nil }); err == nil {
		t.Error("another context has the entry")
	}
}

// TestUndoOfCommandKeepsWhatOthersWrote has a file that the panel wrote during the command, and files that it writes after it.
func TestUndoOfCommandKeepsWhatOthersWrote(t *testing.T) {
	t.Parallel()
	text := "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	w := newWorld(t, files{"merged.txt": text, "clash.txt": "one\n", "plain.txt": "one\n"})
	done := w.command(func() {
		write(t, w.in(id), files{"merged.txt": strings.Replace(text, "2", "two", 1), "plain.txt": "the command's\n", "panel.txt": "the panel's\n"})
	}, func(p Path) bool { return p == "panel.txt" })
	if !slices.Equal(done.LeftOut, []Path{"panel.txt"}) {
		t.Errorf("left out %q", done.LeftOut)
	}
	second := w.command(func() { write(t, w.in(id), files{"clash.txt": "the command's\n", "made.txt": "made\n"}) }, nobody)
	write(t, w.in(id), files{"merged.txt": strings.Replace(strings.Replace(text, "2", "two", 1), "9", "nine", 1), "clash.txt": "the panel's\n"})

	must(t, w.takeBack(done.Entry))
	want := files{"merged.txt": strings.Replace(text, "9", "nine", 1), "plain.txt": "one\n", "panel.txt": "the panel's\n", "clash.txt": "the panel's\n", "made.txt": "made\n"}
	same(t, "after the first undo", read(t, w.in(id)), want)
	wantReason(t, w.takeBack(second.Entry), Conflicting)
	same(t, "after the refused undo", read(t, w.in(id)), want)
}

// TestRecordLeavesOutWhatEntriesDid discards a change while a command runs.
func TestRecordLeavesOutWhatEntriesDid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a.txt": "one\n"})
	write(t, w.in(id), files{"a.txt": "two\n"})
	done := w.command(func() {
		_, err := w.reviews.Discard(t.Context(), id, Selection{All: true}, "", "host")
		must(t, err)
		write(t, w.in(id), files{"b.txt": "the command's\n"})
	}, nobody)
	must(t, w.takeBack(done.Entry))
	same(t, "after the undo", read(t, w.in(id)), files{"a.txt": "one\n"})
	if !slices.Equal(done.LeftOut, []Path{"a.txt"}) {
		t.Errorf("left out %q", done.LeftOut)
	}
}

// TestRecordOfAppliedChanges moves the base while a command runs: the content of the context stays.
func TestRecordOfAppliedChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a.txt": "one\n"})
	write(t, w.in(id), files{"a.txt": "two\n"})
	done := w.command(func() {
		_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &Selection{All: true}, Approve: true, Actor: "host"})
		must(t, err)
	}, nobody)
	if done.Entry != 0 || len(done.LeftOut) != 0 {
		t.Errorf("recorded %+v of a command that changed nothing", done)
	}
	if done := w.command(func() { must(t, os.Chmod(filepath.Join(w.in(id), "a.txt"), 0o700)) }, nobody); done.Entry == 0 {
		t.Error("a mode was not recorded")
	} else {
		must(t, w.takeBack(done.Entry))
	}
	same(t, "after the undo", read(t, w.in(id)), files{"a.txt": "two\n"})
}

// TestRecordNamesIgnoredDirectories has commands that change new directories that are ignored.
func TestRecordNamesIgnoredDirectories(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{".gitignore": "node_modules/\nout/\n", "a": "a\n"})
	for _, c := range []struct {
		name  string
		do    func()
		entry bool
		want  []Path
	}{
		{"makes one", func() { write(t, w.in(id), files{"node_modules/m/index.js": "x\n"}) }, false, []Path{"node_modules"}},
		{"leaves it", func() { write(t, w.in(id), files{"a": "b\n"}) }, true, nil},
		{"changes it, makes another and a file", func() {
			write(t, w.in(id), files{"node_modules/m/index.js": "longer\n", "out/o": "o\n", "new": "n\n"})
		}, true, []Path{"node_modules", "out"}},
		{"removes one", func() { must(t, os.RemoveAll(filepath.Join(w.in(id), "out"))) }, false, []Path{"out"}},
	} {
		done := w.command(c.do, nobody)
		if (done.Entry != 0) != c.entry || !slices.Equal(done.Unrecorded, c.want) {
			t.Errorf("%s: recorded %+v, want %v", c.name, done, c.want)
		}
		if len(c.want) < 2 {
			continue
		}
		undone, err := w.undo(done.Entry)
		must(t, err)
		if want := []LeftOut{{"node_modules", "ignored", 0}, {"out", "ignored", 0}}; !slices.Equal(undone.LeftOut, want) {
			t.Errorf("undo left out %v, want %v", undone.LeftOut, want)
		}
	}
}
