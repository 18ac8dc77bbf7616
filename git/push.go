package git

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Why a remote repository did not do what it was asked for, beside ErrMoved and ErrUnreachable.
var (
	// ErrAuth says that it refuses this process's credentials, or asks for some.
	ErrAuth = errors.New("the remote repository refuses the credentials, or asks for some")
	// ErrRefused says that it refuses the commit.
	ErrRefused = errors.New("the remote repository refuses the commit")
)

// RemoteError says why a remote repository did not do what it was asked for.
type RemoteError struct {
	// Kind is ErrMoved, ErrAuth, ErrRefused or ErrUnreachable.
	Kind error
	// Words are the remote's, in one line and cut; "" for none.
	Words string
	// MayHaveHappened says that the connection was lost while the remote could have moved the ref, and that it could not be asked since.
	MayHaveHappened bool
	// Err is what git printed, without the password of the address.
	Err error
}

// Error returns the kind and the remote's words.
func (e *RemoteError) Error() string {
	if e.Words == "" {
		return e.Kind.Error()
	}
	return e.Kind.Error() + ": " + e.Words
}

// Unwrap returns the kind and the cause.
func (e *RemoteError) Unwrap() []error { return []error{e.Kind, e.Err} }

// to runs git with an address as the remote named target.
func (b *Bare) to(a Address) runner {
	r := b.own.remote(a.site)
	r.config = append(slices.Clip(r.config), "push.gpgSign=false", "push.followTags=false", "push.recurseSubmodules=no", "push.negotiate=false")
	if a.IsLocal() {
		r.env = append(r.env, "GIT_ALLOW_PROTOCOL=file")
	}
	return r
}

// RemoteRef asks which commit a ref of a remote repository names; "" for none. Its error is a *RemoteError, or ctx's.
func (b *Bare) RemoteRef(ctx context.Context, a Address, ref string) (commit string, err error) {
	out, said, err := b.to(a).capture(ctx, b.repo.reader.opts.Timeout, nil, "ls-remote", "--quiet", target, ref)
	if err != nil {
		return "", a.failed(ctx, nil, said, err)
	}
	for line := range strings.Lines(string(out)) {
		if id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok && isObjectID(id) && name == ref {
			commit = id
		}
	}
	return commit, nil
}

// Fetch brings the history of a commit, which a ref of a remote repository names, into b. Its error is a *RemoteError, or ctx's.
func (b *Bare) Fetch(ctx context.Context, a Address, ref, commit string) error {
	git, err := b.to(a).withoutHooks(ctx, b.repo.reader.opts.Timeout)
	if err != nil {
		return a.failed(ctx, nil, "", err)
	}
	_, said, err := git.capture(ctx, b.repo.reader.opts.FetchTimeout, nil, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
		"--no-auto-maintenance", "--no-write-fetch-head", target, ref)
	if err != nil {
		return a.failed(ctx, nil, said, err)
	}
	err = b.run(ctx, "cat-file", "-e", commit+"^{commit}")
	if err != nil && ctx.Err() == nil {
		return &RemoteError{Kind: ErrMoved, Err: err}
	}
	return err
}

// run runs git on objects alone.
func (b *Bare) run(ctx context.Context, args ...string) error {
	_, err := b.own.local("").run(ctx, b.repo.reader.opts.Timeout, args...)
	return err
}

// Has reports whether a commit is here, or in the repository that b borrows from.
func (b *Bare) Has(ctx context.Context, commit string) (bool, error) {
	err := b.run(ctx, "cat-file", "-e", commit+"^{commit}")
	return err == nil, ctx.Err()
}

// Follows reports whether a commit is another one or follows it. A commit that is not here is followed by none.
func (b *Bare) Follows(ctx context.Context, commit, earlier string) (bool, error) {
	err := b.run(ctx, "merge-base", "--is-ancestor", earlier, commit)
	return err == nil, ctx.Err()
}

// askTimeout bounds the question whether a push has happened, after the connection was lost.
const askTimeout = 15 * time.Second

// Push moves a ref of a remote repository from the commit from, which RemoteRef returned, to the commit to, which follows it. The remote moves the ref only if it names from. If the connection is lost, Push asks the remote whether the ref has moved. With dryRun
// nothing is sent. Its error is a *RemoteError, or ctx's: then the ref may have moved.
func (b *Bare) Push(ctx context.Context, a Address, ref, from, to string, dryRun bool) error {
	args := []string{"push", "--porcelain", "--no-verify", "--no-progress", "--force-with-lease=" + ref + ":" + from}
	if dryRun {
		args = append(args, "--dry-run")
	}
	out, said, err := b.to(a).capture(ctx, b.repo.reader.opts.FetchTimeout, nil, append(args, target, to+":"+ref)...)
	if err == nil {
		return nil
	}
	failed := a.failed(ctx, out, said, err)
	if dryRun || (!errors.Is(failed, ErrUnreachable) && !errors.Is(failed, ErrAuth)) {
		return failed
	}
	return b.ask(ctx, a, ref, to, failed)
}

// ask finds out whether a push whose connection was lost has moved the ref.
func (b *Bare) ask(ctx context.Context, a Address, ref, to string, lost error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	at, err := b.RemoteRef(ctx, a, ref)
	var e *RemoteError
	switch {
	case err == nil && at == to:
		return nil
	case err != nil && errors.As(lost, &e):
		e.Kind, e.MayHaveHappened = ErrUnreachable, true // git takes some lost connections for refused credentials
	}
	return lost
}

// What git and ssh print when credentials are refused or missing.
var authWords = regexp.MustCompile(`(?i)authentication failed|could not read (username|password)|terminal prompts disabled|permission denied \(|` +
	`returned error: 40[13]|access denied|invalid username or|too many authentication failures`)

// movedWords are the reasons of a refusal that say that the ref does not name what was expected.
var movedWords = regexp.MustCompile(`fetch first|non-fast-forward|stale info|needs force|already exists|incorrect old value|cannot lock ref|failed to update ref|reference already exists`)

// failed classifies what git printed.
func (a Address) failed(ctx context.Context, out []byte, said string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return err
	}
	e := &RemoteError{Kind: ErrUnreachable, Err: a.scrub(err)}
	reason, refused := refusal(string(out))
	switch {
	case refused:
		e.Kind, e.Words = ErrRefused, a.words(reason, said)
		if movedWords.MatchString(reason) {
			e.Kind = ErrMoved
		}
	case authWords.MatchString(said):
		e.Kind = ErrAuth
	}
	return e
}

// refusal finds the line of git push --porcelain that says that a ref was rejected: "!", the refs, and "[rejected] (reason)". A "[remote failure]"
// is no refusal: the remote did not say what it did.
func refusal(out string) (reason string, refused bool) {
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(f) == 3 && f[0] == "!" && (strings.HasPrefix(f[2], "[rejected]") || strings.HasPrefix(f[2], "[remote rejected]")) {
			_, reason, _ = strings.Cut(f[2], "] ")
			return strings.Trim(reason, "()"), true
		}
	}
	return "", false
}

// maxWords bounds what is passed on of a remote's words, in bytes.
const maxWords = 500

// words returns a reason and the lines that the remote printed, in one line.
func (a Address) words(reason, said string) string {
	parts := []string{reason}
	for line := range strings.Lines(said) {
		if words, ok := strings.CutPrefix(line, "remote:"); ok && strings.TrimSpace(words) != "" {
			parts = append(parts, strings.TrimSpace(words))
		}
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(strings.Join(parts, "; "), "\uFFFD"))
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return a.hide(text)
}

// hide replaces the password.
func (a Address) hide(text string) string {
	if a.password == "" {
		return text
	}
	return strings.ReplaceAll(text, a.password, "…")
}

// scrub returns an error without the password, for logs.
func (a Address) scrub(err error) error {
	if text := err.Error(); a.hide(text) != text || strings.Contains(text, "://") {
		return fmt.Errorf("%s", userInfo.ReplaceAllString(a.hide(text), "://"))
	}
	return err
}

// userInfo is what an address has before its host.
var userInfo = regexp.MustCompile(`://[^/\s@]*@`)
