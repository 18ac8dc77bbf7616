package template

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// workspace is a folder with real git repositories, and where templates are built.
type workspace struct {
	t     testing.TB
	dir   string
	state string
	base  string
}

func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := &workspace{t: t, dir: dir, state: t.TempDir()}
	for _, d := range []string{"layers", "staging", "locks"} {
		must(t, os.Mkdir(filepath.Join(w.state, d), 0o700))
	}
	return w
}

func (w *workspace) in(p string) string { return filepath.Join(w.dir, filepath.FromSlash(p)) }

func (w *workspace) write(p, content string) {
	w.t.Helper()
	must(w.t, os.MkdirAll(filepath.Dir(w.in(p)), 0o755))
	must(w.t, os.WriteFile(w.in(p), []byte(content), 0o644))
}

// template writes a template into the folder p.
func (w *workspace) template(p string, lines ...string) {
	w.t.Helper()
	w.write(p+"/"+FileName, strings.Join(lines, "\n")+"\n")
}

// gitIn runs git as a person would, in a folder of the workspace.
func (w *workspace) gitIn(p string, stdin []byte, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-C", w.in(p)}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// repo makes a repository with one commit of the files and returns the commit.
func (w *workspace) repo(p string, files ...string) string {
	w.t.Helper()
	must(w.t, os.MkdirAll(w.in(p), 0o755))
	w.gitIn(p, nil, "init", "-q", "-b", "main")
	return w.commit(p, files...)
}

// commit writes files ("name=content") and commits everything.
func (w *workspace) commit(p string, files ...string) string {
	w.t.Helper()
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		w.write(p+"/"+name, content)
	}
	w.gitIn(p, nil, "add", "-A")
	w.gitIn(p, nil, "commit", "-q", "--allow-empty", "-m", "c")
	return w.gitIn(p, nil, "rev-parse", "HEAD")
}

func (w *workspace) source() seed.Source {
	w.t.Helper()
	root, err := rootfs.Open(w.dir, rootfs.Options{FollowMounts: true})
	must(w.t, err)
	w.t.Cleanup(func() { _ = root.Close() })
	return seed.Source{Root: root, Dir: w.dir, Avoid: ".contexts"}
}

func (w *workspace) resolver() *Resolver {
	w.t.Helper()
	r, err := NewResolver(w.source(), Options{BaseURL: w.base, Scratch: filepath.Join(w.state, "staging")})
	must(w.t, err)
	w.t.Cleanup(func() { _ = r.Close() })
	return r
}

func (w *workspace) builder() *Builder {
	in := func(name string) string { return filepath.Join(w.state, name) }
	return NewBuilder(BuildOptions{Layers: in("layers"), Staging: in("staging"), Locks: in("locks")})
}

func (w *workspace) resolve(p string) (*Resolved, error) {
	return w.resolver().Resolve(context.Background(), p)
}

func (w *workspace) mustResolve(p string) *Resolved {
	w.t.Helper()
	r, err := w.resolve(p)
	must(w.t, err)
	return r
}

func (w *workspace) build(p string) (*Built, error) {
	w.t.Helper()
	return w.builder().Build(context.Background(), w.mustResolve(p), nil)
}

// staged lists what lies in staging.
func (w *workspace) staged() []string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.state, "staging"))
	must(w.t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// files lists a tree as path -> mode and content; directories are "d".
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		out[filepath.ToSlash(rel)], err = describeFile(p, e)
		return err
	}))
	return out
}

func describeFile(p string, e fs.DirEntry) (string, error) {
	info, err := e.Info()
	switch {
	case err != nil:
		return "", err
	case e.IsDir():
		return "d", nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(p)
		return "-> " + target, err
	}
	data, err := os.ReadFile(p)
	return info.Mode().String() + " " + string(data), err
}

// refusedAs checks an error: its errno, that its text names what it should, and no server path.
func (w *workspace) refusedAs(err error, code fserr.Code, says ...string) {
	w.t.Helper()
	if err == nil {
		w.t.Fatalf("it was not refused, want %v", code)
	}
	if got := fserr.CodeOf(err); got != code {
		w.t.Errorf("refused with %v, want %v: %v", got, code, err)
	}
	e := fserr.Wrap(err, "", "", "").Error()
	for _, s := range says {
		if !strings.Contains(e, s) {
			w.t.Errorf("the error %q does not say %q", e, s)
		}
	}
	for _, dir := range []string{w.dir, w.state} {
		if strings.Contains(e, dir) {
			w.t.Errorf("the error %q has a server path", e)
		}
	}
}
