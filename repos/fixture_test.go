package repos

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/git/gittest"
	"github.com/ctxfs/ctxfs/internal/long"
	"github.com/ctxfs/ctxfs/review"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDirEnv); dir != "" && killed != nil {
		if err := killed(dir); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A check makes repositories and runs git. The command line has the last word.
	if err := flag.Set("rapid.checks", strconv.Itoa(long.Of(30, 100))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// killDirEnv makes the test binary a server of the world in that directory, which kills itself.
const killDirEnv = "CTXFS_REPOS_KILL_DIR"

// space is gittest.Workspace under another name, since review.Contexts has a method of that one.
type space = gittest.Workspace

// world is a workspace with git repositories, its layer, and a context in a plain folder.
type world struct {
	*space
	t        testing.TB
	dir      string
	manifest *seed.Manifest
	reviews  *review.Reviews
	repos    *Repos
}

const ctxID = "ctx_a"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newWorld makes a workspace. Call seed once it has its files.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := gittest.New(t)
	return &world{space: w, t: t, dir: w.State}
}

// seed makes the layer and the context from the workspace, and opens both.
func (w *world) seed(repositories ...string) {
	w.t.Helper()
	for _, name := range []string{"layer", ctxID} {
		must(w.t, copyTree(w.Dir, filepath.Join(w.dir, name)))
	}
	var err error
	w.manifest, err = manifestOf(filepath.Join(w.dir, "layer"))
	must(w.t, err)
	for _, p := range repositories {
		state, err := git.Status(w.t.Context(), w.In(p))
		must(w.t, err)
		w.manifest.Repos = append(w.manifest.Repos, seed.Repository{Path: p, Head: state.Head, Branch: state.Branch, Dirty: state.Dirty})
	}
	w.open()
	w.t.Cleanup(func() { must(w.t, w.reviews.Close()) })
}

// open opens the reviews and the repositories, as a server does at its start.
func (w *world) open() {
	w.t.Helper()
	must(w.t, w.reopen(w.t.Context()))
}

func (w *world) reopen(ctx context.Context) (err error) {
	staged, scratch := filepath.Join(w.dir, "git"), filepath.Join(w.dir, "scratch")
	// A server sweeps its directory for scratch when it starts.
	if err := errors.Join(os.RemoveAll(scratch), os.MkdirAll(scratch, 0o700)); err != nil {
		return err
	}
	w.reviews, err = review.Open(ctx, review.Config{
		Contexts: w, Dir: filepath.Join(w.dir, "review"), Workspace: w.Dir, Used: func() ([]string, error) { return Contents(staged) },
	})
	if err != nil {
		return err
	}
	w.repos, err = Open(ctx, Config{Reviews: w.reviews, Dir: staged, Workspace: w.Dir, Git: git.Options{Scratch: scratch}})
	return err
}

// inContext returns the path of a file of the context.
func (w *world) inContext(p string) string { return filepath.Join(w.dir, ctxID, filepath.FromSlash(p)) }

// edit writes files of the context: a content, "-> target" for a link, "+x content" for an executable, "" to remove.
func (w *world) edit(files map[string]string) {
	w.t.Helper()
	for _, p := range slices.Sorted(maps.Keys(files)) { // what is removed makes room
		name, text := w.inContext(p), files[p]
		must(w.t, os.RemoveAll(name))
		if text == "" {
			continue
		}
		must(w.t, os.MkdirAll(filepath.Dir(name), 0o755))
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			must(w.t, os.Symlink(target, name))
			continue
		}
		text, run := strings.CutPrefix(text, "+x ")
		mode := os.FileMode(0o644)
		if run {
			mode = 0o755
		}
		must(w.t, os.WriteFile(name, []byte(text), mode))
		must(w.t, os.Chmod(name, mode))
	}
}

func (w *world) stage(req StageRequest) (*Staged, error) {
	w.t.Helper()
	req.Context = ctxID
	if req.Message == "" {
		req.Message = "Change it"
	}
	if req.Author == "" {
		req.Author = "Agent <agent@example.com>"
	}
	return w.repos.Stage(w.t.Context(), req)
}

func (w *world) mustStage(req StageRequest) *Staged {
	w.t.Helper()
	s, err := w.stage(req)
	must(w.t, err)
	return s
}

func (w *world) discard(s *Staged) error {
	w.t.Helper()
	_, err := w.repos.Discard(w.t.Context(), s.ID, false)
	return err
}

// staged runs git in the repository of a staged commit, and returns what it prints.
func (w *world) gitStaged(s *Staged, args ...string) string {
	w.t.Helper()
	return w.Git(".", nil, append([]string{"--git-dir=" + w.repos.dirOf(s.ID)}, args...)...)
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		target := filepath.Join(to, rel)
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type() == fs.ModeSymlink:
			link, err := os.Readlink(name)
			return errors.Join(err, os.Symlink(link, target))
		}
		data, err := os.ReadFile(name)
		return errors.Join(err, os.WriteFile(target, data, info.Mode().Perm()))
	})
}

func manifestOf(dir string) (*seed.Manifest, error) {
	root, err := rootfs.Open(dir, rootfs.Options{})
	if err != nil {
		return nil, err
	}
	var entries []seed.Entry
	err = root.Walk(context.Background(), "/", tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		target := ""
		if e.Type == rootfs.TypeSymlink {
			target, err = root.Readlink(rel)
		}
		entries = append(entries, seed.NewEntry(rel, *e.Stat, target))
		return err
	})
	return seed.NewManifest(nil, entries), errors.Join(err, root.Close())
}

// Frozen implements review.Contexts.
func (w *world) Frozen(ctx context.Context, id string, f func(context.Context, rootfs.Root) error) error {
	root, err := rootfs.Open(filepath.Join(w.dir, id), rootfs.Options{})
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, root), root.Close())
}

// Reading implements review.Contexts.
func (w *world) Reading(ctx context.Context, id string, f func(context.Context, rootfs.Root) error) error {
	return w.Frozen(ctx, id, f)
}

// Beside implements review.Contexts.
func (w *world) Beside(ctx context.Context, id string, f func(context.Context, rootfs.Root) error) error {
	return w.Frozen(ctx, id, f)
}

// Changing implements review.Contexts.
func (w *world) Changing(ctx context.Context, id string, f func(rootfs.Root, review.Charge) error) error {
	return w.Replacing(ctx, id, f)
}

// Replacing implements review.Contexts.
func (w *world) Replacing(ctx context.Context, id string, f func(rootfs.Root, review.Charge) error) error {
	return w.Frozen(ctx, id, func(_ context.Context, root rootfs.Root) error {
		return f(root, func(int64, int64) error { return nil })
	})
}

// Origin implements review.Contexts.
func (w *world) Origin(context.Context, string) (review.Origin, error) {
	return review.Origin{Digest: "digest", Tree: filepath.Join(w.dir, "layer"), Manifest: w.manifest}, nil
}

// Workspace implements review.Contexts.
func (w *world) Workspace(context.Context, string) (*seed.Scan, error) {
	return nil, errors.ErrUnsupported
}

// Snapshots implements review.Contexts.
func (w *world) Snapshots(context.Context, string) ([]review.Snapshot, error) { return nil, nil }

// Snapshot implements review.Contexts.
func (w *world) Snapshot(context.Context, string, string) (review.SnapshotView, error) {
	return review.SnapshotView{}, errors.ErrUnsupported
}

// treeOf returns the files of a directory with modes, times and contents, git's own included.
func treeOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case d.Type() == fs.ModeSymlink:
			link, e := os.Readlink(name)
			what, err = what+" "+link, e
		case d.Type().IsRegular():
			data, e := os.ReadFile(name)
			what, err = what+" "+info.ModTime().String()+" "+string(data), e
		}
		out[strings.TrimPrefix(name, dir)] = what
		return err
	}))
	return out
}

func sameTree(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	for p, text := range want {
		if got[p] != text {
			t.Errorf("%s: %s is %.300q, was %.300q", what, p, got[p], text)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: %s is new", what, p)
		}
	}
}

// refusedAs checks that an error is a refusal for a reason, and that it says something.
func refusedAs(t testing.TB, err error, reason Reason, says string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != reason || !strings.Contains(e.Error(), says) {
		t.Fatalf("got %v, want %s with %q", err, reason, says)
	}
	return e
}

// invalid checks an error that is no refusal of this package.
func invalid(t testing.TB, err error, code fserr.Code, says string) {
	t.Helper()
	if fserr.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		t.Fatalf("got %v, want %v with %q", err, code, says)
	}
}

// checkout returns the files of a staged commit as a checkout without conversions has them.
func (w *world) checkout(s *Staged) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, line := range strings.Split(strings.TrimSuffix(w.gitStaged(s, "ls-tree", "-r", "-z", s.Commit), "\x00"), "\x00") {
		what, p, _ := strings.Cut(line, "\t")
		f := strings.Fields(what)
		if len(f) != 3 || f[1] != "blob" {
			continue
		}
		cmd := exec.Command("git", "--git-dir="+w.repos.dirOf(s.ID), "cat-file", f[1], f[2])
		content, err := cmd.Output()
		must(w.t, err)
		out[p] = map[string]string{"100644": "", "100755": "+x ", "120000": "-> "}[f[0]] + string(content)
	}
	return out
}

// filesOfDir returns the files of a directory in the form of edit.
func filesOfDir(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(name)
			out[rel] = "-> " + target
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		out[rel] = string(data)
		if info.Mode()&0o111 != 0 {
			out[rel] = "+x " + out[rel]
		}
		return err
	}))
	return out
}

// write writes a file of the workspace in the form of edit.
func (w *world) write(p, text string) {
	w.t.Helper()
	if target, ok := strings.CutPrefix(text, "-> "); ok {
		must(w.t, os.MkdirAll(filepath.Dir(w.In(p)), 0o755))
		must(w.t, os.Symlink(target, w.In(p)))
		return
	}
	text, run := strings.CutPrefix(text, "+x ")
	w.Write(p, text)
	if run {
		must(w.t, os.Chmod(w.In(p), 0o755))
	}
}

func sum(content string) string {
	h := sha256.Sum256([]byte(content))
	return hex.EncodeToString(h[:])
}

func seeded(p, head string) seed.Repository {
	return seed.Repository{Path: p, Head: head, Branch: "main"}
}

// random returns so many bytes that do not compress.
func random(n int) string {
	data := make([]byte, n)
	_, _ = rand.Read(data) // it never fails
	return string(data)
}
