package rootfs

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// maxWatchLevels is how many directories are held open at once while a tree is
// added; deeper ones are opened anew from the top.
const maxWatchLevels = 64

// treeWatcher is a Watcher on inotify. One goroutine of its own turns the hub's
// events into the reader's, so that a large new subtree or a slow reader delays
// nobody else.
//
// It holds no directory open: the kernel tells of a directory's deletion only
// when nobody has it open any more.
type treeWatcher struct {
	root watchRoot
	path string
	name string
	// id is the watched inode; another at path means that it is gone.
	id   fileID
	opts WatchOptions
	// file says that a file is watched, no directory.
	file bool

	hub    *inotifyHub
	events chan WatchEvent
	stop   chan struct{}
	close  sync.Once
	done   chan struct{}

	// top and places belong to the setup, then to the goroutine: what is watched,
	// and where it stands relative to the top.
	top    int32
	places map[int32]string
	out    outbox
	gone   bool
	// rescanned is when the last rescan ended, and pause how long the next one has to wait after it.
	rescanned time.Time
	pause     time.Duration

	mu  sync.Mutex
	raw []inotifyEvent
	// lost says that an event found no room. No more are queued until catchUp has looked at the tree again.
	lost bool
	wake chan struct{}
}

func watchTree(r watchRoot, path string, opts WatchOptions) (Watcher, error) {
	hub, err := sharedHub.acquire()
	if err != nil {
		return nil, fserr.Wrap(err, "watch", path, "")
	}
	w := &treeWatcher{
		root: r, path: path, name: watchedName(path), opts: opts, hub: hub,
		events: make(chan WatchEvent), stop: make(chan struct{}), done: make(chan struct{}),
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
func (w *treeWatcher) Events() <-chan WatchEvent { return w.events }

// Close implements Watcher.
func (w *treeWatcher) Close() error {
	w.close.Do(func() { close(w.stop) })
	<-w.done
	return nil
}

// leave gives everything back to the hub.
func (w *treeWatcher) leave() {
	w.hub.leave(w)
	sharedHub.release()
}

// receive takes an event from the hub; it never blocks.
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

// setLost sets whether an event was lost, and returns whether one was before.
func (w *treeWatcher) setLost(lost bool) (was bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, w.lost = w.lost, lost
	return was
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

// work handles what has come in.
func (w *treeWatcher) work() {
	for _, e := range w.take() {
		if w.gone {
			return
		}
		w.handle(e)
	}
}

// catchUp ends a loss once the reader has taken all that was queued: it goes through the tree again, since a new directory
// may be among what was lost, and queues an overflow. A watch that loses events again and again spends at most a tenth of its
// time on this. catchUp returns how long to wait until its next call, 0 if no loss waits for one.
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
	w.setLost(false) // what comes from here on is queued
	begun := time.Now()
	w.rescan()
	w.rescanned = time.Now()
	took := w.rescanned.Sub(begun)
	w.pause = min(9*took, maxRescanPause)
	w.opts.Budget.endRescan(took)
	w.out.overflow()
	return 0
}

// tell queues an event for the reader.
func (w *treeWatcher) tell(kind WatchKind, dir, name string) {
	if !w.out.put(kind, dir, name) {
		w.setLost(true)
	}
}

func (w *treeWatcher) handle(e inotifyEvent) {
	rel, ok := w.places[e.wd]
	switch {
	case !ok || Reserved(e.name): // no longer watched, or not to be seen
	case e.name == "":
		w.handleSelf(e)
	case w.isNameless(rel, e):
	default:
		w.handleEntry(rel, e)
	}
}

// isNameless tells whether an event is about a file without a name, one of O_TMPFILE. The
// kernel calls it "#" and its inode's number (d_mark_tmpfile in fs/dcache.c), also once it
// has a name and is still open. A file may really be called so.
func (w *treeWatcher) isNameless(dir string, e inotifyEvent) bool {
	digits, ok := strings.CutPrefix(e.name, "#")
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || kindOf(e.mask) != WatchChange {
		return false
	}
	_, err := w.root.Lstat(strings.TrimRight(w.path, "/") + "/" + joinRel(dir, e.name))
	return fserr.CodeOf(err) == fserr.ENOENT
}

// handleSelf handles what happened to a watched inode itself. Below the top its
// directory tells of the same.
func (w *treeWatcher) handleSelf(e inotifyEvent) {
	const ended = unix.IN_DELETE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED
	switch {
	case e.wd == w.top && e.mask&(ended|unix.IN_MOVE_SELF) != 0:
		w.end()
	case e.wd == w.top:
		w.tell(kindOf(e.mask), "", w.name)
	case e.mask&ended != 0:
		delete(w.places, e.wd)
		w.hub.unsubscribe(w, e.wd)
	}
}

// end tells that what was watched is no longer there: deleted, or moved to where
// it may not even be in the tree any more.
func (w *treeWatcher) end() {
	if !w.out.put(WatchRename, "", w.name) {
		w.out.overflow()
	}
	w.gone = true
}

func (w *treeWatcher) handleEntry(dir string, e inotifyEvent) {
	w.tell(kindOf(e.mask), dir, e.name)
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

func kindOf(mask uint32) WatchKind {
	if mask&(unix.IN_ATTRIB|unix.IN_MODIFY) != 0 {
		return WatchChange
	}
	return WatchRename
}

// grow watches the new subtree at rel and tells of all that is in it already:
// some of that came before the watch did.
func (w *treeWatcher) grow(rel string) {
	err := w.add(rel, func(rel string) { w.tell(WatchRename, "", rel) })
	switch {
	case fserr.CodeOf(err) == fserr.ESTALE: // another directory stands where the watched one did
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

// rescan watches what is there now and nothing else.
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
