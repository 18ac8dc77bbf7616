package rootfs

import (
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// begin watches the top: a directory with what is below, or a file.
func (w *treeWatcher) begin() error {
	if w.file {
		return w.addFile()
	}
	err := w.add("", nil)
	if fserr.CodeOf(err) == fserr.ENOTDIR && w.id == (fileID{}) && w.path[len(w.path)-1] != '/' {
		w.file = true
		return w.addFile()
	}
	return err
}

// open opens the directory at rel by going down from the top, following no link below it.
func (w *treeWatcher) open(rel string) (dirNode, error) {
	n, err := w.root.node(w.path, true)
	if err != nil {
		return nil, err
	}
	st, err := n.lstat("")
	if err == nil {
		err = w.identify(st)
	}
	for err == nil && rel != "" {
		var name string
		name, rel = cutRel(rel)
		var child dirNode
		if child, err = n.openDir(name); err == nil {
			_ = n.Close()
			n = child
		}
	}
	if err != nil {
		_ = n.Close()
		return nil, err
	}
	return n, nil
}

// identify keeps what is watched at first and refuses anything else later.
func (w *treeWatcher) identify(st Stat) error {
	if w.id == (fileID{}) {
		w.id = st.id()
	}
	if w.id != st.id() {
		return fserr.ESTALE
	}
	return nil
}

// add watches the directory at rel and, recursively, those below. tell, which may be nil, is called with every entry found.
func (w *treeWatcher) add(rel string, tell func(rel string)) error {
	pending := []string{rel}
	for first := true; len(pending) > 0; first = false {
		rel, pending = pending[len(pending)-1], pending[:len(pending)-1]
		n, err := w.open(rel)
		if err == nil {
			err = w.addNode(n, rel, maxWatchLevels, &pending, tell)
			_ = n.Close()
		}
		if err != nil && (first || !unwatchable(err)) {
			return err
		}
	}
	return nil
}

// addNode watches n and goes down levels further; what is deeper is left in pending.
func (w *treeWatcher) addNode(n dirNode, rel string, levels int, pending *[]string, tell func(string)) error {
	if err := n.withFD(func(fd int) error { return w.subscribe(fd, rel) }); err != nil || !w.opts.Recursive {
		return err
	}
	// Listed after the watch is in place, so that nothing falls between the two.
	entries, err := n.entries(listOptions{dirs: tell == nil})
	if err != nil {
		return err
	}
	for _, e := range entries {
		child := joinRel(rel, e.Name)
		if tell != nil {
			tell(child)
		}
		if e.Type != TypeDirectory && e.Type != TypeUnknown {
			continue
		}
		if levels == 0 {
			*pending = append(*pending, child)
			continue
		}
		if err := w.addChild(n, e.Name, child, levels-1, pending, tell); err != nil {
			return err
		}
	}
	return nil
}

func (w *treeWatcher) addChild(parent dirNode, name, rel string, levels int, pending *[]string, tell func(string)) error {
	n, err := parent.openDir(name)
	if err == nil {
		err = w.addNode(n, rel, levels, pending, tell)
		_ = n.Close()
	}
	if unwatchable(err) {
		return nil
	}
	return err
}

func (w *treeWatcher) subscribe(fd int, rel string) error {
	wd, err := w.hub.subscribe(w, fd)
	if err != nil {
		return err
	}
	w.places[wd] = rel
	if rel == "" {
		w.top = wd
	}
	return nil
}

// addFile watches a file by a descriptor that permits nothing but this.
func (w *treeWatcher) addFile() error {
	real, err := w.root.Realpath(w.path)
	if err != nil {
		return err
	}
	dir, base, _, err := w.root.parent(real)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.withFD(func(dirFD int) error {
		fd, err := unix.Openat(dirFD, base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fserr.Error{Code: fserr.CodeOf(err), Err: err}
		}
		defer func() { _ = unix.Close(fd) }()
		if err := w.identifyFile(fd); err != nil {
			return err
		}
		return w.subscribe(fd, "")
	})
}

// identifyFile refuses what is no regular file, and on a rescan another file.
func (w *treeWatcher) identifyFile(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "only files and directories can be watched"}
	}
	return w.identify(Stat{Dev: uint64(st.Dev), Ino: st.Ino})
}
