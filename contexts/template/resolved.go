package template

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// Resolved is the result of a template and its ancestors: a commit for each path. Only a Resolver creates one.
type Resolved struct {
	// Chain holds the templates' paths, relative to the workspace: the requested one
	// first, its oldest ancestor last.
	Chain []string
	// Deps are sorted by path.
	Deps []Dep
	// Hash is the SHA-256 of Canonical, in hex.
	Hash string

	repos map[string]repository
}

// Dep is one repository at a commit.
type Dep struct {
	// Path is absolute in the context, and clean.
	Path string `json:"path"`
	// Repo and Ref are as the template has them. Ref is "HEAD" if it has none.
	Repo string `json:"repo"`
	Ref  string `json:"ref"`
	// Source identifies the repository: "workspace:packages/tools" or
	// "git:https://host/packages/tools". It has no user and no password.
	Source string `json:"source"`
	// Commit is the full ID, in hex.
	Commit string `json:"commit"`
	// From are the places that declare the dep, the oldest ancestor's first.
	From []Position `json:"from"`
}

// canonicalFormat is the first line of Canonical.
const canonicalFormat = "ctxfs-template 1"

// Canonical returns the form that is hashed, version 1:
//
//	ctxfs-template 1 LF
//	path NUL source NUL commit LF        for each dep, by the bytes of its path
//
// No field can hold NUL or LF. The place of a dep, its ref and how often it is declared
// do not count: templates with the same content have the same hash.
func (r *Resolved) Canonical() []byte {
	var b strings.Builder
	b.WriteString(canonicalFormat + "\n")
	for _, d := range r.Deps {
		b.WriteString(d.Path + "\x00" + d.Source + "\x00" + d.Commit + "\n")
	}
	return []byte(b.String())
}

// seal sorts the deps and computes the hash.
func (r *Resolved) seal() *Resolved {
	slices.SortFunc(r.Deps, func(a, b Dep) int { return cmp.Compare(a.Path, b.Path) })
	sum := sha256.Sum256(r.Canonical())
	r.Hash = hex.EncodeToString(sum[:])
	return r
}

// Explain returns the merged result as a template that extends nothing, with the
// commits for refs, and where each path came from as comments. It reads back
// (parse) to the same paths, repositories and commits.
func (r *Resolved) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# hash %s\n", r.Hash)
	for i, name := range r.Chain {
		fmt.Fprintf(&b, "# %s%s\n", strings.Repeat("  ", i), name)
	}
	b.WriteString("deps:")
	if len(r.Deps) == 0 {
		b.WriteString(" {}")
	}
	b.WriteString("\n")
	for _, d := range r.Deps {
		d.explain(&b)
	}
	return b.String()
}

func (d Dep) explain(b *strings.Builder) {
	for _, at := range d.From {
		fmt.Fprintf(b, "  # %s\n", at)
	}
	fmt.Fprintf(b, "  %s:\n    repo: %s # %s\n    ref: %s # %s\n",
		strconv.Quote(d.Path), strconv.Quote(d.Repo), d.Source, strconv.Quote(d.Commit), d.Ref)
}

// ConflictError means that two deps of a chain contradict each other: they put
// different things at one path, or one path contains the other.
type ConflictError struct {
	// First and Second are in the order of the chain, the oldest ancestor's first.
	First, Second Dep
}

// Error names both templates and lines, and the dep of each.
func (e *ConflictError) Error() string { return e.travelling().Error() }

// Unwrap returns the *fserr.Error (EINVAL) that a caller elsewhere gets.
func (e *ConflictError) Unwrap() error { return e.travelling() }

func (e *ConflictError) travelling() *fserr.Error {
	a, b := e.First, e.Second
	if a.Path != b.Path {
		outer, inner := a, b
		if len(inner.Path) < len(outer.Path) {
			outer, inner = b, a
		}
		return &fserr.Error{
			Code: fserr.EINVAL,
			Detail: fmt.Sprintf("template conflict: path %s (%s) contains path %s (%s)",
				outer.Path, outer.From[0], inner.Path, inner.From[0]),
			Hint: "put them beside one another, or leave one out",
		}
	}
	return &fserr.Error{
		Code: fserr.EINVAL,
		Detail: fmt.Sprintf("template conflict: path %s is %s (%s) and %s (%s)",
			a.Path, a.describe(), a.From[0], b.describe(), b.From[0]),
		Hint: "name the same repository and ref in both, or use another path",
	}
}

// describe names a dep, with as much of the commit as a person reads.
func (d Dep) describe() string { return fmt.Sprintf("%s at %.12s (%s)", d.Repo, d.Commit, d.Ref) }

// contains reports whether outer is inner or a directory above it.
func contains(outer, inner string) bool {
	return outer == inner || outer == "/" || strings.HasPrefix(inner, outer+"/")
}

// merge adds a dep to those of a chain, or returns the conflict.
func merge(deps []Dep, d Dep) ([]Dep, error) {
	for i, have := range deps {
		switch {
		case have.Path == d.Path && have.Source == d.Source && have.Commit == d.Commit:
			deps[i].From = append(deps[i].From, d.From...)
			return deps, nil
		case contains(have.Path, d.Path) || contains(d.Path, have.Path):
			return nil, &ConflictError{First: have, Second: d}
		}
	}
	return append(deps, d), nil
}
