// Package git reads git repositories and runs git without running anything that
// a repository names: no hook, filter, helper, alias, monitor or remote program.
//
// Two ways lead to a repository's data:
//
//   - A Reader resolves refs and reads objects. It reads the refs of a local
//     repository itself, through an FS that confines every path. For objects it runs
//     git in an empty repository of its own, so git reads none of the repository's
//     configuration, attributes, hooks, replacements, grafts or submodules.
//   - Status and ListFiles need a working tree with its index and configuration, so
//     they run git in it, with every program switched off.
//
// Objects are returned byte for byte as they are stored, without filters or line end
// conversion. Only a Draft and a RefMove write to a repository that is not the package's own. The
// package knows nothing of contexts, templates or the wire.
package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/ctxfs/ctxfs/fserr"
)

// FS is a directory in which local repositories lie. Paths are relative to it and
// slash-separated; "." is the directory itself. No path, link or pointer leads out of it.
type FS interface {
	// Dir returns the tree's path on the server, without links.
	Dir() string
	// Realpath returns p without links. It fails with EACCES if p leads out of the tree
	// or to a place where no repository may be read.
	Realpath(p string) (string, error)
	// IsDir reports whether p, with links followed, is a directory. It fails with ENOENT if nothing is there.
	IsDir(p string) (bool, error)
	// Open opens a regular file for reading, and never blocks. It fails with ENOENT for a directory, and with NotPlain for anything else.
	Open(p string) (io.ReadCloser, error)
	// Types calls fn with the type bits of every entry below dir, at most depth levels down, without following links.
	Types(ctx context.Context, dir string, depth int, fn func(fs.FileMode) error) error
}

// Options of NewReader.
type Options struct {
	// Scratch is an existing directory for git's empty repositories. Each is removed when it is no longer needed.
	Scratch string
	// Timeout bounds one command that asks a remote repository or reads a local one;
	// 0 means a minute. FetchTimeout bounds one fetch; 0 means ten minutes.
	Timeout, FetchTimeout time.Duration
}

// Reader opens repositories. It is safe for concurrent use.
type Reader struct {
	opts   Options
	peeled peeled
}

// NewReader returns a reader. It starts nothing.
func NewReader(opts Options) *Reader {
	if opts.Timeout <= 0 {
		opts.Timeout = time.Minute
	}
	if opts.FetchTimeout <= 0 {
		opts.FetchTimeout = 10 * time.Minute
	}
	return &Reader{opts: opts, peeled: peeled{commits: map[object]string{}}}
}

// Repository is a local or remote repository.
type Repository interface {
	// Resolve returns the full ID of the commit that ref means now. ref is HEAD, a full
	// name, a branch, a tag, or a commit in full or abbreviated. It fails with ENOENT if
	// there is none, and with EINVAL if ref means several commits.
	Resolve(ctx context.Context, ref string) (string, error)
	// Objects makes the objects of a commit readable. What that needs on disk is
	// created in scratch. The caller closes the result.
	Objects(ctx context.Context, scratch, commit string) (*Objects, error)
}

// object is one of a repository's objects, by its full ID.
type object struct{ dir, id string }

// peeled remembers which commit an object leads to: itself, or what a tag names. An ID
// fixes all of an object's content, so the answer never changes; only the repository may
// lose the object, and reading it reports that. An unmoved ref is resolved without git.
type peeled struct {
	mu      sync.Mutex
	commits map[object]string
}

// maxPeeled bounds how many answers are remembered. Beyond it all are dropped.
const maxPeeled = 10_000

// of returns the commit of rev, and calls ask if it is not known. Only full IDs are remembered.
func (p *peeled) of(dir, rev string, ask func() (string, error)) (string, error) {
	key := object{dir, rev}
	p.mu.Lock()
	commit, ok := p.commits[key]
	p.mu.Unlock()
	if ok {
		return commit, nil
	}
	commit, err := ask()
	if err != nil || !isObjectID(rev) {
		return commit, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.commits) >= maxPeeled {
		clear(p.commits)
	}
	p.commits[key] = commit
	return commit, nil
}

// choose applies the rules for what a ref means. It returns an object's ID, in full or abbreviated.
// lookup returns "" for a ref that does not exist; peel returns the commit of an ID.
func choose(ref, repo string, lookup, peel func(string) (string, error)) (string, error) {
	if isObjectID(ref) {
		return ref, nil
	}
	if ref == "HEAD" || strings.HasPrefix(ref, "refs/") {
		id, err := lookup(ref)
		if err == nil && id == "" {
			err = unknownRef(repo, ref, "")
		}
		return id, err
	}
	branch, err1 := lookup("refs/heads/" + ref)
	tag, err2 := lookup("refs/tags/" + ref)
	switch {
	case err1 != nil || err2 != nil:
		return "", errors.Join(err1, err2)
	case branch != "" && tag != "":
		return same(ref, repo, branch, tag, peel)
	case branch != "":
		return branch, nil
	case tag != "":
		return tag, nil
	case isAbbreviated(ref):
		return ref, nil
	}
	return "", unknownRef(repo, ref, "")
}

// same accepts a name of both a branch and a tag if they lead to one commit.
func same(ref, repo, branch, tag string, peel func(string) (string, error)) (string, error) {
	a, err1 := peel(branch)
	b, err2 := peel(tag)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if a != b {
		return "", ambiguousRef(repo, ref, "write refs/heads/"+ref+" or refs/tags/"+ref)
	}
	return branch, nil
}

// OpResolve marks the errors that say what is wrong with a ref.
const OpResolve = "resolve"

// unknownRef reports that a repository has no such ref.
func unknownRef(repo, ref, hint string) error {
	return &fserr.Error{Op: OpResolve, Code: fserr.ENOENT, Detail: fmt.Sprintf("repository %q has no branch, tag or commit %q", repo, ref), Hint: hint}
}

// ambiguousRef reports that a ref means several commits.
func ambiguousRef(repo, ref, hint string) error {
	return &fserr.Error{Op: OpResolve, Code: fserr.EINVAL, Detail: fmt.Sprintf("%q means more than one commit of repository %q", ref, repo), Hint: hint}
}

// maxRef bounds the length of a ref, in bytes: its last part is a file name.
const maxRef = 255

var (
	hexPattern  = regexp.MustCompile(`^[0-9a-f]+$`)
	refRefused  = regexp.MustCompile(`[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^/|/$|^-|\.$|^@$`)
	partRefused = regexp.MustCompile(`(^|/)\.|\.lock(/|$)`)
)

// CheckRef refuses what git-check-ref-format(1) refuses, and so every option and
// every expression of gitrevisions(7).
func CheckRef(ref string) error {
	switch {
	case len(ref) > maxRef:
		return fmt.Errorf("it has more than %d bytes", maxRef)
	case !utf8.ValidString(ref):
		return errors.New("it is not UTF-8")
	case refRefused.MatchString(ref) || partRefused.MatchString(ref):
		return errors.New("it is no name of a branch or tag, and no commit")
	}
	return nil
}

// isObjectID reports whether s is a full SHA-1 or SHA-256 in hex.
func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && hexPattern.MatchString(s)
}

// isAbbreviated reports whether s may be the beginning of an object's ID (git's shortest has 4 digits).
func isAbbreviated(s string) bool { return len(s) >= 4 && len(s) < 64 && hexPattern.MatchString(s) }

// MayBeCommit reports whether a ref may be the ID of a commit, in full or abbreviated. It may be a name as well.
func MayBeCommit(ref string) bool { return isObjectID(ref) || isAbbreviated(ref) }

// ignorable are the characters that HFS+, or ext4 with casefold, ignores in a name.
var ignorable = []*unicode.RangeTable{unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point}

// FoldName returns what file systems compare that ignore case or some characters:
// HFS+ and ext4 with casefold ignore what is not visible, NTFS what follows a colon
// and dots and spaces at the end. APFS and ext4 take ß for ss and ſ for s, and ZFS
// can take characters for others that look the same. Git's own checks are
// is_hfs_dotgit and is_ntfs_dotgit.
func FoldName(name string) string {
	name, _, _ = strings.Cut(name, ":")
	if isASCII(name) {
		name = strings.ToLower(name)
	} else {
		name = foldUnicode(name)
	}
	return strings.TrimRight(name, ". ")
}

// isASCII reports whether a name has ASCII characters only, as nearly all have: folding these takes a fiftieth of the time.
func isASCII(name string) bool {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func foldUnicode(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, ignorable...) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(name))
	return strings.ReplaceAll(name, "ß", "ss")
}

// IsDotGit reports whether some file system takes name, or what follows a backslash in it, for ".git". Git itself refuses these names (verify_path in its
// read-cache.c).
func IsDotGit(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		if folded := FoldName(part); folded == ".git" || folded == "git~1" {
			return true
		}
	}
	return false
}
