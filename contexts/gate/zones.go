package gate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
)

// held is a directory outside of the contexts directory that a root has open.
type held struct {
	path string
	info os.FileInfo
}

// openRoot opens a context's folder, or joins its zones. dirs are the directories of direct zones.
func (t *Gates) openRoot(id catalog.ID) (root rootfs.Root, dirs []held, err error) {
	spec, err := t.cat.Spec(id)
	if err != nil {
		return nil, nil, err
	}
	if spec.Zones.Mode == zones.Direct {
		if dirs, err = t.heldDirs(spec.Zones); err != nil {
			return nil, nil, t.noZones(id, err)
		}
	}
	folder, err := t.cfg.OpenRoot(t.cat.Layout.Folder(id), t.cfg.Root)
	if err != nil {
		return nil, nil, catalog.Wrap(id, "could not be opened", err)
	}
	if spec.Zones.Mode == "" {
		return folder, nil, nil
	}
	root, err = t.cfg.Zones.Open(spec.Zones, folder, t.cfg.Root, t.bound(id))
	if err != nil {
		return nil, nil, t.noZones(id, err)
	}
	return root, dirs, nil
}

// heldDirs looks at the directories of direct zones before they are opened: one that is replaced later is noticed.
func (t *Gates) heldDirs(l zones.Layout) (dirs []held, err error) {
	for _, z := range l.Zones {
		dir, err := t.cfg.Zones.Dir(z)
		if err != nil {
			return nil, err
		}
		info, err := os.Lstat(dir)
		if err != nil {
			return nil, &fserr.Error{Code: fserr.CodeOf(err), Detail: "the directory of zone " + z.Path + " does not exist", Err: err}
		}
		dirs = append(dirs, held{dir, info})
	}
	return dirs, nil
}

// noZones logs why the zones of a context cannot be opened, and returns the error for its callers, which must not see the server's paths.
func (t *Gates) noZones(id catalog.ID, err error) error {
	t.cat.Log.Warn("the zones of a context could not be opened", zap.String("context", string(id)), zap.Error(catalog.Cause(err)))
	code := fserr.CodeOf(err)
	if code == fserr.ENOENT || code == fserr.ENOTDIR { // ENOENT would be an absent file
		code = fserr.EIO
	}
	return &fserr.Error{
		Code: code, Kind: fserr.KindContext, Detail: fmt.Sprintf("the zones of context '%s' cannot be opened", id), Err: err,
		Hint: "'ctxfs zones list " + string(id) + "' tells the host why",
	}
}

// sameDirs reports whether the directories of direct zones are still the ones that the root has open.
func (g *gate) sameDirs() bool {
	for _, d := range g.dirs {
		if now, err := os.Lstat(d.path); err != nil || !os.SameFile(now, d.info) {
			return false
		}
	}
	return true
}

// chargeTime bounds how long a write to a zone waits while the zone is measured.
const chargeTime = 5 * time.Second

// bound makes the account of a zone with a limit of its own.
func (t *Gates) bound(id catalog.ID) zones.Bound {
	return func(z zones.Zone, root rootfs.Root) func(bytes int64) error {
		a := newAccount(Quota{Bytes: z.MaxBytes}, t.cat.Now, func(ctx context.Context) (disk.Usage, error) {
			bytes, err := zones.Measure(ctx, root)
			return disk.Usage{Bytes: bytes + disk.Open(filepath.Join(t.cat.Layout.Folder(id), z.Path)).Usage().Bytes}, err
		})
		a.zone = z.Path
		return func(bytes int64) error {
			ctx, cancel := context.WithTimeout(t.life.Context, chargeTime)
			defer cancel()
			return a.charge(ctx, id, bytes, 0)
		}
	}
}
