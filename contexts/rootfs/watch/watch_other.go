//go:build !linux

package watch

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// notifyWatcher is a Watcher on fsnotify, which works by path. Unlike on Linux, a process that moves directories while they are added can
// make it report names (never content) from elsewhere.
type notifyWatcher struct {
	root tree.Nodes
	opts Options
	// path is the watched path in the tree, top the same as a server path.
	path, top, name string
	file            bool

	notify *fsnotify.Watcher
	events chan Event
	stop   chan struct{}
	close  sync.Once
	done   chan struct{}
	out    outbox
	gone   bool
}

// Keep is of use on Linux alone, where programs of the same user share a number of instances.
func Keep() (release func(), err error) { return func() {}, nil }

// Start implements rootfs.Root's Watch.
func Start(r tree.Nodes, path string, opts Options) (Watcher, error) {
	w, err := newNotifyWatcher(r, path, opts)
	if err != nil {
		return nil, fserr.Wrap(err, "watch", path, "")
	}
	go w.run()
	return w, nil
}

func newNotifyWatcher(r tree.Nodes, path string, opts Options) (*notifyWatcher, error) {
	onServer, ok := r.(interface{ ServerPath(path string) string })
	if !ok {
		return nil, fserr.EOPNOTSUPP
	}
	st, err := r.Stat(path)
	if err != nil {
		return nil, err
	}
	real, err := r.Realpath(path)
	if err != nil {
		return nil, err
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &notifyWatcher{
		root: r, opts: opts, path: real, name: watchedName(path), file: !st.IsDir(),
		top:    onServer.ServerPath(real),
		notify: notify, events: make(chan Event), stop: make(chan struct{}),
		done: make(chan struct{}), out: outbox{limit: opts.queue(), budget: opts.Budget},
	}
	if err := w.add("", func(string) {}); err != nil {
		_ = notify.Close()
		return nil, err
	}
	return w, nil
}

// Events implements Watcher.
func (w *notifyWatcher) Events() <-chan Event { return w.events }

// Close implements Watcher.
func (w *notifyWatcher) Close() error {
	w.close.Do(func() { close(w.stop) })
	<-w.done
	return nil
}

// add watches the directory at rel and, if recursive, those below. It calls report with each entry that it finds.
func (w *notifyWatcher) add(rel string, report func(string)) error {
	if err := w.notify.Add(filepath.Join(w.top, filepath.FromSlash(rel))); err != nil {
		return err
	}
	if w.file || !w.opts.Recursive {
		return nil
	}
	at := w.path + "/" + rel
	return tree.Walk(context.Background(), w.root, at, tree.WalkOptions{}, func(sub string, e node.Entry, err error) error {
		if err != nil {
			return nil // a directory that cannot be read is not watched
		}
		if w.opts.skips(e.Name) {
			return tree.SkipDir
		}
		report(joinRel(rel, sub))
		if e.Type != node.TypeDirectory {
			return nil
		}
		err = w.notify.Add(filepath.Join(w.top, filepath.FromSlash(joinRel(rel, sub))))
		if unwatchable(err) {
			return nil
		}
		return err
	})
}

func (w *notifyWatcher) run() {
	defer close(w.done)
	defer close(w.events)
	defer w.out.clear()
	defer func() { _ = w.notify.Close() }()
	for !w.gone || len(w.out.events) > 0 {
		to, next := w.out.next(w.events)
		select {
		case <-w.stop:
			return
		case to <- next:
			w.out.sent()
		case e := <-w.notify.Events:
			w.handle(e)
		case err := <-w.notify.Errors:
			w.trouble(err)
		}
	}
}

// report queues an event for the reader, or an Overflow if there is no room.
func (w *notifyWatcher) report(kind Kind, name string) {
	if !w.out.put(kind, "", name) {
		w.out.overflow()
	}
}

// trouble handles lost events, which may have been about new directories.
func (w *notifyWatcher) trouble(err error) {
	if errors.Is(err, fsnotify.ErrEventOverflow) && w.opts.Recursive {
		_ = w.add("", func(string) {}) // the Overflow below asks the reader to list again
	}
	w.out.overflow()
}

func (w *notifyWatcher) handle(e fsnotify.Event) {
	rel, err := filepath.Rel(w.top, e.Name)
	if err != nil || w.gone {
		return
	}
	rel = filepath.ToSlash(rel)
	kind := Rename
	if !e.Has(fsnotify.Create) && !e.Has(fsnotify.Remove) && !e.Has(fsnotify.Rename) {
		kind = Change
	}
	if rel == "." {
		w.handleSelf(kind)
		return
	}
	for part := range strings.SplitSeq(rel, "/") {
		if w.opts.hides(part) || part == ".." {
			return
		}
	}
	w.report(kind, rel)
	if !w.opts.Recursive {
		return
	}
	if kind == Rename {
		w.prune(e.Name) // before a new directory of that name is added
	}
	if e.Has(fsnotify.Create) {
		w.grow(rel)
	}
}

// prune forgets the subtree at the server path top, which was moved or replaced.
func (w *notifyWatcher) prune(top string) {
	for _, watched := range w.notify.WatchList() {
		if below(filepath.ToSlash(watched), filepath.ToSlash(top)) {
			_ = w.notify.Remove(watched) // it may be gone already
		}
	}
}

// handleSelf handles an event about the watched file or directory itself.
func (w *notifyWatcher) handleSelf(kind Kind) {
	if kind == Change && !w.file {
		return // kqueue reports this for changes of a directory's entries
	}
	w.report(kind, w.name)
	w.gone = kind == Rename
}

// grow watches the new subtree at rel, if it is one, and reports all that is in it: some of that may be older than the watch.
func (w *notifyWatcher) grow(rel string) {
	st, err := w.root.Lstat(w.path + "/" + rel)
	if err != nil || !st.IsDir() {
		return
	}
	err = w.add(rel, func(name string) { w.report(Rename, name) })
	if err != nil && !unwatchable(err) {
		w.out.overflow() // events there will be missing
	}
}
