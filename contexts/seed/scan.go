package seed

import (
	"context"
	"path"
	"sort"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// Scan is what a seeding now would copy. Its paths are those of the workspace, whatever the scope.
type Scan struct {
	// Repos lists the repositories' paths, those within others included, and in a scope those that hold its folders.
	Repos []string
	// Entries are by path. Beyond the guard's limits they are left out.
	Entries []Entry
	// Files counts what is no directory; Bytes is the size of regular files.
	Files, Bytes int64
	// Dirs are the sizes by top directory: of the workspace, or of each repository in it; largest first.
	Dirs []DirSize
	// Skipped is by reason.
	Skipped []Skipped
	// Unreadable are the paths of the first maxUnreadable directories that were left out for notReadable.
	Unreadable []string
}

// notReadable is the reason for which a directory is left out that the server may not read, or that is nested deeper than a path
// can name.
const notReadable = "not readable"

const maxUnreadable = 10

// DirSize is a directory and what it holds, recursively.
type DirSize struct {
	Path         string
	Files, Bytes int64
}

// Skipped counts what was left out for one reason. Files is -1 when directories
// were left out unread.
type Skipped struct {
	Reason         string
	Entries, Files int64
}

// Walk finds the repositories and stats everything that would be copied. With a scope it does not look at the rest of the workspace.
// progress may be nil; Walk calls it with the counts from time to time.
func Walk(ctx context.Context, src Source, opts Options, progress func(files, bytes int64)) (*Scan, error) {
	opts = opts.WithDefaults()
	if err := checkOptions(src, opts); err != nil {
		return nil, err
	}
	w := &walker{
		ctx: ctx, src: src, opts: opts, progress: progress, ignores: NewIgnores(src.Root, opts.Exclude),
		lists: map[string]selected{}, dirs: map[string]*DirSize{}, skipped: map[string]*Skipped{}, seen: map[string]bool{},
	}
	todo, err := w.todo()
	if err != nil {
		return nil, err
	}
	for _, u := range todo {
		if err := w.unit(u); err != nil {
			return nil, err
		}
	}
	return w.finish(), nil
}

// todo returns the units: the folders of the scope, or the repositories of the workspace and the seed root.
func (w *walker) todo() (_ []string, err error) {
	scope := w.opts.Scope
	switch {
	case scope.Nothing:
		return nil, nil
	case len(scope.From) > 0:
		w.scan.Repos = repositoriesOf(w.src.Root, scope.From)
		return scope.From, CheckFrom(w.ctx, w.src, w.opts)
	}
	w.scan.Repos, err = discover(w.ctx, w.src)
	return units(w.scan.Repos, w.opts.Root), err
}

func checkOptions(src Source, opts Options) error {
	switch opts.Select {
	case SelectAll, SelectUnignored, SelectTracked:
		return checkRoot(src, opts.Root)
	}
	return &fserr.Error{Code: fserr.EINVAL, Detail: "bad --seed-select '" + string(opts.Select) + "'", Hint: "use all, unignored or tracked"}
}

type walker struct {
	ctx      context.Context //nolint:containedctx // a walker lives for one call
	src      Source
	opts     Options
	progress func(files, bytes int64)
	ignores  *Ignores
	// lists has git's selection per repository; one without an entry is taken whole.
	lists   map[string]selected
	dirs    map[string]*DirSize
	skipped map[string]*Skipped
	seen    map[string]bool
	scan    Scan
	// repoOf maps a directory to its repository.
	repoOf map[string]string
}

// unit takes a repository, the seed root or a folder of a scope.
func (w *walker) unit(u string) error {
	reason := excludedAbove(w.ignores, u)
	if err := w.ignores.Err(); err != nil {
		return err
	}
	if reason != "" {
		w.skip(reason, true)
		return nil
	}
	if err := w.parents(u); err != nil {
		return err
	}
	w.repoOf = map[string]string{u: ""}
	if repo := repositoryOf(w.src.Root, u); repo != "" {
		w.repoOf[u] = repo
		if err := w.enterRepository(repo); err != nil {
			return err
		}
	}
	err := w.src.Root.Walk(w.ctx, u, tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		return w.visit(u, path.Join(u, rel), e, err)
	})
	if err := w.ignores.Err(); err != nil {
		return err
	}
	if fserr.CodeOf(err) == fserr.EACCES && u != "." { // the unit itself
		w.unreadable(u)
		return nil
	}
	return fserr.Wrap(err, "scan", "/"+u, "")
}

// excludedAbove says whether the patterns leave the unit, or a folder on the way to it, out.
func excludedAbove(ignores *Ignores, u string) string {
	if u == "." {
		return ""
	}
	for i := range u + "/" {
		if i < len(u) && u[i] != '/' {
			continue
		}
		if reason := ignores.Reason(u[:i], true); reason != "" && !alwaysExcluded[reason] {
			return reason
		}
	}
	return ""
}

// parents adds the unit's directory and those above it.
func (w *walker) parents(u string) error {
	for ; u != "."; u = path.Dir(u) {
		if w.seen[u] {
			return nil
		}
		st, err := w.src.Root.Lstat(u)
		if err != nil {
			return fserr.Wrap(err, "scan", "/"+u, "")
		}
		w.seen[u] = true
		w.scan.Entries = append(w.scan.Entries, entryOf(u, st, ""))
	}
	return nil
}

func (w *walker) enterRepository(dir string) error {
	w.repoOf[dir] = dir
	if w.opts.Select == SelectAll || w.lists[dir] != nil {
		return nil
	}
	set, err := list(w.ctx, w.src, dir, w.opts.Select, w.opts.Scope.below(dir))
	w.lists[dir] = set
	return err
}

// visit is called for everything below a unit, parents first.
func (w *walker) visit(u, p string, e rootfs.Entry, walkErr error) error {
	switch fserr.CodeOf(walkErr) {
	case 0:
	case fserr.EACCES, fserr.ENAMETOOLONG:
		w.unreadable(p)
		return nil
	default:
		return &fserr.Error{
			Op: "scandir", Path: "/" + p, Code: fserr.CodeOf(walkErr), Err: walkErr,
			Detail: fserr.CodeOf(walkErr).Text() + ", reading the folder '/" + p + "' of the workspace",
			Hint:   "repair it, or add it to " + IgnoreFile,
		}
	}
	isDir := e.Type == rootfs.TypeDirectory
	reason := w.reason(p, e)
	if err := w.ignores.Err(); err != nil {
		return err
	}
	if reason == "" && isDir && isRepository(w.src.Root, p) {
		w.scan.Repos = append(w.scan.Repos, p)
		if err := w.enterRepository(p); err != nil {
			return err
		}
	} else if isDir {
		w.repoOf[p] = w.repoOf[path.Dir(p)]
	}
	if reason == "" {
		reason = w.unselected(p)
	}
	if reason != "" {
		w.skip(reason, isDir)
		if isDir {
			return tree.SkipDir
		}
		return nil
	}
	w.take(u, p, e)
	return nil
}

func (w *walker) reason(p string, e rootfs.Entry) string {
	if w.src.Avoid != "" && p == w.src.Avoid {
		return ".contexts"
	}
	switch e.Type {
	case rootfs.TypeFile, rootfs.TypeDirectory, rootfs.TypeSymlink:
		return w.ignores.Reason(p, e.Type == rootfs.TypeDirectory)
	}
	return "no regular file"
}

// unselected asks git's list of the repository that p lies in. A repository
// within another goes by its own list, whatever the outer one says of it.
func (w *walker) unselected(p string) string {
	set, ok := w.lists[w.repoOf[path.Dir(p)]]
	if !ok || set[p] || w.repoOf[p] == p {
		return ""
	}
	if w.opts.Select == SelectTracked {
		return "not tracked"
	}
	return "ignored by git"
}

// unreadable leaves out a directory that was taken before it turned out that it cannot be read.
func (w *walker) unreadable(p string) {
	if n := len(w.scan.Entries); n > 0 && w.scan.Entries[n-1].Path == p {
		w.scan.Entries = w.scan.Entries[:n-1]
	}
	if len(w.scan.Unreadable) < maxUnreadable {
		w.scan.Unreadable = append(w.scan.Unreadable, p)
	}
	w.skip(notReadable, true)
}

func (w *walker) skip(reason string, isDir bool) {
	s, ok := w.skipped[reason]
	if !ok {
		s = &Skipped{Reason: reason}
		w.skipped[reason] = s
	}
	s.Entries++
	switch {
	case isDir:
		s.Files = -1
	case s.Files >= 0:
		s.Files++
	}
}

// progressEvery is how many files pass between two reports.
const progressEvery = 1024

func (w *walker) take(u, p string, e rootfs.Entry) {
	if w.seen[p] {
		return
	}
	isDir := e.Type == rootfs.TypeDirectory
	if !isDir {
		w.count(topOf(u, p), e)
	}
	if w.scan.Files <= w.opts.MaxFiles && e.Stat != nil {
		target := ""
		if e.Type == rootfs.TypeSymlink {
			target, _ = w.src.Root.Readlink(p) // a link that vanished shows in the closing walk
		}
		w.scan.Entries = append(w.scan.Entries, entryOf(p, *e.Stat, target))
	}
}

func (w *walker) count(top string, e rootfs.Entry) {
	d, ok := w.dirs[top]
	if !ok {
		d = &DirSize{Path: top}
		w.dirs[top] = d
	}
	var size int64
	if e.Type == rootfs.TypeFile && e.Stat != nil {
		size = e.Stat.Size
	}
	d.Files++
	d.Bytes += size
	w.scan.Files++
	w.scan.Bytes += size
	if w.progress != nil && w.scan.Files%progressEvery == 0 {
		w.progress(w.scan.Files, w.scan.Bytes)
	}
}

// topOf returns the unit's child that p lies in, or the unit for its own files.
func topOf(u, p string) string {
	rel := p
	if u != "." {
		rel = strings.TrimPrefix(p, u+"/")
	}
	first, _, below := strings.Cut(rel, "/")
	if !below {
		return u
	}
	return path.Join(u, first)
}

func (w *walker) finish() *Scan {
	s := &w.scan
	sort.Strings(s.Repos)
	sortEntries(s.Entries)
	for _, d := range w.dirs {
		s.Dirs = append(s.Dirs, *d)
	}
	sort.Slice(s.Dirs, func(i, j int) bool {
		a, b := s.Dirs[i], s.Dirs[j]
		if a.Bytes != b.Bytes {
			return a.Bytes > b.Bytes
		}
		return a.Path < b.Path
	})
	for _, k := range w.skipped {
		s.Skipped = append(s.Skipped, *k)
	}
	sort.Slice(s.Skipped, func(i, j int) bool { return s.Skipped[i].Reason < s.Skipped[j].Reason })
	return s
}
