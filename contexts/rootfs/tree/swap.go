package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/sparse"
)

// Swap is a file or a link that waits under a reserved name to take the place of what stands at a path. What it replaces waits under
// the reserved name in its turn, until Done removes it or Back puts it back:
//
//	Stage, Take, Done         the new one is there
//	Stage, Take, Back         all is as it was
//	Stage, Drop               nothing happened
//
// It follows no link, on no part of the path.
type Swap struct {
	dirs *Dirs
	// path is the path that the swap is for; base is its last name.
	path, base, tmp string
	// dir is the directory during a step, home its identity.
	dir  node.Node
	home identity
	// entry is nil for a removal.
	entry *NewEntry
	// had says that something stood at base when the swap was staged; taken, that Take has succeeded; away, that it was a directory.
	had, taken, away bool
	// ownerLost says that the new file has another owner or group than the old one.
	ownerLost bool
	// resumed says that it is one of Resume.
	resumed bool
	// unflushed says that Flush is to flush the new content.
	unflushed bool
	// mine is the new entry's inode, 0 if that is not known.
	mine uint64
}

// swapPrefix begins the reserved names that Sweep keeps.
const swapPrefix = node.ReservedPrefix + "swap-"

// SwapName returns a reserved name for a swap, which no other swap has. Sweep keeps it: after an interruption the name can have the only
// copy of what the swap replaced. Resume and Back, or SweepDirs, remove it.
func SwapName() string { return swapPrefix + rand.Text() }

// PassingName is SwapName for a swap that the caller does not resume after an interruption. Sweep removes it.
func PassingName() string { return node.ReservedPrefix + rand.Text() }

// asideSuffix follows a swap's name where two entries change places in several steps.
const asideSuffix = "-aside"

// NewEntry is what is to stand at a path.
type NewEntry struct {
	// Content is a file's; nil for a link to Target.
	Content io.Reader
	Target  string
	// Mode is a file's permission bits. Extended attributes are those of the file that it replaces, and so are owner and group if this process may give
	// files away.
	Mode uint32
	// Kept is for a file where no file stands; nil is what the system gives a new one.
	Kept *Kept
	// Sync flushes a file's content to the disk. With Later, Swap.Flush or FlushWhole does that, unless this process could
	// not open the file again.
	Sync, Later bool
}

// ErrOccupied says that something else stands at the path than when the swap was staged.
var ErrOccupied = errors.New("the path changed since the swap was prepared")

// Stage prepares a swap of what stands at p, under a name of SwapName. A nil entry removes it. The directory of p must exist, and p must be
// no directory (EISDIR). Stage ends with the cause of ctx when ctx ends, and leaves nothing then.
func (d *Dirs) Stage(ctx context.Context, p, tmp string, entry *NewEntry) (_ *Swap, err error) {
	s := &Swap{dirs: d, path: p, base: path.Base(p), tmp: tmp, entry: entry}
	dir, err := d.hold(p)
	if err != nil {
		return nil, err
	}
	defer d.release(dir)
	s.dir, s.home = dir, identityOf(dir.st)
	defer func() {
		if err != nil {
			s.drop()
		}
	}()
	old, err := dir.Lstat(s.base)
	switch s.had = err == nil; {
	case s.had && old.IsDir():
		return nil, &fserr.Error{Code: fserr.EISDIR}
	case !s.had && fserr.CodeOf(err) != fserr.ENOENT:
		return nil, err
	case !s.had && entry == nil:
		return nil, err
	case entry == nil:
		return s, nil
	case entry.Content == nil:
		err = dir.Symlink(entry.Target, s.tmp)
	default:
		err = s.write(ctx, old)
	}
	if err != nil {
		return nil, err
	}
	if s.mine == 0 { // a link
		var st node.Stat
		st, err = dir.Lstat(s.tmp)
		s.mine = st.Ino
	}
	return s, err
}

// Ino returns the inode of the new entry; 0 for a removal.
func (s *Swap) Ino() uint64 { return s.mine }

// OwnerLost reports whether the new file has another owner or group than the file that it replaces, since this process may not give files away.
func (s *Swap) OwnerLost() bool { return s.ownerLost }

// StageAway prepares to take a directory away in which nothing is left but directories and what other swaps have taken away. Take fails with
// ErrOccupied if there is more.
func (d *Dirs) StageAway(p, tmp string) (*Swap, error) {
	s := &Swap{dirs: d, path: p, base: path.Base(p), tmp: tmp, had: true, away: true}
	release, err := s.hold()
	if err == nil {
		release()
	}
	return s, err
}

// isEmptied reports whether a directory has nothing but directories of that kind, and reserved names.
func isEmptied(dir node.Node) (bool, error) {
	entries, err := dir.Entries(node.Listing{})
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		child, err := dir.OpenDir(e.Name)
		if code := fserr.CodeOf(err); code == fserr.ENOTDIR || code == fserr.ELOOP {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		emptied, err := isEmptied(child)
		if err = errors.Join(err, child.Close()); err != nil || !emptied {
			return false, err
		}
	}
	return true, nil
}

// checkEmptied fails with ErrOccupied if the directory to be taken away is not empty.
func (s *Swap) checkEmptied() error {
	dir, err := s.dir.OpenDir(s.base)
	if err != nil {
		return err
	}
	emptied, err := isEmptied(dir)
	if err == nil && !emptied {
		err = ErrOccupied
	}
	return errors.Join(err, dir.Close())
}

// removeDirs removes a directory that has nothing but directories.
func removeDirs(parent node.Node, name string) error {
	dir, err := parent.OpenDir(name)
	if err != nil {
		return err
	}
	entries, err := dir.Entries(node.Listing{})
	for _, e := range entries {
		err = errors.Join(err, removeDirs(dir, e.Name))
	}
	return errors.Join(err, dir.Close(), parent.Rmdir(name))
}

// directoryOf opens the directory of p name by name. p has no reserved name.
func directoryOf(r Tree, p string) (node.Node, error) {
	if strings.Contains("/"+p, "/"+node.ReservedPrefix) {
		return nil, &fserr.Error{Code: fserr.EINVAL}
	}
	return parentOf(r, p)
}

func parentOf(r Tree, p string) (node.Node, error) {
	tr, err := nodesOf(r)
	if err != nil {
		return nil, err
	}
	if err := node.CheckPath(p); err != nil {
		return nil, err
	}
	dir, err := tr.Node("/", false)
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.Trim(p, "/"), "/")
	for i, name := range names {
		if name == "" || name == "." || name == ".." {
			err = &fserr.Error{Code: fserr.EINVAL}
			break
		}
		if i == len(names)-1 {
			return dir, nil
		}
		var next node.Node
		if next, err = dir.OpenDir(name); err != nil {
			break
		}
		_ = dir.Close() // nothing was written through it
		dir = next
	}
	return nil, errors.Join(err, dir.Close())
}

// write makes the file with its content, and with what it keeps of the old one.
func (s *Swap) write(ctx context.Context, old node.Stat) (err error) {
	f, err := s.dir.OpenFile(s.tmp, node.O_WRONLY|node.O_CREAT|node.O_EXCL, tmpMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	s.mine = now.Ino
	if err := fill(ctx, f, s.entry.Content); err != nil {
		return err
	}
	if err := s.inherit(f, now, old); err != nil {
		return err
	}
	if err := f.Chmod(s.entry.Mode); err != nil {
		return err
	}
	if !s.entry.Sync {
		return nil
	}
	if s.entry.Later && s.entry.Mode&readable != 0 {
		st, err := f.Stat()
		if self := os.Geteuid(); err == nil && (self == 0 || int64(st.UID) == int64(self)) {
			s.unflushed = true
			return nil
		}
	}
	return f.Sync(true)
}

// readable is the permission that the owner needs to open a file again.
const readable = 0o400

// Flush flushes the content of a staged file, if Stage left that for later.
func (s *Swap) Flush() error {
	if !s.unflushed {
		return nil
	}
	release, err := s.hold()
	if err != nil {
		return err
	}
	defer release()
	f, err := s.dir.OpenFile(s.tmp, node.O_RDONLY, 0)
	if err == nil {
		err = errors.Join(syncFile(f), f.Close())
	}
	return err
}

// tmpMode is the mode of a file until it has its content: what it replaces may be private.
const tmpMode = 0o600

// fill writes a content to a new file, and keeps its holes. It ends when ctx ends.
func fill(ctx context.Context, f node.File, content io.Reader) error {
	out := sparse.Writer(f)
	if _, err := sparse.Copy(ctx, out, content); err != nil {
		return err
	}
	return out.Finish()
}

// inherit gives a file the owner and the extended attributes of a file that it replaces.
func (s *Swap) inherit(f node.File, now, old node.Stat) error {
	if !s.had || old.Type() != node.TypeFile {
		return s.restore(f, now)
	}
	kept, err := keepOwner(s.dir, s.tmp, now, old)
	if err != nil {
		return err
	}
	s.ownerLost = !kept
	was, err := s.dir.OpenFile(s.base, node.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = was.Close() }() // it was only read
	_, err = copyFileXattrs(was, f, "")
	return err
}

// Kept is what a file has beside its content and its mode.
type Kept struct {
	UID, GID uint32
	// Xattrs are the extended attributes of the namespace "user".
	Xattrs map[string][]byte
}

// KeptOf returns what a file has. It returns no extended attributes where the system or the file system has none.
func KeptOf(f node.File) (Kept, error) {
	st, err := f.Stat()
	if err != nil {
		return Kept{}, err
	}
	xattrs, err := fileXattrs(f)
	return Kept{st.UID, st.GID, xattrs}, err
}

// restore gives a file what an earlier one at its path had.
func (s *Swap) restore(f node.File, now node.Stat) error {
	k := s.entry.Kept
	if k == nil {
		return nil
	}
	had, err := keepOwner(s.dir, s.tmp, now, node.Stat{UID: k.UID, GID: k.GID})
	if err != nil {
		return err
	}
	s.ownerLost = !had
	return setFileXattrs(f, k.Xattrs)
}

// keepOwner gives a new file the owner and group of an old one. If this process may not do that it gives the file at least the group; kept is false then.
func keepOwner(dir node.Node, name string, now, old node.Stat) (kept bool, err error) {
	if now.UID == old.UID && now.GID == old.GID {
		return true, nil
	}
	refused := func(err error) bool { // EINVAL: the owner is not mapped into this process's user namespace
		code := fserr.CodeOf(err)
		return code == fserr.EPERM || code == fserr.EINVAL
	}
	if err = dir.Chown(name, int64(old.UID), int64(old.GID)); !refused(err) {
		return err == nil, err
	}
	if err = dir.Chown(name, -1, int64(old.GID)); refused(err) {
		err = nil
	}
	return false, err
}

// Take puts the new entry in place, or takes the old one away. It fails with ErrOccupied if the path is free and was not, or is not and was.
func (s *Swap) Take() error {
	release, err := s.hold()
	if err != nil {
		return err
	}
	defer release()
	if s.away {
		err = s.checkEmptied()
	}
	switch {
	case err != nil:
	case s.entry == nil:
		err = s.dir.Move(s.base, s.tmp)
	case s.had:
		err = s.exchange()
	default:
		err = s.dir.Move(s.tmp, s.base)
	}
	switch fserr.CodeOf(err) {
	case 0:
		s.taken = true
		if s.away {
			s.dirs.move(s.path, path.Join(path.Dir(s.path), s.tmp))
		}
		return nil
	case fserr.ENOENT, fserr.EEXIST:
		return ErrOccupied
	}
	return err
}

func (s *Swap) exchange() error {
	err := s.dir.Exchange(s.tmp, s.base)
	if fserr.CodeOf(err) != fserr.EOPNOTSUPP && fserr.CodeOf(err) != fserr.EINVAL {
		return err
	}
	// For a moment the path is free.
	aside := s.tmp + asideSuffix
	if err := s.dir.Move(s.base, aside); err != nil {
		return err
	}
	if err := s.dir.Move(s.tmp, s.base); err != nil {
		return errors.Join(err, s.dir.Move(aside, s.base))
	}
	return s.dir.Move(aside, s.tmp)
}

// OldStat returns the attributes of what Take has replaced, under the conditions of Old.
func (s *Swap) OldStat() (node.Stat, error) {
	if !s.had {
		return node.Stat{}, &fserr.Error{Code: fserr.ENOENT}
	}
	release, err := s.hold()
	if err != nil {
		return node.Stat{}, err
	}
	defer release()
	return s.dir.Lstat(s.tmp)
}

// Old opens what Take has replaced, for as long as neither Done nor Back is called; ENOENT if the path was free.
func (s *Swap) Old() (Former, error) {
	if !s.had {
		return Former{}, &fserr.Error{Code: fserr.ENOENT}
	}
	release, err := s.hold()
	if err != nil {
		return Former{}, err
	}
	defer release()
	return s.former(s.tmp)
}

func (s *Swap) former(name string) (Former, error) {
	st, err := s.dir.Lstat(name)
	if err != nil {
		return Former{}, err
	}
	f := Former{Stat: st}
	switch st.Type() {
	case node.TypeSymlink:
		f.Target, err = s.dir.Readlink(name)
	case node.TypeFile:
		f.File, err = s.dir.OpenFile(name, node.O_RDONLY, 0)
	}
	return f, err
}

// Former is what a Swap has replaced. File is set for a file, Target for a link.
type Former struct {
	Stat   node.Stat
	File   node.File
	Target string
}

// Back puts back what Take has replaced. made reports whether an entry is still as the swap made it, replaced whether it still has the content
// that it had before Take. Back asks neither about a file that this process may not read: a program has saved it or changed its mode.
//
// Back removes the new entry if made accepts it. Otherwise a program has saved the new entry, or has put another one in its place: that one
// stays at the path, Back removes the old entry, and fails with ErrOccupied. If programs have saved both, the one with the later modification
// time stays. A path that a program has removed stays removed. After another error than ErrOccupied, Resume and Back can try again.
func (s *Swap) Back(made, replaced func(Former) (bool, error)) error {
	if !s.taken && !s.resumed {
		s.Drop()
		return nil
	}
	release, err := s.hold()
	if err != nil {
		return err
	}
	defer release()
	switch taken := s.taken; {
	case !taken:
		return s.dropResumed(made, replaced)
	case s.entry == nil:
		return s.giveBack()
	case s.had:
		return s.exchangeBack(made, replaced)
	}
	return s.takeBack(made)
}

// dropResumed removes the new entry of a swap that was not taken, or that Back had taken out of the path when it was interrupted. In
// the latter case it may be what a program has saved.
func (s *Swap) dropResumed(made, replaced func(Former) (bool, error)) error {
	if _, err := s.inode(); err != nil || s.entry == nil {
		return Ignoring(err, fserr.ENOENT)
	}
	is, err := s.isMine(made)
	if err != nil {
		return err
	}
	if is || s.mine == 0 {
		return s.dir.Unlink(s.tmp)
	}
	if s.had {
		return s.keepLater(replaced)
	}
	if err = s.dir.Move(s.tmp, s.base); err == nil {
		return ErrOccupied
	}
	return errors.Join(ErrOccupied, Ignoring(err, fserr.ENOENT, fserr.EEXIST), s.dir.Unlink(s.tmp))
}

// giveBack ends a removal.
func (s *Swap) giveBack() error {
	err := s.dir.Move(s.tmp, s.base)
	if err == nil {
		s.dirs.move(s.path, s.path)
	}
	if fserr.CodeOf(err) != fserr.EEXIST {
		return err
	}
	if s.away {
		return ErrOccupied // the directory has what other swaps replaced
	}
	return errors.Join(ErrOccupied, s.dir.Unlink(s.tmp))
}

// takeBack removes an entry where nothing was.
func (s *Swap) takeBack(made func(Former) (bool, error)) error {
	st, err := s.dir.Lstat(s.base)
	if err == nil && (st.IsDir() || s.mine != 0 && st.Ino != s.mine) {
		return ErrOccupied
	}
	if err == nil {
		err = s.dir.Move(s.base, s.tmp)
	}
	if fserr.CodeOf(err) == fserr.ENOENT && s.mine == 0 { // it was interrupted before Stage
		return nil
	}
	if fserr.CodeOf(err) == fserr.ENOENT { // a program has removed the new entry
		return ErrOccupied
	}
	if err != nil {
		return err
	}
	is, err := s.isMine(made)
	switch {
	case err != nil:
		return errors.Join(err, Ignoring(s.dir.Move(s.tmp, s.base), fserr.EEXIST))
	case is:
		return s.dir.Unlink(s.tmp)
	}
	err = s.dir.Move(s.tmp, s.base)
	if fserr.CodeOf(err) == fserr.EEXIST { // a later one
		err = s.dir.Unlink(s.tmp)
	}
	return errors.Join(ErrOccupied, err)
}

// exchangeBack puts the old entry back in the place of the new one. What a program saves meanwhile has precedence.
func (s *Swap) exchangeBack(made, replaced func(Former) (bool, error)) error {
	err := s.exchange()
	if fserr.CodeOf(err) == fserr.ENOENT { // a program has removed the new entry
		return errors.Join(ErrOccupied, s.dir.Unlink(s.tmp))
	}
	if err != nil {
		return err
	}
	is, err := s.isMine(made)
	if err == nil && is {
		return s.dir.Unlink(s.tmp)
	}
	return s.keepLater(replaced)
}

// keepLater leaves the later one of two entries at the path and removes the other. One of them was saved by a program, which may go on to save
// in place, whichever of them it has open, or with a rename.
func (s *Swap) keepLater(replaced func(Former) (bool, error)) error {
	for range exchangeTurns {
		later, err := s.isLater(replaced)
		if err == nil && !later {
			return errors.Join(ErrOccupied, s.dir.Unlink(s.tmp))
		}
		if err == nil {
			err = s.exchange()
		}
		if err != nil && fserr.CodeOf(err) != fserr.ENOENT { // ENOENT: it was removed from the path between the two, as isLater finds next
			return err
		}
	}
	return ErrOccupied
}

// isLater reports whether the entry at the reserved name was saved after the one at the path. What was replaced, and not saved since, is
// earlier than all others; so is all else than a removal of the path, or a directory there.
func (s *Swap) isLater(replaced func(Former) (bool, error)) (bool, error) {
	aside, isOld, err := s.look(s.tmp, replaced)
	if err != nil || isOld {
		return false, err
	}
	at, isOld, err := s.look(s.base, replaced)
	if fserr.CodeOf(err) == fserr.ENOENT || err == nil && at.IsDir() {
		return false, nil
	}
	return err == nil && (isOld || aside.MtimeNs > at.MtimeNs), err
}

// look returns the attributes of an entry, and whether is accepts it. It does not ask is about a file that this process may not read.
func (s *Swap) look(name string, is func(Former) (bool, error)) (st node.Stat, yes bool, err error) {
	f, err := s.former(name)
	if code := fserr.CodeOf(err); f.Stat.Type() == node.TypeFile && (code == fserr.EACCES || code == fserr.EPERM) {
		return f.Stat, false, nil
	}
	if err != nil {
		return node.Stat{}, false, err
	}
	if f.File != nil {
		defer func() { err = errors.Join(err, f.File.Close()) }()
	}
	yes, err = is(f)
	return f.Stat, yes, err
}

// exchangeTurns bounds how often a program can save between two steps of Back.
const exchangeTurns = 16

func (s *Swap) inode() (uint64, error) {
	st, err := s.dir.Lstat(s.tmp)
	return st.Ino, err
}

// isMine reports whether the entry at the reserved name is the one that the swap made, as it was made.
func (s *Swap) isMine(made func(Former) (bool, error)) (bool, error) {
	_, is, err := s.look(s.tmp, func(f Former) (bool, error) {
		if s.mine != 0 && f.Stat.Ino != s.mine {
			return false, nil
		}
		return made(f)
	})
	return is, err
}

// Done removes what Take has replaced.
func (s *Swap) Done() error {
	s.taken = false
	release, err := s.hold()
	if err != nil {
		return err
	}
	defer release()
	switch {
	case s.away:
		return removeDirs(s.dir, s.tmp)
	case s.had:
		return s.dir.Unlink(s.tmp)
	}
	return nil
}

// Drop gives up a swap that was not taken.
func (s *Swap) Drop() {
	if release, err := s.hold(); err == nil {
		s.drop()
		release()
	}
}

func (s *Swap) drop() {
	if s.entry != nil {
		_ = s.dir.Unlink(s.tmp) // what stays is swept
	}
}

// Staged says what is known of a swap that was interrupted.
type Staged struct {
	// Tmp is the swap's name.
	Tmp string
	// Ino is what Ino returned, 0 if that is not known.
	Ino uint64
	// Had says that something stood at the path, Removal that the entry was nil, Away that it is one of StageAway.
	Had, Removal, Away bool
}

// Resume returns a swap as an interruption left it. Call Back. It is nil if its directory is not there any more.
func (d *Dirs) Resume(p string, was Staged) (*Swap, error) {
	s := &Swap{dirs: d, path: p, base: path.Base(p), tmp: was.Tmp, had: was.Had, away: was.Away, mine: was.Ino, resumed: true}
	release, err := s.hold()
	if errors.Is(err, ErrOccupied) {
		return nil, nil //nolint:nilnil // there is nothing to put back
	}
	if err != nil {
		return nil, err
	}
	defer release()
	if !was.Removal {
		s.entry = &NewEntry{}
	}
	return s, s.resume()
}

// resume finds out how far the swap was.
func (s *Swap) resume() error {
	if err := s.resumeExchange(); err != nil {
		return err
	}
	now, err := s.inode()
	there := err == nil
	if !there && fserr.CodeOf(err) != fserr.ENOENT {
		return err
	}
	switch {
	case s.entry == nil:
		s.taken = there
	case s.had:
		s.taken = there && now != s.mine
	default:
		s.taken = !there
	}
	return nil
}

// resumeExchange completes an exchange in several steps, or takes it back.
func (s *Swap) resumeExchange() error {
	aside := s.tmp + asideSuffix
	if _, err := s.dir.Lstat(aside); err != nil {
		return Ignoring(err, fserr.ENOENT)
	}
	if _, err := s.dir.Lstat(s.tmp); fserr.CodeOf(err) == fserr.ENOENT {
		return s.dir.Move(aside, s.tmp)
	}
	err := s.dir.Move(aside, s.base)
	if fserr.CodeOf(err) == fserr.EEXIST { // a program has saved there
		err = s.dir.Unlink(aside)
	}
	return err
}

// SweepDirs removes what interrupted swaps left in these directories, which a crash may have prevented from being put back.
func SweepDirs(ctx context.Context, r Tree, dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		d, err := directoryOf(r, path.Join(dir, "name"))
		if err != nil {
			errs = append(errs, unlessGone(err))
			continue
		}
		names, err := d.Reserved()
		if err != nil || len(names) == 0 {
			errs = append(errs, err, d.Close())
			continue
		}
		entries := make([]node.Entry, len(names))
		for i, name := range names {
			entries[i].Name = name
		}
		_, err = RemoveEntries(ctx, d, entries...) // which closes d
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
