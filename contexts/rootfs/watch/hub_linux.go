package watch

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// watchMask has the events that libuv asks for (uv_fs_event_start in src/unix/linux.c).
const watchMask = unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_DELETE_SELF |
	unix.IN_MOVE_SELF | unix.IN_MOVED_FROM | unix.IN_MOVED_TO

// inotifyEvent is an event of the kernel. name is "" for the watched inode itself.
type inotifyEvent struct {
	wd   int32
	mask uint32
	name string
}

// inotifyHub is an inotify instance that all watchers share. The kernel returns the same watch descriptor for the same inode, so a
// descriptor can have several subscribers.
type inotifyHub struct {
	file *os.File
	fd   int
	done chan struct{}

	mu          sync.Mutex
	watchers    map[*treeWatcher]bool
	subscribers map[int32]map[*treeWatcher]bool
}

// hubOwner makes the hub for the first watcher and closes it, with its goroutine, after the last.
type hubOwner struct {
	mu    sync.Mutex
	hub   *inotifyHub
	users int
}

// sharedHub is the process's only inotify instance. It is a package variable because the kernel limits instances per user, over all
// processes (fs.inotify.max_user_instances, usually 128): nothing smaller than the process can own it. It is empty while there are no
// watchers, and nobody keeps it.
var sharedHub hubOwner

// Keep takes the process's inotify instance until release, so that watches do not fail later: programs of the same user may take all others.
func Keep() (release func(), err error) { return sharedHub.keep() }

func (o *hubOwner) keep() (release func(), err error) {
	if _, err := o.acquire(); err != nil {
		return nil, err
	}
	return o.release, nil
}

func (o *hubOwner) acquire() (*inotifyHub, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hub == nil {
		hub, err := newInotifyHub()
		if err != nil {
			return nil, err
		}
		o.hub = hub
	}
	o.users++
	return o.hub, nil
}

func (o *hubOwner) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users--; o.users > 0 {
		return
	}
	_ = o.hub.file.Close() // makes the reader's Read return
	<-o.hub.done
	o.hub = nil
}

func newInotifyHub() (*inotifyHub, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == unix.EMFILE {
		return nil, &fserr.Error{
			Code: fserr.EMFILE, Detail: "no inotify instances left",
			Hint: "raise fs.inotify.max_user_instances", Err: err,
		}
	}
	if err != nil {
		return nil, &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	}
	h := &inotifyHub{
		file: os.NewFile(uintptr(fd), "inotify"), fd: fd, done: make(chan struct{}),
		watchers: map[*treeWatcher]bool{}, subscribers: map[int32]map[*treeWatcher]bool{},
	}
	go h.read()
	return h, nil
}

// join makes w receive overflows of the kernel's queue.
func (h *inotifyHub) join(w *treeWatcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[w] = true
}

// leave ends all of w's subscriptions.
func (h *inotifyHub) leave(w *treeWatcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
	for wd := range h.subscribers {
		h.drop(w, wd)
	}
}

// subscribe watches the inode of fd, a descriptor opened within the tree. /proc/self/fd leads to that inode, not to a path.
func (h *inotifyHub) subscribe(w *treeWatcher, fd int) (int32, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := unix.InotifyAddWatch(h.fd, "/proc/self/fd/"+strconv.Itoa(fd), watchMask)
	if err != nil {
		return 0, watchError(err)
	}
	wd := int32(n)
	if h.subscribers[wd] == nil {
		h.subscribers[wd] = map[*treeWatcher]bool{}
	}
	h.subscribers[wd][w] = true
	return wd, nil
}

func watchError(err error) error {
	e := &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	switch err {
	case unix.ENOSPC:
		e.Detail, e.Hint = "no inotify watches left", "raise fs.inotify.max_user_watches"
	case unix.ENOENT, unix.ENOTDIR: // the descriptor is open: it is /proc that is missing
		e.Code, e.Detail, e.Hint = fserr.EOPNOTSUPP, "watching needs /proc", "mount it"
	}
	return e
}

// unsubscribe ends one subscription.
func (h *inotifyHub) unsubscribe(w *treeWatcher, wd int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(w, wd)
}

func (h *inotifyHub) drop(w *treeWatcher, wd int32) {
	who := h.subscribers[wd]
	if !who[w] {
		return
	}
	delete(who, w)
	if len(who) == 0 {
		delete(h.subscribers, wd)
		_, _ = unix.InotifyRmWatch(h.fd, uint32(wd)) // EINVAL if the inode is gone already
	}
}

// read dispatches events until the instance is closed.
func (h *inotifyHub) read() {
	defer close(h.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := h.file.Read(buf)
		if err != nil {
			return
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			var e inotifyEvent
			e, rest = parseInotify(rest)
			h.dispatch(e)
		}
	}
}

// parseInotify parses the first struct inotify_event (inotify(7)) of b and returns the rest.
func parseInotify(b []byte) (inotifyEvent, []byte) {
	end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
	return inotifyEvent{
		wd:   int32(binary.NativeEndian.Uint32(b)),
		mask: binary.NativeEndian.Uint32(b[4:]),
		name: strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00"),
	}, b[end:]
}

func (h *inotifyHub) dispatch(e inotifyEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to := h.subscribers[e.wd]
	if e.mask&unix.IN_Q_OVERFLOW != 0 {
		to = h.watchers
	}
	if e.mask&unix.IN_IGNORED != 0 {
		delete(h.subscribers, e.wd)
	}
	for w := range to {
		w.receive(e)
	}
}
