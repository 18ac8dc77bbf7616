package durable_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

func TestMain(m *testing.M) {
	powercut.Main()
	goleak.VerifyTestMain(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a tree of so many files and a link.
func write(t *testing.T, top string, files int) {
	t.Helper()
	for n := range files {
		dir := filepath.Join(top, fmt.Sprint(n%3))
		must(t, os.MkdirAll(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), fmt.Append(nil, "file ", n), 0o600))
	}
	must(t, os.Symlink("nothing", filepath.Join(top, "link")))
}

func check(t *testing.T, top string, files int) {
	t.Helper()
	for n := range files {
		data, err := os.ReadFile(filepath.Join(top, fmt.Sprint(n%3), fmt.Sprint(n)))
		if want := fmt.Sprint("file ", n); err != nil || string(data) != want {
			t.Errorf("file %d is %q, %v", n, data, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(top, "link")); err != nil {
		t.Error(err)
	}
}

// TestTreesSurvive flushes trees of few and of many files, on a FUSE file system and on an ext4, and cuts the power. It takes some seconds: the trees have many
// files, on disks in other processes.
func TestTreesSurvive(t *testing.T) {
	for disk, make := range map[string]func(t *testing.T) *powercut.Disk{
		"FUSE": func(t *testing.T) *powercut.Disk { return powercut.New(t, 1) },
		"ext4": func(t *testing.T) *powercut.Disk { return powercut.NewBlocks(t, 1, 64<<20) },
	} {
		t.Run(disk, func(t *testing.T) {
			d := make(t)
			for n := range 4 {
				top, files := filepath.Join(d.At, fmt.Sprint("deep", n), "er", "tree"), 3+(durable.Few+40)*(n%2)
				must(t, durable.MkdirAll(filepath.Dir(top), 0o700))
				write(t, top, files)
				must(t, durable.Tree(top))
				must(t, durable.Names(filepath.Dir(top)))
				d.Cut()
				d.Resume()
				check(t, top, files)
			}
		})
	}
}

// TestWholeFileSystemIsFlushedWhileLittleIsUnwritten counts the flushes of whole file systems: many files are flushed with
// their file system, unless other programs have much to write, or it is a FUSE.
func TestWholeFileSystemIsFlushedWhileLittleIsUnwritten(t *testing.T) {
	blocks, fuse := powercut.NewBlocks(t, 1, 64<<20), powercut.New(t, 1)
	for name, c := range map[string]struct {
		disk      *powercut.Disk
		files     int
		unwritten int64
		wide      int64
	}{
		"few files":                      {blocks, 3, 0, 0},
		"many files":                     {blocks, 100, 100 << 16, 1},
		"many files, and much by others": {blocks, 100, 200 << 16, 0},
		"many files on FUSE":             {fuse, 100, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			defer durable.Pretend(c.unwritten)()
			top := filepath.Join(c.disk.At, name)
			write(t, top, c.files)
			before := durable.Wide()
			must(t, durable.Tree(top))
			if n := durable.Wide() - before; n != c.wide {
				t.Errorf("%d whole file systems were flushed, want %d", n, c.wide)
			}
			must(t, durable.Names(c.disk.At))
			c.disk.Cut()
			c.disk.Resume()
			check(t, top, c.files)
		})
	}
}

// TestUnwrittenIsRead reads /proc/meminfo: a failure would give the largest number.
func TestUnwrittenIsRead(t *testing.T) {
	if text, err := os.ReadFile("/proc/meminfo"); err != nil || !strings.Contains(string(text), "\nDirty:") {
		t.Skipf("not tested: /proc/meminfo says nothing of unwritten pages: %v", err)
	}
	if n := durable.Unwritten(); n < 0 || n > 1<<50 {
		t.Errorf("%d bytes are unwritten", n)
	}
}

// TestWrittenFilesSurvive replaces a file, and cuts the power.
func TestWrittenFilesSurvive(t *testing.T) {
	d := powercut.New(t, 1)
	name := filepath.Join(d.At, "file")
	for n := range 10 {
		want := fmt.Sprint("content ", n)
		must(t, durable.WriteFile(name, []byte(want), 0o640))
		d.Cut()
		d.Resume()
		data, err := os.ReadFile(name)
		must(t, err)
		st, err := os.Stat(name)
		must(t, err)
		if string(data) != want || st.Mode().Perm() != 0o640 {
			t.Errorf("after cut %d the file is %q, mode %o", n, data, st.Mode().Perm())
		}
	}
}

// TestMkdirAllRefusesFiles wants a directory where a file is.
func TestMkdirAllRefusesFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if err := durable.MkdirAll(dir, 0o700); err == nil {
			t.Errorf("%s is a directory", dir)
		}
	}
}
