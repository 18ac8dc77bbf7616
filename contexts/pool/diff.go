package pool

import (
	"path"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
)

// Difference says how to make a copy of one layer one of another. Paths are relative and slash-separated.
type Difference struct {
	// Removed are the topmost paths to remove.
	Removed []string
	// Copied are the paths to copy, over what is there. A directory among them is one that is new.
	Copied map[string]bool
	// Dirs are the directories that stay and are entered, or have other attributes.
	Dirs map[string]seed.Entry
}

// fileKey identifies a file: names with the same key are hard links of one file.
type fileKey struct{ dev, ino uint64 }

// Diff compares the manifests of two layers of one workspace. A file counts as the same when every
// attribute is, as for Manifest.Holds.
func Diff(old, now *seed.Manifest) Difference {
	d := Difference{Copied: map[string]bool{}, Dirs: map[string]seed.Entry{}}
	d.remove(old, now)
	changed := map[fileKey]bool{}
	for _, e := range now.Entries {
		was, ok := old.Find(e.Path)
		switch {
		case !ok || was.Type != e.Type:
			d.copied(e.Path)
		case was == e && e.Same(was):
			continue
		case e.Type == rootfs.TypeDirectory:
			d.Dirs[e.Path] = e
			continue
		default:
			d.copied(e.Path)
		}
		if e.Type == rootfs.TypeFile {
			changed[fileKey{e.Dev, e.Ino}] = true
		}
	}
	// All names of a file go together: they are links to one another in the copy as well.
	for _, e := range now.Entries {
		if e.Type == rootfs.TypeFile && changed[fileKey{e.Dev, e.Ino}] {
			d.copied(e.Path)
		}
	}
	d.enter(now)
	return d
}

// remove finds what is gone or of another type, and not below such.
func (d *Difference) remove(old, now *seed.Manifest) {
	gone := map[string]bool{}
	for _, e := range old.Entries {
		if is, ok := now.Find(e.Path); ok && is.Type == e.Type {
			continue
		}
		gone[e.Path] = true
		if !gone[path.Dir(e.Path)] {
			d.Removed = append(d.Removed, e.Path)
		}
	}
}

func (d *Difference) copied(p string) { d.Copied[p] = true }

// enter adds the directories on the way to what changes: their times change with it.
func (d *Difference) enter(now *seed.Manifest) {
	up := func(p string) {
		for p = path.Dir(p); p != "."; p = path.Dir(p) {
			if _, ok := d.Dirs[p]; ok || d.Copied[p] {
				continue
			}
			if e, ok := now.Find(p); ok {
				d.Dirs[p] = e
			}
		}
	}
	for p := range d.Copied {
		up(p)
	}
	for _, p := range d.Removed {
		up(p)
	}
	dirs := make([]string, 0, len(d.Dirs))
	for p := range d.Dirs {
		dirs = append(dirs, p)
	}
	for _, p := range dirs {
		up(p)
	}
}
