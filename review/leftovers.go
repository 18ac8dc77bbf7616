package review

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
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
	return syncDir(filepath.Dir(name))
}

// syncDir flushes the names of a directory to the disk, where the system and the file system can do that.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // which opens no directory for writing
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
