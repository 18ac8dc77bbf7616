package rootfs

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Realpath returns where path leads.
func (r *linuxRoot) Realpath(path string) (string, error) {
	var err error
	for range maxRetries {
		var name string
		name, err = r.realpath(path)
		if err != errRenamed {
			return name, failed(err, "realpath", path)
		}
	}
	return "", failed(errBusy, "realpath", path)
}

// errRenamed tells that a name was no longer its file's when it was checked.
var errRenamed = unix.ESTALE

func (r *linuxRoot) realpath(path string) (name string, err error) {
	fd, err := r.openPath(path, unix.O_PATH, 0)
	if err != nil {
		return "", err
	}
	defer closeFD(fd)
	err = r.dir.use(func(root int) error {
		name, err = r.nameOf(root, fd, path)
		return err
	})
	return name, err
}

// nameOf is the virtual path of what fd holds: by /proc, else by walking path again.
func (r *linuxRoot) nameOf(root, fd int, path string) (string, error) {
	st, err := statFD(fd)
	if err != nil {
		return "", err
	}
	if st.Nlink == 0 {
		return "", unix.ENOENT
	}
	whole, err := readlinkAt(unix.AT_FDCWD, procFD(fd))
	if err != nil {
		return r.walkedName(root, path)
	}
	top, err := readlinkAt(unix.AT_FDCWD, procFD(root))
	if err != nil {
		return "", err
	}
	name, under := virtualName(top, whole)
	if !under {
		return "", errOutside
	}
	return name, r.confirm(name, st)
}

// virtualName cuts the root's own path off a path below it.
func virtualName(top, whole string) (name string, under bool) {
	if whole == top {
		return "/", true
	}
	rest, under := strings.CutPrefix(whole, strings.TrimSuffix(top, "/")+"/")
	return "/" + rest, under
}

// confirm checks that name is st's: /proc marks what lost its name with " (deleted)",
// which is a good name, too.
func (r *linuxRoot) confirm(name string, st Stat) error {
	fd, err := r.openPath(name, unix.O_PATH|unix.O_NOFOLLOW, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		defer closeFD(fd)
		now, err := statFD(fd)
		if err == nil && now.Dev == st.Dev && now.Ino == st.Ino {
			return nil
		}
	}
	if strings.HasSuffix(name, " (deleted)") {
		return unix.ENOENT
	}
	return errRenamed
}

func (r *linuxRoot) walkedName(root int, path string) (string, error) {
	w := r.newWalk(root, path)
	defer w.close()
	w.follow = true
	e, err := w.run()
	if err != nil {
		return "", err
	}
	if e.base != "" && e.fd < 0 {
		return "", unix.ENOENT
	}
	if e.fd >= 0 {
		closeFD(e.fd)
	}
	return w.virtual(e), nil
}
