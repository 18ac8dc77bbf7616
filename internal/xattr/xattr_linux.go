// Package xattr copies extended attributes between files of the server's own.
package xattr

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSize is the most that names or a value may take (XATTR_LIST_MAX, XATTR_SIZE_MAX), in bytes.
const maxSize = 64 << 10

// Overlay begins the names of what overlayfs notes with the option userxattr. On a file that was not made by that mount they
// would hide or redirect what is there.
const Overlay = "user.overlay."

// kept reports whether an attribute is one that CopyUser copies: user.*, except those of overlayfs.
func kept(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, Overlay)
}

// CopyUser gives dst the user.* attributes of src, but for overlayfs's; neither is followed when it is a symbolic link, which has
// none. Both are names, so they must be out of everybody else's reach. A dst that its owner may
// not write to is made writable (mode 0600): the caller sets modes afterwards.
func CopyUser(src, dst string) error {
	// Most files have none: asking for the length alone needs no memory.
	if n, err := unix.Llistxattr(src, nil); n == 0 || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	names := make([]byte, maxSize)
	n, err := unix.Llistxattr(src, names)
	if err != nil {
		return fmt.Errorf("list xattrs: %w", err)
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !kept(name) {
			continue
		}
		if err := copyOne(src, dst, name); err != nil {
			return fmt.Errorf("copy xattr %s: %w", name, err)
		}
	}
	return nil
}

// ReplaceUser is CopyUser after which dst has no other user.* attributes than src.
func ReplaceUser(src, dst string) error {
	names := make([]byte, maxSize)
	n, err := unix.Llistxattr(dst, names)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list xattrs: %w", err)
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		if err := unix.Lremovexattr(dst, name); err != nil {
			return fmt.Errorf("remove xattr %s: %w", name, err)
		}
	}
	return CopyUser(src, dst)
}

func copyOne(src, dst, name string) error {
	value := make([]byte, maxSize)
	n, err := unix.Lgetxattr(src, name, value)
	if err != nil {
		return err
	}
	err = unix.Lsetxattr(dst, name, value[:n], 0)
	if errors.Is(err, unix.EACCES) {
		if err := unix.Chmod(dst, 0o600); err != nil {
			return err
		}
		return unix.Lsetxattr(dst, name, value[:n], 0)
	}
	return err
}

// Set gives the file at a path attributes, by name. It does not follow a symbolic link. The path must be out of everybody else's reach.
func Set(path string, attrs map[string][]byte) error {
	for name, value := range attrs {
		if err := unix.Lsetxattr(path, name, value, 0); err != nil {
			return fmt.Errorf("set xattr %s: %w", name, err)
		}
	}
	return nil
}
