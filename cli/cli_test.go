package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/cli"
	ctxfsexec "github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

func TestMain(m *testing.M) {
	if code, is := ctxfsexec.Init(os.Args); is {
		os.Exit(code)
	}
	if os.Getenv(programEnv) != "" {
		os.Exit(program())
	}
	if channel := os.Getenv(drawEnv); channel != "" {
		os.Exit(draw(channel))
	}
	goleak.VerifyTestMain(m)
}

// shell runs commands against one server.
type shell struct {
	t     *testing.T
	dir   string
	env   map[string]string
	stdin string
	// notes are the lines about panels that were made.
	notes string
	// room, if it is not 0, is how many bytes standard output takes before its disk is full.
	room int
	// home is the user's home directory, made when it is needed.
	home string
}

func (s *shell) getenv(key string) string {
	if value, ok := s.env[key]; ok || key != "HOME" {
		return value
	}
	if s.home == "" {
		s.home = s.t.TempDir()
	}
	return s.home
}

func serve(t *testing.T) *shell {
	t.Helper()
	t.Parallel()
	ws := servertest.Workspace(t)
	servertest.Start(t, ws, nil)
	return &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "panels/test"}}
}

// run runs one command and returns its exit code and outputs.
func (s *shell) run(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	var to io.Writer = &out
	if s.room > 0 {
		to = &fullDisk{&out, s.room}
	}
	root := cli.Root(cli.Env{
		Stdin: strings.NewReader(s.stdin), Stdout: to, Stderr: &errs, Dir: s.dir, Version: "0.0.0-test",
		Getenv: s.getenv,
	})
	code = cli.Run(s.t.Context(), root, args)
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, " is new: seeded ") {
			s.notes += line
		} else {
			stderr += line
		}
	}
	return code, out.String(), stderr
}

// fullDisk takes so many bytes.
type fullDisk struct {
	out  *bytes.Buffer
	room int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.out.Write(p[:n])
	if n < len(p) {
		return n, fserr.ENOSPC
	}
	return n, nil
}

// ok runs a command that must succeed, and returns what it printed.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	code, out, errs := s.run(args...)
	if code != 0 || errs != "" {
		s.t.Fatalf("ctxfs %s: exit %d, %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// expect runs a command that must print just this.
func (s *shell) expect(want string, args ...string) {
	s.t.Helper()
	if got := s.ok(args...); got != want {
		s.t.Errorf("ctxfs %s printed\n%swant\n%s", strings.Join(args, " "), got, want)
	}
}

func TestFilesFromTheShell(t *testing.T) {
	s := serve(t)
	s.stdin = "one\nneedle\n"
	s.expect("1 file, 11 B\n", "put", "-", "/dir.txt")
	s.expect("one\nneedle\n", "cat", "dir.txt")
	s.expect("", "mkdir", "-p", "a/b")
	s.expect("", "mv", "dir.txt", "a")
	s.expect("1 file, 11 B\n", "cp", "a/dir.txt", "a/b")
	s.expect("", "ln", "-s", "b", "a/link")
	s.expect("3 files, 22 B\n", "cp", "-r", "a", "copied")
	s.expect("copied\n├── b/\n│   └── dir.txt\n├── dir.txt\n└── link -> b\n", "tree", "copied")
	s.expect("", "rm", "-r", "copied")
	s.expect("/a/dir.txt:2:needle\n", "grep", "need.e", "--exclude", "b")
	s.expect("/a/b/dir.txt\n", "glob", "a/*/*.txt")
	s.expect("a\n├── b/\n│   └── dir.txt\n├── dir.txt\n└── link -> b\n", "tree", "a")
	s.expect("README.md\na\nsrc\n", "ls")
	s.stdin = ""
	s.ok("mkdir", "-p", "a/.hidden/below", "a/.hidden.too")
	s.expect("a/dir.txt\n\na/b:\ndir.txt\n", "ls", "a/dir.txt", "a/b")
	s.expect("b\ndir.txt\nlink\n", "ls", "a")
	s.expect(".hidden\n.hidden.too\nb\ndir.txt\nlink\n", "ls", "-a", "a")
	s.expect("/a/b\n/a/dir.txt\n/a/link\n/a/b/dir.txt\n", "ls", "-r", "a")
	s.expect("below\n", "ls", "a/.hidden")
	if code, out, errs := s.run("ls", "nope", "a/b", "none"); code != 1 || out != "\na/b:\ndir.txt\n" || strings.Count(errs, "\n") != 2 || strings.Count(errs, "ctxfs: ENOENT: ") != 2 {
		t.Errorf("ls of missing names: exit %d, %q, %q", code, out, errs)
	}
	if got := s.ok("ls", "-l", "a"); !strings.Contains(got, "drwx") || !strings.Contains(got, "link -> b\n") {
		t.Errorf("ls -l: %s", got)
	}
	s.expect("/a/b/dir.txt\n/a/dir.txt\n", "grep", "-l", "needle")
	s.expect("/a/b/dir.txt:2\n/a/dir.txt:2\n", "grep", "--count", "e", "/a")
	s.expect("/a/dir.txt:needle\n/a/b/dir.txt:needle\n", "grep", "-n=false", "need", "a/dir.txt", "a/b")
	if got := s.ok("stat", "a/link"); !strings.Contains(got, "symlink") {
		t.Errorf("stat: %s", got)
	}
	s.expect("", "rm", "-r", "a")
	if code, _, _ := s.run("stat", "a"); code != 1 {
		t.Error("a is still there")
	}
}

func TestUpAndDown(t *testing.T) {
	s := serve(t)
	local := t.TempDir()
	for name, content := range map[string]string{"up/x.txt": "x", "up/sub/y.txt": "yy"} {
		path := filepath.Join(local, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	s.expect("2 files, 3 B\n", "put", filepath.Join(local, "up"), "/")
	s.expect("2 files, 3 B\n", "get", "up", filepath.Join(local, "down"))
	got, err := os.ReadFile(filepath.Join(local, "down", "sub", "y.txt"))
	if err != nil || string(got) != "yy" {
		t.Errorf("came back as %q, %v", got, err)
	}
	s.expect("1 file, 1 B\n", "get", "/up/x.txt", filepath.Join(local, "one"))
}

func TestTreesKeepTheirLinks(t *testing.T) {
	s := serve(t)
	local := t.TempDir()
	up := filepath.Join(local, "up")
	must(t, os.MkdirAll(filepath.Join(up, "sub"), 0o755), os.WriteFile(filepath.Join(up, "x"), []byte("x"), 0o644))
	for name, target := range map[string]string{"dangling": "../nowhere", "dir": "sub", "file": "x", "sub/abs": "/x"} {
		must(t, os.Symlink(target, filepath.Join(up, name)))
	}
	for range 2 { // the second time over what is there
		s.expect("1 file, 4 symbolic links, 1 B\n", "put", up, "/up")
		s.run("rm", "-r", "/up/up") // an existing directory gets it inside
		s.expect("1 file, 4 symbolic links, 1 B\n", "get", "up", filepath.Join(local, "down"))
		_ = os.RemoveAll(filepath.Join(local, "down", "up"))
	}
	if target, err := os.Readlink(filepath.Join(local, "down", "sub", "abs")); target != "/x" {
		t.Errorf("sub/abs leads to %q, %v", target, err)
	}
	must(t, os.Symlink(up, filepath.Join(local, "to-up")))
	s.expect("1 file, 4 symbolic links, 1 B\n", "put", filepath.Join(local, "to-up"), "/by-link")
	s.expect("x", "get", "/up/file", "-")
	s.expect("1 file, 1 B\n", "get", "/up/file", filepath.Join(local, "followed"))
}

func TestLeavingOutIsAFailure(t *testing.T) {
	s := serve(t)
	up := t.TempDir()
	must(t, os.WriteFile(filepath.Join(up, "x"), []byte("x"), 0o644))
	l, err := net.Listen("unix", filepath.Join(up, "socket"))
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	defer l.Close()
	code, out, errs := s.run("put", up, "/up")
	if code != 1 || out != "1 file, 1 B\n" || !strings.Contains(errs, "left out 1: FIFOs") || !strings.Contains(errs, "socket") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// TestGetDoesNotFollowLinksIntoGit has links to a .git in the context, and in the folder that get writes into.
func TestGetDoesNotFollowLinksIntoGit(t *testing.T) {
	s := serve(t)
	s.ok("mkdir", "-p", "/r/.git/hooks", "/tree")
	s.stdin = "the panel's\n"
	s.ok("put", "-", "/r/.git/hooks/post-checkout")
	for link, target := range map[string]string{"/hooks": "r/.git/hooks", "/hook": "/r/.git/hooks/post-checkout", "/tree/x": ".git/hooks", "/again": "hooks"} {
		s.ok("ln", "-s", target, link)
	}
	outside := t.TempDir()
	for _, from := range []string{"/hooks", "/hook", "/again", "/again/post-checkout"} {
		for _, flags := range [][]string{nil, {"--force"}} {
			if code, _, errs := s.run(append([]string{"get", from}, append(flags, filepath.Join(outside, "got"))...)...); code == 0 || !strings.Contains(errs, "the data of a git repository") {
				t.Errorf("get %s %v: exit %d, %q", from, flags, code, errs)
			}
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("brought out: %v, %v", left, err)
	}

	// The link comes out, and then the panel has a directory in its place.
	tree := filepath.Join(outside, "tree")
	hooks := filepath.Join(tree, ".git", "hooks")
	if err := os.MkdirAll(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	s.ok("get", "/tree", outside) // a repository that no server serves
	if target, err := os.Readlink(filepath.Join(tree, "x")); err != nil || target != ".git/hooks" {
		t.Fatal(target, err)
	}
	s.ok("rm", "/tree/x")
	s.ok("mkdir", "-p", "/tree/x/deep")
	for _, name := range []string{"/tree/x/pre-commit", "/tree/x/deep/f"} {
		s.ok("put", "-", name)
	}
	for _, args := range [][]string{{"get", "/tree", outside + "/."}, {"get", "/tree/x/pre-commit", filepath.Join(tree, "x")}} {
		if code, _, errs := s.run(args...); code == 0 || !strings.Contains(errs, "through a link") {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	s.ok("get", "--force", "/tree", outside)
	for _, name := range []string{"x/pre-commit", "x/deep/f"} {
		if text, err := os.ReadFile(filepath.Join(tree, name)); err != nil || string(text) != "the panel's\n" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if left, err := os.ReadDir(hooks); err != nil || len(left) > 0 {
		t.Errorf("the hooks are %v, %v", left, err)
	}
}

func TestGetKeepsTheWorkspacesFiles(t *testing.T) {
	t.Parallel()
	dir := servertest.Folder(t)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "notes"), 0o755), os.WriteFile(filepath.Join(dir, "notes", "mine"), []byte("mine\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	servertest.Start(t, dir, nil)
	s := &shell{t: t, dir: dir, env: map[string]string{"CTXFS_PANEL": "panels/test"}}
	s.ok("mkdir", "-p", "/app/.git/hooks", "/app/sub/.GIT", "/notes")
	put := func(name string) {
		t.Helper()
		s.stdin = "the panel's\n"
		s.ok("put", "-", name)
	}
	for _, name := range []string{"/app/.git/hooks/post-checkout", "/app/sub/.GIT/config", "/app/git~1", "/app/README.md", "/app/new", "/notes/mine"} {
		put(name)
	}
	before := treeOf(t, dir)
	outside := t.TempDir()
	for want, lines := range map[string][][]string{
		"'ctxfs apply' brings changes there": {
			{"get", "/app", filepath.Join(dir, "app")}, {"get", "/app", dir}, {"get", "/app/new", filepath.Join(dir, "app", "other")}, {"get", "/app/new", filepath.Join(dir, "app", ".git", "hooks", "post-merge")},
			{"get", "/app", filepath.Join(dir, "app", "a", "b")}, {"get", "/app/README.md", filepath.Join(dir, "app")}, {"get", "/", dir},
		},
		"was not replaced; use --force": {{"get", "/notes/mine", filepath.Join(dir, "notes")}},
		"the data of a git repository":  {{"get", "/app/.git", outside}, {"get", "/app/.git/hooks", outside}, {"get", "app/sub/.GIT/config", outside}},
	} {
		for _, args := range lines {
			if code, _, errs := s.run(args...); code == 0 || !strings.Contains(errs, want) {
				t.Errorf("%v: exit %d, %q, want %q", args, code, errs, want)
			}
		}
	}
	if got := treeOf(t, dir); !maps.Equal(got, before) {
		t.Errorf("the workspace is %v, it was %v", got, before)
	}
	s.ok("get", "/app/new", filepath.Join(dir, "notes", "new"))
	s.ok("get", "--force", "/app/new", filepath.Join(dir, "app", "README.md"))
	// A .git is never brought out, not even by force.
	for _, to := range []string{filepath.Join(outside, "copy"), filepath.Join(dir, "app")} {
		code, _, errs := s.run("get", "--force", "/app", to)
		if code != 1 || !strings.Contains(errs, ".git") || !strings.Contains(errs, ".GIT") || !strings.Contains(errs, "git~1") {
			t.Errorf("get --force to %s: exit %d, %q", to, code, errs)
		}
	}
	for name, text := range map[string]string{filepath.Join(outside, "copy", "new"): "the panel's\n", filepath.Join(dir, "app", "README.md"): "the panel's\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	for _, name := range []string{filepath.Join(outside, "copy", ".git"), filepath.Join(dir, "app", ".git", "hooks", "post-checkout"), filepath.Join(outside, "copy", "sub", ".GIT"), filepath.Join(outside, "copy", "git~1")} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was brought out", name)
		}
	}
}

// treeOf returns the contents of files by name, git's own that no command of ctxfs changes left out.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".contexts" {
			return filepath.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			data, e := os.ReadFile(name)
			out[name], err = string(data), e
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUnknownPanelsAreNamed(t *testing.T) {
	s := serve(t)
	s.ok("ls")
	if !strings.HasPrefix(s.notes, "ctxfs: panel panels/test is new: seeded ctx_panels~test with 2 files, 27 B, in ") {
		t.Errorf("it said %q", s.notes)
	}
	s.notes = ""
	s.ok("ls")
	s.ok("-c", "panels/test", "ls")
	s.ok("snapshot", "create", "panels/test", "s")
	s.ok("context", "info", "panels/test")
	if code, _, errs := s.run("context", "info", "panels/tset"); code != 1 || !strings.Contains(errs, "did you mean panels/test?") {
		t.Errorf("a misspelt panel: exit %d, %q", code, errs)
	}
	if code, _, errs := s.run("panel", "close", "panel/test"); code != 1 || !strings.Contains(errs, "did you mean panels/test?") {
		t.Errorf("closing a misspelt panel: exit %d, %q", code, errs)
	}
	s.ok("context", "delete", "--discard-changes", "panels/test")
	if s.notes != "" {
		t.Errorf("it said %q", s.notes)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestPutOfATree uploads many small files and a large one, and then finds a directory where a file should go.
func TestPutOfATree(t *testing.T) {
	s := serve(t)
	local := filepath.Join(t.TempDir(), "tree")
	for dir := range 5 {
		if err := os.MkdirAll(filepath.Join(local, fmt.Sprint(dir)), 0o755); err != nil {
			t.Fatal(err)
		}
		for file := range 40 {
			if err := os.WriteFile(filepath.Join(local, fmt.Sprint(dir), fmt.Sprint(file)), []byte("x"), 0o640); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(local, "large"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect("201 files, 1.0 MiB\n", "put", local, "/")
	s.expect("201 files, 1.0 MiB\n", "get", "tree", filepath.Join(t.TempDir(), "back"))
	s.ok("rm", "tree/3/7")
	s.ok("mkdir", "tree/3/7")
	if code, _, stderr := s.run("put", local, "/"); code != 1 || !strings.Contains(stderr, "EISDIR") || !strings.Contains(stderr, "tree/3/7") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestNamesCannotObeyTheTerminal(t *testing.T) {
	s := serve(t)
	s.ok("mkdir", "evil\x1b[31m\n", "b\xff")
	out := s.ok("ls")
	if strings.Contains(out, "\x1b") || !strings.Contains(out, `"evil\x1b[31m\n"`) || !strings.Contains(out, `"b\xff"`) {
		t.Errorf("ls: %q", out)
	}
	var entries []struct {
		RawName []byte `json:"rawName"`
	}
	if err := json.Unmarshal([]byte(s.ok("ls", "--json")), &entries); err != nil {
		t.Fatal(err)
	}
	var raw []string
	for _, e := range entries {
		raw = append(raw, string(e.RawName))
	}
	if !strings.Contains(strings.Join(raw, ","), "b\xff") {
		t.Errorf("raw names %q", raw)
	}
}

func TestExitCodes(t *testing.T) {
	s := serve(t)
	for _, c := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"unknown command", []string{"bogus"}, 2, `unknown command "bogus"`},
		{"misspelt command", []string{"panle", "list"}, 2, "did you mean panel?"},
		{"misspelt command of a group", []string{"panel", "lst"}, 2, "did you mean list?"},
		{"misspelt flag", []string{"ls", "--recursve"}, 2, "did you mean --recursive?"},
		{"one dash too few", []string{"ls", "-panel", "x"}, 2, "did you mean --panel?"},
		{"misspelt method", []string{"call", "RaedFile"}, 2, "did you mean ReadFile?"},
		{"unknown flag", []string{"ls", "--bogus"}, 2, "unknown flag"},
		{"too many arguments", []string{"tree", "a", "b"}, 2, "at most 1"},
		{"unknown method", []string{"call", "Bogus"}, 2, "has no method"},
		{"unknown field", []string{"call", "ReadFile", "bogus=1"}, 2, `no field "bogus"`},
		{"missing file", []string{"cat", "/nope"}, 1, "ctxfs: ENOENT: no such file or directory, open '/nope'\n"},
		{"missing file by call", []string{"call", "Stat", "path=/nope"}, 1, "ctxfs: ENOENT: no such file or directory, stat '/nope'\n"},
		{"unknown context", []string{"-c", "ctx_none", "ls"}, 1, "ctxfs: ESTALE: context 'ctx_none' does not exist; make it with 'ctxfs context create'"},
		{"nothing found", []string{"grep", "zzzz"}, 1, ""},
		{"no server", []string{"--address", "unix:///nowhere", "health"}, 1, "no ctxfs server answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, errs := s.run(c.args...)
			if code != c.code || !strings.Contains(errs, c.text) || strings.Count(errs, "\n") > 1 || c.text == "" && errs != "" {
				t.Errorf("exit %d, %q; want %d, %q", code, errs, c.code, c.text)
			}
		})
	}
	if _, out, errs := s.run("--json", "cat", "/nope"); out != "" || errs != `{"error":{"code":"ENOENT","message":"ENOENT: no such file or directory, open '/nope'","detail":null,"hint":null,"syscall":"open","path":"/nope","dest":null,"files":[],"fileCount":0,"listedBy":null,"exitCode":1}}`+"\n" {
		t.Errorf("as JSON: %q, %q", out, errs)
	}
	delete(s.env, "CTXFS_PANEL")
	if code, _, errs := s.run("ls"); code != 2 || !strings.Contains(errs, "--panel") {
		t.Errorf("no context: exit %d, %q", code, errs)
	}
}

// signalled is a cause as of a signal.
type signalled struct{}

func (signalled) Error() string { return "interrupted" }
func (signalled) ExitCode() int { return 130 }

// whenReady calls back at the first line that is written to it.
type whenReady struct{ do func() }

func (w whenReady) Write(p []byte) (int, error) {
	w.do()
	return len(p), nil
}

func TestInterruptExitsWith130(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	var errs bytes.Buffer
	root := cli.Root(cli.Env{Stdin: strings.NewReader(""), Stdout: whenReady{func() { cancel(signalled{}) }}, Stderr: &errs, Dir: s.dir, Getenv: func(k string) string { return s.env[k] }})
	if code := cli.Run(ctx, root, []string{"watch"}); code != 130 || !strings.HasSuffix(errs.String(), "ctxfs: interrupted\n") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

func TestCallByReflection(t *testing.T) {
	s := serve(t)
	etag := regexp.MustCompile(`,\n  "etag": "[\w-]{20}"|  "etag": "[\w-]{20}",\n`) // one for each version of a file
	call := func(want string, args ...string) {
		t.Helper()
		if got := s.ok(args...); etag.ReplaceAllString(got, "") != want || !etag.MatchString(got) {
			t.Errorf("ctxfs %s printed\n%swant\n%s and an etag", strings.Join(args, " "), got, want)
		}
	}
	call("{\n  \"bytesWritten\": \"3\"\n}\n", "call", "WriteFile", "path=/a.txt", "text=hi\n", "mode_octal=0644")
	call("{\n  \"text\": \"hi\\n\"\n}\n", "call", "FsService/readFile", `{"path":"/a.txt","encoding":"utf8"}`)
	s.expect("{\"matches\":{\"entries\":[{\"name\":\"a.txt\",\"parentPath\":\"/\"}]}}\n{\"summary\":{\"matches\":\"1\"}}\n",
		"call", "Glob", "patterns=a.*", "patterns=b.*")
	s.stdin = "from stdin"
	call("{\n  \"bytesWritten\": \"10\"\n}\n", "call", "WriteFile", "path=/b", "data=@-")
	call("{\n  \"bytesWritten\": \"2\"\n}\n", "call", "WriteStream", `{"open":{"path":"/c"}}`, `{"data":"aGk="}`)
	s.expect("hi", "cat", "c")
	s.expect("{\n  \"exists\": true\n}\n", "-c", "panels/test", "call", "Exists", "path=/c")
}

func TestPanelsAndContexts(t *testing.T) {
	s := serve(t)
	script := s.ok("panel", "open", "--export", "panels/x") + `printf '%s\n' "$CTXFS_CONTEXT" "$CTXFS_TOKEN" "$CTXFS_ADDRESS"`
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != 3 || lines[0] != "ctx_panels~x" {
		t.Fatalf("the shell read %q, %v", out, err)
	}
	s.env = map[string]string{"CTXFS_CONTEXT": lines[0], "CTXFS_TOKEN": lines[1], "CTXFS_ADDRESS": lines[2]}
	s.ok("mkdir", "as-the-panel")
	if code, _, errs := s.run("context", "list"); code != 1 || !strings.Contains(errs, "EACCES") {
		t.Errorf("a panel lists contexts: exit %d, %s", code, errs)
	}
	s.expect("{\n  \"exists\": true\n}\n", "call", "Exists", "path=as-the-panel")
	s.env = map[string]string{}
	if got := s.ok("panel", "list"); !strings.Contains(got, "panels/x") || !strings.Contains(got, "open") {
		t.Errorf("panel list: %s", got)
	}
	if got := s.ok("context", "create", "ctx_y"); !strings.Contains(got, "2 files") {
		t.Errorf("context create: %s", got)
	}
	if got := s.ok("seed", "plan"); !strings.Contains(got, "2 files") || !strings.Contains(got, "node_modules") {
		t.Errorf("seed plan: %s", got)
	}
	s.expect("panels/x closed, 1 tokens revoked, 0 handles closed\n", "panel", "close", "panels/x")
	s.ok("context", "delete", "--discard-changes", "ctx_y", "ctx_panels~x")
	s.expect("[]\n", "context", "list", "--json")
}

// A panel that was opened with --review reviews another one by the ID of its context.
func TestReviewAsAPanel(t *testing.T) {
	s := serve(t)
	s.stdin = "new\n"
	s.ok("put", "-", "/note")
	token := func(flags ...string) string {
		_, rest, _ := strings.Cut(s.ok(append([]string{"panel", "open", "--json", "panels/x"}, flags...)...), `"token": "`)
		token, _, _ := strings.Cut(rest, `"`)
		return token
	}
	host := s.env
	as := func(token string) {
		s.env = map[string]string{"CTXFS_TOKEN": token, "CTXFS_ADDRESS": host["CTXFS_ADDRESS"]}
	}
	plain, reviewer := token(), token("--review")
	if got := s.ok("panel", "list"); !strings.Contains(got, "open, review") {
		t.Errorf("panel list: %s", got)
	}
	as(plain)
	if code, _, errs := s.run("approve", "ctx_panels~test", "note", "--unseen"); code != 1 || !strings.Contains(errs, "EACCES") || !strings.Contains(errs, "--review") {
		t.Errorf("a panel without the right approves: exit %d, %s", code, errs)
	}
	as(reviewer)
	s.ok("diff", "ctx_panels~test")
	s.ok("approve", "ctx_panels~test", "note")
	s.ok("apply", "ctx_panels~test")
	if got := s.ok("context", "info"); !strings.Contains(got, "review") {
		t.Errorf("context info: %s", got)
	}
	if code, _, errs := s.run("apply", "ctx_panels~x"); code != 1 || !strings.Contains(errs, "its own work") {
		t.Errorf("a panel applies its own work: exit %d, %s", code, errs)
	}
	s.env = host
	if got := s.ok("log", "ctx_panels~test"); !strings.Contains(got, "panels/x") {
		t.Errorf("log: %s", got)
	}
}

func TestTryLeavesNothing(t *testing.T) {
	s := serve(t)
	delete(s.env, "CTXFS_PANEL")
	out := s.ok("try")
	if n := strings.Count(out, "ok  "); n != 18 || strings.Contains(out, "FAIL") || strings.Contains(out, "not tried: the server") {
		t.Errorf("%d steps:\n%s", n, out)
	}
	s.expect("[]\n", "context", "list", "--json")
}

func TestLabelsFromTheShell(t *testing.T) {
	s := serve(t)
	s.ok("context", "create", "ctx_a", "--label", "owner=ada")
	s.ok("panel", "open", "p", "-c", "ctx_b", "--label", "owner=bob")
	s.expect("owner  ada\ntask   1 2\n", "label", "ctx_a", "task=1 2")
	s.expect("owner  ada\n", "label", "ctx_a", "task-", "absent-")
	s.expect("owner  bob\n", "--panel", "p", "label")
	s.expect("p has no labels\n", "--panel", "p", "label", "owner-")
	s.expect("owner  bob\n", "label", "p") // its context keeps its own
	if got := s.ok("context", "list", "--label", "owner=ada"); !strings.Contains(got, "ctx_a") || !strings.Contains(got, "owner=ada\n") || strings.Contains(got, "ctx_b") {
		t.Errorf("context list: %s", got)
	}
	s.expect("{\n  \"contextId\": \"ctx_b\",\n  \"labels\": {\n    \"owner\": \"bob\"\n  }\n}\n", "--json", "label", "ctx_b")
	for _, args := range [][]string{{"label"}, {"label", "ctx_a", "x"}, {"label", "owner=ada"}, {"context", "create", "ctx_c", "--label", "x"}} {
		if code, _, _ := s.run(args...); code != 2 {
			t.Errorf("ctxfs %s: exit %d, want 2", strings.Join(args, " "), code)
		}
	}
	if code, _, errs := s.run("label", "ctx_a", "Owner=x"); code != 1 || !strings.Contains(errs, `bad label key "Owner"; use 1 to 63 of`) {
		t.Errorf("a bad key: exit %d, %s", code, errs)
	}
}

func TestLifeFromTheShell(t *testing.T) {
	s := serve(t)
	s.stdin = "first\n"
	s.ok("put", "-", "/note")
	const id = "ctx_panels~test"
	if got := s.ok("snapshot", "create", id, "before"); !strings.HasPrefix(got, id+" kept as before, ") {
		t.Errorf("snapshot create: %s", got)
	}
	if got := s.ok("context", "fork", id, "ctx_fork"); !strings.Contains(got, "forked from  "+id) {
		t.Errorf("context fork: %s", got)
	}
	s.ok("context", "fork", "ctx_fork", "--new-panel", "other")
	s.stdin = "second\n"
	s.ok("put", "-", "/note")
	s.expect("first\n", "--panel", "other", "cat", "/note")
	s.expect("Restored "+id+" from snapshot \"before\".\n", "snapshot", "restore", "--discard-changes", id, "before")
	s.expect("first\n", "cat", "/note")
	if got := s.ok("snapshot", "list", id); !strings.Contains(got, "before") {
		t.Errorf("snapshot list: %s", got)
	}
	if got := s.ok("context", "list", "--sizes"); !strings.Contains(got, "SNAPSHOTS") || !strings.Contains(got, "ctx_other") {
		t.Errorf("context list: %s", got)
	}
	if got := s.ok("context", "info", "--sizes", id); !strings.Contains(got, " in snapshots") {
		t.Errorf("context info: %s", got)
	}
	s.expect("before of "+id+" deleted\n", "snapshot", "delete", id, "before")
	if got := s.ok("gc", "--dry-run", "--idle", "1ms"); !strings.Contains(got, id+"  it was used ") || !strings.HasSuffix(got, "\nwould be removed: 0, 0 B\n") {
		t.Errorf("gc --dry-run: %s", got)
	}
	s.expect("would be removed: 0, 0 B\n", "gc", "--dry-run")
	s.expect("removed: 0, 0 B\n", "gc")
	for _, args := range [][]string{{"context", "fork", id}, {"context", "fork", id, "ctx_x", "--new-panel", "x"}, {"snapshot", "create", id}, {"gc", "now"}, {"gc", "--force"}} {
		if code, _, _ := s.run(args...); code != 2 {
			t.Errorf("ctxfs %s: exit %d, want 2", strings.Join(args, " "), code)
		}
	}
	if code, _, errs := s.run("snapshot", "restore", "--discard-changes", id, "before"); code != 1 || !strings.Contains(errs, "has no snapshot") {
		t.Errorf("restoring what was deleted: exit %d, %s", code, errs)
	}
}

func TestListShowsTheContextThatCannotBeMeasured(t *testing.T) {
	s := serve(t)
	s.ok("ls", "/")
	s.ok("context", "create", "ctx_broken")
	snapshots := filepath.Join(s.dir, ".contexts", ".ctxfs", "snapshots")
	if err := errors.Join(os.MkdirAll(snapshots, 0o700), os.WriteFile(filepath.Join(snapshots, "ctx_broken"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	code, out, errs := s.run("context", "list", "--sizes")
	if code != 1 || !strings.Contains(out, "ctx_panels~test") || !strings.Contains(out, "?") || !strings.Contains(errs, "ctx_broken") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestCompletion(t *testing.T) {
	s := serve(t)
	s.ok("mkdir", "/src/deep")
	s.ok("snapshot", "create", "panels/test", "before")
	for line, want := range map[string]string{
		"ls s":                              "src/",
		"cat src/":                          "src/deep/ src/main.go",
		"cat /RE":                           "/README.md",
		"--panel pan":                       "panels/test",
		"context info ":                     "panels/test ctx_panels~test",
		"snapshot restore panels/test ":     "before",
		"call ReadS":                        "ReadStream",
		"--panel panels/other cat /":        "",
		"snapshot create panels/test bef":   "",
		"--panel panels/test get /src/main": "/src/main.go",
	} {
		args := strings.Split(line, " ")
		var got []string
		_, out, _ := s.run(append([]string{"__complete"}, args...)...)
		for text := range strings.Lines(out) {
			if text = strings.TrimSpace(text); !strings.HasPrefix(text, ":") {
				got = append(got, text)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q is completed to %q, want %q", line, got, want)
		}
	}
	if got := s.ok("panel", "list"); strings.Contains(got, "other") {
		t.Errorf("completion made a panel:\n%s", got)
	}
}
