package history

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

const (
	// countEnv is how many commits and how many merges of each repository are repeated.
	countEnv = "CTXFS_HISTORY"
	// reposEnv lists repositories, which may be bare, separated as in PATH.
	reposEnv = "CTXFS_HISTORY_REPOS"
)

func TestMain(m *testing.M) {
	namespacestest.Main()
	goleak.VerifyTestMain(m)
}

// TestHistory repeats commits and merges that people made.
//
// A commit: the workspace has its parent checked out, a context gets the commit's files, and all changes are applied with a commit. Its tree must be that of
// the original, and the working tree must be clean.
//
// A merge: the context is seeded with the merge base and gets the files of the second parent, then the workspace checks out the first one, and the
// context is rebased. It must hold what git merges without following renames (ctxfs does not follow them), conflict where git does, and
// have git's conflict markers, or the context's file where there can be none.
func TestHistory(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv(countEnv))
	repos := filepath.SplitList(os.Getenv(reposEnv))
	if err != nil || len(repos) == 0 {
		t.Skipf("it needs repositories with long histories: %s names some, with %q between them, and %s how many commits and merges of each to repeat", reposEnv, filepath.ListSeparator, countEnv)
	}
	for _, repo := range repos {
		name := filepath.Base(filepath.Dir(repo)) + "/" + filepath.Base(repo)
		h := &history{t: t, dir: repo, excluded: map[string]int{}}
		commits, merges := h.pick(count, h.commits()), h.pick(count, h.merges())
		t.Logf("%s: %d commits with %s", name, len(commits), kindsOf(commits))
		t.Logf("%s: %d merges with %s", name, len(merges), kindsOf(merges))
		for _, why := range slices.Sorted(maps.Keys(h.excluded)) {
			t.Logf("%s: excluded %d: %s", name, h.excluded[why], why)
		}
		for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
			t.Run(name+"/"+driver, func(t *testing.T) {
				t.Parallel()
				if why := server.OverlayRefusal(t.Context(), t.TempDir()); driver == server.DriverOverlay && why != "" {
					t.Skip("overlay does not work here: " + why)
				}
				if driver == server.DriverOverlay {
					namespacestest.Mounting(t)
				}
				p := newPlace(t, repo, driver)
				for _, c := range commits {
					p.commit(c)
				}
				for _, c := range merges {
					p.merge(c)
				}
				t.Logf("%s, %s: %s", name, driver, p.sums)
			})
		}
	}
}

// sums count what was repeated.
type sums struct {
	commits, equalCommits, changes int
	merges, equalMerges            int
	clean, conflicting, unusual    int
	markers, dirty                 int
	conflicts                      map[string]int
}

func (s sums) String() string {
	return fmt.Sprintf("%d of %d commits are equal, with %d changed paths; %d of %d merges are equal: %d clean, %d with conflicts (%s), %d paths with equal markers; "+
		"git merge makes something else of %d, with renames, attributes and its histogram diff; left out %d whose checkout git itself finds changed",
		s.equalCommits, s.commits, s.changes, s.equalMerges, s.merges, s.clean, s.conflicting, counted(s.conflicts), s.markers, s.unusual, s.dirty)
}

// counted returns numbers with what they are of.
func counted(numbers map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		out = append(out, fmt.Sprintf("%d %s", numbers[name], name))
	}
	return strings.Join(out, ", ")
}

// place is a server with a workspace that has a repository, and another working tree of that.
type place struct {
	t         *testing.T
	client    *client.Client
	workspace string
	app       repository
	other     repository
	contexts  int
	sums      sums
}

func newPlace(t *testing.T, repo, driver string) *place {
	t.Helper()
	// The socket is in the workspace, and a path of a socket is short.
	dir, err := os.MkdirTemp("", "ctxfs")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &place{t: t, workspace: filepath.Join(dir, "w"), sums: sums{conflicts: map[string]int{}}}
	p.app, p.other = repository{t, filepath.Join(p.workspace, "app")}, repository{t, filepath.Join(dir, "other")}
	must(t, errors.Join(os.MkdirAll(p.app.dir, 0o755), os.Mkdir(p.other.dir, 0o755)))
	p.app.git("clone", "-q", "--no-checkout", repo, ".")
	p.app.git("config", "user.name", "Agent")
	p.app.git("config", "user.email", "agent@example.com")
	p.other.git("clone", "-q", "--no-checkout", "--shared", repo, ".")
	address := servertest.Start(t, p.workspace, func(cfg *server.Config) { cfg.Driver = driver })
	p.client, err = client.Dial(t.Context(), client.WithAddress(address), client.WithGetenv(func(string) string { return "" }))
	must(t, err)
	t.Cleanup(func() { must(t, p.client.Close()) })
	return p
}

// checkout makes the workspace's working tree that of a commit. It returns false if git finds that changed at once, as with line ends that its attributes
// do not allow.
func (p *place) checkout(commit string) bool {
	p.app.git("checkout", "-q", "--force", "--detach", commit)
	if p.app.git("status", "--porcelain") == "" {
		return true
	}
	p.app.git("reset", "-q", "--hard")
	p.sums.dirty++
	return false
}

// open seeds a context for a new panel. end removes it, and what it was seeded from.
func (p *place) open() (panel *client.Panel, folder string, end func()) {
	p.contexts++
	panel, err := p.client.OpenPanel(p.t.Context(), fmt.Sprintf("panels/agent%d", p.contexts))
	must(p.t, err)
	info, err := p.client.Info(p.t.Context(), panel.ContextID())
	must(p.t, err)
	return panel, info.GetFolder(), func() {
		_, err := p.client.ClosePanel(p.t.Context(), panel.ID())
		must(p.t, errors.Join(err, panel.Close()))
		_, err = p.client.DeleteContext(p.t.Context(), panel.ContextID(), client.DiscardChanges)
		must(p.t, err)
		_, err = p.client.CollectGarbage(p.t.Context(), &ctxfsv1.CollectGarbageRequest{})
		must(p.t, err)
	}
}

// writer is how an agent changes files: in the folder, or through the server.
type writer interface {
	WriteFile(name string, data []byte, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Chmod(name string, perm fs.FileMode) error
	Symlink(target, name string) error
	Remove(name string) error
}

// become gives a context that holds one commit the files of another. Every second context is changed in its folder, the others through the server.
func (p *place) become(panel *client.Panel, folder, from, to string) {
	var w writer = panel.FS()
	if p.contexts%2 == 0 {
		root, err := os.OpenRoot(folder)
		must(p.t, err)
		defer func() { must(p.t, root.Close()) }()
		w = root
	}
	p.other.git("checkout", "-q", "--force", "--detach", to)
	changed := p.other.list("diff-tree", "-r", "-z", "--no-renames", "--name-only", from, to)
	for _, name := range changed {
		p.remove(w, "app/"+name)
	}
	for _, name := range changed {
		info, err := os.Lstat(filepath.Join(p.other.dir, name))
		if errors.Is(err, fs.ErrNotExist) || isNotDir(err) || err == nil && info.IsDir() {
			continue
		}
		must(p.t, err)
		must(p.t, p.write(w, "app/"+name, filepath.Join(p.other.dir, name), info.Mode()))
	}
}

// remove removes a file, if it is there, and the directories that it leaves empty.
func (p *place) remove(w writer, name string) {
	if err := w.Remove(name); errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return
	} else if err != nil {
		p.t.Fatal(err)
	}
	for dir := path.Dir(name); dir != "." && w.Remove(dir) == nil; {
		dir = path.Dir(dir)
	}
}

// write copies a file or a link.
func (p *place) write(w writer, name, from string, mode fs.FileMode) error {
	if err := w.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if mode&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		return errors.Join(err, w.Symlink(target, name))
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := w.WriteFile(name, data, 0o644); err != nil || mode.Perm()&0o111 == 0 {
		return err
	}
	return w.Chmod(name, 0o755)
}

// commit repeats a commit.
func (p *place) commit(c picked) {
	if !p.checkout(c.parents[0]) {
		return
	}
	p.sums.commits++
	panel, folder, end := p.open()
	defer end()
	p.become(panel, folder, c.parents[0], c.id)
	review := p.client.Review(panel.ContextID())
	changes, _, err := review.Changes(p.t.Context(), &ctxfsv1.ListChangesRequest{Ignored: true})
	must(p.t, err)
	paths := make([]string, 0, len(changes))
	for _, change := range changes {
		paths = append(paths, pathOf(change))
	}
	_, err = review.Apply(p.t.Context(), &ctxfsv1.ApplyRequest{
		Approve: true, Selection: client.SelectPaths(paths...), Target: ctxfsv1.ApplyTarget_APPLY_TARGET_COMMIT, Commit: &ctxfsv1.CommitOptions{Message: c.id},
	})
	if err != nil {
		p.t.Errorf("commit %s: %v", c.id, err)
		return
	}
	p.sums.changes += len(changes)
	equal := p.same("commit "+c.id, p.app.entries("HEAD"), p.app.entries(c.id)) && p.noEmpty("commit "+c.id, p.app.dir)
	if tree, want := p.app.git("rev-parse", "HEAD^{tree}", "HEAD^"), p.app.git("rev-parse", c.id+"^{tree}", c.parents[0]); tree != want {
		p.t.Errorf("commit %s: tree and parent are %q, want %q", c.id, tree, want)
		equal = false
	}
	if status := p.app.git("status", "--porcelain"); status != "" {
		p.t.Errorf("commit %s: the working tree is changed: %s", c.id, status)
		equal = false
	}
	if left, _, err := review.Changes(p.t.Context(), &ctxfsv1.ListChangesRequest{Ignored: true}); err != nil || len(left) > 0 {
		p.t.Errorf("commit %s: the context has changes left: %v (%v)", c.id, left, err)
		equal = false
	}
	if equal {
		p.sums.equalCommits++
	}
}

// merge repeats a merge.
func (p *place) merge(c picked) {
	if !p.checkout(c.base) {
		return
	}
	panel, folder, end := p.open()
	defer end()
	p.become(panel, folder, c.base, c.parents[1])
	if !p.checkout(c.parents[0]) {
		return
	}
	p.sums.merges++
	done, err := p.client.Review(panel.ContextID()).Rebase(p.t.Context(), &ctxfsv1.RebaseRequest{OnConflict: ctxfsv1.OnConflict_ON_CONFLICT_MARKERS})
	if err != nil {
		p.t.Errorf("merge %s: %v", c.id, err)
		return
	}
	conflicts := map[string]*ctxfsv1.RecordedConflict{}
	for _, conflict := range done.GetConflicts() {
		p.sums.conflicts[strings.TrimPrefix(conflict.GetKind().String(), "CONFLICT_KIND_")]++
		conflicts[strings.TrimPrefix(pathOf(conflict), "/app/")] = conflict
	}
	want := p.other.merge(c)
	if !want.sameByDefault(p.other, c) {
		p.sums.unusual++
		p.t.Logf("merge %s: git merge makes something else of it", c.id)
	}
	if p.compare(c, filepath.Join(folder, "app"), conflicts, want) {
		p.sums.equalMerges++
	}
	if len(want.conflicts) == 0 {
		p.sums.clean++
	} else {
		p.sums.conflicting++
	}
}

// compare reports whether a context and its conflicts are git's merge.
func (p *place) compare(c picked, app string, conflicts map[string]*ctxfsv1.RecordedConflict, want merged) bool {
	equal := true
	differs := func(format string, args ...any) {
		p.t.Errorf("merge "+c.id+": "+format, args...)
		equal = false
	}
	for name := range conflicts {
		if _, ok := want.conflicts[name]; !ok {
			differs("%q conflicts (%s), but not in git", name, conflicts[name].GetKind())
		}
	}
	got, ours := p.other.filesIn(app, c.parents[1]), p.other.entries(c.parents[1])
	for name, text := range want.conflicts {
		conflict, ok := conflicts[name]
		if !ok {
			differs("%q conflicts in git alone", name)
			continue
		}
		if conflict.GetMarkers() {
			if data, err := os.ReadFile(filepath.Join(app, name)); err != nil || shortMarkers(string(data)) != shortMarkers(text) {
				differs("the markers of %q are not git's: %.300q, want %.300q (%v)", name, data, text, err)
			} else {
				p.sums.markers++
			}
		} else if got[name] != ours[name] {
			differs("%q conflicts, and is %q instead of the context's %q", name, got[name], ours[name])
		}
		delete(got, name)
	}
	for name := range conflicts { // one that is reported already
		delete(got, name)
		delete(want.entries, name)
	}
	return p.same("merge "+c.id, got, want.entries) && p.noEmpty("merge "+c.id, app) && equal
}

// shortMarkers gives a text conflict markers of the usual length: ctxfs makes them longer than any line of that kind that the text has, and git as its
// attributes say.
func shortMarkers(text string) string {
	length := 7
	for line := range strings.Lines(text) {
		if marker, is := strings.CutSuffix(strings.TrimRight(line, "\r\n"), " context"); is && strings.Trim(marker, "<") == "" {
			length = max(length, len(marker))
		}
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if run := len(line) - len(strings.TrimLeft(line, line[:1])); run == length && strings.Contains("<|=>", line[:1]) {
			line = line[length-7:]
		}
		out.WriteString(line)
	}
	return out.String()
}

// noEmpty reports whether a tree has no empty directory: git keeps none.
func (p *place) noEmpty(what, dir string) bool {
	none := true
	must(p.t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == ".git" {
			return filepath.SkipDir
		}
		in, err := os.ReadDir(name)
		if err == nil && len(in) == 0 {
			p.t.Errorf("%s: the directory %s is empty", what, name)
			none = false
		}
		return err
	}))
	return none
}

// same reports whether two trees are equal, and reports the first differences.
func (p *place) same(what string, got, want map[string]string) bool {
	if maps.Equal(got, want) {
		return true
	}
	reported := 0
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] != want[name] && reported < 10 {
			reported++
			p.t.Errorf("%s: %q is %q, want %q", what, name, got[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] == "" && reported < 10 {
			reported++
			p.t.Errorf("%s: %q is missing, want %q", what, name, want[name])
		}
	}
	return false
}
