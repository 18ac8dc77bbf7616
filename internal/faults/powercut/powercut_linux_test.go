package powercut

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

// flushed makes what was done to a file or directory survive.
func flushed(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	must(t, errors.Join(f.Sync(), f.Close()))
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// old is a file that survives.
func old(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	put(t, path, "old "+name)
	flushed(t, path)
	flushed(t, dir)
	return path
}

// shown are the names in a directory with their content. Links of one file are shown as such.
func shown(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	files := map[uint64]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		must(t, err)
		if e.IsDir() {
			all = append(all, name+"/")
			return nil
		}
		var st unix.Stat_t
		must(t, unix.Lstat(path, &st))
		if first := files[st.Ino]; first != "" {
			all = append(all, name+"="+first)
			return nil
		}
		files[st.Ino] = name
		if e.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			must(t, err)
			all = append(all, name+"->"+target)
			return nil
		}
		data, err := os.ReadFile(path)
		must(t, err)
		if zeros := strings.TrimRight(string(data), "\x00"); len(zeros) < len(data) {
			data = []byte(zeros + "0")
		}
		all = append(all, name+":"+string(data))
		return nil
	}))
	return strings.Join(all, " ")
}

// cuts is how often the test cuts after each operation. The choices are seeded: they are the same in each run.
const cuts = 40

// TestForgetsWhatWasNotFlushed does an operation, cuts, and looks, again and again. It takes some seconds, since it mounts the disk a thousand times.
func TestForgetsWhatWasNotFlushed(t *testing.T) {
	d := New(t, 1)
	dir := func() string { return filepath.Join(d.At, "d") }
	for _, c := range []struct {
		name string
		do   func(t *testing.T, dir string)
		// want is what may be there. The first two come up.
		want []string
	}{
		{"write", func(t *testing.T, dir string) { put(t, dir+"/f", "new") }, []string{"", "f:", "f:0", "f:new"}},
		{"write, file flushed", func(t *testing.T, dir string) {
			put(t, dir+"/f", "new")
			flushed(t, dir+"/f")
		}, []string{"", "f:new"}},
		{"write, directory flushed", func(t *testing.T, dir string) {
			put(t, dir+"/f", "new")
			flushed(t, dir)
		}, []string{"f:", "f:0", "f:new"}},
		{"write, both flushed", func(t *testing.T, dir string) {
			put(t, dir+"/f", "new")
			flushed(t, dir+"/f")
			flushed(t, dir)
		}, []string{"f:new"}},
		{"overwrite", func(t *testing.T, dir string) { put(t, old(t, dir, "f"), "new f") }, []string{"f:old f", "f:new f", "f:", "f:0"}},
		{"truncate", func(t *testing.T, dir string) { must(t, os.Truncate(old(t, dir, "f"), 3)) }, []string{"f:old f", "f:old", "f:old0"}},
		{"truncate, flushed", func(t *testing.T, dir string) {
			f := old(t, dir, "f")
			must(t, os.Truncate(f, 3))
			flushed(t, f)
		}, []string{"f:old"}},
		{"rename", func(t *testing.T, dir string) { must(t, os.Rename(old(t, dir, "a"), dir+"/b")) }, []string{"a:old a", "b:old a"}},
		{"rename, directory flushed", func(t *testing.T, dir string) {
			must(t, os.Rename(old(t, dir, "a"), dir+"/b"))
			flushed(t, dir)
		}, []string{"b:old a"}},
		{"rename over another, content not flushed", func(t *testing.T, dir string) {
			old(t, dir, "f")
			put(t, dir+"/n", "new")
			must(t, os.Rename(dir+"/n", dir+"/f"))
		}, []string{"f:", "f:old f", "f:new", "f:0", "f:old f n:new", "f:old f n:", "f:old f n:0"}},
		{"exchange", func(t *testing.T, dir string) {
			a, b := old(t, dir, "a"), old(t, dir, "b")
			must(t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
		}, []string{"a:old a b:old b", "a:old b b:old a"}},
		{"rename into another directory", func(t *testing.T, dir string) {
			f := old(t, dir, "f")
			must(t, os.Mkdir(dir+"/s", 0o700))
			flushed(t, dir)
			must(t, os.Rename(f, dir+"/s/f"))
		}, []string{"f:old f s/", "s/ s/f:old f"}},
		{"link", func(t *testing.T, dir string) { must(t, os.Link(old(t, dir, "a"), dir+"/b")) }, []string{"a:old a", "a:old a b=a"}},
		{"link, directory flushed", func(t *testing.T, dir string) {
			must(t, os.Link(old(t, dir, "a"), dir+"/b"))
			flushed(t, dir)
		}, []string{"a:old a b=a"}},
		{"unlink", func(t *testing.T, dir string) { must(t, os.Remove(old(t, dir, "f"))) }, []string{"f:old f", ""}},
		{"symlink", func(t *testing.T, dir string) { must(t, os.Symlink("x", dir+"/l")) }, []string{"", "l->x"}},
		{"mkdir", func(t *testing.T, dir string) { must(t, os.Mkdir(dir+"/s", 0o700)) }, []string{"", "s/"}},
		{"flushed in a directory that is not", func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/s", 0o700))
			put(t, dir+"/s/f", "new")
			flushed(t, dir+"/s/f")
			flushed(t, dir+"/s")
		}, []string{"", "s/ s/f:new"}},
		{"O_TMPFILE and linkat", func(t *testing.T, dir string) { linked(t, dir, true) }, []string{"", "f:new"}},
		{"O_TMPFILE and linkat, not flushed", func(t *testing.T, dir string) { linked(t, dir, false) }, []string{"", "f:", "f:0", "f:new"}},
		{"mmap", func(t *testing.T, dir string) { mapped(t, old(t, dir, "f"), false) }, []string{"f:old f", "f:NEW f"}},
		{"mmap, msync", func(t *testing.T, dir string) { mapped(t, old(t, dir, "f"), true) }, []string{"f:NEW f"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]bool{}
			for range cuts {
				must(t, os.RemoveAll(dir()))
				must(t, os.Mkdir(dir(), 0o700))
				flushed(t, d.At)
				c.do(t, dir())
				before := shown(t, dir())
				d.Cut()
				if _, err := os.ReadDir(d.At); !errors.Is(err, unix.EIO) && err != nil {
					t.Fatalf("after a cut: %v", err)
				}
				d.Resume()
				got[shown(t, dir())] = true
				if !slices.Contains(c.want, before) {
					t.Fatalf("before the cut: %q", before)
				}
			}
			for _, want := range c.want[:min(2, len(c.want))] {
				if !got[want] {
					t.Errorf("after no cut there was %q", want)
				}
			}
			for found := range got {
				if !slices.Contains(c.want, found) {
					t.Errorf("after a cut there was %q", found)
				}
			}
		})
	}
}

// linked writes a file that has no name, and gives it one.
func linked(t *testing.T, dir string, flush bool) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	must(t, err)
	f := os.NewFile(uintptr(fd), "f")
	_, err = f.WriteString("new")
	must(t, err)
	if flush {
		must(t, f.Sync())
	}
	must(t, unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, dir+"/f", unix.AT_SYMLINK_FOLLOW))
	must(t, f.Close())
}

// mapped changes a file through memory.
func mapped(t *testing.T, path string, flush bool) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	m, err := unix.Mmap(int(f.Fd()), 0, 5, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	copy(m, "NEW")
	if flush {
		must(t, unix.Msync(m, unix.MS_SYNC))
	}
	must(t, errors.Join(unix.Munmap(m), f.Close()))
}

// TestAttributesAreForgotten changes the mode and an extended attribute of a file: they survive together or not at all.
func TestAttributesAreForgotten(t *testing.T) {
	d := New(t, 2)
	got := map[string]int{}
	for range cuts {
		f := old(t, d.At, "f")
		must(t, os.Chmod(f, 0o600))
		must(t, unix.Setxattr(f, "user.x", []byte("old"), 0))
		flushed(t, f)
		must(t, os.Chmod(f, 0o640))
		must(t, unix.Setxattr(f, "user.x", []byte("new"), 0))
		d.Cut()
		d.Resume()
		st, err := os.Stat(f)
		must(t, err)
		value := make([]byte, 10)
		n, err := unix.Getxattr(f, "user.x", value)
		must(t, err)
		got[st.Mode().String()+" "+string(value[:n])]++
	}
	if len(got) != 2 || got["-rw------- old"] == 0 || got["-rw-r----- new"] == 0 {
		t.Errorf("after cuts there was %v", got)
	}
}

// TestBlocksAreForgotten writes to an ext4 whose device loses what it did not flush. The file system is whole after each cut, has what fsync
// was called for, and sometimes lacks the rest.
func TestBlocksAreForgotten(t *testing.T) {
	d := NewBlocks(t, 3, 64<<20)
	lost := 0
	for n := range 10 {
		kept, maybe := filepath.Join(d.At, "kept"+strconv.Itoa(n)), filepath.Join(d.At, "maybe"+strconv.Itoa(n))
		put(t, kept, "kept")
		flushed(t, kept)
		put(t, maybe, "maybe")
		d.Cut()
		d.Resume()
		if data, err := os.ReadFile(kept); err != nil || string(data) != "kept" {
			t.Errorf("after cut %d a flushed file is %q, %v", n, data, err)
		}
		if data, _ := os.ReadFile(maybe); string(data) != "maybe" {
			lost++
		}
	}
	if lost == 0 {
		t.Error("nothing was forgotten")
	}
}
