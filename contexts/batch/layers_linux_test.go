package batch_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

func TestOnOverlays(t *testing.T) { overlaytest.Run(t, "^TestLayers") }

// layeredWorld has the files of written, in a context in the layer. It returns the directory that has them.
func layeredWorld(t *testing.T) (w world, layer string) {
	t.Helper()
	w = world{journal: t.TempDir()}
	w.dir = overlaytest.Dir(t, func(dir string) {
		layer = dir
		for name, text := range written {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
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
	touch := map[string]func(dir string) error{
		"untouched": func(string) error { return nil },
		"copied up": func(dir string) (err error) {
			for name, text := range written {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			return err
		},
	}
	points := pointsOf(t, writtenSteps())
	for state, touch := range touch {
		for _, more := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, more layers %v", state, more), func(t *testing.T) {
				w, layer := layeredWorld(t)
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
