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
	"github.com/ctxfs/ctxfs/fserr"
)

// base is the configured base URL. A file URL is a directory that is read as the
// workspace is: no program runs in it, its repositories' configuration included.
type base struct {
	url *url.URL
	// root and dir are those of a file URL.
	root rootfs.Root
	dir  string
}

// openBase checks the URL; "" gives nil.
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
	if b.dir, err = filepath.EvalSymlinks(fileOf(u)); err == nil {
		b.root, err = rootfs.Open(b.dir, rootfs.Options{FollowMounts: true})
	}
	if err != nil {
		return nil, badBase(fserr.CodeOf(err).Text(), err)
	}
	return b, nil
}

// CheckBaseURL says whether a base URL has a form that can be used (EINVAL when not); "" has. Whether it leads anywhere is not asked.
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
	case u.User != nil && strings.HasPrefix(u.User.Username(), "-"):
		return errors.New("its user begins with '-'")
	}
	return nil
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
	if b == nil || b.root == nil {
		return nil
	}
	return b.root.Close()
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

// repository finds the repository that a template names.
func (r *Resolver) repository(name string) (repository, error) {
	if isURL(name) {
		rel, ok := r.base.below(name)
		if !ok {
			return nil, &fserr.Error{
				Code: fserr.EACCES, Detail: fmt.Sprintf("repository %q does not lie under the configured git base URL", name),
				Hint: "use a path in the workspace, or set the base URL that it lies under",
			}
		}
		return r.underBase(name, rel)
	}
	clean, err := cleanRepoPath(name)
	if err != nil {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad repository %q: %s", name, err)}
	}
	_, err = r.src.Root.Stat(clean)
	switch {
	case fserr.CodeOf(err) == fserr.ENOENT && r.base != nil:
		return r.underBase(name, clean)
	case fserr.CodeOf(err) == fserr.ENOENT:
		return nil, &fserr.Error{
			Code: fserr.ENOENT, Err: err, Detail: fmt.Sprintf("the workspace has no repository %q", name),
			Hint: "clone it there, or configure the git base URL under which it lies",
		}
	}
	return openLocal(localRepo{shown: name, kind: "workspace:", root: r.src.Root, dir: r.src.Dir, avoid: r.src.Avoid, opts: r.opts, peeled: r.peeled}, clean)
}

func (r *Resolver) underBase(name, rel string) (repository, error) {
	clean, err := cleanRepoPath(rel)
	if err == nil && !remotePath.MatchString(clean) {
		err = errors.New("under a base URL it has only A-Z a-z 0-9 . _ ~ + - and /")
	}
	if err != nil {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad repository %q: %s", name, err)}
	}
	if r.base.root == nil {
		return &remoteRepo{shown: name, name: r.base.name(clean), url: r.base.url.JoinPath(clean).String(), opts: r.opts}, nil
	}
	return openLocal(localRepo{shown: name, kind: r.base.name(""), root: r.base.root, dir: r.base.dir, opts: r.opts, peeled: r.peeled}, clean)
}
