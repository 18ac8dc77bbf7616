package batch_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

func TestOnOverlays(t *testing.T) { overlaytest.Run(t, "^TestLayers") }

// layeredWorld has what fill makes, in a context in the layer. It returns the layer's directory.
func layeredWorld(t *testing.T, fill func(layer string) error) (w world, layer string) {
	t.Helper()
	w = world{journal: t.TempDir()}
	w.dir = overlaytest.Dir(t, func(dir string) {
		layer = dir
		if err := fill(dir); err != nil {
			t.Fatal(err)
		}
	})
	root, err := rootfs.Open(w.dir, rootfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.root = root
	t.Cleanup(func() { _ = root.Close() })
	return w, layer
}

// writeAll writes the files of written.
func writeAll(dir string) (err error) {
	for name, text := range written {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return err
}

// sharers gives the files of a layer further names, as a new layer does that has the same files.
type sharers struct {
	t     *testing.T
	layer string
	// others are directories that have the further names.
	others []string
}

func (n *sharers) add(string) {
	other := n.t.TempDir()
	for name := range written {
		// The batch may have changed the directory, which is no layer without a driver.
		if err := os.Link(filepath.Join(n.layer, name), filepath.Join(other, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			n.t.Error(err)
		}
	}
	n.others = append(n.others, other)
}

func (n *sharers) remove(string) {
	if last := len(n.others) - 1; last >= 0 {
		if err := os.RemoveAll(n.others[last]); err != nil {
			n.t.Error(err)
		}
		n.others = n.others[:last]
	}
}

// TestLayersShareFilesDuringABatch adds and removes layers that share the files of a batch. They change the link count and the change time of
// a file that nothing has written to yet, and can change the inode number of one that was.
func TestLayersShareFilesDuringABatch(t *testing.T) {
	touch := map[string]func(dir string) error{"untouched": func(string) error { return nil }, "copied up": writeAll}
	points := pointsOf(t, writtenSteps())
	for state, touch := range touch {
		for _, more := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, more layers %v", state, more), func(t *testing.T) {
				w, layer := layeredWorld(t, writeAll)
				n := &sharers{t: t, layer: layer}
				if err := touch(w.dir); err != nil {
					t.Fatal(err)
				}
				change := n.add
				if !more {
					change = n.remove
					for range points {
						n.add("")
					}
				}
				if err := w.run(writtenSteps(), change); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestLayersDirectoryIsMovedBackWhole kills a batch while it moves a directory of the layer, which overlay-userns does in steps: the new place
// has links to all files, and the old one has lost some of them.
func TestLayersDirectoryIsMovedBackWhole(t *testing.T) {
	w, _ := layeredWorld(t, func(layer string) error {
		return errors.Join(os.MkdirAll(filepath.Join(layer, "from", "below"), 0o755), os.WriteFile(filepath.Join(layer, "from", "below", "file"), []byte("1"), 0o600),
			os.WriteFile(filepath.Join(layer, "from", "gone"), []byte("22"), 0o600), os.Symlink("gone", filepath.Join(layer, "from", "link")))
	})
	before := w.tree()
	killAt(t, "checked", func(point func(string)) error {
		return w.run([]batch.Step{{Kind: batch.Rename, Path: "from", Dest: "to"}}, point)
	})
	from, to := filepath.Join(w.dir, "from"), filepath.Join(w.dir, "to")
	err := os.MkdirAll(filepath.Join(to, "below"), 0o755)
	for _, name := range []string{"below/file", "gone", "link"} {
		err = errors.Join(err, os.Link(filepath.Join(from, name), filepath.Join(to, name)))
	}
	if err = errors.Join(err, os.Remove(filepath.Join(from, "gone"))); err != nil {
		t.Fatal(err)
	}
	if err := batch.Recover(t.Context(), w.root, w.journal); err != nil {
		t.Fatal(err)
	}
	if got := w.tree(); got != before {
		t.Errorf("the tree is\n%s, want\n%s", got, before)
	}
}
