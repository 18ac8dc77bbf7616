package seed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source makes a workspace of files; a name that ends in "/" is a directory.
func source(t *testing.T, names ...string) Source {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		name, content, _ := strings.Cut(name, "=")
		p := filepath.Join(dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(p, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(content), 0o644))
	}
	root, err := rootfs.Open(dir, rootfs.Options{FollowMounts: true})
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return Source{Root: root, Dir: dir}
}

func TestDiscover(t *testing.T) {
	cases := []struct {
		name  string
		files []string
		want  []string
	}{
		{"none", []string{"a/f"}, nil},
		{"itself", []string{".git/HEAD", "a/.git/HEAD"}, []string{"."}},
		{"several", []string{"b/.git/HEAD", "a/.git/HEAD", "c/d/e/.git/HEAD"}, []string{"a", "b", "c/d/e"}},
		{"a worktree has a file", []string{"a/.git=gitdir: x"}, []string{"a"}},
		{"nested ones belong to the outer", []string{"a/.git/HEAD", "a/b/.git/HEAD"}, []string{"a"}},
		{"hidden and node_modules", []string{".h/.git/HEAD", "node_modules/x/.git/HEAD", "a/.b/.git/H"}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := discover(context.Background(), source(t, c.files...))
			must(t, err)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A link to a directory is not entered. A directory whose .git is a link is a repository for git, and so it is here.
func TestDiscoverLinks(t *testing.T) {
	src := source(t, "a/.git/HEAD")
	must(t, os.Symlink("a", filepath.Join(src.Dir, "link")))
	must(t, os.Mkdir(filepath.Join(src.Dir, "b"), 0o755))
	must(t, os.Symlink("../a/.git", filepath.Join(src.Dir, "b/.git")))
	got, err := discover(context.Background(), src)
	must(t, err)
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q, want a and b", got)
	}
}

func paths(s *Scan) []string {
	var out []string
	for _, e := range s.Entries {
		out = append(out, e.Path)
	}
	return out
}

func TestWalk(t *testing.T) {
	cases := []struct {
		name  string
		files []string
		opts  Options
		avoid string
		want  []string
	}{
		{"parents of a repository", []string{"x/y/.git/H", "x/y/f", "x/loose"}, Options{}, "", []string{"x", "x/y", "x/y/f"}},
		{"excludes at any depth", []string{"a/.git/H", "a/s/node_modules/m", "a/s/.cache/c", "a/.databases=file", "a/.contexts/c", "a/f"}, Options{}, "", []string{"a", "a/f", "a/s"}},
		{"the contexts directory", []string{".git/H", "f", "ctx/ctx_a/f"}, Options{}, "ctx", []string{"f"}},
		{"a seed root beside a repository", []string{"a/.git/H", "a/f", "data/d", "other/o"}, Options{Root: "data"}, "", []string{"a", "a/f", "data", "data/d"}},
		{"the workspace's own ignore file", []string{".contextignore=a/big/\n*.tmp", "a/.git/H", "a/big/f", "a/x.tmp", "a/f"}, Options{}, "", []string{"a", "a/f"}},
		{"an ignore file below", []string{"a/.git/H", "a/s/.contextignore=/f", "a/s/f", "a/s/t/f"}, Options{}, "", []string{"a", "a/s", "a/s/.contextignore", "a/s/t", "a/s/t/f"}},
		{"a repository left out whole", []string{".contextignore=/b", "a/.git/H", "b/.git/H", "b/f"}, Options{}, "", []string{"a"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			src := source(t, c.files...)
			src.Avoid = c.avoid
			s, err := Walk(context.Background(), src, c.opts, nil)
			must(t, err)
			if got := paths(s); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSkippedIsCounted(t *testing.T) {
	src := source(t, "a/.git/H", "a/node_modules/x", "a/b/node_modules/y", "a/.contextignore=*.log", "a/1.log", "a/2.log")
	s, err := Walk(context.Background(), src, Options{}, nil)
	must(t, err)
	want := []Skipped{{".contextignore", 2, 2}, {".git", 1, -1}, {"node_modules", 2, -1}}
	if !reflect.DeepEqual(s.Skipped, want) {
		t.Errorf("got %+v, want %+v", s.Skipped, want)
	}
}

func TestBadOptions(t *testing.T) {
	src := source(t, "f")
	for _, o := range []Options{{Root: "../x"}, {Root: "/etc"}, {Root: "missing"}, {Root: "f"}, {Select: "some"}} {
		if _, err := Walk(context.Background(), src, o, nil); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("%+v: got %v, want EINVAL", o, err)
		}
	}
}

func TestGuardText(t *testing.T) {
	s := &Scan{Files: 212_340, Bytes: 30<<30 + 102<<20, Dirs: []DirSize{{"app/target", 10, 18<<30 + 205<<20}, {"data", 20, 9 << 30}}}
	err := Guard(s, Options{})
	want := "EFBIG: seed: 212,340 files, 30.1 GiB exceeds 100,000 files / 5 GiB. Largest: app/target 18.2 GiB, data 9 GiB; " + guardRemedy
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := Guard(&Scan{Files: 100_000, Bytes: 5 << 30}, Options{}); err != nil {
		t.Error("the limits themselves are refused:", err)
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 61 << 20: "61 MiB", 5 << 30: "5 GiB"} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
}

// anyBytes draws names that may not be UTF-8.
func anyBytes(t *rapid.T, label string) string {
	return string(rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, label))
}

func TestManifestKeepsEveryByte(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		var entries []Entry
		for i := range rapid.IntRange(0, 20).Draw(t, "n") {
			entries = append(entries, Entry{
				Path: fmt.Sprint(i, "/") + anyBytes(t, "path"), Type: rapid.SampledFrom([]rootfs.Type{rootfs.TypeFile, rootfs.TypeDirectory, rootfs.TypeSymlink}).Draw(t, "type"),
				Mode: rapid.Uint32Range(0, 0o7777).Draw(t, "mode"), Size: rapid.Int64Range(0, 1<<50).Draw(t, "size"),
				MtimeNs: rapid.Int64().Draw(t, "mtime"), CtimeNs: rapid.Int64().Draw(t, "ctime"),
				Ino: rapid.Uint64().Draw(t, "ino"), Dev: rapid.Uint64().Draw(t, "dev"), Target: anyBytes(t, "target"),
			})
		}
		want := NewManifest([]Repository{{Path: ".", Head: "h", Branch: "b", Dirty: true}}, entries)
		n++
		file := filepath.Join(dir, fmt.Sprint(n))
		digest, err := want.Write(file)
		if err != nil {
			t.Fatal(err)
		}
		got, again, err := Inspect(file)
		if err != nil || again != digest || !slices.Equal(got.Entries, want.Entries) || got.Files != want.Files || got.Bytes != want.Bytes || !slices.Equal(got.Repos, want.Repos) {
			t.Fatalf("got %+v, %s, %v; want %+v, %s", got, again, err, want, digest)
		}
	})
}

func TestDamagedManifest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m")
	_, err := NewManifest(nil, []Entry{{Path: "a"}, {Path: "b"}}).Write(file)
	must(t, err)
	data, err := os.ReadFile(file)
	must(t, err)
	for cut := range len(data) {
		must(t, os.WriteFile(file, data[:cut], 0o600))
		if _, err := ReadManifest(file); err == nil {
			t.Fatalf("a manifest cut at %d of %d was read", cut, len(data))
		}
	}
}

func TestHoldsSeesEveryChange(t *testing.T) {
	src := source(t, "a/.git/H", "a/f=1", "a/s/g=2")
	must(t, os.Symlink("f", filepath.Join(src.Dir, "a/l")))
	scan := func() *Scan {
		s, err := Walk(context.Background(), src, Options{}, nil)
		must(t, err)
		return s
	}
	in := func(name string) string { return filepath.Join(src.Dir, "a", name) }
	changes := []struct {
		name string
		do   func() error
	}{
		{"content", func() error { return os.WriteFile(in("f"), []byte("other"), 0o644) }},
		{"mode", func() error { return os.Chmod(in("f"), 0o600) }},
		{"mode of a directory", func() error { return os.Chmod(in("s"), 0o700) }},
		{"a new file", func() error { return os.WriteFile(in("n"), nil, 0o644) }},
		{"a file less", func() error { return os.Remove(in("n")) }},
		{"renamed", func() error { return os.Rename(in("s/g"), in("s/h")) }},
		{"a link's target", func() error { return replaceLink(in("l"), "g") }},
	}
	for _, c := range changes {
		before := scan()
		m := NewManifest(nil, slices.Clone(before.Entries))
		if !m.Holds(scan()) {
			t.Errorf("before %q nothing had changed", c.name)
		}
		must(t, c.do())
		if m.Holds(scan()) {
			t.Errorf("%s: the change went unseen", c.name)
		}
	}
	m := NewManifest(nil, scan().Entries)
	must(t, os.MkdirAll(in("node_modules/x"), 0o755))
	if !m.Holds(scan()) {
		t.Error("what is excluded made the layer stale")
	}
}

func replaceLink(name, target string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return os.Symlink(target, name)
}

func TestDoubtfulEntries(t *testing.T) {
	read := time.Unix(1_000_000, int64(500*time.Millisecond))
	for _, c := range []struct {
		name  string
		ctime time.Time
		want  bool
	}{
		{"changed within a tick before it was read", read.Add(-5 * time.Millisecond), true},
		{"changed while it was read", read.Add(time.Millisecond), true},
		{"changed well before", read.Add(-TickTime), false},
		{"in whole seconds, and recent", time.Unix(999_999, 0), true},
		{"in whole seconds, and old", time.Unix(999_998, 0), false},
		{"from the future", read.Add(time.Hour), false},
	} {
		e := Entry{Path: "f", Type: rootfs.TypeFile, CtimeNs: c.ctime.UnixNano()}
		d := e.Doubtful(read, read.Add(time.Second/100))
		if got := !d.Same(e) && !d.Same(d); got != c.want { //nolint:gocritic // a doubtful entry is not even itself
			t.Errorf("%s: doubtful is %t, want %t", c.name, got, c.want)
		}
	}
}
