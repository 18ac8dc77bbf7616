package template

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/git"
)

// private are names that belong to the service, in a context or beside it.
var private = []string{".ctxfs", ".contexts", readyName}

// checkName refuses one component of a path that must not be made in a context,
// or that some system takes for such a one.
func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return errors.New("it is no name")
	case len(name) > rootfs.MaxName:
		return fmt.Errorf("a name has at most %d bytes", rootfs.MaxName)
	case git.IsDotGit(name):
		return errors.New("git keeps its own data under this name")
	case rootfs.Reserved(git.FoldName(name)):
		return errors.New("ctxfs keeps its own data under this name")
	}
	return nil
}

// cleanDepPath returns the path of a dep, absolute and clean. ".." is refused even
// where it would stay inside: what it means must not hang on links.
func cleanDepPath(p string) (string, error) {
	if err := checkText(p); err != nil {
		return "", err
	}
	clean := path.Clean("/" + p)
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." {
			return "", errors.New("it must not have '..'")
		}
	}
	if clean == "/" {
		return clean, nil
	}
	for name := range strings.SplitSeq(clean[1:], "/") {
		if err := checkDepName(name); err != nil {
			return "", fmt.Errorf("%q: %w", name, err)
		}
	}
	return clean, nil
}

func checkDepName(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	for _, p := range private {
		if git.FoldName(name) == p {
			return errors.New("ctxfs keeps its own data under this name")
		}
	}
	return nil
}

// checkText refuses what cannot be shown on a line, and what is too long for a path.
func checkText(s string) error {
	switch {
	case s == "":
		return errors.New("it is empty")
	case len(s) >= rootfs.MaxPath/2:
		return fmt.Errorf("it has more than %d bytes", rootfs.MaxPath/2)
	case !utf8.ValidString(s):
		return errors.New("it is not UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("it has control characters")
	}
	return nil
}

// checkRepo refuses what is neither a path nor a URL. Whether it may be used is decided later.
func checkRepo(repo string) error {
	if err := checkText(repo); err != nil {
		return err
	}
	if isURL(repo) {
		u, err := url.Parse(repo)
		if err != nil {
			return errors.New("it is no URL")
		}
		return checkScheme(u.Scheme)
	}
	if strings.HasPrefix(repo, "-") {
		return errors.New("it must not begin with '-'")
	}
	_, err := cleanRepoPath(repo)
	return err
}

func isURL(repo string) bool { return strings.Contains(repo, "://") }

func checkScheme(scheme string) error {
	switch scheme {
	case "file", "http", "https", "ssh":
		return nil
	}
	return fmt.Errorf("scheme %q is not one of file, http, https, ssh", scheme)
}

// cleanRepoPath returns a repository's path, relative and clean; "." is the root.
func cleanRepoPath(repo string) (string, error) {
	if strings.Contains(repo, "::") {
		return "", errors.New("it names a transport") // git's "ext::sh -c ..."
	}
	for name := range strings.SplitSeq(repo, "/") {
		switch folded := git.FoldName(name); {
		case name == "..":
			return "", errors.New("it must not have '..'")
		case git.IsDotGit(name) || rootfs.Reserved(folded) || folded == private[0] || folded == private[1]:
			return "", fmt.Errorf("%q is private", name)
		}
	}
	return path.Clean(strings.TrimLeft(repo, "/") + "/."), nil
}

// remotePath is what may stand below a base URL: nothing that would need an escape,
// or that a shell at the other end of ssh could read otherwise.
var remotePath = regexp.MustCompile(`^[A-Za-z0-9._~+][A-Za-z0-9._~+-]*(/[A-Za-z0-9._~+][A-Za-z0-9._~+-]*)*$`)
