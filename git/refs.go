package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Branch is a branch of a repository.
type Branch struct {
	// Name is without refs/heads/.
	Name, Commit string
	// CheckedOut says that a working tree, which may be a linked one, has it checked out.
	CheckedOut bool
}

// Branches lists the branches, by name. It leaves out those that name no object.
func (l *Local) Branches(ctx context.Context) ([]Branch, error) {
	out, err := l.inPlace().run(ctx, l.reader.opts.Timeout, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/")
	if err != nil {
		return nil, l.broken(err)
	}
	dirs, err := l.gitDirs()
	if err != nil {
		return nil, l.broken(err)
	}
	heads := map[string]bool{}
	for _, dir := range dirs {
		if data, err := readPlain(filepath.Join(dir, "HEAD"), maxLine); err == nil { // a linked working tree may be half removed
			heads[strings.TrimSpace(strings.TrimPrefix(string(data), "ref: "))] = true
		}
	}
	var branches []Branch
	for line := range strings.Lines(string(out)) {
		id, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || !isObjectID(id) {
			return nil, l.broken(fmt.Errorf("git for-each-ref printed %.100q", line))
		}
		branches = append(branches, Branch{strings.TrimPrefix(ref, "refs/heads/"), id, heads[ref]})
	}
	return branches, nil
}

// IsNamed reports whether HEAD, a branch, a tag or a remote-tracking branch names a commit of the repository, or one that follows it. A repository
// also has other commits: those of the stash and of other refs, and those that nothing names since a branch was reset, amended or deleted. Git
// walks the history once, as far back as the commit is old. If clocks were wrong it may find a commit unnamed that is not.
func (l *Local) IsNamed(ctx context.Context, commit string) (named bool, err error) {
	head, err := l.follow("HEAD")
	if err != nil {
		return false, l.broken(err)
	}
	if head == commit {
		return true, nil
	}
	out, err := l.inPlace().run(ctx, l.reader.opts.Timeout, "for-each-ref", "--format=^%(objectname)", "refs/heads/", "refs/tags/", "refs/remotes/")
	if err != nil {
		return false, l.broken(err)
	}
	revisions := string(out)
	if head != "" {
		revisions += "^" + head + "\n"
	}
	s, err := newScratch(l.reader.opts.Scratch, len(commit) == 64)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	if err := l.lend(ctx, s); err != nil {
		return false, err
	}
	// Damaged refs do not count. What is left is the commit itself, unless it is among what the refs name.
	out, err = s.local("").feed(ctx, l.reader.opts.Timeout, strings.NewReader(revisions+commit+"\n"), "rev-list", "--ignore-missing", "--max-count=1", "--stdin")
	if err != nil {
		return false, l.broken(err)
	}
	return len(out) == 0, nil
}

// Since counts the commits that a ref has and a commit does not.
func (l *Local) Since(ctx context.Context, commit, ref string) (n int, err error) {
	at, err := l.follow(ref)
	if err != nil || at == "" || at == commit {
		return 0, err
	}
	s, err := newScratch(l.reader.opts.Scratch, len(commit) == 64)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	if err := l.lend(ctx, s); err != nil {
		return 0, err
	}
	out, err := s.local("").run(ctx, l.reader.opts.Timeout, "rev-list", "--count", at, "^"+commit)
	if err != nil {
		return 0, l.broken(err)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}
