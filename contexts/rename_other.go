//go:build !linux

package contexts

// renameNoReplace moves a directory to a name that must be free: EEXIST
// otherwise. The lock of the context keeps other ctxfs processes away between check and rename.
func renameNoReplace(from, to string) error { return renameChecked(from, to) }
