package git

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

// gitIn runs git in a directory, and returns the line that it prints.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestFlushedRefSurvives moves refs, flushes them, and cuts the power.
func TestFlushedRefSurvives(t *testing.T) {
	t.Parallel()
	for seed, ref := range []string{"refs/heads/main", "refs/heads/new", "refs/heads/deep/er/new", "HEAD"} {
		d := powercut.New(t, uint64(seed)+1)
		dir := filepath.Join(d.At, "repo")
		gitIn(t, d.At, "init", "-q", "-b", "main", dir)
		gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
		commit := gitIn(t, dir, "commit-tree", "-m", "two", "HEAD^{tree}")
		l := &Local{tree: place{dir: dir}, git: ".git", common: ".git", shown: "/"}
		if err := durable.Tree(dir); err != nil {
			t.Fatal(err)
		}
		gitIn(t, dir, "-c", "core.fsync=reference", "update-ref", "--no-deref", ref, commit) // as a RefMove does
		if err := l.FlushRef(ref); err != nil {
			t.Fatal(err)
		}
		d.Cut()
		d.Resume()
		for _, name := range []string{ref, "logs/" + ref} {
			if text, err := os.ReadFile(filepath.Join(dir, ".git", name)); err != nil || !strings.Contains(string(text), commit) {
				t.Errorf("%s is %q, %v", name, text, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git", ref+".lock")); err == nil {
			t.Errorf("the lock of %s is back", ref)
		}
	}
}

// TestFlushRefTakesWhatIsThere flushes a branch with a reflog, one without, and refs that are reached through a link.
func TestFlushRefTakesWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) { gitIn(t, dir, args...) }
	run("init", "-q", "-b", "main")
	run("commit", "-q", "--allow-empty", "-m", "one")
	run("branch", "deep/er/name")
	l := &Local{tree: place{dir: dir}, git: ".git", common: ".git", shown: "/"}
	for _, linked := range []bool{false, true} {
		if linked {
			for _, name := range []string{"refs", "logs"} {
				from, to := filepath.Join(dir, ".git", name), filepath.Join(dir, name)
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(to, from); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, ref := range []string{"HEAD", "refs/heads/main", "refs/heads/deep/er/name", "refs/heads/missing/name"} {
			if err := l.FlushRef(ref); fserr.CodeOf(err) != 0 {
				t.Errorf("%s (linked: %v): %v", ref, linked, err)
			}
		}
	}
}

// TestFlushedObjectsSurvive has another git command make objects, which it does not flush, and cuts the power after FlushObjects.
func TestFlushedObjectsSurvive(t *testing.T) {
	disk := powercut.New(t, 1)
	git := func(input string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", disk.At}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q", "--bare")
	l := &Local{tree: place{dir: disk.At}, git: ".", common: ".", objects: "objects", shown: "/"}
	for round := range 8 {
		disk.Settle()
		var ids []string
		for n := range 5 {
			ids = append(ids, git(fmt.Sprint("content ", round, n), "hash-object", "-w", "--stdin"))
		}
		if round%2 == 1 {
			git(strings.Join(ids, "\n")+"\n", "pack-objects", "-q", "objects/pack/pack")
			git("", "prune-packed", "-q")
		}
		if err := l.FlushObjects(time.Now()); err != nil {
			t.Fatal(err)
		}
		disk.Cut()
		disk.Resume()
		for n, id := range ids {
			if got := git("", "cat-file", "blob", id); got != fmt.Sprint("content ", round, n) {
				t.Errorf("after cut %d, object %d is %q", round, n, got)
			}
		}
	}
}

// place is an FS of which only the folder is needed.
type place struct {
	FS
	dir string
}

func (p place) Dir() string { return p.dir }
