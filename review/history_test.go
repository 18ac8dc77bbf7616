package review

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// historyEnv is how many commits of this repository are replayed; none if it is not set.
const historyEnv = "CTXFS_HISTORY"

// gitIn runs git in a directory, without the configuration of its user.
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

// treeOf returns the files of a commit.
func treeOf(t testing.TB, repo, commit string) files {
	t.Helper()
	dir := t.TempDir()
	archive, untar := exec.Command("git", "archive", commit), exec.Command("tar", "-x", "-C", dir)
	archive.Dir = repo
	var err error
	untar.Stdin, err = archive.StdoutPipe()
	must(t, err)
	must(t, untar.Start())
	must(t, archive.Run())
	must(t, untar.Wait())
	return read(t, dir)
}

// TestHistoryOfThisRepository replays commits of this repository: as many as historyEnv says.
func TestHistoryOfThisRepository(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv(historyEnv))
	if err != nil {
		t.Skipf("it is long, and grows with the repository: %s says how many commits to replay", historyEnv)
	}
	repo, err := filepath.Abs("..")
	must(t, err)
	list := strings.Fields(gitIn(t, repo, nil, "rev-list", "--first-parent", "--max-count="+strconv.Itoa(count+1), "HEAD"))
	if len(list) < 3 {
		t.Skipf("the repository has %d commits: a shallow clone", len(list))
	}
	slices.Reverse(list)
	for i := range list[1:] {
		from, to := list[i], list[i+1]
		if !t.Run(from+" to "+to, func(t *testing.T) { replay(t, treeOf(t, repo, from), treeOf(t, repo, to)) }) { // each removes its files
			return
		}
	}
}

// countedLines returns numbered lines.
func countedLines(first, last int) string {
	var b strings.Builder
	for i := first; i <= last; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// binary returns bytes that are no text, and that do not compress well.
func binary(seed uint64, size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return string(b) + "\x00"
}

// commit is one of a history.
type commit struct {
	name string
	// change edits the files of the commit before.
	change func(f files)
}

// commits are a small history with what git's own histories have.
var commits = []commit{
	{"the first commit", func(f files) {
		for i := range 30 {
			f[fmt.Sprintf("src/p%d/f%d.txt", i%5, i)] = countedLines(1, 3*i)
		}
		f["README.md"], f["run.sh"], f["tool/bin"] = countedLines(1, 80), "+x #!/bin/sh\n"+countedLines(1, 9), binary(1, 5000)
		f["link"], f["crlf.txt"], f["no-end"] = "-> README.md", strings.ReplaceAll(countedLines(1, 20), "\n", "\r\n"), countedLines(1, 5)+"no newline"
		f["module/a"], f["module/deep/b"], f["empty"] = "a\n", "b\n", ""
	}},
	{"lines at the beginning, in the middle and at the end", func(f files) {
		f["README.md"] = "first\n" + countedLines(1, 30) + "middle\n" + countedLines(32, 60) + countedLines(63, 80) + "last\n"
		f["src/p4/f29.txt"] = countedLines(2, 40) + countedLines(50, 87)
		f["src/p3/f28.txt"] = strings.Replace(f["src/p3/f28.txt"], "line 7\n", "", 1)
	}},
	{"files and directories come and go", func(f files) {
		for i := 0; i < 30; i += 5 {
			delete(f, fmt.Sprintf("src/p0/f%d.txt", i))
		}
		f["new/deep/er/f"], f["src/p9/one"], f["empty2"] = countedLines(1, 4), countedLines(1, 2), ""
		delete(f, "empty")
	}},
	{"renames, with and without edits, of files and of a directory", func(f files) {
		f["docs/README.md"] = f["README.md"] + "moved\n"
		delete(f, "README.md")
		for i := 1; i < 30; i += 5 {
			old := fmt.Sprintf("src/p1/f%d.txt", i)
			f[fmt.Sprintf("lib/q1/f%d.txt", i)] = f[old]
			delete(f, old)
		}
		f["src/p2/f2.txt"], f["src/p2/f7.txt"] = f["src/p2/f7.txt"], f["src/p2/f2.txt"]
	}},
	{"modes, with and without edits", func(f files) {
		f["src/p2/f2.txt"] = "+x " + f["src/p2/f2.txt"]
		f["run.sh"] = countedLines(1, 9)
		f["src/p2/f12.txt"] = "+x changed too\n"
	}},
	{"symbolic links come, change, go and take the place of files", func(f files) {
		f["link"], f["dangling"], f["src/up"] = "-> docs/README.md", "-> no/where", "-> ../docs"
		f["src/p2/f17.txt"] = "-> f22.txt"
		f["was-link"] = "-> link"
	}},
	{"files take the place of links, and directories that of files", func(f files) {
		f["was-link"], f["src/p2/f17.txt"] = "a file\n", countedLines(1, 3)
		delete(f, "dangling")
		delete(f, "no-end")
		f["no-end/in/f"] = "below a name that was a file\n"
	}},
	{"binary files", func(f files) {
		f["tool/bin"] = f["tool/bin"][:2000] + "\x00changed" + f["tool/bin"][2000:]
		f["tool/large"], f["tool/zeros"] = binary(2, 150_000), strings.Repeat("\x00", 3000)
		f["src/p3/f8.txt"] = f["src/p3/f8.txt"] + "\x00"
	}},
	{"binary files become text, and go", func(f files) {
		f["src/p3/f8.txt"], f["tool/zeros"] = countedLines(1, 8), "text\n"
		delete(f, "tool/bin")
	}},
	{"ends of lines and of files", func(f files) {
		f["crlf.txt"] = strings.Replace(countedLines(1, 20), "line 7\n", "line 7\r\n", 1)
		f["src/p3/f3.txt"] = strings.ReplaceAll(countedLines(1, 9), "\n", "\r\n")
		f["src/p3/f13.txt"] = strings.TrimSuffix(f["src/p3/f13.txt"], "\n")
		f["cr"], f["empty2"], f["src/p9/one"] = "a\rb\r", "no longer\n", ""
	}},
	{"names that need quotes", func(f files) {
		f["a b/ü é.txt"], f["tab\tand \"quotes\""], f["-dash"], f["new\nline"], f["bytes\xff"] = countedLines(1, 3), "t\n", "d\n", "n\n", "b\n"
		f["trailing "] = "-> a b/ü é.txt"
	}},
	{"edits below names that need quotes", func(f files) {
		f["a b/ü é.txt"], f["-dash"], f["new\nline"] = countedLines(2, 9), "+x d\n", "m\n"
		delete(f, "bytes\xff")
		delete(f, "tab\tand \"quotes\"")
	}},
	{"a directory becomes a submodule", func(f files) {
		delete(f, "module/a")
		delete(f, "module/deep/b")
		f[".gitmodules"] = "[submodule \"module\"]\n\tpath = module\n\turl = ../module\n"
	}},
	{"a merge", func(f files) {
		for name, text := range f {
			if strings.HasPrefix(name, "src/p4/") || strings.HasPrefix(name, "lib/") {
				f[name] = "ours\n" + text + "theirs\n"
			}
		}
		f["lib/q1/new"], f["src/p3/f8.txt"] = countedLines(1, 9), "<<<<<<< ours\nline 1\n=======\nline one\n>>>>>>> theirs\n"
		delete(f, "was-link")
	}},
	{"a revert of most of it", func(f files) {
		for name := range f {
			if !strings.HasPrefix(name, "src/") {
				delete(f, name)
			}
		}
		f["README.md"] = countedLines(1, 80)
	}},
}

// TestHistory replays a history, commit by commit.
func TestHistory(t *testing.T) {
	before := files{}
	for i, s := range commits {
		now := maps.Clone(before)
		s.change(now)
		if i > 0 {
			t.Run(s.name, func(t *testing.T) { replay(t, before, now) })
		}
		before = now
	}
}

// replay seeds a context with one commit, edits it to be the next, and applies all.
func replay(t *testing.T, old, now files) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "from")
	write(t, dir, old)
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
	gitIn(t, dir, patch.Bytes(), "apply", "--whitespace=nowarn", "-")
	same(t, "git apply", read(t, dir), now)
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
