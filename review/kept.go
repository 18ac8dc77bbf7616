package review

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// Kept says what reviews keep on disk.
type Kept struct {
	// Bytes is the size of all files.
	Bytes int64
	// Contents counts versions of files, Entries those of the log, Revisions what was submitted.
	Contents, Entries, Revisions int64
}

// Measure looks at what the reviews in dir keep, also while a server runs. Nothing is kept in a directory that does not exist.
func Measure(ctx context.Context, dir string) (k Kept, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return ctx.Err()
		}
		if err != nil || d.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		k.Bytes += info.Size()
		rel, err := filepath.Rel(dir, name)
		kind, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		switch {
		case kind == "blobs":
			k.Contents++
		case kind == "journal" && strings.HasSuffix(name, doneSuffix):
			k.Entries++
		case kind == "revisions":
			k.Revisions++
		}
		return err
	})
	return k, err
}
