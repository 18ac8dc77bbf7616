package rootfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// world is one tree under test beside something it must never reach.
type world struct {
	*testing.T
	Root
	dir, outside string
}

// factory opens dir with the implementation under test.
type factory func(dir string) (Root, error)

// with opens a tree with the implementation called name.
func with(name string) factory {
	return func(dir string) (Root, error) { return Open(dir, Options{Implementation: name}) }
}

// implementations lists what this system can run.
func implementations() []string {
	if Driver != "" {
		return []string{"openat2"}
	}
	if runtime.GOOS == "linux" {
		return []string{"openat2", "walk", "osroot"}
	}
	return []string{"osroot"}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			suite(t, with(name))
		})
	}
}

// behaviour is a named test of the contract.
type behaviour struct {
	name string
	run  func(w *world)
}

// suite runs the whole contract against the implementation that open gives.
func suite(t *testing.T, open factory) {
	t.Run("errno", func(t *testing.T) { errnoTable(t, open) })
	for _, b := range slices.Concat(openBehaviours, mutateBehaviours, attributeBehaviours, inspectBehaviours, systemBehaviours) {
		t.Run(b.name, func(t *testing.T) { b.run(newWorld(t, open)) })
	}
}

// Place makes the directories of the tests: it is overlaytest.Dir, which this package cannot import.
var Place func(t testing.TB, fill func(dir string)) string

// Driver is the driver whose contexts Place makes, "" for plain directories. There the tests use the implementation of a server alone.
var Driver string

// newWorld makes the tree that every case starts from.
func newWorld(t *testing.T, open factory) *world {
	t.Helper()
	w := &world{T: t}
	base := Place(t, func(base string) {
		w.at(base)
		w.grow()
	})
	w.at(base)
	r, err := open(w.dir)
	w.must(err)
	w.Root = r
	t.Cleanup(func() {
		w.must(r.Close())
		w.untouched()
	})
	return w
}

// at says where the tree is.
func (w *world) at(base string) {
	w.dir, w.outside = filepath.Join(base, "root"), filepath.Join(base, "outside")
}

// grow makes the tree.
func (w *world) grow() {
	for _, d := range []string{w.dir, w.host("d"), w.host("d/sub"), w.host("empty"), w.outside} {
		w.must(os.Mkdir(d, 0o755))
	}
	w.put("f", "content")
	w.put("d/g", "g")
	w.must(os.WriteFile(filepath.Join(w.outside, "secret"), []byte("secret"), 0o600))
	for name, target := range map[string]string{
		"rel": "f", "dirlink": "d", "abs": "/d/g", "absdir": "/d", "dangling": "nowhere",
		"absdangling": "/nowhere", "d/up": "../f", "out": "../outside/secret", "outdir": "../outside",
		"outdangling": "../outside/none", "hop": "out", "host": "/etc/passwd", "loop": "loop",
		"backin": "../root/f", "fslash": "f/", "dslash": "d/", "missingup": "nowhere/../f", "toreserved": ReservedPrefix + "x",
	} {
		w.must(os.Symlink(target, w.host(name)))
	}
}

// untouched checks that nothing outside the tree was changed.
func (w *world) untouched() {
	w.Helper()
	list, err := os.ReadDir(w.outside)
	w.must(err)
	info, err := os.Stat(filepath.Join(w.outside, "secret"))
	w.must(err)
	if len(list) != 1 || info.Size() != 6 || (runtime.GOOS != "windows" && info.Mode().Perm() != 0o600) {
		w.Errorf("the outside was changed: %v, secret is %v, %d bytes", list, info.Mode(), info.Size())
	}
}

// host is the place of path on the host.
func (w *world) host(path string) string { return filepath.Join(w.dir, filepath.FromSlash(path)) }

func (w *world) put(path, content string) {
	w.Helper()
	w.must(os.WriteFile(w.host(path), []byte(content), 0o644))
}

func (w *world) content(path, want string) {
	w.Helper()
	got, err := os.ReadFile(w.host(path))
	w.must(err)
	if string(got) != want {
		w.Errorf("content of %q is %q, want %q", path, got, want)
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// code checks that err is one of codes; 0 is success.
func (w *world) code(err error, codes ...fserr.Code) {
	w.Helper()
	if err != nil && !errors.As(err, new(*fserr.Error)) {
		w.Errorf("%T is no *fserr.Error: %v", err, err)
	}
	got := fserr.CodeOf(err)
	as := got
	if zone, ok := w.Root.(interface{ codeOf(err error) fserr.Code }); ok {
		as = zone.codeOf(err)
	}
	if !slices.Contains(codes, got) && !slices.Contains(codes, as) {
		w.Errorf("got %v (%v), want %v", got, err, codes)
	}
}

func (w *world) equal(got, want any) {
	w.Helper()
	if got != want {
		w.Errorf("got %v, want %v", got, want)
	}
}

func (w *world) open(path string, flags Flags, mode uint32) File {
	w.Helper()
	f, err := w.OpenFile(path, flags, mode)
	w.must(err)
	w.Cleanup(func() { _ = f.Close() })
	return f
}

func (w *world) lstat(path string) Stat {
	w.Helper()
	st, err := w.Lstat(path)
	w.must(err)
	return st
}

// gone checks that path does not exist.
func (w *world) gone(path string) {
	w.Helper()
	_, err := w.Lstat(path)
	w.code(err, fserr.ENOENT)
}

func opening(path string, flags Flags) func(Root) error {
	return func(r Root) error {
		f, err := r.OpenFile(path, flags, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	}
}

func openStatting(path string, flags Flags) func(Root) error {
	return func(r Root) error {
		f, _, err := r.OpenStat(path, flags)
		if err != nil {
			return err
		}
		return f.Close()
	}
}

func reading(path string) func(Root) error { return opening(path, O_RDONLY) }

func listing(path string) func(Root) error {
	return func(r Root) error {
		d, err := r.OpenDir(path)
		if err != nil {
			return err
		}
		return d.Close()
	}
}

func replacing(path string, exclusive bool) func(Root) error {
	return func(r Root) error {
		f, err := r.CreateAtomic(path, 0o644, exclusive)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(f, "whole"); err != nil {
			return errors.Join(err, f.Abort())
		}
		return f.Commit(false)
	}
}

func statting(path string) func(Root) error {
	return func(r Root) error { _, err := r.Stat(path); return err }
}

func lstatting(path string) func(Root) error {
	return func(r Root) error { _, err := r.Lstat(path); return err }
}

func realpathing(path string) func(Root) error {
	return func(r Root) error { _, err := r.Realpath(path); return err }
}

func readlinking(path string) func(Root) error {
	return func(r Root) error { _, err := r.Readlink(path); return err }
}

func making(path string) func(Root) error { return func(r Root) error { return r.Mkdir(path, 0o755) } }

func makingAll(path string) func(Root) error {
	return func(r Root) error { _, err := r.MkdirAll(path, 0o755); return err }
}

func symlinking(target, path string) func(Root) error {
	return func(r Root) error { return r.Symlink(target, path) }
}

func linking(from, to string) func(Root) error {
	return func(r Root) error { return r.Link(from, to) }
}

func renaming(from, to string) func(Root) error {
	return func(r Root) error { return r.Rename(from, to) }
}

func unlinking(path string) func(Root) error { return func(r Root) error { return r.Unlink(path) } }

func rmdiring(path string) func(Root) error { return func(r Root) error { return r.Rmdir(path) } }

func accessing(path string, mode uint32) func(Root) error {
	return func(r Root) error { return r.Access(path, mode) }
}

// everyCall is each call with a path, for rules that hold in all of them.
func everyCall(path string) map[string]func(Root) error {
	calls := resolvingCalls(path)
	calls["mkdir"], calls["mkdirall"] = making(path), makingAll(path)
	calls["symlink"], calls["lstat"], calls["readlink"] = symlinking("f", path), lstatting(path), readlinking(path)
	calls["link from"], calls["link to"] = linking(path, "newname"), linking("f", path)
	calls["rename from"], calls["rename to"] = renaming(path, "newname"), renaming("f", path)
	calls["unlink"], calls["rmdir"] = unlinking(path), rmdiring(path)
	calls["create exclusively"], calls["create atomically, exclusively"] = opening(path, O_WRONLY|O_CREAT|O_EXCL), replacing(path, true)
	return calls
}

// resolvingCalls is each call that follows a final link.
func resolvingCalls(path string) map[string]func(Root) error {
	return map[string]func(Root) error{
		"open": reading(path), "open with attributes": openStatting(path, O_RDONLY), "open to write": opening(path, O_WRONLY), "create": opening(path, O_RDWR|O_CREAT),
		"truncate": opening(path, O_WRONLY|O_TRUNC), "create atomically": replacing(path, false),
		"opendir": listing(path), "stat": statting(path), "access": accessing(path, 0), "realpath": realpathing(path),
		"statfs": func(r Root) error { _, err := r.Statfs(path); return err },
		"chmod":  func(r Root) error { return r.Chmod(path, 0o644) },
		"chown":  func(r Root) error { return r.Chown(path, -1, -1, true) },
		"utimes": func(r Root) error { return r.Utimes(path, 1, 1, true) },
	}
}
