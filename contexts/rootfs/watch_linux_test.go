package rootfs

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
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// watching is a tree being watched by a test.
type watching struct {
	*testing.T
	dir  string
	root Root
}

// eachWatched runs test on every implementation and demands that nothing of the watch is left over.
func eachWatched(t *testing.T, test func(watching)) {
	for _, implementation := range []string{"openat2", "walk", "osroot"} {
		t.Run(implementation, func(t *testing.T) {
			t.Cleanup(func() {
				if sharedHub.hub != nil || sharedHub.users != 0 {
					t.Errorf("the hub outlived its watchers: %d users", sharedHub.users)
				}
				goleak.VerifyNone(t)
			})
			dir := t.TempDir()
			root, err := Open(dir, Options{Implementation: implementation})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = root.Close() })
			test(watching{t, dir, root})
		})
	}
}

func (t watching) watch(path string, opts WatchOptions) Watcher {
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
func (t watching) until(w Watcher, kind WatchKind, name string) (before []WatchEvent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		select {
		case e, ok := <-w.Events():
			if !ok {
				t.Fatalf("closed before event %d %q; saw %v", kind, name, before)
			}
			if (e == WatchEvent{kind, name}) {
				return before
			}
			before = append(before, e)
		case <-ctx.Done():
			t.Fatalf("no event %d %q; saw %v", kind, name, before)
		}
	}
}

// ended reads to the end of the events.
func (t watching) ended(w Watcher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
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
		w := t.watch("/d", WatchOptions{})
		t.write("d/a")
		t.until(w, WatchRename, "a")
		t.until(w, WatchChange, "a")
		t.must(os.Chmod(t.at("d/a"), 0o640))
		t.until(w, WatchChange, "a")
		t.rename("d/a", "d/b")
		t.until(w, WatchRename, "a")
		t.until(w, WatchRename, "b")
		t.write("d/sub/deep")
		t.must(os.Remove(t.at("d/b")))
		for _, e := range t.until(w, WatchRename, "b") {
			if strings.HasPrefix(e.Name, "sub/") {
				t.Errorf("a watch that is not recursive told of %q", e.Name)
			}
		}
		t.must(os.Chmod(t.at("d"), 0o750))
		t.until(w, WatchChange, "d")
	})
}

func TestWatchFile(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.write("file")
		t.must(os.Symlink("file", t.at("link")))
		w := t.watch("/link", WatchOptions{})
		t.must(os.WriteFile(t.at("file"), []byte("more"), 0o600))
		t.until(w, WatchChange, "link")
		t.must(os.Remove(t.at("file")))
		t.until(w, WatchRename, "link")
		t.ended(w)
	})
}

func TestWatchRecursive(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.mkdir("old/deep")
		w := t.watch("/", WatchOptions{Recursive: true})
		t.write("old/deep/file")
		t.until(w, WatchRename, "old/deep/file")

		t.mkdir("new/a/b/c") // may be complete before the first watch on it is in place
		t.write("new/a/b/c/early")
		t.until(w, WatchRename, "new/a/b/c/early")
		t.write("new/a/b/c/late")
		t.until(w, WatchRename, "new/a/b/c/late")

		t.must(os.RemoveAll(t.at("new")))
		t.until(w, WatchRename, "new")
		t.mkdir("new/a")
		t.write("new/a/again")
		t.until(w, WatchRename, "new/a/again")
	})
}

func TestWatchDeepTree(t *testing.T) {
	eachWatched(t, func(t watching) {
		deep := strings.TrimSuffix(strings.Repeat("d/", 3*maxWatchLevels), "/")
		t.mkdir(deep)
		w := t.watch("/", WatchOptions{Recursive: true})
		t.write(deep + "/file")
		t.until(w, WatchRename, deep+"/file")
	})
}

func TestWatchMovedSubtree(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.mkdir("in/sub/deep")
		t.mkdir("out")
		w := t.watch("/in", WatchOptions{Recursive: true})

		t.rename("in/sub", "in/renamed")
		t.until(w, WatchRename, "renamed")
		t.write("in/renamed/deep/file")
		t.until(w, WatchRename, "renamed/deep/file")

		t.rename("in/renamed", "out/left")
		t.until(w, WatchRename, "renamed")
		t.write("out/left/deep/unseen")
		t.write("in/marker")
		for _, e := range t.until(w, WatchRename, "marker") {
			if strings.HasSuffix(e.Name, "unseen") {
				t.Errorf("told of %q, which is outside", e.Name)
			}
		}

		t.rename("out/left", "in/back")
		t.until(w, WatchRename, "back/deep/unseen")
		t.write("in/back/deep/seen")
		t.until(w, WatchRename, "back/deep/seen")
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
				w := t.watch("d", WatchOptions{Recursive: true})
				leave(t)
				t.until(w, WatchRename, "d")
				t.ended(w)
			})
		})
	}
}

func TestWatchTwiceTheSame(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.mkdir("d/sub")
		outer := t.watch("/", WatchOptions{Recursive: true})
		first, second := t.watch("/d", WatchOptions{}), t.watch("/d", WatchOptions{})
		t.write("d/a")
		t.until(outer, WatchRename, "d/a")
		t.until(first, WatchRename, "a")
		t.until(second, WatchRename, "a")

		t.must(first.Close(), first.Close())
		t.ended(first)
		t.write("d/b")
		t.until(outer, WatchRename, "d/b")
		t.until(second, WatchRename, "b")
	})
}

func TestWatchHidesReservedNames(t *testing.T) {
	eachWatched(t, func(t watching) {
		w := t.watch("/", WatchOptions{Recursive: true})
		t.write(ReservedPrefix + "1")
		t.mkdir(ReservedPrefix + "2/sub")
		t.write(ReservedPrefix + "2/sub/file")
		t.rename(ReservedPrefix+"1", "visible")
		before := t.until(w, WatchRename, "visible")
		t.write("marker")
		before = append(before, t.until(w, WatchRename, "marker")...)
		hidden := func(e WatchEvent) bool { return strings.Contains(e.Name, ReservedPrefix) }
		if slices.ContainsFunc(before, hidden) {
			t.Errorf("reserved names were told: %v", before)
		}
	})
}

// TestWatchHidesFilesWithoutAName writes files that have no name until they are whole
// (O_TMPFILE): the kernel tells of them by "#" and the inode, in a directory that was watched before.
func TestWatchHidesFilesWithoutAName(t *testing.T) {
	eachWatched(t, func(t watching) {
		t.watch("/", WatchOptions{})
		w := t.watch("/", WatchOptions{Recursive: true})
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
		for _, e := range t.until(w, WatchRename, "marker") {
			if strings.HasPrefix(e.Name, "#") && e.Name != "#12" {
				t.Errorf("told of %v", e)
			}
		}
		t.must(os.WriteFile(t.at("#12"), []byte("again"), 0o600))
		t.until(w, WatchChange, "#12")
	})
}

func TestWatchTellsOfLostEvents(t *testing.T) {
	eachWatched(t, func(t watching) {
		const dirs = 200
		w := t.watch("/", WatchOptions{Recursive: true, Queue: 2})
		for i := range dirs {
			t.mkdir(fmt.Sprintf("d%d", i))
		}
		t.until(w, WatchOverflow, "")
		// Every directory is watched although the creation of most was lost.
		for i := range dirs {
			t.untilSeen(w, fmt.Sprintf("d%d/file", i))
		}
	})
}

// untilSeen makes files whose names begin with prefix until one is told of;
// after an overflow, which may have swallowed the event, it makes another.
func (t watching) untilSeen(w Watcher, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
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
				again = e.Kind == WatchOverflow
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
			{ReservedPrefix + "1", fserr.ENOENT},
		} {
			w, err := t.root.Watch(test.path, WatchOptions{})
			if fserr.CodeOf(err) != test.want {
				t.Errorf("watch %q: %v, want %v", test.path, err, test.want)
			}
			if err == nil {
				_ = w.Close()
			}
		}
	})
}

func TestOutboxIsBounded(t *testing.T) {
	budget := NewWatchBudget(2 * (eventCost + 1))
	for name, box := range map[string]*outbox{"by its length": {limit: 2}, "by its budget": {limit: 10, budget: budget}} {
		t.Run(name, func(t *testing.T) {
			for i, name := range []string{"a", "b", "c"} {
				if ok := box.put(WatchRename, "d", name); ok != (i < 2) {
					t.Errorf("put %s: %t", name, ok)
				}
			}
			box.overflow()
			box.overflow()
			for _, want := range []WatchEvent{{WatchRename, "d/a"}, {WatchRename, "d/b"}, {Kind: WatchOverflow}} {
				if _, e := box.next(nil); e != want {
					t.Errorf("next is %v, want %v", e, want)
				}
				box.sent()
			}
			if box.events != nil {
				t.Error("an empty outbox keeps its memory")
			}
		})
	}
	if used := budget.used.Load(); used != 0 {
		t.Errorf("%d bytes stay counted", used)
	}
}

// TestWatchesShareABudget fills a budget with two unread watches. Later both report the loss and further events.
func TestWatchesShareABudget(t *testing.T) {
	eachWatched(t, func(t watching) {
		budget := NewWatchBudget(100 * (eventCost + 10))
		watches := []Watcher{t.watch("/", WatchOptions{Recursive: true, Budget: budget}), t.watch("/", WatchOptions{Budget: budget})}
		t.mkdir("dir")
		for i := range 300 {
			t.write(fmt.Sprintf("dir/%d", i))
			t.write(fmt.Sprintf("%d", i))
			if used := budget.used.Load(); used > budget.limit+2*(eventCost+10) {
				t.Fatalf("the queues take %d bytes of %d", used, budget.limit)
			}
		}
		for _, w := range watches {
			t.until(w, WatchOverflow, "")
		}
		t.untilSeen(watches[0], "dir/later")
		t.must(watches[0].Close(), watches[1].Close())
		if used := budget.used.Load(); used != 0 {
			t.Errorf("%d bytes stay counted", used)
		}
	})
}

func TestWatchLimitsNameTheirRemedy(t *testing.T) {
	for _, test := range []struct {
		err  unix.Errno
		code fserr.Code
		hint string
	}{
		{unix.ENOSPC, fserr.ENOSPC, "raise fs.inotify.max_user_watches"},
		{unix.ENOENT, fserr.EOPNOTSUPP, "mount it"},
		{unix.EACCES, fserr.EACCES, ""},
	} {
		var got *fserr.Error
		if err := watchError(test.err); !errors.As(err, &got) || got.Code != test.code || got.Hint != test.hint {
			t.Errorf("%v became %v, want %v with hint %q", test.err, err, test.code, test.hint)
		}
	}
}
