package rootfs

import (
	"os"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// fuzzWords are the components from which FuzzResolve makes paths: one per byte.
var fuzzWords = []string{
	"", ".", "..", "f", "d", "sub", "g", "up", "rel", "dirlink", "abs", "absdir", "dangling", "absdangling",
	"out", "outdir", "outdangling", "hop", "host", "loop", "backin", "fslash", "dslash", "missingup",
	"toreserved", "tofile", "in", "deep", "chain", "nowhere", "root", "outside", "secret", "empty",
	ReservedPrefix + "d", ReservedPrefix + "none", "a b", "\xff",
}

// fuzzPath joins the words that code's bytes stand for.
func fuzzPath(code []byte) string {
	var path []byte
	for i, c := range code {
		if i > 0 {
			path = append(path, '/')
		}
		path = append(path, fuzzWords[int(c)%len(fuzzWords)]...)
	}
	return string(path)
}

// fuzzSeeds are paths that implementations have disagreed about, or may well.
var fuzzSeeds = [][]string{
	{"f"}, {"", "f"}, {"f", ""}, {"f", "."}, {"f", "..", "f"}, {"d", "..", ".."}, {"..", ReservedPrefix + "d"},
	{"rel", ""}, {"dirlink", "..", "f"}, {"absdir", "..", "..", "f"}, {"absdir", "g"}, {"dslash", "g"}, {"fslash", "."},
	{"out"}, {"outdir", "secret"}, {"outdir", "..", "root", "f"}, {"hop"}, {"loop"}, {"loop", ".."}, {"backin"},
	{"missingup"}, {"dangling", ""}, {"dangling", "..", "f"}, {"absdangling"}, {"host"}, {"nowhere", "..", ".."},
	{"toreserved"}, {"tofile", "in"}, {"tofile", "..", "f"}, {"tofile", ""}, {ReservedPrefix + "d", "in"},
	{"f", ReservedPrefix + "d"}, {"d", "up", "x"}, {"deep"}, {"deep", "..", "..", "f"}, {"chain"}, {"chain", ""}, {"", ""}, {".", ""}, {"d", ".", ""},
}

func wordIndex(word string) byte {
	for i, w := range fuzzWords {
		if w == word {
			return byte(i)
		}
	}
	return 0
}

// nasty adds to a world what only resolution meets.
func (w *world) nasty() {
	w.put(ReservedPrefix+"d", "") // the service's own names are files, never directories
	w.put("a b", "")
	w.put("\xff", "")
	for name, target := range map[string]string{
		"tofile": ReservedPrefix + "d", "deep": "/absdir/../dirlink/./sub/", "chain": "deep/../../d/up", "d/sub/up": "/out",
	} {
		w.must(os.Symlink(target, w.host(name)))
	}
}

// FuzzResolve compares the implementations: each path gives the same errno, or the same file.
func FuzzResolve(f *testing.F) {
	for _, words := range fuzzSeeds {
		code := make([]byte, len(words))
		for i, word := range words {
			code[i] = wordIndex(word)
		}
		f.Add(code)
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		w := newWorld(t, with("walk"))
		w.nasty()
		for _, name := range implementations() {
			r, err := Open(w.dir, Options{Implementation: name})
			w.must(err)
			w.agree(name, r, fuzzPath(code))
			w.must(r.Close())
		}
	})
}

// agree compares what r and the world's own root make of path.
func (w *world) agree(name string, r Root, path string) {
	for how, call := range map[string]func(Root) (Stat, error){
		"stat":  func(r Root) (Stat, error) { return r.Stat(path) },
		"lstat": func(r Root) (Stat, error) { return r.Lstat(path) },
		"open": func(r Root) (Stat, error) {
			file, err := r.OpenFile(path, O_RDONLY, 0)
			if err != nil {
				return Stat{}, err
			}
			defer func() { _ = file.Close() }()
			return file.Stat()
		},
	} {
		st, err := call(r)
		want, wantErr := call(w.Root)
		if fserr.CodeOf(err) != fserr.CodeOf(wantErr) || st.ID() != want.ID() {
			w.Errorf("%s(%q): %s says %v (inode %d), walk %v (inode %d)", how, path, name, err, st.Ino, wantErr, want.Ino)
		}
	}
}
