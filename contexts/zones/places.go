package zones

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// contextsName is the usual name of a contexts directory. Direct zones never show it, since another workspace may be below them.
const contextsName = ".contexts"

// Places says where direct zones may be. All paths are absolute, with links resolved.
type Places struct {
	// Workspace is the workspace's folder, Contexts the contexts directory.
	Workspace, Contexts string
	// Dirs are further directories (--zone-dir).
	Dirs []string
	// TrustFiles says that files of the workspace may give panels direct zones (--trust-zone-files).
	TrustFiles bool
}

// NewPlaces resolves the links of directories. It fails if one of dirs is no directory.
func NewPlaces(workspace, contexts string, dirs []string) (Places, error) {
	p := Places{Workspace: workspace}
	var err error
	if p.Contexts, err = filepath.EvalSymlinks(contexts); err != nil {
		return p, fmt.Errorf("resolve the contexts directory: %w", err)
	}
	for _, dir := range dirs {
		real, err := filepath.Abs(dir)
		if err == nil {
			real, err = filepath.EvalSymlinks(real)
		}
		if err != nil {
			return p, fmt.Errorf("zone directory %s cannot be used: %w", dir, err)
		}
		if st, err := os.Stat(real); err != nil || !st.IsDir() {
			return p, fmt.Errorf("zone directory %s is not a directory", dir)
		}
		p.Dirs = append(p.Dirs, real)
	}
	return p, nil
}

// CheckFile fails with EACCES if a layout that a file of the workspace has is not for a panel: it is direct, and files are not trusted. A cloned
// repository has such files, and panels' changes add some. folder is the file's.
func (p Places) CheckFile(folder string, l Layout) error {
	if l.Mode != Direct || p.TrustFiles {
		return nil
	}
	name := path.Join(folder, FileName)
	return &fserr.Error{
		Code: fserr.EACCES, Detail: name + " asks for direct zones, and files of the workspace may not give them to a panel",
		Hint: fmt.Sprintf("if you trust the panel with these directories, open it with zones of yours ('ctxfs panel open --zones %s'), or start the server with --trust-zone-files", name),
	}
}

// place is where the directory of a direct zone is: below, at rel.
type place struct{ below, rel string }

func (p place) path() string { return filepath.Join(p.below, p.rel) }

// Dir returns the directory of a direct zone on the server's disk. It does not look whether it exists.
func (p Places) Dir(z Zone) (string, error) {
	at, err := p.find(z)
	return at.path(), err
}

// find checks a direct zone's directory by its name. It fails with EACCES for one that is not allowed.
func (p Places) find(z Zone) (at place, err error) {
	dir := filepath.Clean(z.Dir)
	if !filepath.IsAbs(dir) {
		at = place{p.Workspace, dir}
		if !filepath.IsLocal(dir) {
			return at, refused(z, "leads out of the workspace", "name a directory of the workspace, or one below --zone-dir")
		}
	} else if at, err = p.absolute(z, dir); err != nil {
		return at, err
	}
	for name := range strings.SplitSeq(filepath.ToSlash(at.rel), "/") {
		if git.IsDotGit(name) || isContexts(name) {
			return at, refused(z, "is not for panels", "git and ctxfs keep their own data there")
		}
	}
	contexts, ok := strings.CutPrefix(fold(p.Contexts)+"/", fold(at.path())+"/")
	switch {
	case strings.HasPrefix(fold(at.path())+"/", fold(p.Contexts)+"/"):
		return at, refused(z, "is in the contexts directory", "choose another directory")
	case ok && strings.Contains(strings.TrimSuffix(contexts, "/"), "/"):
		return at, refused(z, "has the contexts directory somewhere below it, which the panel could move", "choose a directory that does not have it, or start the server with another --contexts-dir")
	}
	return at, nil
}

// absolute finds the workspace or zone directory that dir is below.
func (p Places) absolute(z Zone, dir string) (place, error) {
	for _, below := range append([]string{p.Workspace}, p.Dirs...) {
		if rel, err := filepath.Rel(below, dir); err == nil && filepath.IsLocal(rel) {
			return place{below, rel}, nil
		}
	}
	return place{}, refused(z, "is neither in the workspace nor below a directory for zones", "start the server with --zone-dir, or choose a directory of the workspace")
}

func fold(path string) string { return strings.ToLower(strings.TrimSuffix(path, "/")) }

func isContexts(name string) bool {
	folded := git.FoldName(name)
	return folded == contextsName || strings.HasPrefix(folded, "contex~")
}

// barred returns the names that the zone at a place does not show.
func (p Places) barred(at place) func(name string) bool {
	own := ""
	if filepath.Dir(p.Contexts) == at.path() {
		own = git.FoldName(filepath.Base(p.Contexts))
	}
	return func(name string) bool {
		return git.IsDotGit(name) || isContexts(name) || own != "" && git.FoldName(name) == own
	}
}

// refused is the error of a directory that a zone must not have.
func refused(z Zone, why, hint string) error {
	return &fserr.Error{Code: fserr.EACCES, Detail: "zone " + z.Path + ": " + z.directory() + " " + why, Hint: hint}
}

// directory names the zone's directory in a message, which may reach a panel: no path of the server.
func (z Zone) directory() string {
	if filepath.IsAbs(z.Dir) {
		return "its directory"
	}
	return fmt.Sprintf("its directory %.200q", z.Dir)
}

var errReadOnly = &fserr.Error{Code: fserr.EROFS, Hint: "this zone is read-only"}

var errBeside = &fserr.Error{Code: fserr.EACCES, Detail: "permission denied, the zones of a context are fixed", Hint: "use a directory in one of them"}

var errNoCommands = &fserr.Error{
	Code: fserr.EOPNOTSUPP, Detail: "commands do not see the zones of this context",
	Hint: "direct and read-only zones have no folder that a command can be confined to; use a context with sandboxed zones that can be written",
}

// Bound returns what is called before content is written to a zone with MaxBytes.
type Bound func(z Zone, root rootfs.Root) (charge func(bytes int64) error)

// Open joins the zones of a layout to one root. folder is the context's own, which Open takes over. opts are the context's. A zone with
// MaxBytes is bounded by bound; nil bounds none.
func (p Places) Open(l Layout, folder rootfs.Root, opts rootfs.Options, bound Bound) (_ rootfs.Root, err error) {
	var zones []rootfs.ZoneRoot
	defer func() {
		if err == nil {
			return
		}
		for _, z := range zones {
			err = errors.Join(err, z.Root.Close())
		}
	}()
	defer func() { err = errors.Join(err, folder.Close()) }()
	if err := p.checkApart(l); err != nil {
		return nil, err
	}
	opts.Zone = true
	for _, z := range l.Zones {
		root, err := p.openZone(l, z, folder, opts, bound)
		if err != nil {
			return nil, err
		}
		zones = append(zones, rootfs.ZoneRoot{Name: z.Path[1:], Root: root})
	}
	opts.Zone, opts.Refuse = false, errBeside
	base, err := rootfs.OpenZone(folder, ".", opts)
	if err != nil {
		return nil, err
	}
	return rootfs.NewZoned(base, zones, l.commands(), p.anyBarred(l)), nil
}

// commands is why commands cannot run in such a context, or nil.
func (l Layout) commands() error {
	for _, z := range l.Zones {
		if l.Mode == Direct || z.ReadOnly {
			return errNoCommands
		}
	}
	return nil
}

// anyBarred returns the names that no watch reports, nil if there are none.
func (p Places) anyBarred(l Layout) func(name string) bool {
	if l.Mode != Direct {
		return nil
	}
	return p.barred(place{below: filepath.Dir(p.Contexts)})
}

func (p Places) openZone(l Layout, z Zone, folder rootfs.Root, opts rootfs.Options, bound Bound) (root rootfs.Root, err error) {
	if z.ReadOnly {
		opts.Refuse = errReadOnly
	}
	var charge func(bytes int64) error
	if z.MaxBytes > 0 && bound != nil {
		opts.Charge = func(bytes int64) error { return charge(bytes) }
	}
	if l.Mode == Direct {
		root, err = p.openDirect(z, opts)
	} else {
		root, err = openSandboxed(z, folder, opts)
	}
	if err == nil && opts.Charge != nil {
		charge = bound(z, root)
	}
	return root, err
}

// openSandboxed opens a directory of the context's folder, which it makes if need be.
func openSandboxed(z Zone, folder rootfs.Root, opts rootfs.Options) (rootfs.Root, error) {
	root, err := rootfs.OpenZone(folder, z.Path, opts)
	if fserr.CodeOf(err) == fserr.ENOENT {
		if err = folder.Mkdir(z.Path, 0o755); err == nil || fserr.CodeOf(err) == fserr.EEXIST {
			root, err = rootfs.OpenZone(folder, z.Path, opts)
		}
	}
	if code := fserr.CodeOf(err); code == fserr.ELOOP || code == fserr.ENOTDIR {
		err = &fserr.Error{Code: fserr.EIO, Detail: "zone " + z.Path + " is no directory any more", Hint: "restore a snapshot, or delete the context", Err: err}
	}
	return root, err
}

// openDirect opens the directory of a direct zone.
func (p Places) openDirect(z Zone, opts rootfs.Options) (rootfs.Root, error) {
	at, err := p.find(z)
	if err != nil {
		return nil, err
	}
	below, err := rootfs.Open(at.below, rootfs.Options{FollowMounts: true, Implementation: opts.Implementation})
	if err != nil {
		return nil, notThere(z, err)
	}
	defer func() { _ = below.Close() }() // it was only passed through
	opts.Barred = p.barred(at)
	root, err := rootfs.OpenZone(below, filepath.ToSlash(at.rel), opts)
	if err != nil {
		return nil, notThere(z, err)
	}
	if err := p.usable(z, root); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func notThere(z Zone, err error) error {
	code, text, _ := fserr.Parts(err)
	switch code {
	case fserr.ELOOP:
		return refused(z, "is behind a symbolic link", "name the directory that the link leads to")
	case fserr.EOPNOTSUPP:
		return err
	}
	return &fserr.Error{Code: code, Detail: fmt.Sprintf("zone %s: %s cannot be opened: %s", z.Path, z.directory(), text), Hint: "make the directory", Err: err}
}

// usable refuses a directory that is the contexts directory by another name, or a repository's own.
func (p Places) usable(z Zone, root rootfs.Root) error {
	st, err := root.Stat("/")
	if err != nil {
		return err
	}
	if contexts, err := rootfs.Open(p.Contexts, rootfs.Options{}); err == nil {
		own, err := contexts.Stat("/")
		_ = contexts.Close() // it was only looked at
		if err == nil && own.ID() == st.ID() {
			return refused(z, "is the contexts directory", "choose another directory")
		}
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := root.Lstat(name); err != nil {
			return nil //nolint:nilerr // it is no repository's own directory
		}
	}
	return refused(z, "is a git repository's own directory: what is written there runs as you", "choose a directory of a working tree")
}

// checkApart fails with EINVAL if the directory of a direct zone is, or is in, that of another one: the rules of one zone would not hold for
// what is written through the other. No link leads to these directories, so their paths say it.
func (p Places) checkApart(l Layout) error {
	if l.Mode != Direct {
		return nil
	}
	dirs := make([]string, len(l.Zones))
	for i, z := range l.Zones {
		at, err := p.find(z)
		if err != nil {
			return err
		}
		dirs[i] = fold(filepath.ToSlash(at.path())) + "/"
		for j, other := range l.Zones[:i] {
			if strings.HasPrefix(dirs[i], dirs[j]) || strings.HasPrefix(dirs[j], dirs[i]) {
				return &fserr.Error{
					Code: fserr.EINVAL, Detail: "zones " + other.Path + " and " + z.Path + ": " + other.directory() + " and " + z.directory() + " overlap",
					Hint: "choose directories of which none is in another one: a read-only zone would be writable through the other one",
				}
			}
		}
	}
	return nil
}

// Explain checks a layout as Open would, and changes nothing.
func (p Places) Explain(l Layout) error {
	if err := l.Check(); err != nil {
		return err
	}
	if l.Mode != Direct {
		return nil
	}
	for _, z := range l.Zones {
		root, err := p.openDirect(z, rootfs.Options{Zone: true})
		if err == nil {
			err = root.Close()
		}
		if err != nil {
			return err
		}
	}
	return p.checkApart(l)
}

// Measure returns the sum of the sizes of the files in a zone.
func Measure(ctx context.Context, zone rootfs.Root) (bytes int64, err error) {
	err = zone.Walk(ctx, "/", tree.WalkOptions{Stats: true, Deep: true, All: true}, func(_ string, e rootfs.Entry, err error) error {
		if err == nil && e.Stat != nil && e.Type == rootfs.TypeFile {
			bytes += e.Stat.Size
		}
		return nil // what cannot be read is not counted
	})
	return bytes, err
}
