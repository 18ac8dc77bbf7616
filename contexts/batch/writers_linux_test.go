package batch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// saved is what the programs of these tests write. No file of the batch is as long.
const saved = "what a program saved while the batch was carried out"

// writers are the ways in which a program changes a file.
var writers = map[string]func(name string) error{
	"in place": func(name string) error { return os.WriteFile(name, []byte(saved), 0o600) },
	"append": func(name string) error {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(saved)
		return errors.Join(err, f.Close())
	},
	"rename": func(name string) error {
		return errors.Join(os.WriteFile(name+".new", []byte(saved), 0o600), os.Rename(name+".new", name))
	},
}

// written are the files that writtenSteps change, by their contents.
var written = map[string]string{"write": "1", "edit": "22", "rm": "333", "copy": "4444", "over": "55555", "from": "666666", "onto": "7777777", "mode": "88888888", "twice": "999999999"}

// writtenSteps does everything that a batch does to files.
func writtenSteps() []batch.Step {
	more := func(old []byte) ([]byte, error) { return append(old, "!"...), nil }
	return []batch.Step{
		{Kind: batch.Write, Path: "write", Data: []byte("new")},
		{Kind: batch.Write, Path: "twice", Data: []byte("new")},
		{Kind: batch.Edit, Path: "edit", Edit: more},
		{Kind: batch.Remove, Path: "rm"},
		{Kind: batch.Copy, Path: "copy", Dest: "over"},
		{Kind: batch.Rename, Path: "from", Dest: "onto"},
		{Kind: batch.Chmod, Path: "mode", Mode: 0o640},
		{Kind: batch.Edit, Path: "twice", Edit: more},
		{Kind: batch.Copy, Path: "mode", Dest: "copied"},
	}
}

// writtenWorld has the files of written.
func writtenWorld(t *testing.T) world {
	t.Helper()
	w := newWorld(t, t.TempDir())
	t.Cleanup(func() { _ = w.root.Close() })
	for name, text := range written {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// pointsOf counts the points of a batch.
func pointsOf(t *testing.T, steps []batch.Step) (n int) {
	t.Helper()
	if err := writtenWorld(t).run(steps, func(string) { n++ }); err != nil {
		t.Fatal(err)
	}
	return n
}

// atPoint returns a function for Batch.Point that calls f at the nth point, with its phase.
func atPoint(n int, f func(phase string)) func(string) {
	return func(phase string) {
		if n--; n == 0 {
			f(phase)
		}
	}
}

// TestBatchKeepsWhatAProgramWritesMeanwhile has a program change one file at one point of a batch. Whether the batch fails or not, the
// content is there afterwards.
func TestBatchKeepsWhatAProgramWritesMeanwhile(t *testing.T) {
	t.Parallel()
	points := pointsOf(t, writtenSteps())
	failures := 0
	for how, write := range writers {
		for name := range written {
			for point := 1; point <= points; point++ {
				if writeAt(t, how, name, point, write) {
					failures++
				}
			}
		}
	}
	if failures == 0 {
		t.Error("no batch failed")
	}
}

// writeAt carries out a batch during which a file is written. It reports whether the batch failed.
func writeAt(t *testing.T, how, name string, point int, write func(string) error) bool {
	t.Helper()
	w, when := writtenWorld(t), ""
	full := filepath.Join(w.dir, name)
	err := w.run(writtenSteps(), atPoint(point, func(phase string) {
		when = phase
		if err := write(full); err != nil {
			t.Error(err)
		}
	}))
	if text, readErr := os.ReadFile(full); readErr != nil || !strings.HasSuffix(string(text), saved) {
		t.Errorf("%s of %s at point %d, %s: it holds %q (%v), and the batch returned %v", how, name, point, when, text, readErr, err)
	}
	if err != nil {
		wantAborted(t, err)
		for other, text := range written {
			if got, err := os.ReadFile(filepath.Join(w.dir, other)); other != name && (err != nil || string(got) != text) {
				t.Errorf("%s of %s at point %d, %s: after the undo %s holds %q (%v)", how, name, point, when, other, got, err)
			}
		}
	}
	if batch.Pending(w.journal) {
		t.Error("the journal is left")
	}
	return err != nil
}

func wantAborted(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*fserr.Error](err)
	if !ok || e.Kind != fserr.KindCondition || e.Step == 0 || errors.Is(err, batch.ErrBroken) {
		t.Errorf("the batch returned %v, want a failed condition of a step", err)
	}
}

// TestBatchFailsIfAnOpenFileIsWritten has a program that opened a file before the batch write to it.
func TestBatchFailsIfAnOpenFileIsWritten(t *testing.T) {
	t.Parallel()
	points := pointsOf(t, writtenSteps())
	for _, name := range []string{"write", "edit", "rm", "over", "onto", "twice"} {
		for point := 1; point <= points; point++ {
			w, when := writtenWorld(t), ""
			full := filepath.Join(w.dir, name)
			f, err := os.OpenFile(full, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			err = w.run(writtenSteps(), atPoint(point, func(phase string) {
				when = phase
				if _, err := f.WriteString(saved); err != nil {
					t.Error(err)
				}
			}))
			if late := when == "finished" || when == "cleaned"; late != (err == nil) {
				t.Errorf("%s at point %d, %s: the batch returned %v", name, point, when, err)
			}
			if text, readErr := os.ReadFile(full); err != nil && string(text) != saved {
				t.Errorf("%s at point %d, %s: it holds %q (%v)", name, point, when, text, readErr)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestConditionsHoldUntilTheChanges has a program change a file that only a condition names.
func TestConditionsHoldUntilTheChanges(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"journal", "staged", "recorded"} {
		w := writtenWorld(t)
		stale := &fserr.Error{Code: fserr.ESTALE, Kind: fserr.KindCondition, ETag: "now"}
		was := int64(len(written["mode"]))
		steps := []batch.Step{
			{Kind: batch.Write, Path: "new", Data: []byte("new"), Mode: 0o644},
			{Kind: batch.Write, Path: "write", Data: []byte("new"), Conditions: []batch.Condition{{Path: "mode", Check: func(st *rootfs.Stat) error {
				if st == nil || st.Size != was {
					return stale
				}
				return nil
			}}}},
		}
		err := w.run(steps, func(now string) {
			if now == phase {
				if err := os.WriteFile(filepath.Join(w.dir, "mode"), []byte(saved), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
		wantAborted(t, err)
		if e, ok := errors.AsType[*fserr.Error](err); !ok || e.ETag != "now" || e.Step != 2 {
			t.Errorf("%s: got %v, want the error of the condition of the second step", phase, err)
		}
		if text, err := os.ReadFile(filepath.Join(w.dir, "write")); err != nil || string(text) != written["write"] {
			t.Errorf("%s: the file holds %q (%v)", phase, text, err)
		}
	}
}

// TestBatchReplacesTwoNamesOfOneFile: the first exchange changes the attributes of the second file.
func TestBatchReplacesTwoNamesOfOneFile(t *testing.T) {
	t.Parallel()
	w := writtenWorld(t)
	if err := os.Link(filepath.Join(w.dir, "write"), filepath.Join(w.dir, "link")); err != nil {
		t.Fatal(err)
	}
	err := w.run([]batch.Step{
		{Kind: batch.Write, Path: "write", Data: []byte("one")}, {Kind: batch.Chmod, Path: "link", Mode: 0o644}, {Kind: batch.Write, Path: "link", Data: []byte("two")},
	}, nil)
	text, readErr := os.ReadFile(filepath.Join(w.dir, "link"))
	if err != nil || string(text) != "two" {
		t.Errorf("the link holds %q (%v), and the batch returned %v", text, readErr, err)
	}
}

// TestRecoverKeepsADirectoryWhoseMoveWasNotBegun kills a batch before it moves a directory. A program then makes another directory, or a copy,
// where the first was to go.
func TestRecoverKeepsADirectoryWhoseMoveWasNotBegun(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]func(dir string) error{
		"nothing":  func(string) error { return nil },
		"an empty": func(dir string) error { return os.Mkdir(filepath.Join(dir, "to"), 0o755) },
		"its own": func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "to"), 0o755), os.WriteFile(filepath.Join(dir, "to", "own"), []byte(saved), 0o600))
		},
		"of a name": func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "to"), 0o755), os.WriteFile(filepath.Join(dir, "to", "file"), []byte(saved), 0o600))
		},
	} {
		w := newWorld(t, t.TempDir())
		t.Cleanup(func() { _ = w.root.Close() })
		if err := errors.Join(os.MkdirAll(filepath.Join(w.dir, "from", "below"), 0o755), os.WriteFile(filepath.Join(w.dir, "from", "file"), []byte("kept"), 0o600)); err != nil {
			t.Fatal(err)
		}
		killAt(t, "begin", func(point func(string)) error {
			return w.run([]batch.Step{{Kind: batch.Rename, Path: "from", Dest: "to"}}, point)
		})
		if err := program(w.dir); err != nil {
			t.Fatal(err)
		}
		hidden, err := filepath.Glob(filepath.Join(w.dir, rootfs.ReservedPrefix+"*"))
		if err != nil || len(hidden) != 1 {
			t.Fatalf("%v, %v", hidden, err)
		}
		want := strings.ReplaceAll(w.tree(), "drwx------ "+filepath.Base(hidden[0])+"\n", "")
		if err := batch.Recover(t.Context(), w.root, w.journal); err != nil {
			t.Fatal(err)
		}
		if got := w.tree(); got != want {
			t.Errorf("%s: the tree is\n%s, want\n%s", name, got, want)
		}
	}
}

// killAt runs a batch that ends at a phase as by a kill.
func killAt(t *testing.T, phase string, run func(point func(string)) error) {
	t.Helper()
	killed := errors.New("killed")
	defer func() {
		if got := recover(); got != killed { //nolint:errorlint // it is what was panicked with
			t.Fatalf("the batch was not killed: %v", got)
		}
	}()
	err := run(func(at string) {
		if at == phase {
			panic(killed)
		}
	})
	t.Fatalf("the batch ended: %v", err)
}

// hidden are changes that keep the size and the mtime of a file.
var hidden = map[string]func(name string, was os.FileInfo) error{
	"mode": func(name string, _ os.FileInfo) error { return os.Chmod(name, 0o640) },
	"mode and a name": func(name string, _ os.FileInfo) error {
		return errors.Join(os.Chmod(name, 0o640), os.Link(name, name+".link"))
	},
	"content": func(name string, was os.FileInfo) error {
		for { // until the clock of the file system has moved
			err := errors.Join(os.WriteFile(name, []byte(strings.Repeat("x", int(was.Size()))), 0o600), os.Chtimes(name, was.ModTime(), was.ModTime()))
			now, serr := os.Lstat(name)
			if err = errors.Join(err, serr); err != nil || ctimeOf(now) != ctimeOf(was) {
				return err
			}
		}
	},
}

func ctimeOf(st os.FileInfo) syscall.Timespec { return st.Sys().(*syscall.Stat_t).Ctim } //nolint:forcetypeassert // on Linux

// TestBatchSeesHiddenChanges has a program change a file, without a trace in its size and mtime, before the batch replaces or copies it.
func TestBatchSeesHiddenChanges(t *testing.T) {
	t.Parallel()
	for how, change := range hidden {
		for _, name := range []string{"write", "edit", "rm", "copy", "over", "from", "onto", "mode", "twice"} {
			w := writtenWorld(t)
			full := filepath.Join(w.dir, name)
			was, err := os.Lstat(full)
			if err != nil {
				t.Fatal(err)
			}
			err = w.run(writtenSteps(), func(phase string) {
				if phase == "recorded" {
					if err := change(full, was); err != nil {
						t.Error(err)
					}
				}
			})
			if err == nil {
				t.Errorf("%s of %s: the batch succeeded", how, name)
				continue
			}
			wantAborted(t, err)
		}
	}
}
