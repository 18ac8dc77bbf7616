package tree

import (
	"context"
	"errors"
	"io"
	"path"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxPlaces bounds the directories that one Places keeps open.
const maxPlaces = 64

// Places changes names of a tree by their paths, reserved names included. It follows no link on any part of a path: one on the way is
// ELOOP or ENOTDIR. It keeps directories open from one change to the next, so while it is in use only its caller may move directories. It is
// for one goroutine.
type Places struct {
	tree Tree
	open map[string]node.Node
	data dataCopier
}

// NewPlaces returns the places of a tree. Close it.
func NewPlaces(r Tree) *Places { return &Places{tree: r, open: map[string]node.Node{}} }

// Close closes the directories. The Places can be used again.
func (p *Places) Close() error {
	var errs []error
	for _, dir := range p.open {
		errs = append(errs, dir.Close())
	}
	clear(p.open)
	return errors.Join(errs...)
}

// at opens the directory of a path, until the next call of at or pair. It returns the path's last name.
func (p *Places) at(name string) (node.Node, string, error) {
	dir, base := path.Dir(name), path.Base(name)
	if open := p.open[dir]; open != nil {
		return open, base, nil
	}
	if len(p.open) >= maxPlaces {
		if err := p.Close(); err != nil {
			return nil, "", err
		}
	}
	open, err := parentOf(p.tree, name)
	if err != nil {
		return nil, "", err
	}
	p.open[dir] = open
	return open, base, nil
}

// pair is at for two paths.
func (p *Places) pair(from, to string) (a node.Node, aBase string, b node.Node, bBase string, err error) {
	if len(p.open) >= maxPlaces-1 {
		if err := p.Close(); err != nil {
			return nil, "", nil, "", err
		}
	}
	if a, aBase, err = p.at(from); err == nil {
		b, bBase, err = p.at(to)
	}
	return a, aBase, b, bBase, err
}

// Lstat returns the attributes of what stands at a path.
func (p *Places) Lstat(name string) (node.Stat, error) {
	dir, base, err := p.at(name)
	if err != nil {
		return node.Stat{}, err
	}
	return dir.Lstat(base)
}

// Mkdir makes a directory.
func (p *Places) Mkdir(name string, mode uint32) error {
	dir, base, err := p.at(name)
	if err != nil {
		return err
	}
	return dir.Mkdir(base, mode)
}

// Flush makes the names in the directory of a path durable, where the system can do that.
func (p *Places) Flush(name string) error {
	dir, _, err := p.at(name)
	if err != nil {
		return err
	}
	return Ignoring(dir.WithFD(syncFD), fserr.EOPNOTSUPP)
}

// Rmdir removes an empty directory.
func (p *Places) Rmdir(name string) error {
	if err := p.Close(); err != nil {
		return err
	}
	dir, base, err := p.at(name)
	if err != nil {
		return err
	}
	return dir.Rmdir(base)
}

// Chmod sets the permission bits of a file or directory.
func (p *Places) Chmod(name string, mode uint32) error {
	dir, base, err := p.at(name)
	if err != nil {
		return err
	}
	return dir.Chmod(base, mode)
}

// Symlink makes a link.
func (p *Places) Symlink(target, name string) error {
	dir, base, err := p.at(name)
	if err != nil {
		return err
	}
	return dir.Symlink(target, base)
}

// Move renames from to to, and fails with EEXIST if something is there. isDir says that from is a directory.
func (p *Places) Move(from, to string, isDir bool) error {
	a, aBase, b, bBase, err := p.pair(from, to)
	if err == nil {
		err = a.MoveTo(aBase, b, bBase)
	}
	if err == nil && isDir {
		err = p.Close() // the paths of what is below are others now
	}
	return err
}

// Exchange swaps two files or links in one step.
func (p *Places) Exchange(one, other string) error {
	a, aBase, b, bBase, err := p.pair(one, other)
	if err != nil {
		return err
	}
	return a.ExchangeWith(aBase, b, bBase)
}

// Remove removes what stands at a path, with all that is below it. Nothing there is no error.
func (p *Places) Remove(ctx context.Context, name string) error {
	if err := p.Close(); err != nil {
		return err
	}
	dir, err := parentOf(p.tree, name)
	if err != nil {
		return unlessGone(err)
	}
	st, err := dir.Lstat(path.Base(name))
	if err != nil {
		return errors.Join(Ignoring(err, fserr.ENOENT), dir.Close())
	}
	_, err = RemoveEntries(ctx, dir, node.Entry{Name: path.Base(name), Type: st.Type()})
	return err
}

// Covers reports whether everything below a directory is below another one too, under the same names: directories, and for the rest the
// same files.
func (p *Places) Covers(ctx context.Context, dir, other string) (covered bool, err error) {
	nodes, err := nodesOf(p.tree)
	if err != nil {
		return false, err
	}
	covered = true
	err = Walk(ctx, nodes, dir, WalkOptions{Stats: true}, func(rel string, e node.Entry, err error) error {
		if err != nil {
			return err
		}
		st, err := p.Lstat(path.Join(other, rel))
		if err != nil && unlessGone(err) != nil {
			return err
		}
		if covered = err == nil && e.Stat != nil && (st.IsDir() && e.Stat.IsDir() || st.SameFile(*e.Stat)); !covered {
			return errUncovered
		}
		return nil
	})
	if errors.Is(err, errUncovered) {
		err = nil
	}
	return covered, err
}

// errUncovered ends a walk.
var errUncovered = errors.New("a file is missing")

// NewFile says what Create makes.
type NewFile struct {
	// Content is the file's; nil means that of the file at From.
	Content io.Reader
	From    string
	// Mode is the permission bits.
	Mode uint32
	// Like is a file whose extended attributes the new one gets, and its owner and group if this process may give files away; "" for none.
	Like string
	// Sync flushes the content to the disk.
	Sync bool
}

// Create makes a file, and returns its attributes.
func (p *Places) Create(ctx context.Context, name string, n NewFile) (st node.Stat, err error) {
	dir, base, err := p.at(name)
	if err != nil {
		return st, err
	}
	f, err := dir.OpenFile(base, node.O_WRONLY|node.O_CREAT|node.O_EXCL, tmpMode)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if n.Content != nil {
		err = fill(ctx, f, n.Content)
	} else {
		err = p.copyFrom(ctx, f, n.From)
	}
	if err == nil && n.Like != "" {
		err = p.inherit(f, name, n.Like)
	}
	if err == nil {
		err = f.Chmod(n.Mode)
	}
	if err == nil && n.Sync {
		err = f.Sync(true)
	}
	if err != nil {
		return st, err
	}
	return f.Stat()
}

// copyFrom copies the content of a file, whose extents it shares where that is possible.
func (p *Places) copyFrom(ctx context.Context, out node.File, from string) error {
	in, st, err := p.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	if err := charge(out, st); err != nil {
		return err
	}
	return p.data.copy(ctx, in, out, st, func(int64) {})
}

// Open opens a file for reading.
func (p *Places) Open(name string) (node.File, node.Stat, error) {
	dir, base, err := p.at(name)
	if err != nil {
		return nil, node.Stat{}, err
	}
	f, err := dir.OpenFile(base, node.O_RDONLY, 0)
	if err != nil {
		return nil, node.Stat{}, err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close() // nothing was read
	}
	return f, st, err
}

// inherit gives a new file the owner and the extended attributes of another one.
func (p *Places) inherit(f node.File, name, like string) error {
	was, st, err := p.Open(like)
	if err != nil {
		return err
	}
	defer func() { _ = was.Close() }() // it was only read
	now, err := f.Stat()
	if err != nil {
		return err
	}
	dir, base, err := p.at(name)
	if err != nil {
		return err
	}
	if _, err := keepOwner(dir, base, now, st); err != nil {
		return err
	}
	_, err = copyFileXattrs(was, f, "")
	return err
}
