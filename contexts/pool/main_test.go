package pool

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPutTakesAFreeName(t *testing.T) {
	dir, made := t.TempDir(), t.TempDir()
	p := New(dir, layer.New(t.TempDir(), nil), nil)
	for i, name := range []string{"aa-0", "aa-1", "aa-2"} {
		folder := filepath.Join(made, "folder")
		for _, d := range []string{folder, filepath.Join(folder, "d")} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Put(folder, "aa"); err != nil {
			t.Fatal(err)
		}
		all, err := p.List()
		if err != nil || len(all) != i+1 || all[i] != (Copy{Name: name, Layer: "aa"}) {
			t.Errorf("the pool holds %v, %v", all, err)
		}
	}
	if err := p.Put(filepath.Join(made, "missing"), "bb"); err == nil {
		t.Error("nothing was put there")
	}
	if err := p.Remove(t.Context(), "aa-1", filepath.Join(made, "staged")); err != nil {
		t.Error(err)
	}
	if err := p.Remove(t.Context(), "aa-1", filepath.Join(made, "staged")); err != nil {
		t.Errorf("what is gone: %v", err)
	}
	if others, err := p.Others("bb"); err != nil || len(others) != 2 {
		t.Errorf("left are %v, %v", others, err)
	}
}

// TestDoubtfulFilesAreCopiedAgain: two layers may have different content of a file whose attributes are the same.
func TestDoubtfulFilesAreCopiedAgain(t *testing.T) {
	now := time.Now()
	sure := seed.Entry{Path: "sure", Type: rootfs.TypeFile, Ino: 1, CtimeNs: now.Add(-time.Hour).UnixNano()}
	doubt := seed.Entry{Path: "doubt", Type: rootfs.TypeFile, Ino: 2, CtimeNs: now.UnixNano()}.Doubtful(now, now)
	m := seed.NewManifest(nil, []seed.Entry{doubt, sure})
	if d := Diff(m, m); !d.Copied["doubt"] || d.Copied["sure"] || len(d.Removed) != 0 {
		t.Errorf("the difference is %+v", d)
	}
}
