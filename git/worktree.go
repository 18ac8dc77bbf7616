package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Bounds of one git command in a working tree.
const (
	listTimeout   = 60 * time.Second
	statusTimeout = 10 * time.Second
)

// worktree runs git in a working tree, with its configuration, but starts nothing that
// this names, contacts no remote and writes nothing. Filters are the exception: see withoutFilters.
func worktree(dir string, env ...string) runner {
	return runner{dir, noPrograms, environ(nil, append(env, "GIT_ALLOW_PROTOCOL=")...)}
}

// literalPaths keeps git from reading "*" and ":(" in a path as patterns.
const literalPaths = "GIT_LITERAL_PATHSPECS=1"

// ListFiles returns the files that git tracks in the working tree dir, slash-separated and
// relative to it. With untracked, it adds those that git does not ignore. below limits both to what is at or below these paths.
func ListFiles(ctx context.Context, dir string, untracked bool, below ...string) ([]string, error) {
	r := worktree(dir, literalPaths)
	// Listing runs no filter and no hook, so another owner's repository is safe to list.
	r.config = append([]string{"safe.directory=" + dir}, r.config...)
	args := []string{"ls-files", "-z"}
	if untracked {
		args = append(args, "-co", "--exclude-standard")
	}
	out, err := r.run(ctx, listTimeout, append(append(args, "--"), below...)...)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// IsLocked reports whether a git command is changing the index of the working tree dir, as a checkout does until it ends. A command that was killed
// leaves the lock.
func IsLocked(ctx context.Context, dir string) (bool, error) {
	r := worktree(dir)
	r.config = append([]string{"safe.directory=" + dir}, r.config...)
	out, err := r.run(ctx, statusTimeout, "rev-parse", "--git-path", "index.lock")
	if err != nil {
		return false, err
	}
	name := strings.TrimSuffix(string(out), "\n")
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	_, err = os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// State is what Status reports.
type State struct {
	// Head is the commit, or "" before the first one.
	Head string
	// Branch is "" if HEAD is detached.
	Branch string
	// Dirty reports that files differ from Head, untracked ones included.
	Dirty bool
}

// Status reports the commit, branch and state of the working tree dir. It fails if the
// repository is broken or another user's. below limits Dirty to files at or below these paths.
func Status(ctx context.Context, dir string, below ...string) (State, error) {
	env, err := withoutFilters(ctx, dir)
	if err != nil {
		return State{}, err
	}
	args := append([]string{"status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules=all", "--"}, below...)
	out, err := worktree(dir, append(env, literalPaths)...).run(ctx, statusTimeout, args...)
	if err != nil {
		return State{}, err
	}
	var s State
	for line := range strings.SplitSeq(string(out), "\x00") {
		if oid, ok := strings.CutPrefix(line, "# branch.oid "); ok {
			s.Head = unlessParenthesised(oid)
		} else if head, ok := strings.CutPrefix(line, "# branch.head "); ok {
			s.Branch = unlessParenthesised(head)
		} else if line != "" && !strings.HasPrefix(line, "#") {
			s.Dirty = true
		}
	}
	return s, nil
}

// unlessParenthesised drops "(initial)" and "(detached)".
func unlessParenthesised(s string) string {
	if strings.HasPrefix(s, "(") {
		return ""
	}
	return s
}

// withoutFilters returns the environment in which git runs none of the programs that the
// configuration names as filters (gitattributes(5)). Without it, status would run them to
// compare a file whose times have changed. With it, such a file counts as changed if its
// filter would change it.
func withoutFilters(ctx context.Context, dir string) ([]string, error) {
	out, err := worktree(dir).run(ctx, statusTimeout, "config", "-z", "--name-only", "--get-regexp", `^filter\..*\.(clean|process|required)$`)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil, nil // there are none
	}
	if err != nil {
		return nil, err
	}
	var env []string
	n := 0
	for key := range strings.SplitSeq(string(out), "\x00") {
		if key == "" {
			continue
		}
		value := ""
		if strings.HasSuffix(key, ".required") {
			value = "false"
		}
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n)), nil
}
