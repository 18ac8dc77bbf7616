// Package compare measures ctxfs beside its peers: each Cell is one kind of work with a number of workers, and runs with every peer that can.
package compare

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/bench/peers"
)

// Step does one operation. It returns the share of it that was done: 1, or less when work of many parts was cut because it would take too long.
type Step func(worker, i int) (share float64, err error)

// Cell is one kind of work at one concurrency.
type Cell struct {
	// Name says what, as in the requirements: "stat".
	Name string
	// Concurrency is how many operations a peer has under way at most. If the work divides itself, one worker does it.
	Concurrency int
	Divides     bool
	// Long is work that is not warmed up.
	Long bool
	// Bytes an operation moves; 0 when it does not matter.
	Bytes int64
	// Bind returns the step on a connection of a peer, nil when it cannot do it.
	Bind func(c *peers.Conn, peer string) Step
	// Work is the same for clients that are programs of their own; nil when they take no part.
	Work *peers.Work
}

// Key is the name with the concurrency: "stat/32".
func (c *Cell) Key() string { return fmt.Sprintf("%s/%d", c.Name, c.Concurrency) }

// workers is how many call Step at a time.
func (c *Cell) workers() int {
	if c.Divides {
		return 1
	}
	return c.Concurrency
}

// Many is the higher of the two concurrencies.
const Many = 32

// cut is how long work of many parts may take before it is cut.
const cut = 1500 * time.Millisecond

// cells returns all in the order of the report.
func (s Sizes) cells() (out []*Cell) {
	add := func(c Cell, at ...int) {
		for _, c.Concurrency = range at {
			one := c
			out = append(out, &one)
		}
	}
	names := s.names(fileName)
	add(Cell{Name: "stat", Bind: s.stat, Work: &peers.Work{Op: "stat", Names: names}}, 1, Many)
	add(Cell{Name: "read 4 KiB", Bind: s.Read, Work: &peers.Work{Op: "read", Names: names, Size: small}}, 1, Many)
	add(Cell{Name: "overwrite 4 KiB", Bind: s.overwrite}, 1, Many)
	add(Cell{Name: "create+delete", Bind: s.createDelete}, 1, Many)
	add(Cell{Name: "readdir 1,000 with stats", Bind: s.List}, 1, Many)
	for _, n := range []int{1, Many} {
		add(Cell{Name: "status walk of 10,000", Divides: true, Long: true, Bind: s.statusWalk(n), Work: &peers.Work{Op: "walk", Names: s.statusNames(), Size: int64(n)}}, n)
	}
	for _, n := range []int{1, Many} {
		add(Cell{Name: "list 10,000 recursively", Divides: true, Long: true, Bind: s.listTree(n)}, n)
	}
	add(Cell{Name: "grep 5,000 files", Divides: true, Long: true, Bind: s.grep}, Many)
	add(Cell{Name: "read 256 MiB", Bytes: s.Large, Long: true, Bind: s.ReadLarge, Work: &peers.Work{Op: "stream", Names: []string{largeName}, Size: s.Large}}, 1)
	add(Cell{Name: "write 256 MiB", Bytes: s.Large, Long: true, Bind: s.writeLarge}, 1)
	return out
}

// whole makes a Step of an operation that is always done as a whole.
func whole(do func(worker, i int) error) Step {
	return func(worker, i int) (float64, error) { return 1, do(worker, i) }
}

// expect is an error unless as much came as there is.
func expect[T int | int64](got, want T, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("%d came, of %d", got, want)
	}
	return err
}

// names are made before anything is measured.
func (s Sizes) names(name func(int) string) []string {
	out := make([]string, s.Files)
	for i := range out {
		out[i] = name(i)
	}
	return out
}

func (s Sizes) stat(c *peers.Conn, _ string) Step {
	if c.Stat == nil {
		return nil
	}
	names := s.names(fileName)
	return whole(func(worker, i int) error { return c.Stat(worker, names[(worker+i)%len(names)]) })
}

// Read binds reads of small files.
func (s Sizes) Read(c *peers.Conn, _ string) Step {
	if c.Read == nil {
		return nil
	}
	names := s.names(fileName)
	return whole(func(worker, i int) error {
		b, err := c.Read(worker, names[(worker+i)%len(names)])
		return expect(len(b), small, err)
	})
}

func (s Sizes) overwrite(c *peers.Conn, peer string) Step {
	if c.Write == nil {
		return nil
	}
	data, names := prose(), s.names(func(i int) string { return ownName(peer, i) })
	// Each worker writes files of its own, because every peer serializes the writes to one file.
	return whole(func(worker, i int) error { return c.Write(worker, names[(worker+Many*(i%2))%len(names)], data) })
}

func (s Sizes) createDelete(c *peers.Conn, peer string) Step {
	if c.Write == nil || c.Remove == nil {
		return nil
	}
	names := s.names(func(i int) string { return ownName(peer, i) + ".new" })
	return whole(func(worker, _ int) error {
		if err := c.Write(worker, names[worker], nil); err != nil {
			return err
		}
		return c.Remove(worker, names[worker])
	})
}

// List binds listings of a directory.
func (s Sizes) List(c *peers.Conn, _ string) Step {
	if c.List == nil {
		return nil
	}
	return whole(func(worker, _ int) error {
		n, _, err := c.List(worker, listName)
		return expect(n, s.Entries, err)
	})
}

// statusWalk describes every file of the tree, as git does for its index: one by one, or many at a time, in the way in which the peer's users
// would ask.
func (s Sizes) statusWalk(n int) func(*peers.Conn, string) Step {
	names := s.statusNames()
	return func(c *peers.Conn, _ string) Step {
		switch {
		case c.Stat == nil || c.List == nil:
			return nil
		case c.StatAll != nil && n > 1:
			return whole(func(int, int) error { return c.StatAll(names) })
		}
		return func(int, int) (float64, error) {
			return divide(len(names), n, cut, func(worker, i int) error { return c.Stat(worker, names[i]) })
		}
	}
}

func (s Sizes) statusNames() []string {
	names := make([]string, s.StatusDirs*s.StatusFiles)
	for i := range names {
		names[i] = statusName(i, s.StatusFiles)
	}
	return names
}

// divide does parts by n workers in order, and stops when it takes longer than most; 0 is no bound.
func divide(parts, n int, most time.Duration, do func(worker, i int) error) (float64, error) {
	var next, done atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, n)
	end := time.Now().Add(most)
	for worker := range n {
		wg.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= parts || (most > 0 && i%16 == 0 && time.Now().After(end)) {
					return
				}
				if errs[worker] = do(worker, i); errs[worker] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / float64(max(1, parts)), errors.Join(errs...)
}

// listTree lists all that is below a directory: by the peer's own call or, where it has none, directory by directory, n at a time.
func (s Sizes) listTree(n int) func(*peers.Conn, string) Step {
	want := s.StatusDirs*s.StatusFiles + s.StatusDirs + (s.StatusDirs+perParent-1)/perParent
	return func(c *peers.Conn, _ string) Step {
		list := func() (int, error) { return listAll(c.List, statusDir, n) }
		switch {
		case c.Tree != nil:
			list = func() (int, error) { return c.Tree(statusDir) }
		case c.List == nil:
			return nil
		}
		return whole(func(int, int) error {
			n, err := list()
			return expect(n, want, err)
		})
	}
}

// listAll lists level by level.
func listAll(list func(worker int, dir string) (int, []string, error), top string, n int) (int, error) {
	var entries atomic.Int64
	for level := []string{top}; len(level) > 0; {
		below := make([][]string, len(level))
		_, err := divide(len(level), n, 0, func(worker, i int) error {
			n, dirs, err := list(worker, level[i])
			entries.Add(int64(n))
			for _, d := range dirs {
				below[i] = append(below[i], level[i]+"/"+d)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		level = slices.Concat(below...)
	}
	return int(entries.Load()), nil
}

// grep searches by the peer's own search or, where it has none, by reading every file, as that peer's users must.
func (s Sizes) grep(c *peers.Conn, _ string) Step {
	if c.Grep != nil {
		return whole(func(int, int) error {
			n, err := c.Grep("grep", needle)
			return expect(n, (s.GrepFiles+needleEvery/2-1)/needleEvery, err)
		})
	}
	if c.Read == nil || c.List == nil {
		return nil
	}
	return func(int, int) (float64, error) {
		var found atomic.Int64
		return divide(s.GrepFiles, Many, cut, func(worker, i int) error {
			b, err := c.Read(worker, grepName(i))
			if bytes.Contains(b, []byte(needle)) {
				found.Add(1)
			}
			return err
		})
	}
}

// ReadLarge binds reads of the large file.
func (s Sizes) ReadLarge(c *peers.Conn, _ string) Step {
	if c.ReadLarge == nil {
		return nil
	}
	return whole(func(int, int) error {
		n, err := c.ReadLarge(largeName)
		return expect(n, s.Large, err)
	})
}

// writeLarge writes one file again and again: the disk holds one copy for each peer.
func (s Sizes) writeLarge(c *peers.Conn, peer string) Step {
	if c.WriteLarge == nil {
		return nil
	}
	return whole(func(int, int) error { return c.WriteLarge(ownDir(peer)+"/large.bin", s.Large) })
}
