package review

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// bounds say how much reviews keep beside the contexts' own files. The newest revision of a context, and the newest entry, always stay.
type bounds struct {
	// entries is how many entries of the journal stay of panels, and as many of hosts and reviewers. Older ones can be undone no more.
	entries int
	// entryBytes bounds what the entries of a context's panels keep, allEntryBytes those of all panels.
	entryBytes, allEntryBytes int64
	// checkpointBytes bounds what the checkpoints of a context's running commands keep, but for the first.
	checkpointBytes int64
	// revisions and revisionBytes bound the submitted revisions of a context.
	revisions     int
	revisionBytes int64
	// commentBytes bounds the comments of a context's decisions.
	commentBytes int64
	// garbage is how many bytes calls write to the store before contents that nothing refers to are removed.
	garbage int64
}

var defaultBounds = bounds{
	entries: 1000, entryBytes: 4 << 30, allEntryBytes: 32 << 30, checkpointBytes: 4 << 30, revisions: 10, revisionBytes: 4 << 30, commentBytes: 16 << 20, garbage: 1 << 30,
}

// leastSpace is what a content takes at least, with its name, in bytes.
const leastSpace = 4 << 10

// uses says which contents calls that run may refer to soon. The zero uses is ready.
type uses struct {
	mu      sync.Mutex
	last    uint64
	running map[uint64]bool
	// at is the last call that had begun when a content was put or found. For contents that it does not have, floor is.
	at    map[string]uint64
	floor uint64
	// removing are the contents that unless removes now. A channel is closed when that has ended.
	removing map[string]chan struct{}
}

// maxTouched bounds the names in uses.
const maxTouched = 100_000

// begin begins a call. Contents that are put or found before its end are not removed before it.
func (u *uses) begin() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running == nil {
		u.running, u.at = map[uint64]bool{}, map[string]uint64{}
	}
	u.last++
	u.running[u.last] = true
	return u.last
}

func (u *uses) end(call uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if delete(u.running, call); len(u.running) == 0 {
		clear(u.at)
		u.floor = 0
	}
}

// touch notes that a content is put or looked for. It waits for unless if that removes the content.
func (u *uses) touch(hash string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for ended := u.removing[hash]; ended != nil; ended = u.removing[hash] {
		u.mu.Unlock()
		<-ended
		u.mu.Lock()
	}
	if len(u.running) == 0 {
		return
	}
	if u.at[hash] = u.last; len(u.at) > maxTouched {
		clear(u.at)
		u.floor = u.last
	}
}

// oldest returns the oldest call that runs, or the next one.
func (u *uses) oldest() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	oldest := u.last + 1
	for call := range u.running {
		oldest = min(oldest, call)
	}
	return oldest
}

// touchAll is touch for contents that a call takes from one place, and that it will put into another.
func (u *uses) touchAll(use func(used map[string]bool)) {
	used := map[string]bool{}
	use(used)
	for hash := range used {
		u.touch(hash)
	}
}

// unless calls f, which removes a content, unless that was put or found since the call oldest began. The content is not found meanwhile, and others are:
// f may wait for the disk.
func (u *uses) unless(hash string, oldest uint64, f func() error) error {
	ended := make(chan struct{})
	if !u.beginRemoving(hash, oldest, ended) {
		return nil
	}
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.removing, hash)
		close(ended)
	}()
	return f()
}

// beginRemoving reports whether a content may be removed. If so, touch waits for ended.
func (u *uses) beginRemoving(hash string, oldest uint64, ended chan struct{}) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if max(u.at[hash], u.floor) >= oldest || u.removing[hash] != nil { // another one removes it
		return false
	}
	if u.removing == nil {
		u.removing = map[string]chan struct{}{}
	}
	u.removing[hash] = ended
	return true
}

// Hold keeps the contents that are put or found from now on until release.
func (r *Reviews) Hold() (release func()) {
	use := r.store.uses.begin()
	return func() { r.store.uses.end(use) }
}

// collect removes what the journal has too much of, and contents that nothing refers to. The caller has the workspace's lock.
func (r *Reviews) collect(ctx context.Context) error {
	r.boundJournal()
	return r.collectContents(ctx)
}

// tidy begins to remove contents that nothing refers to, once calls have written much. Close ends it.
func (r *Reviews) tidy() {
	if r.store.written.Load() < r.bounds.garbage || !r.collecting.TryLock() {
		return
	}
	r.store.written.Store(0)
	r.tidying.Go(func() {
		defer r.collecting.Unlock()
		if err := r.collectContents(r.life); err != nil && r.life.Err() == nil {
			r.cfg.Log.Warn("what reviews keep could not be looked through", zap.Error(err))
		}
	})
}

// collectContents removes contents that no state, revision, checkpoint or entry refers to, and no call that runs. The journal is last: what a call takes
// from a state, it has put there. It counts as a call itself, so that the contents of calls that begin and end meanwhile stay.
func (r *Reviews) collectContents(ctx context.Context) error {
	defer r.Hold()()
	oldest, used := r.store.uses.oldest(), map[string]bool{}
	entries, err := os.ReadDir(r.states.dir)
	if err != nil {
		return err
	}
	r.point("states listed")
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		st, err := r.states.read(id)
		if err != nil {
			return err // what it refers to is not known
		}
		st.use(used)
	}
	if err := r.revisions.use(used); err != nil {
		return err
	}
	if r.cfg.Used != nil {
		further, err := r.cfg.Used()
		if err != nil {
			return err
		}
		for _, hash := range further {
			used[hash] = true
		}
	}
	r.mu.Lock()
	for c := range r.checkpoints {
		c.use(used)
	}
	r.mu.Unlock()
	if err := r.journal.use(ctx, used); err != nil {
		return err
	}
	return r.store.retain(ctx, used, oldest)
}

// use adds the contents that entries refer to.
func (j journal) use(ctx context.Context, used map[string]bool) error {
	for _, suffix := range []string{intentSuffix, doneSuffix} { // a begun entry becomes a done one
		ids, err := j.ids(suffix)
		if err != nil {
			return err
		}
		for _, id := range ids {
			e, err := j.listed(id, suffix)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
			if e != nil {
				e.use(used)
			}
		}
	}
	return nil
}

// cost is what an entry of the journal keeps.
type cost struct {
	context  string
	ofPanel  bool
	bytes    int64
	measured bool
	// requested is when the call was made if it can be repeated: it has a RequestID.
	requested time.Time
}

// requestsKept is for how long the journal drops other entries first than those of calls with a RequestID. A repetition that finds no entry does
// everything again.
const requestsKept = 24 * time.Hour

// isRepeatable reports whether a client may repeat the call.
func (c cost) isRepeatable(now time.Time) bool { return now.Sub(c.requested) < requestsKept }

// costOf returns what an entry keeps.
func (r *Reviews) costOf(id int64) (cost, error) {
	if c := r.costs[id]; c.measured {
		return c, nil
	}
	e, err := r.journal.read(id, doneSuffix)
	if err != nil {
		return cost{}, err
	}
	return r.weigh(e)
}

// weigh is costOf for an entry that is in memory.
func (r *Reviews) weigh(e *Entry) (cost, error) {
	st, err := os.Stat(r.journal.file(e.ID, doneSuffix))
	if err != nil {
		return cost{}, err
	}
	used := map[string]bool{}
	if e.isOfPanel() { // the others are bounded by their number
		e.use(used)
	}
	space, err := r.store.space(used)
	c := cost{context: e.Context, ofPanel: e.isOfPanel(), bytes: space + st.Size(), measured: true}
	if e.RequestID != "" {
		c.requested = e.At
	}
	if err == nil {
		r.costs[e.ID] = c
	}
	return c, err
}

// boundJournal removes entries, the oldest first, but those that a client may repeat last: those of panels that keep too much, or are too many, and of the
// others what is too many. The entries of one do
// not take the place of the others'. The caller has the workspace's lock.
func (r *Reviews) boundJournal() {
	err := func() error {
		ids, err := r.journal.ids(doneSuffix)
		if err != nil {
			return err
		}
		k := keptEntries{of: map[string][]int64{}, bytes: map[string]int64{}, now: time.Now()}
		var errs []error
		for _, id := range ids {
			c, err := r.costOf(id)
			errs = append(errs, err) // an entry that cannot be read counts as one of the host
			k.add(id, c)
		}
		for _, id := range k.surplus(r.bounds, r.costs) {
			errs = append(errs, os.Remove(r.journal.file(id, doneSuffix)))
			delete(r.costs, id)
		}
		return errors.Join(errs...)
	}()
	if err != nil {
		r.cfg.Log.Warn("entries that the journal has too much of could not be removed", zap.Error(err))
	}
}

// keptEntries are the entries of the journal, the oldest first.
type keptEntries struct {
	others []int64
	// of and bytes are those of panels, by context.
	of       map[string][]int64
	bytes    map[string]int64
	all      int
	allBytes int64
	newest   int64
	now      time.Time
}

func (k *keptEntries) add(id int64, c cost) {
	k.newest = id
	if !c.ofPanel {
		k.others = append(k.others, id)
		return
	}
	k.of[c.context] = append(k.of[c.context], id)
	k.bytes[c.context] += c.bytes
	k.all++
	k.allBytes += c.bytes
}

// first returns the index of the entry to drop first: the oldest one that no client repeats. The newest is the last.
func (k *keptEntries) first(ids []int64, costs map[int64]cost) int {
	return max(0, slices.IndexFunc(ids[:len(ids)-1], func(id int64) bool { return !costs[id].isRepeatable(k.now) }))
}

// drop takes away an entry of a context's panels.
func (k *keptEntries) drop(context string, costs map[int64]cost) (id int64) {
	i := k.first(k.of[context], costs)
	id = k.of[context][i]
	k.of[context] = slices.Delete(k.of[context], i, i+1)
	k.bytes[context] -= costs[id].bytes
	k.all--
	k.allBytes -= costs[id].bytes
	return id
}

// surplus returns the entries that are beyond the bounds. Where those of all panels are too much, the context that has most loses one.
func (k *keptEntries) surplus(most bounds, costs map[int64]cost) (out []int64) {
	for len(k.others) > most.entries {
		i := k.first(k.others, costs)
		out = append(out, k.others[i])
		k.others = slices.Delete(k.others, i, i+1)
	}
	for context := range k.of {
		for len(k.of[context]) > 1 && k.bytes[context] > most.entryBytes {
			out = append(out, k.drop(context, costs))
		}
	}
	for k.all > most.entries || k.allBytes > most.allEntryBytes {
		isLess := func(a, b string) int { return cmp.Compare(k.bytes[a], k.bytes[b]) }
		if k.all > most.entries {
			isLess = func(a, b string) int { return cmp.Compare(len(k.of[a]), len(k.of[b])) }
		}
		may := slices.DeleteFunc(slices.Sorted(maps.Keys(k.of)), func(c string) bool { return len(k.of[c]) == 0 || k.of[c][0] == k.newest })
		if len(may) == 0 {
			break
		}
		out = append(out, k.drop(slices.MaxFunc(may, isLess), costs))
	}
	return out
}

// use adds the contents that an entry refers to.
func (e *Entry) use(used map[string]bool) {
	for _, s := range e.Steps {
		for _, v := range []Version{s.Before, s.After, s.BaseBefore, s.BaseAfter} {
			used[v.Hash] = true
		}
		s.Unresolved.use(used)
		s.WasUnresolved.use(used)
		s.Kept.use(used)
		s.Pulled.use(used)
		s.WasPulled.use(used)
		for _, v := range []*Version{s.Behind, s.WasBehind} {
			if v != nil {
				used[v.Hash] = true
			}
		}
		if c := s.Commit; c != nil {
			used[c.Before.Hash], used[c.After.Hash] = true, true
		}
	}
}

// use adds the contents that the state refers to.
func (st *state) use(used map[string]bool) {
	for _, v := range st.Overrides {
		used[v.Hash] = true
	}
	for _, v := range st.Behind {
		used[v.Hash] = true
	}
	for _, d := range st.Decided {
		used[d.Before.Hash], used[d.After.Hash] = true, true
	}
	for _, u := range st.Conflicts {
		u.use(used)
	}
	for _, p := range st.Pulled {
		p.use(used)
	}
}

// space returns what contents take on the disk, in bytes. A content that is not there takes nothing.
func (s *Store) space(hashes map[string]bool) (n int64, err error) {
	root, err := rootfs.Open(s.dir, rootfs.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for hash := range hashes {
		if hash == "" {
			continue
		}
		st, err := root.Lstat(hash[:2] + "/" + hash)
		switch {
		case isAbsent(err):
		case err != nil:
			return n, err
		default:
			n += max(st.Blocks*blockSize, leastSpace)
		}
	}
	return n, nil
}

// retain removes the contents that are not used, and that no call has put or found since the call oldest began.
func (s *Store) retain(ctx context.Context, used map[string]bool, oldest uint64) error {
	dirs, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		if !dir.IsDir() {
			continue // a Put writes it
		}
		contents, err := os.ReadDir(filepath.Join(s.dir, dir.Name()))
		errs = append(errs, err)
		for _, c := range contents {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !used[c.Name()] {
				errs = append(errs, s.removeUnless(c.Name(), oldest))
			}
		}
	}
	return errors.Join(errs...)
}

// removeUnless removes a content unless a call has put or found it since the call oldest began.
func (s *Store) removeUnless(hash string, oldest uint64) error {
	gone := filepath.Join(s.dir, newPrefix+hash) // a start removes it, too
	renamed := false
	err := s.uses.unless(hash, oldest, func() error {
		err := os.Rename(s.path(hash), gone)
		renamed = err == nil
		return err
	})
	if renamed { // to remove a large file takes long
		err = os.Remove(gone)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
