package overlay

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/ctxfs/ctxfs/fserr"
)

// maxParts bounds the parts below a context. Each look-up of a name that is missing in the upper ones costs one more step in the kernel,
// and before Linux 6.13 all lower directories must be named within 255 bytes.
const maxParts = 12

// Parts implements driver.Sharer.
func (d *Driver) Parts() string { return d.opts.Parts }

// part returns the directory of a part.
func (d *Driver) part(name string) string { return filepath.Join(d.opts.Parts, name) }

// partDirs returns the directories of parts.
func (d *Driver) partDirs(names []string) []string {
	dirs := make([]string, len(names))
	for i, name := range names {
		dirs[i] = d.part(name)
	}
	return dirs
}

// PartsOf implements driver.Sharer.
func (d *Driver) PartsOf(state string) ([]string, error) {
	var names []string
	for dir := state; ; dir = d.part(names[len(names)-1]) {
		name, err := os.Readlink(filepath.Join(dir, baseName))
		switch {
		case errors.Is(err, os.ErrNotExist):
			return names, nil
		case err != nil:
			return nil, stateError("readlink", err)
		case d.opts.Parts == "" || name != filepath.Base(name) || len(names) == maxParts:
			return nil, &fserr.Error{Op: "readlink", Code: fserr.EIO, Detail: "the context's state is damaged", Hint: restoreHint}
		}
		names = append(names, name)
	}
}

// restoreHint is the remedy for a state, a part or a layer that is gone.
const restoreHint = "restore the state directory from a backup, or delete the context"

// stateError is about the context's own files, whose paths must not travel.
func stateError(op string, err error) error {
	return &fserr.Error{Op: op, Code: fserr.CodeOf(err), Err: err}
}
