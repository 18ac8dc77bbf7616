// Package statedir opens a server's state directory, WORKSPACE/.contexts/.ctxfs, once it is clear whose it is, and reads files in it.
// It must never believe what another user could have put there, follow a link out of it, or wait for a FIFO.
package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Name is the state directory's name in a contexts directory.
const Name = ".ctxfs"

// ForeignError reports that a directory belongs to another user, who could put anything there.
type ForeignError struct {
	// Dir is the directory, Contexts the contexts directory, which it is or is in.
	Dir, Contexts string
	// Owner is the directory's user ID, Self that of this process.
	Owner, Self int
}

// Error names the flag and the setting that permit it.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s belongs to uid %d, not to you (uid %d), so it is not believed unless --trust-dir or CTXFS_TRUST_DIR names %s",
		e.Dir, e.Owner, e.Self, e.Contexts)
}

// Check fails with a *ForeignError if a contexts directory, or the state directory in it, belongs to another user. trusted are contexts
// directories that may belong to anybody. A directory that is missing belongs to nobody.
func Check(contexts string, trusted []string) error {
	if Trusts(trusted, contexts) {
		return nil
	}
	// Root may own the directory of the contexts: root reaches everything.
	if err := owned(contexts, contexts, os.Geteuid(), 0); err != nil {
		return err
	}
	return owned(filepath.Join(contexts, Name), contexts, os.Geteuid())
}

func owned(dir, contexts string, users ...int) error {
	st, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return ownedBy(st, dir, contexts, users...)
}

func ownedBy(st fs.FileInfo, dir, contexts string, users ...int) error {
	owner, ok := Owner(st)
	if !ok || slices.Contains(users, owner) {
		return nil
	}
	return &ForeignError{Dir: dir, Contexts: contexts, Owner: owner, Self: os.Geteuid()}
}

// Trusts reports whether a list of contexts directories has one.
func Trusts(list []string, contexts string) bool {
	return slices.ContainsFunc(list, func(dir string) bool {
		abs, err := filepath.Abs(dir)
		return dir != "" && err == nil && abs == filepath.Clean(contexts)
	})
}

// Dir is a state directory that is open. What is read stays in it, also if somebody exchanges the directories above.
type Dir struct {
	// Path is where it was.
	Path string
	// Info describes the directory that is open.
	Info fs.FileInfo
	root *os.Root
}

// Open opens the state directory of a contexts directory. It fails with fs.ErrNotExist if there is none, and with a *ForeignError as
// Check does. Other users must have no access to the directory, even if it is trusted.
func Open(contexts string, trusted []string) (*Dir, error) {
	d := &Dir{Path: filepath.Join(contexts, Name)}
	st, err := os.Lstat(d.Path)
	if err == nil {
		err = Check(contexts, trusted)
	}
	if err == nil && (!st.IsDir() || tooOpen(st, 0o077)) {
		err = d.untidy("a directory with mode 0700")
	}
	if err != nil {
		return nil, err
	}
	if d.root, err = os.OpenRoot(d.Path); err != nil {
		return nil, err
	}
	// Only what is open counts. It is what was looked at, unless somebody exchanged the directories meanwhile.
	if d.Info, err = d.root.Stat("."); err == nil && !os.SameFile(st, d.Info) {
		err = fmt.Errorf("%s changed while it was opened", d.Path)
	}
	if err == nil && !Trusts(trusted, contexts) {
		err = ownedBy(d.Info, d.Path, contexts, os.Geteuid())
	}
	if err != nil {
		return nil, errors.Join(err, d.root.Close())
	}
	return d, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

func (d *Dir) untidy(want string) error {
	return fmt.Errorf("%s is not %s, so it is not believed", d.Path, want)
}

// ReadFile reads a regular file of at most limit bytes that belongs to the directory's owner, and that nobody else may change. Of a
// secret file nobody else has any permission. It fails with fs.ErrNotExist if there is none.
func (d *Dir) ReadFile(name string, limit int64, secret bool) (data []byte, err error) {
	st, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	file := &Dir{Path: filepath.Join(d.Path, name)}
	if !st.Mode().IsRegular() {
		return nil, file.untidy("a regular file")
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|Flags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if st, err = f.Stat(); err != nil {
		return nil, err
	}
	owner, ok := Owner(st)
	dirs, _ := Owner(d.Info)
	forbidden := fs.FileMode(0o022)
	if secret {
		forbidden = 0o077
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, file.untidy("a regular file")
	case ok && owner != dirs:
		return nil, file.untidy("the file of its directory's owner")
	case tooOpen(st, forbidden):
		return nil, file.untidy(fmt.Sprintf("closed to others (mode %04o)", st.Mode().Perm()))
	case st.Size() > limit:
		return nil, file.untidy(fmt.Sprintf("of at most %d bytes", limit))
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// NotPlainError reports that a file of a server's own is no plain file, or is too large.
type NotPlainError struct {
	Path string
	// Is describes what is there.
	Is string
}

// Error names the file and the remedy.
func (e *NotPlainError) Error() string {
	return fmt.Sprintf("%s is not the file that ctxfs wrote (%s): remove it, or put the file itself in its place", e.Path, e.Is)
}

// kinds are the words for what may be in the place of a file.
var kinds = map[fs.FileMode]string{
	fs.ModeDir: "a directory", fs.ModeSymlink: "a link", fs.ModeNamedPipe: "a FIFO", fs.ModeSocket: "a socket",
}

func plain(path string, st fs.FileInfo) error {
	if st.Mode().IsRegular() {
		return nil
	}
	kind := kinds[st.Mode().Type()]
	if kind == "" {
		kind = "a device"
	}
	return &NotPlainError{path, kind}
}

// OpenFile is os.OpenFile for a regular file in a directory whose owner may be another user. It follows no link in the place of the file
// and never waits. It fails with a *NotPlainError for anything but a regular file.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	if st, err := os.Lstat(path); err == nil {
		if err := plain(path, st); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, flag|Flags, perm)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat() // the owner may have exchanged the file since
	if err == nil {
		err = plain(path, st)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadFile reads a file that OpenFile opens. It fails with a *NotPlainError if the file has more than limit bytes.
func ReadFile(path string, limit int64) (data []byte, err error) {
	f, err := OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(data)) > limit {
		return nil, &NotPlainError{path, fmt.Sprintf("it has more than %d bytes", limit)}
	}
	return data, err
}

// WriteFile is os.WriteFile for a file that OpenFile opens.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	f, err := OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Bounds of files in the state directory, in bytes: of one that names something, and of one that lists files.
const (
	MaxRecord = 64 << 10
	MaxList   = 1 << 30
)

// LockFlags are the flags for opening the file of a lock.
const LockFlags = os.O_CREATE | os.O_RDONLY | Flags
