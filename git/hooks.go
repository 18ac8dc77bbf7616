package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Hooked is what the hooks before a commit made of it.
type Hooked struct {
	// Text is the message of the commit, with its trailers.
	Text []byte
	// Ran are the names of the hooks that ran, in their order.
	Ran []string
}

// HookError says that a hook failed, or changed the content of the commit.
type HookError struct {
	// Hook is its name.
	Hook string
	// Output is the end of what it printed, at most 2 KiB; "" if it changed the index.
	Output string
	// Err is why it failed, nil if it changed the index.
	Err error
}

// Error returns the failure in words.
func (e *HookError) Error() string {
	if e.Err == nil {
		return "hook " + e.Hook + " changed the content of the commit"
	}
	return fmt.Sprintf("hook %s failed (%v): %s", e.Hook, e.Err, e.Output)
}

// Unwrap returns Err.
func (e *HookError) Unwrap() error { return e.Err }

// RunHooks runs pre-commit, prepare-commit-msg and commit-msg, as git commit does, for a commit of a tree that Tree returned: in the working tree, in this
// process's environment and with its user's git configuration. They see a copy of the index of that tree. It ends with ctx.
func (d *Draft) RunHooks(ctx context.Context, tree string, text []byte, by Identity) (h Hooked, err error) {
	index, message := filepath.Join(d.scratch.dir, "hook-index"), filepath.Join(d.scratch.dir, "COMMIT_EDITMSG")
	data, err := os.ReadFile(filepath.Join(d.scratch.dir, "index"))
	if err == nil {
		err = os.WriteFile(index, data, 0o600)
	}
	if err == nil {
		err = os.WriteFile(message, text, 0o600)
	}
	if err != nil {
		return h, err
	}
	r := d.repo.asUser("GIT_INDEX_FILE="+index, "GIT_AUTHOR_NAME="+by.Name, "GIT_AUTHOR_EMAIL="+by.Email)
	for _, hook := range [][]string{{"pre-commit"}, {"prepare-commit-msg", message, "message"}, {"commit-msg", message}} {
		ran, err := r.hook(ctx, hook[0], hook[1:]...)
		if err != nil {
			return h, err
		}
		if ran {
			h.Ran = append(h.Ran, hook[0])
		}
		now, err := d.treeOf(ctx, index)
		if err != nil {
			return h, err
		}
		if now != tree {
			return h, &HookError{Hook: hook[0]}
		}
	}
	h.Text, err = readBounded(message)
	return h, err
}

// AfterCommit runs post-commit, once index and ref have moved. It reports whether there is one.
func (d *Draft) AfterCommit(ctx context.Context) (ran bool, err error) {
	return d.repo.asUser().hook(ctx, "post-commit")
}

// treeOf returns the tree that an index holds.
func (d *Draft) treeOf(ctx context.Context, index string) (string, error) {
	r := d.build()
	r.env = append(r.env, "GIT_INDEX_FILE="+index)
	out, err := r.run(ctx, d.repo.reader.opts.Timeout, "write-tree", "--missing-ok")
	return strings.TrimSpace(string(out)), d.failed(err)
}

// maxHookMessage bounds what is read of a message that hooks have edited, in bytes.
const maxHookMessage = 256 << 10

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, maxHookMessage))
}

// asUser runs git in the working tree as its user would, programs included.
func (l *Local) asUser(extra ...string) runner {
	return runner{filepath.Join(l.tree.Dir(), filepath.FromSlash(l.path)), nil, append(userEnviron(), extra...)}
}

// userEnviron returns our environment without git's variables and the server's secrets.
func userEnviron() (env []string) {
	for _, kv := range os.Environ() {
		if !isGit(kv) && !isSecret(kv) {
			env = append(env, kv)
		}
	}
	return append(env, "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=:")
}

// hasHook reports whether there is a hook: a program in the directory of hooks or, for git 2.54 and later, a command of the configuration.
func (r runner) hasHook(ctx context.Context, name string) (bool, error) {
	var exit *exec.ExitError
	switch err := r.command(ctx, "hook", "list", name).Run(); {
	case err == nil:
		return true, nil
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return false, nil
	}
	where, err := r.command(ctx, "rev-parse", "--git-path", "hooks/"+name).Output() // git before 2.54 cannot list hooks
	if err != nil {
		return false, &HookError{Hook: name, Err: err}
	}
	file := strings.TrimSuffix(string(where), "\n")
	if !filepath.IsAbs(file) {
		file = filepath.Join(r.dir, file)
	}
	st, err := os.Stat(file)
	return err == nil && !st.IsDir() && isProgram(st), nil
}

// hook runs a hook if there is one.
func (r runner) hook(ctx context.Context, name string, args ...string) (ran bool, err error) {
	out := &tail{}
	if has, err := r.hasHook(ctx, name); !has || err != nil {
		return false, err
	}
	cmd := r.command(ctx, append([]string{"hook", "run", name, "--"}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return true, &HookError{Hook: name, Output: strings.ToValidUTF8(strings.TrimSpace(string(out.last)), "\uFFFD"), Err: err}
	}
	return true, nil
}

// tail keeps the last bytes that are written to it.
type tail struct{ last []byte }

// maxTail is how many bytes it keeps.
const maxTail = 2 << 10

// Write is io.Writer's.
func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	t.last = bytes.Clone(t.last[max(0, len(t.last)-maxTail):])
	return len(p), nil
}
