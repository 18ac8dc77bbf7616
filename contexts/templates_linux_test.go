package contexts

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// TestTemplateContextsBelongToTheOwner makes contexts as root for somebody else, by each driver.
func TestTemplateContextsBelongToTheOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("not tested here: it needs root")
	}
	owner := &rootfs.Owner{UID: 4321, GID: 4321}
	for _, d := range []driver.Driver{copyfs.New(copyfs.Options{Owner: owner}), overlay.New(overlay.Options{Owner: owner})} {
		t.Run(d.Name(), func(t *testing.T) {
			w := newTemplated(t)
			w.driver = d
			if err := d.Check(t.Context(), w.dir); err != nil {
				t.Skipf("not tested here: %v", err)
			}
			m := w.open(func(c *Config) { c.Owner = owner })
			id, hash := templateID(t, m, "a")
			ensure(t, m, id)
			w.wantTemplate(m, id, hash, "1")
			for _, p := range []string{"", "x", "x/lib/d0", "x/lib/d0/f0.txt", "main/f"} {
				for _, dir := range []string{m.cat.Layout.Folder(id), m.seeder.Layers.Tree(hash)} {
					st, err := os.Lstat(filepath.Join(dir, p))
					must(t, err)
					if sys, ok := st.Sys().(*syscall.Stat_t); !ok || sys.Uid != 4321 || sys.Gid != 4321 {
						t.Errorf("%s/%s is of %d", filepath.Base(dir), p, sys.Uid)
					}
				}
			}
			must(t, m.Close())
		})
	}
}

// TestKillTemplateSeedingOnOverlay is skipped, and says why, where overlay cannot work.
func TestKillTemplateSeedingOnOverlay(t *testing.T) {
	t.Parallel()
	w := newOverlaid(t).templated()
	w.sqlite()
	for _, phase := range []string{"built", "copied", "manifested", "renamed"} {
		w.killTemplate("at "+phase, phase)
	}
}
