package rootfs

import (
	"errors"
	"io"
	"os"
	"slices"

	"github.com/ctxfs/ctxfs/fserr"
)

var attributeBehaviours = []behaviour{
	{"chmod drops setuid and setgid", func(w *world) {
		w.must(w.Chmod("rel", 0o7751))
		w.mode("f", 0o1751)
	}},
	{"a file of mode 000 is repaired", func(w *world) {
		w.must(w.Chmod("f", 0))
		w.mode("f", 0)
		w.must(w.Chmod("f", 0o600))
		w.mode("f", 0o600)
	}},
	{"chmod of the root and of directories", func(w *world) {
		w.must(w.Chmod("/", 0o700))
		w.mode("/", 0o700)
		w.must(w.Chmod("absdir", 0o711))
		w.mode("d", 0o711)
	}},
	{"times are kept to the nanosecond where the system can", func(w *world) {
		for _, ns := range []int64{1_234_567_890_123_456_700, 0, -1_500_000_000} {
			w.must(w.Utimes("rel", ns, ns+100, true))
			st := w.lstat("f")
			w.equal(st.AtimeNs, ns)
			w.equal(st.MtimeNs, ns+100)
		}
	}},
	{"ownership is not given away", func(w *world) {
		w.code(w.Chown("f", 12345, -1, true), fserr.EPERM, fserr.EOPNOTSUPP)
		w.code(w.Chown("f", -1, 12345, false), fserr.EPERM, fserr.EOPNOTSUPP)
		f := w.open("f", O_RDWR, 0)
		w.code(f.Chown(12345, -1), fserr.EPERM, fserr.EOPNOTSUPP)
	}},
}

var inspectBehaviours = []behaviour{
	{"stat describes", func(w *world) {
		st, err := w.Stat("rel")
		w.must(err)
		w.equal(st.Type(), TypeFile)
		w.equal(st.Size, int64(7))
		w.equal(w.lstat("rel").Type(), TypeSymlink)
		w.equal(w.lstat("dirlink/").Type(), TypeDirectory)
		w.equal(w.lstat("d").Type(), TypeDirectory)
		info, err := os.Stat(w.host("f"))
		w.must(err)
		w.equal(st.MtimeNs, info.ModTime().UnixNano())
	}},
	{"a descriptor's stat is the path's", func(w *world) {
		st, err := w.open("f", O_RDONLY, 0).Stat()
		w.must(err)
		w.equal(st, w.lstat("f"))
	}},
	{"statfs describes", func(w *world) {
		st, err := w.Statfs("abs")
		w.must(err)
		if st.Bsize == 0 || st.Blocks == 0 || st.Bavail > st.Blocks {
			w.Errorf("implausible %+v", st)
		}
	}},
	{"realpath resolves", func(w *world) {
		for path, want := range map[string]string{
			"/": "/", ".": "/", "rel": "/f", "abs": "/d/g", "absdir/sub/..": "/d", "d/up": "/f", "//d//g": "/d/g", "dirlink/": "/d",
		} {
			got, err := w.Realpath(path)
			w.must(err)
			w.equal(got, want)
		}
	}},
	{"readlink reads any link", func(w *world) {
		for path, want := range map[string]string{"out": "../outside/secret", "abs": "/d/g", "loop": "loop", "d/up": "../f"} {
			got, err := w.Readlink(path)
			w.must(err)
			w.equal(got, want)
		}
	}},
	{"a directory is listed page by page", func(w *world) {
		w.put("d/"+ReservedPrefix+"hidden", "")
		for _, stats := range []bool{false, true} {
			for _, page := range []int{1, 2, 100} {
				w.equal(slices.Equal(w.list("d", page, stats), []string{"g", "sub", "up"}), true)
			}
		}
	}},
	{"an empty directory is at its end at once", func(w *world) {
		d, err := w.OpenDir("empty")
		w.must(err)
		_, err = d.Next(10, true)
		w.equal(err, io.EOF)
		w.must(d.Close())
	}},
}

// list reads path in pages, checks the entries and returns their names, sorted.
func (w *world) list(path string, page int, stats bool) (names []string) {
	w.Helper()
	d, err := w.OpenDir(path)
	w.must(err)
	defer func() { w.must(d.Close()) }()
	for {
		entries, err := d.Next(page, stats)
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names
		}
		w.must(err)
		if len(entries) == 0 || len(entries) > page {
			w.Fatalf("%d entries in a page of %d", len(entries), page)
		}
		for _, e := range entries {
			names = append(names, e.Name)
			w.entry(path, e, stats)
		}
	}
}

func (w *world) entry(path string, e Entry, stats bool) {
	w.Helper()
	st := w.lstat(path + "/" + e.Name)
	w.equal(e.Type, st.Type())
	w.equal(e.Stat != nil, stats)
	if stats {
		w.equal(e.Stat.Ino, st.Ino)
		w.equal(e.Stat.Mode, st.Mode)
	}
}
