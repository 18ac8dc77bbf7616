package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// scratch is an empty bare repository of our own. Every git runs with it as its
// GIT_DIR: so no configuration is read but this one's (and, to speak with remote
// repositories, the operator's own: credentials, proxies, certificates). There is
// nothing in it that names a program, and no ref, replacement, graft, attribute or
// promisor. What is fetched goes into it.
type scratch struct{ dir string }

// newScratch makes one in parent, for SHA-256 repositories when wide.
func newScratch(parent string, wide bool) (*scratch, error) {
	dir, err := os.MkdirTemp(parent, "git-")
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: dir}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if wide {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
	}
	for name, content := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": config} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for _, name := range []string{"objects/pack", "objects/info", "refs/heads"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, filepath.FromSlash(name)), 0o700))
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

func (s *scratch) remove() error { return os.RemoveAll(s.dir) }

// gitRunner runs git in a scratch repository.
//
//   - objects, when not "", is another repository's objects directory, read in place
//     of the scratch's. Its configuration is not read: git looks for that in GIT_DIR.
//   - remote permits to speak with other repositories by http, https and ssh, and reads
//     the operator's configuration. Without it no transport is allowed, so that no
//     object that is missing can make git fetch (and run what a remote names).
type gitRunner struct {
	scratch *scratch
	objects string
	remote  bool
}

// fixed is what the operator's configuration must not change.
var fixed = []string{
	"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.attributesFile=" + os.DevNull,
	"core.commitGraph=false", "core.disambiguate=commit", "gc.auto=0", "maintenance.auto=false",
	"submodule.recurse=false", "fetch.recurseSubmodules=false", "transfer.bundleURI=false",
	// A server under the base URL must not send us to another one.
	"http.followRedirects=false",
}

// command prepares a git that is stopped, with what it started, when ctx ends.
func (g gitRunner) command(ctx context.Context, args ...string) *exec.Cmd {
	var all []string
	for _, kv := range fixed {
		all = append(all, "-c", kv)
	}
	cmd := exec.CommandContext(ctx, "git", append(all, args...)...)
	cmd.Dir, cmd.Env = g.scratch.dir, g.env(os.Environ())
	cmd.WaitDelay = 2 * time.Second
	isolate(cmd)
	return cmd
}

// env returns git's environment: nothing of ours that begins with GIT_, since it may
// name programs and other repositories, but for how the operator wants ssh and TLS.
func (g gitRunner) env(env []string) []string {
	var out []string
	for _, kv := range env {
		transport := strings.HasPrefix(kv, "GIT_SSH") || strings.HasPrefix(kv, "GIT_SSL_")
		if !strings.HasPrefix(kv, "GIT_") || (g.remote && transport) {
			out = append(out, kv)
		}
	}
	out = append(out, "GIT_DIR="+g.scratch.dir, "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1", "GIT_ATTR_NOSYSTEM=1", "LC_ALL=C")
	if g.objects != "" {
		out = append(out, "GIT_OBJECT_DIRECTORY="+g.objects)
	}
	if g.remote {
		return append(out, "GIT_ALLOW_PROTOCOL=http:https:ssh", "SSH_ASKPASS_REQUIRE=never")
	}
	return append(out, "GIT_ALLOW_PROTOCOL=", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
}

// maxOutput bounds what one command may print, in bytes.
const maxOutput = 256 << 20

// run returns what git prints. Its error holds git's own words, and so server paths
// and addresses: it is a cause, and never a Detail.
func (g gitRunner) run(ctx context.Context, timeout time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, stderr := &bounded{max: maxOutput}, &bounded{max: 4 << 10, cut: true}
	cmd := g.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = out, stderr
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, notStarted(err)
		}
		return nil, gitError(ctx, args[0], err, stderr)
	}
	return out.Bytes(), nil
}

// notStarted says that there is no git, which is nobody's fault but the server's.
func notStarted(err error) error {
	if !errors.Is(err, exec.ErrNotFound) {
		return err
	}
	return &fserr.Error{Code: fserr.EOPNOTSUPP, Err: err, Detail: "the server has no git", Hint: "install git in the server's PATH"}
}

// gitError tells of a git that failed. The context's end counts before what it has caused.
func gitError(ctx context.Context, command string, err error, stderr *bounded) error {
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", command, ctx.Err())
	}
	return fmt.Errorf("git %s: %w: %s", command, err, strings.TrimSpace(stderr.String()))
}

// bounded keeps the first max bytes. What is beyond fails, unless it is to be cut.
type bounded struct {
	bytes.Buffer
	max int
	cut bool
}

// Write is io.Writer's.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.max - b.Len()
	if len(p) > room && !b.cut {
		return 0, errors.New("it printed too much")
	}
	b.Buffer.Write(p[:min(len(p), max(room, 0))])
	return len(p), nil
}
