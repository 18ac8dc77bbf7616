package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/seed"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// hiddenEdits replace the content of a file by another one of the same size.
var hiddenEdits = map[string]func(w *world, file string, content []byte){
	"in place": func(w *world, file string, content []byte) { w.must(os.WriteFile(file, content, 0o600)) },
	"by a rename": func(w *world, file string, content []byte) {
		w.must(os.WriteFile(file+"~", content, 0o644))
		w.must(os.Rename(file+"~", file))
	},
	"through a hard link": func(w *world, file string, content []byte) {
		w.must(os.Link(file, file+"~"))
		w.must(os.WriteFile(file+"~", content, 0o600))
		w.must(os.Remove(file + "~"))
	},
	"by an exchange of directories": func(w *world, file string, content []byte) {
		dir := filepath.Dir(file)
		w.must(os.Rename(dir, dir+"~"))
		w.must(os.CopyFS(dir, os.DirFS(dir+"~")))
		w.must(os.RemoveAll(dir + "~"))
		w.must(os.WriteFile(file, content, 0o600))
	},
}

// TestHiddenEditIsListed lets a panel edit a file so that its size, its times and the times of its directory stay. The first list of changes
// must have the edit, and so must a later one.
func TestHiddenEditIsListed(t *testing.T) {
	w := newWorld(t, config{driver: "copy", implementation: "openat2", transport: "unary"})
	n := 0
	for name, edit := range hiddenEdits {
		for _, listed := range []bool{false, true} {
			n++
			w.hide(fmt.Sprintf("%s, listed before: %v", name, listed), w.openPanel(fmt.Sprintf("hide%d", n), nil), listed, edit)
		}
	}
}

func (w *world) hide(what string, p panel, listed bool, edit func(w *world, file string, content []byte)) {
	w.Helper()
	review := clientOf(w).Review(filepath.Base(p.dir))
	list := func() []*ctxfsv1.Change {
		all, _, err := review.Changes(w.host, &ctxfsv1.ListChangesRequest{})
		w.must(err)
		return all
	}
	if listed {
		// A list remembers only files whose next change will show in their ctime.
		w.must(layer.Settle(w.host, &seed.Scan{Entries: []seed.Entry{{CtimeNs: time.Now().UnixNano()}}}))
		if all := list(); len(all) > 0 {
			w.Errorf("%s: a new context has the changes %v", what, all)
		}
	}
	file := filepath.Join(p.dir, "src", "main.go")
	st, err := os.Stat(file)
	w.must(err)
	dir, err := os.Stat(filepath.Dir(file))
	w.must(err)
	edit(w, file, []byte("package evil\n"))
	for name, at := range map[string]time.Time{file: st.ModTime(), filepath.Dir(file): dir.ModTime()} {
		w.must(os.Chtimes(name, at, at))
	}
	if all := list(); len(all) != 1 || all[0].GetPath() != "/src/main.go" {
		w.Errorf("%s: the changes are %v", what, all)
	}
}
