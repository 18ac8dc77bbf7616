package contexts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/memory"
	"github.com/ctxfs/ctxfs/metadata/sqlite"
)

// What the packages below keep to themselves, and these tests look for.
const (
	markSuffix, lockSuffix = ".using", ".context.lock"
	snapshotFile           = "snapshot.json"
	recheck                = time.Second
	unmountTime            = 3 * time.Second
)

// workspace is a folder with real repositories, and how to open Managers on it.
type workspace struct {
	t     testing.TB
	dir   string
	store metadata.Store
	// driver is of new contexts, others of those that are there.
	driver driver.Driver
	others []driver.Driver
}

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	return newWorkspaceFor(t)
}

// newWorkspaceFor is newWorkspace for benchmarks too.
func newWorkspaceFor(t testing.TB) *workspace {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &workspace{t: t, dir: dir, store: memory.New(), driver: copyfs.New(copyfs.Options{})}
}

// write makes a file and its parents.
func (w *workspace) write(name, content string) {
	w.t.Helper()
	p := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// fill makes n small files below dir.
func (w *workspace) fill(dir string, n int) {
	w.t.Helper()
	for i := range n {
		w.write(fmt.Sprintf("%s/d%d/f%d.txt", dir, i%20, i), fmt.Sprint("content ", i))
	}
}

// repo makes dir a git repository with everything in it committed.
func (w *workspace) repo(dir string) {
	w.t.Helper()
	w.git(dir, "init", "-q", "-b", "main")
	w.git(dir, "add", "-A")
	w.git(dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "--allow-empty", "-m", "first")
}

func (w *workspace) git(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", filepath.Join(w.dir, dir)}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// open opens a Manager, closed with the test; change may adapt the configuration.
func (w *workspace) open(change ...func(*Config)) *Manager {
	w.t.Helper()
	cfg := Config{Workspace: w.dir, Store: w.store, Driver: w.driver, Drivers: w.others, Version: "0.1.0"}
	for _, f := range change {
		f(&cfg)
	}
	m, err := Open(context.Background(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return m
}

// sqlite makes the workspace's records survive a process.
func (w *workspace) sqlite() {
	w.t.Helper()
	l, err := NewLayout(w.dir, "")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := l.Make("0.1.0"); err != nil {
		w.t.Fatal(err)
	}
	s, err := sqlite.Open(context.Background(), l.DB)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = s
	w.t.Cleanup(func() { _ = s.Close() })
}

// counting counts seedings, and waits in each until it is let go, when hold is set.
type counting struct {
	driver.Driver
	n    atomic.Int32
	hold chan struct{}
	fail atomic.Bool
}

func newCounting() *counting { return &counting{Driver: copyfs.New(copyfs.Options{})} }

func (c *counting) Prepare(ctx context.Context, src, dst string, progress func(driver.Progress)) error {
	c.n.Add(1)
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.fail.Load() {
		return &fserr.Error{Op: "copy", Code: fserr.EIO}
	}
	return c.Driver.Prepare(ctx, src, dst, progress)
}

func ensure(t testing.TB, m *Manager, id ID) Ensured {
	t.Helper()
	e, err := m.Ensure(context.Background(), id, EnsureOptions{}, nil)
	if err != nil {
		t.Fatalf("ensure %s: %v", id, err)
	}
	return e
}

// wantCode checks an error's errno, and that its text holds all parts.
func wantCode(t testing.TB, err error, code fserr.Code, parts ...string) {
	t.Helper()
	if fserr.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

// treeOf lists what is below dir: path, mode, mtime and link target or content.
func treeOf(t testing.TB, dir string, skip ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, s := range skip {
			if d.Name() == s {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		out[filepath.ToSlash(rel)], err = fingerprint(p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func fingerprint(p string) (string, error) {
	st, err := os.Lstat(p)
	if err != nil {
		return "", err
	}
	content := ""
	switch {
	case st.Mode()&os.ModeSymlink != 0:
		content, err = os.Readlink(p)
	case st.Mode().IsRegular():
		var data []byte
		data, err = os.ReadFile(p)
		content = string(data)
	}
	return fmt.Sprintf("%s %d %q", st.Mode(), st.ModTime().UnixNano(), content), err
}

func sameTree(t testing.TB, got, want map[string]string) {
	t.Helper()
	for p, w := range want {
		if g, ok := got[p]; !ok {
			t.Errorf("%s is missing", p)
		} else if g != w {
			t.Errorf("%s is %s, want %s", p, g, w)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s should not be there", p)
		}
	}
}

// gitFails runs git where it should find nothing to work on, and returns what it said.
func (w *workspace) gitFails(dir string, args ...string) string {
	w.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", filepath.Join(w.dir, dir)}, args...)...).CombinedOutput()
	if err == nil {
		w.t.Errorf("git %v succeeded: %s", args, out)
	}
	return string(out)
}

// promptly bounds what must not wait for anything, on a busy machine.
const promptly = clocktest.Patience

// inTime fails the test when f takes longer than promptly.
func inTime(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(2 * promptly):
		t.Fatalf("%s did not return", what)
	}
}

// wantSwept waits until staging holds nothing but its tag: a start empties it in the background.
func wantSwept(t testing.TB, m *Manager) {
	t.Helper()
	clocktest.Await(t, "staging is empty", func() bool {
		entries, err := os.ReadDir(m.cat.Layout.Staging)
		must(t, err)
		return len(entries) == 1
	})
}
