package layer

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// linked builds a layer that may share files.
func (b *bench) linked() *Layer {
	b.t.Helper()
	return b.build(func(o *BuildOptions) { o.Link = true })
}

func (b *bench) in(name string) string { return filepath.Join(b.src.Dir, "app", name) }

func (b *bench) write(name, content string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(b.in(name)), 0o755))
	must(b.t, os.WriteFile(b.in(name), []byte(content), 0o644))
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	one, err := os.Lstat(a)
	must(t, err)
	two, err := os.Lstat(b)
	must(t, err)
	return os.SameFile(one, two)
}

// shares reports whether a name is the same file in two layers.
func shares(t *testing.T, one, two *Layer, name string) bool {
	t.Helper()
	return sameFile(t, filepath.Join(one.Tree, "app", name), filepath.Join(two.Tree, "app", name))
}

func TestLayersShareWhatDidNotChange(t *testing.T) {
	b := newBench(t)
	old := time.Unix(1_600_000_000, 123_456_789)
	for i := range 20 {
		b.write(fmt.Sprintf("d%d/same", i%3+i/3*10), "1")
	}
	for _, name := range []string{"changed", "touched back", "replaced", "chmod"} {
		b.write(name, "1")
		must(t, os.Chtimes(b.in(name), old, old))
	}
	one := b.linked()
	b.write("changed", "2")
	// Size and mtime are as before: only the ctime differs.
	b.write("touched back", "2")
	must(t, os.Chtimes(b.in("touched back"), old, old))
	// Another file of the same size and mtime.
	b.write("new", "2")
	must(t, os.Chtimes(b.in("new"), old, old))
	must(t, os.Rename(b.in("new"), b.in("replaced")))
	must(t, os.Chmod(b.in("chmod"), 0o600))
	two := b.linked()

	if !two.Manifest.Holds(b.scan()) {
		t.Error("the layer is not as the workspace")
	}
	for _, name := range []string{"d0/same", "d1/same", "f", "hard"} {
		if !shares(t, one, two, name) {
			t.Errorf("%s was copied anew", name)
		}
	}
	for name, content := range map[string]string{"changed": "2", "touched back": "2", "replaced": "2", "chmod": "1"} {
		if shares(t, one, two, name) {
			t.Errorf("%s is the old one", name)
		}
		if data, err := os.ReadFile(filepath.Join(two.Tree, "app", name)); err != nil || string(data) != content {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
	if st, err := os.Stat(filepath.Join(one.Tree, "app/chmod")); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("the old layer's file has mode %v, %v", st.Mode(), err)
	}
}

func TestLayersAreCopiedWithoutLink(t *testing.T) {
	b := newBench(t)
	one := b.linked()
	b.write("new", "1")
	if two := b.build(nil); shares(t, one, two, "f") {
		t.Error("the layers share a file")
	}
}

// A hard link that the last layer did not have must stay one.
func TestHardLinksAcrossLayers(t *testing.T) {
	b := newBench(t)
	must(t, os.WriteFile(filepath.Join(b.src.Dir, ".contextignore"), []byte("hard\n"), 0o644))
	one := b.linked()
	if exists(filepath.Join(one.Tree, "app/hard")) {
		t.Fatal("it was not left out")
	}
	must(t, os.Remove(filepath.Join(b.src.Dir, ".contextignore")))
	two := b.linked()
	if !sameFile(t, filepath.Join(two.Tree, "app/f"), filepath.Join(two.Tree, "app/hard")) {
		t.Error("the names are two files now")
	}
	if !shares(t, one, two, "f") {
		t.Error("it was copied anew")
	}
}

// A stale layer is no context's any more, but what it holds is as good as ever, after a restart too.
func TestStaleLayerIsShared(t *testing.T) {
	b := newBench(t)
	one := b.linked()
	must(t, b.MarkStale(one))
	b.write("new", "1")
	b.Store = New(b.layers, nil)
	if two := b.linked(); !shares(t, one, two, "f") {
		t.Error("it was copied anew")
	}
}

// What somebody did to a layer does not get into the next one.
func TestDamagedLayerIsNotShared(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"content": func(p string) error { return os.WriteFile(p, []byte("longer"), 0o600) },
		"mode":    func(p string) error { return os.Chmod(p, 0o777) },
		"gone":    os.Remove,
		"folder":  func(p string) error { return os.RemoveAll(filepath.Dir(p)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			one := b.linked()
			must(t, damage(filepath.Join(one.Tree, "app/f")))
			b.write("new", "1")
			two := b.linked()
			if data, err := os.ReadFile(filepath.Join(two.Tree, "app/f")); err != nil || string(data) != "1" {
				t.Errorf("it holds %q, %v", data, err)
			}
		})
	}
}

// A layer goes without those that share its files noticing.
func TestSharedLayerIsRemoved(t *testing.T) {
	b := newBench(t)
	one := b.linked()
	b.write("new", "1")
	two := b.linked()
	unused, err := b.Unused(nil)
	must(t, err)
	if len(unused) != 1 || unused[0] != one.Digest {
		t.Fatalf("unused are %v", unused)
	}
	must(t, os.RemoveAll(b.Dir(one.Digest)))
	if data, err := os.ReadFile(filepath.Join(two.Tree, "app/hard")); err != nil || string(data) != "1" {
		t.Errorf("it holds %q, %v", data, err)
	}
}
