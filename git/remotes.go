package git

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Address says where a remote repository is. It may hold a password, which String leaves out.
type Address struct {
	url string
	// scheme is http, https, ssh or file; host has the port; path is absolute, and begins with "/~/" for a path of a home directory.
	scheme, host, path string
	password           string
}

// String returns the address without user and password.
func (a Address) String() string {
	if a.scheme == "" {
		return ""
	}
	return a.scheme + "://" + a.host + a.path
}

// HasPassword reports whether the address holds a password.
func (a Address) HasPassword() bool { return a.password != "" }

// IsLocal reports whether the repository is on this machine. A push to it runs its hooks as this process's user.
func (a Address) IsLocal() bool { return a.scheme == "file" }

// IsWithin reports whether the address is at a prefix or below it. Users do not count.
func (a Address) IsWithin(prefix Address) bool {
	if a.scheme != prefix.scheme || a.host != prefix.host {
		return false
	}
	dir := strings.TrimSuffix(prefix.path, "/")
	return a.path == dir || strings.HasPrefix(a.path, dir+"/")
}

// scpForm is "user@host:path", which means ssh. A slash before the colon, or a second colon after it, means something else.
var scpForm = regexp.MustCompile(`^(?:([A-Za-z0-9._-]+)@)?([A-Za-z0-9_][A-Za-z0-9._-]*):([^:].*)$`)

// ParseAddress reads the address of a remote as git does: http, https, ssh, file, "user@host:path" and absolute paths. It refuses all that
// git would hand to another program ("ext::"), and paths with "..", so that IsWithin can be trusted.
func ParseAddress(raw string) (Address, error) {
	a := Address{url: raw}
	switch {
	case raw == "" || strings.HasPrefix(raw, "-") || strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return Address{}, errors.New("it is no address")
	case strings.Contains(raw, "://"):
		u, err := url.Parse(raw)
		if err != nil {
			return Address{}, errors.New("it is no address") // the error has all of it, a password too
		}
		a.scheme, a.host, a.path = strings.ToLower(u.Scheme), strings.ToLower(u.Host), u.EscapedPath()
		a.password, _ = u.User.Password()
		a.url = u.String() // the characters that git might understand otherwise are escaped in it
		if u.RawQuery != "" || u.Fragment != "" {
			return Address{}, errors.New("it has a query or a fragment")
		}
	case filepath.IsAbs(raw):
		a.scheme, a.path = "file", filepath.ToSlash(raw)
	default:
		m := scpForm.FindStringSubmatch(raw)
		if m == nil {
			return Address{}, errors.New("it is neither http, https or ssh, nor an absolute path")
		}
		a.scheme, a.host, a.path = "ssh", strings.ToLower(m[2]), m[3]
		if !strings.HasPrefix(a.path, "/") {
			a.path = "/~/" + a.path
		}
	}
	return a, a.check()
}

func (a *Address) check() error {
	if !slices.Contains([]string{"http", "https", "ssh", "file"}, a.scheme) {
		return fmt.Errorf("it is of scheme %.20q, which is not supported", a.scheme)
	}
	if (a.host == "") != a.IsLocal() || strings.HasPrefix(a.host, "-") {
		return errors.New("its host is missing or bad")
	}
	lower := strings.ToLower(a.path)
	if slices.Contains(strings.Split(lower, "/"), "..") || strings.Contains(lower, "%2e") || strings.Contains(lower, "%2f") {
		return errors.New("its path has '..', or an escaped dot or slash")
	}
	a.path = path.Clean("/" + a.path)
	return nil
}

// NamedRemote is a remote of a repository.
type NamedRemote struct {
	Name string
	// Fetch and Push are its addresses. A zero one cannot be used, and FetchErr or PushErr says why.
	Fetch, Push       Address
	FetchErr, PushErr error
}

// Remotes returns the remotes that the repository's own configuration has, by name. Files that it includes, and rewritten addresses
// (insteadOf), do not count. Nothing is asked.
func (l *Local) Remotes(ctx context.Context) (remotes []NamedRemote, err error) {
	s, err := newScratch(l.reader.opts.Scratch, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	out, err := s.local("").run(ctx, l.reader.opts.Timeout, "config", "--file", filepath.Join(l.commonDir(), "config"), "--no-includes", "-z", "--list")
	if err != nil {
		return nil, l.broken(err)
	}
	urls := map[string][]string{}
	for line := range strings.SplitSeq(string(out), "\x00") {
		key, value, _ := strings.Cut(line, "\n")
		urls[key] = append(urls[key], value)
	}
	for key := range urls {
		name, isURL := strings.CutSuffix(key, ".url")
		if name, ok := strings.CutPrefix(name, "remote."); ok && isURL && CheckRef(name) == nil {
			remotes = append(remotes, remoteOf(name, urls[key], urls["remote."+name+".pushurl"]))
		}
	}
	slices.SortFunc(remotes, func(a, b NamedRemote) int { return strings.Compare(a.Name, b.Name) })
	return remotes, nil
}

// remoteOf parses the addresses of a remote. Without addresses of its own a push goes where a fetch comes from.
func remoteOf(name string, fetch, push []string) NamedRemote {
	r := NamedRemote{Name: name}
	if len(push) == 0 {
		push = fetch
	}
	r.Fetch, r.FetchErr = ParseAddress(fetch[0])
	if r.Push, r.PushErr = ParseAddress(push[0]); len(push) > 1 {
		r.Push, r.PushErr = Address{}, errors.New("it has several addresses to push to")
	}
	if r.FetchErr != nil {
		r.Fetch = Address{}
	}
	if r.PushErr != nil {
		r.Push = Address{}
	}
	return r
}
