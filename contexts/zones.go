package contexts

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
)

// FindZones reads the context-zones.yml in a folder of the workspace, such as the one that a panel's ID names. found is false if there is none.
func (m *Manager) FindZones(folder string) (l zones.Layout, found bool, err error) {
	return zones.Find(m.workspace, folder)
}

// CheckZoneFile fails with EACCES if a panel does not get the layout in a folder of the workspace, which FindZones returned.
func (m *Manager) CheckZoneFile(folder string, l zones.Layout) error {
	return m.zones.CheckFile(folder, l)
}

// ExplainZones checks what a layout means here: its directories are there, and allowed. It changes nothing. Errors are EINVAL, EACCES and
// ENOENT. They name the zone, and are for hosts alone.
func (m *Manager) ExplainZones(l zones.Layout) error { return m.zones.Explain(l) }

// ZoneDir returns the directory of a direct zone on the server's disk. It is for hosts alone.
func (m *Manager) ZoneDir(z zones.Zone) (string, error) { return m.zones.Dir(z) }

// MeasureZone returns the sum of the sizes of the files in a zone; "/" is the whole context.
func (m *Manager) MeasureZone(ctx context.Context, id ID, zone string) (int64, error) {
	a, err := m.Acquire(ctx, id, Read)
	if err != nil {
		return 0, err
	}
	defer a.Release()
	ctx, stop := until(ctx, a)
	defer stop()
	root, err := zoneOf(a.Root, zone)
	if err != nil {
		return 0, err
	}
	return zones.Measure(ctx, root)
}

// until returns a context that also ends when the Access has to.
func until(ctx context.Context, a *Access) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(a.Closing(), cancel)
	return ctx, func() { stop(); cancel() }
}

// zoneOf returns the root of a zone. It fails with ENOENT if there is no such zone.
func zoneOf(root rootfs.Root, zone string) (rootfs.Root, error) {
	if zone == "/" {
		return root, nil
	}
	if z, ok := root.(*rootfs.Zoned); ok {
		if r := z.Zone(strings.TrimPrefix(zone, "/")); r != nil {
			return r, nil
		}
	}
	return nil, noZone(zone)
}

func noZone(zone string) error {
	return &fserr.Error{Code: fserr.ENOENT, Detail: fmt.Sprintf("the context has no zone '%.200s'", zone), Hint: "'ctxfs zones list' lists them"}
}

// HostPath returns where a path of a context is on the server's disk. It follows links of the path's directory, and not of its last
// component, which need not exist.
func (m *Manager) HostPath(ctx context.Context, id ID, name string) (string, error) {
	spec, err := m.Spec(ctx, id)
	if err != nil {
		return "", err
	}
	a, err := m.Acquire(ctx, id, Read)
	if err != nil {
		return "", err
	}
	defer a.Release()
	virtual, err := placeOf(a.Root, name)
	if err != nil {
		return "", err
	}
	if spec.Zones.Mode != zones.Direct {
		return filepath.Join(m.cat.Layout.Folder(id), filepath.FromSlash(virtual)), nil
	}
	zone, rest, _ := strings.Cut(virtual[1:], "/")
	for _, z := range spec.Zones.Zones {
		if z.Path == "/"+zone {
			dir, err := m.zones.Dir(z)
			return filepath.Join(dir, filepath.FromSlash(rest)), err
		}
	}
	return "", &fserr.Error{Code: fserr.EOPNOTSUPP, Path: name, Detail: "'/' is no directory on the disk, its zones are direct", Hint: "name a path in one of the zones"}
}

// placeOf returns the path by which no link leads to name's last component.
func placeOf(root rootfs.Root, name string) (string, error) {
	if base := path.Base(name); strings.HasSuffix(name, "/") || base == "." || base == ".." || base == "/" {
		return root.Realpath(name)
	}
	if _, err := root.Lstat(name); err != nil && fserr.CodeOf(err) != fserr.ENOENT {
		return "", err
	}
	dir, base := path.Split(name)
	real, err := root.Realpath("/" + dir)
	if err != nil {
		return "", err
	}
	if z, ok := root.(*rootfs.Zoned); ok && real == "/" && z.Zone(base) == nil {
		return "", fserr.New("realpath", name, fserr.ENOENT)
	}
	return path.Join(real, base), nil
}

// ClearZone removes everything in a zone that is never committed, and returns how many entries it removed. It fails with ENOENT if there is
// no such zone, and with EACCES if the zone is not for that.
func (m *Manager) ClearZone(ctx context.Context, id ID, zone string) (removed int64, err error) {
	spec, err := m.Spec(ctx, id)
	if err != nil {
		return 0, err
	}
	if err := mayClear(spec.Zones, zone); err != nil {
		return 0, err
	}
	a, err := m.Acquire(ctx, id, Write)
	if err != nil {
		return 0, err
	}
	defer a.Release()
	ctx, stop := until(ctx, a)
	defer stop()
	root, err := zoneOf(a.Root, zone)
	if err != nil {
		return 0, err
	}
	a.Touch(zone, true)
	var names []string
	if err := root.Walk(ctx, "/", tree.WalkOptions{MaxDepth: 1}, func(rel string, _ rootfs.Entry, err error) error {
		names = append(names, rel)
		return err
	}); err != nil {
		return 0, err
	}
	for _, name := range names {
		n, err := root.RemoveAll(ctx, name)
		removed += n
		if err != nil && fserr.CodeOf(err) != fserr.ENOENT {
			return removed, fserr.Wrap(err, "rm", path.Join(zone, name), "")
		}
	}
	return removed, nil
}

// mayClear checks whether a zone may be emptied.
func mayClear(l zones.Layout, zone string) error {
	for _, z := range l.Zones {
		switch {
		case z.Path != zone:
		case z.ReadOnly:
			return &fserr.Error{Code: fserr.EACCES, Detail: "zone " + zone + " is read-only"}
		case !z.NeverCommit:
			return &fserr.Error{Code: fserr.EACCES, Detail: "zone " + zone + " has files that can be committed", Hint: "remove what is not needed by its path; only zones with commit: never are cleared as a whole"}
		default:
			return nil
		}
	}
	return noZone(zone)
}
