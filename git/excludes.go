package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/ctxfs/ctxfs/fserr"
)

// Excludes are what git ignores files of a working tree by, beside its .gitignore files.
type Excludes struct {
	// Texts are those of core.excludesFile and of info/exclude. The later one overrides the earlier one.
	Texts [][]byte
	// IgnoreCase is core.ignoreCase.
	IgnoreCase bool
}

// Excluder reads Excludes. It remembers the configuration of repositories until one of the files that it came from is another one. It is safe for
// concurrent use.
type Excluder struct {
	mu    sync.Mutex
	known map[string]configured
}

// configured is what the configuration of a repository says of excludes.
type configured struct {
	stamp             string
	file              string
	isSet, ignoreCase bool
}

// maxConfigured bounds the repositories that an Excluder remembers.
const maxConfigured = 10_000

// Read reads the excludes of the working tree dir as a git does that the server's user runs there. So core.excludesFile is that of
// the repository or, if it has none, that of the server's user or of the system. Git disregards the configuration of a repository that
// belongs to another user, unless the server's user has named it in safe.directory. No program is run that a configuration names. A
// file of more than maxBytes fails with EFBIG, and one that cannot be read with EACCES: what it excludes is not known then. A change of the system's
// configuration counts from the next Excluder on. A nil Excluder remembers nothing.
func (x *Excluder) Read(ctx context.Context, dir string, maxBytes int64) (out Excludes, err error) {
	info, err := infoExclude(ctx, dir)
	if err != nil || info == "" {
		return out, err
	}
	c, err := x.configuration(ctx, dir)
	if err != nil {
		return out, err
	}
	out.IgnoreCase = c.ignoreCase
	file, isSet := c.file, c.isSet
	if !isSet {
		file = defaultExcludes()
	}
	for _, name := range []string{file, info} {
		text, err := readRegular(name, maxBytes)
		if errors.Is(err, fs.ErrPermission) && name == file && !isSet {
			continue // the home of another user
		}
		if err != nil {
			return out, err
		}
		out.Texts = append(out.Texts, text)
	}
	return out, nil
}

// infoExclude returns the name of info/exclude. It is "" if git cannot find the repository, in which git ignores nothing then.
func infoExclude(ctx context.Context, dir string) (string, error) {
	dot := filepath.Join(dir, ".git")
	if st, err := os.Stat(dot); err == nil && st.IsDir() {
		return filepath.Join(dot, "info", "exclude"), nil
	}
	r := worktree(dir)
	r.config = append([]string{"safe.directory=" + dir}, r.config...)
	out, err := r.run(ctx, statusTimeout, "rev-parse", "--git-path", "info/exclude")
	if o := Obstacle(err); o != nil {
		return "", o
	}
	if err != nil {
		return "", ctx.Err()
	}
	name := strings.TrimSuffix(string(out), "\n")
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return name, nil
}

// configuration returns the configuration of a repository, which it may remember.
func (x *Excluder) configuration(ctx context.Context, dir string) (configured, error) {
	stamp := ""
	if x != nil {
		stamp = stampOf(dir)
		x.mu.Lock()
		c, ok := x.known[dir]
		x.mu.Unlock()
		if ok && stamp != "" && c.stamp == stamp {
			return c, nil
		}
	}
	c, err := configurationOf(ctx, dir)
	if err != nil || stamp == "" {
		return c, err
	}
	c.stamp = stamp
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.known) >= maxConfigured || x.known == nil {
		x.known = map[string]configured{}
	}
	x.known[dir] = c
	return c, nil
}

// stampOf tells the present configuration files of a repository and of the server's user from other ones. It is "" if there may be further files: one of
// these includes some, or the repository has its .git elsewhere.
func stampOf(dir string) string {
	dot := filepath.Join(dir, ".git")
	if st, err := os.Lstat(dot); err != nil || !st.IsDir() {
		return ""
	}
	names := []string{filepath.Join(dot, "config"), filepath.Join(dot, "config.worktree"), filepath.Join(filepath.Dir(defaultExcludes()), "config")}
	if home, err := os.UserHomeDir(); err == nil {
		names = append(names, filepath.Join(home, ".gitconfig"))
	}
	stamp := dir
	for _, name := range names {
		st, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		text, err := readRegular(name, maxConfig)
		if err != nil || bytes.Contains(bytes.ToLower(text), []byte("include")) {
			return ""
		}
		stamp += fmt.Sprintf("\x00%s %d %x", name, st.ModTime().UnixNano(), sha256.Sum256(text))
	}
	return stamp
}

// maxConfig bounds a configuration file whose settings are remembered, in bytes.
const maxConfig = 1 << 20

// configurationOf asks git.
func configurationOf(ctx context.Context, dir string) (c configured, err error) {
	out, err := worktree(dir).run(ctx, statusTimeout, "config", "-z", "--get-regexp", `^core\.(excludesfile|ignorecase)$`)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 1, fserr.CodeOf(err) == fserr.EOPNOTSUPP: // nothing is set, or the server has no git
		return c, nil
	case err != nil:
		return c, notConfigured(ctx, err)
	}
	for setting := range strings.SplitSeq(string(out), "\x00") {
		switch key, value, hasValue := strings.Cut(setting, "\n"); key {
		case "core.excludesfile":
			c.file, c.isSet = value, true
		case "core.ignorecase":
			c.ignoreCase = !hasValue || isTrue(value)
		}
	}
	if strings.HasPrefix(c.file, "~") || strings.HasPrefix(c.file, "%(") {
		out, err := worktree(dir).run(ctx, statusTimeout, "config", "-z", "--type=path", "--get", "core.excludesFile")
		if err != nil {
			return c, notConfigured(ctx, err)
		}
		c.file = strings.TrimSuffix(string(out), "\x00")
	}
	if c.file != "" && !filepath.IsAbs(c.file) {
		c.file = filepath.Join(dir, c.file)
	}
	return c, nil
}

// notConfigured reports that git could not read its configuration.
func notConfigured(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if o := Obstacle(err); o != nil {
		return o
	}
	return &fserr.Error{
		Code: fserr.EIO, Err: err, Detail: "git cannot read the configuration of the repository or of the server's user",
		Hint: "'git config --list' in the repository says what is wrong",
	}
}

// isTrue reads a value as git-config(1) describes.
func isTrue(value string) bool {
	n, err := strconv.Atoi(value)
	return err == nil && n != 0 || strings.EqualFold(value, "true") || strings.EqualFold(value, "yes") || strings.EqualFold(value, "on")
}

// defaultExcludes is where core.excludesFile lies if it is not set (gitignore(5)); "" without a home.
func defaultExcludes() string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "git", "ignore")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".config", "git", "ignore")
	}
	return ""
}

// readRegular reads a file. What does not exist or is no regular file, such as /dev/null, is empty.
func readRegular(name string, maxBytes int64) (text []byte, err error) {
	st, err := os.Stat(name)
	if err == nil && st.Mode().IsRegular() {
		var f *os.File
		if f, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			text, err = io.ReadAll(io.LimitReader(f, maxBytes+1))
			err = errors.Join(err, f.Close())
		}
	}
	switch code := fserr.CodeOf(err); {
	case code == fserr.ENOENT, code == fserr.ENOTDIR:
		return nil, nil
	case err != nil:
		return nil, unreadable(code, "cannot be read", name, err)
	case int64(len(text)) > maxBytes:
		return nil, unreadable(fserr.EFBIG, fmt.Sprintf("has more than %d bytes", maxBytes), name, nil)
	}
	return text, nil
}

func unreadable(code fserr.Code, why, name string, err error) error {
	return &fserr.Error{
		Code: code, Err: err, Detail: fmt.Sprintf("git's file of excludes, %q, %s", filepath.Base(name), why),
		Hint: "repair it, or change core.excludesFile",
	}
}
