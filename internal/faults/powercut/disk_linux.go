package powercut

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pageSize is the unit in which content survives, in bytes.
const pageSize = 4096

// attr is what an inode has beside its content and size.
type attr struct {
	mode, uid, gid, rdev uint32
	atime, mtime, ctime  time.Time
	xattrs               map[string][]byte
	target               string
}

// content is a sparse file. Pages are never changed once they are shared with another content.
type content struct {
	size  int64
	pages map[int64][]byte
}

func (c content) clone() content { return content{c.size, maps.Clone(c.pages)} }

// at copies the bytes from off on into p, and returns how many there are.
func (c content) at(p []byte, off int64) int {
	n := int(max(0, min(int64(len(p)), c.size-off)))
	for i := 0; i < n; {
		page, in := (off+int64(i))/pageSize, int((off+int64(i))%pageSize)
		part := p[i:min(n, i+pageSize-in)]
		if data := c.pages[page]; data != nil {
			copy(part, data[in:])
		} else {
			clear(part)
		}
		i += len(part)
	}
	return n
}

// inode is a file, directory or link: as programs see it now, and as it is on the medium.
type inode struct {
	ino   uint64
	birth time.Time
	nlink uint32
	// now and disk are the attributes, data and kept the content, names and entries those of a directory.
	now, disk      attr
	data, kept     content
	names, entries map[string]*inode
	// dirty are the pages that differ, low the smallest size since the last flush.
	dirty map[int64]bool
	low   int64
	// pending are the changes of names in this directory that are not on the medium.
	pending []*change
}

func (n *inode) isDir() bool { return n.now.mode&unix.S_IFMT == unix.S_IFDIR }

// change is an operation on names, which survives as a whole or not at all. It survives only if those survive that it follows on the same names.
type change struct {
	sets   []entry
	after  []*change
	onDisk bool
}

// entry is a name with the inode that it gets, nil for none.
type entry struct {
	dir  *inode
	name string
	to   *inode
}

type key struct {
	dir  *inode
	name string
}

// disk keeps what programs write, and forgets at a cut what they did not flush.
type disk struct {
	mu   sync.Mutex
	root *inode
	last uint64
	rng  *rand.Rand
	// log has the changes of names in their order, latest the last one of each name, moved the last one that moved a directory.
	log    []*change
	latest map[key]*change
	moved  *change
	// unflushed are the inodes with changed content or attributes.
	unflushed map[*inode]bool
	// session counts the mounts: all operations of an earlier one fail, and those of this one once off is set.
	session int
	off     bool
}

func newDisk(seed uint64) *disk {
	d := &disk{rng: rand.New(rand.NewPCG(seed, 11)), latest: map[key]*change{}, unflushed: map[*inode]bool{}}
	d.root = d.make(unix.S_IFDIR|0o755, 0, 0)
	d.root.nlink = 2
	return d
}

// make returns a new inode, which is on the medium as soon as a name of it is, without content.
func (d *disk) make(mode, uid, gid uint32) *inode {
	d.last++
	at := time.Now() // clock: the file's times
	n := &inode{ino: d.last, birth: at, now: attr{mode: mode, uid: uid, gid: gid, atime: at, mtime: at, ctime: at}}
	n.data.pages, n.kept.pages, n.dirty = map[int64][]byte{}, map[int64][]byte{}, map[int64]bool{}
	if n.isDir() {
		n.names, n.entries, n.nlink = map[string]*inode{}, map[string]*inode{}, 2
	}
	n.disk = n.now
	return n
}

// touch notes that an inode is not flushed.
func (d *disk) touch(n *inode) {
	n.now.ctime = time.Now() // clock: the file's times
	d.unflushed[n] = true
}

// write changes content. The kernel writes some pages back at once, in any order.
func (d *disk) write(n *inode, p []byte, off int64) {
	for i := 0; i < len(p); {
		page, in := (off+int64(i))/pageSize, int((off+int64(i))%pageSize)
		part := p[i:min(len(p), i+pageSize-in)]
		data := make([]byte, pageSize)
		copy(data, n.data.pages[page])
		copy(data[in:], part)
		n.data.pages[page], n.dirty[page] = data, true
		i += len(part)
		if d.rng.IntN(64) == 0 {
			n.kept.pages[page] = data
		}
	}
	n.data.size = max(n.data.size, off+int64(len(p)))
	d.touch(n)
	n.now.mtime = n.now.ctime
}

func (d *disk) truncate(n *inode, size int64) {
	n.low = min(n.low, size)
	if size < n.data.size {
		for page := range n.data.pages {
			if page*pageSize >= size {
				delete(n.data.pages, page)
				n.dirty[page] = true
			}
		}
		if in := size % pageSize; in > 0 && n.data.pages[size/pageSize] != nil {
			data := make([]byte, pageSize)
			copy(data, n.data.pages[size/pageSize][:in])
			n.data.pages[size/pageSize], n.dirty[size/pageSize] = data, true
		}
	}
	n.data.size = size
	d.touch(n)
	n.now.mtime = n.now.ctime
}

// change does an operation on names.
func (d *disk) change(sets ...entry) {
	c := &change{sets: sets}
	at := time.Now() // clock: the directory's times
	movesDir := false
	for _, s := range sets {
		k := key{s.dir, s.name}
		if before := d.latest[k]; before != nil && !before.onDisk {
			c.after = append(c.after, before)
		}
		d.latest[k] = c
		if old := s.dir.names[s.name]; old != nil {
			d.unname(s.dir, old)
		}
		delete(s.dir.names, s.name)
		s.dir.now.mtime, s.dir.now.ctime = at, at
		s.dir.pending = append(s.dir.pending, c)
	}
	for _, s := range sets {
		if s.to == nil {
			continue
		}
		s.dir.names[s.name] = s.to
		if s.to.isDir() {
			s.dir.nlink, s.to.nlink = s.dir.nlink+1, 2
			movesDir = movesDir || len(sets) > 1
		} else {
			s.to.nlink++
		}
		s.to.now.ctime = at
	}
	if movesDir { // so that no directory ends below itself
		if d.moved != nil && !d.moved.onDisk {
			c.after = append(c.after, d.moved)
		}
		d.moved = c
	}
	d.log = append(d.log, c)
	if d.rng.IntN(500) == 0 { // as the journal is committed now and then
		for _, c := range d.log {
			d.commit(c)
		}
	}
	if len(d.log) > 10000 {
		d.trim()
	}
}

func (d *disk) unname(dir, n *inode) {
	if n.isDir() {
		dir.nlink, n.nlink = dir.nlink-1, 0
	} else {
		n.nlink--
	}
}

// commit writes a change of names to the medium, after those that it follows.
func (d *disk) commit(c *change) {
	if c.onDisk {
		return
	}
	c.onDisk = true
	for _, before := range c.after {
		d.commit(before)
	}
	c.after = nil
	for _, s := range c.sets {
		if s.to == nil {
			delete(s.dir.entries, s.name)
		} else {
			s.dir.entries[s.name] = s.to
		}
	}
}

// trim drops what is on the medium from the log.
func (d *disk) trim() {
	var log []*change
	for _, c := range d.log {
		if !c.onDisk {
			log = append(log, c)
		}
	}
	d.log, d.latest = log, map[key]*change{}
	for _, c := range log {
		for _, s := range c.sets {
			d.latest[key{s.dir, s.name}] = c
		}
	}
}

// flush is fsync(2): the content and attributes of a file, or the names in a directory. Neither flushes the name of what is flushed.
func (d *disk) flush(n *inode) {
	for _, c := range n.pending {
		d.commit(c)
	}
	n.pending = nil
	d.flushContent(n, 1, 1, 1)
}

// flushContent writes to the medium what the odds choose: each page, the size, the attributes.
func (d *disk) flushContent(n *inode, pages, size, attrs float64) {
	truncated := n.low < n.kept.size && d.odds(size)
	if truncated {
		for page := range n.kept.pages {
			if page*pageSize >= n.low {
				delete(n.kept.pages, page)
			}
		}
		n.kept.size = n.low
	}
	for page := range n.dirty {
		if data := n.data.pages[page]; d.odds(pages) {
			n.kept.pages[page] = data
			if data == nil {
				delete(n.kept.pages, page)
			}
		}
	}
	if d.odds(size) {
		n.kept.size = n.data.size
	}
	if d.odds(attrs) {
		n.disk = n.now
	}
	clear(n.dirty)
	n.low = n.data.size
	delete(d.unflushed, n)
}

func (d *disk) odds(p float64) bool { return p == 1 || d.rng.Float64() < p }

// shares are how much of each kind survives a cut. Disks and file systems differ: one writes names early and content late, another keeps all in order.
var shares = []float64{0, 0.5, 0.9, 1}

// cut has the disk forget some of what was not flushed, and fails all operations until resume.
func (d *disk) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	share := func() float64 { return shares[d.rng.IntN(len(shares))] }
	d.off = true
	d.trim()
	names, inOrder := share(), d.rng.IntN(2) == 0
	lost := map[*change]bool{}
	for i, c := range d.log {
		gone := !d.odds(names)
		if inOrder { // what is lost is the end
			gone = float64(i) >= names*float64(len(d.log)) || i > 0 && lost[d.log[i-1]]
		}
		for _, before := range c.after {
			gone = gone || lost[before]
		}
		if lost[c] = gone; !gone {
			d.commit(c)
		}
	}
	pages, size, attrs := share(), share(), share()
	for n := range d.unflushed {
		d.flushContent(n, pages, size, attrs)
	}
	d.log, d.moved = nil, nil
	clear(d.latest)
	d.remember(d.root, map[*inode]bool{})
}

// remember makes what is on the medium what programs see.
func (d *disk) remember(n *inode, seen map[*inode]bool) {
	if n.nlink++; seen[n] {
		return
	}
	seen[n] = true
	// Content beyond the end, and pages that were written beyond it, are zeros when the file grows again.
	for page := range n.kept.pages {
		if page*pageSize >= n.kept.size {
			delete(n.kept.pages, page)
		}
	}
	if in := n.kept.size % pageSize; in > 0 && n.kept.pages[n.kept.size/pageSize] != nil {
		data := make([]byte, pageSize)
		copy(data, n.kept.pages[n.kept.size/pageSize][:in])
		n.kept.pages[n.kept.size/pageSize] = data
	}
	n.now, n.data, n.low, n.pending, n.nlink = n.disk, n.kept.clone(), n.kept.size, nil, 1
	clear(n.dirty)
	if !n.isDir() {
		return
	}
	n.names, n.nlink = maps.Clone(n.entries), 2
	for _, child := range n.names {
		d.remember(child, seen)
		if child.isDir() {
			n.nlink++
			child.nlink = max(2, child.nlink)
		}
	}
}

// resume serves operations again.
func (d *disk) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = false
	d.session++
}

// settle flushes all.
func (d *disk) settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.log {
		d.commit(c)
	}
	d.trim()
	for n := range d.unflushed {
		d.flushContent(n, 1, 1, 1)
	}
}
