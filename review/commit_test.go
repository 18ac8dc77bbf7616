package review

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// repos is a world whose workspace has git repositories.
type repos struct{ *world }

// gitIn runs git as the user would, in a folder of the world, and returns what it prints.
func (w repos) gitIn(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.tryGit(dir, args...)
	if err != nil {
		w.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

func (w repos) tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir = w.in(dir)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.com",
		"GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.com")
	out, err := cmd.CombinedOutput()
	return strings.TrimRight(string(out), "\n"), err
}

// wantGit checks what git prints in the repository of the workspace.
func (w repos) wantGit(want string, args ...string) {
	w.t.Helper()
	if got := w.gitIn("workspace", args...); got != want {
		w.t.Errorf("git %s printed\n%s\nwant\n%s", strings.Join(args, " "), got, want)
	}
}

// newRepos makes a world whose workspace is a repository with one commit of these files.
func newRepos(t *testing.T, content files, options ...string) repos {
	t.Helper()
	w := repos{newWorld(t, content)}
	w.init("workspace", options...)
	w.gitIn("workspace", "add", "-A")
	w.gitIn("workspace", "commit", "-qm", "first")
	return w
}

func (w repos) init(dir string, options ...string) {
	w.t.Helper()
	w.gitIn(dir, append([]string{"init", "-q", "-b", "main"}, options...)...)
	w.gitIn(dir, "config", "user.name", "Repo Owner")
	w.gitIn(dir, "config", "user.email", "owner@example.com")
}

// commit approves everything and applies it with a commit. A branch is "" for what is checked out.
func (w repos) commit(branch string, paths ...Path) (*Entry, error) {
	w.t.Helper()
	return w.reviews.Apply(w.t.Context(), w.committing(branch, paths...))
}

func (w repos) committing(branch string, paths ...Path) ApplyRequest {
	req := ApplyRequest{
		Context: id, Actor: "host", Approve: true, Selection: &Selection{All: true}, Target: ToCommit,
		Commit: CommitOptions{Message: "Subject\n\nBody.", Trailers: []string{"Reviewed-by: R <r@example.com>"}, Branch: branch},
	}
	if branch != "" {
		req.Target = ToBranch
	}
	if len(paths) > 0 {
		req.Selection = &Selection{}
		for _, p := range paths {
			req.Selection.Changes = append(req.Selection.Changes, Selected{Path: p})
		}
	}
	return req
}

func (w repos) mustCommit(branch string, paths ...Path) *Entry {
	w.t.Helper()
	e, err := w.commit(branch, paths...)
	must(w.t, err)
	return e
}

// sound checks the repository.
func (w repos) sound(dir string) {
	w.t.Helper()
	if out := w.gitIn(dir, "fsck", "--strict", "--no-dangling"); strings.Contains(out, "error") || strings.Contains(out, "warning") {
		w.t.Errorf("git fsck says %s", out)
	}
	left, err := filepath.Glob(filepath.Join(w.in(dir), ".git", "*ctxfs*"))
	must(w.t, err)
	locks, err := filepath.Glob(filepath.Join(w.in(dir), ".git", "*.lock"))
	must(w.t, err)
	scratch, err := os.ReadDir(w.in("state/scratch"))
	must(w.t, err)
	if len(left)+len(locks)+len(scratch) > 0 {
		w.t.Errorf("left are %v, %v and %v", left, locks, scratch)
	}
}

func TestCommitHoldsWhatIsApprovedOnly(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"a": numbered(30), "gone/deep/x": "x\n", "run": "echo\n", "link": "-> a", "kept": "kept\n", "staged": numbered(30)})
	// The user has dirty lines and staged lines in files of the agent, and a staged file of its own.
	dirty := strings.Replace(numbered(30), "line 30\n", "dirty 30\n", 1)
	write(t, w.in("workspace"), files{"staged": dirty, "mine": "mine\n"})
	w.gitIn("workspace", "add", "staged", "mine")
	write(t, w.in("workspace"), files{"a": dirty})
	agent := strings.Replace(numbered(30), "line 3\n", "agent 3\n", 1)
	write(t, w.in(id), files{"a": agent, "staged": agent, "new/deep/file": "new\n", "bin": "\x00\x01", "run": "+x echo\n", "link": "-> run"})
	remove(t, w.in(id), "gone/deep/x")
	parent := w.gitIn("workspace", "rev-parse", "HEAD")
	diffs := func() string {
		return w.gitIn("workspace", "diff", "-U0") + w.gitIn("workspace", "diff", "--cached", "-U0")
	}
	lines := func(text string) (out string) {
		for line := range strings.SplitSeq(text, "\n") {
			if strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") {
				out += line + "\n"
			}
		}
		return out
	}
	before := lines(diffs())

	req := w.committing("", "")
	req.Selection.Changes = append(req.Selection.Changes, Selected{Path: "run"})
	dry := req
	dry.DryRun = true
	e := w.apply(dry)
	if len(e.Commits) != 1 || e.Commits[0].ID != "" || e.Commits[0].Ref != "refs/heads/main" || e.Commits[0].Parent != parent {
		t.Errorf("the dry run says %+v", e.Commits)
	}
	w.wantGit(parent, "rev-parse", "HEAD")
	e = w.apply(req)
	c := e.Commits[0]
	w.wantGit(c.ID, "rev-parse", "refs/heads/main")
	w.wantGit(parent, "rev-parse", "HEAD^")
	w.wantGit("M\ta\nA\tbin\nD\tgone/deep/x\nM\tlink\nA\tnew/deep/file\nM\trun\nM\tstaged", "diff", "--name-status", "--no-renames", "HEAD^", "HEAD")
	w.wantGit(strings.TrimRight(agent, "\n"), "show", "HEAD:a")
	w.wantGit(strings.TrimRight(agent, "\n"), "show", "HEAD:staged")
	w.wantGit("run", "show", "HEAD:link")
	if got := w.gitIn("workspace", "ls-tree", "HEAD", "run", "link"); !strings.HasPrefix(got, "120000") || !strings.Contains(got, "\n100755") {
		t.Errorf("the modes are\n%s", got)
	}
	w.wantGit("Subject\n\nBody.\n\nReviewed-by: R <r@example.com>\nCtxfs-Context: ctx_a\nCtxfs-Review: 1", "log", "-1", "--format=%B")
	w.wantGit("Repo Owner <owner@example.com> Repo Owner <owner@example.com>", "log", "-1", "--format=%an <%ae> %cn <%ce>")
	w.wantGit(" M a\nA  mine\nM  staged", "status", "--porcelain")
	if after := lines(diffs()); after != before {
		t.Errorf("what is dirty and staged was\n%s\nand is\n%s", before, after)
	}
	want := strings.Replace(dirty, "line 3\n", "agent 3\n", 1)
	same(t, "the working tree", without(read(t, w.in("workspace")), ".git"), files{
		"a": want, "staged": want, "mine": "mine\n", "kept": "kept\n", "new/deep/file": "new\n", "bin": "\x00\x01", "run": "+x echo\n", "link": "-> run",
	})
	w.sound("workspace")
	if l := w.changes(Query{}); len(l.Changes) != 0 {
		t.Errorf("after the commit these changes are left: %v", l.Changes)
	}
	_, err := w.undo(e.ID)
	must(t, err)
	w.wantGit(c.ID, "rev-parse", "HEAD")
	same(t, "undone", files{"a": read(t, w.in("workspace"))["a"]}, files{"a": dirty})
}

// without leaves out what lies below a directory.
func without(f files, dir string) files {
	out := files{}
	for p, text := range f {
		if !strings.HasPrefix(p, dir+"/") {
			out[p] = text
		}
	}
	return out
}

// Lines that the user has not committed cannot be a part of the agent's commit, so a change of them is refused.
func TestCommitOfUncommittedLinesIsRefused(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(w repos){
		"dirty": func(w repos) {
			for _, dir := range []string{"workspace", "layer", id} {
				write(w.t, w.in(dir), files{"a": "one\nmine\nthree\n"})
			}
		},
		"untracked": func(w repos) {
			w.gitIn("workspace", "rm", "-q", "--cached", "a")
			w.gitIn("workspace", "commit", "-qm", "untracked")
		},
		"staged": func(w repos) {
			write(w.t, w.in("workspace"), files{"a": "one\nstaged\nthree\n"})
			w.gitIn("workspace", "add", "a")
			write(w.t, w.in("workspace"), files{"a": "one\ntwo\nthree\n"})
		},
		"staged in the way": func(w repos) {
			write(w.t, w.in("workspace"), files{"new": "mine\n"})
			w.gitIn("workspace", "add", "new")
			remove(w.t, w.in("workspace"), "new")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := repos{newWorld(t, files{"a": "one\ntwo\nthree\n", "b": "b\n"})}
			w.init("workspace")
			w.gitIn("workspace", "add", "-A")
			w.gitIn("workspace", "commit", "-qm", "first")
			prepare(w)
			want := Path("a")
			if name == "staged in the way" {
				want = "new/file"
				write(t, w.in(id), files{"new/file": "agent\n"})
			} else {
				write(t, w.in(id), files{"a": "one\nagent\nthree\n"})
			}
			write(t, w.in(id), files{"b": "agent\n"})
			before := read(t, w.in("workspace"))
			_, err := w.commit("")
			if c := wantReason(t, err, DirtyCommit).Conflicts; len(c) != 1 || c[0].Path != want {
				t.Errorf("the conflicts are %v", c)
			}
			same(t, "the workspace", read(t, w.in("workspace")), before)
			w.mustCommit("", "b") // without them it works
			w.sound("workspace")
		})
	}
}

// Nothing that the repository names runs. Each row runs when a careless user commits.
func TestCommitRunsNoProgramOfTheRepository(t *testing.T) {
	t.Parallel()
	hook := func(name string) func(w repos, program string) {
		return func(w repos, program string) {
			write(w.t, w.in("workspace/.git/hooks"), files{name: "+x #!/bin/sh\nexec " + program + "\n"})
		}
	}
	config := func(keys ...string) func(w repos, program string) {
		return func(w repos, program string) {
			for _, key := range keys {
				name, value, ok := strings.Cut(key, "=")
				if !ok {
					value = program
				}
				w.gitIn("workspace", "config", name, value)
			}
		}
	}
	for name, arm := range map[string]func(w repos, program string){
		"pre-commit": hook("pre-commit"), "post-commit": hook("post-commit"), "post-index-change": hook("post-index-change"),
		"reference-transaction": hook("reference-transaction"),
		"fsmonitor":             config("core.fsmonitor"),
		"signing":               config("commit.gpgSign=true", "gpg.program"),
		"editor":                config("core.editor"),
		"filter": func(w repos, _ string) {
			config("filter.x.clean=touch '"+w.in("sprung")+"'; cat")(w, "")
			write(w.t, w.in("workspace/.git/info"), files{"attributes": "* filter=x\n"})
		},
		"included hooks": func(w repos, program string) {
			write(w.t, w.in("hooks"), files{"reference-transaction": "+x #!/bin/sh\nexec " + program + "\n"})
			write(w.t, w.in("workspace/.git"), files{"more": "[core]\n\thooksPath = " + w.in("hooks") + "\n"})
			config("include.path=more")(w, program)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepos(t, files{"a": "a\n", "b": "b\n"})
			sprung := w.in("sprung")
			write(t, w.dir, files{"program": "+x #!/bin/sh\ntouch " + sprung + "\n"})
			wasSprung := func() bool { return os.Remove(sprung) == nil }
			arm(w, w.in("program"))
			write(t, w.in("workspace"), files{"b": "changed\n"})
			args := []string{"commit", "-qam", "careless"}
			if name == "editor" {
				args = []string{"commit", "-qa"}
			}
			_, _ = w.tryGit("workspace", args...) // it may fail, as with a program that signs nothing
			if !wasSprung() {
				t.Error("the trap is not armed")
			}
			write(t, w.in(id), files{"a": "agent\n", "new": "new\n"})
			if name == "filter" {
				_, err := w.commit("")
				wantReason(t, err, NeedsFilter)
				if wasSprung() {
					t.Error("the program ran")
				}
				return
			}
			e := w.mustCommit("")
			write(t, w.in(id), files{"a": "again\n"})
			w.mustCommit("other")
			if wasSprung() {
				t.Error("the program ran")
			}
			if e.Commits[0].ID == "" {
				t.Error("there is no commit")
			}
		})
	}
}

// What is in the server's environment does not matter.
func TestCommitIgnoresTheEnvironment(t *testing.T) {
	w := newRepos(t, files{"a": "a\n"})
	trace := w.in("trace")
	env := map[string]string{
		"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/i", "GIT_OBJECT_DIRECTORY": "/nowhere", "GIT_TRACE": trace, "GIT_AUTHOR_NAME": "evil", "GIT_COMMITTER_NAME": "evil",
		"GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z", "GIT_NAMESPACE": "x", "GIT_WORK_TREE": "/nowhere",
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	write(t, w.in(id), files{"a": "agent\n"})
	w.mustCommit("")
	for name := range env {
		must(t, os.Unsetenv(name))
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("git wrote a trace")
	}
	w.wantGit("Repo Owner Repo Owner agent", "show", "-s", "--format=%an %cn agent", "HEAD")
	w.wantGit("agent", "show", "HEAD:a")
}

func TestCommitNeedsAnIdentity(t *testing.T) {
	w := newRepos(t, files{"a": "a\n"})
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	w.gitIn("workspace", "config", "--remove-section", "user")
	write(t, w.in(id), files{"a": "agent\n"})
	_, err := w.commit("")
	if fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), "user.name") {
		t.Fatalf("without an identity: %v", err)
	}
	same(t, "the workspace", without(read(t, w.in("workspace")), ".git"), files{"a": "a\n"})
	for _, author := range []git.Identity{{Name: "A"}, {Name: "A\nB", Email: "a@example.com"}, {Name: "A <b>", Email: "a@example.com"}} {
		req := w.committing("")
		req.Commit.Author = author
		if _, err := w.reviews.Apply(t.Context(), req); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("the author %q: %v", author, err)
		}
	}
	write(t, os.Getenv("HOME"), files{".gitconfig": "[user]\n\tname = Global\n\temail = global@example.com\n"})
	req := w.committing("")
	req.Commit.Author = git.Identity{Name: "Agent", Email: "agent@example.com"}
	w.apply(req)
	w.wantGit("Agent <agent@example.com> Global <global@example.com>", "log", "-1", "--format=%an <%ae> %cn <%ce>")
}

func TestBadCommitOptionsAreRefused(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"a": "a\n"})
	write(t, w.in(id), files{"a": "agent\n"})
	for name, change := range map[string]func(*ApplyRequest){
		"no message":       func(r *ApplyRequest) { r.Commit.Message = " \n" },
		"NUL":              func(r *ApplyRequest) { r.Commit.Message = "a\x00b" },
		"not UTF-8":        func(r *ApplyRequest) { r.Commit.Message = "a\xff" },
		"two lines":        func(r *ApplyRequest) { r.Commit.Trailers = []string{"A: b\nCtxfs-Review: 7"} },
		"no trailer":       func(r *ApplyRequest) { r.Commit.Trailers = []string{"--exec"} },
		"own trailer":      func(r *ApplyRequest) { r.Commit.Trailers = []string{"ctxfs-review: 7"} },
		"in the message":   func(r *ApplyRequest) { r.Commit.Message = "m\n\nCtxfs-Panel : panels/other" },
		"branch of HEAD":   func(r *ApplyRequest) { r.Commit.Branch = "x" },
		"no branch":        func(r *ApplyRequest) { r.Target = ToBranch },
		"target":           func(r *ApplyRequest) { r.Target = "other" },
		"option":           func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, "-d" },
		"range":            func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, "a..b" },
		"newline":          func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, "a\nb" },
		"HEAD":             func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, "HEAD" },
		"full name":        func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, "refs/heads/main" },
		"lock":             func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, "a.lock" },
		"checked out":      func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, "main" },
		"below a branch":   func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, "main/x" },
		"leading dots":     func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, "../../x" },
		"commit's ID":      func(r *ApplyRequest) { r.Target, r.Commit.Branch = ToBranch, strings.Repeat("a", 40) },
		"too many":         func(r *ApplyRequest) { r.Commit.Trailers = make([]string, maxTrailers+1) },
		"message too long": func(r *ApplyRequest) { r.Commit.Message = strings.Repeat("a", maxMessage+1) },
	} {
		req := w.committing("")
		change(&req)
		if _, err := w.reviews.Apply(t.Context(), req); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	w.wantGit("1", "rev-list", "--count", "--all")
	same(t, "the workspace", without(read(t, w.in("workspace")), ".git"), files{"a": "a\n"})
	if left, err := w.reviews.journal.ids(intentSuffix); err != nil || len(left) > 0 {
		t.Errorf("the journal has the intents %v (%v)", left, err)
	}
	w.sound("workspace")
}

// A repository that another operation uses is refused before anything is done. A branch can be committed to meanwhile.
func TestBusyRepositoryIsRefused(t *testing.T) {
	t.Parallel()
	conflict := func(w repos) {
		w.gitIn("workspace", "checkout", "-qb", "theirs")
		write(w.t, w.in("workspace"), files{"c": "theirs\n"})
		w.gitIn("workspace", "commit", "-qam", "theirs")
		w.gitIn("workspace", "checkout", "-q", "main")
		write(w.t, w.in("workspace"), files{"c": "ours\n"})
		w.gitIn("workspace", "commit", "-qam", "ours")
	}
	fails := func(w repos, args ...string) {
		if out, err := w.tryGit("workspace", args...); err == nil {
			w.t.Errorf("git %v did not stop: %s", args, out)
		}
	}
	for name, begin := range map[string]func(w repos){
		"merge":       func(w repos) { conflict(w); fails(w, "merge", "theirs") },
		"rebase":      func(w repos) { conflict(w); fails(w, "rebase", "theirs") },
		"cherry-pick": func(w repos) { conflict(w); fails(w, "cherry-pick", "theirs") },
		"revert":      func(w repos) { conflict(w); fails(w, "revert", "--no-edit", "theirs") },
		"index.lock":  func(w repos) { write(w.t, w.in("workspace/.git"), files{"index.lock": ""}) },
		"HEAD.lock":   func(w repos) { write(w.t, w.in("workspace/.git"), files{"HEAD.lock": ""}) },
		"branch.lock": func(w repos) { write(w.t, w.in("workspace/.git"), files{"refs/heads/main.lock": ""}) },
		"unmerged": func(w repos) {
			conflict(w)
			fails(w, "merge", "theirs")
			remove(w.t, w.in("workspace/.git"), "MERGE_HEAD")
		},
		"merge in apply": func(w repos) {
			conflict(w)
			w.gitIn("workspace", "checkout", "-q", "theirs")
			patch := w.gitIn("workspace", "format-patch", "-1", "--stdout")
			w.gitIn("workspace", "checkout", "-q", "main")
			write(w.t, w.dir, files{"patch": patch + "\n"})
			fails(w, "am", w.in("patch"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepos(t, files{"a": "a\n", "c": "c\n"})
			begin(w)
			write(t, w.in(id), files{"a": "agent\n"})
			before := read(t, w.in("workspace"))
			_, err := w.commit("")
			wantReason(t, err, RepositoryBusy)
			after := read(t, w.in("workspace"))
			same(t, "the workspace", without(after, ".git/objects"), without(before, ".git/objects"))
			if left, err := w.reviews.journal.ids(intentSuffix); err != nil || len(left) > 0 {
				t.Errorf("the journal has the intents %v (%v)", left, err)
			}
			w.mustCommit("beside")
			w.wantGit("agent", "show", "beside:a")
		})
	}
}

// Each state of a repository in which a commit is possible.
func TestCommitInEachRepository(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []string
		prepare func(w repos)
		check   func(w repos, e *Entry)
	}{
		"plain":  {},
		"sha256": {options: []string{"--object-format=sha256"}},
		"detached": {prepare: func(w repos) { w.gitIn("workspace", "checkout", "-q", "--detach") }, check: func(w repos, e *Entry) {
			if e.Commits[0].Ref != "HEAD" {
				w.t.Errorf("it moved %s", e.Commits[0].Ref)
			}
			w.wantGit(e.Commits[0].Parent, "rev-parse", "main")
			w.wantGit("HEAD", "rev-parse", "--abbrev-ref", "HEAD")
		}},
		"split index": {prepare: func(w repos) {
			w.gitIn("workspace", "config", "core.splitIndex", "true")
			w.gitIn("workspace", "update-index", "--split-index")
		}},
		"packed": {prepare: func(w repos) { w.gitIn("workspace", "gc", "-q") }},
		"sparse index": {prepare: func(w repos) {
			w.gitIn("workspace", "sparse-checkout", "set", "--cone", "--sparse-index", "in")
		}, check: func(w repos, _ *Entry) {
			w.wantGit("out", "show", "HEAD:out/x")
			if got := w.gitIn("workspace", "ls-files", "-t", "out"); got != "S out/x" {
				w.t.Errorf("what is not checked out is %q in the index", got)
			}
		}},
		"old index": {prepare: func(w repos) { w.gitIn("workspace", "update-index", "--index-version", "4") }},
		"partial clone": {prepare: func(w repos) {
			blob := w.gitIn("workspace", "rev-parse", "HEAD:out/x")
			must(w.t, os.Remove(w.in("workspace/.git/objects/"+blob[:2]+"/"+blob[2:])))
			w.gitIn("workspace", "config", "remote.evil.promisor", "true")
			w.gitIn("workspace", "config", "remote.evil.url", "ext::touch "+w.in("sprung"))
			w.gitIn("workspace", "config", "protocol.allow", "always")
		}, check: func(w repos, _ *Entry) {
			if _, err := os.Stat(w.in("sprung")); err == nil {
				w.t.Error("the missing file was fetched")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepos(t, files{"a": "a\n", "in/x": "in\n", "out/x": "out\n"}, c.options...)
			if c.prepare != nil {
				c.prepare(w)
			}
			write(t, w.in(id), files{"a": "agent\n", "in/new": "new\n"})
			head := w.gitIn("workspace", "rev-parse", "HEAD")
			e := w.mustCommit("")
			w.wantGit(head, "rev-parse", "HEAD^")
			w.wantGit(e.Commits[0].ID, "rev-parse", "HEAD")
			w.wantGit("M\ta\nA\tin/new", "diff-tree", "-r", "--name-status", "HEAD^", "HEAD")
			if name != "partial clone" {
				w.wantGit("", "status", "--porcelain")
				w.sound("workspace")
			}
			if c.check != nil {
				c.check(w, e)
			}
			write(t, w.in(id), files{"a": "branch\n"})
			w.mustCommit("side")
			w.wantGit("branch", "show", "side:a")
		})
	}
}

func TestFirstCommit(t *testing.T) {
	t.Parallel()
	w := repos{newWorld(t, files{"mine": "mine\n"})}
	w.init("workspace")
	write(t, w.in(id), files{"a": "agent\n"})
	if e := w.mustCommit("side"); e.Commits[0].Parent != "" {
		t.Errorf("the first commit's parent is %s", e.Commits[0].Parent)
	}
	write(t, w.in(id), files{"b": "agent\n"})
	w.mustCommit("")
	w.wantGit("b", "ls-tree", "-r", "--name-only", "main")
	w.wantGit("a", "ls-tree", "-r", "--name-only", "side")
	w.wantGit("?? mine", "status", "--porcelain")
	w.sound("workspace")
}

func TestBareRepositoryTakesBranchesOnly(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"a": "a\n"})
	w.gitIn("workspace", "config", "core.bare", "true")
	write(t, w.in(id), files{"a": "agent\n"})
	if _, err := w.commit(""); fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), "bare") {
		t.Errorf("a commit to a bare repository: %v", err)
	}
	w.mustCommit("side")
	w.wantGit("agent", "show", "side:a")
}

// A branch takes commits one after the other. Nothing else of the repository changes.
func TestCommitToBranchTouchesNothingElse(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"a": numbered(30), "gone": "gone\n"})
	write(t, w.in("workspace"), files{"a": "dirty\n", "mine": "mine\n"})
	w.gitIn("workspace", "add", "mine")
	w.gitIn("workspace", "worktree", "add", "-q", w.in("linked"), "-b", "linked")
	before := read(t, w.in("workspace"))
	head := w.gitIn("workspace", "rev-parse", "HEAD")
	edit := func(from, to string) {
		text := read(t, w.in(id))["a"]
		write(t, w.in(id), files{"a": strings.Replace(text, from, to, 1)})
	}
	edit("line 3\n", "agent 3\n")
	remove(t, w.in(id), "gone")
	first := w.mustCommit("agent/topic")
	if got := first.Files(); len(got) != 2 || got[0].Did != Written || got[1].Did != Removed {
		t.Errorf("it says that it did %v", got)
	}
	edit("agent 3\n", "agent three\n")
	second := w.mustCommit("agent/topic")
	w.wantGit(second.Commits[0].ID+"\n"+first.Commits[0].ID+"\n"+head, "rev-list", "agent/topic")
	w.wantGit(strings.TrimRight(strings.Replace(numbered(30), "line 3\n", "agent three\n", 1), "\n"), "show", "agent/topic:a")
	after := read(t, w.in("workspace"))
	for _, dir := range []string{".git/objects", ".git/refs/heads/agent", ".git/logs/refs/heads/agent"} {
		before, after = without(before, dir), without(after, dir)
	}
	same(t, "the repository", after, before)
	edit("line 9\n", "agent 9\n")
	_, err := w.commit("linked")
	if fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), "checked out") {
		t.Errorf("a commit to a branch that a linked worktree has checked out: %v", err)
	}
	undo, err := w.undo(second.ID)
	must(t, err)
	w.wantGit(second.Commits[0].ID, "rev-parse", "agent/topic")
	same(t, "after the undo", files{"a": read(t, w.in("workspace"))["a"]}, files{"a": "dirty\n"})
	if l := w.changes(Query{}); len(l.Changes) != 1 || len(l.Changes[0].HunkIDs()) != 2 {
		t.Errorf("after the undo the changes are %v", l.Changes)
	}
	_, err = w.undo(undo.ID)
	must(t, err)
	if l := w.changes(Query{}); len(l.Changes) != 1 || len(l.Changes[0].HunkIDs()) != 1 {
		t.Errorf("after the redo the changes are %v", l.Changes)
	}
	w.sound("workspace")
}

// newForest makes a workspace without a repository at its root, with two repositories, a submodule, a linked worktree and a loose file.
func newForest(t *testing.T) repos {
	t.Helper()
	w := repos{newWorld(t, files{"app/a": "a\n", "app/sub/s": "s\n", "lib/b": "b\n", "linked/a": "a\n", "loose": "loose\n"})}
	must(t, os.RemoveAll(w.in("workspace/linked")))
	must(t, os.RemoveAll(w.in("workspace/app/sub")))
	must(t, os.Mkdir(w.in("upstream"), 0o755))
	write(t, w.in("upstream"), files{"s": "s\n"})
	for _, dir := range []string{"upstream", "workspace/app", "workspace/lib"} {
		w.init(dir)
		w.gitIn(dir, "add", "-A")
		w.gitIn(dir, "commit", "-qm", "first")
	}
	w.gitIn("workspace/app", "worktree", "add", "-q", "../linked", "-b", "linked")
	w.gitIn("workspace/app", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", w.in("upstream"), "sub")
	w.gitIn("workspace/app", "commit", "-qm", "submodule")
	w.gitIn("workspace/app/sub", "config", "user.name", "Sub")
	w.gitIn("workspace/app/sub", "config", "user.email", "sub@example.com")
	return w
}

// Each innermost repository gets its own commit. A gitlink is never written.
func TestCommitsOfSeveralRepositories(t *testing.T) {
	t.Parallel()
	w := newForest(t)
	write(t, w.in(id), files{"app/a": "agent\n", "app/sub/s": "agent\n", "lib/new": "agent\n", "linked/a": "agent\n", "loose": "agent\n"})
	_, err := w.commit("")
	if e := wantReason(t, err, NoRepository); len(e.Paths) != 1 || e.Paths[0] != "loose" {
		t.Errorf("it names %v", e.Paths)
	}
	gitlink := w.gitIn("workspace/app", "rev-parse", "HEAD:sub")
	e := w.mustCommit("", "app", "lib", "linked")
	var got []string
	for _, c := range e.Commits {
		got = append(got, string(c.Repository)+" "+c.Ref)
		if w.gitIn(filepath.Join("workspace", string(c.Repository)), "rev-parse", "HEAD") != c.ID {
			t.Errorf("%s is at another commit", c.Repository)
		}
	}
	if want := "app refs/heads/main,app/sub refs/heads/main,lib refs/heads/main,linked refs/heads/linked"; strings.Join(got, ",") != want {
		t.Errorf("the commits are %v", got)
	}
	if now := w.gitIn("workspace/app", "rev-parse", "HEAD:sub"); now != gitlink {
		t.Errorf("the gitlink became %s", now)
	}
	if status := w.gitIn("workspace/app", "status", "--porcelain"); status != " M sub" {
		t.Errorf("the status of app is %q", status)
	}
	for _, dir := range []string{"lib", "linked", "app/sub"} {
		if status := w.gitIn("workspace/"+dir, "status", "--porcelain"); status != "" {
			t.Errorf("the status of %s is %q", dir, status)
		}
	}
	w.sound("workspace/app")
	w.sound("workspace/lib")
}

// A submodule that is not checked out is a directory without a repository. Its gitlink must not be replaced by files.
func TestFilesBelowAGitlinkAreRefused(t *testing.T) {
	t.Parallel()
	w := newForest(t)
	w.gitIn("workspace/app", "submodule", "--quiet", "deinit", "-f", "sub")
	write(t, w.in(id), files{"app/sub/new": "agent\n"})
	for _, branch := range []string{"", "side"} {
		_, err := w.commit(branch, "app/sub/new")
		wantReason(t, err, DirtyCommit)
	}
}

// Undo leaves the commit, so that the branch has all of the changes already when they are applied again.
func TestChangesThatTheParentHasAreNotCommittedAgain(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"dir/x": "x\n", "file": "f\n", "gone": "gone\n", "a": "a\n"})
	remove(t, w.in(id), "dir/x", "gone", "file")
	write(t, w.in(id), files{"dir": "a file\n", "file/x": "x\n", "a": "agent\n"})
	e := w.mustCommit("")
	_, err := w.undo(e.ID)
	must(t, err)
	for _, branch := range []string{"", "side"} {
		e := w.mustCommit(branch)
		if len(e.Commits) != 0 {
			t.Errorf("branch %q: committed again: %v", branch, e.Commits)
		}
		_, err = w.undo(e.ID)
		must(t, err)
	}
	w.wantGit("2", "rev-list", "--count", "HEAD")
	w.sound("workspace")
}

// A repository whose data lie outside of the workspace is left alone.
func TestRepositoryElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"a": "a\n"})
	must(t, os.Rename(w.in("workspace/.git"), w.in("elsewhere")))
	write(t, w.in("workspace"), files{".git": "gitdir: " + w.in("elsewhere") + "\n"})
	w.wantGit("", "status", "--porcelain")
	write(t, w.in(id), files{"a": "agent\n"})
	if _, err := w.commit(""); fserr.CodeOf(err) != fserr.EACCES {
		t.Errorf("a commit to a repository outside: %v", err)
	}
	same(t, "the file", files{"a": read(t, w.in("workspace"))["a"]}, files{"a": "a\n"})
}

// Another program commits after Apply has merged: nothing is done, in no repository.
func TestCommitMadeMeanwhileIsKept(t *testing.T) {
	t.Parallel()
	for _, branch := range []string{"", "side"} {
		t.Run("branch "+branch, func(t *testing.T) {
			t.Parallel()
			w := newForest(t)
			w.gitIn("workspace/lib", "branch", "side")
			ref := "refs/heads/side"
			if branch == "" {
				ref = "refs/heads/main"
			}
			write(t, w.in(id), files{"app/a": "agent\n", "lib/b": "agent\n"})
			var other string
			w.at(phaseTaken, func() {
				if branch == "" {
					if out, err := w.tryGit("workspace/lib", "commit", "-q", "--allow-empty", "-m", "by index"); err == nil {
						t.Errorf("git commit did not wait for the index: %s", out)
					}
				}
				other = w.gitIn("workspace/lib", "commit-tree", "-p", ref, "-m", "other", ref+"^{tree}")
				w.gitIn("workspace/lib", "update-ref", ref, other)
			})
			before := w.gitIn("workspace/app", "rev-parse", "HEAD")
			_, err := w.commit(branch, "app/a", "lib/b")
			wantReason(t, err, Conflicting)
			if got := w.gitIn("workspace/lib", "rev-parse", ref); got != other {
				t.Errorf("%s is %s, not the other's commit", ref, got)
			}
			if got := w.gitIn("workspace/app", "rev-parse", "HEAD"); got != before {
				t.Errorf("app has a commit")
			}
			if out, err := w.tryGit("workspace/app", "rev-parse", "-q", "--verify", "side"); err == nil {
				t.Errorf("app has the branch: %s", out)
			}
			got := read(t, w.in("workspace"))
			same(t, "the files", files{"a": got["app/a"], "b": got["lib/b"]}, files{"a": "a\n", "b": "b\n"})
			w.sound("workspace/app")
			w.sound("workspace/lib")
			w.at("", func() {})
			w.mustCommit(branch, "app/a", "lib/b")
		})
	}
}

// git reads a file's content again if the index is not younger than the file. A new index that looked younger would hide the user's edit.
func TestIndexStaysAsOldAsItWas(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"a": "a\n", "mine": "one\n"})
	w.gitIn("workspace", "config", "core.trustctime", "false")
	w.gitIn("workspace", "config", "core.checkStat", "minimal")
	at := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(w.in("workspace/mine"), at, at))
	w.gitIn("workspace", "update-index", "--refresh")
	must(t, os.WriteFile(w.in("workspace/mine"), []byte("two\n"), 0o600))
	for _, name := range []string{"workspace/mine", "workspace/.git/index"} {
		must(t, os.Chtimes(w.in(name), at, at))
	}
	write(t, w.in(id), files{"a": "agent\n"})
	w.mustCommit("", "a")
	w.wantGit(" M mine", "status", "--porcelain")
}

// The user commits in a loop while changes are applied. Each commit that either says it made is in the history, and nothing of the user's is lost.
func TestCommitBesideAUserWhoCommits(t *testing.T) {
	t.Parallel()
	const rounds = 6
	w := newRepos(t, files{"a": "0\n", "mine": "0\n"})
	user := make(chan int)
	go func() {
		made := 0
		for i := range rounds {
			if err := os.WriteFile(w.in("workspace/mine"), []byte(strconv.Itoa(i)+"\n"+numbered(i)), 0o600); err != nil {
				t.Error(err)
			}
			if _, err := w.tryGit("workspace", "commit", "-qm", "user", "mine"); err == nil { // git fails if the index is locked
				made++
			}
		}
		user <- made
	}()
	agent := 0
	for i := range rounds {
		write(t, w.in(id), files{"a": strconv.Itoa(i+1) + "\n"})
		_, err := w.commit("", "a")
		var refused *Error
		switch {
		case err == nil:
			agent++
		case !errors.As(err, &refused) || (refused.Reason != RepositoryBusy && refused.Reason != Conflicting):
			t.Errorf("round %d: %v", i, err)
		}
	}
	made := <-user
	w.wantGit(strconv.Itoa(made), "rev-list", "--count", "--grep=user", "HEAD")
	w.wantGit(strconv.Itoa(agent), "rev-list", "--count", "--grep=Subject", "HEAD")
	same(t, "the user's file", files{"mine": read(t, w.in("workspace"))["mine"]}, files{"mine": strconv.Itoa(rounds-1) + "\n" + numbered(rounds-1)})
	write(t, w.in(id), files{"a": "last\n"})
	w.mustCommit("", "a")
	if got := w.gitIn("workspace", "status", "--porcelain"); got != "" && got != " M mine" {
		t.Errorf("the status is %q", got)
	}
	w.sound("workspace")
	t.Logf("%d commits of the user, %d of the agent", made, agent)
}

// TestCommitOfFilteredFilesIsRefused has files that a filter program encrypts, or stores elsewhere. Without it git would get them in plain text.
func TestCommitOfFilteredFilesIsRefused(t *testing.T) {
	for name, attributes := range map[string]files{
		"git-crypt":          {".gitattributes": "*.key filter=git-crypt diff=git-crypt\n"},
		"LFS":                {".gitattributes": "*.key filter=lfs -text\n"},
		"in a directory":     {"secrets/.gitattributes": "*.key filter=x\n"},
		"info/attributes":    {".git/info/attributes": "*.key filter=x\n"},
		"not committed yet":  {".gitattributes": "*.key filter=x\n"},
		"a macro's filter":   {".gitattributes": "[attr]secret filter=x\n*.key secret\n"},
		"an attributes twin": {".gitattributes": "*.key filter=x\n", "secrets/.gitattributes": "*.key -text\n"},
	} {
		t.Run(name, func(t *testing.T) {
			content := files{"plain": "plain\n", "secrets/old.key": "old\n"}
			if name != "not committed yet" {
				for p, text := range attributes {
					if p != ".git/info/attributes" {
						content[p] = text
					}
				}
			}
			w := newRepos(t, content)
			write(t, w.in("workspace"), attributes)
			if name == "not committed yet" { // the context was seeded with it
				write(t, w.in("layer"), attributes)
				write(t, w.in(id), attributes)
				var err error
				w.manifest, err = manifestOf(w.in("layer"))
				must(t, err)
			}
			write(t, w.in(id), files{"secrets/new.key": "s3cret\n", "plain": "edited\n"})
			// Objects that nothing refers to may be there, as after git add.
			state := func() files {
				out := read(t, w.in("workspace"))
				maps.DeleteFunc(out, func(p, _ string) bool { return strings.HasPrefix(p, ".git/objects/") })
				return out
			}
			before := state()
			for _, branch := range []string{"", "side"} {
				_, err := w.commit(branch)
				if e := wantReason(t, err, NeedsFilter); len(e.Paths) != 1 || e.Paths[0] != "secrets/new.key" {
					t.Errorf("refused are %v", e.Paths)
				}
			}
			same(t, "after the refusals", state(), before)
			w.mustCommit("", "plain")
			write(t, w.in(id), files{"secrets/old.key": "edited\n"})
			_, err := w.commit("", "secrets/old.key")
			wantReason(t, err, NeedsFilter)
			w.apply(ApplyRequest{Selection: &Selection{All: true}, Approve: true})
			w.wantGit("plain", "show", "--name-only", "--format=", "HEAD")
			w.sound("workspace")
		})
	}
}

// TestCommitOfConvertedFiles has check-outs whose files differ from what git stores.
func TestCommitOfConvertedFiles(t *testing.T) {
	for _, c := range []struct {
		name       string
		config     []string
		attributes string
	}{
		{"core.autocrlf", []string{"core.autocrlf", "true"}, ""},
		{"text eol=crlf", nil, "* text eol=crlf\n"},
		{"core.autocrlf=input", []string{"core.autocrlf", "input"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
			content := files{"old": crlf(numbered(9)), "gone": crlf("gone\n"), "mixed": "a\n"}
			if c.attributes != "" {
				content[".gitattributes"] = c.attributes
			}
			w := repos{newWorld(t, content)}
			w.init("workspace")
			if c.config != nil {
				w.gitIn("workspace", append([]string{"config"}, c.config...)...)
			}
			w.gitIn("workspace", "add", "-A")
			w.gitIn("workspace", "commit", "-qm", "first")
			write(t, w.in("workspace"), files{"old": crlf(numbered(9) + "the user's\n")})
			edited := crlf(byAgent(numbered(9)))
			write(t, w.in(id), files{"old": edited, "new": crlf("new\n"), "new-lf": "new\n"})
			remove(t, w.in(id), "gone")
			for _, branch := range []string{"side", ""} {
				w.mustCommit(branch)
				at := map[string]string{"side": "side", "": "HEAD"}[branch]
				stored := files{"old": byAgent(numbered(9)), "new": "new\n", "new-lf": "new\n"}
				for p, want := range stored {
					if got := w.gitIn("workspace", "cat-file", "blob", at+":"+p); got+"\n" != want {
						t.Errorf("%s of %s is %q, want %q", p, at, got, want)
					}
				}
				if _, err := w.tryGit("workspace", "cat-file", "-e", at+":gone"); err == nil {
					t.Errorf("%s has the file that was removed", at)
				}
				if branch == "side" { // its base has moved: another context commits to what is checked out
					_, err := w.undo(1)
					must(t, err)
				}
			}
			same(t, "the folder", files{"old": read(t, w.in("workspace"))["old"]}, files{"old": crlf(byAgent(numbered(9)) + "the user's\n")})
			w.wantGit(" M old", "status", "--porcelain")
			w.sound("workspace")
		})
	}
}

// TestCommitKeepsWhatTheIndexHides has files whose local edits the user hides from git.
func TestCommitKeepsWhatTheIndexHides(t *testing.T) {
	w := newRepos(t, files{"skipped": numbered(9), "assumed": numbered(9), "both": numbered(9), "plain": numbered(9), "other": "other\n"})
	w.gitIn("workspace", "update-index", "--skip-worktree", "skipped", "both", "other")
	w.gitIn("workspace", "update-index", "--assume-unchanged", "assumed", "both")
	local := numbered(9) + "the user's own\n"
	write(t, w.in("workspace"), files{"skipped": local, "assumed": local, "both": local})
	flags := w.gitIn("workspace", "ls-files", "-v")
	write(t, w.in(id), files{"skipped": byAgent(numbered(9)), "assumed": byAgent(numbered(9)), "both": byAgent(numbered(9)), "plain": byAgent(numbered(9))})
	e := w.mustCommit("")
	w.wantGit(flags, "ls-files", "-v")
	w.wantGit("", "status", "--porcelain")
	for _, p := range []string{"skipped", "assumed", "both", "plain"} {
		w.wantGit(strings.TrimRight(byAgent(numbered(9)), "\n"), "show", "HEAD:"+p)
	}
	same(t, "the folder", files{"both": read(t, w.in("workspace"))["both"]}, files{"both": byAgent(local)})
	_, err := w.reviews.Undo(t.Context(), UndoRequest{ID: e.ID, Actor: "host", Commit: &CommitOptions{Message: "back"}, May: func(*Entry) error { return nil }})
	must(t, err)
	w.wantGit(flags, "ls-files", "-v")
	w.wantGit("", "status", "--porcelain")
	// An entry that is removed, and one that is made again, have none.
	write(t, w.in("workspace"), files{"skipped": numbered(9), "assumed": numbered(9)})
	remove(t, w.in(id), "skipped", "assumed")
	w.mustCommit("")
	w.gitIn("workspace", "commit", "-q", "--allow-empty", "-m", "nothing surfaces")
	w.wantGit("s both\nS other\nH plain", "ls-files", "-v")
	w.sound("workspace")
}

// TestFiltersThatTheBaseDoesNotName has attributes that the context was not seeded with.
func TestFiltersThatTheBaseDoesNotName(t *testing.T) {
	t.Parallel()
	const attributes = "*.key filter=git-crypt\n"
	for name, set := range map[string]func(w repos){
		"in the working tree": func(w repos) { write(t, w.in("workspace"), files{"secrets/.gitattributes": attributes}) },
		"committed since": func(w repos) {
			write(t, w.in("workspace"), files{".gitattributes": attributes})
			w.gitIn("workspace", "add", ".gitattributes")
			w.gitIn("workspace", "commit", "-qm", "attributes")
		},
		"in the index": func(w repos) {
			write(t, w.in("workspace"), files{".gitattributes": attributes})
			w.gitIn("workspace", "add", ".gitattributes")
			remove(t, w.in("workspace"), ".gitattributes")
		},
		"core.attributesFile": func(w repos) {
			write(t, w.dir, files{"attributes": attributes})
			w.gitIn("workspace", "config", "core.attributesFile", w.in("attributes"))
		},
		"on the other branch": func(w repos) {
			w.gitIn("workspace", "checkout", "-qb", "side")
			write(t, w.in("workspace"), files{".gitattributes": attributes})
			w.gitIn("workspace", "add", ".gitattributes")
			w.gitIn("workspace", "commit", "-qm", "attributes")
			w.gitIn("workspace", "checkout", "-q", "main")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepos(t, files{"plain": "plain\n", "secrets/old.key": "old\n"})
			w.t = t
			set(w)
			write(t, w.in(id), files{"secrets/new.key": "s3cret\n"})
			branch := ""
			if name == "on the other branch" {
				branch = "side"
			}
			_, err := w.commit(branch)
			wantReason(t, err, NeedsFilter)
		})
	}
}
