package review

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/seed"
)

// knownFiles keeps, for each context, which files are equal to its layer, so that a comparison need not read them. It is a cache: a file that
// is missing, or damaged, costs one comparison of contents.
type knownFiles struct{ dir string }

func (k knownFiles) file(id string) string { return filepath.Join(k.dir, id) }

// read returns the marks of a context, nil when there are none of this layer.
func (k knownFiles) read(id, digest string) seed.Marks { return seed.ReadMarks(k.file(id), digest) }

func (k knownFiles) write(id, digest string, marks seed.Marks) error {
	return marks.Write(k.file(id), digest)
}

// replace takes a file of marks, which may be missing, instead of those that a name has.
func (k knownFiles) replace(id, marks string) error {
	err := os.Remove(k.file(id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if marks == "" {
		return nil
	}
	if err = os.Rename(marks, k.file(id)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (k knownFiles) remove(id string) { _ = os.Remove(k.file(id)) } // a cache

// removeAll removes the marks of all names with a prefix.
func (k knownFiles) removeAll(prefix string) error {
	entries, err := os.ReadDir(k.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			k.remove(e.Name())
		}
	}
	return err
}
