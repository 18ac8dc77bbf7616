package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestFlushRefTakesWhatIsThere flushes a branch with a reflog, one without, and refs that are reached through a link.
func TestFlushRefTakesWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
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

// place is an FS of which only the folder is needed.
type place struct {
	FS
	dir string
}

func (p place) Dir() string { return p.dir }
