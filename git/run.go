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
	"slices"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// scratch is an empty bare repository of our own, which is git's GIT_DIR. Git reads
// only this repository's configuration (and, to reach remote repositories, the
// operator's own: credentials, proxies, certificates). It names no program, and holds no
// ref, replacement, graft, attribute or promisor. Fetched objects go into it.
type scratch struct{ dir string }

// newScratch creates one in parent, for SHA-256 repositories if wide.
func newScratch(parent string, wide bool) (*scratch, error) {
	dir, err := os.MkdirTemp(parent, "git-")
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: dir}
	if err := s.init(wide); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// init makes the existing, empty directory a bare repository.
func (s *scratch) init(wide bool) (err error) {
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if wide {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
	}
	for name, content := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": config} {
		err = errors.Join(err, os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600))
	}
	for _, name := range []string{"objects/pack", "objects/info", "refs/heads"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(s.dir, filepath.FromSlash(name)), 0o700))
	}
	return err
}

func (s *scratch) remove() error { return os.RemoveAll(s.dir) }

// runner runs git in dir, with config as its -c options.
type runner struct {
	dir         string
	config, env []string
}

// noPrograms switches off what a repository's configuration may name to be run.
var noPrograms = []string{"core.hooksPath=" + os.DevNull, "core.fsmonitor=false"}

// fixed is what the operator's configuration must not change in a scratch. It has no spare capacity: what is appended goes into a copy.
var fixed = slices.Clip(append([]string{
	"core.attributesFile=" + os.DevNull, "core.commitGraph=false", "core.disambiguate=commit", "gc.auto=0",
	"maintenance.auto=false", "submodule.recurse=false", "fetch.recurseSubmodules=false", "transfer.bundleURI=false",
	// A server under the base URL must not send us to another one.
	"http.followRedirects=false",
}, noPrograms...))

// withoutHooks switches off the hooks that the configuration of r names. git 2.54 and later run them in spite of core.hooksPath. Only git 2.55 and later
// can switch off all hooks of an event, so this switches off each by its name.
func (r runner) withoutHooks(ctx context.Context, timeout time.Duration) (runner, error) {
	out, err := r.run(ctx, timeout, "config", "-z", "--name-only", "--get-regexp", `^hook\..*\.(event|command)$`)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 { // there is none
		err = nil
	}
	var env []string
	n := 0
	for key := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if name := key[:max(0, strings.LastIndexByte(key, '.'))]; name != "" {
			env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s.enabled", n, name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=false", n))
			n++
		}
	}
	if n > 0 {
		r.env = append(slices.Clip(r.env), append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))...)
	}
	return r, err
}

// environ returns our environment and extra, without the variables that begin with
// GIT_: they may name programs and other repositories. The prefixes in keep stay.
func environ(keep []string, extra ...string) []string {
	kept := func(kv string) bool {
		for _, prefix := range keep {
			if strings.HasPrefix(kv, prefix) {
				return true
			}
		}
		return !isGit(kv) && !isSecret(kv)
	}
	var out []string
	for _, kv := range os.Environ() {
		if kept(kv) {
			out = append(out, kv)
		}
	}
	out = append(out, "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	return append(out, extra...)
}

func isGit(kv string) bool { return strings.HasPrefix(kv, "GIT_") }

// isSecret reports whether a variable may hold the password of the server's database, which git and hooks do not need.
func isSecret(kv string) bool {
	return strings.HasPrefix(kv, "CTXFS_METADATA=") || strings.HasPrefix(kv, "PGPASSWORD=") || strings.HasPrefix(kv, "PGPASSFILE=")
}

// local runs git in the scratch. objects, if not "", is another repository's objects
// directory, read in place of the scratch's; git looks for configuration in GIT_DIR
// alone. No transport is allowed, so a missing object cannot make git fetch it (and run
// what a remote names).
func (s *scratch) local(objects string) runner {
	r := runner{s.dir, fixed, environ(nil, "GIT_DIR="+s.dir, "GIT_NO_REPLACE_OBJECTS=1", "GIT_ATTR_NOSYSTEM=1",
		"GIT_ALLOW_PROTOCOL=", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)}
	if objects != "" {
		r.env = append(r.env, "GIT_OBJECT_DIRECTORY="+objects)
	}
	return r
}

// remote runs git in the scratch with a remote repository under the name target, with http, https and ssh allowed, and with the
// operator's configuration and wishes for ssh and TLS.
func (s *scratch) remote(at site) runner {
	env := environ([]string{"GIT_SSH", "GIT_SSL_"}, "GIT_DIR="+s.dir, "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_ATTR_NOSYSTEM=1", "GIT_ALLOW_PROTOCOL=http:https:ssh", "SSH_ASKPASS_REQUIRE=never",
		// An empty program keeps git from asking through that of SSH_ASKPASS.
		"GIT_ASKPASS=")
	return runner{s.dir, fixed, append(env, at.env()...)}
}

// command prepares a git that is killed, with the processes it started, when ctx ends. It does not start where a file would keep it waiting.
func (r runner) command(ctx context.Context, args ...string) *exec.Cmd {
	var all []string
	for _, kv := range r.config {
		all = append(all, "-c", kv)
	}
	cmd := exec.CommandContext(ctx, "git", append(all, args...)...)
	cmd.Dir, cmd.Env = r.dir, r.env
	if cmd.Err == nil {
		cmd.Err = checkPlain(r.dir)
	}
	cmd.WaitDelay = 2 * time.Second
	isolate(cmd)
	return cmd
}

// maxOutput bounds what one command may print, in bytes.
const maxOutput = 256 << 20

// run returns what git prints, also if git fails. Its error holds git's own words, and so server paths
// and addresses: it is a cause, and never a Detail.
func (r runner) run(ctx context.Context, timeout time.Duration, args ...string) ([]byte, error) {
	return r.feed(ctx, timeout, nil, args...)
}

// feed is run with an input, which may be nil.
func (r runner) feed(ctx context.Context, timeout time.Duration, in io.Reader, args ...string) ([]byte, error) {
	out, _, err := r.capture(ctx, timeout, in, args...)
	return out, err
}

// capture is feed, and returns the beginning of what git printed on its standard error too.
func (r runner) capture(ctx context.Context, timeout time.Duration, in io.Reader, args ...string) (printed []byte, said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, stderr := &bounded{max: maxOutput}, &bounded{max: 4 << 10, cut: true}
	cmd := r.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, stderr
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, "", notStarted(err)
		}
		return out.Bytes(), stderr.String(), gitError(ctx, args[0], err, stderr)
	}
	return out.Bytes(), stderr.String(), nil
}

// notStarted reports that the server has no git.
func notStarted(err error) error {
	if !errors.Is(err, exec.ErrNotFound) {
		return err
	}
	return &fserr.Error{Code: fserr.EOPNOTSUPP, Err: err, Detail: "the server has no git", Hint: "install git in the server's PATH"}
}

// gitError reports that git failed. The end of ctx counts before the failure that it caused.
func gitError(ctx context.Context, command string, err error, stderr *bounded) error {
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", command, ctx.Err())
	}
	return fmt.Errorf("git %s: %w: %s", command, err, strings.TrimSpace(stderr.String()))
}

// bounded keeps the first max bytes. Writing more fails, unless cut is set.
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
