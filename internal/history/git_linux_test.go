package history

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const (
	// seed of the choice of commits.
	seed = 20260820
	// maxFiles bounds a tree, for speed.
	maxFiles = 6000
	// pool is among how many commits one is chosen.
	pool = 10
)

// Modes in a tree.
const (
	executable = "100755"
	symlink    = "120000"
	submodule  = "160000"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// pathOf returns the path of a message, which need not be UTF-8.
func pathOf(m interface {
	GetPath() string
	GetRawPath() []byte
}) string {
	if raw := m.GetRawPath(); len(raw) > 0 {
		return string(raw)
	}
	return m.GetPath()
}

// repository is a repository in a directory.
type repository struct {
	t   testing.TB
	dir string
}

// run runs git without anybody's configuration, and returns its exit code.
func (r repository) run(env []string, args ...string) (string, int) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-c", "safe.directory=*", "-c", "advice.detachedHead=false"}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1"), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && (cmd.ProcessState.ExitCode() != 1 || !onlyWarns(stderr.String())) {
		r.t.Fatalf("git %q in %s: %v: %s", args, r.dir, err, stderr.String())
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// onlyWarns reports whether all that git wrote are warnings, as of binary files that conflict.
func onlyWarns(stderr string) bool {
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "warning: ") {
			return false
		}
	}
	return true
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	out, code := r.run(nil, args...)
	if code != 0 {
		r.t.Fatalf("git %q in %s ends with %d", args, r.dir, code)
	}
	return strings.TrimSuffix(out, "\n")
}

// list returns what git prints with -z.
func (r repository) list(args ...string) []string {
	r.t.Helper()
	return split(r.git(args...))
}

func split(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\x00"), func(s string) bool { return s == "" })
}

// entries returns the modes and objects of a commit, by path.
func (r repository) entries(commit string) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, line := range r.list("ls-tree", "-r", "-z", commit) {
		about, name, _ := strings.Cut(line, "\t")
		field := strings.Fields(about)
		out[name] = field[0] + " " + field[2]
	}
	return out
}

// staged returns the index's modes and objects by path, and the paths that conflict.
func (r repository) staged(env []string) (entries map[string]string, conflicts []string) {
	r.t.Helper()
	out, _ := r.run(env, "ls-files", "--stage", "-z")
	entries = map[string]string{}
	for _, line := range split(out) {
		about, name, _ := strings.Cut(line, "\t")
		if field := strings.Fields(about); field[2] == "0" {
			entries[name] = field[0] + " " + field[1]
		} else {
			conflicts = append(conflicts, name)
		}
	}
	return entries, slices.Compact(conflicts)
}

// apart returns the environment of an index and a working tree of their own.
func (r repository) apart(work string) (env []string, end func()) {
	index := filepath.Join(r.dir, ".git", "index-apart")
	return []string{"GIT_DIR=" + filepath.Join(r.dir, ".git"), "GIT_WORK_TREE=" + work, "GIT_INDEX_FILE=" + index}, func() { must(r.t, os.Remove(index)) }
}

// filesIn returns the files of a directory, as git would add them to a commit.
func (r repository) filesIn(dir, commit string) map[string]string {
	r.t.Helper()
	env, end := r.apart(dir)
	defer end()
	r.run(env, "read-tree", commit)
	in := repository{r.t, dir}
	in.run(env, "add", "--all", "--force", ".")
	entries, _ := in.staged(env)
	return entries
}

// merged is a merge of git's.
type merged struct {
	entries map[string]string
	// conflicts are the texts with conflict markers, by path.
	conflicts map[string]string
	// tree is "" if there are conflicts.
	tree string
}

// merge merges the first parent of a merge into the second one, without following renames, and without the merge drivers that attributes name.
func (r repository) merge(c picked) merged {
	r.t.Helper()
	work, err := os.MkdirTemp(filepath.Dir(r.dir), "merge")
	must(r.t, err)
	defer func() { must(r.t, os.RemoveAll(work)) }()
	attributes := filepath.Join(r.dir, ".git", "info", "attributes")
	must(r.t, os.MkdirAll(filepath.Dir(attributes), 0o755))
	must(r.t, os.WriteFile(attributes, []byte("* !merge\n"), 0o600))
	defer func() { must(r.t, os.Remove(attributes)) }()
	env, end := r.apart(work)
	defer end()
	theirs, ours := c.parents[0], c.parents[1]
	in := repository{r.t, work}
	in.run(env, "read-tree", ours)
	// merge-tree of before git 2.50 cannot be kept from following renames.
	named := append(env, "GITHEAD_"+ours+"=context", "GITHEAD_"+theirs+"=workspace")
	_, code := in.run(named, "-c", "merge.conflictStyle=zdiff3", "-c", "merge.verbosity=0", "merge-recursive", "--no-renames", c.base, "--", ours, theirs)
	m := merged{conflicts: map[string]string{}}
	var paths []string
	m.entries, paths = in.staged(env)
	if code == 0 {
		tree, _ := in.run(env, "write-tree")
		m.tree = strings.TrimSpace(tree)
	}
	for _, name := range paths {
		text, err := os.ReadFile(filepath.Join(work, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) && !isNotDir(err) && !errors.Is(err, syscall.EISDIR) {
			r.t.Fatal(err)
		}
		m.conflicts[name] = strings.ReplaceAll(string(text), "||||||| constructed merge base\n", "||||||| base\n")
	}
	return m
}

// sameByDefault reports whether git merge by itself, with renames, attributes and the histogram diff, makes the same tree, or conflicts in the same paths.
func (m merged) sameByDefault(r repository, c picked) bool {
	r.t.Helper()
	out, code := r.run(nil, "merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", c.parents[1], c.parents[0])
	made := split(out)
	if code == 0 {
		return made[0] == m.tree
	}
	return slices.Equal(slices.Sorted(slices.Values(made[1:])), slices.Sorted(maps.Keys(m.conflicts)))
}

// picked is a commit to repeat.
type picked struct {
	id      string
	parents []string
	// base is the merge base of a merge.
	base string
	// trees are the base, or the parent, and what is compared with it.
	trees []string
	// kinds are what it changes, beside contents and new files.
	kinds map[string]bool
}

// kindsOf counts what commits change.
func kindsOf(commits []picked) string {
	numbers := map[string]int{}
	for _, c := range commits {
		for kind := range c.kinds {
			numbers[kind]++
		}
	}
	return counted(numbers)
}

// history chooses commits of a repository.
type history struct {
	t   *testing.T
	dir string
	// excluded counts the commits that were not chosen, by the reason.
	excluded map[string]int
}

func (h *history) repo() repository { return repository{h.t, h.dir} }

func (h *history) commits() []picked {
	return h.list("--min-parents=1", "--max-parents=1")
}

func (h *history) merges() []picked {
	return h.list("--min-parents=2", "--max-parents=2")
}

// list returns commits in an order of chance.
func (h *history) list(args ...string) []picked {
	var out []picked
	for line := range strings.Lines(h.repo().git(append([]string{"rev-list", "--all", "--parents"}, args...)...)) {
		ids := strings.Fields(line)
		out = append(out, picked{id: ids[0], parents: ids[1:]})
	}
	slices.SortFunc(out, func(a, b picked) int { return strings.Compare(a.id, b.id) })
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// pick chooses commits: half of them by chance, the others among many for what they change.
func (h *history) pick(count int, from []picked) []picked {
	out, looked := h.take(count/2, from)
	from = from[looked:]
	from = from[:min(len(from), pool*count)]
	for i := range from {
		h.note(&from[i])
	}
	slices.SortStableFunc(from, func(a, b picked) int { return len(b.kinds) - len(a.kinds) })
	more, _ := h.take(count-len(out), from)
	return append(out, more...)
}

// take returns the first commits that can be repeated, and how many it has looked at.
func (h *history) take(count int, from []picked) (out []picked, looked int) {
	for ; looked < len(from) && len(out) < count; looked++ {
		c := from[looked]
		h.note(&c)
		if why := h.refusal(c); why != "" {
			h.excluded[why]++
		} else {
			out = append(out, c)
		}
	}
	return out, looked
}

// note notes the trees of a commit, and what changes between them.
func (h *history) note(c *picked) {
	if c.kinds != nil {
		return
	}
	c.kinds = map[string]bool{}
	c.trees = []string{c.parents[0], c.id}
	if len(c.parents) == 2 {
		out, _ := h.repo().run(nil, "merge-base", "--all", c.parents[0], c.parents[1])
		bases := strings.Fields(out)
		if len(bases) != 1 {
			c.trees = nil
			return
		}
		c.base = bases[0]
		c.trees = []string{c.base, c.parents[0], c.parents[1]}
	}
	sides := map[string]bool{}
	for _, tree := range c.trees[1:] {
		for name := range h.changes(c, tree) {
			if sides[name] {
				c.kinds["files that both sides change"] = true
			}
			sides[name] = true
		}
	}
}

// changes returns what differs in a tree from the first one, and notes what else than contents does.
func (h *history) changes(c *picked, tree string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(h.repo().git("diff-tree", "-r", "-M", "--raw", "--numstat", c.trees[0], tree)) {
		about, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		field := strings.Fields(about)
		if field[0] == "-" {
			c.kinds["binary files"] = true
		}
		if !strings.HasPrefix(about, ":") {
			continue
		}
		names[name] = true
		before, after, status := field[0][1:], field[1], field[4]
		switch {
		case before == symlink || after == symlink:
			c.kinds["links"] = true
		case status[0] == 'R':
			c.kinds["renames"] = true
		case status == "D":
			c.kinds["deletions"] = true
		case before != after && (before == executable || after == executable):
			c.kinds["executables"] = true
		}
	}
	return names
}

// refusal returns why a commit is not repeated, "" if it is.
func (h *history) refusal(c picked) string {
	switch {
	case c.trees == nil:
		return "merges without one merge base"
	case slices.Contains(c.parents, c.base):
		return "merges of a branch that had not moved"
	}
	for _, tree := range c.trees {
		if why := h.unfit(tree); why != "" {
			return why
		}
	}
	for _, tree := range c.trees[1:] {
		if h.repo().git("rev-parse", tree+"^{tree}") == h.repo().git("rev-parse", c.trees[0]+"^{tree}") {
			return "commits that change no file"
		}
	}
	return ""
}

// unfit returns why a tree cannot be compared, "" if it can.
func (h *history) unfit(tree string) string {
	lines := h.repo().list("ls-tree", "-r", "-l", "-z", tree)
	if len(lines) > maxFiles {
		return "trees with more than 6,000 files"
	}
	for _, line := range lines {
		about, name, _ := strings.Cut(line, "\t")
		field := strings.Fields(about)
		switch {
		case field[0] == submodule:
			return "trees with submodules"
		case field[3] == "BAD":
			return "trees with a file that the repository here lacks"
		case filepath.Base(name) == ".gitattributes" && strings.Contains(h.repo().git("cat-file", "blob", field[2]), "filter="):
			return "trees with filters"
		}
	}
	return ""
}
