package template

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// base is the configured base URL. The directory of a file URL is read as the
// workspace is: nothing that its repositories name is run.
type base struct {
	url *url.URL
	// src is the directory of a file URL, and else the zero Source.
	src seed.Source
}

// openBase checks the URL, and returns nil for "".
func openBase(raw string) (*base, error) {
	if raw == "" {
		return nil, nil //nolint:nilnil // no base is a base that has nothing
	}
	u, err := parseBase(raw)
	if err != nil {
		return nil, err
	}
	u.Path = strings.TrimRight(u.Path, "/")
	b := &base{url: u}
	if u.Scheme != "file" {
		return b, nil
	}
	if b.src.Dir, err = filepath.EvalSymlinks(fileOf(u)); err == nil {
		b.src.Root, err = rootfs.Open(b.src.Dir, rootfs.Options{FollowMounts: true})
	}
	if err != nil {
		return nil, badBase(fserr.CodeOf(err).Text(), err)
	}
	return b, nil
}

// CheckBaseURL checks the form of a base URL, and fails with EINVAL. "" is valid. It does not check where the URL leads.
func CheckBaseURL(raw string) error {
	if raw == "" {
		return nil
	}
	_, err := parseBase(raw)
	return err
}

func parseBase(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, badBase("it is no URL", nil) // the parser's error repeats the URL, with its password
	}
	if err := checkBase(u); err != nil {
		return nil, badBase(err.Error(), nil)
	}
	return u, nil
}

func badBase(why string, cause error) error {
	return &fserr.Error{
		Code: fserr.EINVAL, Detail: "bad git base URL: " + why, Err: cause,
		Hint: "write it as https://host/path, ssh://user@host/path or file:///path",
	}
}

func checkBase(u *url.URL) error {
	if err := checkScheme(u.Scheme); err != nil {
		return err
	}
	switch {
	case u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return errors.New("it has more than scheme, host and path")
	case u.Scheme == "file" && u.Host != "":
		return errors.New("a file URL has no host: file:///path")
	case u.Scheme == "file" && !path.IsAbs(u.Path):
		return errors.New("a file URL has an absolute path")
	case u.Scheme != "file" && (u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-")):
		return errors.New("it has no host")
	}
	return git.CheckUser(u)
}

// fileOf returns the path of a file URL; on Windows file:///C:/x is C:/x.
func fileOf(u *url.URL) string {
	p := u.Path
	if runtime.GOOS == "windows" {
		p = strings.TrimPrefix(p, "/")
	}
	return filepath.FromSlash(p)
}

func (b *base) close() error {
	if b == nil || b.src.Root == nil {
		return nil
	}
	return b.src.Root.Close()
}

// name identifies a repository below the base, without user and password.
func (b *base) name(rel string) string {
	u := *b.url
	u.User = nil
	return "git:" + strings.TrimRight(u.String(), "/") + "/" + rel
}

// below returns the path of a URL below the base. The user need not be repeated.
func (b *base) below(raw string) (string, bool) {
	u, err := url.Parse(raw)
	if err != nil || b == nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != b.url.Scheme || u.Host != b.url.Host {
		return "", false
	}
	if u.User != nil && (b.url.User == nil || u.User.String() != b.url.User.String()) {
		return "", false
	}
	return strings.CutPrefix(u.Path, b.url.Path+"/")
}

// repository is where a dep's files come from.
type repository struct {
	git.Repository
	// source identifies it; see Dep.Source.
	source string
}

// repository finds the repository that a template names.
func (r *Resolver) repository(name string) (repository, error) {
	if isURL(name) {
		rel, ok := r.base.below(name)
		if !ok {
			return repository{}, &fserr.Error{
				Code: fserr.EACCES, Detail: fmt.Sprintf("repository %q does not lie under the configured git base URL", name),
				Hint: "use a path in the workspace, or set the base URL that it lies under",
			}
		}
		return r.underBase(name, rel)
	}
	clean, err := cleanRepoPath(name)
	if err != nil {
		return repository{}, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad repository %q: %s", name, err)}
	}
	_, err = r.src.Root.Stat(clean)
	switch {
	case fserr.CodeOf(err) == fserr.ENOENT && r.base != nil:
		return r.underBase(name, clean)
	case fserr.CodeOf(err) == fserr.ENOENT:
		return repository{}, &fserr.Error{
			Code: fserr.ENOENT, Err: err, Detail: fmt.Sprintf("the workspace has no repository %q", name),
			Hint: "clone it there, or configure the git base URL under which it lies",
		}
	}
	return r.local(r.src, clean, name, "workspace:")
}

func (r *Resolver) underBase(name, rel string) (repository, error) {
	clean, err := cleanRepoPath(rel)
	if err == nil && !remotePath.MatchString(clean) {
		err = errors.New("under a base URL it has only A-Z a-z 0-9 . _ ~ + - and /")
	}
	if err != nil {
		return repository{}, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad repository %q: %s", name, err)}
	}
	if r.base.src.Root == nil {
		return repository{r.git.Remote(r.base.url.JoinPath(clean).String(), name), r.base.name(clean)}, nil
	}
	return r.local(r.base.src, clean, name, r.base.name(""))
}

func (r *Resolver) local(src seed.Source, p, name, kind string) (repository, error) {
	l, err := r.git.Open(src.GitFS(), p, name)
	if err != nil {
		return repository{}, err
	}
	return repository{l, kind + l.Path()}, nil
}
