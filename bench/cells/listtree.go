package cells

import (
	"fmt"
	"sync"

	"github.com/ctxfs/ctxfs/bench/peers"
)

// listTree lists all that is below a directory: by the peer's own call or, where it has
// none, directory by directory, n at a time.
func (s Sizes) listTree(n int) func(peers.Conn, string) Step {
	parents := (s.StatusDirs + perParent - 1) / perParent
	want := s.StatusDirs*s.StatusFiles + s.StatusDirs + parents
	return func(c peers.Conn, _ string) Step {
		list := lister(c, n)
		if list == nil {
			return nil
		}
		return whole(func(int, int) error {
			n, err := list()
			if err == nil && n != want {
				err = fmt.Errorf("listed %d entries of %d", n, want)
			}
			return err
		})
	}
}

func lister(c peers.Conn, n int) func() (int, error) {
	if p, ok := c.(peers.TreeLister); ok {
		return func() (int, error) { return p.ListTree("status") }
	}
	if p, ok := c.(peers.Lister); ok {
		return func() (int, error) { return listAll(p, "status", n) }
	}
	return nil
}

// frontier is the directories that are still to be listed.
type frontier struct {
	mu      sync.Mutex
	changed sync.Cond
	dirs    []string
	busy    int
	entries int
	err     error
}

func listAll(p peers.Lister, dir string, n int) (int, error) {
	f := &frontier{dirs: []string{dir}}
	f.changed.L = &f.mu
	var wg sync.WaitGroup
	for worker := range n {
		wg.Go(func() {
			for {
				dir, ok := f.take()
				if !ok {
					return
				}
				f.give(dir)(p.List(worker, dir))
			}
		})
	}
	wg.Wait()
	return f.entries, f.err
}

// take waits for a directory; false when there will be no more.
func (f *frontier) take() (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.dirs) == 0 && f.busy > 0 && f.err == nil {
		f.changed.Wait()
	}
	if len(f.dirs) == 0 || f.err != nil {
		return "", false
	}
	dir := f.dirs[len(f.dirs)-1]
	f.dirs = f.dirs[:len(f.dirs)-1]
	f.busy++
	return dir, true
}

// give takes the listing of dir.
func (f *frontier) give(dir string) func(n int, dirs []string, err error) {
	return func(n int, dirs []string, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.busy--
		f.entries += n
		for _, d := range dirs {
			f.dirs = append(f.dirs, dir+"/"+d)
		}
		if f.err == nil {
			f.err = err
		}
		f.changed.Broadcast()
	}
}
