package template

import (
	"bufio"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// Bounds of refs: how far one may point to another (git's own is 5), and of packed-refs, in bytes.
const (
	maxSymref     = 5
	maxPackedRefs = 256 << 20
)

// follow returns the object that a ref names, "" when the repository has no such
// ref. It reads what gitrepository-layout(5) describes; HEAD is the worktree's own.
func (l *localRepo) follow(ref string) (string, error) {
	for range maxSymref {
		value, err := l.ref(ref)
		if err != nil || value == "" || isObjectID(value) {
			return value, err
		}
		target, ok := strings.CutPrefix(value, "ref: ")
		target = strings.TrimSpace(target)
		if !ok || !strings.HasPrefix(target, "refs/") || checkRef(target) != nil {
			return "", &fserr.Error{Code: fserr.EINVAL, Detail: "its ref " + ref + " is damaged"}
		}
		ref = target
	}
	return "", &fserr.Error{Code: fserr.EINVAL, Detail: "its refs name one another in a circle"}
}

// ref reads one ref: an ID, or "ref: " and another one's name.
func (l *localRepo) ref(ref string) (string, error) {
	dir := l.common
	if ref == "HEAD" {
		dir = l.git
	}
	line, err := l.line(path.Join(dir, ref))
	switch fserr.CodeOf(err) {
	case 0:
		return line, nil
	case fserr.ENOENT, fserr.ENOTDIR, fserr.ENAMETOOLONG:
		return l.packed(ref)
	}
	return "", err
}

// noReftable refuses the other way to keep refs, which is not read here.
func (l *localRepo) noReftable() error {
	if _, err := l.root.Lstat(path.Join(l.common, "reftable")); err != nil {
		return nil //nolint:nilerr // there is none
	}
	return &fserr.Error{
		Code: fserr.EOPNOTSUPP, Detail: "it keeps its refs in a reftable", Hint: "run git refs migrate --ref-format=files in it",
	}
}

// packed looks a ref up in packed-refs.
func (l *localRepo) packed(ref string) (string, error) {
	f, err := l.open(path.Join(l.common, "packed-refs"))
	if fserr.CodeOf(err) == fserr.ENOENT {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return scanPacked(io.LimitReader(f, maxPackedRefs), ref)
}

// scanPacked finds the line "ID SP ref".
func scanPacked(r io.Reader, ref string) (string, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), 64<<10)
	for lines.Scan() {
		id, name, ok := strings.Cut(lines.Text(), " ")
		if ok && name == ref && isObjectID(id) {
			return id, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: "its packed-refs is damaged", Err: errors.Unwrap(err)}
	}
	return "", nil
}
