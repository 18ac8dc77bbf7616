package rootfs

import (
	"path/filepath"

	"github.com/ctxfs/ctxfs/fserr"
)

// Stat implements Inspector.
func (r *osRoot) Stat(path string) (Stat, error) { return r.stat(path, true) }

// Lstat implements Inspector.
func (r *osRoot) Lstat(path string) (Stat, error) { return r.stat(path, false) }

func (r *osRoot) stat(path string, follow bool) (st Stat, err error) {
	err = r.existing(path, follow, func(p osPos) (err error) {
		st, err = p.dir.lstat(p.base)
		return err
	})
	return st, err
}

// Statfs implements Inspector.
func (r *osRoot) Statfs(path string) (st Statfs, err error) {
	err = r.existing(path, true, func(p osPos) (err error) {
		st, err = osStatfs(p.dir)
		return err
	})
	return st, err
}

// Access implements Inspector.
func (r *osRoot) Access(path string, mode uint32) error {
	if mode > 7 {
		return osError(fserr.EINVAL)
	}
	return r.existing(path, true, func(p osPos) error { return osAccess(p.dir, p.name(), mode) })
}

// Realpath implements Inspector.
func (r *osRoot) Realpath(path string) (resolved string, err error) {
	err = r.existing(path, true, func(p osPos) error {
		resolved = p.virtual()
		return nil
	})
	return resolved, err
}

// virtual is the position's path from the root, by the names walked through.
func (p osPos) virtual() string {
	return filepath.ToSlash(filepath.Join(string(filepath.Separator), p.dir.rel, p.base))
}

// Readlink implements Inspector.
func (r *osRoot) Readlink(path string) (target string, err error) {
	err = r.existing(path, false, func(p osPos) (err error) {
		if !p.isLink() {
			return fserr.EINVAL
		}
		target, err = p.dir.readlink(p.base)
		return err
	})
	return target, err
}

// Chmod implements Attributes.
func (r *osRoot) Chmod(path string, mode uint32) error {
	return r.existing(path, true, func(p osPos) error { return p.dir.chmod(p.base, mode) })
}

// Chown implements Attributes.
func (r *osRoot) Chown(path string, uid, gid int64, follow bool) error {
	return r.existing(path, follow, func(p osPos) error { return p.dir.chown(p.base, uid, gid) })
}

// Utimes implements Attributes.
func (r *osRoot) Utimes(path string, atimeNs, mtimeNs int64, follow bool) error {
	return r.existing(path, follow, func(p osPos) error { return p.dir.utimes(p.base, atimeNs, mtimeNs) })
}

// Lookups begins a run of questions.
func (r *osRoot) Lookups() Lookups { return osLookups{r} }

// osLookups holds nothing.
type osLookups struct{ *osRoot }

// Close has nothing to let go of. It leaves the root open.
func (osLookups) Close() {}
