package rootfs

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
)

// fromZone is a Zoned as it looks from inside its zone /z: each path begins there.
type fromZone struct{ *Zoned }

// in returns a path of the zone as a path of the Zoned. An empty path stays one.
func (r fromZone) in(path string) string {
	if path == "" {
		return ""
	}
	return "/z/" + path
}

// codeOf is EACCES for what lies outside of the zone: for the Zoned, that does not exist.
func (r fromZone) codeOf(err error) fserr.Code {
	if code, _, hint := fserr.Parts(err); code != fserr.ENOENT || hint != "this context has the zones /z" {
		return code
	}
	return fserr.EACCES
}

// without removes the zone from a path.
func without(path string, err error) (string, error) {
	if rest, ok := strings.CutPrefix(path, "/z"); ok && rest == "" {
		return "/", err
	} else if ok {
		return rest, err
	}
	return path, err
}

func (r fromZone) OpenFile(path string, flags Flags, mode uint32) (File, error) {
	return r.Zoned.OpenFile(r.in(path), flags, mode)
}

func (r fromZone) OpenStat(path string, flags Flags) (File, Stat, error) {
	return r.Zoned.OpenStat(r.in(path), flags)
}

func (r fromZone) CreateAtomic(path string, mode uint32, exclusive bool) (AtomicFile, error) {
	return r.Zoned.CreateAtomic(r.in(path), mode, exclusive)
}
func (r fromZone) OpenDir(path string) (Dir, error)      { return r.Zoned.OpenDir(r.in(path)) }
func (r fromZone) Stat(path string) (Stat, error)        { return r.Zoned.Stat(r.in(path)) }
func (r fromZone) Lstat(path string) (Stat, error)       { return r.Zoned.Lstat(r.in(path)) }
func (r fromZone) Statfs(path string) (Statfs, error)    { return r.Zoned.Statfs(r.in(path)) }
func (r fromZone) Access(path string, mode uint32) error { return r.Zoned.Access(r.in(path), mode) }
func (r fromZone) Realpath(path string) (string, error)  { return without(r.Zoned.Realpath(r.in(path))) }
func (r fromZone) Readlink(path string) (string, error)  { return without(r.Zoned.Readlink(r.in(path))) }
func (r fromZone) Mkdir(path string, mode uint32) error  { return r.Zoned.Mkdir(r.in(path), mode) }
func (r fromZone) Symlink(target, path string) error     { return r.Zoned.Symlink(target, r.in(path)) }
func (r fromZone) Link(oldpath, newpath string) error {
	return r.Zoned.Link(r.in(oldpath), r.in(newpath))
}
func (r fromZone) Rename(oldpath, newpath string) error {
	return r.Zoned.Rename(r.in(oldpath), r.in(newpath))
}
func (r fromZone) Unlink(path string) error             { return r.Zoned.Unlink(r.in(path)) }
func (r fromZone) Rmdir(path string) error              { return r.Zoned.Rmdir(r.in(path)) }
func (r fromZone) Chmod(path string, mode uint32) error { return r.Zoned.Chmod(r.in(path), mode) }
func (r fromZone) MkdirAll(path string, m uint32) (string, error) {
	first, err := r.Zoned.MkdirAll(r.in(path), m)
	return without(first, err)
}

func (r fromZone) Chown(path string, uid, gid int64, follow bool) error {
	return r.Zoned.Chown(r.in(path), uid, gid, follow)
}

func (r fromZone) Utimes(path string, atimeNs, mtimeNs int64, follow bool) error {
	return r.Zoned.Utimes(r.in(path), atimeNs, mtimeNs, follow)
}

func (r fromZone) Walk(ctx context.Context, dir string, opts tree.WalkOptions, fn tree.WalkFunc) error {
	return r.Zoned.Walk(ctx, r.in(dir), opts, fn)
}

func (r fromZone) RemoveAll(ctx context.Context, path string) (int64, error) {
	return r.Zoned.RemoveAll(ctx, r.in(path))
}

func (r fromZone) Watch(path string, opts watch.Options) (watch.Watcher, error) {
	return r.Zoned.Watch(r.in(path), opts)
}

func (r fromZone) OpenNoFollow(path string, flags Flags) (File, Stat, error) {
	return r.Zoned.OpenNoFollow(r.in(path), flags)
}

func (r fromZone) Node(path string, follow bool) (node.Node, error) {
	return r.Zoned.Node(r.in(path), follow)
}

func (r fromZone) Parent(path string) (node.Node, string, bool, error) {
	return r.Zoned.Parent(r.in(path))
}

var errFixed = &fserr.Error{Code: fserr.EACCES}

// openZones opens zones, by name and directory, beside each other.
func openZones(implementation string, barred func(string) bool, dirs map[string]string) (*Zoned, error) {
	var zones []ZoneRoot
	var base Root
	for name, dir := range dirs {
		parent, err := Open(filepath.Dir(dir), Options{Implementation: implementation})
		if err != nil {
			return nil, err
		}
		r, err := OpenZone(parent, filepath.Base(dir), Options{Zone: true, Barred: barred})
		if err != nil {
			return nil, err
		}
		if base == nil {
			if base, err = OpenZone(parent, ".", Options{Refuse: errFixed}); err != nil {
				return nil, err
			}
		}
		if err := parent.Close(); err != nil {
			return nil, err
		}
		zones = append(zones, ZoneRoot{Name: name, Root: r})
	}
	return NewZoned(base, zones, nil, barred), nil
}

func TestSuiteInAZone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, implementation string
		barred               func(string) bool
	}{
		{"sandboxed", "openat2", nil}, {"direct", "walk", isGit},
	} {
		t.Run(row.name, func(t *testing.T) {
			suite(t, func(dir string) (Root, error) {
				for link, target := range map[string]string{"abs": "/z/d/g", "absdir": "/z/d", "absdangling": "/z/nowhere"} {
					link = filepath.Join(dir, link)
					if err := os.Remove(link); err != nil {
						return nil, err
					}
					if err := os.Symlink(target, link); err != nil {
						return nil, err
					}
				}
				z, err := openZones(row.implementation, row.barred, map[string]string{"z": dir})
				return fromZone{z}, err
			})
		})
	}
}

// twoZones has the zones /a and /b beside an outside, in the way that a row of implementations opens them.
type twoZones struct {
	*testing.T
	*Zoned
	dir string
}

// eachTwoZones runs f with each implementation. Names that git's own directory may have are barred.
func eachTwoZones(t *testing.T, f func(w *twoZones)) {
	for _, implementation := range []string{"openat2", "walk"} {
		t.Run(implementation, func(t *testing.T) {
			w := &twoZones{T: t, dir: t.TempDir()}
			for _, d := range []string{"a/d", "b/d", "outside"} {
				w.must(os.MkdirAll(filepath.Join(w.dir, d), 0o755))
			}
			for _, f := range []string{"a/f", "b/g", "outside/secret"} {
				w.must(os.WriteFile(filepath.Join(w.dir, f), []byte(f), 0o600))
			}
			var err error
			w.Zoned, err = openZones(implementation, isGit, map[string]string{"a": filepath.Join(w.dir, "a"), "b": filepath.Join(w.dir, "b")})
			w.must(err)
			t.Cleanup(func() { w.must(w.Close()) })
			f(w)
		})
	}
}

func isGit(name string) bool { return strings.EqualFold(name, ".git") }

func (w *twoZones) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *twoZones) code(err error, want fserr.Code) {
	w.Helper()
	if got := fserr.CodeOf(err); got != want {
		w.Errorf("got %v (%v), want %v", got, err, want)
	}
}

func (w *twoZones) reads(path, want string) {
	w.Helper()
	f, err := w.OpenFile(path, O_RDONLY, 0)
	w.must(err)
	defer f.Close()
	data, err := io.ReadAll(f)
	w.must(err)
	if string(data) != want {
		w.Errorf("%s has %q, want %q", path, data, want)
	}
}

func (w *twoZones) link(name, target string) {
	w.Helper()
	w.must(os.Symlink(target, filepath.Join(w.dir, name)))
}

func TestLinksLeadFromZoneToZone(t *testing.T) {
	t.Parallel()
	eachTwoZones(t, func(w *twoZones) {
		w.link("a/abs", "/b/g")
		w.link("a/rel", "../b/g")
		w.link("a/dir", "/b/d")
		w.link("a/new", "/b/made")
		w.link("a/there", "/b")
		w.link("b/back", "../a/abs")
		w.link("a/top", "/")
		w.link("a/circle", "/b/circle")
		w.link("b/circle", "/a/circle")
		for path, want := range map[string]string{
			"/a/abs": "b/g", "/a/rel": "b/g", "/b/back": "b/g", "/a/there/g": "b/g", "/a/../b/g": "b/g", "/a/top/a/f": "a/f", "/a/d/../f": "a/f",
		} {
			w.reads(path, want)
			real, err := w.Realpath(path)
			w.must(err)
			if real != "/"+want {
				t.Errorf("realpath of %s is %s, want /%s", path, real, want)
			}
		}
		f, err := w.OpenFile("/a/new", O_CREAT|O_WRONLY, 0o644)
		w.must(err)
		w.must(f.Close())
		first, err := w.MkdirAll("/a/dir/x/y", 0o755)
		w.must(err)
		if first != "/b/d/x" {
			t.Errorf("mkdir -p made %s first", first)
		}
		w.must(w.Rename("/a/dir/x", "/b/x"))
		for _, made := range []string{"b/made", "b/x/y"} {
			if _, err := os.Lstat(filepath.Join(w.dir, made)); err != nil {
				t.Error(err)
			}
		}
		_, err = w.Stat("/a/circle")
		w.code(err, fserr.ELOOP)
		_, err = w.Stat("/a/../../outside/secret")
		w.code(err, fserr.EACCES)
	})
}

func TestNothingMovesBetweenZones(t *testing.T) {
	t.Parallel()
	eachTwoZones(t, func(w *twoZones) {
		w.link("a/to", "/b/d")
		w.code(w.Rename("/a/f", "/b/f"), fserr.EXDEV)
		w.code(w.Link("/a/f", "/b/f"), fserr.EXDEV)
		w.code(w.Rename("/a/f", "/a/to/f"), fserr.EXDEV)
		w.code(w.Link("/a/f", "/a/to/../f"), fserr.EXDEV)
		w.code(w.Rename("/a/d", "/b/e"), fserr.EXDEV)
		w.code(w.Rename("/a/none", "/b/f"), fserr.ENOENT)
		if _, err := os.Lstat(filepath.Join(w.dir, "b/f")); err == nil {
			t.Error("it was moved")
		}
		report, err := tree.Copy(t.Context(), w.Zoned, "/a/f", w.Zoned, "/b/f", tree.CopyOptions{})
		w.must(err)
		if report.Files != 1 {
			t.Errorf("the copy reports %+v", report)
		}
		w.reads("/b/f", "a/f")
	})
}

func TestNothingChangesBesideZones(t *testing.T) {
	t.Parallel()
	eachTwoZones(t, func(w *twoZones) {
		w.code(w.Mkdir("/c", 0o755), fserr.EACCES)
		w.code(w.Symlink("a", "/c"), fserr.EACCES)
		w.code(opening("/c", O_CREAT|O_WRONLY)(w.Zoned), fserr.EACCES)
		w.code(opening("/c/d", O_CREAT|O_WRONLY)(w.Zoned), fserr.ENOENT)
		w.code(w.Rename("/a/f", "/c"), fserr.EACCES)
		w.code(w.Rename("/a", "/c"), fserr.EACCES)
		w.code(w.Rename("/a", "/b/a"), fserr.EXDEV)
		w.code(w.Rename("/a", "/a"), fserr.EBUSY)
		w.code(w.Rmdir("/a"), fserr.EBUSY)
		w.code(w.Unlink("/a"), fserr.EISDIR)
		w.code(w.Chmod("/", 0o700), fserr.EACCES)
		w.code(w.Utimes("/", 1, 1, true), fserr.EACCES)
		_, err := w.MkdirAll("/c/d", 0o755)
		w.code(err, fserr.EACCES)
		for _, path := range []string{"/", "/a", "/a/."} {
			if _, err = w.RemoveAll(t.Context(), path); err == nil {
				t.Errorf("rm -r %s removed it", path)
			}
		}
		_, err = tree.Copy(t.Context(), w.Zoned, "/a/d", w.Zoned, "/c", tree.CopyOptions{})
		w.code(err, fserr.EACCES)
		// Nothing of the directories around the zones shows.
		_, err = w.Stat("/outside")
		w.code(err, fserr.ENOENT)
		var names []string
		w.must(w.Walk(t.Context(), "/", tree.WalkOptions{}, func(rel string, _ Entry, err error) error {
			names = append(names, rel)
			return err
		}))
		slices.Sort(names)
		if want := []string{"a", "a/d", "a/f", "b", "b/d", "b/g"}; !slices.Equal(names, want) {
			t.Errorf("the walk found %v, want %v", names, want)
		}
		list, err := os.ReadDir(w.dir)
		w.must(err)
		if len(list) != 3 {
			t.Errorf("beside the zones there is now %v", list)
		}
	})
}

func TestBarredNamesCannotBeReached(t *testing.T) {
	t.Parallel()
	eachTwoZones(t, func(w *twoZones) {
		w.must(os.MkdirAll(filepath.Join(w.dir, "a/d/.git/hooks"), 0o755))
		w.must(os.WriteFile(filepath.Join(w.dir, "a/d/.git/config"), []byte("x"), 0o644))
		w.link("a/into", "d/.git/config")
		w.link("a/dir", "d/.git")
		w.link("a/abs", "/a/d/.git")
		w.link("a/up", "d/.git/hooks/../config")
		for _, path := range []string{
			"/a/d/.git", "/a/d/.git/", "/a/d/.git/config", "/a/d/.GIT/config", "/a/into", "/a/dir/config", "/a/abs/config", "/a/up", "/a/d/../d/.git/config", "/b/../a/d/.git/.",
		} {
			for call, fn := range resolvingCalls(path) {
				if err := fn(w.Zoned); fserr.CodeOf(err) != fserr.EACCES {
					t.Errorf("%s of %s: %v, want EACCES", call, path, err)
				}
			}
		}
		for name, err := range map[string]error{
			"mkdir": w.Mkdir("/b/.git", 0o755), "symlink": w.Symlink("x", "/b/.Git"), "link": w.Link("/b/g", "/b/.git"), "create": opening("/b/.git", O_CREAT|O_WRONLY)(w.Zoned),
			"rename to": w.Rename("/b/d", "/b/.git"), "rename from": w.Rename("/a/d/.git", "/a/git"), "atomic": replacing("/b/.git", true)(w.Zoned),
		} {
			if fserr.CodeOf(err) != fserr.EACCES {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := tree.Copy(t.Context(), w.Zoned, "/a/d", w.Zoned, "/b/copy", tree.CopyOptions{})
		w.must(err)
		if _, err := os.Lstat(filepath.Join(w.dir, "b/copy/.git")); err == nil {
			t.Error("cp -r copied .git")
		}
		_, err = w.RemoveAll(t.Context(), "/a/d")
		w.code(err, fserr.ENOTEMPTY)
		data, err := os.ReadFile(filepath.Join(w.dir, "a/d/.git/config"))
		if err != nil || string(data) != "x" {
			t.Errorf(".git/config is now %q: %v", data, err)
		}
		dir, err := w.OpenDir("/a/d")
		w.must(err)
		defer dir.Close()
		if got, err := dir.Next(10, true); !errors.Is(err, io.EOF) {
			t.Errorf("listing shows %v: %v", got, err)
		}
		l := w.Lookups()
		defer l.Close()
		for range 3 {
			_, err = l.Lstat("/a/d/.git")
			w.code(err, fserr.EACCES)
		}
	})
}

func TestWatchOfZonesReportsAllZonesAndNoBarredName(t *testing.T) {
	t.Parallel()
	eachTwoZones(t, func(w *twoZones) {
		watcher, err := w.Watch("/", watch.Options{Recursive: true})
		w.must(err)
		defer watcher.Close()
		w.must(os.MkdirAll(filepath.Join(w.dir, "a/.git/hooks"), 0o755))
		w.must(os.WriteFile(filepath.Join(w.dir, "a/.git/config"), nil, 0o644))
		w.must(os.Mkdir(filepath.Join(w.dir, "outside/x"), 0o755))
		w.must(w.Mkdir("/b/last", 0o755))
		for e := range watcher.Events() {
			if strings.Contains(e.Name, ".git") || strings.Contains(e.Name, "outside") {
				t.Errorf("the watch reports %s", e.Name)
			}
			if e.Name == "b/last" {
				return
			}
		}
	})
}

func TestReadOnlyZoneRefusesChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &twoZones{T: t, dir: dir}
	w.must(os.MkdirAll(filepath.Join(dir, "ro/d"), 0o755))
	w.must(os.WriteFile(filepath.Join(dir, "ro/f"), []byte("ro"), 0o644))
	before, err := os.Stat(filepath.Join(dir, "ro/f"))
	w.must(err)
	parent, err := Open(dir, Options{})
	w.must(err)
	defer parent.Close()
	ro, err := OpenZone(parent, "ro", Options{Zone: true, Refuse: fserr.EROFS})
	w.must(err)
	base, err := OpenZone(parent, ".", Options{Refuse: errFixed})
	w.must(err)
	w.Zoned = NewZoned(base, []ZoneRoot{{Name: "ro", Root: ro}}, nil, nil)
	defer w.Close()
	f, err := w.OpenFile("/ro/f", O_RDONLY, 0)
	w.must(err)
	defer f.Close()
	_, rmErr := w.RemoveAll(t.Context(), "/ro/d")
	_, mkErr := w.MkdirAll("/ro/x/y", 0o755)
	_, cpErr := tree.Copy(t.Context(), w.Zoned, "/ro/d", w.Zoned, "/ro/e", tree.CopyOptions{})
	for name, err := range map[string]error{
		"write": opening("/ro/f", O_WRONLY)(w.Zoned), "truncate": opening("/ro/f", O_WRONLY|O_TRUNC)(w.Zoned), "create": opening("/ro/n", O_CREAT|O_WRONLY)(w.Zoned),
		"atomic": replacing("/ro/f", false)(w.Zoned), "mkdir": w.Mkdir("/ro/n", 0o755), "symlink": w.Symlink("x", "/ro/n"), "link": w.Link("/ro/f", "/ro/n"),
		"rename": w.Rename("/ro/f", "/ro/n"), "unlink": w.Unlink("/ro/f"), "rmdir": w.Rmdir("/ro/d"), "chmod": w.Chmod("/ro/f", 0o600), "chown": w.Chown("/ro/f", -1, -1, true),
		"utimes": w.Utimes("/ro/f", 1, 1, true), "access": w.Access("/ro/f", 2), "fchmod": f.Chmod(0o600), "futimes": f.Utimes(1, 1), "fchown": f.Chown(-1, -1),
		"rm -r": rmErr, "mkdir -p": mkErr, "cp": cpErr,
	} {
		if fserr.CodeOf(err) != fserr.EROFS {
			t.Errorf("%s: %v, want EROFS", name, err)
		}
	}
	after, err := os.Stat(filepath.Join(dir, "ro/f"))
	w.must(err)
	if !after.ModTime().Equal(before.ModTime()) || after.Mode() != before.Mode() || after.Size() != 2 {
		t.Errorf("the file changed: %v %v", after.Mode(), after.ModTime())
	}
}

func TestZoneRefusesContentBeyondItsBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &twoZones{T: t, dir: dir}
	w.must(os.MkdirAll(filepath.Join(dir, "z"), 0o755))
	w.must(os.WriteFile(filepath.Join(dir, "big"), make([]byte, 4096), 0o644))
	parent, err := Open(dir, Options{})
	w.must(err)
	defer parent.Close()
	room := int64(100)
	z, err := OpenZone(parent, "z", Options{Charge: func(bytes int64) error {
		if room -= bytes; room < 0 {
			return fserr.EDQUOT
		}
		return nil
	}})
	w.must(err)
	defer z.Close()
	f, err := z.OpenFile("f", O_CREAT|O_WRONLY, 0o644)
	w.must(err)
	defer f.Close()
	_, err = f.Write(make([]byte, 60))
	w.must(err)
	_, err = f.WriteAt(make([]byte, 60), 60)
	w.code(err, fserr.EDQUOT)
	room = 0
	_, err = f.Write([]byte("x"))
	w.code(err, fserr.EDQUOT)
	_, err = Writev(f, [][]byte{[]byte("x"), []byte("y")})
	w.code(err, fserr.EDQUOT)
	_, err = tree.Copy(t.Context(), parent, "big", z, "copy", tree.CopyOptions{})
	w.code(err, fserr.EDQUOT)
	if _, err := os.Lstat(filepath.Join(dir, "z/copy")); err == nil {
		t.Error("the copy stays")
	}
}
