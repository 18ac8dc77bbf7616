package rootfs

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
)

// ZoneRoot is a directory of a Zoned.
type ZoneRoot struct {
	// Name is one component.
	Name string
	// Root was opened with Options.Zone.
	Root Root
}

// Zoned is a Root that consists of other roots: "/" lists the zones and nothing else, and cannot be changed. A zone cannot be left by any
// path or link but through "/": ".." of a zone's directory is "/", and absolute links begin there. Rename and link across zones fail with
// EXDEV.
type Zoned struct {
	// base is the directory whose attributes "/" has. Its options refuse changes.
	base  Root
	zones []ZoneRoot
	// inside is why Descriptor fails; nil if the zones are directories of base.
	inside error
	barred func(name string) bool
}

var _ Root = (*Zoned)(nil)

// errZones is the error where zones cannot be made.
var errZones = &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "zones need a server on Linux"}

// NewZoned joins zones. base must refuse changes; only its attributes show. noDescriptor is the error of Descriptor, nil if base has the
// zones as directories. barred are the names that no watch reports, or nil. Closing the Zoned closes all roots.
func NewZoned(base Root, zones []ZoneRoot, noDescriptor error, barred func(name string) bool) *Zoned {
	return &Zoned{base: base, zones: zones, inside: noDescriptor, barred: barred}
}

// Zone returns the root of a zone, or nil. It must not be closed.
func (z *Zoned) Zone(name string) Root {
	for _, zone := range z.zones {
		if zone.Name == name {
			return zone.Root
		}
	}
	return nil
}

// Close closes all roots.
func (z *Zoned) Close() error {
	errs := []error{z.base.Close()}
	for _, zone := range z.zones {
		errs = append(errs, zone.Root.Close())
	}
	return errors.Join(errs...)
}

// split returns the zone of a path and the path in it. name is "" for "/" itself; zone is nil for a name that is no zone, and for "/".
func (z *Zoned) split(path string) (zone Root, name, rel string, err error) {
	if err := node.CheckPath(path); err != nil {
		return nil, "", "", err
	}
	for rest := path; ; {
		rest = strings.TrimLeft(rest, "/")
		name, after, _ := strings.Cut(rest, "/")
		switch name {
		case "":
			return nil, "", "/", nil
		case ".":
			rest = after
			continue
		case "..":
			return nil, "", "", node.ErrOutside
		}
		if len(name) > MaxName {
			return nil, "", "", fserr.ENAMETOOLONG
		}
		return z.Zone(name), name, "/" + after, nil
	}
}

// maxHops bounds how often links of one path lead from zone to zone.
const maxHops = 40

// outside is the error of a path that is in no zone. creating says that the caller would create the path itself.
func (z *Zoned) outside(rel string, creating bool) error {
	e := &fserr.Error{Code: fserr.ENOENT, Hint: "this context has the zones " + z.names()}
	if creating && strings.Trim(rel, "/") == "" {
		e.Code, e.Detail = fserr.EACCES, "permission denied, nothing can be created beside the zones"
	}
	return e
}

func (z *Zoned) names() string {
	names := make([]string, len(z.zones))
	for i, zone := range z.zones {
		names[i] = "/" + zone.Name
	}
	return strings.Join(names, ", ")
}

// in calls f with the root and the path in it that path leads to. For "/" that is base. Errors name op and path.
func in[T any](z *Zoned, op, path string, creating bool, f func(r Root, name, rel string) (T, error)) (T, error) {
	var none T
	at := path
	for range maxHops {
		zone, name, rel, err := z.split(at)
		switch {
		case err != nil:
			return none, fserr.Wrap(err, op, path, "")
		case name == "":
			zone = z.base
		case zone == nil:
			return none, fserr.Wrap(z.outside(rel, creating), op, path, "")
		}
		v, err := f(zone, name, rel)
		if l := (*node.Leaving)(nil); errors.As(err, &l) {
			at = l.Rest
			continue
		}
		if err != nil {
			err = fserr.Wrap(err, op, path, "")
		}
		return v, err
	}
	return none, fserr.New(op, path, fserr.ELOOP)
}

// do is in for an operation that only fails or not.
func (z *Zoned) do(op, path string, creating bool, f func(r Root, rel string) error) error {
	_, err := in(z, op, path, creating, func(r Root, _, rel string) (struct{}, error) { return struct{}{}, f(r, rel) })
	return err
}

// OpenFile opens path.
func (z *Zoned) OpenFile(path string, flags Flags, mode uint32) (File, error) {
	return in(z, "open", path, flags&O_CREAT != 0, func(r Root, _, rel string) (File, error) { return r.OpenFile(rel, flags, mode) })
}

// opened is a file and its attributes.
type opened struct {
	f  File
	st Stat
}

// OpenStat opens path.
func (z *Zoned) OpenStat(path string, flags Flags) (File, Stat, error) {
	o, err := in(z, "open", path, false, func(r Root, _, rel string) (o opened, err error) {
		o.f, o.st, err = r.OpenStat(rel, flags)
		return o, err
	})
	return o.f, o.st, err
}

// OpenNoFollow opens path.
func (z *Zoned) OpenNoFollow(path string, flags Flags) (File, Stat, error) {
	o, err := in(z, "open", path, false, func(r Root, _, rel string) (o opened, err error) {
		o.f, o.st, err = r.OpenNoFollow(rel, flags)
		return o, err
	})
	return o.f, o.st, err
}

// CreateAtomic begins a file at path.
func (z *Zoned) CreateAtomic(path string, mode uint32, exclusive bool) (AtomicFile, error) {
	return in(z, "open", path, true, func(r Root, _, rel string) (AtomicFile, error) { return r.CreateAtomic(rel, mode, exclusive) })
}

// OpenDir opens path for listing.
func (z *Zoned) OpenDir(path string) (Dir, error) {
	return in(z, "scandir", path, false, func(r Root, name, rel string) (Dir, error) {
		if name == "" {
			return &zoneDir{z: z}, nil
		}
		return r.OpenDir(rel)
	})
}

// Stat follows a final link.
func (z *Zoned) Stat(path string) (Stat, error) {
	return in(z, "stat", path, false, func(r Root, _, rel string) (Stat, error) { return r.Stat(rel) })
}

// Lstat does not.
func (z *Zoned) Lstat(path string) (Stat, error) {
	return in(z, "lstat", path, false, func(r Root, _, rel string) (Stat, error) { return r.Lstat(rel) })
}

// Statfs describes path's file system.
func (z *Zoned) Statfs(path string) (Statfs, error) {
	return in(z, "statfs", path, false, func(r Root, _, rel string) (Statfs, error) { return r.Statfs(rel) })
}

// Access checks path for mode.
func (z *Zoned) Access(path string, mode uint32) error {
	return z.do("access", path, false, func(r Root, rel string) error { return r.Access(rel, mode) })
}

// Realpath returns where path leads.
func (z *Zoned) Realpath(path string) (string, error) {
	return in(z, "realpath", path, false, func(r Root, name, rel string) (string, error) {
		real, err := r.Realpath(rel)
		if err != nil || name == "" {
			return real, err
		}
		return strings.TrimSuffix("/"+name+real, "/"), nil
	})
}

// Readlink returns the target of the link path.
func (z *Zoned) Readlink(path string) (string, error) {
	return in(z, "readlink", path, false, func(r Root, _, rel string) (string, error) { return r.Readlink(rel) })
}

// Mkdir makes one directory.
func (z *Zoned) Mkdir(path string, mode uint32) error {
	return z.do("mkdir", path, true, func(r Root, rel string) error { return r.Mkdir(rel, mode) })
}

// MkdirAll makes path and missing parents, each by its own path, since a link may lead to another zone.
func (z *Zoned) MkdirAll(path string, mode uint32) (first string, err error) {
	if err := node.CheckPath(path); err != nil {
		return "", fserr.Wrap(err, "mkdir", path, "")
	}
	names := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	for i := range names {
		made, err := z.ensure("/"+strings.Join(names[:i+1], "/"), i == len(names)-1, mode)
		if err != nil {
			return first, fserr.Wrap(err, "mkdir", path, "")
		}
		if first == "" {
			first = made
		}
	}
	return first, nil
}

// ensure makes the directory path unless it exists, and returns the virtual path of what it made.
func (z *Zoned) ensure(path string, last bool, mode uint32) (made string, err error) {
	st, err := z.Stat(path)
	switch {
	case err == nil && st.IsDir():
		return "", nil
	case err == nil && last:
		return "", fserr.EEXIST
	case err == nil:
		return "", fserr.ENOTDIR
	case fserr.CodeOf(err) != fserr.ENOENT:
		return "", err
	}
	switch err := z.Mkdir(path, mode); {
	case err == nil:
		return z.Realpath(path)
	case fserr.CodeOf(err) != fserr.EEXIST:
		return "", err
	}
	// Another caller was faster, or there is a dangling link.
	if st, err = z.Stat(path); err == nil && !st.IsDir() {
		err = fserr.EEXIST
	}
	return "", err
}

// Symlink stores target at path.
func (z *Zoned) Symlink(target, path string) error {
	return z.do("symlink", path, true, func(r Root, rel string) error { return r.Symlink(target, rel) })
}

// Link makes newpath another name of oldpath.
func (z *Zoned) Link(oldpath, newpath string) error {
	return z.both("link", oldpath, newpath, func(r Root, from, to string) error { return r.Link(from, to) })
}

// Rename moves oldpath to newpath.
func (z *Zoned) Rename(oldpath, newpath string) error {
	return z.both("rename", oldpath, newpath, func(r Root, from, to string) error { return r.Rename(from, to) })
}

// settle resolves what of a path's directory leads to another zone.
func (z *Zoned) settle(op, path string, creating bool) (zone Root, rel string, err error) {
	err = z.do(op, path, creating, func(r Root, in string) error {
		zone, rel = r, in
		trimmed := strings.TrimRight(in, "/")
		dir := trimmed[:strings.LastIndexByte(trimmed, '/')+1]
		if dir == "" {
			return nil
		}
		_, err := r.Stat(dir)
		var l *node.Leaving
		if errors.As(err, &l) {
			return &node.Leaving{Rest: strings.TrimSuffix(l.Rest, "/") + in[len(dir)-1:]}
		}
		return err
	})
	return zone, rel, err
}

// both calls change with two paths of one zone. Paths of two zones are EXDEV.
func (z *Zoned) both(op, oldpath, newpath string, change func(r Root, from, to string) error) error {
	err := func() error {
		for range maxHops {
			from, oldRel, err := z.settle(op, oldpath, false)
			if err != nil {
				return err
			}
			if _, err := from.Lstat(oldRel); err != nil && !isLeaving(err) {
				return err
			}
			to, newRel, err := z.settle(op, newpath, true)
			if err != nil {
				return err
			}
			if from != to {
				return &fserr.Error{Code: fserr.EXDEV, Hint: "the paths are in two zones: copy, then remove"}
			}
			if err = change(from, oldRel, newRel); !isLeaving(err) {
				return err
			}
		}
		return fserr.ELOOP
	}()
	return fserr.Wrap(err, op, oldpath, newpath)
}

func isLeaving(err error) bool {
	var l *node.Leaving
	return errors.As(err, &l)
}

// Unlink removes a name of a file or link.
func (z *Zoned) Unlink(path string) error {
	return z.do("unlink", path, false, func(r Root, rel string) error { return r.Unlink(rel) })
}

// Rmdir removes an empty directory.
func (z *Zoned) Rmdir(path string) error {
	return z.do("rmdir", path, false, func(r Root, rel string) error { return r.Rmdir(rel) })
}

// Chmod sets the permission bits.
func (z *Zoned) Chmod(path string, mode uint32) error {
	return z.do("chmod", path, false, func(r Root, rel string) error { return r.Chmod(rel, mode) })
}

// Chown sets owner and group.
func (z *Zoned) Chown(path string, uid, gid int64, follow bool) error {
	return z.do("chown", path, false, func(r Root, rel string) error { return r.Chown(rel, uid, gid, follow) })
}

// Utimes sets access and modification time.
func (z *Zoned) Utimes(path string, atimeNs, mtimeNs int64, follow bool) error {
	return z.do("utime", path, false, func(r Root, rel string) error { return r.Utimes(rel, atimeNs, mtimeNs, follow) })
}

// Walk lists what is below dir.
func (z *Zoned) Walk(ctx context.Context, dir string, opts tree.WalkOptions, fn tree.WalkFunc) error {
	return tree.Walk(ctx, z, dir, opts, fn)
}

// RemoveAll removes path and what is below it. A zone itself is EBUSY.
func (z *Zoned) RemoveAll(ctx context.Context, path string) (int64, error) {
	return in(z, "rm", path, false, func(r Root, _, rel string) (int64, error) {
		if strings.Trim(rel, "/") == "" {
			return 0, fserr.EBUSY
		}
		return r.RemoveAll(ctx, rel)
	})
}

// Watch reports changes of path.
func (z *Zoned) Watch(path string, opts watch.Options) (watch.Watcher, error) {
	opts.Barred = z.barred
	return watch.Start(z, path, opts)
}

// Lookups begins a run of questions.
func (z *Zoned) Lookups() Lookups { return &zonedLookups{Zoned: z, of: map[Root]Lookups{}} }

// zonedLookups has Lookups of each zone that was asked.
type zonedLookups struct {
	*Zoned
	of map[Root]Lookups
}

func (l *zonedLookups) at(r Root) Lookups {
	if l.of[r] == nil {
		l.of[r] = r.Lookups()
	}
	return l.of[r]
}

// Stat follows a final link.
func (l *zonedLookups) Stat(path string) (Stat, error) {
	return in(l.Zoned, "stat", path, false, func(r Root, _, rel string) (Stat, error) { return l.at(r).Stat(rel) })
}

// Lstat does not.
func (l *zonedLookups) Lstat(path string) (Stat, error) {
	return in(l.Zoned, "lstat", path, false, func(r Root, _, rel string) (Stat, error) { return l.at(r).Lstat(rel) })
}

// Close closes what is open.
func (l *zonedLookups) Close() {
	for _, of := range l.of {
		of.Close()
	}
}

// entries lists the zones.
func (z *Zoned) entries(stats bool) ([]Entry, error) {
	var out []Entry
	for _, zone := range z.zones {
		e := Entry{Name: zone.Name, Type: TypeDirectory}
		if stats {
			st, err := zone.Root.Stat("/")
			if err != nil {
				return nil, err
			}
			e.Stat = &st
		}
		out = append(out, e)
	}
	return out, nil
}

// zoneDir is "/" opened for listing.
type zoneDir struct {
	z    *Zoned
	mu   sync.Mutex
	done int
}

func (d *zoneDir) Next(n int, stats bool) ([]Entry, error) {
	if n <= 0 {
		return nil, fserr.New("scandir", "", fserr.EINVAL)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all, err := d.z.entries(stats)
	if err != nil {
		return nil, fserr.Wrap(err, "scandir", "", "")
	}
	rest := all[d.done:]
	if len(rest) == 0 {
		return nil, io.EOF
	}
	rest = rest[:min(n, len(rest))]
	d.done += len(rest)
	return rest, nil
}

func (d *zoneDir) Close() error { return nil }

// nodesOf returns the access to a root's directories, which every implementation has.
func nodesOf(r Root) (tree.Nodes, error) {
	n, ok := r.(tree.Nodes)
	if !ok {
		return nil, errZones
	}
	return n, nil
}

// Node implements tree.Nodes.
func (z *Zoned) Node(path string, follow bool) (node.Node, error) {
	return in(z, "open", path, false, func(r Root, name, rel string) (node.Node, error) {
		n, err := nodesOf(r)
		if err != nil {
			return nil, err
		}
		at, err := n.Node(rel, follow)
		if err != nil || name != "" {
			return at, err
		}
		return &zonesNode{Node: at, z: z}, nil
	})
}

// parent is what Parent returns.
type parent struct {
	dir   node.Node
	base  string
	slash bool
}

// Parent implements tree.Nodes.
func (z *Zoned) Parent(path string) (dir node.Node, base string, slash bool, err error) {
	p, err := in(z, "open", path, true, func(r Root, name, rel string) (p parent, err error) {
		if strings.Trim(rel, "/") == "" {
			p.base = name
			p.dir, err = z.Node("/", false)
			return p, err
		}
		n, err := nodesOf(r)
		if err != nil {
			return p, err
		}
		p.dir, p.base, p.slash, err = n.Parent(rel)
		return p, err
	})
	return p.dir, p.base, p.slash, err
}

// zonesNode is "/" as a directory: base's, which refuses changes, with the zones as its only entries.
type zonesNode struct {
	node.Node
	z *Zoned
}

func (n *zonesNode) Entries(node.Listing) ([]Entry, error) { return n.z.entries(true) }

func (n *zonesNode) Reserved() ([]string, error) { return nil, nil }

func (n *zonesNode) Lstat(name string) (Stat, error) {
	if name == "" {
		return n.Node.Lstat("")
	}
	return n.z.Lstat("/" + name)
}

func (n *zonesNode) OpenDir(name string) (node.Node, error) { return n.z.Node("/"+name, false) }

func (n *zonesNode) Up() (node.Node, error) { return nil, fserr.EOPNOTSUPP }

func (n *zonesNode) OpenFile(name string, flags Flags, mode uint32) (File, error) {
	return n.z.OpenFile("/"+name, flags|O_NOFOLLOW, mode)
}

func (n *zonesNode) Mkdir(name string, mode uint32) error { return n.z.Mkdir("/"+name, mode) }

func (n *zonesNode) Readlink(name string) (string, error) { return n.z.Readlink("/" + name) }
