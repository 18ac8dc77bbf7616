package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ctxfs/ctxfs/fserr"
)

// OpOpen marks the errors that say which file of a repository is no plain file.
const OpOpen = "open a file of a repository"

// NotPlain reports that a file of a repository, called name, is neither a plain file nor a directory. A FIFO would keep git waiting.
func NotPlain(name string) error {
	return &fserr.Error{
		Op: OpOpen, Code: fserr.EINVAL, Detail: fmt.Sprintf("%q is no plain file", name), Hint: "remove it, or put the file itself in its place",
	}
}

// The files that git opens before anything else: in a working tree, in the git directory, and in the common one, which is another directory for a
// linked working tree.
var (
	inTree   = []string{".git", ".gitattributes", ".gitignore", ".gitmodules"}
	inGit    = []string{"HEAD", "commondir", "gitdir", "index", "config.worktree"}
	inCommon = []string{"config", "packed-refs", "shallow", "info/attributes", "info/exclude", "objects/info/alternates"}
)

// maxGitFile bounds the files that git reads whole, in bytes.
const maxGitFile = 4 << 30

// checkPlain refuses a folder in which one of these files would keep git waiting. dir is a working tree or a git directory. What git finds further
// below is not looked at: the time of a command bounds that.
func checkPlain(dir string) error {
	place := ""
	check := func(at string, names []string) error {
		for _, name := range names {
			st, err := os.Stat(filepath.Join(at, filepath.FromSlash(name)))
			if err == nil && !st.IsDir() && (!endsAtOnce(st) || st.Size() > maxGitFile) {
				return NotPlain(place + name)
			}
		}
		return nil
	}
	if err := check(dir, inTree); err != nil {
		return err
	}
	own := dir
	switch st, err := os.Stat(filepath.Join(dir, ".git")); {
	case err != nil: // dir is a git directory
	case st.IsDir():
		own = filepath.Join(dir, ".git")
	default:
		own = pointedTo(filepath.Join(dir, ".git"), "gitdir: ", dir)
	}
	if own != dir || filepath.Base(dir) == ".git" {
		place = ".git/"
	}
	if err := check(own, inGit); err != nil {
		return err
	}
	return check(pointedTo(filepath.Join(own, "commondir"), "", own), inCommon)
}

// endsAtOnce reports whether a reader of a file comes to its end without a wait. The null device is in the place of files that a program is not to see.
func endsAtOnce(st fs.FileInfo) bool {
	if st.Mode().IsRegular() {
		return true
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(st, null)
}

// pointedTo returns the directory that a file of one line names, or otherwise. Git reports a file that is damaged.
func pointedTo(file, prefix, otherwise string) string {
	data, err := readPlain(file, maxLine)
	line, ok := strings.CutPrefix(strings.TrimSpace(string(data)), prefix)
	switch {
	case err != nil || !ok || line == "":
		return otherwise
	case filepath.IsAbs(filepath.FromSlash(line)):
		return filepath.FromSlash(line)
	}
	return filepath.Join(filepath.Dir(file), filepath.FromSlash(line))
}

// readPlain reads a plain file of at most limit bytes. It follows links, as git does, and never waits.
func readPlain(name string, limit int64) (data []byte, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if fserr.CodeOf(err) == fserr.ENXIO {
		return nil, NotPlain(filepath.Base(name)) // a socket
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !endsAtOnce(st) || st.Size() > limit {
		return nil, NotPlain(filepath.Base(name))
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// Obstacle explains an error that a file of the repository or its disk causes, and not what the repository has. It is nil for any other error.
func Obstacle(err error) *fserr.Error {
	if e, ok := errors.AsType[*fserr.Error](err); ok && e.Op == OpOpen {
		return e
	}
	if fserr.CodeOf(err) != fserr.ETIMEDOUT {
		return nil
	}
	return &fserr.Error{
		Code: fserr.ETIMEDOUT, Err: err, Detail: "git did not end in time: its disk is slow, or one of its files is no plain file, such as a FIFO",
		Hint: "remove the files that 'find . ! -type f ! -type d ! -type l' lists in it, and try again",
	}
}
