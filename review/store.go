package review

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/sparse"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Store keeps contents by their hash (Version.Hash):
//
//	<dir>/<first two digits>/<hash>
//
// A file that has its name is complete, and never changes, unless a power failure took what was not flushed: Put writes such a content again. It is
// safe for concurrent use, also by several processes.
type Store struct {
	dir string
	// hashes are those of large files, in contexts and elsewhere, that were read last.
	hashes hashes
	mu     sync.Mutex
	// sound are contents that this process has written or read, with the modification time of those that it has flushed.
	sound map[string]time.Time
	uses  uses
	// written is how many bytes were written since contents were collected last.
	written atomic.Int64
}

// OpenStore returns the store of dir, which it makes when it is missing.
func OpenStore(dir string) (*Store, error) {
	return &Store{dir: dir}, durable.MkdirAll(dir, 0o700)
}

func (s *Store) path(hash string) string { return filepath.Join(s.dir, hash[:2], hash) }

// buffers are for reading contents.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// Put keeps what r returns, and returns its hash and its size. It writes nothing for a content of less than 64 KiB that is there already, and no holes of
// a file. It ends with the cause of ctx when ctx ends.
func (s *Store) Put(ctx context.Context, r io.Reader) (hash string, size int64, err error) {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	n, err := io.ReadFull(r, buf[:])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		sum := sha256.Sum256(buf[:n])
		if hash = hex.EncodeToString(sum[:]); s.has(ctx, hash) {
			return hash, int64(n), nil
		}
		return hash, int64(n), s.create(func(f *os.File) (string, int64, error) {
			_, err := f.Write(buf[:n])
			return hash, int64(n), err
		})
	case err != nil:
		return "", 0, err
	}
	err = s.create(func(f *os.File) (_ string, data int64, err error) {
		to := &placing{hasher: newHasher(), out: sparse.Writer(f)}
		if _, err = to.Write(buf[:n]); err != nil {
			return "", 0, err
		}
		if size, err = sparse.Copy(ctx, to, r); err != nil {
			return "", 0, err
		}
		if err = to.out.Finish(); err != nil {
			return "", 0, err
		}
		hash, size = to.name(), int64(n)+size
		if s.has(ctx, hash) {
			return "", 0, nil
		}
		return hash, to.data, nil
	})
	if err != nil {
		return "", 0, err
	}
	return hash, size, nil
}

// placing is a content that is hashed and written.
type placing struct {
	*hasher
	out *sparse.FileSink
	// data counts the bytes that are in no hole.
	data int64
}

func (p *placing) Write(b []byte) (int, error) {
	_, _ = p.hasher.Write(b) // it does not fail
	p.data += int64(len(b))
	return p.out.Write(b)
}

func (p *placing) Hole(n int64) error {
	return errors.Join(p.hasher.Hole(n), p.out.Hole(n))
}

// create adds the content that fill writes, and whose hash it returns with the number of bytes that are in no hole. It adds none if the hash is "".
func (s *Store) create(fill func(f *os.File) (hash string, data int64, err error)) (err error) {
	f, err := os.CreateTemp(s.dir, newPrefix)
	if err != nil {
		return err
	}
	placed := false
	defer func() {
		err = errors.Join(err, f.Close())
		if !placed {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	hash, data, err := fill(f)
	if err != nil || hash == "" {
		return err
	}
	if err := f.Chmod(0o400); err != nil {
		return err
	}
	err = os.Rename(f.Name(), s.path(hash))
	if errors.Is(err, fs.ErrNotExist) { // the first content with these digits
		if err = os.MkdirAll(filepath.Dir(s.path(hash)), 0o700); err == nil {
			err = os.Rename(f.Name(), s.path(hash))
		}
	}
	if errors.Is(err, fs.ErrPermission) && os.Chmod(s.path(hash), 0o600) == nil { // Windows replaces no file that is read-only
		err = os.Rename(f.Name(), s.path(hash))
	}
	if placed = err == nil; placed {
		s.remember(hash)
		s.written.Add(max(data, leastSpace))
	}
	return err
}

// flush puts contents on the disk, but for those that it has put there before.
func (s *Store) flush(hashes map[string]bool) error {
	dirs := []string{s.dir}
	var contents []string
	for hash := range hashes {
		if len(hash) == hex.EncodedLen(sha256.Size) && !s.isFlushed(hash) {
			contents, dirs = append(contents, hash), append(dirs, filepath.Dir(s.path(hash)))
		}
	}
	if len(contents) == 0 {
		return nil
	}
	flushed := map[string]time.Time{}
	for _, hash := range contents {
		if st, err := os.Lstat(s.path(hash)); err == nil { // a caller that needs a missing content reports it
			flushed[hash] = st.ModTime()
		}
	}
	slices.Sort(dirs)
	if err := s.flushFiles(contents, slices.Compact(dirs)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, at := range flushed {
		if _, sound := s.sound[hash]; sound {
			s.sound[hash] = at
		}
	}
	return nil
}

// flushFiles flushes contents, and the names in directories of the store, as far as they are there.
func (s *Store) flushFiles(contents, dirs []string) error {
	top, err := os.Open(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	done, err := durable.Whole(int(top.Fd()), len(contents)+len(dirs))
	if err = errors.Join(err, top.Close()); done || err != nil {
		return err
	}
	ignoringMissing := func(flush func(string) error) func(string) error {
		return func(name string) error {
			if err := flush(name); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
	}
	err = durable.Each(contents, ignoringMissing(func(hash string) error {
		f, err := s.Open(hash)
		if err != nil {
			return err
		}
		return errors.Join(ignoringReadOnly(f.Sync()), f.Close())
	}))
	return errors.Join(err, durable.Each(dirs, ignoringMissing(func(dir string) error { return durable.Names(dir) })))
}

// isFlushed reports whether flush has put a content on the disk that is still the same file: another process may have removed and written it again.
func (s *Store) isFlushed(hash string) bool {
	s.mu.Lock()
	at := s.sound[hash]
	s.mu.Unlock()
	st, err := os.Lstat(s.path(hash))
	return err == nil && !at.IsZero() && st.ModTime().Equal(at)
}

// ignoringReadOnly drops the error of a system that flushes only what is open for writing (Windows).
func ignoringReadOnly(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Open opens a content. fs.ErrNotExist says that the store does not have it.
func (s *Store) Open(hash string) (*os.File, error) {
	if len(hash) != hex.EncodedLen(sha256.Size) {
		return nil, fs.ErrNotExist
	}
	return statedir.OpenFile(s.path(hash), os.O_RDONLY, 0)
}

// content opens the content of a version, which the store should have. A power failure may have taken one that was not
// flushed: content reads those once that this process has neither written nor read, but no large ones, since others wait.
func (s *Store) content(v Version) (*os.File, error) {
	f, err := s.Open(v.Hash)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, lostContent("missing")
	}
	if err != nil || v.Size >= largeContent || s.isSound(v.Hash) {
		return f, err
	}
	h := newHasher()
	if _, err = sparse.Copy(context.Background(), h, f); err == nil && h.name() != v.Hash {
		err = lostContent("damaged")
	}
	if err == nil {
		s.remember(v.Hash)
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func lostContent(how string) error {
	detail := "a reviewed content is " + how + " in the state directory"
	return &fserr.Error{Code: fserr.EIO, Detail: detail, Hint: "decide on the file again"}
}

// opener opens the content of a version.
func (s *Store) opener(v Version) opener {
	return func() (io.ReadCloser, error) { return s.Open(v.Hash) }
}

// text reads the content of a version, which must not be larger than MaxText, and checks that it is the one that its name says.
func (s *Store) text(v Version) ([]byte, error) {
	return side(v, func() (io.ReadCloser, error) { return s.Open(v.Hash) })
}

// maxSound bounds the names that the store remembers.
const maxSound = 100_000

// has reports whether the store has a content, whole. It reads one that it has not written or read yet, but no large one while the call keeps others
// out of a context: the call then reads and puts it beside the context. It has no content of a file that was not read, whose hash is "".
func (s *Store) has(ctx context.Context, hash string) bool {
	if hash == "" {
		return false
	}
	s.uses.touch(hash)
	st, err := os.Lstat(s.path(hash))
	if err != nil {
		return false
	}
	if s.isSound(hash) {
		return true
	}
	if st.Size() >= largeContent && ctx.Value(besideKey{}) != nil {
		return false
	}
	return s.isWhole(ctx, hash)
}

// isSound reports whether this process has written a content, or has read it and found it whole.
func (s *Store) isSound(hash string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, sound := s.sound[hash]
	return sound
}

// isWhole reads a content, and reports whether it is the one that its name says.
func (s *Store) isWhole(ctx context.Context, hash string) bool {
	f, err := s.Open(hash)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	h := newHasher()
	if _, err := sparse.Copy(ctx, h, f); err != nil || h.name() != hash {
		return false
	}
	s.remember(hash)
	return true
}

func (s *Store) remember(hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sound == nil {
		s.sound = map[string]time.Time{}
	}
	for other := range s.sound {
		if len(s.sound) < maxSound {
			break
		}
		delete(s.sound, other) // any one
	}
	s.sound[hash] = time.Time{}
}
