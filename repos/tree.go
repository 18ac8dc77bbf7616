package repos

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/git"
)

// maxTreeDepth bounds how deep the directories of a commit may be nested.
const maxTreeDepth = 128

// treeFile is a file, a link or a submodule of a commit.
type treeFile struct {
	// path is relative to the repository.
	path string
	mode uint32
	id   string
}

// trees lists what a commit has at some paths and below them.
type trees struct {
	objects *git.Objects
	// most bounds the files and the directories.
	most  int64
	seen  int64
	files []treeFile
	// attributes are the IDs of the .gitattributes files that apply to the files.
	attributes []string
}

// list adds what a tree has at a path and below it; "" is all. It reports whether there is something. inside is the path of a submodule in whose
// place, or below which, the path is; "" for none.
func (t *trees) list(ctx context.Context, root, p string) (found bool, inside string, err error) {
	dir, id := "", root
	for p != dir {
		entries, err := t.read(ctx, id, dir)
		if err != nil {
			return false, "", err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(p[len(dir):], "/"), "/")
		e, ok := entryOf(entries, name)
		at := path.Join(dir, name)
		switch {
		case !ok:
			return false, "", nil
		case e.Mode == git.ModeRepository:
			return true, at, nil
		case e.Mode != git.ModeTree && at == p:
			return true, "", t.add(treeFile{at, e.Mode, e.ID})
		case e.Mode != git.ModeTree:
			return false, "", nil
		}
		dir, id = at, e.ID
	}
	return true, "", t.below(ctx, id, dir)
}

func entryOf(entries []git.TreeEntry, name string) (git.TreeEntry, bool) {
	for _, e := range entries {
		if e.Name == name {
			return e, true
		}
	}
	return git.TreeEntry{}, false
}

// below adds all files below a directory.
func (t *trees) below(ctx context.Context, id, dir string) error {
	if strings.Count(dir, "/") >= maxTreeDepth {
		return git.RefuseEntry(dir, fmt.Sprintf("it lies more than %d levels deep", maxTreeDepth))
	}
	entries, err := t.read(ctx, id, dir)
	for _, e := range entries {
		if err != nil {
			return err
		}
		if p := path.Join(dir, e.Name); e.Mode == git.ModeTree {
			err = t.below(ctx, e.ID, p)
		} else {
			err = t.add(treeFile{p, e.Mode, e.ID})
		}
	}
	return err
}

// read reads a directory.
func (t *trees) read(ctx context.Context, id, dir string) ([]git.TreeEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := t.count(); err != nil {
		return nil, err
	}
	entries, err := t.objects.Tree(id, dir)
	if e, ok := entryOf(entries, ".gitattributes"); ok && err == nil && (e.Mode == git.ModeFile || e.Mode == git.ModeExecutable) {
		t.attributes = append(t.attributes, e.ID)
	}
	return entries, err
}

func (t *trees) count() error {
	if t.seen++; t.seen > t.most {
		return tooLarge(fmt.Sprintf("the commit has more than %s files and directories there", seed.Count(t.most)))
	}
	return nil
}

func (t *trees) add(f treeFile) error {
	t.files = append(t.files, f)
	return t.count()
}

func tooLarge(detail string) *Error {
	return &Error{Reason: TooLarge, Detail: detail, Hint: "name fewer paths, or let the operator raise --seed-max-files and --seed-max-bytes"}
}

// refusedName says why a name of a commit cannot be in a context; "" if it can.
func refusedName(p string) string {
	for name := range strings.SplitSeq(p, "/") {
		switch {
		case len(name) > rootfs.MaxName:
			return fmt.Sprintf("a name has at most %d bytes", rootfs.MaxName)
		case rootfs.Reserved(git.FoldName(name)):
			return "ctxfs keeps its own data under this name"
		}
	}
	return ""
}
