package contexts

import (
	"errors"
	"io/fs"
	"os"

	"github.com/ctxfs/ctxfs/fserr"
)

// renameChecked looks before it renames, where the system has no rename that refuses.
func renameChecked(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fserr.EEXIST
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(from, to)
}
