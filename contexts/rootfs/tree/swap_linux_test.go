package tree_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// is says whether a file has a content.
func is(content string) func(tree.Former) (bool, error) {
	return func(f tree.Former) (bool, error) {
		got, err := io.ReadAll(f.File)
		return string(got) == content, err
	}
}

// TestBackKeepsTheLaterSave interrupts a swap of "old" for "made" at each step, with saves of a program before and after. A save in place goes
// to whichever file is at the path then.
func TestBackKeepsTheLaterSave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// steps are done in turn: "exchange", a save in place ("save 1"), one with a rename ("rename 1"), one through a descriptor that the
		// program opened at first ("late 1"), a save with an old time ("dated 1"), and "remove".
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
			swap, err := dirs.Stage("file", tmp, &tree.NewEntry{Content: strings.NewReader("made"), Mode: 0o644})
			must(t, err)
			must(t, swap.Take())
			for step := range strings.SplitSeq(c.steps, ",") {
				time.Sleep(5 * time.Millisecond) // clock: two saves have two times
				what, text, _ := strings.Cut(step, " ")
				switch what {
				case "exchange":
					must(t, unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, filepath.Join(dir, tmp), unix.RENAME_EXCHANGE))
				case "save", "dated":
					must(t, os.WriteFile(at, []byte(text), 0o600))
					if what == "dated" {
						must(t, os.Chtimes(at, time.Unix(1, 0), time.Unix(1, 0)))
					}
				case "rename":
					must(t, os.WriteFile(at+"~", []byte(text), 0o600))
					must(t, os.Rename(at+"~", at))
				case "late":
					must(t, early.Truncate(0))
					_, err := early.WriteAt([]byte(text), 0)
					must(t, err)
				case "remove":
					must(t, os.Remove(at))
				}
			}
			must(t, early.Close())
			if killed {
				swap, err = dirs.Resume("file", tree.Staged{Tmp: tmp, Ino: swap.Ino(), Had: true})
				must(t, err)
			}
			if err := swap.Back(is("made"), is("old")); err != nil && !errors.Is(err, tree.ErrOccupied) {
				t.Errorf("%s, killed=%t: %v", name, killed, err)
			}
			must(t, dirs.Close())
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
