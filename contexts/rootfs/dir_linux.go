package rootfs

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// linuxDir lists by getdents64(2), a page at a time.
type linuxDir struct {
	fd   descriptor
	root *linuxRoot
	mu   sync.Mutex
	rest []Entry // the rest of the last page
}

func (d *linuxDir) Next(n int, stats bool) (out []Entry, err error) {
	if n <= 0 {
		return nil, fserr.New("scandir", "", fserr.EINVAL)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.fd.use(func(fd int) error {
		for len(out) == 0 {
			if err := d.fill(fd); err != nil {
				return err
			}
			var err error
			if out, err = d.take(fd, n, stats); err != nil {
				return err
			}
		}
		return nil
	})
	if err == io.EOF {
		return nil, io.EOF
	}
	return out, failed(err, "scandir", "")
}

func (d *linuxDir) Close() error { return failed(d.fd.close(), "close", "") }

// take returns up to n entries of the page; with stats, those that still exist.
func (d *linuxDir) take(fd, n int, stats bool) ([]Entry, error) {
	n = min(n, len(d.rest))
	page := d.rest[:n:n]
	d.rest = d.rest[n:]
	if !stats {
		return page, nil
	}
	return statAll(fd, page)
}

// fill reads pages until there is an entry. It returns io.EOF at the end.
func (d *linuxDir) fill(fd int) (err error) {
	for len(d.rest) == 0 && err == nil {
		d.rest, err = appendPage(nil, fd, d.root.visible)
	}
	return err
}

func visible(name string) bool { return !Reserved(name) }

// direntPage is the size of a page, in bytes: room for more than a thousand short names.
const direntPage = 64 << 10

// direntPages are buffers for getdents. Only the bytes that the kernel wrote are parsed, so nothing of another directory is seen.
var direntPages = sync.Pool{New: func() any { return new([direntPage]byte) }}

// appendPage appends the entries of one getdents64(2) of the directory fd whose names want accepts. It returns io.EOF at the end, and
// when the directory itself was removed (ENOENT).
func appendPage(out []Entry, fd int, want func(string) bool) ([]Entry, error) {
	page := direntPages.Get().(*[direntPage]byte)
	defer direntPages.Put(page)
	n := 0
	err := node.Uninterrupted(func() (err error) {
		n, err = unix.Getdents(fd, page[:])
		return err
	})
	if err == unix.ENOENT || (err == nil && n == 0) {
		return out, io.EOF
	}
	if err != nil {
		return out, err
	}
	return appendDirents(out, page[:n], want), nil
}

// The layout of struct linux_dirent64 (getdents64(2)).
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// appendDirents copies all names at once: an allocation for each costs more than the rest.
func appendDirents(out []Entry, buf []byte, want func(string) bool) []Entry {
	count, size := 0, 0
	eachDirent(buf, func(name []byte, _ byte) { count, size = count+1, size+len(name) })
	var text strings.Builder
	text.Grow(size)
	if out == nil {
		out = make([]Entry, 0, count)
	}
	eachDirent(buf, func(raw []byte, kind byte) {
		start := text.Len()
		text.Write(raw)
		if name := text.String()[start:]; want(name) {
			out = append(out, Entry{Name: name, Type: typeOfDirent(kind)})
		}
	})
	return out
}

// eachDirent calls each with the names in a page and their d_type, except "." and "..".
func eachDirent(buf []byte, each func(name []byte, kind byte)) {
	for len(buf) >= direntName {
		size := int(binary.NativeEndian.Uint16(buf[direntReclen:]))
		if size < direntName || size > len(buf) {
			return
		}
		name := buf[direntName:size]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if string(name) != "." && string(name) != ".." {
			each(name, buf[direntType])
		}
		buf = buf[size:]
	}
}

// typeOfDirent converts a d_type: the S_IFMT bits, shifted (IFTODT in dirent.h).
func typeOfDirent(d byte) Type {
	if d >= 1<<4 {
		return TypeUnknown
	}
	return node.TypeOf(uint32(d) << 12)
}

// statStep is how many entries a goroutine takes at a time.
const statStep = 64

// statAll sets the attributes of entries of the directory dir, in place, and returns those that still exist. A second goroutine takes a
// share of a large directory if a processor is idle. If none is, it comes too late to find anything left, and delays nothing.
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

// statBatch is one statAll.
type statBatch struct {
	dir     int
	entries []Entry
	// stats are the entries' attributes, which Entry.Stat points to.
	stats []Stat
	// taken counts the entries that are done or in work.
	taken atomic.Int64

	mu sync.Mutex
	// err is the error of the first entry that failed. failed is its index.
	err    error
	failed int
}

func (d *statBatch) work() {
	var x unix.Statx_t
	for {
		end := int(d.taken.Add(statStep))
		first := end - statStep
		for i := first; i < min(end, len(d.entries)); i++ {
			if err := node.StatxAt(d.dir, d.entries[i].Name, &x); err == nil {
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
	node.FillStat(st, x)
	d.entries[i].Stat, d.entries[i].Type = st, st.Type()
}

func (d *statBatch) fail(i int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil || i < d.failed {
		d.err, d.failed = err, i
	}
	d.taken.Store(int64(len(d.entries))) // the rest is not needed
}

// kept returns the entries that have attributes.
func (d *statBatch) kept() []Entry {
	kept := d.entries[:0]
	for _, e := range d.entries {
		if e.Stat != nil {
			kept = append(kept, e)
		}
	}
	return kept
}
