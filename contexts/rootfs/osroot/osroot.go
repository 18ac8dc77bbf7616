// Package osroot is the portable implementation of rootfs.Root. It uses os.Root, which confines each step to a held directory, and
// adds what os.Root lacks:
//
//   - It walks a path one component at a time, each in an os.Root of the directory reached so far. So absolute links, which os.Root
//     refuses, mean the root of the tree; "a/../b" looks up a; mount points can be refused; and up to 40 links are followed instead of 8.
//   - ".." goes back to the directory that the walk came through. Beyond the first it is EACCES, as is what os.Root reports as "path
//     escapes from parent".
//   - It sets modes by a chmod after creation, since the umask applies within os.Root. For a moment a new entry has fewer permissions,
//     never more.
//   - On unix it removes, renames, links and dates names by *at calls on the parent's descriptor: Root.Remove does not distinguish files
//     from directories, Root.Rename does not replace an empty directory and works within one Root only, and Root.Chtimes follows links.
//   - Atomic files have temporary names (see node.ReservedPrefix) that it renames into place.
//
// Known limits. Times of a link itself are EOPNOTSUPP on Windows, and File.Utimes has microseconds on darwin. O_DIRECT and O_NOATIME
// have no effect. Realpath joins the names walked through, so it can report a directory where it was before a move. Unless the server is
// root, directories on the way must be readable, not only searchable. If a file is replaced by a link during a chmod, the chmod may
// change the link's target within its directory, but nothing outside the tree.
package osroot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
)

// Root implements rootfs.Root, which describes the methods.
type Root struct {
	top  *os.Root
	opts node.Options
}

// Open opens dir, a server path, as a Root. A link is ELOOP, anything else but a directory ENOTDIR.
func Open(dir string, opts node.Options) (*Root, error) {
	// Without a final slash, which would follow a link.
	dir = filepath.Clean(dir)
	before, err := os.Lstat(dir)
	if err == nil {
		err = isFolder(before)
	}
	if err != nil {
		return nil, osError(err)
	}
	top, err := os.OpenRoot(dir)
	return opened(top, before, opts, err)
}

func isFolder(st os.FileInfo) error {
	if st.Mode()&os.ModeSymlink != 0 {
		return fserr.New("open", "", fserr.ELOOP)
	}
	if !st.IsDir() {
		return fserr.New("open", "", fserr.ENOTDIR)
	}
	return nil
}

// opened returns the Root of a directory that was looked at before it was opened.
func opened(top *os.Root, before os.FileInfo, opts node.Options, err error) (*Root, error) {
	if err != nil {
		return nil, osError(err)
	}
	after, err := top.Lstat(".")
	if err == nil && !os.SameFile(before, after) {
		err = fserr.ESTALE
	}
	if err != nil {
		_ = top.Close()
		return nil, osError(err)
	}
	return &Root{top: top, opts: opts}, nil
}

// Sub opens a directory of the top as a Root of its own; see rootfs.Sub.
func (r *Root) Sub(name string) (*Root, error) {
	before, err := r.top.Lstat(name)
	if err == nil {
		err = isFolder(before)
	}
	if err != nil {
		return nil, osError(err)
	}
	top, err := r.top.OpenRoot(name)
	return opened(top, before, r.opts, err)
}

// Close closes the root's descriptor. Operations under way have their own.
func (r *Root) Close() error { return osError(r.top.Close()) }

// ServerPath returns the server path of path, which must be resolved and absolute.
func (r *Root) ServerPath(path string) string {
	return filepath.Join(r.top.Name(), filepath.FromSlash(path))
}

func (r *Root) Walk(ctx context.Context, dir string, opts tree.WalkOptions, fn tree.WalkFunc) error {
	return tree.Walk(ctx, r, dir, opts, fn)
}

func (r *Root) RemoveAll(ctx context.Context, path string) (int64, error) {
	return tree.RemoveAll(ctx, r, path)
}

func (r *Root) Watch(path string, opts watch.Options) (watch.Watcher, error) {
	return watch.Start(r, path, opts)
}

// escapeText is the text of os's unexported error for a path that leaves a Root.
const escapeText = "path escapes from parent"

// osError converts err to an *fserr.Error without paths. The caller adds those by fserr.Wrap.
func osError(err error) error {
	if err == nil {
		return nil
	}
	var known *fserr.Error
	if errors.As(err, &known) {
		return err
	}
	if escapes(err) {
		return &fserr.Error{Code: node.ErrOutside.Code, Detail: node.ErrOutside.Detail, Err: err}
	}
	return &fserr.Error{Code: fserr.CodeOf(err), Err: err}
}

// escapes reports whether os.Root refused to leave its directory.
func escapes(err error) bool { return strings.HasSuffix(err.Error(), escapeText) }

func codeOf(err error) fserr.Code {
	if escapes(err) {
		return fserr.EACCES
	}
	return fserr.CodeOf(err)
}

// osMode converts Linux permission bits to os's, without setuid and setgid.
func osMode(mode uint32) os.FileMode {
	m := os.FileMode(mode & 0o777)
	if mode&0o1000 != 0 {
		m |= os.ModeSticky
	}
	return m
}
