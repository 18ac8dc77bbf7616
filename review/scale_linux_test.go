package review

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
)

// settle waits until a later change of a directory's files shows in their ctimes.
func settle(t testing.TB, dir string) {
	t.Helper()
	root, err := rootfs.Open(dir, rootfs.Options{})
	must(t, err)
	scan := &seed.Scan{}
	must(t, root.Walk(t.Context(), "/", tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		scan.Entries = append(scan.Entries, seed.NewEntry(rel, *e.Stat, ""))
		return err
	}))
	must(t, root.Close())
	must(t, layer.Settle(t.Context(), scan))
}

// TestFirstListReadsOnlyWhatChanged removes all of the layer but the base of one file: a list that compares others fails.
func TestFirstListReadsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	all := files{"link": "-> a"}
	for i := range 300 {
		all[fmt.Sprintf("d%d/e%d/f", i%3, i)] = fmt.Sprintln("file", i)
	}
	w := newWorld(t, all)
	settle(t, w.in(id))
	marks, err := seed.MarksOf(t.Context(), w.in(id), w.manifest)
	must(t, err)
	must(t, marks.Write(w.in("marks"), w.digest))
	must(t, w.reviews.Copied("", id, w.in("marks")))

	hidden := w.in(id) + "/d1/e4/f"
	old, err := os.Stat(hidden)
	must(t, err)
	must(t, os.WriteFile(hidden, []byte("FILE 4\n"), 0o600))
	must(t, os.Chtimes(hidden, old.ModTime(), old.ModTime()))
	for p := range all {
		if p != "d1/e4/f" {
			must(t, os.Remove(filepath.Join(w.in("layer"), p)))
		}
	}
	if l := w.changes(Query{}); len(l.Changes) != 1 || l.Changes[0].Path != "d1/e4/f" || l.Changes[0].Kind != Modified {
		t.Errorf("the hidden edit is listed as %v", l.Changes)
	}
	must(t, w.reviews.Copied("", id, ""))
	if _, err := w.reviews.Changes(t.Context(), Query{Context: id}); err == nil {
		t.Error("without marks the list needs no layer either: the test shows nothing")
	}
}

// manyFiles is a base with enough files for several goroutines, and changes of each kind.
func manyFiles() (base, changed files) {
	base, changed = files{}, files{}
	for i := range 400 {
		p := fmt.Sprintf("d%d/f%d", i%7, i)
		switch base[p] = numbered(5); i % 4 {
		case 0:
			changed[p] = byAgent(base[p])
		case 1:
			changed[fmt.Sprintf("new%d/deep/f", i)] = fmt.Sprintln("new", i)
		case 2:
			changed[p] = base[p]
		}
	}
	return base, changed
}

// edit gives the context these files.
func (w *world) edit(content files) {
	w.t.Helper()
	must(w.t, os.RemoveAll(w.in(id)))
	must(w.t, os.Mkdir(w.in(id), 0o755))
	write(w.t, w.in(id), content)
}

func TestApplyOfManyFiles(t *testing.T) {
	t.Parallel()
	base, changed := manyFiles()
	w := newWorld(t, base)
	w.edit(changed)
	for range 2 { // the second time the contents are in the store
		e, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &Selection{All: true}, Approve: true, Actor: "host"})
		must(t, err)
		same(t, "applied", read(t, w.in("workspace")), changed)
		_, err = w.undo(e.ID)
		must(t, err)
		same(t, "undone", read(t, w.in("workspace")), base)
	}
	if left := reserved(t, w.in("workspace")); len(left) > 0 {
		t.Errorf("temporary names are left: %q", left)
	}
}

// A save after the files were exchanged changes neither the size nor the time of the file that it replaces, or both.
func TestSaveDuringAnApplyOfManyFiles(t *testing.T) {
	t.Parallel()
	base, changed := manyFiles()
	for _, phase := range []string{"intended", "all taken"} {
		for name, save := range map[string]func(w *world, f *os.File){
			"in place": func(w *world, f *os.File) {
				_, err := f.WriteAt([]byte("LINE"), 0)
				must(w.t, err)
			},
			"in place, size and time as before": func(w *world, f *os.File) {
				st, err := f.Stat()
				must(w.t, err)
				_, err = f.WriteAt([]byte("LINE"), 0)
				must(w.t, err)
				if phase == "intended" {
					must(w.t, os.Chtimes(f.Name(), st.ModTime(), st.ModTime()))
				}
			},
		} {
			t.Run(phase+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, base)
				w.edit(changed)
				f, err := os.OpenFile(w.in("workspace/d1/f8"), os.O_RDWR, 0)
				must(t, err)
				w.at(phase, func() { save(w, f); must(t, f.Close()) })
				_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &Selection{All: true}, Approve: true, Actor: "host"})
				wantReason(t, err, Conflicting)
				want := files{}
				for p, text := range base {
					want[p] = text
				}
				want["d1/f8"] = strings.Replace(base["d1/f8"], "line", "LINE", 1)
				same(t, "put back", read(t, w.in("workspace")), want)
				if left := reserved(t, w.in("workspace")); len(left) > 0 {
					t.Errorf("temporary names are left: %q", left)
				}
			})
		}
	}
}

// TestListShedsTexts has more changed text than a list holds in memory.
func TestListShedsTexts(t *testing.T) {
	t.Parallel()
	base, changed := files{}, files{}
	line := strings.Repeat("x", 99) + "\n"
	for i := range 48 {
		p := fmt.Sprintf("f%d", i)
		base[p] = strings.Repeat(line, 5000) + "end\n"
		changed[p] = "begin\n" + base[p]
	}
	w := newWorld(t, base)
	w.edit(changed)
	l, err := w.reviews.Changes(t.Context(), Query{Context: id})
	must(t, err)
	defer func() { must(t, l.Close()) }()
	var shed *Change
	var patch strings.Builder
	for _, c := range l.Changes {
		if added, removed := c.Text.Lines(); added != 1 || removed != 0 || len(c.HunkIDs()) != 1 || c.HunkIDs()[0] == "" {
			t.Errorf("%s has +%d -%d in %d hunks", c.Path, added, removed, len(c.HunkIDs()))
		}
		if c.Text.isShed {
			shed = c
			must(t, w.reviews.Patch(t.Context(), l, c, 1, &patch))
		}
	}
	if shed == nil {
		t.Fatal("no text was shed")
	}
	d, err := w.reviews.Text(t.Context(), l, shed)
	must(t, err)
	if h := d.Hunks[0]; h.ID != shed.HunkIDs()[0] || len(h.Added) != 1 || h.Added[0] != "begin\n" || len(d.Before) != 5001 {
		t.Errorf("the text that was read again is %+v, of %d lines", h, len(d.Before))
	}
	if !strings.Contains(patch.String(), "+begin\n "+line) {
		t.Error("the patch lacks the change")
	}
	_, err = w.reviews.Decide(t.Context(), DecideRequest{Context: id, Selection: Selection{Patch: []byte(patch.String())}, Decision: Approved, Actor: "host"})
	must(t, err)
	write(t, w.in(id), files{string(shed.Path): "other\n"})
	if _, err := w.reviews.Text(t.Context(), l, shed); err == nil {
		t.Error("the text of a file that changed since was read")
	}
}

// scaleEnv is the number of files of TestMemoryOfManyChanges.
const scaleEnv = "CTXFS_REVIEW_FILES"

// TestMemoryOfManyChanges lists and applies changes of many files, and looks at how large the heap becomes.
func TestMemoryOfManyChanges(t *testing.T) {
	n, size := 700, 60<<10
	if v := os.Getenv(scaleEnv); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		must(t, err)
		size = 2 << 10
	}
	w := newWorld(t, nil)
	body := strings.Repeat(strings.Repeat("y", 79)+"\n", size/80)
	for _, tree := range []string{"workspace", "layer", id} {
		for i := range n {
			text := fmt.Sprintln("file", i) + body
			if tree == id {
				text += "changed\n"
			}
			name := filepath.Join(w.in(tree), strconv.Itoa(i/100), strconv.Itoa(i))
			if i%100 == 0 {
				must(t, os.Mkdir(filepath.Dir(name), 0o755))
			}
			must(t, os.WriteFile(name, []byte(text), 0o600))
		}
	}
	var err error
	w.manifest, err = manifestOf(w.in("layer"))
	must(t, err)
	gc := debug.SetGCPercent(20) // many collections
	t.Cleanup(func() { debug.SetGCPercent(gc) })
	runtime.GC()
	before := liveHeap()
	peak := watchHeap(t)
	l := w.changes(Query{})
	if len(l.Changes) != n {
		t.Fatalf("%d changes are listed, not %d", len(l.Changes), n)
	}
	_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &Selection{All: true}, Approve: true, Actor: "host"})
	must(t, err)
	// What is held of contents does not grow. Each change takes up to 4 KiB: paths, hashes, its step in the journal and its verdict.
	grew, most := peak()-before, uint64(4*maxKept+n*4<<10)
	fmt.Printf("review: the heap grew by %d MiB for %d changed files of %d KiB\n", grew>>20, n, size>>10)
	if grew > most {
		t.Errorf("the heap grew by %d MiB, at most %d MiB are expected", grew>>20, most>>20)
	}
}

// liveHeap returns the bytes that the last collection of garbage has left. What is allocated since says how fast the machine collects.
func liveHeap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// watchHeap returns a function that ends the watch, and returns the largest heap seen.
func watchHeap(t *testing.T) (peak func() uint64) {
	ctx, stop := context.WithCancel(t.Context())
	most := make(chan uint64)
	go func() {
		var seen uint64
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			seen = max(seen, liveHeap())
			select {
			case <-tick.C:
			case <-ctx.Done():
				most <- seen
				return
			}
		}
	}()
	return func() uint64 { stop(); return <-most }
}
