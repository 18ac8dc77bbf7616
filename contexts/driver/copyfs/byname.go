package copyfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/otiai10/copy"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/xattr"
)

// byNameCopy copies a layer with otiai10/copy, where the descriptor-based copier lacks
// openat2. It opens every file by name. That is safe only because a layer is immutable: no
// other process swaps links or FIFOs into it. otiai10/copy keeps contents, targets and the
// times of files and directories; byNameCopy adds hard links, modes, owners, xattrs and the
// times of links. It works in the caller's goroutine, so it needs no lock.
type byNameCopy struct {
	ctx      context.Context
	from, to rootfs.Root
	src      string
	owner    *rootfs.Owner
	progress func(driver.Progress)
	done     driver.Progress
	// first is the first name of each file that has several.
	first map[file]string
}

// file identifies a file.
type file struct{ dev, ino uint64 }

func (b *byNameCopy) copy(dst string) error {
	return copy.Copy(b.src, dst, copy.Options{
		Skip: b.begin, OnError: b.finish, PermissionControl: makeDir, PreserveTimes: true,
		WrapReader: func(r io.Reader) io.Reader { return stoppable{b.ctx, r} },
	})
}

// stoppable fails as soon as ctx ends.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

// Read is io.Reader's.
func (s stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// makeDir makes a directory. Modes wait for finish: xattrs cannot be set on what is read-only.
func makeDir(info fs.FileInfo, dst string) (func(*error), error) {
	var err error
	if info.IsDir() {
		err = os.MkdirAll(dst, 0o700)
	}
	return func(*error) {}, err
}

func (b *byNameCopy) rel(src string) (string, error) {
	rel, err := filepath.Rel(b.src, src)
	return filepath.ToSlash(rel), err
}

// begin is called before each entry. It makes further names of a file itself, and skips them.
func (b *byNameCopy) begin(info fs.FileInfo, src, _ string) (skip bool, err error) {
	switch {
	case b.ctx.Err() != nil:
		return false, b.ctx.Err()
	case info.Mode()&^(fs.ModePerm|fs.ModeDir|fs.ModeSymlink) != 0:
		return false, errChanged
	case !info.Mode().IsRegular():
		return false, nil
	}
	rel, err := b.rel(src)
	if err != nil {
		return false, err
	}
	st, err := b.from.Lstat(rel)
	if err != nil || st.Nlink < 2 {
		return false, err
	}
	id := file{st.Dev, st.Ino}
	if first, ok := b.first[id]; ok {
		b.count(st)
		return true, b.to.Link(first, rel)
	}
	b.first[id] = rel
	return false, nil
}

// finish is called after each entry, the root included. err is why it could not be copied.
func (b *byNameCopy) finish(src, dst string, err error) error {
	if err != nil {
		return err
	}
	rel, err := b.rel(src)
	if err != nil {
		return err
	}
	st, err := b.from.Lstat(rel)
	if err != nil {
		return err
	}
	if o := b.owner; o != nil {
		if err := b.to.Chown(rel, int64(o.UID), int64(o.GID), false); err != nil {
			return err
		}
	}
	if st.Type() == rootfs.TypeSymlink {
		b.count(st)
		err := b.to.Utimes(rel, st.AtimeNs, st.MtimeNs, false)
		if errors.Is(err, fserr.EOPNOTSUPP) {
			return nil // links have no times here
		}
		return err
	}
	if !st.IsDir() {
		b.count(st)
	}
	return errors.Join(xattr.CopyUser(src, dst), b.to.Chmod(rel, st.Perm()))
}

func (b *byNameCopy) count(st rootfs.Stat) {
	b.done.Files++
	if st.Type() == rootfs.TypeFile {
		b.done.Bytes += st.Size
	}
	if b.progress != nil {
		b.progress(b.done)
	}
}
