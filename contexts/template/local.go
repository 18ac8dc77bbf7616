package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// localRepo is a repository in a directory. Its refs are read here, and its
// objects by a git whose repository is another, empty one: so its configuration,
// hooks and attributes are not read at all, and nothing is written to it.
type localRepo struct {
	// shown is its name in the template, kind what its source begins with.
	shown, kind string
	root        rootfs.Root
	// dir is root's server path. avoid is where in it contexts are, "" for nowhere.
	dir, avoid string
	opts       Options
	peeled     *peeled

	// path is where it is, git and common its git directories (of a linked worktree they are two),
	// and objects the objects: all relative to root, without links.
	path, git, common, objects string
}

// openLocal finds the git directories of the repository at p.
func openLocal(l localRepo, p string) (*localRepo, error) {
	var err error
	if l.path, err = l.real(p); err != nil {
		return nil, l.broken(err)
	}
	if l.git, err = l.gitDir(); err != nil {
		return nil, l.broken(err)
	}
	if l.common, err = l.pointer(path.Join(l.git, "commondir"), "", l.git); err != nil {
		return nil, l.broken(err)
	}
	if l.objects, err = l.real(path.Join(l.common, "objects")); err != nil {
		return nil, l.broken(err)
	}
	if err := l.noReftable(); err != nil {
		return nil, l.broken(err)
	}
	return &l, nil
}

func (l *localRepo) source() string { return l.kind + l.path }

// broken says that the repository cannot be used.
func (l *localRepo) broken(err error) error {
	var e *fserr.Error
	hint := ""
	if errors.As(err, &e) {
		hint = e.Hint
	}
	return &fserr.Error{
		Code: fserr.CodeOf(err), Err: err, Hint: hint,
		Detail: fmt.Sprintf("repository %q cannot be read: %s", l.shown, text(err)),
	}
}

// real resolves the links of p. What leads out of the root, or among the contexts, is EACCES.
func (l *localRepo) real(p string) (string, error) {
	real, err := l.root.Realpath(p)
	if err != nil {
		return "", err
	}
	real = strings.TrimPrefix(real, "/")
	if real == "" {
		real = "."
	}
	if inside(real, l.avoid) {
		return "", &fserr.Error{Code: fserr.EACCES, Detail: "it lies among the contexts"}
	}
	if err := checkText(real); err != nil {
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: "bad path: " + err.Error()}
	}
	return real, nil
}

// gitDir finds .git, which in linked worktrees and submodules is a file, or a bare repository.
func (l *localRepo) gitDir() (string, error) {
	dot := path.Join(l.path, ".git")
	st, err := l.root.Stat(dot)
	switch {
	case err == nil && st.IsDir():
		return l.real(dot)
	case err == nil:
		return l.pointer(dot, "gitdir: ", "")
	case fserr.CodeOf(err) != fserr.ENOENT:
		return "", err
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := l.root.Stat(path.Join(l.path, name)); err != nil {
			return "", &fserr.Error{Code: fserr.ENOENT, Err: err, Detail: "it is no git repository", Hint: "name a folder that has .git"}
		}
	}
	return l.path, nil
}

// pointer reads a file that names a directory. Where there is no such file, it is otherwise, unless that is "".
func (l *localRepo) pointer(file, prefix, otherwise string) (string, error) {
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

// rel makes target, a server path that stands in a file of dir, one below the root.
func (l *localRepo) rel(dir, target string) (string, error) {
	p := path.Join(dir, filepath.ToSlash(target))
	if filepath.IsAbs(filepath.FromSlash(target)) {
		rel, err := filepath.Rel(l.dir, filepath.FromSlash(target))
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

// maxLine bounds a file of one line.
const maxLine = 8 << 10

// line reads the first line of a small file.
func (l *localRepo) line(file string) (string, error) {
	f, err := l.open(file)
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

// open opens a regular file: a directory where a file is expected is as good as nothing.
func (l *localRepo) open(file string) (rootfs.File, error) {
	f, st, err := l.root.OpenStat(file, rootfs.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		_ = f.Close()
		return nil, &fserr.Error{Code: fserr.ENOENT}
	}
	return f, nil
}

func (l *localRepo) resolve(ctx context.Context, ref string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	commit, err := l.commit(ctx, ref)
	var told *fserr.Error
	switch {
	case errors.Is(err, errAmbiguous):
		return "", ambiguousRef(l.shown, ref, "write more digits")
	case errors.Is(err, errMissing):
		return "", unknownRef(l.shown, ref, "fetch it there, or name another")
	case errors.As(err, &told) && told.Op == opResolve:
		return "", err
	case err != nil:
		return "", l.broken(err)
	}
	return commit, nil
}

func (l *localRepo) commit(ctx context.Context, ref string) (string, error) {
	head, err := l.follow("HEAD")
	if err != nil {
		return "", err
	}
	var o *objects // begun when it is needed: starting a program takes longer than all else
	defer func() {
		if o != nil {
			_ = o.close()
		}
	}()
	peel := func(rev string) (string, error) {
		return l.peeled.of(l.source(), rev, func() (commit string, err error) {
			if o == nil {
				if o, err = l.batch(ctx, l.opts.Scratch, head, ref); err != nil {
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

// choose applies the rules for what a ref means: it returns an object's ID, in full or abbreviated.
func choose(ref, repo string, lookup func(string) (string, error), peel func(string) (string, error)) (string, error) {
	if isObjectID(ref) {
		return ref, nil
	}
	if ref == "HEAD" || strings.HasPrefix(ref, "refs/") {
		id, err := lookup(ref)
		if err == nil && id == "" {
			err = unknownRef(repo, ref, "")
		}
		return id, err
	}
	branch, err1 := lookup("refs/heads/" + ref)
	tag, err2 := lookup("refs/tags/" + ref)
	switch {
	case err1 != nil || err2 != nil:
		return "", errors.Join(err1, err2)
	case branch != "" && tag != "":
		return same(ref, repo, branch, tag, peel)
	case branch != "":
		return branch, nil
	case tag != "":
		return tag, nil
	case isAbbreviated(ref):
		return ref, nil
	}
	return "", unknownRef(repo, ref, "")
}

// same settles a name that is a branch and a tag.
func same(ref, repo, branch, tag string, peel func(string) (string, error)) (string, error) {
	a, err1 := peel(branch)
	b, err2 := peel(tag)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if a != b {
		return "", ambiguousRef(repo, ref, "write refs/heads/"+ref+" or refs/tags/"+ref)
	}
	return branch, nil
}
