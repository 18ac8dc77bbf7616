package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// DraftApart begins a commit on top of a branch, which may be checked out and need not exist. Its objects go to a repository of our own:
// Publish makes one of them. The local repository gets no object, and no lock counts, since nothing of it changes.
func (l *Local) DraftApart(ctx context.Context, branch string) (_ *Draft, err error) {
	if err := CheckBranch(branch); err != nil {
		return nil, err
	}
	d, err := l.draft(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	d.apart, d.Ref = true, "refs/heads/"+branch
	if err := d.resolve(); err != nil {
		return nil, err
	}
	if err := l.lend(ctx, d.scratch); err != nil {
		return nil, err
	}
	if d.objects, err = openObjects(ctx, d.scratch, d.scratch.local("")); err != nil {
		return nil, err
	}
	return d, d.readParent()
}

// HasBranch reports whether the repository has a branch.
func (l *Local) HasBranch(name string) (bool, error) {
	id, err := l.follow("refs/heads/" + name)
	if err != nil {
		return false, l.broken(err)
	}
	return id != "", nil
}

// EntryOf is Entry for another commit. It fails if the repository does not have the commit.
func (d *Draft) EntryOf(commit, p string) (at string, e TreeEntry, err error) {
	root, err := d.objects.TreeOf(commit)
	if err != nil {
		return "", e, d.repo.broken(err)
	}
	return entryAt(p, root, func(dir, id string) ([]TreeEntry, error) { return d.objects.Tree(id, dir) })
}

// lend makes the objects of the repository readable in one of our own. A shallow clone's history ends there where the clone's does.
func (l *Local) lend(ctx context.Context, s *scratch) error {
	if err := l.checkObjects(ctx, l.objects, 0); err != nil {
		return l.broken(err)
	}
	dir := l.objectsDir()
	if strings.ContainsAny(dir, "\n\r") || strings.HasPrefix(dir, `"`) {
		return &fserr.Error{Code: fserr.EINVAL, Detail: "the path of the workspace has a line break", Hint: "move the workspace"}
	}
	if err := replace(filepath.Join(s.dir, "objects", "info", "alternates"), []byte(dir+"\n")); err != nil {
		return err
	}
	f, err := l.tree.Open(path.Join(l.common, "shallow"))
	if fserr.CodeOf(err) == fserr.ENOENT {
		return os.RemoveAll(filepath.Join(s.dir, "shallow"))
	}
	if err != nil {
		return l.broken(err)
	}
	ends, err := io.ReadAll(io.LimitReader(f, maxPackedRefs))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return replace(filepath.Join(s.dir, "shallow"), ends)
}

// replace gives a file a content, which other commands see whole.
func replace(name string, data []byte) error {
	if now, err := statedir.ReadFile(name, maxPackedRefs); err == nil && bytes.Equal(now, data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// Publish makes dir, an existing empty directory, a bare repository with a ref to a commit that Commit returned. It gets all objects that
// the parent does not have, and borrows the others from the local repository.
func (d *Draft) Publish(ctx context.Context, dir, ref, commit string) error {
	s := &scratch{dir}
	if err := s.init(d.isWide()); err != nil {
		return err
	}
	if err := d.repo.lend(ctx, s); err != nil {
		return err
	}
	revs := commit + "\n"
	if d.Parent != "" {
		revs += "^" + d.Parent + "\n"
	}
	r := d.build()
	r.config = append(r.config, "pack.threads=1", "pack.writeReverseIndex=false")
	_, err := r.feed(ctx, d.repo.reader.opts.FetchTimeout, strings.NewReader(revs), "pack-objects", "--quiet", "--revs", filepath.Join(dir, "objects", "pack", "pack"))
	if err != nil {
		return d.failed(err)
	}
	name := filepath.Join(dir, filepath.FromSlash(ref))
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(commit+"\n"), 0o600))
}

// Bare is a repository that Publish made.
type Bare struct {
	repo *Local
	own  *scratch
}

// Bare opens a repository that Publish made of this one, which may have moved since.
func (l *Local) Bare(ctx context.Context, dir string) (*Bare, error) {
	b := &Bare{l, &scratch{dir}}
	return b, l.lend(ctx, b.own)
}

// emptyTree returns the ID of the tree without entries, which every repository has.
func emptyTree(wide bool) string {
	if wide {
		return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}

// Delta is a path in which two commits differ.
type Delta struct {
	Path string
	// OldMode and NewMode are those of tree entries; 0 for nothing. OldID and NewID are "" then.
	OldMode, NewMode uint32
	OldID, NewID     string
	// Added and Removed count lines; Binary says that the content is no text, or is larger than 4 MiB.
	Added, Removed int
	Binary         bool
	// RenamedFrom is the only path with this content that the same commit removes; "" for none.
	RenamedFrom string
}

// compare runs diff-tree, which reads neither attributes nor a configuration that could name a program.
func (b *Bare) compare(ctx context.Context, from, to string, args ...string) *diffCommand {
	if from == "" {
		from = emptyTree(len(to) == 64)
	}
	r := b.own.local("")
	r.config = append(r.config, "core.bigFileThreshold="+bigFile, "diff.algorithm=myers", "core.quotePath=false", "diff.indentHeuristic=true")
	args = append([]string{"diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--full-index"}, args...)
	return &diffCommand{ctx, b, r, append(args, from, to)}
}

// bigFile is from which size on content counts as binary.
const bigFile = "4m"

type diffCommand struct {
	ctx  context.Context
	b    *Bare
	r    runner
	args []string
}

func (d *diffCommand) output() ([]byte, error) {
	out, err := d.r.run(d.ctx, d.b.repo.reader.opts.Timeout, d.args...)
	return out, d.b.failed(err)
}

func (b *Bare) failed(err error) error {
	if err == nil {
		return nil
	}
	if Obstacle(err) != nil {
		return b.repo.broken(err)
	}
	return &fserr.Error{
		Code: fserr.CodeOf(err), Err: err, Detail: fmt.Sprintf("the staged commit cannot be read: its objects or those of repository %q are missing", b.repo.shown),
		Hint: "is it a shallow or partial clone? git fetch --unshallow, or git fsck",
	}
}

// Deltas lists what a commit changed since another one, "" for nothing, by path.
func (b *Bare) Deltas(ctx context.Context, from, to string) ([]Delta, error) {
	out, err := b.compare(ctx, from, to, "--raw", "--no-abbrev", "-z").output()
	if err != nil {
		return nil, err
	}
	deltas, err := parseRaw(out)
	if err != nil {
		return nil, b.failed(err)
	}
	if out, err = b.compare(ctx, from, to, "--numstat", "-z").output(); err != nil {
		return nil, err
	}
	if err := countLines(deltas, out); err != nil {
		return nil, b.failed(err)
	}
	findRenames(deltas)
	return deltas, nil
}

// parseRaw reads the output of git diff-tree --raw -z: ":oldmode newmode oldid newid status NUL path NUL".
func parseRaw(out []byte) (deltas []Delta, err error) {
	for len(out) > 0 {
		what, rest, ok1 := bytes.Cut(out, []byte{0})
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		f := strings.Fields(strings.TrimPrefix(string(what), ":"))
		if !ok1 || !ok2 || len(f) != 5 {
			return nil, fmt.Errorf("git diff-tree printed %.100q", out)
		}
		before, err1 := strconv.ParseUint(f[0], 8, 32)
		after, err2 := strconv.ParseUint(f[1], 8, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		d := Delta{Path: string(name), OldMode: uint32(before), NewMode: uint32(after)}
		if before != 0 {
			d.OldID = f[2]
		}
		if after != 0 {
			d.NewID = f[3]
		}
		deltas, out = append(deltas, d), rest
	}
	return deltas, nil
}

// countLines reads the output of git diff-tree --numstat -z: "added TAB removed TAB path NUL", with "-" for what is no text. A change of
// type has two lines.
func countLines(deltas []Delta, out []byte) error {
	at := map[string]*Delta{}
	for i := range deltas {
		at[deltas[i].Path] = &deltas[i]
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		f := strings.SplitN(line, "\t", 3)
		if line == "" {
			continue
		}
		if len(f) != 3 || at[f[2]] == nil {
			return fmt.Errorf("git diff-tree printed %.100q", line)
		}
		d := at[f[2]]
		if f[0] == "-" {
			d.Binary = true
			continue
		}
		added, err1 := strconv.Atoi(f[0])
		removed, err2 := strconv.Atoi(f[1])
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		d.Added += added
		d.Removed += removed
	}
	return nil
}

// findRenames sets RenamedFrom where one path is removed and one is created with the same content.
func findRenames(deltas []Delta) {
	gone, made := map[string][]int{}, map[string][]int{}
	for i, d := range deltas {
		switch {
		case d.NewMode == 0:
			gone[d.OldID] = append(gone[d.OldID], i)
		case d.OldMode == 0:
			made[d.NewID] = append(made[d.NewID], i)
		}
	}
	for id, to := range made {
		if from := gone[id]; len(to) == 1 && len(from) == 1 {
			deltas[to[0]].RenamedFrom = deltas[from[0]].Path
		}
	}
}

// Patch writes what a commit changed since another one, "" for nothing, as text that git apply accepts, with so many context lines. paths, if there
// are any, bound it: each is a path or a directory.
func (b *Bare) Patch(ctx context.Context, from, to string, paths []string, lines int, out io.Writer) error {
	d := b.compare(ctx, from, to, "-p", "--binary", "-U"+strconv.Itoa(lines))
	d.r.env = append(d.r.env, "GIT_LITERAL_PATHSPECS=1")
	args := d.args
	if len(paths) > 0 {
		args = append(append(args, "--"), paths...)
	}
	ctx, cancel := context.WithTimeout(ctx, b.repo.reader.opts.FetchTimeout)
	defer cancel()
	cmd := d.r.command(ctx, args...)
	stderr := &bounded{max: 4 << 10, cut: true}
	kept := &firstError{w: out}
	cmd.Stdout, cmd.Stderr = kept, stderr
	err := cmd.Run()
	switch {
	case kept.err != nil:
		return kept.err
	case err != nil:
		return b.failed(gitError(ctx, "diff-tree", err, stderr))
	}
	return nil
}

// firstError remembers why writing failed.
type firstError struct {
	w   io.Writer
	err error
}

// Write is io.Writer's.
func (f *firstError) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		f.err = err
	}
	return n, err
}
