package template

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Resolved is what a template and its ancestors come to: which commit stands at
// which path. Only Resolver makes one.
type Resolved struct {
	// Chain are the templates' paths, relative to the workspace: the one that was asked for
	// first, its oldest ancestor last.
	Chain []string
	// Deps are by path.
	Deps []Dep
	// Hash is the SHA-256 of Canonical, in hex.
	Hash string

	repos map[string]repository
}

// Dep is one repository at a commit.
type Dep struct {
	// Path is absolute in the context, and clean.
	Path string `json:"path"`
	// Repo is as the template has it. Ref too, "HEAD" when it has none.
	Repo string `json:"repo"`
	Ref  string `json:"ref"`
	// Source identifies the repository: "workspace:packages/tools" or
	// "git:https://host/packages/tools". It has no user and no password.
	Source string `json:"source"`
	// Commit is the full ID, in hex.
	Commit string `json:"commit"`
	// From are the places that say so, the oldest ancestor's first.
	From []Position `json:"from"`
}

// canonicalFormat is the first line of Canonical.
const canonicalFormat = "ctxfs-template 1"

// Canonical returns the form that is hashed, version 1:
//
//	ctxfs-template 1 LF
//	path NUL source NUL commit LF        for each dep, by the bytes of its path
//
// No field can hold NUL or LF. Where a dep was said, by which ref it was named and
// how often does not count: what would be built the same has the same hash.
func (r *Resolved) Canonical() []byte {
	var b strings.Builder
	b.WriteString(canonicalFormat + "\n")
	for _, d := range r.Deps {
		b.WriteString(d.Path + "\x00" + d.Source + "\x00" + d.Commit + "\n")
	}
	return []byte(b.String())
}

// seal orders the deps and gives the hash.
func (r *Resolved) seal() *Resolved {
	slices.SortFunc(r.Deps, func(a, b Dep) int { return cmp.Compare(a.Path, b.Path) })
	sum := sha256.Sum256(r.Canonical())
	r.Hash = hex.EncodeToString(sum[:])
	return r
}

// Explain returns the merged result as a template that extends nothing, with the
// commits for refs, and where each path came from as comments. It reads back
// (Parse) to the same paths, repositories and commits.
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
