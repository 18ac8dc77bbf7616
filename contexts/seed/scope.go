package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/near"
)

// Scope says which part of the workspace is copied, and to where in the context. The zero Scope copies all repositories to the context's
// root.
type Scope struct {
	// From are the folders that are copied, as CleanFrom returns them; nil means all repositories. They keep their paths.
	From []string `json:"from,omitempty"`
	// Nothing says that nothing is copied.
	Nothing bool `json:"nothing,omitempty"`
	// Into is a top directory of the context, which gets the copy; "" means the context's root.
	Into string `json:"into,omitempty"`
	// Beside are further top directories of the context, which start empty.
	Beside []string `json:"beside,omitempty"`
}

// IsZero reports whether the scope is all repositories, at the context's root.
func (s Scope) IsZero() bool {
	return len(s.From) == 0 && !s.Nothing && s.Into == "" && len(s.Beside) == 0
}

// Key names the scope: two scopes with one key are the same.
func (s Scope) Key() string {
	key, err := json.Marshal(s)
	if err != nil {
		panic("seed: a scope does not encode: " + err.Error())
	}
	return string(key)
}

// Tops returns the top directories that the scope has in a context, sorted.
func (s Scope) Tops() []string {
	tops := slices.Clone(s.Beside)
	if s.Into != "" {
		tops = append(tops, s.Into)
	}
	slices.Sort(tops)
	return tops
}

// TopMode is the mode of the top directories of a scope.
const TopMode = 0o755

// place returns the entries that a context has of entries of the workspace.
func (s Scope) place(entries []Entry) []Entry {
	tops := s.Tops()
	if len(tops) == 0 {
		return entries
	}
	out := make([]Entry, 0, len(entries)+len(tops))
	for _, top := range tops {
		out = append(out, Entry{Path: top, Type: rootfs.TypeDirectory, Mode: TopMode})
	}
	for _, e := range entries {
		e.Path = path.Join(s.Into, e.Path)
		out = append(out, e)
	}
	sortEntries(out)
	return out
}

// CleanFrom returns the folders of a scope in their plain form: relative to the workspace, sorted, none within another. It fails with EINVAL
// for a path that cannot be in a workspace. nil stays nil: all repositories.
func CleanFrom(from []string) ([]string, error) {
	var all []string
	for _, f := range from {
		if f == "" || strings.ContainsRune(f, 0) || path.IsAbs(f) || slices.Contains(strings.Split(f, "/"), "..") {
			return nil, badFrom(f, "it is no path relative to the workspace", "name a repository or a folder, such as app or app/src")
		}
		clean := path.Clean(f)
		for part := range strings.SplitSeq(clean, "/") {
			if alwaysExcluded[part] {
				return nil, badFrom(f, part+" is never seeded", "")
			}
		}
		all = append(all, clean)
	}
	return units(all, ""), nil
}

func badFrom(from, why, hint string) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad seed_from '%.200s': %s", from, why), Hint: hint}
}

// CheckFrom fails with EINVAL if a folder of a scope is not in the workspace, cannot be seeded, or is reached through a link. The error
// lists what there is. A scope that was checked may still change.
func CheckFrom(ctx context.Context, src Source, opts Options) error {
	ignores := NewIgnores(src.Root, opts.Exclude)
	for _, f := range opts.Scope.From {
		if src.Avoid != "" && coveredBy([]string{src.Avoid}, f) {
			return badFrom(f, "it lies among the contexts", "name a repository or a folder of the workspace")
		}
		if err := checkFolder(ctx, src, f); err != nil {
			return err
		}
		reason := excludedAbove(ignores, f)
		if err := ignores.Err(); err != nil {
			return err
		}
		if reason != "" {
			return badFrom(f, reason+" leaves it out", "name another folder, or change "+reason)
		}
	}
	return nil
}

// checkFolder looks at each component of a folder's path, without following links.
func checkFolder(ctx context.Context, src Source, folder string) error {
	for i := range folder + "/" {
		if i < len(folder) && folder[i] != '/' {
			continue
		}
		at := folder[:i]
		st, err := src.Root.Lstat(at)
		switch {
		case errors.Is(err, fserr.ENOENT) || errors.Is(err, fserr.ENOTDIR) || errors.Is(err, fserr.ENAMETOOLONG):
			return badFrom(folder, "there is no such folder in the workspace", existing(ctx, src, folder, at))
		case err != nil:
			return badFrom(folder, fserr.CodeOf(err).Text(), "")
		case st.Type() == rootfs.TypeSymlink:
			return badFrom(folder, "'"+at+"' is a symbolic link", "name the folder that it leads to")
		case !st.IsDir():
			return badFrom(folder, "'"+at+"' is no folder", "name the folder that it is in")
		}
	}
	return nil
}

const (
	// maxListed bounds how many repositories a hint lists, and maxNear how many entries of a folder are compared with a missing name.
	maxListed, maxNear = 20, 10_000
)

// existing says what there is instead of a folder whose component at is missing: a near name, and the repositories.
func existing(ctx context.Context, src Source, folder, at string) string {
	var hints []string
	if nearest := nearTo(ctx, src, at); nearest != "" {
		hints = append(hints, "did you mean '"+nearest+strings.TrimPrefix(folder, at)+"'?")
	}
	repos, err := discover(ctx, src)
	more := ""
	if len(repos) > maxListed {
		more = fmt.Sprintf(" and %s more", Count(int64(len(repos)-maxListed)))
		repos = repos[:maxListed]
	}
	switch {
	case err != nil: // the hint does without
	case len(repos) == 0:
		hints = append(hints, "the workspace has no repositories")
	case repos[0] == ".":
		hints = append(hints, "the workspace is itself the only repository")
	default:
		hints = append(hints, "the workspace has the repositories "+strings.Join(repos, ", ")+more)
	}
	return strings.Join(hints, "; ")
}

// nearTo returns the folder beside a missing one whose name is nearest, "" if none is near.
func nearTo(ctx context.Context, src Source, missing string) string {
	parent, name := path.Dir(missing), path.Base(missing)
	best, least, seen := "", max(2, len(name)/3)+1, 0
	_ = src.Root.Walk(ctx, parent, tree.WalkOptions{MaxDepth: 1}, func(_ string, e rootfs.Entry, err error) error {
		if seen++; seen > maxNear {
			return fserr.ECANCELED
		}
		if err == nil && e.Type == rootfs.TypeDirectory && !alwaysExcluded[e.Name] {
			if d := near.Distance(strings.ToLower(name), strings.ToLower(e.Name)); d < least {
				best, least = path.Join(parent, e.Name), d
			}
		}
		return nil
	}) // a folder that cannot be listed has no near name
	return best
}

// repositoryOf returns the innermost repository that holds a folder, "" if none does.
func repositoryOf(root rootfs.Root, folder string) string {
	for dir := folder; ; dir = path.Dir(dir) {
		if isRepository(root, dir) {
			return dir
		}
		if dir == "." {
			return ""
		}
	}
}

// repositoriesOf returns the repositories that hold the folders of a scope, sorted. Those below the folders are not looked for.
func repositoriesOf(root rootfs.Root, from []string) []string {
	var repos []string
	for _, f := range from {
		if repo := repositoryOf(root, f); repo != "" {
			repos = append(repos, repo)
		}
	}
	sort.Strings(repos)
	return slices.Compact(repos)
}

// below returns the folders of the scope that lie in a repository, relative to it; nil means all of it.
func (s Scope) below(repo string) []string {
	var out []string
	for _, f := range s.From {
		switch {
		case coveredBy([]string{f}, repo):
			return nil
		case repo == ".":
			out = append(out, f)
		case strings.HasPrefix(f, repo+"/"):
			out = append(out, f[len(repo)+1:])
		}
	}
	return out
}

// Has reports whether a path of the workspace lies in the scope.
func (s Scope) Has(p string) bool {
	if len(s.From) == 0 {
		return !s.Nothing
	}
	return slices.ContainsFunc(s.From, func(from string) bool { return from == "." || p == from || strings.HasPrefix(p, from+"/") })
}
