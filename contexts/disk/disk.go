// Package disk moves, measures and removes whole directories of the state directory, and says how much space is left. It knows
// paths and no contexts.
//
// # Staging
//
// Everything that gets a name for others to see is first made in a staging directory and then renamed. Everything that is
// removed is first renamed into staging. A crash therefore leaves only garbage in staging, which the next start sweeps.
package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Staging is the directory in which others are made or removed. It is on the file system of everything that it serves.
type Staging struct {
	// Dir is its path.
	Dir string

	clearing context.Context //nolint:containedctx // bounds the removal of directories in the background
	log      *zap.Logger
}

// NewStaging returns the staging directory at dir. Discard removes nothing after clearing has ended.
func NewStaging(dir string, clearing context.Context, log *zap.Logger) *Staging { //nolint:revive // it is no call's context
	return &Staging{Dir: dir, clearing: clearing, log: log}
}

// Make makes an empty directory.
func (s *Staging) Make(kind string) (string, error) { return os.MkdirTemp(s.Dir, kind+"-") }

// With calls f with an empty directory and removes it afterwards.
func (s *Staging) With(kind string, f func(dir string) error) error {
	dir, err := s.Make(kind)
	if err != nil {
		return err
	}
	defer s.Discard(dir)
	return f(dir)
}

// Discard removes a staged directory. The next sweep removes what is left of it after a failure.
func (s *Staging) Discard(staged string) {
	if _, err := RemoveTree(s.clearing, staged); err != nil {
		s.log.Warn("staging could not be cleared", zap.Error(err))
	}
}

// Empty is Discard with a result: the number of entries in the directory, and the error.
func (s *Staging) Empty(staged string) (entries int64, err error) {
	n, err := RemoveTree(s.clearing, staged)
	return max(n-1, 0), err
}

// RemoveTree removes what is at a path, and returns the number of entries removed. It is no error if nothing is there.
func RemoveTree(ctx context.Context, path string) (removed int64, err error) {
	root, err := rootfs.Open(filepath.Dir(path), rootfs.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }()
	removed, err = root.RemoveAll(ctx, filepath.Base(path))
	if fserr.CodeOf(err) == fserr.ENOENT {
		err = nil
	}
	return removed, err
}

// MoveIfThere renames a directory to a free name. It is no error if the directory does not exist: people remove things by hand.
func MoveIfThere(from, to string) error {
	err := RenameNoReplace(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// renameChecked checks that a name is free before it renames. Systems that lack a rename which refuses use it.
func renameChecked(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fserr.EEXIST
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(from, to)
}
