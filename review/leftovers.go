package review

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/internal/durable"
)

// newPrefix begins the names of files of the state folder that are being written.
const newPrefix = "new-"

// sweepState removes what a killed server left in the state folder: files that it was writing, and the directories of its git commands. The
// caller is the only process that uses the folder.
func (r *Reviews) sweepState() error {
	errs := []error{removeWithin(r.ws.scratch, "")}
	dirs := []string{r.states.dir, r.journal.dir, r.known.dir, r.listed.dir, r.store.dir}
	submitted, err := os.ReadDir(r.revisions.dir)
	errs = append(errs, err)
	for _, e := range submitted {
		dirs = append(dirs, r.revisions.of(e.Name()))
	}
	for _, dir := range dirs {
		errs = append(errs, removeWithin(dir, newPrefix))
	}
	return errors.Join(errs...)
}

// removeWithin removes the entries of a directory whose names begin with prefix.
func removeWithin(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	errs := []error{err}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// replaceDurably is replaceFile for what must be there after a power loss once it returns.
func replaceDurably(name string, data []byte) error {
	if err := replaceFile(name, data); err != nil {
		return err
	}
	return durable.Names(filepath.Dir(name))
}
