package watch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
)

// watching is a tree being watched by a test.
type watching struct {
	*testing.T
	dir  string
	root rootfs.Root
}

// eachWatched runs test on every implementation and demands that nothing of the watch is left over.
func eachWatched(t *testing.T, test func(watching)) {
	all := []string{"openat2", "walk", "osroot"}
	if overlaytest.Driver() != "" {
		all = all[:1]
	}
	for _, implementation := range all {
		t.Run(implementation, func(t *testing.T) {
			t.Cleanup(func() {
				if users, exists := watch.HubUsers(); exists || users != 0 {
					t.Errorf("the hub outlived its watchers: %d users", users)
				}
				goleak.VerifyNone(t)
			})
			dir := overlaytest.Dir(t, nil)
			root, err := rootfs.Open(dir, rootfs.Options{Implementation: implementation})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = root.Close() })
			test(watching{t, dir, root})
		})
	}
}

func (t watching) watch(path string, opts watch.Options) watch.Watcher {
	t.Helper()
	w, err := t.root.Watch(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return w
}

func (t watching) must(errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (t watching) at(name string) string { return filepath.Join(t.dir, name) }

func (t watching) mkdir(name string) {
	t.Helper()
	t.must(os.MkdirAll(t.at(name), 0o700))
}

func (t watching) write(name string) {
	t.Helper()
	t.must(os.WriteFile(t.at(name), []byte("x"), 0o600))
}

func (t watching) rename(from, to string) {
	t.Helper()
	t.must(os.Rename(t.at(from), t.at(to)))
}

// until reads events up to the wanted one and returns all before it.
func (t watching) until(w watch.Watcher, kind watch.Kind, name string) (before []watch.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case e, ok := <-w.Events():
			if !ok {
				t.Fatalf("closed before event %d %q; saw %v", kind, name, before)
			}
			if (e == watch.Event{kind, name}) {
				return before
			}
			before = append(before, e)
		case <-ctx.Done():
			t.Fatalf("no event %d %q; saw %v", kind, name, before)
		}
	}
}

// ended reads to the end of the events.
func (t watching) ended(w watch.Watcher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case _, ok := <-w.Events():
			if !ok {
				return
			}
		case <-ctx.Done():
			t.Fatal("the events did not end")
		}
	}
}

func TestWatchDirectory(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.mkdir("d/sub")
		w := t.watch("/d", watch.Options{})
		t.write("d/a")
		t.until(w, watch.Rename, "a")
		t.until(w, watch.Change, "a")
		t.must(os.Chmod(t.at("d/a"), 0o640))
		t.until(w, watch.Change, "a")
		t.rename("d/a", "d/b")
		t.until(w, watch.Rename, "a")
		t.until(w, watch.Rename, "b")
		t.write("d/sub/deep")
		t.must(os.Remove(t.at("d/b")))
		for _, e := range t.until(w, watch.Rename, "b") {
			if strings.HasPrefix(e.Name, "sub/") {
				t.Errorf("a watch that is not recursive told of %q", e.Name)
			}
		}
		t.must(os.Chmod(t.at("d"), 0o750))
		t.until(w, watch.Change, "d")
	})
}

func TestWatchFile(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.write("file")
		t.must(os.Symlink("file", t.at("link")))
		w := t.watch("/link", watch.Options{})
		t.must(os.WriteFile(t.at("file"), []byte("more"), 0o600))
		t.until(w, watch.Change, "link")
		t.must(os.Remove(t.at("file")))
		t.until(w, watch.Rename, "link")
		t.ended(w)
	})
}

func TestWatchRecursive(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.mkdir("old/deep")
		w := t.watch("/", watch.Options{Recursive: true})
		t.write("old/deep/file")
		t.until(w, watch.Rename, "old/deep/file")

		t.mkdir("new/a/b/c") // may be complete before the first watch on it is in place
		t.write("new/a/b/c/early")
		t.until(w, watch.Rename, "new/a/b/c/early")
		t.write("new/a/b/c/late")
		t.until(w, watch.Rename, "new/a/b/c/late")

		t.must(os.RemoveAll(t.at("new")))
		t.until(w, watch.Rename, "new")
		t.mkdir("new/a")
		t.write("new/a/again")
		t.until(w, watch.Rename, "new/a/again")
	})
}

func TestWatchSkipsDirectories(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.mkdir("old/skipped/deep")
		w := t.watch("/", watch.Options{Recursive: true, Skip: func(name string) bool { return name == "skipped" }})
		t.mkdir("new/skipped/deep")
		for _, dir := range []string{"old", "new"} {
			t.write(dir + "/skipped/file")
			t.write(dir + "/skipped/deep/file")
		}
		t.mkdir("skipped")
		t.write("skipped/file")
		t.write("last")
		for _, e := range t.until(w, watch.Rename, "last") {
			if strings.Contains(e.Name, "skipped") {
				t.Errorf("an event names %q", e.Name)
			}
		}
	})
}

func TestWatchDeepTree(t *testing.T) {
	eachWatched(t, func(t watching) {
		deep := strings.TrimSuffix(strings.Repeat("d/", 3*watch.MaxLevels), "/")
		t.mkdir(deep)
		w := t.watch("/", watch.Options{Recursive: true})
		t.write(deep + "/file")
		t.until(w, watch.Rename, deep+"/file")
	})
}

func TestWatchMovedSubtree(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.mkdir("in/sub/deep")
		t.mkdir("out")
		w := t.watch("/in", watch.Options{Recursive: true})

		t.rename("in/sub", "in/renamed")
		t.until(w, watch.Rename, "renamed")
		t.write("in/renamed/deep/file")
		t.until(w, watch.Rename, "renamed/deep/file")

		t.rename("in/renamed", "out/left")
		t.until(w, watch.Rename, "renamed")
		t.write("out/left/deep/unseen")
		t.write("in/marker")
		for _, e := range t.until(w, watch.Rename, "marker") {
			if strings.HasSuffix(e.Name, "unseen") {
				t.Errorf("told of %q, which is outside", e.Name)
			}
		}

		t.rename("out/left", "in/back")
		t.until(w, watch.Rename, "back/deep/unseen")
		t.write("in/back/deep/seen")
		t.until(w, watch.Rename, "back/deep/seen")
	})
}

func TestWatchEndsWithItsDirectory(t *testing.T) {
	for name, leave := range map[string]func(t watching){
		"removed": func(t watching) { t.must(os.Remove(t.at("d"))) },
		"moved":   func(t watching) { t.rename("d", "elsewhere") },
	} {
		t.Run(name, func(t *testing.T) {
			eachWatched(t, func(t watching) {
				t.mkdir("d")
				w := t.watch("d", watch.Options{Recursive: true})
				leave(t)
				t.until(w, watch.Rename, "d")
				t.ended(w)
			})
		})
	}
}

func TestWatchTwiceTheSame(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.mkdir("d/sub")
		outer := t.watch("/", watch.Options{Recursive: true})
		first, second := t.watch("/d", watch.Options{}), t.watch("/d", watch.Options{})
		t.write("d/a")
		t.until(outer, watch.Rename, "d/a")
		t.until(first, watch.Rename, "a")
		t.until(second, watch.Rename, "a")

		t.must(first.Close(), first.Close())
		t.ended(first)
		t.write("d/b")
		t.until(outer, watch.Rename, "d/b")
		t.until(second, watch.Rename, "b")
	})
}

func TestWatchHidesReservedNames(t *testing.T) {
	eachWatched(t, func(t watching) {
		w := t.watch("/", watch.Options{Recursive: true})
		t.write(rootfs.ReservedPrefix + "1")
		t.mkdir(rootfs.ReservedPrefix + "2/sub")
		t.write(rootfs.ReservedPrefix + "2/sub/file")
		t.rename(rootfs.ReservedPrefix+"1", "visible")
		before := t.until(w, watch.Rename, "visible")
		t.write("marker")
		before = append(before, t.until(w, watch.Rename, "marker")...)
		hidden := func(e watch.Event) bool { return strings.Contains(e.Name, rootfs.ReservedPrefix) }
		if slices.ContainsFunc(before, hidden) {
			t.Errorf("reserved names were told: %v", before)
		}
	})
}

// TestWatchHidesFilesWithoutAName writes files that have no name until they are whole
// (O_TMPFILE): the kernel calls them "#" and the inode, in a directory that was watched before.
func TestWatchHidesFilesWithoutAName(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.watch("/", watch.Options{})
		w := t.watch("/", watch.Options{Recursive: true})
		for i := range 20 {
			f, err := t.root.CreateAtomic(fmt.Sprintf("/f%d", i%3), 0o640, false)
			t.must(err)
			for range 3 {
				_, err := f.Write([]byte("x"))
				t.must(err)
			}
			t.must(f.Chmod(0o600), f.Commit(false), f.Close())
		}
		t.write("#12")
		t.write("marker")
		for _, e := range t.until(w, watch.Rename, "marker") {
			if strings.HasPrefix(e.Name, "#") && e.Name != "#12" {
				t.Errorf("told of %v", e)
			}
		}
		t.must(os.WriteFile(t.at("#12"), []byte("again"), 0o600))
		t.until(w, watch.Change, "#12")
	})
}

func TestWatchReportsLostEvents(t *testing.T) {
	eachWatched(t, func(t watching) {
		const dirs = 200
		w := t.watch("/", watch.Options{Recursive: true, Queue: 2})
		for i := range dirs {
			t.mkdir(fmt.Sprintf("d%d", i))
		}
		t.until(w, watch.Overflow, "")
		// Every directory is watched although the creation of most was lost.
		for i := range dirs {
			t.untilSeen(w, fmt.Sprintf("d%d/file", i))
		}
	})
}

// untilSeen makes files whose names begin with prefix until one is reported;
// after an overflow, which may have swallowed the event, it makes another.
func (t watching) untilSeen(w watch.Watcher, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 0; ; n++ {
		f, err := os.Create(t.at(fmt.Sprint(prefix, n)))
		t.must(err)
		t.must(f.Close())
		for again := false; !again; {
			select {
			case e := <-w.Events():
				if strings.HasPrefix(e.Name, prefix) {
					return
				}
				again = e.Kind == watch.Overflow
			case <-ctx.Done():
				t.Fatalf("no event of %s", prefix)
			}
		}
	}
}

func TestWatchRefusals(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.write("file")
		t.must(os.Symlink("/../../etc", t.at("up")), os.Symlink("../..", t.at("escape")))
		for _, test := range []struct {
			path string
			want fserr.Code
		}{
			{"/absent", fserr.ENOENT},
			{"", fserr.ENOENT},
			{"/file/", fserr.ENOTDIR},
			{"/file/below", fserr.ENOTDIR},
			{"/escape", fserr.EACCES},
			{"/..", fserr.EACCES},
			{rootfs.ReservedPrefix + "1", fserr.ENOENT},
		} {
			w, err := t.root.Watch(test.path, watch.Options{})
			if fserr.CodeOf(err) != test.want {
				t.Errorf("watch %q: %v, want %v", test.path, err, test.want)
			}
			if err == nil {
				_ = w.Close()
			}
		}
	})
}

// TestWatchesShareABudget fills a budget with two unread watches. Later both report the loss and further events.
func TestWatchesShareABudget(t *testing.T) {
	eachWatched(t, func(t watching) {
		budget := watch.NewBudget(100 * (watch.EventCost + 10))
		watches := []watch.Watcher{t.watch("/", watch.Options{Recursive: true, Budget: budget}), t.watch("/", watch.Options{Budget: budget})}
		t.mkdir("dir")
		for i := range 300 {
			t.write(fmt.Sprintf("dir/%d", i))
			t.write(fmt.Sprintf("%d", i))
			if used := budget.Used(); used > budget.Limit()+2*(watch.EventCost+10) {
				t.Fatalf("the queues take %d bytes of %d", used, budget.Limit())
			}
		}
		for _, w := range watches {
			t.until(w, watch.Overflow, "")
		}
		t.untilSeen(watches[0], "dir/later")
		t.must(watches[0].Close(), watches[1].Close())
		if used := budget.Used(); used != 0 {
			t.Errorf("%d bytes stay counted", used)
		}
	})
}
