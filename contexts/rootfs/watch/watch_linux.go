package watch

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxLevels bounds the directories that are open at once while a tree is added. Deeper ones are opened anew from the top.
const maxLevels = 64

// treeWatcher is a Watcher on inotify. A goroutine of its own turns the hub's events into the reader's, so that a large new subtree or a
// slow reader delays no other watcher.
//
// It keeps no directory open: the kernel reports a directory's deletion only after the last descriptor of it is closed.
type treeWatcher struct {
	root tree.Nodes
	path string
	name string
	// id is the watched inode. Another one at path means that it is gone.
	id   node.FileID
	opts Options
	// file says that a file is watched, not a directory.
	file bool

	hub    *inotifyHub
	events chan Event
	stop   chan struct{}
	close  sync.Once
	done   chan struct{}

	// places has the path relative to the top of each inode that is watched. It belongs to Start, then to the goroutine, as does top.
	top    int32
	places map[int32]string
	out    outbox
	gone   bool
	// rescanned is when the last scan ended. The next one begins after pause.
	rescanned time.Time
	pause     time.Duration

	mu  sync.Mutex
	raw []inotifyEvent
	// lost says that there was no room for an event. No more are queued until catchUp has scanned the tree again.
	lost bool
	wake chan struct{}
}

// Start implements rootfs.Root's Watch.
func Start(r tree.Nodes, path string, opts Options) (Watcher, error) {
	hub, err := sharedHub.acquire()
	if err != nil {
		return nil, fserr.Wrap(err, "watch", path, "")
	}
	w := &treeWatcher{
		root: r, path: path, name: watchedName(path), opts: opts, hub: hub,
		events: make(chan Event), stop: make(chan struct{}), done: make(chan struct{}),
		wake: make(chan struct{}, 1), places: map[int32]string{}, out: outbox{limit: opts.queue(), budget: opts.Budget},
	}
	hub.join(w)
	if err := w.begin(); err != nil {
		w.leave()
		return nil, fserr.Wrap(err, "watch", path, "")
	}
	go w.run()
	return w, nil
}

// Events implements Watcher.
func (w *treeWatcher) Events() <-chan Event { return w.events }

// Close implements Watcher.
func (w *treeWatcher) Close() error {
	w.close.Do(func() { close(w.stop) })
	<-w.done
	return nil
}

// leave ends the use of the hub.
func (w *treeWatcher) leave() {
	w.hub.leave(w)
	sharedHub.release()
}

// receive queues an event of the hub. It never blocks.
func (w *treeWatcher) receive(e inotifyEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		return
	}
	if e.mask&unix.IN_Q_OVERFLOW != 0 || len(w.raw) >= w.opts.queue() || !w.opts.Budget.take(e.name) {
		w.lost = true
	} else {
		w.raw = append(w.raw, e)
	}
	select {
	case w.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

func (w *treeWatcher) take() []inotifyEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	raw := w.raw
	w.raw = nil
	for _, e := range raw {
		w.opts.Budget.give(e.name)
	}
	return raw
}

// setLost sets whether an event was lost.
func (w *treeWatcher) setLost(lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = lost
}

func (w *treeWatcher) hasLost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

func (w *treeWatcher) run() {
	defer close(w.done)
	defer close(w.events)
	defer w.out.clear()
	defer w.take()
	defer w.leave()
	rescan := time.NewTimer(0)
	defer rescan.Stop()
	for !w.gone || len(w.out.events) > 0 {
		to, next := w.out.next(w.events)
		select {
		case <-w.stop:
			return
		case to <- next:
			w.out.sent()
		case <-w.wake:
			w.work()
		case <-rescan.C:
		}
		if wait := w.catchUp(); wait > 0 {
			rescan.Reset(wait)
		}
	}
}

// work handles the events that the hub has queued.
func (w *treeWatcher) work() {
	for _, e := range w.take() {
		if w.gone {
			return
		}
		w.handle(e)
	}
}

// catchUp ends a loss after the reader has taken all queued events. It scans the tree again, since the lost events may have been about
// new directories, and queues an Overflow. A watch spends at most a tenth of its time on this. catchUp returns how long to wait until its
// next call, 0 if none is needed.
func (w *treeWatcher) catchUp() time.Duration {
	if w.gone || len(w.out.events) > 0 || !w.hasLost() {
		return 0
	}
	if wait := w.pause - time.Since(w.rescanned); wait > 0 {
		return wait
	}
	if wait := w.opts.Budget.beginRescan(); wait > 0 {
		return wait
	}
	w.setLost(false) // from here on, events are queued
	begun := time.Now()
	w.rescan()
	w.rescanned = time.Now()
	took := w.rescanned.Sub(begun)
	w.pause = min(9*took, maxRescanPause)
	w.opts.Budget.endRescan(took)
	w.out.overflow()
	return 0
}

// report queues an event for the reader.
func (w *treeWatcher) report(kind Kind, dir, name string) {
	if !w.out.put(kind, dir, name) {
		w.setLost(true)
	}
}

func (w *treeWatcher) handle(e inotifyEvent) {
	rel, ok := w.places[e.wd]
	switch {
	case !ok || w.opts.hides(e.name): // no longer watched, or not to be seen
	case e.name == "":
		w.handleSelf(e)
	case w.isNameless(rel, e):
	default:
		w.handleEntry(rel, e)
	}
}

// isNameless reports whether an event is about a file without a name, made with O_TMPFILE. The kernel calls it "#" and its inode's number
// (d_mark_tmpfile in fs/dcache.c), even when it has a name and is still open. Other files may have such a name too.
func (w *treeWatcher) isNameless(dir string, e inotifyEvent) bool {
	digits, ok := strings.CutPrefix(e.name, "#")
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || kindOf(e.mask) != Change {
		return false
	}
	_, err := w.root.Lstat(strings.TrimRight(w.path, "/") + "/" + joinRel(dir, e.name))
	return fserr.CodeOf(err) == fserr.ENOENT
}

// handleSelf handles an event about a watched inode itself. Below the top, its directory has an event about the same.
func (w *treeWatcher) handleSelf(e inotifyEvent) {
	const ended = unix.IN_DELETE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED
	switch {
	case e.wd == w.top && e.mask&(ended|unix.IN_MOVE_SELF) != 0:
		w.end()
	case e.wd == w.top:
		w.report(kindOf(e.mask), "", w.name)
	case e.mask&ended != 0:
		delete(w.places, e.wd)
		w.hub.unsubscribe(w, e.wd)
	}
}

// end reports that the watched file or directory is gone: deleted, or moved, perhaps out of the tree.
func (w *treeWatcher) end() {
	if !w.out.put(Rename, "", w.name) {
		w.out.overflow()
	}
	w.gone = true
}

func (w *treeWatcher) handleEntry(dir string, e inotifyEvent) {
	w.report(kindOf(e.mask), dir, e.name)
	if !w.opts.Recursive || e.mask&unix.IN_ISDIR == 0 {
		return
	}
	rel := joinRel(dir, e.name)
	switch {
	case e.mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		w.grow(rel)
	case e.mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		w.prune(rel)
	}
}

func kindOf(mask uint32) Kind {
	if mask&(unix.IN_ATTRIB|unix.IN_MODIFY) != 0 {
		return Change
	}
	return Rename
}

// grow watches the new subtree at rel and reports all that is in it: some of that may be older than the watch.
func (w *treeWatcher) grow(rel string) {
	err := w.add(rel, func(rel string) { w.report(Rename, "", rel) })
	switch {
	case fserr.CodeOf(err) == fserr.ESTALE: // another directory has replaced the watched one
		w.end()
	case err != nil && !unwatchable(err):
		w.out.overflow() // events there will be missing
	}
}

// prune forgets the subtree at rel.
func (w *treeWatcher) prune(rel string) {
	for wd, at := range w.places {
		if below(at, rel) {
			delete(w.places, wd)
			w.hub.unsubscribe(w, wd)
		}
	}
}

// rescan watches what is in the tree now and nothing else.
func (w *treeWatcher) rescan() {
	old := w.places
	w.places = map[int32]string{}
	if err := w.begin(); err != nil && fserr.CodeOf(err) != fserr.ENOSPC {
		w.end()
	}
	for wd := range old {
		if _, still := w.places[wd]; !still {
			w.hub.unsubscribe(w, wd)
		}
	}
}

// begin watches the top: a directory and what is below it, or a file.
func (w *treeWatcher) begin() error {
	if w.file {
		return w.addFile()
	}
	err := w.add("", nil)
	if fserr.CodeOf(err) == fserr.ENOTDIR && w.id == (node.FileID{}) && w.path[len(w.path)-1] != '/' {
		w.file = true
		return w.addFile()
	}
	return err
}

// open opens the directory at rel, from the top down, following no link below the top.
func (w *treeWatcher) open(rel string) (node.Node, error) {
	n, err := w.root.Node(w.path, true)
	if err != nil {
		return nil, err
	}
	st, err := n.Lstat("")
	if err == nil {
		err = w.identify(st)
	}
	for err == nil && rel != "" {
		var name string
		name, rel = cutRel(rel)
		var child node.Node
		if child, err = n.OpenDir(name); err == nil {
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

// identify records the inode that is watched. Later it refuses any other.
func (w *treeWatcher) identify(st node.Stat) error {
	if w.id == (node.FileID{}) {
		w.id = st.ID()
	}
	if w.id != st.ID() {
		return fserr.ESTALE
	}
	return nil
}

// add watches the directory at rel and, if recursive, those below. It calls report, which may be nil, with each entry that it finds.
func (w *treeWatcher) add(rel string, report func(rel string)) error {
	pending := []string{rel}
	for first := true; len(pending) > 0; first = false {
		rel, pending = pending[len(pending)-1], pending[:len(pending)-1]
		n, err := w.open(rel)
		if err == nil {
			err = w.addNode(n, rel, maxLevels, &pending, report)
			_ = n.Close()
		}
		if err != nil && (first || !unwatchable(err)) {
			return err
		}
	}
	return nil
}

// addNode watches n and the given number of levels below. It adds deeper directories to pending.
func (w *treeWatcher) addNode(n node.Node, rel string, levels int, pending *[]string, report func(string)) error {
	if err := n.WithFD(func(fd int) error { return w.subscribe(fd, rel) }); err != nil || !w.opts.Recursive {
		return err
	}
	// It lists after the watch is in place, so that no entry is missed in between.
	entries, err := n.Entries(node.Listing{Dirs: report == nil})
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w.opts.skips(e.Name) {
			continue
		}
		child := joinRel(rel, e.Name)
		if report != nil {
			report(child)
		}
		if e.Type != node.TypeDirectory && e.Type != node.TypeUnknown {
			continue
		}
		if levels == 0 {
			*pending = append(*pending, child)
			continue
		}
		if err := w.addChild(n, e.Name, child, levels-1, pending, report); err != nil {
			return err
		}
	}
	return nil
}

func (w *treeWatcher) addChild(parent node.Node, name, rel string, levels int, pending *[]string, report func(string)) error {
	n, err := parent.OpenDir(name)
	if err == nil {
		err = w.addNode(n, rel, levels, pending, report)
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

// addFile watches a file by an O_PATH descriptor.
func (w *treeWatcher) addFile() error {
	real, err := w.root.Realpath(w.path)
	if err != nil {
		return err
	}
	dir, base, _, err := w.root.Parent(real)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.WithFD(func(dirFD int) error {
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

// identifyFile refuses all but regular files and, on a rescan, all but the same file.
func (w *treeWatcher) identifyFile(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "only files and directories can be watched"}
	}
	return w.identify(node.Stat{Dev: uint64(st.Dev), Ino: st.Ino})
}
