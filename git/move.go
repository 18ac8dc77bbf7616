package git

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
)

// ErrMoved says that another program changed a ref or the index meanwhile.
var ErrMoved = errors.New("the repository changed meanwhile")

// stagedIndex is the index that is to replace the repository's.
type stagedIndex struct {
	// before is the SHA-256 of the index that it was made from; after is its own, "" if there is none.
	before, after string
	locked        bool
}

// inPlace runs git in the repository itself, with its configuration: for its refs and its index, which no other way leads to. Hooks and
// the monitor are switched off; nothing that it runs looks at the working tree, applies a filter or signs.
func (l *Local) inPlace(extra ...string) runner {
	dir := l.gitDirPath()
	env := environ(nil, "GIT_DIR="+dir, "GIT_WORK_TREE="+dir, "GIT_NO_REPLACE_OBJECTS=1", "GIT_ATTR_NOSYSTEM=1", "GIT_ALLOW_PROTOCOL=",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	return runner{dir, append(protect, noPrograms...), append(env, extra...)}
}

func (d *Draft) indexCopy() string { return filepath.Join(d.scratch.dir, "staged") }

// changing is inPlace for a command that changes refs or an index, which are what hooks follow.
func (l *Local) changing(ctx context.Context, extra ...string) (runner, error) {
	r, err := l.inPlace(extra...).withoutHooks(ctx, l.reader.opts.Timeout)
	if err != nil {
		return r, l.broken(err)
	}
	return r, nil
}

func (d *Draft) onCopy() runner { return d.repo.inPlace("GIT_INDEX_FILE=" + d.indexCopy()) }

// Index returns what the repository's index holds, by path. An index with conflicts fails with EBUSY.
func (d *Draft) Index(ctx context.Context) (map[string]File, error) {
	data, err := d.repo.readIndex()
	if err != nil {
		return nil, d.repo.broken(err)
	}
	d.index = stagedIndex{before: sumOf(data)}
	if data == nil {
		return map[string]File{}, nil
	}
	if err := os.WriteFile(d.indexCopy(), data, 0o600); err != nil {
		return nil, err
	}
	out, err := d.onCopy().run(ctx, d.repo.reader.opts.Timeout, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, d.failed(err)
	}
	files := map[string]File{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if line == "" {
			continue
		}
		what, p, _ := strings.Cut(line, "\t")
		f := strings.Fields(what)
		if len(f) != 3 {
			return nil, d.failed(fmt.Errorf("git ls-files printed %.100q", line))
		}
		if f[2] != "0" {
			return nil, d.busy("its index has conflicts", "resolve them, or commit to a branch (--branch)")
		}
		mode, err := strconv.ParseUint(f[0], 8, 32)
		if err != nil {
			return nil, d.failed(err)
		}
		files[p] = File{p, uint32(mode), f[1]}
	}
	return files, nil
}

// readIndex returns nil if there is no index.
func (l *Local) readIndex() ([]byte, error) {
	data, err := readPlain(filepath.Join(l.gitDirPath(), "index"), maxGitFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Stage prepares the index that Index has read with these changes, and returns its SHA-256 for SettleIndex. The repository does not
// see it before Lock.
func (d *Draft) Stage(ctx context.Context, files []File) (string, error) {
	flags, err := d.flags(ctx)
	if err != nil {
		return "", d.failed(err)
	}
	r, err := d.repo.changing(ctx, "GIT_INDEX_FILE="+d.indexCopy())
	if err != nil {
		return "", err
	}
	if _, err := r.feed(ctx, d.repo.reader.opts.Timeout, indexInfo(files, d.zero()), "update-index", "-z", "--index-info"); err != nil {
		return "", d.failed(err)
	}
	for flag, has := range flags {
		var kept strings.Builder
		for _, f := range files {
			if f.Mode != 0 && has[f.Path] {
				kept.WriteString(f.Path + "\x00")
			}
		}
		if kept.Len() == 0 {
			continue
		}
		if _, err := r.feed(ctx, d.repo.reader.opts.Timeout, strings.NewReader(kept.String()), "update-index", flag, "-z", "--stdin"); err != nil {
			return "", d.failed(err)
		}
	}
	data, err := os.ReadFile(d.indexCopy())
	d.index.after = sumOf(data)
	return d.index.after, err
}

// flags returns the paths of the index that hide what the user changes in the working tree, by the option of git update-index that sets the flag. An entry
// that is replaced loses its flags, and the user's next commit would take what they hid.
func (d *Draft) flags(ctx context.Context) (map[string]map[string]bool, error) {
	const skip, assume = "--skip-worktree", "--assume-unchanged"
	out := map[string]map[string]bool{skip: {}, assume: {}}
	if _, err := os.Lstat(d.indexCopy()); errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	list, err := d.onCopy().run(ctx, d.repo.reader.opts.Timeout, "ls-files", "-v", "-z")
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(list), "\x00") {
		tag, p, _ := strings.Cut(line, " ")
		if tag == "S" || tag == "s" {
			out[skip][p] = true
		}
		if tag != "" && tag == strings.ToLower(tag) {
			out[assume][p] = true
		}
	}
	return out, nil
}

// lockFile returns the name of the index's lock, by which git commands keep from each other.
func (l *Local) lockFile() string { return filepath.Join(l.gitDirPath(), "index.lock") }

// partFile returns the name of an index before it is the lock. The name says which index that is.
func (l *Local) partFile(sum string) string {
	return filepath.Join(l.gitDirPath(), "ctxfs-index-"+sum[:16])
}

// Lock makes the prepared index the content of the index's lock: no git command changes index or HEAD until Install or Unlock. It fails with EBUSY if
// another command has the lock, and with ErrMoved if index or HEAD have changed since the draft began. The lock is on the disk then: a start after a
// power failure makes it the index if the commit was made.
func (d *Draft) Lock() (err error) {
	l := d.repo
	data, err := os.ReadFile(d.indexCopy())
	if err != nil {
		return err
	}
	// git reads the content of a file whose time is not before the index's, since it may have changed since: the new index keeps the time.
	mode, at := fs.FileMode(0o644), time.Time{}
	if st, err := os.Stat(filepath.Join(l.gitDirPath(), "index")); err == nil {
		mode, at = st.Mode().Perm(), st.ModTime()
	}
	part := l.partFile(d.index.after)
	if err = errors.Join(writeSynced(part, data, mode), os.Chtimes(part, time.Time{}, at)); err == nil {
		err = os.Link(part, l.lockFile()) // the lock appears whole
		d.index.locked = err == nil
	}
	err = errors.Join(err, os.Remove(part), durable.Names(l.gitDirPath()))
	if errors.Is(err, fs.ErrExist) {
		return d.busy("another git command has its index.lock", "wait for it; if none runs, remove the file")
	}
	if err != nil {
		return d.failed(err)
	}
	now, err := l.readIndex()
	if err != nil {
		return l.broken(err)
	}
	head, err := l.ref("HEAD")
	if err != nil {
		return l.broken(err)
	}
	if sumOf(now) != d.index.before || head != d.head {
		return errors.Join(ErrMoved, d.Unlock())
	}
	return nil
}

func writeSynced(name string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// Unlock gives the index's lock up, if the draft has it.
func (d *Draft) Unlock() error {
	if !d.index.locked {
		return nil
	}
	d.index.locked = false
	return errors.Join(os.Remove(d.repo.lockFile()), durable.Names(d.repo.gitDirPath()))
}

// Install makes the locked index the repository's.
func (d *Draft) Install() error {
	if !d.index.locked {
		return nil
	}
	d.index.locked = false
	return d.repo.installIndex()
}

// installIndex makes the lock the index. It is on the disk then: a power failure would bring a lock back that nothing removes any more.
func (l *Local) installIndex() error {
	if err := os.Rename(l.lockFile(), filepath.Join(l.gitDirPath(), "index")); err != nil {
		return err
	}
	return durable.Names(l.gitDirPath())
}

// SettleIndex completes or gives up what a Lock by a process that was killed has left. sum is what Stage returned. The lock of another
// command stays.
func (l *Local) SettleIndex(sum string, install bool) error {
	if sum == "" {
		return nil
	}
	if err := os.Remove(l.partFile(sum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := os.ReadFile(l.lockFile())
	switch {
	case errors.Is(err, fs.ErrNotExist) || (err == nil && sumOf(data) != sum):
		return nil
	case err != nil:
		return err
	case install:
		return l.installIndex()
	}
	return errors.Join(os.Remove(l.lockFile()), durable.Names(l.gitDirPath()))
}

// staleTime is how long SettleRef waits for another git command to give a lock up.
const staleTime = time.Second

// SettleRef removes the locks that a move of a ref has left, since it was cut short by a power failure: git gives locks up when its parent is
// killed, and holds those of refs for a moment only. begun is when the move cannot have begun yet.
func (l *Local) SettleRef(ctx context.Context, ref string, begun time.Time) error {
	for _, name := range []string{
		filepath.Join(l.commonDir(), filepath.FromSlash(ref)+".lock"), filepath.Join(l.gitDirPath(), "HEAD.lock"), filepath.Join(l.commonDir(), "packed-refs.lock"),
	} {
		if err := removeStale(ctx, name, begun); err != nil {
			return l.broken(err)
		}
	}
	return nil
}

func removeStale(ctx context.Context, lock string, begun time.Time) error {
	first, err := os.Lstat(lock)
	if err != nil || first.ModTime().Before(begun) {
		return ignoringMissing(err)
	}
	timer := time.NewTimer(staleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if now, err := os.Lstat(lock); err != nil || !os.SameFile(first, now) {
		return ignoringMissing(err)
	}
	return errors.Join(os.Remove(lock), durable.Names(filepath.Dir(lock)))
}

func ignoringMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// moveTimeout bounds the move of one ref.
const moveTimeout = 30 * time.Second

// RefMove is a ref that is about to move, and is locked for other git commands.
type RefMove struct {
	l      *Local
	cancel context.CancelFunc
	in     io.WriteCloser
	out    *bufio.Reader
	wait   func() error
	stderr *bounded
}

// Move prepares to move a ref from one commit to another; "" is no commit: the ref is created or removed. It fails with ErrMoved if the ref
// does not name from, and with EBUSY if another command moves it. by and note go to the reflog. Call Commit or Abort.
func (l *Local) Move(ctx context.Context, ref, from, to string, by Identity, note string) (_ *RefMove, err error) {
	zero := strings.Repeat("0", max(len(from), len(to)))
	if from == "" {
		from = zero
	}
	if to == "" {
		to = zero
	}
	note, _, _ = strings.Cut(note, "\n")
	m := &RefMove{l: l, stderr: &bounded{max: 4 << 10, cut: true}}
	ctx, m.cancel = context.WithTimeout(ctx, moveTimeout)
	defer func() {
		if err != nil {
			m.cancel()
		}
	}()
	r, err := l.changing(ctx, "GIT_COMMITTER_NAME="+by.Name, "GIT_COMMITTER_EMAIL="+by.Email)
	if err != nil {
		return nil, err
	}
	cmd := r.command(ctx, "update-ref", "-m", "ctxfs: "+note, "--stdin")
	cmd.Stderr, m.wait = m.stderr, cmd.Wait
	if m.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, notStarted(err)
	}
	option := ""
	if ref == "HEAD" {
		option = "option no-deref\n" // it is detached, and stays so
	}
	if err = m.say("start"); err == nil {
		if _, err = fmt.Fprintf(m.in, "%supdate %s %s %s\n", option, ref, to, from); err == nil {
			err = m.say("prepare")
		}
	}
	if err == nil {
		return m, nil
	}
	m.Abort()
	at, e := l.follow(ref)
	switch {
	case e == nil && at != strings.TrimLeft(from, "0") && at != from:
		return nil, ErrMoved
	case l.isLocked(ref):
		return nil, &fserr.Error{Code: fserr.EBUSY, Detail: fmt.Sprintf("repository %q: another git command moves %s", l.shown, ref), Hint: "wait for it", Err: err}
	}
	return nil, &fserr.Error{
		Code: fserr.CodeOf(err), Detail: fmt.Sprintf("%s of repository %q cannot be moved", ref, l.shown), Hint: "is there a branch with a part of this name?", Err: err,
	}
}

// say sends a command, and waits until git has done it. If git fails, say ends it.
func (m *RefMove) say(command string) error {
	_, err := io.WriteString(m.in, command+"\n")
	line := ""
	if err == nil {
		line, err = m.out.ReadString('\n')
	}
	if err == nil && line != command+": ok\n" {
		err = fmt.Errorf("it printed %.100q", line)
	}
	if err == nil {
		return nil
	}
	m.Abort() // stderr is complete then
	return gitError(context.Background(), "update-ref", err, m.stderr)
}

// Commit moves the ref. The objects that it is to name are on the disk (FlushObjects).
func (m *RefMove) Commit() error {
	err := m.say("commit")
	m.Abort()
	return err
}

// recent is for how long a system may keep what was written from the disk although nobody flushes it: Linux writes it within 35 seconds.
const recent = time.Minute

// FlushObjects puts the objects on the disk that were made since a time, or a minute before, with their names. These are also objects of other git
// commands: git flushes few of its objects, and writes none again that is there. It sets the modification time of one that it finds there.
func (l *Local) FlushObjects(since time.Time) error {
	since = since.Add(-recent)
	top := l.objectsDir()
	dirs, err := os.ReadDir(top)
	paths := []string{top}
	for _, dir := range dirs {
		if len(dir.Name()) != 2 && dir.Name() != "pack" {
			continue
		}
		at := filepath.Join(top, dir.Name())
		entries, e := os.ReadDir(at)
		err = errors.Join(err, ignoringMissing(e)) // git gc removes directories
		for _, entry := range append(entries, dir) {
			name := at
			if entry != dir {
				name = filepath.Join(at, entry.Name())
			}
			if st, e := entry.Info(); e == nil && !st.ModTime().Before(since) && !strings.HasPrefix(entry.Name(), "tmp_") {
				paths = append(paths, name)
			}
		}
	}
	if err = errors.Join(err, durable.Each(paths, durable.One)); err != nil {
		return l.broken(err)
	}
	return nil
}

// FlushRef puts a ref that has moved on the disk, with its reflog, and the removal of the locks: git has flushed the ref's content alone.
func (l *Local) FlushRef(ref string) error {
	paths := []string{l.gitDirPath(), filepath.Join(l.gitDirPath(), "logs"), filepath.Join(l.gitDirPath(), "logs", "HEAD")}
	if ref != "HEAD" {
		for _, top := range []string{l.commonDir(), filepath.Join(l.commonDir(), "logs")} {
			at := filepath.Join(top, filepath.FromSlash(ref))
			paths = append(paths, at, top)
			for at = filepath.Dir(at); at != top; at = filepath.Dir(at) {
				paths = append(paths, at)
			}
		}
	}
	slices.Sort(paths)
	err := durable.Each(slices.Compact(paths), func(path string) error {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			err = durable.One(real)
		}
		return ignoringMissing(err) // a branch without a reflog, for one
	})
	if err != nil {
		return l.broken(err)
	}
	return nil
}

// Abort ends git, which leaves the ref as it was unless Commit has moved it. Aborting again does nothing.
func (m *RefMove) Abort() {
	_ = m.in.Close() // git gives its locks up at the end of its input
	_, _ = io.Copy(io.Discard, m.out)
	_ = m.wait() // Commit has its answer, and an abort needs none
	m.cancel()
}

// Contains reports whether a ref names a commit or one that follows it.
func (l *Local) Contains(ctx context.Context, ref, commit string) (contains bool, err error) {
	at, err := l.follow(ref)
	if err != nil || at == "" || at == commit {
		return at == commit, err
	}
	s, err := newScratch(l.reader.opts.Scratch, len(commit) == 64)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	if _, err := s.local(l.objectsDir()).run(ctx, l.reader.opts.Timeout, "merge-base", "--is-ancestor", commit, at); err != nil {
		return false, ctx.Err() // it is no ancestor, or is not there at all
	}
	return true, nil
}
