//go:build linux

package tree_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// eachRoot runs a test on every implementation, over a fresh directory.
func eachRoot(t *testing.T, test func(t *testing.T, impl string)) {
	all := []string{"openat2", "walk", "osroot"}
	if overlaytest.Driver() != "" {
		all = all[:1]
	}
	for _, impl := range all {
		t.Run(impl, func(t *testing.T) { test(t, impl) })
	}
}

// testRoot is a Root with its nodes.
type testRoot interface {
	rootfs.Root
	tree.Nodes
}

func treeAt(t *testing.T, dir, impl string) testRoot {
	t.Helper()
	r, err := rootfs.Open(dir, rootfs.Options{Implementation: impl})
	if err != nil {
		t.Fatalf("open as %s: %v", impl, err)
	}
	t.Cleanup(func() { must(t, r.Close()) })
	return r.(testRoot)
}

func newTree(t *testing.T, impl string) (r testRoot, dir string) {
	t.Helper()
	return newTreeOf(t, impl, nil)
}

// newTreeOf opens what fill has made. In a context of an overlay driver that belongs to the layer.
func newTreeOf(t *testing.T, impl string, fill func(dir string)) (r testRoot, dir string) {
	t.Helper()
	dir = overlaytest.Dir(t, fill)
	return treeAt(t, dir, impl), dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, parts ...string) {
	t.Helper()
	path := filepath.Join(parts[:len(parts)-1]...)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(parts[len(parts)-1]), 0o644))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// snapshot describes a tree by an independent walk, one line per entry. FIFOs
// are left out; hard links are reported by their first name.
func snapshot(t *testing.T, dir string) []string {
	t.Helper()
	var lines []string
	first := map[uint64]string{}
	must(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeNamedPipe == 0 {
			lines = append(lines, describe(t, dir, path, info, first))
		}
		return nil
	}))
	sort.Strings(lines)
	return lines
}

func describe(t *testing.T, dir, path string, info os.FileInfo, first map[uint64]string) string {
	t.Helper()
	st := info.Sys().(*syscall.Stat_t)
	rel, err := filepath.Rel(dir, path)
	must(t, err)
	line := fmt.Sprintf("%q mode=%o mtime=%d", rel, st.Mode&^0o6000, info.ModTime().UnixNano())
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(path)
		must(t, err)
		return line + fmt.Sprintf(" -> %q", target)
	case info.IsDir():
		return line
	}
	content, err := os.ReadFile(path)
	must(t, err)
	line += fmt.Sprintf(" size=%d hash=%x sparse=%v", info.Size(), fnv(content), st.Blocks*512 < st.Size)
	if st.Nlink > 1 {
		if first[st.Ino] == "" {
			first[st.Ino] = rel
		}
		line += fmt.Sprintf(" same as %q", first[st.Ino])
	}
	return line
}

func fnv(b []byte) (h uint64) {
	h = 14695981039346656037
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// growTree fills dir with a random tree of everything that a copy has to keep.
func growTree(t *testing.T, rng *rand.Rand, dir string, levels int) {
	t.Helper()
	for i := range 4 + rng.IntN(5) {
		path := filepath.Join(dir, fmt.Sprintf("%c%d", 'a'+rng.IntN(26), i))
		if rng.IntN(4) == 0 {
			path += "\xff\n é"
		}
		growEntry(t, rng, dir, path, levels)
	}
}

func growEntry(t *testing.T, rng *rand.Rand, dir, path string, levels int) {
	t.Helper()
	mode := []os.FileMode{0o644, 0o600, 0o755, 0o444, 0o400}[rng.IntN(5)]
	switch kind := rng.IntN(8); {
	case kind == 0:
		must(t, os.Symlink([]string{"../../etc/passwd", "/abs", "a\xfe", "."}[rng.IntN(4)], path))
	case kind == 1:
		must(t, syscall.Mkfifo(path, 0o644))
	case kind == 2:
		sparse(t, path, int64(1<<20+rng.IntN(1<<20)))
	case kind <= 4 && levels > 0:
		must(t, os.Mkdir(path, 0o755))
		growTree(t, rng, path, levels-1)
		must(t, os.Chmod(path, []os.FileMode{0o755, 0o555, 0o700}[rng.IntN(3)]))
	default:
		must(t, os.WriteFile(path, []byte(strings.Repeat("x", rng.IntN(9000))), 0o644))
		if rng.IntN(2) == 0 {
			must(t, os.Link(path, filepath.Join(dir, fmt.Sprintf("link%d", rng.Uint64()))))
		}
		must(t, os.Chmod(path, mode))
	}
	ts := []unix.Timespec{{Sec: 1e9, Nsec: rng.Int64N(1e9)}, {Sec: int64(rng.IntN(2e9)), Nsec: rng.Int64N(1e9)}}
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW))
}

// sparse makes a file with a hole before and after its data.
func sparse(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	_, err = f.WriteAt([]byte("data"), size/2)
	must(t, err)
	must(t, f.Truncate(size))
	must(t, f.Close())
}
