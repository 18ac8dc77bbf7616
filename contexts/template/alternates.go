package template

import (
	"bufio"
	"context"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxAlternates is how far alternates may name others (git's own bound).
const maxAlternates = 5

// batch starts a reader of the repository's objects, with its scratch in parent. ids tell the hash function.
func (l *localRepo) batch(ctx context.Context, parent string, ids ...string) (*objects, error) {
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
	dir := filepath.Join(l.dir, filepath.FromSlash(l.objects))
	return openObjects(ctx, gitRunner{scratch: s, objects: dir})
}

func (l *localRepo) reader(ctx context.Context, parent, commit string) (*objects, error) {
	o, err := l.batch(ctx, parent, commit)
	if err != nil {
		return nil, l.broken(err)
	}
	return o, nil
}

// checkObjects refuses a directory of objects through which git, which opens it by
// name, would be led out of the root: by links, or by alternates.
func (l *localRepo) checkObjects(ctx context.Context, dir string, depth int) error {
	if depth > maxAlternates {
		return elsewhere("its alternates name more than five others")
	}
	err := l.root.Walk(ctx, dir, tree.WalkOptions{MaxDepth: 2}, func(_ string, e rootfs.Entry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Type == rootfs.TypeSymlink:
			return elsewhere("its objects are links")
		case e.Type != rootfs.TypeFile && e.Type != rootfs.TypeDirectory:
			return elsewhere("its objects are no files") // git would wait for a FIFO's other end
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

func (l *localRepo) checkAlternates(ctx context.Context, dir string, depth int) error {
	f, err := l.open(path.Join(dir, "info", "alternates"))
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

func (l *localRepo) checkAlternate(ctx context.Context, dir, line string, depth int) error {
	if strings.HasPrefix(line, `"`) {
		return elsewhere("its alternates are quoted")
	}
	rel, err := l.rel(dir, line)
	if err != nil {
		return elsewhere("its alternates lie elsewhere")
	}
	real, err := l.real(rel)
	if fserr.CodeOf(err) == fserr.ENOENT {
		return nil // git passes over it too
	}
	if err != nil {
		return err
	}
	return l.checkObjects(ctx, real, depth+1)
}
