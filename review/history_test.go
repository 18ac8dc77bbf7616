package review

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// historyEnv is how many commits of this repository are replayed; a few if it is not set.
const historyEnv = "CTXFS_HISTORY"

const fewCommits = 5

// git runs git in a directory, without the configuration of its user.
func gitIn(t testing.TB, dir string, stdin []byte, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

// checkout makes dir what a commit holds.
func checkout(t testing.TB, repo, commit, dir string) {
	t.Helper()
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o755))
	archive := exec.Command("git", "archive", commit)
	archive.Dir = repo
	untar := exec.Command("tar", "-x", "-C", dir)
	var err error
	untar.Stdin, err = archive.StdoutPipe()
	must(t, err)
	must(t, untar.Start())
	must(t, archive.Run())
	must(t, untar.Wait())
}

func TestHistoryOfThisRepository(t *testing.T) {
	repo, err := filepath.Abs("..")
	must(t, err)
	count := fewCommits
	if n, err := strconv.Atoi(os.Getenv(historyEnv)); err == nil {
		count = n
	}
	commits := strings.Fields(gitIn(t, repo, nil, "rev-list", "--first-parent", "--max-count="+strconv.Itoa(count+1), "HEAD"))
	if len(commits) < 3 {
		t.Skipf("the repository has %d commits: a shallow clone", len(commits))
	}
	slices.Reverse(commits)
	for i := range commits[1:] {
		from, to := commits[i], commits[i+1]
		if !t.Run(from+" to "+to, func(t *testing.T) { replay(t, repo, from, to) }) { // each removes its files
			return
		}
	}
}

// replay seeds a context with one commit, edits it to be the next, and applies all.
func replay(t *testing.T, repo, from, to string) {
	t.Helper()
	dir := t.TempDir()
	checkout(t, repo, from, filepath.Join(dir, "from"))
	checkout(t, repo, to, filepath.Join(dir, "to"))
	old, now := read(t, filepath.Join(dir, "from")), read(t, filepath.Join(dir, "to"))
	w := newWorld(t, old)
	must(t, os.RemoveAll(w.in(id)))
	must(t, os.Mkdir(w.in(id), 0o755))
	write(t, w.in(id), now)

	var patch bytes.Buffer
	var named []Selected
	l, err := w.reviews.Changes(t.Context(), Query{Context: id, Ignored: true})
	must(t, err)
	for _, c := range l.Changes {
		named = append(named, Selected{Path: c.Path, ChangeID: c.ID})
		must(t, c.patch(&patch, c.Path, func() (io.ReadCloser, error) { return l.base.open(l.base.lookup(c.Path)) }, fileOpener(w.in(id), c), 3))
	}
	must(t, l.Close())
	if len(named) == 0 {
		return
	}
	gitIn(t, filepath.Join(dir, "from"), patch.Bytes(), "apply", "--whitespace=nowarn", "-")
	same(t, "git apply", read(t, filepath.Join(dir, "from")), now)
	w.apply(ApplyRequest{Selection: &Selection{Changes: named}, Approve: true})
	same(t, "apply", read(t, w.in("workspace")), now)
}

func fileOpener(dir string, c *Change) opener {
	return func() (io.ReadCloser, error) {
		name := filepath.Join(dir, string(c.Path))
		target, err := os.Readlink(name)
		if err == nil {
			return io.NopCloser(strings.NewReader(target)), nil
		}
		f, err := os.Open(name)
		return f, errors.Join(err)
	}
}
