package review

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCommitsOfAContextAreNotLost makes repositories in a context whose files are those of the base, or are ignored.
func TestCommitsOfAContextAreNotLost(t *testing.T) {
	t.Parallel()
	const (
		commit = "git init -q -b main && git add -A && git commit -q -m one; "
		clone  = "git init -q -b main $TOP/../remote && git -C $TOP/../remote commit -q --allow-empty -m one && git -C $TOP/../remote tag -a -m v1 v1;" +
			"mkdir -p ignored && cd ignored && git clone -q file://$TOP/../remote own && cd own; "
	)
	for name, row := range map[string]struct {
		script  string
		commits []Path
		changes int
	}{
		"no repository":                   {"true", nil, 0},
		"no commit":                       {"git init -q && git add -A", nil, 0},
		"a commit":                        {commit, []Path{""}, 0},
		"the base, as the docs have it":   {"git init && git add -A && git commit -m base && git update-ref refs/remotes/base HEAD", nil, 0},
		"a commit on that base":           {commit + "git update-ref refs/remotes/base HEAD; git commit -q --allow-empty -m two", []Path{""}, 0},
		"a commit in a directory":         {"cd d; " + commit, []Path{"d"}, 0},
		"a commit in an ignored one":      {"mkdir -p ignored/x; cd ignored/x; git init -q && git commit -q --allow-empty -m one", []Path{"ignored/x"}, 0},
		"two repositories":                {commit + "cd d; " + commit, []Path{"", "d"}, 0},
		"packed refs":                     {commit + "git pack-refs --all", []Path{""}, 0},
		"a tag of a commit":               {commit + "git tag v1; git pack-refs --all", []Path{""}, 0},
		"a detached HEAD alone":           {commit + "git checkout -q --detach; git branch -q -D main", []Path{""}, 0},
		"a ref that is no branch":         {commit + "git update-ref refs/notes/x HEAD; git checkout -q --orphan new; git branch -q -D main", []Path{""}, 0},
		"the repository removed":          {commit + "rm -r .git", nil, 0},
		"a change":                        {commit + "echo x >d/c", nil, 1},
		"a change elsewhere":              {"echo x >a; cd d; " + commit, []Path{"d"}, 1},
		"a change that was ignored":       {commit + "echo x >x.log", []Path{""}, 0},
		"a clone":                         {clone, nil, 0},
		"a clone, packed":                 {clone + "git pack-refs --all", nil, 0},
		"a clone of a tag":                {clone + "cd ..; rm -rf own; git clone -q --depth 1 -b v1 file://$TOP/../remote own 2>/dev/null", nil, 0},
		"a commit in a clone":             {clone + "git commit -q --allow-empty -m two", []Path{"ignored/own"}, 0},
		"a commit of a clone, pushed":     {clone + "git commit -q --allow-empty -m two; git push -q origin main:two", nil, 0},
		"a FIFO for each file":            {"mkdir -p .git/refs/heads; mkfifo .git/HEAD .git/packed-refs .git/refs/heads/main", nil, 0},
		"a FIFO for the refs":             {"mkdir .git; mkfifo .git/refs", nil, 0},
		"links for each file":             {commit + "mv .git ../real; mkdir -p .git/refs/heads; for f in HEAD packed-refs refs/heads/main; do ln -s $TOP/../real/$f .git/$f; done", nil, 0},
		"a link for the refs":             {commit + "mv .git ../real; mkdir .git; ln -s $TOP/../real/refs .git/refs", nil, 0},
		"a link for the repository":       {commit + "mv .git ../real; ln -s $TOP/../real .git", nil, 0},
		"a file for the repository":       {"git init -q --separate-git-dir=$TOP/../real", nil, 0},
		"no IDs":                          {"mkdir -p .git/refs/heads; echo h >.git/HEAD; echo ref: x >.git/refs/heads/a; printf %040d 0 >.git/refs/heads/b; echo beef >.git/refs/heads/c", nil, 0},
		"refs in a new format":            {"git init -q; mkdir .git/reftable", []Path{""}, 0},
		"packed refs without an end":      {"git init -q; truncate -s 100G .git/packed-refs", []Path{""}, 0},
		"a ref without an end":            {"git init -q; truncate -s 100G .git/refs/heads/main", []Path{""}, 0},
		"a HEAD without an end":           {"git init -q; truncate -s 100G .git/HEAD", []Path{""}, 0},
		"too many refs":                   {"git init -q; cd .git/refs/heads; seq 1001 | xargs touch", []Path{""}, 0},
		"more than one look reads":        {"for i in 1 2 3 4 5 6 7 8 9; do mkdir -p d/$i/.git; truncate -s 8M d/$i/.git/packed-refs; done", []Path{"d/9"}, 0},
		"a directory named .GIT":          {commit + "mv .git .GIT", []Path{""}, 0},
		"a commit that the base has":      {"cd base && git init -q && git commit -q --allow-empty -m one", nil, 0},
		"a commit, and a file named .git": {commit + "echo x >d/.git", []Path{""}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"a": "a\n", "d/b": "b\n", "base/.git/description": "d\n", ".gitignore": "ignored/\n*.log\n"})
			w.snapshot("clean")
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", row.script)
			cmd.Dir = w.in(id)
			cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+w.dir, "TOP="+w.in(id),
				"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got, err := w.reviews.Losing(t.Context(), id, false)
			must(t, err)
			if !slices.Equal(got.Commits, row.commits) || len(got.Changes) != row.changes {
				t.Errorf("commits in %q and the changes %q would be lost, want %q and %d", got.Commits, got.Changes, row.commits, row.changes)
			}
			err = w.reviews.Unapplied(t.Context(), id)
			if len(row.commits) == 0 && row.changes == 0 {
				must(t, err)
				return
			}
			if e := wantReason(t, err, NotApplied); len(row.commits) > 0 && !strings.Contains(e.Detail, got.CommitsText()) {
				t.Errorf("the refusal is %v", e)
			}
		})
	}
}

// TestSnapshotsHoldCommits takes a snapshot of commits, which are the only copy of them once the context has no repository.
func TestSnapshotsHoldCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "a\n"})
	gitIn(t, w.in(id), nil, "init", "-q")
	must(t, os.WriteFile(filepath.Join(w.in(id), ".git", "refs", "heads", "main"), []byte(strings.Repeat("1", 40)+"\n"), 0o600))
	w.snapshot("s")
	must(t, os.RemoveAll(filepath.Join(w.in(id), ".git")))
	got, err := w.reviews.Losing(t.Context(), id, true)
	must(t, err)
	if len(got.Commits) > 0 || !slices.Equal(got.Snapshots, []LosingSnapshot{{"s", 1}}) {
		t.Errorf("got %+v", got)
	}
}

func TestCommitsTextNamesDirectories(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]Losing{
		"commits in / that are not in the workspace":                  {Commits: []Path{""}},
		"commits in /, a, b and 1 more that are not in the workspace": {Commits: []Path{"", "a", "b", "c"}},
	} {
		if got := l.CommitsText(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
