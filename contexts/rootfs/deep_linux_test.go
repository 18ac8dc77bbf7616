package rootfs

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// down and up are n steps.
func down(n int) string { return strings.Repeat("d/", n) }
func up(n int) string   { return strings.Repeat("../", n) }

// deepWorld is a tree so deep that its bottom can just be named, with links into it.
func deepWorld(w *world) {
	w.must(os.Rename(w.host("d"), w.host("other")))
	makeDeep(w.T, w.dir, "d", 2100)
	w.must(os.WriteFile(w.host(down(700)+"f"), []byte("700"), 0o644))
	w.must(os.Symlink("/"+down(2000), w.host("lower")))
	w.must(os.Symlink("../lower/"+down(60), w.host("other/lowest")))
	w.must(os.Symlink("/other/../"+down(2000), w.host("relower")))
}

// TestDeepPath goes as deep as a path can name, and back up, with few descriptors.
func TestDeepPath(t *testing.T) {
	everywhere(t, func(w *world) {
		deepWorld(w)
		defer w.fewDescriptors(160)()
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
			w := newWorld(t, func(dir string) (Root, error) { return Open(dir, Options{Implementation: name}) })
			deepWorld(w)
			defer w.fewDescriptors(160)()
			w.code(statting("lower/"+down(48))(w.Root), done)
			w.code(statting("other/lowest")(w.Root), fserr.ENAMETOOLONG)
		})
	}
}

// fewDescriptors lets the process open n more files until the test calls undo.
func (w *world) fewDescriptors(n int) (undo func()) {
	w.Helper()
	var old unix.Rlimit
	w.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	// The limit is one above the highest number, and a new file takes the lowest free one.
	w.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(openFiles(w.T) + n), Max: old.Max}))
	return func() { w.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }
}

// TestMovedWhileLetGo has something else stand where the way back up leads through.
func TestMovedWhileLetGo(t *testing.T) {
	replacements := map[string]func(w *world, path string){
		"nothing":    func(*world, string) {},
		"a link out": func(w *world, path string) { w.must(os.Symlink(w.outside, path)) },
		"a directory": func(w *world, path string) {
			w.must(os.MkdirAll(path+"/"+down(60), 0o755))
		},
	}
	for name, walk := range map[string]func(w *world, between func()) error{"walk": backLinux, "osroot": backOS} {
		for what, replace := range replacements {
			t.Run(name+", "+what, func(t *testing.T) {
				w := newWorld(t, func(dir string) (Root, error) { return Open(dir, Options{Implementation: name}) })
				w.must(os.Rename(w.host("d"), w.host("other")))
				makeDeep(t, w.dir, "d", 200)
				w.code(walk(w, func() {}), done)
				w.code(walk(w, func() {
					path := strings.TrimSuffix(w.host(down(60)), "/")
					w.must(os.Rename(path, w.host("aside")))
					replace(w, path)
				}), fserr.ESTALE)
			})
		}
	}
}

// backLinux goes down, calls between, and goes back up beyond what is held.
func backLinux(w *world, between func()) error {
	r := w.Root.(*linuxRoot)
	return r.dir.use(func(root int) error {
		walk := r.newWalk(root, down(200))
		defer walk.close()
		e, err := walk.run()
		if err != nil {
			return err
		}
		closeFD(e.fd)
		between()
		walk.push(up(120))
		_, err = walk.run()
		return err
	})
}

func backOS(w *world, between func()) error {
	r := w.Root.(*osRoot)
	top, err := r.openTop()
	if err != nil {
		return err
	}
	walk := &osWalk{root: r, trail: newTrail(top, top.id)}
	defer walk.trail.close()
	walk.push(down(200))
	if _, err := walk.run(); err != nil {
		return err
	}
	between()
	walk.push(up(120) + "d")
	_, err = walk.run()
	return err
}

// TestTreesDeeperThanAPath copies, walks and removes what no path can name, with few descriptors.
func TestTreesDeeperThanAPath(t *testing.T) {
	for _, c := range []struct {
		name  string
		depth int
	}{{strings.Repeat("n", 200), 3000}, {"d", 20_000}} {
		w := newWorld(t, func(dir string) (Root, error) { return Open(dir, Options{}) })
		w.must(w.Mkdir("top", 0o755))
		makeDeep(t, w.host("top"), c.name, c.depth)
		undo := w.fewDescriptors(400)
		report, err := CopyTree(t.Context(), w.Root, "top", w.Root, "copy", CopyOptions{PreserveTimestamps: true, PreserveLinks: true, PreserveXattrs: true, Workers: 4})
		w.must(err)
		w.equal(report.Files, int64(1))
		dirs, files := 0, 0
		w.must(w.Walk(t.Context(), "copy", WalkOptions{Stats: true, Deep: true}, func(rel string, e Entry, err error) error {
			w.must(err)
			if len(rel) > MaxPath+MaxName {
				t.Fatalf("an entry is reported with a path of %d bytes", len(rel))
			}
			if e.Type == TypeDirectory {
				dirs++
			} else if e.Name == "bottom" && e.Stat != nil {
				files++
			}
			return nil
		}))
		w.equal(dirs, c.depth)
		w.equal(files, 1)
		for _, tree := range []string{"top", "copy"} {
			n, err := w.RemoveAll(t.Context(), tree)
			w.must(err)
			w.equal(n, int64(c.depth+2))
		}
		undo()
	}
}
