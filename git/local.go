package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/fserr"
)

// Local is a repository in an FS. Its refs are read here. Its objects are read by a git
// whose GIT_DIR is an empty scratch repository, so the repository's configuration, hooks
// and attributes are not read at all, and nothing is written to it.
type Local struct {
	reader *Reader
	tree   FS
	// shown is the repository's name in messages.
	shown string
	// path is where the repository is; git and common are its git directories (a linked
	// worktree has two), and objects its objects: all relative to the tree, without links.
	path, git, common, objects string
}

// Open finds the git directories of the repository at p. Errors call it shown. A
// repository whose data lie outside the tree fails with EACCES.
func (r *Reader) Open(tree FS, p, shown string) (*Local, error) {
	l := &Local{reader: r, tree: tree, shown: shown}
	if err := l.find(p); err != nil {
		return nil, l.broken(err)
	}
	return l, nil
}

func (l *Local) find(p string) (err error) {
	if l.path, err = l.real(p); err != nil {
		return err
	}
	if l.git, err = l.gitDir(); err != nil {
		return err
	}
	if l.common, err = l.pointer(path.Join(l.git, "commondir"), "", l.git); err != nil {
		return err
	}
	if l.objects, err = l.real(path.Join(l.common, "objects")); err != nil {
		return err
	}
	if err := checkPlain(filepath.Join(l.tree.Dir(), filepath.FromSlash(l.path))); err != nil { // git reads its configuration from elsewhere too
		return err
	}
	return l.noReftable()
}

// Path returns where the repository is, relative to its tree and without links.
func (l *Local) Path() string { return l.path }

// broken reports that the repository cannot be used.
func (l *Local) broken(err error) error {
	code, detail, hint := fserr.Parts(err)
	if o := Obstacle(err); o != nil {
		detail, hint = o.Detail, o.Hint
	}
	return &fserr.Error{Code: code, Err: err, Hint: hint, Detail: fmt.Sprintf("repository %q cannot be read: %s", l.shown, detail)}
}

// real resolves the links of p.
func (l *Local) real(p string) (string, error) {
	real, err := l.tree.Realpath(p)
	if err != nil {
		return "", err
	}
	if !utf8.ValidString(real) || strings.ContainsFunc(real, unicode.IsControl) {
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: "bad path: it is not UTF-8, or has control characters", Hint: "rename its folder"}
	}
	return real, nil
}

// gitDir finds .git, which in linked worktrees and submodules is a file, or a bare repository.
func (l *Local) gitDir() (string, error) {
	dot := path.Join(l.path, ".git")
	isDir, err := l.tree.IsDir(dot)
	switch {
	case err == nil && isDir:
		return l.real(dot)
	case err == nil:
		return l.pointer(dot, "gitdir: ", "")
	case fserr.CodeOf(err) != fserr.ENOENT:
		return "", err
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := l.tree.IsDir(path.Join(l.path, name)); err != nil {
			return "", &fserr.Error{Code: fserr.ENOENT, Err: err, Detail: "it is no git repository", Hint: "name a folder that has .git"}
		}
	}
	return l.path, nil
}

// pointer reads a file that names a directory. If there is no such file it returns otherwise, unless that is "".
func (l *Local) pointer(file, prefix, otherwise string) (string, error) {
	line, err := l.line(file)
	if fserr.CodeOf(err) == fserr.ENOENT && otherwise != "" {
		return otherwise, nil
	}
	if err != nil {
		return "", err
	}
	target, ok := strings.CutPrefix(line, prefix)
	if !ok || target == "" {
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: "its .git is damaged"}
	}
	rel, err := l.rel(path.Dir(file), target)
	if err != nil {
		return "", err
	}
	return l.real(rel)
}

// rel returns target, a server path written in a file of dir, relative to the tree.
func (l *Local) rel(dir, target string) (string, error) {
	p := path.Join(dir, filepath.ToSlash(target))
	if filepath.IsAbs(filepath.FromSlash(target)) {
		rel, err := filepath.Rel(l.tree.Dir(), filepath.FromSlash(target))
		if err != nil {
			rel = ".."
		}
		p = filepath.ToSlash(rel)
	}
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", &fserr.Error{
			Code: fserr.EACCES, Detail: "its data lie elsewhere",
			Hint: "use the repository that it belongs to, or a full clone",
		}
	}
	return p, nil
}

// maxLine bounds a file of one line, in bytes.
const maxLine = 8 << 10

// line reads the first line of a small file.
func (l *Local) line(file string) (string, error) {
	f, err := l.tree.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxLine))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line), nil
}

// Resolve is Repository's. It starts git only for an object that it has not peeled before.
func (l *Local) Resolve(ctx context.Context, ref string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.reader.opts.Timeout)
	defer cancel()
	commit, err := l.commit(ctx, ref)
	var e *fserr.Error
	switch {
	case errors.Is(err, errAmbiguous):
		return "", ambiguousRef(l.shown, ref, "write more digits")
	case errors.Is(err, errMissing):
		return "", unknownRef(l.shown, ref, "fetch it there, or name another")
	case errors.As(err, &e) && e.Op == OpResolve:
		return "", err
	case err != nil:
		return "", l.broken(err)
	}
	return commit, nil
}

func (l *Local) commit(ctx context.Context, ref string) (string, error) {
	head, err := l.follow("HEAD")
	if err != nil {
		return "", err
	}
	var o *Objects // opened only when needed: starting a program takes longer than the rest
	defer func() {
		if o != nil {
			_ = o.Close()
		}
	}()
	peel := func(rev string) (string, error) {
		return l.reader.peeled.of(l.objectsDir(), rev, func() (commit string, err error) {
			if o == nil {
				if o, err = l.batch(ctx, l.reader.opts.Scratch, head, ref); err != nil {
					return "", err
				}
			}
			return o.commit(rev)
		})
	}
	rev, err := choose(ref, l.shown, l.follow, peel)
	if err != nil {
		return "", err
	}
	return peel(rev)
}

// Objects is Repository's.
func (l *Local) Objects(ctx context.Context, scratch, commit string) (*Objects, error) {
	o, err := l.batch(ctx, scratch, commit)
	if err != nil {
		return nil, l.broken(err)
	}
	return o, nil
}

// batch starts a reader of the repository's objects, with its scratch in parent. The lengths of ids say which hash function it uses.
func (l *Local) batch(ctx context.Context, parent string, ids ...string) (*Objects, error) {
	if err := l.checkObjects(ctx, l.objects, 0); err != nil {
		return nil, err
	}
	wide := false
	for _, id := range ids {
		wide = wide || len(id) == 64
	}
	s, err := newScratch(parent, wide)
	if err != nil {
		return nil, err
	}
	return openObjects(ctx, s, s.local(l.objectsDir()))
}

func (l *Local) objectsDir() string {
	return filepath.Join(l.tree.Dir(), filepath.FromSlash(l.objects))
}

// maxAlternates bounds how deep alternates may be nested (git's own bound).
const maxAlternates = 5

// checkObjects refuses a directory of objects that would lead git, which opens it by
// name, out of the tree: by links or by alternates.
func (l *Local) checkObjects(ctx context.Context, dir string, depth int) error {
	if depth > maxAlternates {
		return elsewhere("its alternates name more than five others")
	}
	err := l.tree.Types(ctx, dir, 2, func(t fs.FileMode) error {
		switch {
		case t == fs.ModeSymlink:
			return elsewhere("its objects are links")
		case !t.IsRegular() && !t.IsDir():
			return elsewhere("its objects are no files") // git would block on a FIFO
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.checkAlternates(ctx, dir, depth)
}

func elsewhere(why string) error {
	return &fserr.Error{Code: fserr.EACCES, Detail: why, Hint: "use a full clone (git repack -a -d, then remove the alternates)"}
}

func (l *Local) checkAlternates(ctx context.Context, dir string, depth int) error {
	f, err := l.tree.Open(path.Join(dir, "info", "alternates"))
	if fserr.CodeOf(err) == fserr.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(io.LimitReader(f, 1<<20))
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := l.checkAlternate(ctx, dir, line, depth); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (l *Local) checkAlternate(ctx context.Context, dir, line string, depth int) error {
	if strings.HasPrefix(line, `"`) {
		return elsewhere("its alternates are quoted")
	}
	rel, err := l.rel(dir, line)
	if err != nil {
		return elsewhere("its alternates lie elsewhere")
	}
	real, err := l.real(rel)
	if fserr.CodeOf(err) == fserr.ENOENT {
		return nil // git ignores it too
	}
	if err != nil {
		return err
	}
	return l.checkObjects(ctx, real, depth+1)
}

// Bounds of refs: how far one may point to another (git's own is 5), and of packed-refs, in bytes.
const (
	maxSymref     = 5
	maxPackedRefs = 256 << 20
)

// follow returns the object that a ref names, or "" if the repository has no such
// ref. It reads what gitrepository-layout(5) describes. HEAD is the worktree's own.
func (l *Local) follow(ref string) (string, error) {
	for range maxSymref {
		value, err := l.ref(ref)
		if err != nil || value == "" || isObjectID(value) {
			return value, err
		}
		target, ok := strings.CutPrefix(value, "ref: ")
		if target = strings.TrimSpace(target); ok && !utf8.ValidString(target) {
			return "", otherRef(target)
		}
		if !ok || !strings.HasPrefix(target, "refs/") || CheckRef(target) != nil {
			return "", &fserr.Error{Code: fserr.EINVAL, Detail: "its ref " + ref + " is damaged"}
		}
		ref = target
	}
	return "", &fserr.Error{Code: fserr.EINVAL, Detail: "its refs name one another in a circle"}
}

// otherRef refuses what HEAD leads to and is not UTF-8.
func otherRef(ref string) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("its HEAD is %q, which is not UTF-8", ref), Hint: "rename that branch with git branch -m"}
}

// ref reads one ref: an ID, or "ref: " and another one's name.
func (l *Local) ref(ref string) (string, error) {
	dir := l.common
	if ref == "HEAD" {
		dir = l.git
	}
	line, err := l.line(path.Join(dir, ref))
	switch fserr.CodeOf(err) {
	case 0:
		return line, nil
	case fserr.ENOENT, fserr.ENOTDIR, fserr.ENAMETOOLONG:
		return l.packed(ref)
	}
	return "", err
}

// noReftable refuses the other format of refs, which is not read here.
func (l *Local) noReftable() error {
	if _, err := l.tree.IsDir(path.Join(l.common, "reftable")); err != nil {
		return nil //nolint:nilerr // there is none
	}
	return &fserr.Error{
		Code: fserr.EOPNOTSUPP, Detail: "it keeps its refs in a reftable", Hint: "run git refs migrate --ref-format=files in it",
	}
}

// packed looks a ref up in packed-refs.
func (l *Local) packed(ref string) (string, error) {
	f, err := l.tree.Open(path.Join(l.common, "packed-refs"))
	if fserr.CodeOf(err) == fserr.ENOENT {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return scanPacked(io.LimitReader(f, maxPackedRefs), ref)
}

// scanPacked finds the line "ID SP ref".
func scanPacked(r io.Reader, ref string) (string, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), 64<<10)
	for lines.Scan() {
		id, name, ok := strings.Cut(lines.Text(), " ")
		if ok && name == ref && isObjectID(id) {
			return id, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: "its packed-refs is damaged", Err: errors.Unwrap(err)}
	}
	return "", nil
}
