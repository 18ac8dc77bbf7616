package review

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
)

// Applied says what was done to a file.
type Applied int

// What can be done to a file, in the order of the proto's.
const (
	Unchanged Applied = iota
	Created
	Written
	Removed
)

// step is what becomes of one path of the workspace.
type step struct {
	Path Path `json:"path"`
	// Before and After are the workspace's versions; both contents are in the store.
	Before Version `json:"before"`
	After  Version `json:"after"`
	// BaseBefore and BaseAfter are the versions of the context's base.
	BaseBefore Version `json:"base_before"`
	BaseAfter  Version `json:"base_after"`
	// Apart says that the base of the path does not move.
	Apart bool `json:"apart,omitempty"`
	// Merged says that After has changes of the workspace's own.
	Merged bool `json:"merged,omitempty"`
	// OwnerLost says that the file that was written has another owner or group than the one before.
	OwnerLost bool `json:"owner_lost,omitempty"`
	// Partly says that a Discard left some of the change.
	Partly bool `json:"partly,omitempty"`
	// Unresolved is the conflict that the step records for the path, and WasUnresolved the one that was recorded before; nil is none.
	Unresolved    *Unresolved `json:"unresolved,omitempty"`
	WasUnresolved *Unresolved `json:"was_unresolved,omitempty"`
	// Pulled is what Pull records for the path, and WasPulled what was recorded before; nil is nothing.
	Pulled    *pulled `json:"pulled,omitempty"`
	WasPulled *pulled `json:"was_pulled,omitempty"`
	// Behind is what a step in the context makes the state's version of that name, and WasBehind what it was before; nil is none.
	Behind    *Version `json:"behind,omitempty"`
	WasBehind *Version `json:"was_behind,omitempty"`
	// Tmp is the reserved name of the step's swap, Ino the inode of its new entry, 0 until it is known.
	Tmp string `json:"tmp,omitempty"`
	Ino uint64 `json:"ino,omitempty"`
	// Kept belongs to the file that the step takes away, and restores to the one that it makes; nil is nothing.
	Kept     *kept `json:"kept,omitempty"`
	restores *kept
	// Commit is what the repository's commit does to the path; nil for nothing.
	Commit *committed `json:"commit,omitempty"`
	// away says that there is a directory at the path, and that other steps remove all of its files.
	away bool
	// exact says that a file gets the mode of to as well, unless its mode was changed since.
	exact bool
	// from and to are what is merged into the workspace: the difference between them.
	from, to Version
	// seen is what plan saw of Before; zero if that is not a file.
	seen seen
	// settled is the conflict that Pull settled; 0 is none.
	settled ConflictKind
	// revert is what the commit that is undone did to the path; nil for nothing.
	revert *committed
}

// seen identifies a content that was read. A rename keeps it; a save in place or by rename changes it, unless a program forges the time.
type seen struct {
	ino     uint64
	size    int64
	mtimeNs int64
}

func seenOf(st rootfs.Stat) seen { return seen{st.Ino, st.Size, st.MtimeNs} }

// Did returns what the step does.
func (s *step) did() Applied {
	switch {
	case s.Before.Same(s.After):
		return Unchanged
	case !s.Before.Exists():
		return Created
	case !s.After.Exists():
		return Removed
	}
	return Written
}

// keep reads what stands at a path of a tree, and keeps its content. A directory is a Version of that type.
func (s *Store) keep(ctx context.Context, root rootfs.Root, p Path) (Version, seen, error) {
	v, st, err := readVersion(ctx, root, p, s.keeping())
	if isAbsent(err) {
		return Version{}, seen{}, nil
	}
	if err != nil || v.Type != rootfs.TypeFile {
		return v, seen{}, err
	}
	return v, seenOf(st), nil
}

// workspace is the tree that changes are applied to.
type workspace struct {
	root  rootfs.Root
	store *Store
	merger
	// makes are the modes of directories that steps make, where they are not plain.
	makes map[Path]uint32
	// whole is of wholeOf, for steps that write files in place.
	whole map[sharing]bool
}

// plan finds what becomes of each step's path: the three-way merge of from, what the workspace holds, and to. It fills Before, After
// and Merged, and changes nothing but the store.
func (w *workspace) plan(ctx context.Context, steps []step, refuseMerge bool) ([]Conflict, error) {
	var conflicts []Conflict
	removed := map[Path]bool{}
	// What is removed makes room for what is created.
	order := make([]*step, 0, len(steps))
	for i := range steps {
		if !steps[i].to.Exists() {
			order = append(order, &steps[i])
		}
	}
	for i := range steps {
		if steps[i].to.Exists() {
			order = append(order, &steps[i])
		}
	}
	unread := make([]error, len(order))
	err := inParallel(ctx, len(order), func(i int) error {
		s := order[i]
		s.Before, s.seen, unread[i] = w.store.keep(ctx, w.root, s.Path)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(unread, func(err error) bool { return errors.Is(err, errLater) }) {
		return nil, errLater
	}
	for i, s := range order {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		kind, err := w.planStep(ctx, s, removed, unread[i])
		removed[s.Path] = kind == 0 && s.did() == Removed
		if err != nil {
			return nil, fserr.Wrap(err, "apply", "/"+string(s.Path), "")
		}
		if kind == 0 && refuseMerge && s.Merged {
			kind = ConflictContent
		}
		if kind != 0 {
			conflicts = append(conflicts, Conflict{s.Path, kind})
		}
	}
	return conflicts, nil
}

// planStep plans one step. Its Before is read, or unread says why not.
func (w *workspace) planStep(ctx context.Context, s *step, removed map[Path]bool, unread error) (kind ConflictKind, err error) {
	if errors.Is(unread, errUnstable) {
		return ConflictChangedMeanwhile, nil
	}
	if unread != nil {
		return 0, unread
	}
	if s.Before.Type == rootfs.TypeDirectory && removed != nil && w.isEmptied(ctx, s.Path, removed) {
		s.Before, s.away = Version{}, true
	}
	s.After, s.Merged, kind, err = w.merge(ctx, merge3{base: s.from, now: s.Before, want: s.to})
	if s.exact && s.Before.Mode == s.from.Mode && s.After.Same(s.to) {
		s.After = s.to
	}
	if kind != 0 || err != nil || s.did() != Created {
		return kind, err
	}
	if q, is := w.inTheWay(s.Path); is && !removed[q] {
		kind = ConflictDirectoryInTheWay
	}
	return kind, nil
}

// isEmptied reports whether all files of a directory are removed.
func (w *workspace) isEmptied(ctx context.Context, dir Path, removed map[Path]bool) bool {
	emptied := true
	err := w.root.Walk(ctx, "/"+string(dir), tree.WalkOptions{}, func(rel string, e rootfs.Entry, walkErr error) error {
		emptied = emptied && walkErr == nil && (e.Type == rootfs.TypeDirectory || removed[dir+"/"+Path(rel)])
		return nil
	})
	return err == nil && emptied
}

// inTheWay returns what stands where a directory of p is needed and is none. A link to a directory is in the way too.
func (w *workspace) inTheWay(p Path) (Path, bool) {
	for at := range p {
		if p[at] != '/' {
			continue
		}
		st, err := w.root.Lstat(string(p[:at]))
		if err != nil {
			break
		}
		if !st.IsDir() {
			return p[:at], true
		}
	}
	return "", false
}

// taken is a swap of a step.
type taken struct {
	*step
	swap *tree.Swap
	// away says that it takes the directory away that stands at the step's path.
	away bool
}

// swaps carries out steps: all or none. It makes directories that are missing, and removes those that it empties.
type swaps struct {
	w    *workspace
	dirs *tree.Dirs
	all  []taken
	made []string
	// closed has the modes of directories that were made, and that are writable only until the end.
	closed map[Path]uint32
	// later are steps that others must make room for.
	later []*step
	// flushLater says that contents that are staged need no flush of their own.
	flushLater bool
	// point is called with the name of each phase.
	point func(phase string)
	// writersUntil is until when programs are waited for that have a file open for writing, once that has begun.
	writersMu    sync.Mutex
	writersUntil time.Time
}

// newSwaps returns no swaps yet.
func (w *workspace) newSwaps(point func(phase string)) *swaps {
	return &swaps{w: w, dirs: tree.NewDirs(w.root), closed: map[Path]uint32{}, point: point}
}

// stage prepares the steps that change something, as far as they do not wait for others, and flushes the contents. Nothing can be seen of it yet.
func (w *workspace) stage(ctx context.Context, e *Entry, point func(phase string)) (_ *swaps, err error) {
	s, steps := w.newSwaps(point), e.Steps
	defer func() {
		if err != nil {
			s.drop()
		}
	}()
	removed := map[Path]bool{}
	for i := range steps {
		removed[steps[i].Path] = steps[i].did() == Removed
	}
	var first []*step
	for i := range steps {
		switch st := &steps[i]; {
		case st.did() == Unchanged:
		case st.away || below(st.Path, removed):
			s.later = append(s.later, st)
		default:
			first = append(first, st)
		}
	}
	s.flushLater = durable.Quick(len(first))
	err = s.addAll(ctx, first)
	if err == nil && s.flushLater {
		err = s.flush()
	}
	if s.flushLater = false; err != nil {
		return nil, err
	}
	// Removals first.
	slices.SortStableFunc(s.all, func(a, b taken) int { return cmp.Compare(a.rank(), b.rank()) })
	return s, w.store.flush(contentsOf(e))
}

// flush flushes the contents that are staged, those that Stage has flushed too.
func (s *swaps) flush() error {
	paths := make([]string, len(s.all))
	for i, t := range s.all {
		paths[i] = string(t.Path)
	}
	if done, err := tree.FlushWhole(s.w.root, paths); done || err != nil {
		return err
	}
	return atOnce(context.Background(), len(s.all), func(i int) error { return s.all[i].swap.Flush() })
}

// flushNames makes the names at and beside the paths of an entry's steps durable. What is removed there must be gone before the journal forgets it.
func (w *workspace) flushNames(e *Entry) error {
	return tree.Flush(w.root, slices.Collect(maps.Keys(dirsOf(e))))
}

// dirsOf returns the directories that an entry makes, those whose names it changes, and those above, which a program may have made just before.
func dirsOf(e *Entry) map[string]bool {
	dirs := map[string]bool{}
	for i := range e.Steps {
		s := &e.Steps[i]
		if s.did() == Unchanged {
			continue
		}
		for dir := parentOf(s.Path); !dirs[string(dir)]; dir = parentOf(dir) {
			dirs[string(dir)] = true
		}
	}
	for dir := range e.Made {
		for ; !dirs[string(dir)]; dir = parentOf(dir) {
			dirs[string(dir)] = true
		}
	}
	return dirs
}

// contentsOf returns the contents that an entry refers to.
func contentsOf(e *Entry) map[string]bool {
	contents := map[string]bool{}
	e.use(contents)
	return contents
}

// addAll is add for steps that do not wait for others.
func (s *swaps) addAll(ctx context.Context, steps []*step) error {
	// Two goroutines that make one directory could not tell which of them made it.
	for _, st := range steps {
		if err := s.makeDir(st); err != nil {
			return err
		}
	}
	staged := make([]*tree.Swap, len(steps))
	err := atOnce(ctx, len(steps), func(i int) (err error) {
		staged[i], err = s.prepare(ctx, steps[i])
		return err
	})
	for i, swap := range staged {
		if swap != nil {
			s.all = append(s.all, taken{steps[i], swap, false})
		}
	}
	return err
}

// below reports whether one of the paths is above p.
func below(p Path, paths map[Path]bool) bool {
	for dir := path.Dir(string(p)); dir != "."; dir = path.Dir(dir) {
		if paths[Path(dir)] {
			return true
		}
	}
	return false
}

// rank orders swaps.
func (t taken) rank() int {
	if t.did() == Removed {
		return 0
	}
	return 1
}

// add prepares a step whose turn has come, and makes the directories that it needs.
func (s *swaps) add(st *step) error {
	if err := s.makeDir(st); err != nil {
		return err
	}
	swap, err := s.prepare(context.Background(), st) // other steps are taken already
	if err == nil {
		s.all = append(s.all, taken{st, swap, false})
	}
	return err
}

// makeDir makes the directories that a step needs.
func (s *swaps) makeDir(st *step) error {
	dir := path.Dir(string(st.Path))
	if st.did() != Created || dir == "." {
		return nil
	}
	for at := range dir + "/" {
		if at != len(dir) && dir[at] != '/' {
			continue
		}
		mode, known := s.w.makes[Path(dir[:at])]
		if !known && at != len(dir) {
			continue
		}
		if err := s.makeOne(dir[:at], mode, known); err != nil {
			return fserr.Wrap(err, "apply", "/"+string(st.Path), "")
		}
	}
	return nil
}

// writable are the bits that a directory needs for its owner to change it.
const writable = 0o700

// makeOne makes a directory, and what is missing above it. A mode that is known is its own.
func (s *swaps) makeOne(dir string, mode uint32, known bool) error {
	const plain = 0o755
	first, err := s.w.root.MkdirAll(dir, plain)
	if err != nil || first == "" {
		return err
	}
	s.made = append(s.made, first)
	if !known {
		return nil
	}
	if mode&writable != writable {
		s.closed[Path(dir)] = mode
	}
	return s.w.root.Chmod(dir, mode|writable)
}

// dirModes returns the modes of the directories above the files that steps remove, but for plain ones.
func (w *workspace) dirModes(steps []step) map[Path]uint32 {
	modes, looked := map[Path]uint32{}, map[Path]bool{}
	for i := range steps {
		if steps[i].did() != Removed {
			continue
		}
		for dir := parentOf(steps[i].Path); dir != "" && !looked[dir]; dir = parentOf(dir) {
			looked[dir] = true
			if st, err := w.root.Lstat(string(dir)); err == nil && st.IsDir() && st.Perm() != 0o755 {
				modes[dir] = st.Perm()
			}
		}
	}
	return modes
}

// closed returns the modes of directories above steps that permit nothing to be written: of those that the steps make, and with opened also of
// those that are there.
func (w *workspace) closed(steps []step, opened bool) map[Path]uint32 {
	modes, looked := map[Path]uint32{}, map[Path]bool{}
	for i := range steps {
		for dir := parentOf(steps[i].Path); dir != "" && !looked[dir]; dir = parentOf(dir) {
			looked[dir] = true
			mode, found := w.makes[dir]
			if st, err := w.root.Lstat(string(dir)); err == nil && st.IsDir() {
				mode, found = st.Perm(), opened
			}
			if found && mode&writable != writable {
				modes[dir] = mode
			}
		}
	}
	return modes
}

// close gives directories their modes back that an interrupted entry left writable.
func (w *workspace) close(modes map[Path]uint32) error {
	var errs []error
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(modes))) {
		if st, err := lstat(w.root, dir); err == nil && st.IsDir() && st.Perm() == modes[dir]|writable {
			errs = append(errs, w.root.Chmod(string(dir), modes[dir]))
		}
	}
	return errors.Join(errs...)
}

// making returns the tree for steps that make directories with these modes.
func (w *workspace) making(modes map[Path]uint32) *workspace {
	out := *w
	out.makes = modes
	return &out
}

// prepare stages a step whose directory exists, with its content on the disk. It ends when ctx ends.
func (s *swaps) prepare(ctx context.Context, st *step) (*tree.Swap, error) {
	entry, closeContent, err := s.w.entry(st.After)
	if err == nil {
		defer closeContent()
		err = s.w.giveBack(entry, st)
	}
	if entry != nil {
		entry.Later = s.flushLater
	}
	if err == nil {
		var swap *tree.Swap
		if swap, err = s.dirs.Stage(ctx, string(st.Path), st.Tmp, entry); err == nil {
			st.Ino, st.OwnerLost = swap.Ino(), swap.OwnerLost()
			s.point("staged")
			return swap, nil
		}
	}
	return nil, fserr.Wrap(err, "apply", "/"+string(st.Path), "")
}

// entry returns a version as a swap takes it; nil for nothing.
func (w *workspace) entry(v Version) (*tree.NewEntry, func(), error) {
	if !v.Exists() {
		return nil, func() {}, nil
	}
	f, err := w.store.content(v)
	if err != nil {
		return nil, nil, err
	}
	closeContent := func() { _ = f.Close() } // it was only read
	if v.Type == rootfs.TypeSymlink {
		defer closeContent()
		target, err := io.ReadAll(f)
		return &tree.NewEntry{Target: string(target)}, func() {}, err
	}
	return &tree.NewEntry{Content: f, Mode: v.Mode, Sync: true}, closeContent, nil
}

// take puts everything in place, and checks that what it replaced is what the steps were planned with. If that is not so it ends, and
// returns what was changed meanwhile. Call back then.
func (s *swaps) take() (conflicts []Conflict, err error) {
	for i := range s.all {
		if conflicts, err = s.takeOne(&s.all[i]); err != nil || len(conflicts) > 0 {
			return conflicts, err
		}
	}
	for _, st := range s.later {
		if conflicts, err = s.takeLater(st); err != nil || len(conflicts) > 0 {
			return conflicts, err
		}
	}
	return nil, nil
}

func (s *swaps) takeOne(t *taken) ([]Conflict, error) {
	err := t.swap.Take()
	s.point("taken")
	if err == nil && !t.away {
		err = s.verify(t)
	}
	if errors.Is(err, tree.ErrOccupied) {
		return []Conflict{{t.Path, ConflictChangedMeanwhile}}, nil
	}
	return nil, err
}

// takeLater takes a step for which others had to make room.
func (s *swaps) takeLater(st *step) (conflicts []Conflict, err error) {
	if st.away {
		swap, err := s.dirs.StageAway(string(st.Path), st.Tmp+awaySuffix)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, taken{st, swap, true})
		if conflicts, err = s.takeOne(&s.all[len(s.all)-1]); err != nil || len(conflicts) > 0 {
			return conflicts, err
		}
	}
	if err := s.add(st); err != nil {
		return nil, err
	}
	return s.takeOne(&s.all[len(s.all)-1])
}

// back puts everything back. What a program has saved over it meanwhile stays: it returns the paths.
func (s *swaps) back() (stay []Path, err error) {
	var errs []error
	for i := range s.all {
		t := &s.all[len(s.all)-1-i]
		if t.did() == Removed && len(s.made) > 0 { // a directory can stand where the file was; creations were put back before
			errs = append(errs, s.unmake())
		}
		switch err := s.backOne(t.swap, t.step); {
		case !errors.Is(err, tree.ErrOccupied):
			errs = append(errs, err)
		case !t.away:
			stay = append(stay, t.Path)
		}
		s.point("put back")
	}
	s.all = nil
	errs = append(errs, s.dirs.Close(), s.unmake())
	return stay, errors.Join(errs...)
}

func (s *swaps) backOne(swap *tree.Swap, st *step) error {
	made := func(f tree.Former) (bool, error) { return s.isFinal(context.Background(), f, st.After) }
	// A program that only has the old file open has not saved it.
	replaced := func(f tree.Former) (bool, error) { return isVersion(context.Background(), f, st.Before) }
	return swap.Back(made, replaced)
}

// awaySuffix follows a step's Tmp for the directory that stood at its path.
const awaySuffix = "-dir"

// resume puts back what an interruption left of staged steps. It returns the paths that a program has changed since, which stay.
func (w *workspace) resume(steps []step) (stay []Path, err error) {
	s := w.newSwaps(func(string) {})
	defer func() { err = errors.Join(err, s.dirs.Close()) }()
	for _, st := range slices.Backward(removalsFirst(steps)) {
		if st.did() == Unchanged {
			continue
		}
		was := []tree.Staged{{Tmp: st.Tmp, Ino: st.Ino, Had: st.Before.Exists(), Removal: !st.After.Exists()}}
		if st.did() == Created {
			was = append(was, tree.Staged{Tmp: st.Tmp + awaySuffix, Had: true, Removal: true, Away: true})
		}
		for _, part := range was {
			err := s.resumeOne(st, part)
			if errors.Is(err, tree.ErrOccupied) {
				stay = append(stay, st.Path)
			} else if err != nil {
				return stay, fserr.Wrap(err, "apply", "/"+string(st.Path), "")
			}
		}
		if st.did() == Created {
			w.pruneAbove(st.Path)
		}
	}
	return stay, nil
}

func (s *swaps) resumeOne(st *step, was tree.Staged) error {
	swap, err := s.dirs.Resume(string(st.Path), was)
	if err != nil || swap == nil {
		return err
	}
	return s.backOne(swap, st)
}

// drop gives up what was staged.
func (s *swaps) drop() {
	for _, t := range s.all {
		t.swap.Drop()
	}
	s.all = nil
	_ = s.dirs.Close() // closing a directory writes nothing
	_ = s.unmake()     // a directory that a program uses may stay writable
}

// unmake removes the directories that were made, as far as they are empty. The others keep what a program has put there.
func (s *swaps) unmake() error {
	for i := range s.made {
		s.w.prune(s.made[len(s.made)-1-i])
	}
	s.made = nil
	return s.w.close(s.closed)
}

// done removes what was replaced, and the directories that are empty now. What it leaves shows in the workspace until the next start, so that it
// does not end with its caller.
func (s *swaps) done() error {
	var files, dirs []taken
	for _, t := range s.all {
		if t.away {
			dirs = append(dirs, t)
		} else {
			files = append(files, t)
		}
	}
	err := errors.Join(s.remove(files), s.remove(dirs), s.dirs.Close()) // a directory has what files of its own waited in
	err = errors.Join(err, s.w.close(s.closed))
	for _, t := range s.all {
		if t.did() == Removed {
			s.w.pruneAbove(t.Path)
		}
	}
	return err
}

// remove removes what some swaps have replaced.
func (s *swaps) remove(some []taken) error {
	failed := make([]error, len(some))
	_ = inParallel(context.Background(), len(some), func(i int) error { // whose errors failed has
		failed[i] = some[i].swap.Done()
		s.point("removed")
		return nil
	})
	return errors.Join(failed...)
}

// prune removes a directory if there are only empty directories in it.
func (w *workspace) prune(dir string) {
	_ = w.root.Walk(context.Background(), dir, tree.WalkOptions{MaxDepth: 1}, func(rel string, e rootfs.Entry, walkErr error) error {
		if walkErr == nil && e.Type == rootfs.TypeDirectory {
			w.prune(path.Join(dir, rel))
		}
		return nil
	})
	_ = w.root.Rmdir(dir) // ENOTEMPTY: it is used
}

// pruneAbove removes the directories above a path that are empty, as git does.
func (w *workspace) pruneAbove(p Path) {
	for dir := path.Dir(string(p)); dir != "."; dir = path.Dir(dir) {
		if w.root.Rmdir(dir) != nil {
			return
		}
	}
}

// sweep removes what interrupted swaps of steps left.
func (w *workspace) sweep(ctx context.Context, steps []step) error {
	dirs := map[string]bool{}
	for _, s := range steps {
		dirs[path.Dir(string(s.Path))] = true
	}
	return tree.SweepDirs(ctx, w.root, slices.Collect(maps.Keys(dirs)))
}
