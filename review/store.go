package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Store keeps contents by their SHA-256:
//
//	<dir>/<first two digits>/<sha256>
//
// A file that has its name is complete, and never changes. It is safe for concurrent use, also by several processes.
type Store struct{ dir string }

// OpenStore returns the store of dir, which it makes when it is missing.
func OpenStore(dir string) (*Store, error) {
	return &Store{dir}, os.MkdirAll(dir, 0o700)
}

func (s *Store) path(hash string) string { return filepath.Join(s.dir, hash[:2], hash) }

// buffers are for reading contents.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// Put keeps what r returns, and returns its SHA-256 in hex and its size. It writes nothing for a content of less than 64 KiB that is there already.
func (s *Store) Put(r io.Reader) (hash string, size int64, err error) {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	n, err := io.ReadFull(r, buf[:])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		sum := sha256.Sum256(buf[:n])
		if hash = hex.EncodeToString(sum[:]); s.has(hash) {
			return hash, int64(n), nil
		}
	case err != nil:
		return "", 0, err
	}
	return s.write(io.MultiReader(bytes.NewReader(buf[:n]), r))
}

// write is Put for a content that may be new.
func (s *Store) write(r io.Reader) (hash string, size int64, err error) {
	f, err := os.CreateTemp(s.dir, "new-")
	if err != nil {
		return "", 0, err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if e := os.Remove(f.Name()); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	h := sha256.New()
	if size, err = io.Copy(io.MultiWriter(f, h), r); err != nil {
		return "", 0, err
	}
	hash = hex.EncodeToString(h.Sum(nil))
	if _, err := os.Lstat(s.path(hash)); err == nil {
		return hash, size, nil
	}
	if err := errors.Join(f.Chmod(0o400), os.MkdirAll(filepath.Dir(s.path(hash)), 0o700)); err != nil {
		return "", 0, err
	}
	return hash, size, os.Rename(f.Name(), s.path(hash))
}

// Open opens a content. fs.ErrNotExist says that the store does not have it.
func (s *Store) Open(hash string) (*os.File, error) {
	if len(hash) != hex.EncodedLen(sha256.Size) {
		return nil, fs.ErrNotExist
	}
	return os.Open(s.path(hash))
}

// opener opens the content of a version.
func (s *Store) opener(v Version) opener {
	return func() (io.ReadCloser, error) { return s.Open(v.Hash) }
}

// text reads the content of a version, which must not be larger than MaxText, and checks that it is the one that its name says.
func (s *Store) text(v Version) ([]byte, error) {
	return side(v, func() (io.ReadCloser, error) { return s.Open(v.Hash) })
}

// has reports whether the store has a content.
func (s *Store) has(hash string) bool {
	_, err := os.Lstat(s.path(hash))
	return err == nil
}
