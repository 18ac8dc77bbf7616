package rootfs

import (
	"os"
	"runtime"

	"github.com/ctxfs/ctxfs/fserr"
)

var mutateBehaviours = []behaviour{
	{"mkdir gives exactly the mode", func(w *world) {
		w.must(w.Mkdir("new", 0o6777))
		w.mode("new", 0o777)
	}},
	{"mkdirall tells the first directory it made", func(w *world) {
		for _, c := range []struct{ path, first string }{
			{"d/a/b/c", "/d/a"}, {"/d/a/b/c", ""}, {"x/", "/x"}, {"d/sub", ""}, {"d/a/e", "/d/a/e"},
		} {
			first, err := w.MkdirAll(c.path, 0o755)
			w.must(err)
			w.equal(first, c.first)
			w.equal(w.lstat(c.path).IsDir(), true)
		}
	}},
	{"a symlink is stored byte for byte", func(w *world) {
		for i, target := range []string{"a//b/", "../../../etc", "/abs/./x", "nowhere", " "} {
			path := "link" + string(rune('a'+i))
			w.must(w.Symlink(target, path))
			got, err := w.Readlink(path)
			w.must(err)
			w.equal(got, target)
		}
	}},
	{"a hard link is the same file", func(w *world) {
		w.must(w.Link("f", "d/h"))
		if Driver != "overlay-userns" { // each name of a changed file shows its own number there (docs/explanation/drivers.md)
			w.equal(w.lstat("f").Ino, w.lstat("d/h").Ino)
		}
		if runtime.GOOS != "windows" {
			w.equal(w.lstat("f").Nlink, uint64(2))
		}
		w.must(w.Link("rel", "rel2"))
		w.equal(w.lstat("rel2").Type(), TypeSymlink)
	}},
	{"rename moves", func(w *world) {
		w.must(w.Rename("d/g", "empty/h"))
		w.gone("d/g")
		w.content("empty/h", "g")
		w.must(w.Rename("d", "empty/d"))
		w.equal(w.lstat("empty/d/sub").IsDir(), true)
	}},
	{"rename replaces", func(w *world) {
		w.must(w.Rename("d/g", "f"))
		w.content("f", "g")
		w.must(w.Rename("f", "rel"))
		w.content("rel", "g")
		w.must(w.Rename("d", "empty"))
		w.equal(w.lstat("empty/sub").IsDir(), true)
		w.gone("d")
	}},
	{"a link moved until it escapes is refused", func(w *world) {
		w.must(w.Symlink("../outside/secret", "d/link"))
		_, err := w.Stat("d/link")
		w.code(err, fserr.ENOENT)
		w.must(w.Rename("d/link", "link"))
		w.code(opening("link", O_WRONLY|O_CREAT)(w.Root), fserr.EACCES)
		w.code(replacing("link", false)(w.Root), fserr.EACCES)
		w.code(w.Utimes("link", 1, 1, true), fserr.EACCES)
	}},
	{"a directory moved under an open one keeps .. within", func(w *world) {
		w.must(w.Symlink("../../f", "d/sub/deep"))
		w.code(reading("d/sub/deep")(w.Root), done)
		w.must(w.Rename("d/sub", "sub"))
		w.code(reading("sub/deep")(w.Root), fserr.EACCES)
	}},
	{"unlink and rmdir remove", func(w *world) {
		w.must(w.Unlink("f"))
		w.gone("f")
		w.must(w.Unlink("dirlink"))
		w.equal(w.lstat("d").IsDir(), true)
		w.must(w.Rmdir("empty"))
		w.gone("empty")
	}},
	{"a closed root is EBADF", func(w *world) {
		r, err := Open(w.dir, Options{})
		w.must(err)
		w.must(r.Close())
		_, err = r.Stat("f")
		w.code(err, fserr.EBADF)
	}},
	{"a root that is a link or a file is refused", func(w *world) {
		for path, code := range map[string]fserr.Code{"dirlink": fserr.ELOOP, "dirlink/": fserr.ELOOP, "f": fserr.ENOTDIR, "nowhere": fserr.ENOENT} {
			for _, name := range implementations() {
				_, err := Open(w.dir+"/"+path, Options{Implementation: name})
				w.code(err, code)
			}
		}
		_, err := Open(w.dir, Options{Implementation: "other"})
		w.code(err, fserr.EINVAL)
	}},
}

// mode checks the permission bits of path.
func (w *world) mode(path string, want uint32) {
	w.Helper()
	if got := w.lstat(path).Perm(); got != want && runtime.GOOS != "windows" {
		w.Errorf("mode of %q is %#o, want %#o", path, got, want)
	}
	if _, err := os.Lstat(w.host(path)); err != nil {
		w.Error(err)
	}
}
