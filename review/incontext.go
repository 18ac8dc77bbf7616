package review

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/sparse"
)

// inContext takes an entry's steps in its context: each file is merged as in the workspace, and written in place, so that open handles stay valid. A
// file that has other names is replaced, unless the steps do the same to all of them: what a step does not name keeps its content. Like exchange it
// plans twice.
func (r *Reviews) inContext(ctx context.Context, e *Entry) error {
	merges, first := r.ws.knowing(), newBeside(besideTries)
	err := r.reading(ctx, e.Context, first, func(ctx context.Context, root rootfs.Root) error {
		_, err := (&workspace{root: root, store: r.store, merger: merges}).plan(ctx, slices.Clone(e.Steps), false)
		return err
	})
	if err != nil {
		return err
	}
	free, err := r.lockWorkspace(ctx)
	if err != nil {
		return err
	}
	defer free()
	if err := r.resolve(ctx); err != nil {
		return err
	}
	return r.changing(ctx, e.Context, first.only(), func(planning context.Context, root rootfs.Root, charge Charge) error {
		w := (&workspace{root: root, store: r.store, merger: merges}).making(e.makes)
		err := r.planInContext(planning, w, e)
		if err != nil {
			return err
		}
		w.whole = w.wholeOf(e.Steps, func(s *step) Version { return s.After })
		if bytes, entries := w.growth(e.Steps); bytes > 0 || entries > 0 { // a context that is full may take less
			if err := charge(bytes, entries); err != nil {
				return err
			}
		}
		if e.ID, err = r.journal.next(); err != nil {
			return err
		}
		e.At, e.Dirs, e.Closed = time.Now().UTC(), w.dirModes(e.Steps), w.closed(e.Steps, true)
		if err := w.keepRemains(ctx, e); err != nil {
			return err
		}
		if err := w.store.flush(contentsOf(e)); err != nil {
			return err
		}
		if err := r.journal.begin(e); err != nil {
			return err
		}
		r.point("begun")
		if err := r.writeAll(w, e); err != nil {
			if failed := w.putBack(e); failed != nil {
				return errors.Join(err, failed) // resolve tries again
			}
			return errors.Join(err, r.journal.abandon(e))
		}
		r.point("finished")
		return r.complete(ctx, e)
	})
}

// writeAll takes the steps of an entry that was begun, and makes it a done one.
func (r *Reviews) writeAll(w *workspace, e *Entry) error {
	for _, s := range removalsFirst(e.Steps) {
		if err := w.writeInPlace(s); err != nil {
			return fserr.Wrap(err, string(e.Kind), "/"+string(s.Path), "")
		}
		r.point("written")
	}
	if err := errors.Join(w.newSwaps(r.point).restoreDirs(e.Made), w.close(e.Closed), w.flushInPlace(e)); err != nil {
		return err
	}
	return r.journal.finish(e)
}

// workspaceIn returns a context as a tree that steps change.
func (r *Reviews) workspaceIn(root rootfs.Root) *workspace {
	return &workspace{root: root, store: r.store, merger: r.ws.merger}
}

// growth returns by how many bytes and entries steps that write in place let a tree grow at most.
func (w *workspace) growth(steps []step) (bytes, entries int64) {
	for i := range steps {
		s := &steps[i]
		st, err := w.root.Lstat(string(s.Path))
		if s.did() == Unchanged {
			continue
		}
		more := s.After.Size
		switch {
		case err != nil || st.IsDir():
			entries++
		case st.Nlink == 1: // a file may be longer than the space that it takes
			more -= min(st.Size, st.Blocks*blockSize)
		case !w.hasOtherNames(s):
			more = max(0, more-st.Size)
		}
		if !s.After.Exists() {
			entries--
		}
		bytes += more
	}
	return max(0, bytes), max(0, entries)
}

// blockSize is the unit of rootfs.Stat.Blocks.
const blockSize = 512

// planInContext plans an entry's steps in its context. It fails if one cannot be taken.
func (r *Reviews) planInContext(ctx context.Context, w *workspace, e *Entry) error {
	conflicts, err := w.plan(ctx, e.Steps, false)
	if err == nil && len(conflicts) > 0 {
		err = conflicting("nothing was done: the context changed these files since", conflicts)
	}
	return err
}

// removalsFirst orders steps: a removal can make room for a file or for a directory.
func removalsFirst(steps []step) []*step {
	out := make([]*step, len(steps))
	for i := range steps {
		out[i] = &steps[i]
	}
	slices.SortStableFunc(out, func(a, b *step) int { return cmp.Compare(taken{step: a}.rank(), taken{step: b}.rank()) })
	return out
}

// resolveInContext puts back what an interrupted entry did to its context.
func (r *Reviews) resolveInContext(ctx context.Context, e *Entry) error {
	err := r.cfg.Contexts.Changing(ctx, e.Context, func(root rootfs.Root, _ Charge) error {
		return r.workspaceIn(root).putBack(e)
	})
	if err != nil { // the context may be gone, or its driver; the server must start
		r.cfg.Log.Warn("an interrupted discard could not be put back", zap.String("context", e.Context), zap.Int64("entry", e.ID), zap.Error(err))
	}
	return r.journal.abandon(e)
}

// putBack undoes what was done of an entry that was begun.
func (w *workspace) putBack(e *Entry) error {
	w = w.making(e.Dirs)
	w.removeDirs(e.Made)
	return errors.Join(w.rewrite(e.Steps), w.close(e.Closed), w.flushInPlace(e))
}

// rewrite gives each path what it held before the steps, if it holds what they have written, or a part of that.
func (w *workspace) rewrite(steps []step) error {
	var errs []error
	w.whole = w.wholeOf(steps, func(s *step) Version { return s.Before })
	for _, done := range slices.Backward(removalsFirst(steps)) {
		s := *done
		s.Before, s.After, s.restores = s.After, s.Before, s.Kept
		now, _, err := w.store.keep(context.Background(), w.root, s.Path)
		if err == nil && done.did() == Created && !now.Exists() {
			w.pruneAbove(s.Path) // directories that were made for it can be in the way of another step
		}
		if err == nil && now.Same(s.Before) {
			err = w.writeInPlace(&s)
		} else if err == nil && now.Type == rootfs.TypeFile && !now.Same(s.After) {
			err = w.rewritePart(&s, now)
		}
		if err != nil {
			errs = append(errs, fserr.Wrap(err, "discard", "/"+string(s.Path), ""))
		}
	}
	return errors.Join(errs...)
}

// rewritePart takes back an overwrite that was interrupted.
func (w *workspace) rewritePart(s *step, now Version) error {
	if s.Before.Type != rootfs.TypeFile || s.After.Type != rootfs.TypeFile {
		return nil
	}
	is, err := w.store.isMix(now, s.Before, s.After)
	if err != nil || !is {
		return err
	}
	return w.overwrite(string(s.Path), s.After)
}

// isMix reports whether a content is what an interrupted overwrite of tail by head leaves. After a kill it begins as head, and continues as tail at
// the same offset. After a power failure each page may be of either, or empty.
func (s *Store) isMix(now, head, tail Version) (bool, error) {
	killed, err := s.continues(now, head, tail)
	if err != nil || killed {
		return killed, err
	}
	return s.isTorn(now, head, tail)
}

// continues reports whether a content begins as head, and continues as tail.
func (s *Store) continues(now, head, tail Version) (bool, error) {
	if now.Size != tail.Size && !(now.Size > tail.Size && now.Size <= head.Size) {
		return false, nil // the end is that of the tail, unless the head is longer
	}
	files, closeAll, err := s.openAll(now, head, tail)
	if err != nil {
		return false, err
	}
	defer closeAll()
	var pages [3][]byte
	var room [3][pageSize]byte
	for inHead := true; ; {
		for i, f := range files {
			n, err := io.ReadFull(f, room[i][:])
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return false, err
			}
			pages[i] = room[i][:n]
		}
		got := pages[0]
		if len(got) == 0 {
			return true, nil
		}
		if inHead && bytes.HasPrefix(pages[1], got) {
			continue
		}
		from := 0
		for inHead && from < min(len(got), len(pages[1])) && got[from] == pages[1][from] {
			from++
		}
		inHead = false
		if from < len(got) && (len(pages[2]) < len(got) || !bytes.Equal(got[from:], pages[2][from:len(got)])) {
			return false, nil
		}
	}
}

// pageSize is the unit in which a system writes content to the disk.
const pageSize = 4096

// isTorn reports whether a content has the length of one of two versions, and pages of either, or empty ones.
func (s *Store) isTorn(now, a, b Version) (bool, error) {
	if now.Size != a.Size && now.Size != b.Size {
		return false, nil
	}
	files, closeAll, err := s.openAll(now, a, b)
	if err != nil {
		return false, err
	}
	defer closeAll()
	var pages [3][pageSize]byte
	for rest := now.Size; rest > 0; rest -= pageSize {
		for i, f := range files {
			n, err := io.ReadFull(f, pages[i][:])
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return false, err
			}
			clear(pages[i][n:])
		}
		page := pages[0][:min(rest, pageSize)]
		if !bytes.Equal(page, pages[1][:len(page)]) && !bytes.Equal(page, pages[2][:len(page)]) && !bytes.Equal(page, make([]byte, len(page))) {
			return false, nil
		}
	}
	return true, nil
}

// openAll opens three contents.
func (s *Store) openAll(versions ...Version) (files [3]*bufio.Reader, closeAll func(), err error) {
	var open []io.Closer
	closeAll = func() {
		for _, f := range open {
			_ = f.Close() // it was only read
		}
	}
	for i, v := range versions {
		f, err := s.Open(v.Hash)
		if err != nil {
			closeAll()
			return files, nil, err
		}
		open, files[i] = append(open, f), bufio.NewReader(f)
	}
	return files, closeAll, nil
}

// writeInPlace makes a path of a context what a step says. Modes that the panel chose do not stop it: where a server without privileges may not write,
// the file and the directory are made writable, and the directory gets its mode back.
func (w *workspace) writeInPlace(s *step) error {
	err := w.tryInPlace(s)
	if fserr.CodeOf(err) != fserr.EACCES {
		return err
	}
	lock, unlockErr := w.unlock(s)
	if unlockErr != nil {
		return err
	}
	return errors.Join(w.tryInPlace(s), lock())
}

// unlock makes a file that is written in place, and the lowest directory above the path that exists, writable. lock gives the directory its mode back.
func (w *workspace) unlock(s *step) (lock func() error, err error) {
	p := string(s.Path)
	if st, err := w.root.Lstat(p); err == nil && st.Type() == rootfs.TypeFile && !w.hasOtherNames(s) {
		if err := w.root.Chmod(p, st.Perm()|0o600); err != nil {
			return nil, err
		}
	}
	dir := path.Dir(p)
	st, err := w.root.Lstat(dir)
	for ; fserr.CodeOf(err) == fserr.ENOENT; st, err = w.root.Lstat(dir) {
		dir = path.Dir(dir)
	}
	if err == nil {
		err = w.root.Chmod(dir, st.Perm()|0o700)
	}
	return func() error { return w.root.Chmod(dir, st.Perm()) }, err
}

// tryInPlace is writeInPlace where modes permit it.
func (w *workspace) tryInPlace(s *step) error {
	p := string(s.Path)
	switch {
	case s.did() == Unchanged:
		return nil
	case !s.After.Exists():
		err := w.root.Unlink(p)
		w.pruneAbove(s.Path)
		return err
	case s.Before.Type != s.After.Type || s.After.Type != rootfs.TypeFile || w.hasOtherNames(s):
		if s.away {
			w.prune(p) // a swap replaces no directory
		}
		return w.replace(s)
	}
	return w.overwrite(p, s.After)
}

// flushInPlace flushes the files that an entry wrote in place, or back, with their names.
func (w *workspace) flushInPlace(e *Entry) error {
	paths := dirsOf(e)
	for i := range e.Steps {
		if s := &e.Steps[i]; s.did() != Unchanged {
			paths[string(s.Path)] = true
		}
	}
	return tree.Flush(w.root, slices.Collect(maps.Keys(paths)))
}

// sharing is a file, by its inode, with what becomes of it.
type sharing struct {
	ino uint64
	to  Version
}

// wholeOf returns the files with several names, all of which the steps remove or make the same of.
func (w *workspace) wholeOf(steps []step, to func(s *step) Version) map[sharing]bool {
	names, all := map[sharing]uint64{}, map[uint64]uint64{}
	for i := range steps {
		s := &steps[i]
		if st, err := w.root.Lstat(string(s.Path)); err == nil && st.Nlink > 1 && s.did() != Unchanged {
			names[sharing{st.Ino, to(s)}]++
			all[st.Ino] = st.Nlink
		}
	}
	whole := map[sharing]bool{}
	for of, n := range names {
		if of.to.Exists() {
			n += names[sharing{ino: of.ino}] // the removed ones
		}
		whole[of] = n == all[of.ino]
	}
	return whole
}

// hasOtherNames reports whether the file of a step has a name that is to keep its content.
func (w *workspace) hasOtherNames(s *step) bool {
	st, err := w.root.Lstat(string(s.Path))
	return err == nil && st.Type() == rootfs.TypeFile && st.Nlink > 1 && !w.whole[sharing{st.Ino, s.After}]
}

// replace takes one step by a swap.
func (w *workspace) replace(s *step) (err error) {
	s.Tmp, s.seen = tree.PassingName(), seen{} // no call of late follows
	sw := w.newSwaps(func(string) {})
	defer func() { err = errors.Join(err, sw.dirs.Close()) }()
	if err := sw.add(s); err != nil {
		return err
	}
	conflicts, err := sw.take()
	if err == nil && len(conflicts) > 0 {
		err = conflicting("the context changed the file meanwhile", conflicts)
	}
	if err != nil {
		_, back := sw.back()
		return errors.Join(err, back)
	}
	return sw.done()
}

// overwrite writes a file as Node's writeFile does: the same inode, written and then cut.
func (w *workspace) overwrite(p string, v Version) (err error) {
	content, err := w.store.content(v)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	f, _, err := w.root.OpenNoFollow(p, rootfs.O_WRONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	to, err := sparse.Over(f)
	if err != nil {
		return err
	}
	if _, err := sparse.Copy(context.Background(), to, content); err != nil { // what has begun is not left half done
		return err
	}
	return errors.Join(to.Finish(), f.Chmod(v.Mode))
}
