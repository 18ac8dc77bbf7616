// Package cells is the work that is measured: each Cell does one kind of it with a number of
// workers, and runs with every peer that can. It knows no peer by name.
package cells

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/bench/peers"
)

// Step does one operation. It returns the share of it that was done: 1, or less when work of
// many parts was cut because it would take too long.
type Step func(worker, i int) (share float64, err error)

// Cell is one kind of work at one concurrency.
type Cell struct {
	// Name says what, as in the requirements: "stat".
	Name string
	// Concurrency is how many operations a peer has under way at most.
	Concurrency int
	// Workers call Step at a time: Concurrency, or 1 for work that divides itself.
	Workers int
	// Bytes an operation moves; 0 when it does not matter.
	Bytes int64
	// Parts an operation consists of, such as 10,000 stats; 1 for a simple one.
	Parts int
	// Bind returns the step on a connection of a peer, nil when it cannot do it.
	Bind func(c peers.Conn, peer string) Step
	// Work is the same for clients that are programs of their own; nil when they take no part.
	Work *peers.Work
}

// Key is the name with the concurrency: "stat/32".
func (c *Cell) Key() string { return fmt.Sprintf("%s/%d", c.Name, c.Concurrency) }

// cut is how long work of many parts may take before it is cut.
const cut = 1500 * time.Millisecond

// All returns the cells in the order of the report.
func All(s Sizes) []*Cell {
	var out []*Cell
	both := func(name string, bind func(peers.Conn, string) Step, work *peers.Work) {
		for _, n := range []int{1, many} {
			out = append(out, &Cell{Name: name, Concurrency: n, Workers: n, Parts: 1, Bind: bind, Work: work})
		}
	}
	both("stat", s.stat, &peers.Work{Op: "stat", Names: s.names(fileName)})
	both("read 4 KiB", s.read, &peers.Work{Op: "read", Names: s.names(fileName), Size: small})
	both("overwrite 4 KiB", s.overwrite, nil)
	both("create+delete", s.createDelete, nil)
	both("readdir 1,000 with stats", s.list, nil)
	walked := s.StatusDirs * s.StatusFiles
	for _, n := range []int{1, many} {
		out = append(out, &Cell{Name: "status walk of 10,000", Concurrency: n, Workers: 1, Parts: walked, Bind: s.statusWalk(n), Work: &peers.Work{Op: "walk", Names: s.statusNames(), Size: int64(n)}})
	}
	for _, n := range []int{1, many} {
		out = append(out, &Cell{Name: "list 10,000 recursively", Concurrency: n, Workers: 1, Parts: walked, Bind: s.listTree(n)})
	}
	return append(out,
		&Cell{Name: "grep 5,000 files", Concurrency: many, Workers: 1, Parts: s.GrepFiles, Bind: s.grep},
		&Cell{Name: "read 256 MiB", Concurrency: 1, Workers: 1, Parts: 1, Bytes: s.Large, Bind: s.readLarge, Work: &peers.Work{Op: "stream", Names: []string{largeName}, Size: s.Large}},
		&Cell{Name: "write 256 MiB", Concurrency: 1, Workers: 1, Parts: 1, Bytes: s.Large, Bind: s.writeLarge},
		&Cell{Name: "confined read 4 KiB", Concurrency: 1, Workers: 1, Parts: 1, Bind: s.confined})
}

// many is the higher of the two concurrencies.
const many = 32

// whole makes a Step of an operation that is always done as a whole.
func whole(do func(worker, i int) error) Step {
	return func(worker, i int) (float64, error) { return 1, do(worker, i) }
}

func (s Sizes) stat(c peers.Conn, _ string) Step {
	p, ok := c.(peers.Stater)
	if !ok {
		return nil
	}
	names := s.names(fileName)
	return whole(func(worker, i int) error { return p.Stat(worker, names[(worker+i)%len(names)]) })
}

// names are made before anything is measured.
func (s Sizes) names(name func(int) string) []string {
	out := make([]string, s.Files)
	for i := range out {
		out[i] = name(i)
	}
	return out
}

func (s Sizes) read(c peers.Conn, _ string) Step {
	p, ok := c.(peers.FileReader)
	if !ok {
		return nil
	}
	names := s.names(fileName)
	return whole(func(worker, i int) error {
		b, err := p.ReadFile(worker, names[(worker+i)%len(names)])
		if err == nil && len(b) != small {
			err = fmt.Errorf("read %d bytes of %d", len(b), small)
		}
		return err
	})
}

func (s Sizes) overwrite(c peers.Conn, peer string) Step {
	p, ok := c.(peers.FileWriter)
	if !ok {
		return nil
	}
	data := prose()
	names := s.names(func(i int) string { return ownName(peer, i) })
	// Each worker writes files of its own, because every peer serializes the writes to one file.
	return whole(func(worker, i int) error {
		return p.WriteFile(worker, names[(worker+many*(i%2))%len(names)], data)
	})
}

func (s Sizes) createDelete(c peers.Conn, peer string) Step {
	w, ok := c.(peers.FileWriter)
	r, can := c.(peers.Remover)
	if !ok || !can {
		return nil
	}
	names := s.names(func(i int) string { return ownName(peer, i) + ".new" })
	return whole(func(worker, _ int) error {
		if err := w.WriteFile(worker, names[worker], nil); err != nil {
			return err
		}
		return r.Remove(worker, names[worker])
	})
}

func (s Sizes) list(c peers.Conn, _ string) Step {
	p, ok := c.(peers.Lister)
	if !ok {
		return nil
	}
	return whole(func(worker, _ int) error {
		n, _, err := p.List(worker, "list")
		if err == nil && n != s.Entries {
			err = fmt.Errorf("listed %d entries of %d", n, s.Entries)
		}
		return err
	})
}

// statusWalk describes every file of the tree, as git does for its index: one by one, or many at
// a time, in the way in which the peer's users would ask.
func (s Sizes) statusWalk(n int) func(peers.Conn, string) Step {
	names := s.statusNames()
	return func(c peers.Conn, _ string) Step {
		p, ok := c.(peers.Stater)
		if _, files := c.(peers.Lister); !ok || !files {
			return nil
		}
		if all, ok := c.(peers.ManyStater); ok && n > 1 {
			return whole(func(int, int) error { return all.StatAll(names) })
		}
		return func(int, int) (float64, error) {
			return divide(len(names), n, func(worker, i int) error { return p.Stat(worker, names[i]) })
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

// divide does parts by n workers in order, and stops when it takes too long.
func divide(parts, n int, do func(worker, i int) error) (float64, error) {
	var next, done atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, n)
	end := time.Now().Add(cut)
	for worker := range n {
		wg.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= parts || (i%16 == 0 && time.Now().After(end)) {
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
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(done.Load()) / float64(parts), nil
}

// grep searches by the peer's own search or, where it has none, by reading every file, as
// that peer's users must.
func (s Sizes) grep(c peers.Conn, _ string) Step {
	if p, ok := c.(peers.Grepper); ok {
		want := (s.GrepFiles + needleEvery/2 - 1) / needleEvery
		return whole(func(int, int) error {
			n, err := p.Grep("grep", needle)
			if err == nil && n != want {
				err = fmt.Errorf("found %d files of %d", n, want)
			}
			return err
		})
	}
	p, ok := c.(peers.FileReader)
	if _, files := c.(peers.Lister); !ok || !files {
		return nil
	}
	return func(int, int) (float64, error) {
		var found atomic.Int64
		return divide(s.GrepFiles, many, func(worker, i int) error {
			b, err := p.ReadFile(worker, grepName(i))
			if bytes.Contains(b, []byte(needle)) {
				found.Add(1)
			}
			return err
		})
	}
}

func (s Sizes) readLarge(c peers.Conn, _ string) Step {
	p, ok := c.(peers.StreamReader)
	if !ok {
		return nil
	}
	return whole(func(int, int) error {
		n, err := p.ReadStream(largeName)
		if err == nil && n != s.Large {
			err = fmt.Errorf("read %d bytes of %d", n, s.Large)
		}
		return err
	})
}

// writeLarge writes one file again and again: the disk holds one copy for each peer.
func (s Sizes) writeLarge(c peers.Conn, peer string) Step {
	p, ok := c.(peers.StreamWriter)
	if !ok {
		return nil
	}
	return whole(func(int, int) error { return p.WriteStream(ownDir(peer)+"/large.bin", s.Large) })
}

func (s Sizes) confined(c peers.Conn, _ string) Step {
	p, ok := c.(peers.DirectReader)
	if !ok {
		return nil
	}
	names := s.names(fileName)
	buf := make([]byte, 2*small)
	return whole(func(_, i int) error {
		n, err := p.ReadDirect(names[i%len(names)], buf)
		if err == nil && n != small {
			err = fmt.Errorf("read %d bytes of %d", n, small)
		}
		return err
	})
}
