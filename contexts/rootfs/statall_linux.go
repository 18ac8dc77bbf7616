package rootfs

import (
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// statStep is how many entries one goroutine asks about before it looks what is left.
const statStep = 64

// statAll gives entries of the directory dir their attributes, in place, and returns
// those that are still there. Of a large directory another core takes a share, when it is
// idle: one that is not comes too late to find anything left, and delays nobody.
func statAll(dir int, entries []Entry) ([]Entry, error) {
	d := statBatch{dir: dir, entries: entries, stats: make([]Stat, len(entries))}
	if len(entries) > 2*statStep && runtime.GOMAXPROCS(0) > 1 {
		var helper sync.WaitGroup
		helper.Go(d.work)
		d.work()
		helper.Wait()
	} else {
		d.work()
	}
	if d.err != nil {
		return nil, d.err
	}
	return d.kept(), nil
}

// statBatch is a statAll under way.
type statBatch struct {
	dir     int
	entries []Entry
	// stats are the entries' attributes; Entry.Stat points to them.
	stats []Stat
	// taken is how many entries somebody works on or has done.
	taken atomic.Int64

	mu sync.Mutex
	// err is the failure of the first entry, number failed, that had one.
	err    error
	failed int
}

func (d *statBatch) work() {
	var x unix.Statx_t
	for {
		end := int(d.taken.Add(statStep))
		first := end - statStep
		for i := first; i < min(end, len(d.entries)); i++ {
			if err := statxAt(d.dir, d.entries[i].Name, &x); err == nil {
				d.put(i, &x)
			} else if err != unix.ENOENT {
				d.fail(i, err)
				return
			}
		}
		if end >= len(d.entries) {
			return
		}
	}
}

func (d *statBatch) put(i int, x *unix.Statx_t) {
	st := &d.stats[i]
	fillStat(st, x)
	d.entries[i].Stat, d.entries[i].Type = st, st.Type()
}

func (d *statBatch) fail(i int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil || i < d.failed {
		d.err, d.failed = err, i
	}
	d.taken.Store(int64(len(d.entries))) // nobody needs the rest
}

// kept moves together the entries that had attributes.
func (d *statBatch) kept() []Entry {
	kept := d.entries[:0]
	for _, e := range d.entries {
		if e.Stat != nil {
			kept = append(kept, e)
		}
	}
	return kept
}
