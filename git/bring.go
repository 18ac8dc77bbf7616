package git

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// unpackAtMost is up to how many objects are stored one by one; more stay in a pack, as with git's own transfer.unpackLimit.
const unpackAtMost = 100

// Bring copies a commit into the repository that b borrows from, with what it needs beside the commits that this has. It is on the disk
// then, and no ref names it yet. If
// it is interrupted, objects stay that git gc removes.
func (b *Bare) Bring(ctx context.Context, commit string, has ...string) (err error) {
	revs := commit + "\n"
	for _, id := range has {
		revs += "^" + id + "\n"
	}
	scratch, err := newScratch(b.repo.reader.opts.Scratch, len(commit) == 64)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.remove()) }()
	pack, err := os.Create(filepath.Join(scratch.dir, "pack"))
	if err != nil {
		return err
	}
	defer func() { _ = pack.Close() }() // it goes with the scratch
	cmd := b.own.local("").command(ctx, "pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset")
	stderr := &bounded{max: 4 << 10, cut: true}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(revs), pack, stderr
	if err := cmd.Run(); err != nil {
		return b.failed(gitError(ctx, "pack-objects", notStarted(err), stderr))
	}
	began := time.Now()
	if err := b.repo.unpack(ctx, scratch, pack); err != nil {
		return b.repo.broken(err)
	}
	return b.repo.FlushObjects(began)
}

// unpack stores the objects of a pack in the repository.
func (l *Local) unpack(ctx context.Context, scratch *scratch, pack io.ReadSeeker) error {
	var head struct{ Signature, Version, Count uint32 }
	_, err := pack.Seek(0, io.SeekStart)
	if err == nil {
		err = binary.Read(pack, binary.BigEndian, &head)
	}
	if err == nil {
		_, err = pack.Seek(0, io.SeekStart)
	}
	if err != nil || head.Count == 0 {
		return err
	}
	args := []string{"index-pack", "--stdin", "--fix-thin"}
	if head.Count <= unpackAtMost {
		args = []string{"unpack-objects", "-q"}
	}
	shared, err := l.sharedRepository(ctx, scratch)
	if err != nil {
		return err
	}
	r := scratch.local(l.objectsDir())
	r.config = append(slices.Clip(r.config), protect...)
	if shared != "" {
		r.config = append(r.config, "core.sharedRepository="+shared) // others of the group write to the repository too
	}
	_, err = r.feed(ctx, l.reader.opts.FetchTimeout, pack, args...)
	return err
}

// sharedRepository returns the repository's core.sharedRepository, "" for none.
func (l *Local) sharedRepository(ctx context.Context, scratch *scratch) (string, error) {
	out, err := scratch.local("").run(ctx, l.reader.opts.Timeout, "config", "--file", filepath.Join(l.commonDir(), "config"), "--no-includes", "core.sharedRepository")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", nil // it is not set
	}
	return strings.TrimSpace(string(out)), err
}

// ErrUnrelated says that two commits have no common history.
var ErrUnrelated = errors.New("the commits have no common history")

// Merge makes a merge of two commits, with both as its parents. If they changed the same lines it returns the paths, and makes none. It fails
// with ErrUnrelated for commits without a common one.
func (b *Bare) Merge(ctx context.Context, ours, theirs string, m Message) (commit string, conflicts []string, err error) {
	r := b.own.local("")
	out, said, err := r.capture(ctx, b.repo.reader.opts.FetchTimeout, nil, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
	parts := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 1 && len(parts) > 1:
		return "", slices.Compact(slices.Sorted(slices.Values(parts[1:]))), nil
	case strings.Contains(said, "unrelated histories"):
		return "", nil, ErrUnrelated
	case err != nil:
		return "", nil, b.failed(err)
	}
	commit, err = commitTree(ctx, r, b.repo.reader.opts.Timeout, parts[0], []string{ours, theirs}, []byte(m.Text), m)
	return commit, nil, b.failed(err)
}

// Blobs reads contents that b or the repository that it borrows from has. The caller closes it.
func (b *Bare) Blobs(ctx context.Context) (*Objects, error) {
	s, err := newScratch(b.repo.reader.opts.Scratch, false) // it is there to be removed
	if err != nil {
		return nil, err
	}
	return openObjects(ctx, s, b.own.local(""))
}

// Open opens a file's content. Read it before the next call.
func (o *Objects) Open(id string) (io.Reader, error) {
	if _, err := o.Blob(id); err != nil {
		return nil, err
	}
	return (*blob)(o), nil
}

// Branch returns the commit that a branch names; "" for none.
func (l *Local) Branch(name string) (string, error) {
	id, err := l.follow("refs/heads/" + name)
	if err != nil {
		return "", l.broken(err)
	}
	return id, nil
}
