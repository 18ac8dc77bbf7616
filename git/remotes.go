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
	"unicode"
)

// Address says where a remote repository is. It may hold a password, which String leaves out.
type Address struct {
	site site
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
	a := Address{site: site{url: raw}}
	switch {
	case raw == "" || strings.HasPrefix(raw, "-") || strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return Address{}, errors.New("it is no address")
	case strings.Contains(raw, "://"):
		u, err := url.Parse(raw)
		if err != nil {
			return Address{}, errors.New("it is no address") // the error has all of it, a password too
		}
		if err := CheckUser(u); err != nil {
			return Address{}, err
		}
		a.scheme, a.host, a.path = strings.ToLower(u.Scheme), strings.ToLower(u.Host), u.EscapedPath()
		a.password, _ = u.User.Password()
		a.site = siteOf(u.String()) // the characters that git might understand otherwise are escaped in it
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

// CheckUser refuses a URL whose user and password cannot be passed on.
func CheckUser(u *url.URL) error {
	password, has := u.User.Password()
	user := u.User.Username()
	switch {
	case strings.HasPrefix(user, "-"):
		return errors.New("its user begins with '-'")
	case strings.ContainsFunc(user+password, unicode.IsControl):
		return errors.New("its user or password has control characters")
	case u.User != nil && u.Scheme == "file":
		return errors.New("it has a user, and is a directory")
	case has && u.Scheme == "ssh":
		return errors.New("it has a password, and ssh takes none from an address; use a key")
	}
	return nil
}

// target is the name under which git knows the address of a remote repository.
const target = "ctxfs"

// site is where a remote repository is, as git is told. Git repeats a URL on the command lines of its own programs, which every user of the machine
// can read. So user and password are not in it: a credential helper of ours passes them on. All of it is in the environment, which only this
// user's processes can read.
type site struct {
	// url has no user, unless it is of ssh, whose user is no secret.
	url string
	// user has the user and perhaps a password of an http or https URL. A user alone may be a token.
	user *url.Userinfo
}

// siteOf takes user and password out of an http or https URL.
func siteOf(raw string) site {
	u, err := url.Parse(raw)
	if err != nil || u.User == nil || (u.Scheme != "http" && u.Scheme != "https") {
		return site{url: raw}
	}
	user := u.User
	u.User = nil
	return site{u.String(), user}
}

// The variables of the environment that helper reads, and the helper: a function of the shell, so that no command line has what it prints.
const (
	userVariable     = "CTXFS_GIT_USER"
	passwordVariable = "CTXFS_GIT_PASSWORD"
	helper           = `!f() { test "$1" != get || printf 'username=%s\npassword=%s\n' "$` + userVariable + `" "$` + passwordVariable + `"; }; f`
)

// env returns the variables that make git know the repository as target.
func (s site) env() (env []string) {
	settings := [][2]string{{"remote." + target + ".url", s.url}}
	if s.user != nil {
		// The operator's rewriting of addresses, which would not apply to one with a user, must not send the push elsewhere.
		settings = append(settings, [2]string{"url." + s.url + ".insteadOf", s.url}, [2]string{"url." + s.url + ".pushInsteadOf", s.url})
		scope := "credential." + s.origin()
		password, has := s.user.Password()
		if has { // the operator's helpers are neither asked nor told
			settings = append(settings, [2]string{scope + ".helper", ""}, [2]string{scope + ".helper", helper})
			env = append(env, userVariable+"="+s.user.Username(), passwordVariable+"="+password)
		} else if user := s.user.Username(); user != "" {
			settings = append(settings, [2]string{scope + ".username", user})
		}
	}
	for i, kv := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
}

// origin returns scheme, host and port of the URL.
func (s site) origin() string {
	scheme, rest, _ := strings.Cut(s.url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
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
