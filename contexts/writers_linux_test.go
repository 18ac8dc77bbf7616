package contexts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// writer writes ever higher numbers into its files, one after the other, and stops when one cannot be written.
type writer struct {
	m     *Manager
	id    ID
	dir   string
	files int
	// acknowledged is the last number that was written to all files.
	acknowledged int
	// made is the last number of each file, and in which generation of the context it was written.
	made map[int]made
	err  error
}

type made struct {
	n          int
	generation uint64
}

func (w *writer) run(ctx context.Context) {
	for w.err == nil && ctx.Err() == nil {
		w.once()
	}
}

// once writes the next number to all files.
func (w *writer) once() {
	for i := range w.files {
		if w.err = w.write(i, w.acknowledged+1); w.err != nil {
			return
		}
	}
	w.acknowledged++
}

// write replaces a file's content as a call of a client does.
func (w *writer) write(i, n int) error {
	a, err := w.m.Acquire(context.Background(), w.id, Write)
	if err != nil {
		return err
	}
	defer a.Release()
	f, err := a.Root.OpenFile(fmt.Sprintf("%s/%d", w.dir, i), rootfs.O_WRONLY|rootfs.O_CREAT, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err = f.WriteAt(fmt.Appendf(nil, "%08d", n), 0); err == nil {
		w.made[i] = made{n, a.Generation}
	}
	return err
}

// numbers reads what the writer's files say in a folder; missing ones say 0.
func (w *writer) numbers(t testing.TB, folder string) []int {
	t.Helper()
	out := make([]int, w.files)
	for i := range out {
		data, err := os.ReadFile(filepath.Join(folder, w.dir, strconv.Itoa(i)))
		if os.IsNotExist(err) {
			continue
		}
		must(t, err)
		if out[i], err = strconv.Atoi(string(data)); err != nil {
			t.Fatalf("%s/%d is torn: %q", w.dir, i, data)
		}
	}
	return out
}

// wantOneMoment checks that a copy has every write up to some moment and none after it.
func (w *writer) wantOneMoment(t testing.TB, folder string) {
	t.Helper()
	got := w.numbers(t, folder)
	if !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) || got[0]-got[len(got)-1] > 1 {
		t.Errorf("%s/%s is of more than one moment: %v", folder, w.dir, got)
	}
}

// startWriters begins to write into a context; stop ends that.
func startWriters(t testing.TB, m *Manager, id ID, n int) (writers []*writer, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range n {
		w := &writer{m: m, id: id, dir: fmt.Sprintf("w%d", i), files: 40, made: map[int]made{}}
		a, err := m.Acquire(ctx, id, Write)
		must(t, err)
		must(t, a.Root.Mkdir(w.dir, 0o755))
		a.Release()
		w.once() // so that there is something to copy, however busy the machine is
		writers = append(writers, w)
		wg.Go(func() { w.run(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return writers, stop
}
