package contexts

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// writing returns the options of a batch that writes a file.
func writing(name, text string) BatchOptions {
	return BatchOptions{Steps: func(*Access) ([]batch.Step, error) {
		return []batch.Step{{Kind: batch.Write, Path: name, Data: []byte(text), Mode: 0o644}}, nil
	}}
}

func TestBatchWaitsForReadersAndNotForCommands(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("batches need a server on Linux")
	}
	m := small(t).open(func(c *Config) { c.drainTime = 50 * time.Millisecond })
	ensure(t, m, "ctx_a")
	command := yielding(t, m, nil)
	_, err := m.Batch(t.Context(), "ctx_a", writing("a", "one"))
	must(t, err)
	if command.paused.Load() != 0 {
		t.Error("the command was paused")
	}

	reader, err := m.Acquire(t.Context(), "ctx_a", Read)
	must(t, err)
	_, err = m.Batch(t.Context(), "ctx_a", writing("a", "two"))
	if fserr.CodeOf(err) != fserr.EBUSY {
		t.Errorf("with a reader inside: %v, want EBUSY", err)
	}
	if text, err := os.ReadFile(m.cat.Layout.Folder("ctx_a") + "/a"); err != nil || string(text) != "one" {
		t.Errorf("after EBUSY the file holds %q (%v)", text, err)
	}
	reader.Release()
	_, err = m.Batch(t.Context(), "ctx_a", writing("a", "three"))
	must(t, err)
}

func TestBatchKeepsOpenFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("batches need a server on Linux")
	}
	m := small(t).open()
	ensure(t, m, "ctx_a")
	_, err := m.Batch(t.Context(), "ctx_a", writing("a", "one"))
	must(t, err)
	a, err := m.Acquire(t.Context(), "ctx_a", Read)
	must(t, err)
	f, err := a.Root.OpenFile("a", rootfs.O_RDONLY, 0)
	must(t, err)
	a.Release()
	_, err = m.Batch(t.Context(), "ctx_a", writing("a", "two"))
	must(t, err)
	text := make([]byte, 3)
	if _, err := f.ReadAt(text, 0); err != nil || string(text) != "one" {
		t.Errorf("the open file holds %q (%v), want what it held", text, err)
	}
	must(t, f.Close())
}

func TestBatchKeepsTheQuota(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("batches need a server on Linux")
	}
	m := small(t).open(func(c *Config) { c.Quota = Quota{Bytes: 64 << 10} })
	ensure(t, m, "ctx_a")
	_, err := m.Batch(t.Context(), "ctx_a", writing("a", string(make([]byte, 128<<10))))
	if fserr.CodeOf(err) != fserr.EDQUOT {
		t.Errorf("got %v, want EDQUOT", err)
	}
	if _, err := os.Lstat(m.cat.Layout.Folder("ctx_a") + "/a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
}

// TestBatchCopiesOfSparseFilesCountWhatTheyTake copies a file that says that it has terabytes, so often that the sum of the sizes overflows.
func TestBatchCopiesOfSparseFilesCountWhatTheyTake(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("batches need a server on Linux")
	}
	m := small(t).open(func(c *Config) { c.Quota = Quota{Bytes: 1 << 20} })
	ensure(t, m, "ctx_a")
	folder := m.cat.Layout.Folder("ctx_a")
	must(t, os.WriteFile(folder+"/sparse", nil, 0o600))
	must(t, os.Truncate(folder+"/sparse", 15<<40))
	must(t, os.WriteFile(folder+"/solid", make([]byte, 512<<10), 0o600))
	copies := func(source string, n int) error {
		_, err := m.Batch(t.Context(), "ctx_a", BatchOptions{Steps: func(*Access) ([]batch.Step, error) {
			var steps []batch.Step
			for range n {
				steps = append(steps, batch.Step{Kind: batch.Copy, Path: source, Dest: "copy"})
			}
			return steps, nil
		}})
		return err
	}
	must(t, copies("sparse", 3))
	if st, err := os.Stat(folder + "/copy"); err != nil || st.Size() != 15<<40 {
		t.Errorf("the copy is %v, %v", st, err)
	}
	if err := copies("solid", 3); fserr.CodeOf(err) != fserr.EDQUOT {
		t.Errorf("copies of a solid file: %v, want EDQUOT", err)
	}
}
