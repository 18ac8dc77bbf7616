package batch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

// TestManyFilesAreFlushed carries out batches of many files and of few that survive a power failure, and cuts the power. All
// of a batch is there, or nothing if it failed. No call has flushed a whole file system, which waits for other programs,
// unless these have little to write.
func TestManyFilesAreFlushed(t *testing.T) {
	for _, c := range []struct {
		files int
		fails bool
		// whole is for an ext4 of a machine that has little to write.
		whole bool
	}{{100, false, false}, {100, true, false}, {2, false, false}, {2, true, false}, {100, false, true}, {100, true, true}} {
		t.Run(fmt.Sprintf("%d, fails: %v, whole: %v", c.files, c.fails, c.whole), func(t *testing.T) {
			disk := powercut.New
			if c.whole {
				disk = func(t testing.TB, seed uint64) *powercut.Disk { return powercut.NewBlocks(t, seed, 64<<20) }
			}
			manyFilesAreFlushed(t, disk(t, 5), c.files, c.fails, c.whole)
		})
	}
}

func manyFilesAreFlushed(t *testing.T, disk *powercut.Disk, files int, fails, whole bool) {
	t.Helper()
	t.Cleanup(durable.Pretend(0))
	fine(t, os.Mkdir(filepath.Join(disk.At, "journal"), 0o700))
	fine(t, os.MkdirAll(filepath.Join(disk.At, "tree", "dir"), 0o755))
	w, err := worldAt(disk.At)
	fine(t, err)
	in := func(name string) string { return filepath.Join(w.dir, name) }
	before, after := map[string]string{"dir/moved": "moved", "mode": "mode"}, map[string]string{"away/moved": "moved", "mode": "mode"}
	var steps []batch.Step
	for i := range files {
		file := fmt.Sprint("dir/", i)
		if i%2 == 0 {
			before[file] = "old"
		}
		after[fmt.Sprint("away/", i)] = fmt.Sprint("new ", i)
		steps = append(steps, batch.Step{Kind: batch.Write, Path: "/" + file, Data: fmt.Append(nil, "new ", i), Mode: 0o644})
	}
	steps = append(steps, batch.Step{Kind: batch.Mkdir, Path: "/dir/sub", Mode: 0o755}, batch.Step{Kind: batch.Rename, Path: "/dir", Dest: "/away"},
		batch.Step{Kind: batch.Chmod, Path: "/mode", Mode: 0o600},
		batch.Step{Kind: batch.Mkdir, Path: "/made", Mode: 0o750}, batch.Step{Kind: batch.Write, Path: "/made/file", Data: []byte("file"), Mode: 0o644},
		batch.Step{Kind: batch.Rename, Path: "/saved", Dest: "/made/saved"})
	after["made/file"], after["made/saved"] = "file", "saved"
	for name, text := range before {
		fine(t, os.WriteFile(in(name), []byte(text), 0o644))
	}
	disk.Settle()
	fine(t, os.WriteFile(in("saved"), []byte("saved"), 0o644)) // which nobody flushed
	wide := durable.Wide()
	b, err := batch.New(t.Context(), w.root, steps)
	fine(t, err)
	fine(t, b.Stage(t.Context(), w.journal, true))
	want := after
	if fails {
		want = before
		done := 0
		b.Point = func(phase string) {
			if phase != "done" {
				return
			}
			if done++; done == len(steps)-1 { // a program changes what the last step relies on
				_ = os.WriteFile(in("saved"), []byte("again"), 0o644)
			}
		}
	}
	_, err = b.Flip()
	if (err != nil) != fails {
		t.Fatalf("the batch returned %v", err)
	}
	if !fails {
		fine(t, b.Clean(t.Context()))
	}
	if n := durable.Wide() - wide; n != 0 != whole {
		t.Errorf("%d calls flushed the whole file system", n)
	}
	fine(t, w.root.Close())
	disk.Cut()
	disk.Resume()
	w, err = worldAt(disk.At)
	fine(t, err)
	fine(t, batch.Recover(t.Context(), w.root, w.journal))
	fine(t, w.root.Close())
	for name, text := range want {
		if data, err := os.ReadFile(in(name)); err != nil || string(data) != text {
			t.Errorf("%s has %q (%v), want %q", name, data, err, text)
		}
	}
	if st, err := os.Stat(in("mode")); err != nil || (st.Mode().Perm() == 0o600) == fails {
		t.Errorf("the mode is %v (%v)", st.Mode(), err)
	}
	if _, err := os.Stat(in("away/sub")); (err == nil) == fails {
		t.Errorf("the directory that was made: %v", err)
	}
	if entries, err := os.ReadDir(w.dir); err != nil || len(entries) > 4 {
		t.Errorf("the tree has %v (%v)", entries, err)
	}
}
