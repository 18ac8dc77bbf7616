package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

var past = time.Unix(1_234_567_890, 123_456_789)

// TestUserNSRename renames directories of the layer, which the kernel refuses (EXDEV).
func TestUserNSRename(t *testing.T) {
	p, root := rooted(t, inside(t, Options{}))
	if err := os.Rename(filepath.Join(p.Folder, "dir"), filepath.Join(p.Folder, "new")); !errors.Is(err, unix.EXDEV) {
		t.Errorf("the kernel says %v to what is emulated", err)
	}
	before, err := root.Lstat("dir/sub")
	must(t, err)
	open, err := root.OpenFile("dir/sub/g", rootfs.O_RDWR, 0)
	must(t, err)
	must(t, root.Rename("dir", "other/moved"))
	_, err = open.WriteAt([]byte("DIR"), 0)
	must(t, errors.Join(err, open.Close()))
	for name, want := range map[string]string{"f": "dir/f", "sub/g": "DIR/sub/g", "sub/deep/h": "dir/sub/deep/h", "closed/i": "dir/closed/i", "link": "dir/f"} {
		if data, err := os.ReadFile(filepath.Join(p.Folder, "other/moved", name)); err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v, want %q", name, data, err, want)
		}
	}
	if after, err := root.Lstat("other/moved/sub"); err != nil || after.MtimeNs != before.MtimeNs || after.Mode != before.Mode {
		t.Errorf("a directory became %+v, %v, was %+v", after, err, before)
	}
	if closed, err := root.Lstat("other/moved/closed"); err != nil || closed.Perm() != 0o555 {
		t.Errorf("a directory that cannot be written to has mode %o, %v", closed.Perm(), err)
	}
	if n, err := unix.Getxattr(filepath.Join(p.Folder, "other/moved/sub"), "user.test", make([]byte, 8)); err != nil || n != 1 {
		t.Errorf("an extended attribute is lost: %d, %v", n, err)
	}
	wantNames(t, p.Folder, "file", "other")
	wantNames(t, filepath.Join(p.Folder, "other"), "moved")
	must(t, root.Rename("other/moved", "dir")) // and back, over where it was
	wantNames(t, p.Folder, "dir", "file", "other")
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %v, want %v", filepath.Base(dir), got, want)
	}
}

// TestUserNSRenameRefusals are rename(2)'s.
func TestUserNSRenameRefusals(t *testing.T) {
	p, root := rooted(t, inside(t, Options{}))
	if !namespacestest.Bound() {
		t.Skip("not tested here: this test was built with cgo, where modes do not bind it")
	}
	must(t, os.Mkdir(filepath.Join(p.Folder, "empty"), 0o755))
	for _, c := range []struct {
		from, to string
		want     fserr.Code
	}{
		{"dir", "file", fserr.ENOTDIR}, {"other", "dir", fserr.ENOTEMPTY}, {"dir", "dir/sub/in", fserr.EINVAL}, {"dir/sub", "dir", fserr.ENOTEMPTY},
		{"dir/sub", "dir/closed/sub", fserr.EACCES}, {"dir/closed", "other/closed", fserr.EACCES}, {"none", "new", fserr.ENOENT},
		{"file", "empty", fserr.EISDIR}, {"dir", "dir", 0}, {"dir", "empty", 0},
	} {
		if err := root.Rename(c.from, c.to); fserr.CodeOf(err) != c.want {
			t.Errorf("%s to %s: %v, want %v", c.from, c.to, err, c.want)
		}
	}
	wantNames(t, p.Folder, "empty", "file", "other")
	must(t, root.Rename("empty/closed", "empty/renamed")) // its own mode is not asked within one directory
}

// TestUserNSRenameWhileWriting has clients write by name and by handle into a directory that is renamed back and forth: nothing
// that was acknowledged is lost.
func TestUserNSRenameWhileWriting(t *testing.T) {
	p, root := rooted(t, inside(t, Options{}))
	open, err := root.OpenFile("dir/f", rootfs.O_RDWR|rootfs.O_APPEND, 0)
	must(t, err)
	stop, wrote := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(wrote) })
	var acknowledged []string
	appended := 0
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprintf("new-%d", i)
			for _, dir := range []string{"dir/sub/", "moved/sub/"} {
				f, err := root.OpenFile(dir+name, rootfs.O_WRONLY|rootfs.O_CREAT|rootfs.O_EXCL, 0o644)
				if err != nil {
					continue
				}
				if _, err := f.WriteAt([]byte(name), 0); err == nil && f.Close() == nil {
					acknowledged = append(acknowledged, name)
				}
				break
			}
			if _, err := open.WriteAt([]byte("+"), 0); err == nil {
				appended++
			}
			once()
		}
	})
	<-wrote
	for range 30 {
		must(t, root.Rename("dir", "moved"))
		must(t, root.Rename("moved", "dir"))
	}
	close(stop)
	writers.Wait()
	must(t, open.Close())
	for _, name := range acknowledged {
		if data, err := os.ReadFile(filepath.Join(p.Folder, "dir/sub", name)); err != nil || string(data) != name {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(p.Folder, "dir/f")); err != nil || len(data) != len("dir/f")+appended {
		t.Errorf("%d writes by handle left %d bytes, %v", appended, len(data), err)
	}
	if len(acknowledged) == 0 || appended == 0 {
		t.Error("nobody wrote")
	}
}

// TestUserNSRenameAgainstManyWriters has several clients create files without a pause in a directory that is renamed. Every
// rename succeeds, no create fails but for a name that is gone, and every file that was created is in the directory.
func TestUserNSRenameAgainstManyWriters(t *testing.T) {
	p, root := rooted(t, inside(t, Options{}))
	stop := make(chan struct{})
	created := make([]int, 8)
	var writers, begun sync.WaitGroup
	begun.Add(len(created))
	for w := range created {
		writers.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once()
			for n := 0; ; {
				select {
				case <-stop:
					return
				default:
				}
				for _, dir := range []string{"dir/sub", "moved/sub"} {
					f, err := root.OpenFile(fmt.Sprintf("%s/%d-%d", dir, w, n), rootfs.O_WRONLY|rootfs.O_CREAT|rootfs.O_EXCL, 0o644)
					if err == nil {
						n++
						created[w] = n
						must(t, f.Close())
						once()
					} else if fserr.CodeOf(err) != fserr.ENOENT {
						t.Errorf("create in %s: %v", dir, err)
						return
					}
				}
			}
		})
	}
	begun.Wait()
	for i := range 4 {
		from, to := "dir", "moved"
		if i%2 == 1 {
			from, to = to, from
		}
		if err := root.Rename(from, to); err != nil {
			t.Errorf("rename %d: %v", i, err)
			break
		}
	}
	close(stop)
	writers.Wait()
	for w, n := range created {
		for i := range n {
			if _, err := os.Lstat(filepath.Join(p.Folder, fmt.Sprintf("dir/sub/%d-%d", w, i))); err != nil {
				t.Errorf("a file is lost: %v", err)
			}
		}
	}
}

// TestUserNSCrashInARename has what a killed server leaves: a directory half made anew, beside the one that it was to replace.
func TestUserNSCrashInARename(t *testing.T) {
	d := inside(t, Options{})
	p := placeOf(t, d)
	half := filepath.Join(p.State, upperName, rootfs.ReservedPrefix+"half")
	must(t, os.MkdirAll(filepath.Join(half, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(half, "sub/file"), []byte("layer"), 0o644))
	must(t, d.Mount(t.Context(), p))
	if _, err := os.Lstat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	wantContent(t, p, "layer")
	must(t, d.Unmount(t.Context(), p.Folder, false))
	openAll(t, p.State)
}

// BenchmarkUserNSRename renames a directory of a layer, back and forth: the first time every file is copied up.
func BenchmarkUserNSRename(b *testing.B) {
	for _, files := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			d := inside(b, Options{})
			p := placeOf(b, d)
			for i := range files {
				dir := filepath.Join(p.Layer, "dir", fmt.Sprint(i/50))
				must(b, os.MkdirAll(dir, 0o755))
				must(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 1<<10), 0o644))
			}
			must(b, d.Mount(b.Context(), p))
			root, err := rootfs.Open(p.Folder, rootfs.Options{})
			must(b, err)
			begun := time.Now()
			must(b, root.Rename("dir", "moved"))
			first := time.Since(begun)
			for b.Loop() {
				must(b, root.Rename("moved", "again"))
				must(b, root.Rename("again", "moved"))
			}
			b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
			must(b, root.Close())
			must(b, d.Unmount(b.Context(), p.Folder, false))
			openAll(b, p.State)
		})
	}
}

// TestUserNSRenamedDirectoryIsAnother holds what docs/explanation/drivers.md says of handles and watches.
func TestUserNSRenamedDirectoryIsAnother(t *testing.T) {
	_, root := rooted(t, inside(t, Options{}))
	dir, err := root.OpenDir("dir/sub")
	must(t, err)
	watch, err := root.Watch("dir/sub", watch.Options{})
	must(t, err)
	must(t, root.Rename("dir", "moved"))
	if entries, err := dir.Next(10, false); err == nil && len(entries) > 0 {
		t.Errorf("the old directory holds %v", entries)
	}
	must(t, dir.Close())
	for range watch.Events() { //nolint:revive // until it ends, with the last handle of the directory
	}
	must(t, watch.Close())
	if st, err := root.Stat("moved/sub/g"); err != nil || st.Size == 0 {
		t.Errorf("the new one: %+v, %v", st, err)
	}
}
