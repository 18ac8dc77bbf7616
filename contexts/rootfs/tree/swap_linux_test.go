package tree_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// is says whether a file has a content.
func is(content string) func(tree.Former) (bool, error) {
	return func(f tree.Former) (bool, error) {
		got, err := io.ReadAll(f.File)
		return string(got) == content, err
	}
}

// TestBackKeepsTheLaterSave interrupts a swap of "old" for "made" at each step, with saves of a program before and after. A save in place goes
// to whichever file is at the path then. Where a save has made the file unreadable, a process without privileges puts it back.
func TestBackKeepsTheLaterSave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// steps are done in turn: "exchange", a save in place ("save 1"), one with a rename ("rename 1"), one through a descriptor that the
		// program opened at first ("late 1"), a save with an old time ("dated 1"), one that makes the file unreadable ("hide 1", "hide-late 1"),
		// and "remove".
		steps string
		want  string
	}{
		"nothing":                                          {"", "old"},
		"a save before it is taken back":                   {"save 1", "1"},
		"a save with an old time":                          {"dated 1", "1"},
		"a save with a rename":                             {"rename 1", "1"},
		"a removal":                                        {"remove", ""},
		"taken back":                                       {"exchange", "old"},
		"saved, then taken back":                           {"save 1,exchange", "1"},
		"saved with an old time, then taken back":          {"dated 1,exchange", "1"},
		"taken back, then saved":                           {"exchange,save 2", "2"},
		"taken back, then saved with a rename":             {"exchange,rename 2", "2"},
		"saved, taken back, saved again":                   {"save 1,exchange,save 2", "2"},
		"saved, taken back, saved again with a rename":     {"save 1,exchange,rename 2", "2"},
		"saved, taken back, removed":                       {"save 1,exchange,remove", ""},
		"saved through an old descriptor":                  {"late 1", "1"},
		"saved, then through an old descriptor":            {"save 1,late 2", "2"},
		"saved through an old descriptor, then in place":   {"late 1,save 2", "2"},
		"saved in turn while it is exchanged again":        {"save 1,exchange,save 2,exchange", "2"},
		"saved in turn while it is exchanged, and in turn": {"save 1,exchange,save 2,exchange,save 3", "3"},
		"saved and unreadable":                             {"hide 1", "1"},
		"saved and unreadable, then taken back":            {"hide 1,exchange", "1"},
		"taken back, then saved and unreadable":            {"exchange,hide 2", "2"},
		"saved twice, the second time unreadable":          {"late 1,hide 2", "2"},
		"saved twice, the first time unreadable":           {"hide 1,late 2", "2"},
		"saved through an old descriptor, unreadable":      {"hide-late 1", "1"},
		"unreadable, taken back, saved again":              {"hide 1,exchange,save 2", "2"},
		"taken back, then saved with an old time":          {"exchange,dated 2", "2"},
		"saved twice, with a later and an older time":      {"late 1,dated 2", "1"},
	} {
		for _, killed := range []bool{false, true} {
			if !killed && strings.Contains(c.steps, "exchange") {
				continue // only an interruption comes between the two exchanges of Back
			}
			r, dir := newTree(t, "openat2")
			at := filepath.Join(dir, "file")
			put(t, dir, "file", "old")
			dirs := tree.NewDirs(r)
			early, err := os.OpenFile(at, os.O_WRONLY, 0)
			must(t, err)
			tmp := tree.SwapName()
			swap, err := dirs.Stage(t.Context(), "file", tmp, &tree.NewEntry{Content: strings.NewReader("made"), Mode: 0o644})
			must(t, err)
			must(t, swap.Take())
			for step := range strings.SplitSeq(c.steps, ",") {
				time.Sleep(5 * time.Millisecond) // clock: two saves have two times
				what, text, _ := strings.Cut(step, " ")
				switch what {
				case "exchange":
					must(t, unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, filepath.Join(dir, tmp), unix.RENAME_EXCHANGE))
				case "save", "dated", "hide":
					must(t, os.WriteFile(at, []byte(text), 0o600))
					if what == "dated" {
						must(t, os.Chtimes(at, time.Unix(1, 0), time.Unix(1, 0)))
					}
					if what == "hide" {
						must(t, os.Chmod(at, 0o200))
					}
				case "rename":
					must(t, os.WriteFile(at+"~", []byte(text), 0o600))
					must(t, os.Rename(at+"~", at))
				case "late", "hide-late":
					must(t, early.Truncate(0))
					_, err := early.WriteAt([]byte(text), 0)
					must(t, err)
					if what == "hide-late" {
						must(t, early.Chmod(0o200))
					}
				case "remove":
					must(t, os.Remove(at))
				}
			}
			must(t, early.Close())
			back := func() error {
				if killed {
					if swap, err = dirs.Resume("file", tree.Staged{Tmp: tmp, Ino: swap.Ino(), Had: true}); err != nil {
						return err
					}
				}
				return swap.Back(is("made"), is("old"))
			}
			if strings.Contains(c.steps, "hide") {
				err = withoutPrivileges(t, dir, back)
			} else {
				err = back()
			}
			if err != nil && !errors.Is(err, tree.ErrOccupied) {
				t.Errorf("%s, killed=%t: %v", name, killed, err)
			}
			must(t, dirs.Close())
			if strings.Contains(c.steps, "hide") {
				must(t, os.Chmod(at, 0o600))
			}
			got, err := os.ReadFile(at)
			if string(got) != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%s, killed=%t: the file holds %q, %v; want %q", name, killed, got, err, c.want)
			}
			left, err := os.ReadDir(dir)
			must(t, err)
			if len(left) != min(1, len(c.want)) {
				t.Errorf("%s, killed=%t: left are %v", name, killed, left)
			}
		}
	}
}

// withoutPrivileges calls f as the owner of a directory and of what it holds, whom modes bind. f starts no goroutine.
func withoutPrivileges(t *testing.T, dir string, f func() error) error {
	t.Helper()
	if os.Geteuid() != 0 {
		return f()
	}
	const nobody = 65534
	entries, err := os.ReadDir(dir)
	must(t, err)
	must(t, os.Chown(dir, nobody, nobody))
	for _, e := range entries {
		must(t, os.Chown(filepath.Join(dir, e.Name()), nobody, nobody))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err = unix.SetfsuidRetUid(nobody) // of this thread
	must(t, err)
	defer func() {
		_, err := unix.SetfsuidRetUid(0)
		must(t, err)
	}()
	return f()
}

// TestBackTriesAgainAfterAFailedLook has a look at the new entry, or at the old one, that fails once.
func TestBackTriesAgainAfterAFailedLook(t *testing.T) {
	t.Parallel()
	for _, had := range []bool{false, true} {
		for _, saved := range []bool{false, true} {
			r, dir := newTree(t, "openat2")
			at, want := filepath.Join(dir, "file"), ""
			if had {
				put(t, dir, "file", "old")
				want = "old"
			}
			dirs, tmp := tree.NewDirs(r), tree.SwapName()
			swap, err := dirs.Stage(t.Context(), "file", tmp, &tree.NewEntry{Content: strings.NewReader("made"), Mode: 0o644})
			must(t, err)
			must(t, swap.Take())
			if saved {
				want = "saved"
				must(t, os.WriteFile(at, []byte(want), 0o600))
			}
			fails := func(tree.Former) (bool, error) { return false, fserr.EIO }
			if err := swap.Back(fails, fails); fserr.CodeOf(err) != fserr.EIO || errors.Is(err, tree.ErrOccupied) {
				t.Errorf("had=%t, saved=%t: back ended with %v", had, saved, err)
			}
			again, err := dirs.Resume("file", tree.Staged{Tmp: tmp, Ino: swap.Ino(), Had: had})
			must(t, err)
			if err := again.Back(is("made"), is("old")); errors.Is(err, tree.ErrOccupied) != saved || err != nil && !saved {
				t.Errorf("had=%t, saved=%t: back ended again with %v", had, saved, err)
			}
			must(t, dirs.Close())
			if got, err := os.ReadFile(at); string(got) != want || (err != nil) != (want == "") {
				t.Errorf("had=%t, saved=%t: the file holds %q, %v; want %q", had, saved, got, err, want)
			}
			left, err := os.ReadDir(dir)
			must(t, err)
			if len(left) != min(1, len(want)) {
				t.Errorf("had=%t, saved=%t: left are %v", had, saved, left)
			}
		}
	}
}

// TestStageEndsWithItsCall cancels the call after the first piece of the new content.
func TestStageEndsWithItsCall(t *testing.T) {
	r, dir := newTree(t, "openat2")
	dirs := tree.NewDirs(r)
	ctx, cancel := context.WithCancel(t.Context())
	read := 0
	_, err := dirs.Stage(ctx, "file", tree.SwapName(), &tree.NewEntry{Mode: 0o644, Content: io.LimitReader(readerFunc(func(b []byte) (int, error) {
		read += len(b)
		cancel()
		return len(b), nil
	}), 64<<20)})
	names, listErr := os.ReadDir(dir)
	must(t, errors.Join(listErr, dirs.Close()))
	if !errors.Is(err, context.Canceled) || read > 1<<20 || len(names) > 0 {
		t.Errorf("%v after %d bytes; there are %v", err, read, names)
	}
}

type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
