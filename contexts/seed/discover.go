// Package seed decides what of a workspace is copied into a context: it finds
// the repositories, applies the excludes, guards against unexpected sizes, and
// records what was taken (Manifest). It copies nothing itself and changes nothing
// in the workspace, which it reads through a rootfs.Root and through package git.
package seed

import (
	"context"
	"errors"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// Repository is a git repository of the workspace.
type Repository struct {
	// Path is relative to the workspace, slash-separated; "." is the workspace itself.
	Path string `json:"path"`
	// Head is the commit, or "" before the first one and if git failed.
	Head string `json:"head,omitempty"`
	// Branch is "" if HEAD is detached and if git failed.
	Branch string `json:"branch,omitempty"`
	// Dirty says that files differ from Head, untracked ones included.
	Dirty bool `json:"dirty,omitempty"`
	// Source is where a template has it from: "workspace:" and a path, or "git:" and a URL. It is "" if the workspace was copied.
	Source string `json:"source,omitempty"`
}

// IsElsewhere reports whether the workspace has the repository at another path than the context, or not at all.
func (r Repository) IsElsewhere() bool {
	return r.Source != "" && r.Source != WorkspaceSource+r.Path
}

// WorkspaceSource begins the Source of a repository of the workspace.
const WorkspaceSource = "workspace:"

// Source is a workspace to read.
type Source struct {
	// Root is the workspace, opened to follow mounts.
	Root rootfs.Root
	// Dir is its server path, for git.
	Dir string
	// Avoid is the contexts directory, relative to Dir and slash-separated, "" when it lies elsewhere.
	Avoid string
	// Excluder reads what git excludes; nil remembers nothing.
	Excluder *git.Excluder
}

// discover lists the workspace's repositories, by path. A directory that holds
// ".git", be it a directory, a file or a link, is one, and is not searched further:
// repositories within are taken with it. Hidden directories, node_modules
// and links to directories are not entered.
func discover(ctx context.Context, src Source) ([]string, error) {
	if isRepository(src.Root, ".") {
		return []string{"."}, nil
	}
	var found []string
	err := src.Root.Walk(ctx, ".", tree.WalkOptions{}, func(rel string, e rootfs.Entry, err error) error {
		switch {
		case err != nil || e.Type != rootfs.TypeDirectory:
			return nil //nolint:nilerr // what cannot be read holds no repository that could be taken
		case strings.HasPrefix(e.Name, ".") || e.Name == "node_modules" || rel == src.Avoid:
			return tree.SkipDir
		case isRepository(src.Root, rel):
			found = append(found, rel)
			return tree.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fserr.Wrap(err, "discover", "/", "")
	}
	sort.Strings(found)
	return found, nil
}

func isRepository(root rootfs.Root, dir string) bool {
	st, err := root.Lstat(path.Join(dir, ".git"))
	return err == nil && (st.IsDir() || st.Type() == rootfs.TypeFile || st.Type() == rootfs.TypeSymlink)
}

// units returns what is walked: the repositories and Options.Root, without those that lie in another.
func units(repos []string, root string) []string {
	all := append([]string(nil), repos...)
	if root != "" {
		all = append(all, path.Clean(root))
	}
	if slices.Contains(all, ".") { // names such as "-x" are before it
		return []string{"."}
	}
	sort.Strings(all)
	var out []string
	for _, u := range all {
		if !coveredBy(out, u) {
			out = append(out, u)
		}
	}
	return out
}

func coveredBy(units []string, p string) bool {
	for _, u := range units {
		if u == "." || u == p || strings.HasPrefix(p, u+"/") {
			return true
		}
	}
	return false
}

// checkRoot refuses an Options.Root that is no folder of the workspace.
func checkRoot(src Source, root string) error {
	if root == "" {
		return nil
	}
	bad := func(why string, err error) error {
		return &fserr.Error{
			Code: fserr.EINVAL, Detail: "bad --seed-root '" + root + "': " + why, Err: err,
			Hint: "name a folder relative to the workspace, such as .",
		}
	}
	if path.IsAbs(root) || root == ".." || strings.HasPrefix(path.Clean(root), "../") {
		return bad("it must lie in the workspace", nil)
	}
	st, err := src.Root.Lstat(path.Clean(root))
	switch {
	case errors.Is(err, fserr.ENOENT):
		return bad("there is no such folder", err)
	case err != nil:
		return bad(fserr.CodeOf(err).Text(), err)
	case !st.IsDir():
		return bad("it is no folder", nil)
	}
	return nil
}
