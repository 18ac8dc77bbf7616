// Package drivertest is the one suite that every driver passes.
package drivertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// Difference is a known difference of a driver; the suite then requires that behaviour.
type Difference string

// InodesChange says that the inode number of a file of the layer becomes another once, at its first write or later.
const InodesChange Difference = "inode numbers change once"

// Run runs the suite against the driver that open makes for each test. What only a Mounter
// promises is tested when it is one.
func Run(t *testing.T, open func(t *testing.T) driver.Driver, differs ...Difference) {
	t.Helper()
	with := func(test func(*testing.T, driver.Driver, []Difference)) func(*testing.T, driver.Driver) {
		return func(t *testing.T, d driver.Driver) { test(t, d, differs) }
	}
	cases := []testCase{
		{"KeepsEverything", keepsEverything}, {"LikeAnIndependentCopier", likeAnIndependentCopier}, {"LeavesTheLayerAlone", leavesTheLayerAlone},
		{"EmptyLayer", emptyLayer}, {"ContextsAreApart", contextsAreApart},
		{"Changes", changes}, {"SameFileAfterItsFirstWrite", with(sameFileAfterItsFirstWrite)},
		{"HandleFromBeforeTheFirstWrite", handleFromBeforeTheFirstWrite},
		{"HardLinks", hardLinks}, {"DeleteAndMakeAnew", deleteAndMakeAnew},
		{"Duplicates", duplicates}, {"DuplicatesNoSpecialFiles", duplicatesNoSpecialFiles},
		{"DuplicateStopsWithItsContext", duplicateStopsWithItsContext},
		{"StopsWithItsContext", stopsWithItsContext}, {"CountsProgress", countsProgress},
		{"Check", check}, {"NamesItself", namesItself},
	}
	if _, ok := open(t).(driver.Linker); ok {
		cases = append(cases, testCase{"LayersShareFiles", with(layersShareFiles)}, testCase{"LayerThatComesAndGoes", with(layerThatComesAndGoes)})
	}
	if _, ok := open(t).(driver.Mounter); ok {
		cases = append(cases, mounterCases()...)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

type testCase struct {
	name string
	test func(*testing.T, driver.Driver)
}

// old has ns that no coarse copy keeps.
var old = time.Unix(1_234_567_890, 123_456_789)

// layer makes a tree with everything a layer may hold.
func layer(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	in := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for _, d := range []string{"", "a", "a/b", "a/b/empty", "readonly", "many"} {
		must(t, os.Mkdir(in(d), 0o755))
	}
	files := map[string]os.FileMode{
		"a/plain": 0o644, "a/run.sh": 0o755, "a/b/secret": 0o600, "readonly/f": 0o444, "a/space and ünïcode": 0o640, "a/.hidden": 0o664,
	}
	for name, mode := range files {
		must(t, os.WriteFile(in(name), []byte("content of "+name), 0o600))
		must(t, os.Chmod(in(name), mode))
	}
	must(t, os.WriteFile(in("a/none"), nil, 0o644))
	for i := range 50 {
		must(t, os.WriteFile(in(fmt.Sprintf("many/%d", i)), []byte{byte(i)}, 0o644))
	}
	if runtime.GOOS == "linux" {
		must(t, os.WriteFile(in("a/not-utf8-\xff"), []byte("x"), 0o644))
	}
	for link, target := range map[string]string{"a/link": "plain", "a/b/up": "../../readonly", "dangling": "/no/such", "outside": "../../etc"} {
		must(t, os.Symlink(target, in(link)))
	}
	must(t, os.Link(in("a/plain"), in("many/hard1")))
	must(t, os.Link(in("a/plain"), in("a/b/hard2")))
	setXattrs(t, in("a/run.sh"), in("a/b"))
	setTimes(t, dir)
	must(t, os.Chmod(in("readonly"), 0o555))
	t.Cleanup(func() { _ = os.Chmod(in("readonly"), 0o755) }) // so that TempDir can go
	return dir
}

// setTimes gives every entry a time of its own, children before parents.
func setTimes(t *testing.T, dir string) {
	t.Helper()
	root := openRoot(t, dir)
	defer func() { must(t, root.Close()) }()
	var names []string
	must(t, root.Walk(context.Background(), ".", tree.WalkOptions{}, func(rel string, _ rootfs.Entry, err error) error {
		names = append(names, rel)
		return err
	}))
	for i := len(names) - 1; i >= 0; i-- {
		ns := old.UnixNano() + int64(i)*1_000_000_007
		must(t, root.Utimes(names[i], ns, ns, false))
	}
}

// openRoot opens a tree; it must be closed, since a mount with an open file is in use.
func openRoot(t *testing.T, dir string) rootfs.Root {
	t.Helper()
	root, err := rootfs.Open(dir, rootfs.Options{})
	must(t, err)
	return root
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// snapshot describes, for each entry, the attributes and content that a copy must keep. It groups hard links.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	root := openRoot(t, dir)
	defer func() { must(t, root.Close()) }()
	first := map[uint64]string{}
	out := map[string]string{}
	// Sorted reading makes the first name of a file the same in every copy.
	must(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		st, err := root.Lstat(rel)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("mode %o mtime %d", st.Mode, st.MtimeNs)
		if st.Type() == rootfs.TypeSymlink {
			target, err := root.Readlink(rel)
			out[rel] = text + " -> " + target
			return err
		}
		if st.Type() == rootfs.TypeFile {
			if first[st.Ino] == "" {
				first[st.Ino] = rel
			}
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %q same file as %s", data, first[st.Ino])
		}
		text += xattrs(t, p)
		out[rel] = text
		return nil
	}))
	return out
}

func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%q is\n %s, want\n %s", name, got[name], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
}

// withoutTimes is a snapshot of trees that were not changed at the same time.
func withoutTimes(snapshot map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range snapshot {
		mode, rest, _ := strings.Cut(text, " mtime ")
		_, rest, _ = strings.Cut(rest, " ")
		out[name] = mode + " " + rest
	}
	return out
}
