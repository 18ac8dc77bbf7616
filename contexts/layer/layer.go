// Package layer owns the layers: immutable copies of the live workspace from
// which contexts are made. A layer is a directory
//
//	<layers>/<digest>/{tree/,manifest}
//
// whose name is the SHA-256 of its manifest. It is made in staging and renamed,
// so one that has its name is complete. Nothing in a layer's tree is ever
// changed, its modes included. A file "stale" beside the manifest says that the
// workspace moved while it was copied: contexts already made from it are whole,
// no further one is made.
//
// The directory also holds the layers of templates, which package template makes. Such a layer is never the
// current one, and Collect leaves it alone.
package layer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Names within a layer's directory.
const (
	treeName = "tree"
	// ManifestName is the manifest's.
	ManifestName = "manifest"
	staleName    = "stale"
)

// digestLength is the length of a layer's name: SHA-256 in hex.
const digestLength = 64

// Layer is a complete layer.
type Layer struct {
	// Digest names it.
	Digest string
	// Dir, Tree and ManifestFile are server paths.
	Dir, Tree, ManifestFile string
	Manifest                *seed.Manifest
	// Unstable lists files that kept changing while they were copied.
	Unstable []string
	// Marks are those of BuildOptions.Folder, nil if Build made none.
	Marks seed.Marks
}

// Store keeps the layers of one workspace, of all scopes. It is safe for concurrent use; builds of one scope in one process follow one
// another.
type Store struct {
	dir   string
	owner *rootfs.Owner

	mu sync.Mutex
	// current has the newest layer that is not stale by the key of its scope, nil if there is none. A scope without an entry was not looked
	// for yet.
	current map[string]*Layer
	// last has the layer that was built last, current or not, by the key of its scope.
	last map[string]*Layer
}

// New returns the store of dir, which exists. owner, when not nil, is given to what layers hold.
func New(dir string, owner *rootfs.Owner) *Store {
	return &Store{dir: dir, owner: owner, current: map[string]*Layer{}, last: map[string]*Layer{}}
}

// Current returns the newest layer of a scope that is not stale, nil when there is none. It is looked for anew when another process
// has removed the one that was.
func (s *Store) Current(scope seed.Scope) (*Layer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := scope.Key()
	if l, loaded := s.current[key]; loaded && (l == nil || exists(l.ManifestFile)) {
		return l, nil
	}
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	s.current[key] = s.newest(key, names, false)
	return s.current[key], nil
}

// newest loads the newest of the named layers of a scope that can be read, and is not stale unless staleToo. It does not read the
// current layer's manifest again. s.mu is held.
func (s *Store) newest(key string, names []string, staleToo bool) *Layer {
	for _, name := range s.byAge(names, staleToo) {
		if l := s.current[key]; l != nil && l.Digest == name {
			return l
		}
		l := s.layer(name)
		if scope, err := s.scopeOf(l); err != nil || scope != key {
			continue
		}
		var err error
		if l.Manifest, err = seed.ReadManifest(l.ManifestFile); err == nil {
			return l
		}
	}
	return nil
}

// errTemplate is of the layer of a template.
var errTemplate = errors.New("the layer is a template's")

// scopeOf returns the key of a layer's scope. The layer of a template whose build was killed has no mark yet, but its manifest names the
// template.
func (s *Store) scopeOf(l *Layer) (key string, err error) {
	head, err := seed.ReadManifestHead(l.ManifestFile)
	switch {
	case err != nil:
		return "", err
	case head.Template != "":
		return "", errTemplate
	}
	return head.Scope.Key(), nil
}

// byAge sorts the named layers that are not of templates, and not stale unless staleToo, newest first.
func (s *Store) byAge(names []string, staleToo bool) []string {
	made := make(map[string]time.Time, len(names))
	for _, name := range names {
		l := s.layer(name)
		st, err := os.Stat(l.ManifestFile)
		if err == nil && (staleToo || !s.isStale(name)) && !template.IsLayer(l.Dir) {
			made[name] = st.ModTime()
		}
	}
	return slices.SortedFunc(maps.Keys(made), func(a, b string) int {
		return cmp.Or(made[b].Compare(made[a]), cmp.Compare(b, a))
	})
}

func (s *Store) isStale(digest string) bool { return exists(filepath.Join(s.dir, digest, staleName)) }

func (s *Store) names() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list layers: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && len(e.Name()) == digestLength {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

func (s *Store) layer(digest string) *Layer {
	dir := filepath.Join(s.dir, digest)
	return &Layer{Digest: digest, Dir: dir, Tree: filepath.Join(dir, treeName), ManifestFile: filepath.Join(dir, ManifestName)}
}

// Dir returns the directory of a layer.
func (s *Store) Dir(digest string) string { return s.layer(digest).Dir }

// Tree returns where the tree of a layer is.
func (s *Store) Tree(digest string) string { return s.layer(digest).Tree }

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// BuildOptions of Build.
type BuildOptions struct {
	// Scope is that of the scan.
	Scope seed.Scope
	// Repos returns what the manifest says of the repositories. It is called after the copy; may be nil.
	Repos func() []seed.Repository
	// Staging is an empty directory on the layers' file system, the caller's to remove.
	Staging string
	// Folder, if not "", is an empty directory that becomes a context's folder: Build copies the workspace there, and packs the layer
	// from it. The folder is then what a copy of the layer's tree would be.
	Folder string
	// Workers bounds the files copied at once.
	Workers int
	// Link lets the layer share the files that did not change with the one before, by hard links: no layer's
	// file is ever changed. Without it they are copied.
	Link bool
	// Progress may be nil.
	Progress func(tree.CopyProgress)
	// Midway is called when half of the files are copied; may be nil.
	Midway func()
	// Manifested is called when the copy and its manifest are complete, before the layer has its name; may be nil.
	Manifested func()
}

// Build copies what scan found of the workspace into a new layer and makes it
// the current one. A layer of the same digest that exists already is used
// instead. Files that changed while they were read are named in Unstable.
func (s *Store) Build(ctx context.Context, src seed.Source, scan *seed.Scan, opts BuildOptions) (*Layer, error) {
	if err := Settle(ctx, scan); err != nil {
		return nil, err
	}
	begun, rec := time.Now(), &recorder{below: opts.Scope.Into, half: scan.Files / 2, midway: opts.Midway}
	unstable, finish, err := s.fill(ctx, src, scan, opts, rec)
	if err != nil {
		return nil, err
	}
	finished := make(chan error, 1)
	go func() { finished <- finish() }()
	for i, e := range rec.entries {
		rec.entries[i] = e.Doubtful(begun, time.Now())
	}
	var repos []seed.Repository
	if opts.Repos != nil {
		repos = opts.Repos()
	}
	manifest := seed.NewManifest(repos, rec.entries)
	manifest.Scope = opts.Scope
	digest, err := manifest.Write(filepath.Join(opts.Staging, ManifestName))
	if err = errors.Join(err, <-finished); err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	if opts.Manifested != nil {
		opts.Manifested()
	}
	l, err := s.publish(opts.Staging, digest)
	if err != nil {
		return nil, err
	}
	l.Manifest, l.Unstable = manifest, unstable
	if opts.Folder != "" {
		l.Marks = seed.NewMarks(manifest, rec.marks)
	}
	s.mu.Lock()
	s.current[opts.Scope.Key()], s.last[opts.Scope.Key()] = l, l
	s.mu.Unlock()
	return l, nil
}

// fill copies the workspace into the staged layer's tree, or into opts.Folder and a pack, which finish completes.
func (s *Store) fill(ctx context.Context, src seed.Source, scan *seed.Scan, opts BuildOptions, rec *recorder) (unstable []string, finish func() error, err error) {
	finish = func() error { return nil }
	into := opts.Folder
	if into == "" {
		if into, err = s.makeTree(opts.Staging); err != nil {
			return nil, nil, err
		}
	}
	dst, err := s.openTop(into, opts.Scope)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	how := tree.CopyOptions{Workers: opts.Workers, Progress: opts.Progress}
	if opts.Folder == "" {
		base, done := s.base(opts.Scope, opts.Link)
		defer done()
		how.Base = base
		unstable, err = dst.copy(ctx, src, scan, how, rec)
		return unstable, finish, err
	}
	pack, err := newPacker(opts.Staging)
	if err != nil {
		return nil, nil, err
	}
	how.Made = rec.made(pack.add)
	unstable, err = dst.copy(ctx, src, scan, how, rec)
	if err == nil {
		pack.index.MtimeNs, err = mtimeOf(dst.Root)
	}
	if err != nil {
		return nil, nil, errors.Join(err, pack.file.Close())
	}
	return unstable, pack.finish, nil
}

// top is a staged tree or folder, with the directories that the scope has there.
type top struct {
	rootfs.Root
	// seeded gets the copy: the root itself, or the directory Scope.Into in it.
	seeded rootfs.Root
	scope  seed.Scope
}

// openTop opens a tree or folder that no other program can reach, and makes the directories of the scope there.
func (s *Store) openTop(dir string, scope seed.Scope) (t *top, err error) {
	opts := rootfs.Options{Owner: s.owner, AllowChown: s.owner != nil}
	t = &top{scope: scope}
	if t.Root, err = rootfs.Open(dir, opts); err != nil {
		return nil, fmt.Errorf("open the staged copy: %w", err)
	}
	t.seeded = t.Root
	for _, name := range scope.Tops() {
		if err == nil {
			err = fserr.Wrap(t.Mkdir(name, seed.TopMode), "mkdir", "/"+name, "")
		}
	}
	if err == nil && scope.Into != "" {
		t.seeded, err = rootfs.Open(filepath.Join(dir, scope.Into), opts)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the staged copy: %w", err), t.Root.Close())
	}
	return t, nil
}

// Close closes both roots.
func (t *top) Close() error {
	if t.seeded != t.Root {
		return errors.Join(t.seeded.Close(), t.Root.Close())
	}
	return t.Root.Close()
}

// copy copies what the scan found, and records the directories of the scope.
func (t *top) copy(ctx context.Context, src seed.Source, scan *seed.Scan, how tree.CopyOptions, rec *recorder) (unstable []string, err error) {
	if len(scan.Entries) > 0 {
		unstable, err = copyEntries(ctx, src, scan, t.seeded, how, rec)
	}
	for _, name := range t.scope.Tops() {
		st, e := t.Lstat(name)
		if err = cmp.Or(err, fserr.Wrap(e, "stat", "/"+name, "")); err == nil {
			rec.entries = append(rec.entries, seed.NewEntry(name, st, ""))
		}
	}
	return unstable, err
}

// mtimeOf returns the time of a tree's top.
func mtimeOf(root rootfs.Root) (int64, error) {
	st, err := root.Stat("/")
	if err != nil {
		return 0, fmt.Errorf("stat the staged copy: %w", err)
	}
	return st.MtimeNs, nil
}

// makeTree makes the top of a tree in a staged layer.
func (s *Store) makeTree(staging string) (string, error) {
	top := filepath.Join(staging, treeName)
	err := os.Mkdir(top, 0o755)
	if err == nil && s.owner != nil {
		err = os.Lchown(top, s.owner.UID, s.owner.GID)
	}
	if err == nil {
		err = os.Chmod(top, 0o755) // whatever the umask
	}
	if err != nil {
		return "", fmt.Errorf("make the staged layer: %w", fserr.CodeOf(err))
	}
	return top, nil
}

// Settle waits, at most seed.TickTime, until the newest file of a scan is old enough for a later change to show in its ctime.
// Without it all files of a workspace that was just cloned would be doubtful, and copied again for the next context.
func Settle(ctx context.Context, scan *seed.Scan) error {
	var newest int64
	for _, e := range scan.Entries {
		newest = max(newest, e.CtimeNs)
	}
	wait := seed.TickTime - time.Since(time.Unix(0, newest))
	if wait <= 0 || newest == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(min(wait, seed.TickTime))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type recorder struct {
	// below is the directory that the copy is in; "" for the root.
	below   string
	mu      sync.Mutex
	entries []seed.Entry
	// files counts what is no directory. midway is called when it reaches half.
	files, half int64
	midway      func()
	// marks are those of the files that were made.
	marks map[string]seed.Mark
}

// made calls next with a new file, whose mark it keeps.
func (r *recorder) made(next func(tree.Made) error) func(tree.Made) error {
	r.marks = map[string]seed.Mark{}
	return func(m tree.Made) error {
		m.Rel = path.Join(r.below, m.Rel)
		r.mu.Lock()
		r.marks[m.Rel] = seed.Mark{Ino: m.Stat.Ino, CtimeNs: m.Stat.CtimeNs}
		r.mu.Unlock()
		return next(m)
	}
}

func (r *recorder) add(p string, st rootfs.Stat, target string) {
	if p == "" || p == "." {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, seed.NewEntry(path.Join(r.below, p), st, target))
	if st.IsDir() {
		return
	}
	if r.files++; r.files == r.half && r.midway != nil {
		r.midway()
	}
}

// copyEntries copies exactly the entries of the scan to the top of dst; what appeared since is left to the next layer.
func copyEntries(ctx context.Context, src seed.Source, scan *seed.Scan, dst rootfs.Root, opts tree.CopyOptions, rec *recorder) ([]string, error) {
	wanted := make(map[string]rootfs.Type, len(scan.Entries))
	for _, e := range scan.Entries {
		wanted[e.Path] = e.Type
	}
	opts.Skip = func(rel string, e rootfs.Entry) bool {
		rel = path.Clean(rel)
		t, ok := wanted[rel]
		return rel != "." && (!ok || t != e.Type)
	}
	opts.PreserveTimestamps, opts.PreserveLinks, opts.PreserveXattrs, opts.Unseen = true, true, true, true
	opts.Record = func(rel string, st rootfs.Stat, target string) { rec.add(path.Clean(rel), st, target) }
	report, err := tree.Copy(ctx, src.Root, ".", dst, ".", opts)
	if err != nil {
		return nil, copyError(err)
	}
	return report.Unstable, nil
}

// copyError adds a hint to the error about a file that the server may not read.
func copyError(err error) error {
	var e *fserr.Error
	if errors.As(err, &e) && (e.Code == fserr.EACCES || e.Code == fserr.EPERM) && e.Hint == "" {
		told := *e
		told.Hint = "make it readable to ctxfs, or add it to " + seed.IgnoreFile
		err = &told
	}
	return fmt.Errorf("copy the workspace: %w", err)
}

// publish gives a staged layer its name.
func (s *Store) publish(staged, digest string) (*Layer, error) {
	l := s.layer(digest)
	err := durable.Tree(staged)
	if err == nil {
		err = os.Rename(staged, l.Dir)
	}
	if err == nil {
		err = durable.Names(s.dir)
	}
	switch {
	case err == nil || exists(l.ManifestFile):
		return l, nil
	default:
		return nil, fmt.Errorf("publish layer %s: %w", digest, fserr.CodeOf(err))
	}
}

// MarkStale records that no further context may be made from the layer, because the workspace changed while it was copied.
// A layer that is only out of date needs no mark: its manifest shows that.
func (s *Store) MarkStale(l *Layer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.current, func(_ string, current *Layer) bool { return current != nil && current.Digest == l.Digest })
	if err := statedir.WriteFile(filepath.Join(l.Dir, staleName), nil, 0o600); err != nil {
		return fmt.Errorf("mark layer %s stale: %w", l.Digest, err)
	}
	return nil
}

// Unused lists the layers that keep does not name and that are not current for their scope, here or for a process that begins now, but
// for those of templates.
func (s *Store) Unused(keep map[string]bool) ([]string, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	current := map[string]string{}
	for _, name := range s.byAge(names, false) {
		if key, err := s.scopeOf(s.layer(name)); err == nil && current[key] == "" && s.readable(name) {
			current[key] = name
		}
	}
	isCurrent := map[string]bool{}
	for _, name := range current {
		isCurrent[name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return keep[name] || template.IsLayer(filepath.Join(s.dir, name)) || isCurrent[name]
	}), nil
}

// readable reports whether a layer can be current. It does not read again the manifest of one that is.
func (s *Store) readable(name string) bool {
	s.mu.Lock()
	for _, l := range s.current {
		if l != nil && l.Digest == name {
			s.mu.Unlock()
			return true
		}
	}
	s.mu.Unlock()
	_, err := s.Load(name)
	return err == nil
}
