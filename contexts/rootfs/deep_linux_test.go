package rootfs

import (
	"os"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/roottest"
	"github.com/ctxfs/ctxfs/fserr"
)

// down and up are n steps.
func down(n int) string { return strings.Repeat("d/", n) }

func up(n int) string { return strings.Repeat("../", n) }

// deepWorld is a tree so deep that its bottom can just be named, with links into it.
func deepWorld(w *world) {
	w.must(os.Rename(w.host("d"), w.host("other")))
	roottest.MakeDeep(w.T, w.dir, "d", 2100)
	w.must(os.WriteFile(w.host(down(700)+"f"), []byte("700"), 0o644))
	w.must(os.Symlink("/"+down(2000), w.host("lower")))
	w.must(os.Symlink("../lower/"+down(60), w.host("other/lowest")))
	w.must(os.Symlink("/other/../"+down(2000), w.host("relower")))
}

// TestDeepPath goes as deep as a path can name, and back up, with few descriptors.
func TestDeepPath(t *testing.T) {
	everywhere(t, func(w *world) {
		deepWorld(w)
		defer roottest.FewDescriptors(w.T, 160)()
		w.code(statting("lower")(w.Root), done)
		w.code(reading("lower/"+up(1300)+"f")(w.Root), done)
		w.code(reading("relower/"+up(1300)+"f")(w.Root), done)
		w.code(reading("relower/"+up(1300)+"d/../f")(w.Root), done)
		w.code(opening("lower/"+up(1300)+"new", O_WRONLY|O_CREAT|O_EXCL)(w.Root), done)
		w.code(statting(down(700)+"new")(w.Root), done)
		w.code(reading("relower/"+up(1301)+"f")(w.Root), fserr.ENOENT)
		got, err := w.Realpath("lower/" + up(1300) + "f")
		w.must(err)
		w.equal(got, "/"+down(700)+"f")
	})
}

// TestDeeperThanAPath follows links to where no path leads.
func TestDeeperThanAPath(t *testing.T) {
	for _, name := range []string{"walk", "osroot"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, with(name))
			deepWorld(w)
			defer roottest.FewDescriptors(w.T, 160)()
			w.code(statting("lower/"+down(48))(w.Root), done)
			w.code(statting("other/lowest")(w.Root), fserr.ENAMETOOLONG)
		})
	}
}

// TestMovedWhileLetGo has something else stand where the way back up leads through.
func TestMovedWhileLetGo(t *testing.T) {
	for what, replace := range map[string]func(w *world, path string){
		"nothing":    func(*world, string) {},
		"a link out": func(w *world, path string) { w.must(os.Symlink(w.outside, path)) },
		"a directory": func(w *world, path string) {
			w.must(os.MkdirAll(path+"/"+down(60), 0o755))
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, with("walk"))
			w.must(os.Rename(w.host("d"), w.host("other")))
			roottest.MakeDeep(t, w.dir, "d", 200)
			w.code(backUp(w, func() {}), done)
			w.code(backUp(w, func() {
				path := strings.TrimSuffix(w.host(down(60)), "/")
				w.must(os.Rename(path, w.host("aside")))
				replace(w, path)
			}), fserr.ESTALE)
		})
	}
}

// backUp goes down, calls between, and goes back up beyond what is held.
func backUp(w *world, between func()) error {
	r := w.Root.(*linuxRoot)
	return r.dir.use(func(root int) error {
		walk := r.newWalk(root, down(200))
		defer walk.close()
		e, err := walk.run()
		if err != nil {
			return err
		}
		node.CloseFD(e.fd)
		between()
		walk.push(up(120))
		_, err = walk.run()
		return err
	})
}
