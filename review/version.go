package review

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Version is what stands at a path in one tree. The zero Version is nothing.
type Version struct {
	// Type is TypeFile, TypeSymlink, or TypeUnknown if there is nothing.
	Type rootfs.Type `json:"type,omitempty"`
	// Mode is the permission bits.
	Mode uint32 `json:"mode,omitempty"`
	// Size is that of the content, or of a link's target.
	Size int64 `json:"size,omitempty"`
	// Hash is the SHA-256 of the content or of a link's target, in hex; of a large content with blocks of zeros it is that of hasher.
	Hash string `json:"sha256,omitempty"`
}

// Exists reports whether there is something.
func (v Version) Exists() bool { return v.Type != rootfs.TypeUnknown }

// executable are the permission bits that count, as in git: whether somebody may execute a file.
const executable = 0o111

// Same reports whether both have the same type, content and executability.
func (v Version) Same(o Version) bool {
	return v.Type == o.Type && v.Hash == o.Hash && v.sameMode(o)
}

func (v Version) sameMode(o Version) bool {
	return v.Type != rootfs.TypeFile || (v.Mode&executable != 0) == (o.Mode&executable != 0)
}

// Path is relative to the root of a context and of the workspace, slash-separated, of any bytes but NUL. In JSON, one that is not UTF-8 is
// "=" and base64.
type Path string

// Within reports whether p is dir or below it; everything is below "".
func (p Path) Within(dir Path) bool { return isWithin(p, dir) }

// MarshalText implements encoding.TextMarshaler.
func (p Path) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(p)) && !strings.HasPrefix(string(p), "=") {
		return []byte(p), nil
	}
	return []byte("=" + base64.StdEncoding.EncodeToString([]byte(p))), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Path) UnmarshalText(text []byte) error {
	encoded, ok := strings.CutPrefix(string(text), "=")
	if !ok {
		*p = Path(text)
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	*p = Path(raw)
	return err
}

// errUnstable says that a file changed while it was read.
var errUnstable = errors.New("the file changed while it was read")

// isAbsent reports whether an error says that there is nothing at a path. What is below a link is at another path.
func isAbsent(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ENOENT || code == fserr.ENOTDIR || code == fserr.ELOOP
}

// absent returns ENOENT for errors that say that a tree has nothing at a path of another tree, which may have longer names, and directories instead of links.
func absent(err error, p Path) error {
	switch fserr.CodeOf(err) {
	case fserr.ENOTDIR, fserr.ELOOP, fserr.ENAMETOOLONG:
		return fserr.New("open", "/"+string(p), fserr.ENOENT)
	}
	return err
}

// lstat returns the attributes of what stands at a path of a tree. A path below a link, or below a file, is ENOENT.
func lstat(root rootfs.Root, p Path) (rootfs.Stat, error) {
	st, err := root.Lstat(string(p))
	if err == nil {
		err = checkAbove(root, p)
	}
	return st, absent(err, p)
}

// checkAbove fails with ENOENT unless all that is above a path is a directory.
func checkAbove(root rootfs.Root, p Path) error {
	dir := parentOf(p)
	if dir == "" || rootfs.Straight(root, string(dir)) {
		return nil
	}
	in, err := isInDirectories(root, p, map[Path]bool{})
	if err == nil && !in {
		err = fserr.New("open", "/"+string(p), fserr.ENOENT)
	}
	return err
}

// isInDirectories reports whether all that is above p is a directory. known has directories that were looked at.
func isInDirectories(root rootfs.Root, p Path, known map[Path]bool) (bool, error) {
	for at := range p {
		if p[at] != '/' || known[p[:at]] {
			continue
		}
		st, err := root.Lstat(string(p[:at]))
		if isAbsent(err) || (err == nil && st.Type() != rootfs.TypeDirectory) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		known[p[:at]] = true
	}
	return true, nil
}

// readVersion reads what stands at path in a tree, and its content through use. A file that changes meanwhile is errUnstable. What is neither a
// file nor a link has its type only. A path below a link, or below a file, is ENOENT. It fails with errLater as reader.known does.
func readVersion(ctx context.Context, root rootfs.Root, path Path, use reader) (Version, rootfs.Stat, error) {
	st, err := root.Lstat(string(path))
	if err == nil && st.Type() != rootfs.TypeFile { // readFile follows no link
		err = checkAbove(root, path)
	}
	if err != nil {
		return Version{}, st, absent(err, path)
	}
	v := Version{Type: st.Type(), Mode: st.Perm()}
	switch v.Type {
	case rootfs.TypeSymlink:
		target, err := root.Readlink(string(path))
		if err != nil {
			return v, st, err
		}
		v.Mode = 0o777
		v.Hash, v.Size, err = use.read(ctx, strings.NewReader(target))
		return v, st, err
	case rootfs.TypeFile:
		return readFile(ctx, root, path, use)
	}
	return v, st, nil
}

func readFile(ctx context.Context, root rootfs.Root, path Path, use reader) (v Version, st rootfs.Stat, err error) {
	f, st, err := root.OpenNoFollow(string(path), rootfs.O_RDONLY)
	if err != nil {
		return v, st, absent(err, path)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	v = Version{Type: rootfs.TypeFile, Mode: st.Perm(), Size: st.Size}
	if v.Hash, err = use.known(ctx, root, path, st); v.Hash != "" || err != nil {
		return v, st, err
	}
	v, err = use.file(ctx, f, st)
	return v, st, err
}

// content reads a whole version, which must not be larger than MaxText.
func content(open func() (io.ReadCloser, error)) (data []byte, err error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data, err = io.ReadAll(io.LimitReader(r, MaxText+1))
	if err == nil && len(data) > MaxText {
		err = fmt.Errorf("a version is larger than %d bytes", MaxText)
	}
	return data, err
}
