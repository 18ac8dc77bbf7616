package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

var systemBehaviours = []behaviour{
	{"a FIFO is refused without blocking", func(w *world) {
		w.must(unix.Mkfifo(w.host("fifo"), 0o644))
		for _, flags := range []Flags{O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_CREAT | O_TRUNC, O_NOFOLLOW} {
			w.code(opening("fifo", flags)(w.Root), fserr.EOPNOTSUPP)
		}
		_, _, err := w.OpenNoFollow("fifo", O_RDONLY)
		w.code(err, fserr.EOPNOTSUPP)
		w.code(replacing("fifo", false)(w.Root), fserr.EOPNOTSUPP)
		w.code(listing("fifo")(w.Root), fserr.ENOTDIR)
		w.equal(w.lstat("fifo").Type(), TypeFIFO)
		w.must(w.Chmod("fifo", 0o600))
		w.must(w.Unlink("fifo"))
	}},
	{"a socket is refused", func(w *world) {
		w.must(unix.Mknod(w.host("sock"), unix.S_IFSOCK|0o644, 0))
		w.code(reading("sock")(w.Root), fserr.EOPNOTSUPP)
		w.equal(w.lstat("sock").Type(), TypeSocket)
	}},
	{"the times of a link itself", func(w *world) {
		w.must(w.Utimes("f", 5_000_000_000, 5_000_000_000, true))
		for _, link := range []string{"rel", "out", "outdangling", "dangling"} {
			w.must(w.Utimes(link, 1_000_000_001, 2_000_000_002, false))
			w.equal(w.lstat(link).MtimeNs, int64(2_000_000_002))
		}
		w.equal(w.lstat("f").MtimeNs, int64(5_000_000_000))
	}},
	{"the owner of a link itself", func(w *world) {
		w.must(w.Chown("out", int64(os.Getuid()), int64(os.Getgid()), false))
		w.code(w.Chown("out", int64(os.Getuid()), -1, true), fserr.EACCES)
	}},
	{"xattrs survive an atomic replacement", func(w *world) {
		w.must(unix.Setxattr(w.host("f"), "user.note", []byte("kept"), 0))
		w.must(replacing("f", false)(w.Root))
		buf := make([]byte, 16)
		n, err := unix.Getxattr(w.host("f"), "user.note", buf)
		w.must(err)
		w.equal(string(buf[:n]), "kept")
	}},
	{"names that are not UTF-8 break nothing", func(w *world) { w.bytes("b\xff\xfe") }},
	{"names with newlines and quotes break nothing", func(w *world) { w.bytes("a\n'\"\\*?") }},
}

// bytes uses name in every call.
func (w *world) bytes(name string) {
	w.must(w.Mkdir(name, 0o755))
	first, err := w.MkdirAll(name+"/"+name+"/x", 0o755)
	w.must(err)
	w.equal(first, "/"+name+"/"+name)
	file := name + "/f" + name
	w.write(w.open(file, O_WRONLY|O_CREAT, 0o644), "x")
	w.must(replacing(file, false)(w.Root))
	w.content(file, "whole")
	w.must(w.Symlink(file, "to"+name))
	target, err := w.Readlink("to" + name)
	w.must(err)
	w.equal(target, file)
	w.must(w.Link(file, name+"/h"))
	w.must(w.Rename(name+"/h", name+"/i"+name))
	w.attributesOf("to"+name, "/"+file)
	w.equal(slices.Equal(w.list(name, 2, true), sorted(name, "f"+name, "i"+name)), true)
	f, _, err := w.OpenNoFollow(file, O_RDONLY)
	w.must(err)
	w.must(f.Close())
	w.must(w.Unlink(file))
	w.must(w.Rmdir(name + "/" + name + "/x"))
	_, err = w.Stat(file)
	w.code(err, fserr.ENOENT)
}

func (w *world) attributesOf(path, resolved string) {
	w.Helper()
	w.must(w.Chmod(path, 0o600))
	w.must(w.Utimes(path, 1, 1, true))
	w.must(w.Chown(path, -1, -1, true))
	w.must(w.Access(path, 6))
	_, err := w.Statfs(path)
	w.must(err)
	st, err := w.Stat(path)
	w.must(err)
	w.equal(st.Perm(), uint32(0o600))
	got, err := w.Realpath(path)
	w.must(err)
	w.equal(got, resolved)
}

func sorted(names ...string) []string {
	slices.Sort(names)
	return names
}

// TestUmask checks that the umask takes nothing from the modes asked for.
func TestUmask(t *testing.T) {
	t.Parallel()
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "root")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			r, err := Open(dir, Options{Implementation: name})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			w := &world{T: t, Root: r, dir: dir}
			w.must(w.Mkdir("d", 0o777))
			w.mode("d", 0o777)
			w.open("f", O_WRONLY|O_CREAT, 0o666)
			w.mode("f", 0o666)
			w.must(replacing("a", false)(r))
			w.mode("a", 0o644)
		})
	}
}

// TestSwappedDirectory writes, changes, renames and removes below a directory that
// another process keeps exchanging for a link to the outside.
func TestSwappedDirectory(t *testing.T) {
	t.Parallel()
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, with(name))
			stop := w.swap("d", "outdir")
			defer stop()
			for range 1500 {
				// Whatever these answer, newWorld's clean-up finds the outside as it was.
				_ = opening("d/secret", O_WRONLY|O_CREAT|O_TRUNC)(w.Root)
				_ = w.Chmod("d/secret", 0o666)
				_ = w.Rename("d/secret", "d/other")
				_ = replacing("d/secret", false)(w.Root)
				_ = w.Unlink("d/secret")
			}
		})
	}
}

// swap exchanges two names until stop is called, which waits for the end.
func (w *world) swap(a, b string) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(w.dir, a), unix.AT_FDCWD, filepath.Join(w.dir, b), unix.RENAME_EXCHANGE)
			}
		}
	})
	return func() {
		close(end)
		wg.Wait()
	}
}
