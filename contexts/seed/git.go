package seed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/fserr"
)

// Bounds of one git command.
const (
	gitListTimeout   = 60 * time.Second
	gitStatusTimeout = 10 * time.Second
)

// git runs git in a repository with everything off that the repository could use
// to run a program or that would write to it, but for its filters: see withoutFilters.
func git(ctx context.Context, dir string, timeout time.Duration, args ...string) ([]byte, error) {
	return gitWith(ctx, dir, timeout, nil, args...)
}

// gitWith is git with further variables in its environment.
func gitWith(ctx context.Context, dir string, timeout time.Duration, env []string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	fixed := []string{"-C", dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull, "--no-optional-locks"}
	cmd := exec.CommandContext(ctx, "git", append(fixed, args...)...)
	cmd.Env = append(gitEnv(os.Environ()), env...)
	cmd.WaitDelay = time.Second
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[len(args)-1], errors.Join(err, ctx.Err()), firstLine(stderr.String()))
	}
	return out.Bytes(), nil
}

// gitEnv drops what would point git at another repository, such as a hook's environment.
func gitEnv(env []string) []string {
	out := make([]string, 0, len(env)+4)
	for _, kv := range env {
		if !strings.HasPrefix(kv, "GIT_") {
			out = append(out, kv)
		}
	}
	return append(out, "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// selected is the set of paths, relative to the workspace, that git lists in one
// repository, with their parents.
type selected map[string]bool

// list asks git which files of a repository are selected.
func list(ctx context.Context, src Source, repo string, sel Selection) (selected, error) {
	dir := filepath.Join(src.Dir, filepath.FromSlash(repo))
	// Listing runs no filter and no hook, so another owner's repository is safe to list.
	args := []string{"-c", "safe.directory=" + dir, "ls-files", "-z"}
	if sel == SelectUnignored {
		args = append(args, "-co", "--exclude-standard")
	}
	out, err := git(ctx, dir, gitListTimeout, args...)
	if err != nil {
		return nil, &fserr.Error{
			Code: fserr.EIO, Detail: fmt.Sprintf("git could not list the files of repository '%s'", repo), Err: err,
			Hint: "install git and check the repository, or use --seed-select=all",
		}
	}
	set := selected{}
	for _, name := range strings.Split(string(out), "\x00") {
		if name != "" {
			set.add(repo, path.Join(repo, name))
		}
	}
	return set, nil
}

// add adds p and its parents below repo.
func (s selected) add(repo, p string) {
	for ; p != repo && p != "." && !s[p]; p = path.Dir(p) {
		s[p] = true
	}
}

// Describe asks git for each repository's commit, branch and state. What git
// cannot tell (it is missing, the repository is broken or another user's) stays empty.
func Describe(ctx context.Context, src Source, repos []string) []Repository {
	out := make([]Repository, len(repos))
	var g errgroup.Group
	g.SetLimit(4)
	for i, repo := range repos {
		g.Go(func() error {
			out[i] = describe(ctx, src, repo)
			return nil
		})
	}
	_ = g.Wait() // no function fails
	return out
}

func describe(ctx context.Context, src Source, repo string) Repository {
	r := Repository{Path: repo}
	dir := filepath.Join(src.Dir, filepath.FromSlash(repo))
	env, err := withoutFilters(ctx, dir)
	if err != nil {
		return r
	}
	out, err := gitWith(ctx, dir, gitStatusTimeout, env, "status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules=all")
	if err != nil {
		return r
	}
	for _, line := range strings.Split(string(out), "\x00") {
		switch {
		case strings.HasPrefix(line, "# branch.oid "):
			r.Head = unlessParenthesised(strings.TrimPrefix(line, "# branch.oid "))
		case strings.HasPrefix(line, "# branch.head "):
			r.Branch = unlessParenthesised(strings.TrimPrefix(line, "# branch.head "))
		case line != "" && !strings.HasPrefix(line, "#"):
			r.Dirty = true
		}
	}
	return r
}

// unlessParenthesised drops "(initial)" and "(detached)".
func unlessParenthesised(s string) string {
	if strings.HasPrefix(s, "(") {
		return ""
	}
	return s
}
