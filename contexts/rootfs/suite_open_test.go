package rootfs

import (
	"io"
	"os"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

var openBehaviours = []behaviour{
	{"creation gives exactly the mode", func(w *world) {
		w.open("new", O_WRONLY|O_CREAT, 0o6777)
		w.mode("new", 0o777)
		w.open("f", O_WRONLY|O_CREAT, 0o600)
		w.mode("f", 0o644)
	}},
	{"a file without permission is still written through its first descriptor", func(w *world) {
		f := w.open("new", O_RDWR|O_CREAT|O_EXCL, 0)
		w.write(f, "x")
		w.mode("new", 0)
	}},
	{"a dangling link creates its target", func(w *world) {
		w.write(w.open("dangling", O_WRONLY|O_CREAT, 0o644), "made")
		w.content("nowhere", "made")
		w.equal(w.lstat("dangling").Type(), TypeSymlink)
		w.must(w.Unlink("nowhere"))
		w.write(w.open("absdangling", O_WRONLY|O_CREAT, 0o644), "again")
		w.content("nowhere", "again")
	}},
	{"O_TRUNC empties", func(w *world) {
		w.open("rel", O_WRONLY|O_TRUNC, 0)
		w.content("f", "")
	}},
	{"attributes come with an open", func(w *world) {
		for _, path := range []string{"f", "rel", "d/g", "d"} {
			f, st, err := w.OpenStat(path, O_RDONLY)
			w.must(err)
			now, err := f.Stat()
			w.must(err)
			w.must(f.Close())
			st.BirthtimeNs = now.BirthtimeNs
			w.equal(st, now)
			w.equal(st.Ino != 0, true)
		}
	}},
	{"O_EXCL alone means nothing", func(w *world) {
		w.equal(w.read(w.open("f", O_RDONLY|O_EXCL, 0)), "content")
	}},
	{"O_APPEND appends, by position too", func(w *world) {
		f := w.open("f", O_RDWR|O_APPEND, 0)
		w.write(f, "+1")
		_, err := f.Seek(1, io.SeekStart)
		w.must(err)
		_, err = f.WriteAt([]byte("+2"), 0)
		w.must(err)
		w.content("f", "content+1+2")
		w.equal(w.read(f), "ontent+1+2")
	}},
	{"positioned reads and writes leave the position", func(w *world) {
		f := w.open("f", O_RDWR, 0)
		buf := make([]byte, 3)
		_, err := f.ReadAt(buf, 4)
		w.must(err)
		w.equal(string(buf), "ent")
		_, err = f.WriteAt([]byte("C"), 0)
		w.must(err)
		w.equal(w.read(f), "Content")
		n, err := f.ReadAt(buf, 5)
		w.equal(n, 2)
		w.equal(err, io.EOF)
		_, err = f.ReadAt(buf, -1)
		w.code(err, fserr.EINVAL)
	}},
	{"seek and truncate", func(w *world) {
		f := w.open("f", O_RDWR, 0)
		pos, err := f.Seek(-2, io.SeekEnd)
		w.must(err)
		w.equal(pos, int64(5))
		w.equal(w.read(f), "nt")
		_, err = f.Seek(-1, io.SeekStart)
		w.code(err, fserr.EINVAL)
		w.must(f.Truncate(3))
		w.must(f.Truncate(5))
		w.content("f", "con\x00\x00")
		w.code(f.Truncate(-1), fserr.EINVAL)
		w.must(f.Sync(true))
		w.must(f.Sync(false))
	}},
	{"a descriptor permits what it was opened for", func(w *world) {
		_, err := w.open("f", O_RDONLY, 0).Write([]byte("x"))
		w.code(err, fserr.EBADF)
		_, err = w.open("f", O_WRONLY, 0).Read(make([]byte, 1))
		w.code(err, fserr.EBADF)
		w.code(w.open("f", O_RDONLY, 0).Truncate(0), fserr.EINVAL)
		d := w.open("d", O_RDONLY, 0)
		_, err = d.Read(make([]byte, 1))
		w.code(err, fserr.EISDIR)
		_, err = d.ReadAt(make([]byte, 1), 0)
		w.code(err, fserr.EISDIR)
	}},
	{"a descriptor survives rename and unlink", func(w *world) {
		f := w.open("f", O_RDWR, 0)
		w.must(w.Rename("f", "moved"))
		w.must(w.Unlink("moved"))
		w.equal(w.read(f), "content")
		w.must(f.Chmod(0o7600))
		w.must(f.Utimes(1_000_000_000, 2_000_000_000))
		st, err := f.Stat()
		w.must(err)
		w.equal(st.MtimeNs, int64(2_000_000_000))
		w.equal(st.Perm()&0o6000, uint32(0))
	}},
	{"a closed file is EBADF", func(w *world) {
		f, err := w.OpenFile("f", O_RDWR, 0)
		w.must(err)
		w.must(f.Close())
		_, err = f.Read(make([]byte, 1))
		w.code(err, fserr.EBADF)
		_, err = f.Stat()
		w.code(err, fserr.EBADF)
		w.code(f.Utimes(1, 1), fserr.EBADF)
		w.code(f.Sync(true), fserr.EBADF)
		w.code(f.Close(), fserr.EBADF)
	}},
	{"OpenNoFollow follows no link at all", func(w *world) {
		for path, code := range map[string]fserr.Code{"d/g": done, "d": done, "rel": fserr.ELOOP, "dirlink/g": fserr.ELOOP, "abs": fserr.ELOOP, "out": fserr.ELOOP, "nowhere": fserr.ENOENT} {
			f, st, err := w.OpenNoFollow(path, O_RDONLY)
			w.code(err, code)
			if err == nil {
				if now, err := f.Stat(); err != nil || st.Ino != now.Ino || st.Size != now.Size || st.Mode != now.Mode {
					w.Errorf("%s: opened %+v, it is %+v (%v)", path, st, now, err)
				}
				w.must(f.Close())
			}
		}
		_, _, err := w.OpenNoFollow("new", O_WRONLY|O_CREAT)
		w.code(err, fserr.EINVAL)
	}},
	{"an atomic file appears whole or not at all", func(w *world) {
		a, err := w.CreateAtomic("new", 0o640, false)
		w.must(err)
		_, err = io.WriteString(a, "whole")
		w.must(err)
		w.gone("new")
		w.must(a.Commit(true))
		w.must(a.Abort())
		w.content("new", "whole")
		w.mode("new", 0o640)
		w.tidy()
	}},
	{"an aborted file leaves nothing", func(w *world) {
		a, err := w.CreateAtomic("f", 0o640, false)
		w.must(err)
		_, err = io.WriteString(a, "never")
		w.must(err)
		w.must(a.Abort())
		w.content("f", "content")
		w.tidy()
	}},
	{"an atomic file keeps the mode of what it replaces", func(w *world) {
		w.must(w.Chmod("f", 0o604))
		before := w.lstat("f")
		w.must(replacing("f", false)(w.Root))
		w.content("f", "whole")
		w.mode("f", 0o604)
		w.equal(w.lstat("f").UID, before.UID)
		w.tidy()
	}},
	{"an atomic file replaces a link's target", func(w *world) {
		w.must(replacing("abs", false)(w.Root))
		w.content("d/g", "whole")
		w.equal(w.lstat("abs").Type(), TypeSymlink)
		w.must(replacing("dangling", false)(w.Root))
		w.content("nowhere", "whole")
		w.tidy()
	}},
	{"an exclusive atomic file yields to what came first", func(w *world) {
		a, err := w.CreateAtomic("new", 0o644, true)
		w.must(err)
		w.put("new", "first")
		w.code(a.Commit(false), fserr.EEXIST)
		w.must(a.Abort())
		w.content("new", "first")
		w.tidy()
		w.must(replacing("new2", true)(w.Root))
		w.content("new2", "whole")
		w.tidy()
	}},
}

func (w *world) write(f io.Writer, s string) {
	w.Helper()
	_, err := io.WriteString(f, s)
	w.must(err)
}

func (w *world) read(f io.Reader) string {
	w.Helper()
	b, err := io.ReadAll(f)
	w.must(err)
	return string(b)
}

// tidy checks that no temporary name is left in any directory of the tree.
func (w *world) tidy() {
	w.Helper()
	for _, dir := range []string{".", "d", "empty"} {
		list, err := os.ReadDir(w.host(dir))
		w.must(err)
		for _, e := range list {
			if Reserved(e.Name()) {
				w.Errorf("%s is left in %s", e.Name(), dir)
			}
		}
	}
}

// TestCommitAndAbortAtOnce lets one of the two win, whichever comes first.
func TestCommitAndAbortAtOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world) {
		for range 200 {
			w.put("f", "content")
			a, err := w.CreateAtomic("f", 0o644, false)
			w.must(err)
			w.write(a, "whole")
			var committed, aborted error
			var both sync.WaitGroup
			both.Go(func() { committed = a.Commit(false) })
			both.Go(func() { aborted = a.Abort() })
			both.Wait()
			w.code(aborted, done)
			w.code(committed, done, fserr.EBADF)
			w.content("f", map[bool]string{true: "whole", false: "content"}[committed == nil])
		}
		w.tidy()
	})
}

// temporary is the attributes of the one temporary name in the tree's top.
func (w *world) temporary() os.FileInfo {
	w.Helper()
	list, err := os.ReadDir(w.dir)
	w.must(err)
	for _, e := range list {
		if Reserved(e.Name()) {
			info, err := e.Info()
			w.must(err)
			return info
		}
	}
	w.Fatal("there is no temporary name")
	return nil
}

// private checks that other users cannot read a file that is being written under a name.
func (w *world) private() {
	w.must(os.Chmod(w.host("f"), 0o600))
	for path, want := range map[string]uint32{"f": 0o600, "new": 0o640} {
		a, err := w.CreateAtomic(path, 0o644, false)
		w.must(err)
		w.write(a, "whole")
		w.equal(w.temporary().Mode().Perm(), os.FileMode(0o600))
		w.must(a.Chmod(0o6640))
		w.equal(w.temporary().Mode().Perm(), os.FileMode(0o600))
		st, err := a.Stat()
		w.must(err)
		w.equal(st.Perm(), uint32(0o640))
		w.must(a.Commit(false))
		w.content(path, "whole")
		w.mode(path, want)
	}
	w.must(replacing("ex", true)(w.Root))
	w.mode("ex", 0o644)
	w.tidy()
}
