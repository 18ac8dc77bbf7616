package git_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// TestNoFileKeepsGitWaiting puts other things in the place of the files of a repository. Everything that reads the repository then ends before git's
// time is over, and names what would keep git waiting. The test runs some hundred commands, so it takes more than two seconds.
func TestNoFileKeepsGitWaiting(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	must(t, os.WriteFile(large, nil, 0o600))
	must(t, os.Truncate(large, 1<<40))
	kinds := map[string]func(path string) error{
		"FIFO":       func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"socket":     func(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) },
		"large file": func(path string) error { return os.Symlink(large, path) },
		"endless":    func(path string) error { return os.Symlink("/dev/zero", path) },
		"null":       func(path string) error { return os.Symlink(os.DevNull, path) },
		"directory":  func(path string) error { return os.Mkdir(path, 0o700) },
	}
	calls := map[string]func(ctx context.Context, w *workspace) error{
		"Status": func(ctx context.Context, w *workspace) error { _, err := git.Status(ctx, w.In("app")); return err },
		"ListFiles": func(ctx context.Context, w *workspace) error {
			_, err := git.ListFiles(ctx, w.In("app"), true)
			return err
		},
		"IsLocked": func(ctx context.Context, w *workspace) error { _, err := git.IsLocked(ctx, w.In("app")); return err },
		"Excluder": func(ctx context.Context, w *workspace) error {
			_, err := new(git.Excluder).Read(ctx, w.In("app"), 1<<20)
			return err
		},
		"Resolve": func(ctx context.Context, w *workspace) error {
			repo, err := w.open("app")
			if err == nil {
				_, err = repo.Resolve(ctx, "main")
			}
			return err
		},
		"Branches": func(ctx context.Context, w *workspace) error {
			repo, err := w.open("app")
			if err == nil {
				_, err = repo.(*git.Local).Branches(ctx)
			}
			return err
		},
		"Draft": func(ctx context.Context, w *workspace) error {
			repo, err := w.open("app")
			if err != nil {
				return err
			}
			d, err := repo.(*git.Local).DraftApart(ctx, "main")
			if err != nil {
				return err
			}
			defer func() { must(t, d.Close()) }()
			_, err = d.Filtered(ctx, []string{"f"})
			return err
		},
	}
	for _, file := range []string{
		".git", ".gitattributes", ".gitignore", ".gitmodules", ".git/HEAD", ".git/commondir", ".git/gitdir", ".git/index", ".git/config",
		".git/config.worktree", ".git/packed-refs", ".git/shallow", ".git/info/attributes", ".git/info/exclude", ".git/objects/info/alternates",
	} {
		for kind, put := range kinds {
			t.Run(file+" is a "+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorkspace(t)
				w.Repo("app", "f")
				path := w.In("app/" + file)
				must(t, os.RemoveAll(path))
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must(t, put(path))
				refused := kind != "directory" && kind != "null"
				named := 0
				for name, call := range calls {
					ended := make(chan error, 1)
					go func() { ended <- call(t.Context(), w) }()
					select {
					case err := <-ended:
						if fserr.CodeOf(err) == fserr.ETIMEDOUT {
							t.Errorf("%s: %v", name, err)
						}
						if err != nil && strings.Contains(err.Error(), filepath.Base(file)) {
							named++
						}
						if kind == "null" && git.Obstacle(err) != nil {
							t.Errorf("%s: %v", name, err)
						}
						if o := git.Obstacle(err); refused && name == "Status" && (o == nil || !strings.Contains(o.Detail, `"`+file+`"`)) {
							t.Errorf("%s: %v", name, err)
						}
					case <-time.After(2 * time.Minute):
						t.Fatalf("%s waits", name)
					}
				}
				if refused && named == 0 {
					t.Error("no call names the file")
				}
			})
		}
	}
}

// TestLinkedWorkingTreeWithoutFIFO looks for a FIFO in the directories of a linked working tree.
func TestLinkedWorkingTreeWithoutFIFO(t *testing.T) {
	for _, file := range []string{"app/.git/config", "app/.git/worktrees/linked/HEAD", "linked/.gitattributes"} {
		w := newWorkspace(t)
		w.Repo("app", "f")
		w.Git("app", nil, "worktree", "add", "-q", "../linked", "-b", "other")
		if _, err := git.Status(t.Context(), w.In("linked")); err != nil {
			t.Fatal(err)
		}
		must(t, os.RemoveAll(w.In(file)))
		must(t, syscall.Mkfifo(w.In(file), 0o600))
		if _, err := git.Status(t.Context(), w.In("linked")); git.Obstacle(err) == nil || fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestTimeoutNamesItsCauses lets git wait for a FIFO where none is looked for.
func TestTimeoutNamesItsCauses(t *testing.T) {
	w := newWorkspace(t)
	w.Repo("app", "d/f")
	w.reader = git.NewReader(git.Options{Scratch: w.scratch, Timeout: time.Second})
	must(t, syscall.Mkfifo(w.In("app/d/.gitattributes"), 0o600))
	repo, err := w.open("app")
	must(t, err)
	d, err := repo.(*git.Local).DraftApart(t.Context(), "main")
	must(t, err)
	defer func() { must(t, d.Close()) }()
	_, err = d.Filtered(t.Context(), []string{"d/f"})
	code, detail, hint := fserr.Parts(err)
	if code != fserr.ETIMEDOUT || !strings.Contains(detail, "FIFO") || !strings.Contains(hint, "find . ! -type f") {
		t.Errorf("%v: %q, %q", code, detail, hint)
	}
}
