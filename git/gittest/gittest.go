// Package gittest creates git repositories for tests: real ones, broken ones, and one
// that tries by every means to run a program.
package gittest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// Workspace is a folder with git repositories.
type Workspace struct {
	T testing.TB
	// Dir is the folder's path, without links.
	Dir string
	// State is another folder, for what does not belong into the workspace.
	State string
}

// New creates an empty workspace, which the test removes.
func New(t testing.TB) *Workspace {
	t.Helper()
	w := &Workspace{T: t, State: t.TempDir()}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	w.Must(err)
	w.Dir = dir
	return w
}

// Must fails the test at once if err is not nil.
func (w *Workspace) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// In returns the path of p, which is relative to the workspace.
func (w *Workspace) In(p string) string { return filepath.Join(w.Dir, filepath.FromSlash(p)) }

// Write writes a file, with the folders that lead to it.
func (w *Workspace) Write(p, content string) {
	w.T.Helper()
	w.Must(os.MkdirAll(filepath.Dir(w.In(p)), 0o755))
	w.Must(os.WriteFile(w.In(p), []byte(content), 0o644))
}

// Git runs git as a person would, in a folder of the workspace, and returns what it prints. A commit starts no maintenance.
func (w *Workspace) Git(p string, stdin []byte, args ...string) string {
	w.T.Helper()
	cmd := exec.Command("git", append([]string{"-c", "maintenance.auto=false", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", w.In(p)}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.T.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Repo creates a repository with one commit of the files, and returns the commit.
func (w *Workspace) Repo(p string, files ...string) string {
	w.T.Helper()
	w.Must(os.MkdirAll(w.In(p), 0o755))
	w.Git(p, nil, "init", "-q", "-b", "main")
	return w.Commit(p, files...)
}

// Commit writes files ("name=content"), commits everything, and returns the commit.
func (w *Workspace) Commit(p string, files ...string) string {
	w.T.Helper()
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		w.Write(p+"/"+name, content)
	}
	w.Git(p, nil, "add", "-A")
	w.Git(p, nil, "commit", "-q", "--allow-empty", "-m", "c")
	return w.Git(p, nil, "rev-parse", "HEAD")
}

// RefsRepo creates the repository r with every kind of ref, and returns its two commits.
func (w *Workspace) RefsRepo() (first, second string) {
	w.T.Helper()
	first = w.Repo("r", "f=1")
	for _, args := range [][]string{
		{"tag", "light"}, {"tag", "-a", "-m", "t", "heavy"}, {"branch", "feature/x"}, {"branch", "both"},
		{"tag", "agree", "main"}, {"branch", "agree", "main"}, {"pack-refs", "--all"},
	} {
		w.Git("r", nil, args...)
	}
	second = w.Commit("r", "f=2")
	for _, args := range [][]string{{"tag", "both"}, {"branch", "deadbeef"}, {"tag", "blob", second + ":f"}} {
		w.Git("r", nil, args...)
	}
	return first, second
}

// Entry is one line of a tree object: its mode, name and ID.
type Entry [3]string

// Tree writes a tree object into the repository r, checking nothing, and returns its ID.
func (w *Workspace) Tree(entries ...Entry) string {
	w.T.Helper()
	var raw []byte
	for _, e := range entries {
		id, err := hex.DecodeString(e[2])
		w.Must(err)
		raw = append(append(raw, e[0]+" "+e[1]+"\x00"...), id...)
	}
	return w.Git("r", raw, "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
}

// Blob writes a file's content into the repository r, and returns its ID.
func (w *Workspace) Blob(content string) string {
	w.T.Helper()
	return w.Git("r", []byte(content), "hash-object", "-w", "--stdin")
}

// CommitTree makes a tree the branch main of the repository r, and returns the commit.
func (w *Workspace) CommitTree(tree string) string {
	w.T.Helper()
	commit := w.Git("r", nil, "commit-tree", "-m", "t", tree)
	w.Git("r", nil, "update-ref", "refs/heads/main", commit)
	return commit
}

// RefusedAs checks an error: its errno, that its text has the words in says, and that it has no server path.
func (w *Workspace) RefusedAs(err error, code fserr.Code, says ...string) {
	w.T.Helper()
	if err == nil {
		w.T.Fatalf("it was not refused, want %v", code)
	}
	if got := fserr.CodeOf(err); got != code {
		w.T.Errorf("refused with %v, want %v: %v", got, code, err)
	}
	text := fserr.Wrap(err, "", "", "").Error()
	for _, s := range says {
		if !strings.Contains(text, s) {
			w.T.Errorf("the error %q does not say %q", text, s)
		}
	}
	for _, dir := range []string{w.Dir, w.State} {
		if strings.Contains(text, dir) {
			w.T.Errorf("the error %q has a server path", text)
		}
	}
}

// Serve serves the repositories of the workspace through git's own HTTP server, and those
// below /team also, redirected, below /moved. old hides the newer protocol, in which a
// client may ask for any commit.
func (w *Workspace) Serve(old bool) *httptest.Server {
	w.T.Helper()
	backend := &cgi.Handler{
		Path: filepath.Join(w.Git("", nil, "--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + w.Dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull},
	}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/moved/") {
			http.Redirect(out, r, strings.Replace(r.URL.String(), "/moved/", "/team/", 1), http.StatusFound)
			return
		}
		if old {
			r.Header.Del("Git-Protocol")
		}
		backend.ServeHTTP(out, r)
	}))
	w.T.Cleanup(s.Close)
	return s
}

// ServePrivate serves the repositories of the workspace, for pushes too, to whoever knows user and password. wrap, which may be nil, gets what
// answers all requests.
func (w *Workspace) ServePrivate(user, password string, wrap func(http.Handler) http.Handler) *httptest.Server {
	w.T.Helper()
	backend := &cgi.Handler{
		Path: filepath.Join(w.Git("", nil, "--exec-path"), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + w.Dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "REMOTE_USER=" + user,
		},
	}
	var private http.Handler = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			out.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(out, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(out, r)
	})
	if wrap != nil {
		private = wrap(private)
	}
	s := httptest.NewServer(private)
	w.T.Cleanup(s.Close)
	return s
}

// CutAfterPush lets a push be carried out, and closes the connection instead of answering it.
func CutAfterPush(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			next.ServeHTTP(out, r)
			return
		}
		done := httptest.NewRecorder()
		if next.ServeHTTP(done, r); done.Code == http.StatusUnauthorized {
			maps.Copy(out.Header(), done.Header())
			http.Error(out, "who are you?", done.Code)
			return
		}
		panic(http.ErrAbortHandler)
	})
}

// Own creates a bare repository, which borrows the objects of the repository of a folder, and returns its path.
func (w *Workspace) Own(p string) string {
	w.T.Helper()
	own := filepath.Join(w.State, "own.git")
	w.Git("", nil, "init", "-q", "--bare", own)
	w.Must(os.WriteFile(filepath.Join(own, "objects", "info", "alternates"), []byte(w.In(p+"/.git/objects")+"\n"), 0o600))
	return own
}

// CommitIn makes a commit in a repository that Own returned, and returns it: on top of parent, with files ("name=content", "name" alone
// removes it).
func (w *Workspace) CommitIn(own, parent string, files ...string) string {
	w.T.Helper()
	git := func(stdin string, args ...string) string {
		return w.Git("", []byte(stdin), append([]string{"--git-dir", own}, args...)...)
	}
	git("", "read-tree", parent)
	for _, f := range files {
		mode, id := "0", strings.Repeat("0", 40)
		name, content, ok := strings.Cut(f, "=")
		if ok {
			mode, id = "100644", git(content, "hash-object", "-w", "--stdin")
		}
		git(mode+" "+id+"\t"+name+"\n", "update-index", "--index-info")
	}
	return git("", "commit-tree", "-m", "staged "+strings.Join(files, " "), "-p", parent, git("", "write-tree"))
}

// Trap is a workspace whose repository r tries by every means to run a program. If the program runs, it leaves a file.
type Trap struct {
	*Workspace
	sprung, program string
}

// NewTrap creates the trap, and checks that it is armed: careless git runs the program.
func NewTrap(t testing.TB) *Trap {
	t.Helper()
	w := New(t)
	tr := &Trap{Workspace: w, sprung: filepath.Join(w.State, "sprung"), program: filepath.Join(w.State, "program")}
	w.Must(os.WriteFile(tr.program, []byte("#!/bin/sh\ntouch '"+tr.sprung+"'\n"), 0o755))
	w.Repo("r")
	attributes := "* filter=evil diff=evil merge=evil export-subst ident text eol=crlf working-tree-encoding=UTF-16\n"
	modules := "[submodule \"x\"]\n\tpath = x\n\turl = ext::" + tr.program + "\n\tupdate = !" + tr.program + "\n"
	w.CommitTree(w.Tree(
		Entry{"100644", ".gitattributes", w.Blob(attributes)}, Entry{"100644", ".gitmodules", w.Blob(modules)},
		Entry{"100644", "f", w.Blob("1")}, Entry{"40000", "sub", w.Tree(Entry{"100644", "g", w.Blob("$Format:%H$ $Id$\r\n")})},
		Entry{"160000", "x", strings.Repeat("1", 40)},
	))
	tr.arm("r/.git")
	for _, args := range [][]string{{"status"}, {"st"}, {"checkout", "HEAD", "--", "f"}} {
		if tr.Careless(args...); !tr.WasSprung() {
			t.Errorf("the trap is not armed: git %v runs nothing", args)
		}
	}
	return tr
}

// arm writes configuration, attributes and hooks that name the program.
func (tr *Trap) arm(gitDir string) {
	p := tr.program
	config := "\n[core]\n\tfsmonitor = " + p + "\n\thooksPath = " + tr.In(gitDir) + "/hooks\n\tsshCommand = " + p + "\n\tpager = " + p +
		"\n\teditor = " + p + "\n\taskPass = " + p + "\n\tgitProxy = " + p + "\n\talternateRefsCommand = " + p + "\n\tattributesFile = " + tr.In(gitDir) + "/info/attributes" +
		"\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n[remote \"evil\"]\n\turl = ext::" + p + "\n\tpromisor = true\n\tuploadpack = " + p +
		"\n[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n[alias]\n\tcat-file = !" + p + "\n\tst = !" + p +
		"\n[filter \"evil\"]\n\tsmudge = " + p + "\n\tclean = " + p + "\n\tprocess = " + p + "\n\trequired = true\n[diff \"evil\"]\n\ttextconv = " + p + "\n\tcommand = " + p +
		"\n[uploadpack]\n\tpackObjectsHook = " + p + "\n[credential]\n\thelper = !" + p + "\n[url \"ext::" + p + " \"]\n\tinsteadOf = https://" +
		"\n[submodule \"x\"]\n\turl = ext::" + p + "\n\tupdate = !" + p + "\n\tactive = true\n[gpg]\n\tprogram = " + p + "\n[commit]\n\tgpgSign = true\n[push]\n\tgpgSign = true\n"
	hooks := []string{
		"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-update", "fsmonitor-watchman", "pre-push", "pre-receive", "update",
		"post-receive", "proc-receive", "push-to-checkout",
	}
	config += "[hook \"a trap=1.x\"]\n\tcommand = " + p + "\n\tevent = " + strings.Join(hooks, "\n\tevent = ") + "\n" // for git 2.54 and later
	f, err := os.OpenFile(tr.In(gitDir+"/config"), os.O_APPEND|os.O_WRONLY, 0)
	tr.Must(err)
	_, err = f.WriteString(config)
	tr.Must(errors.Join(err, f.Close()))
	tr.Write(gitDir+"/info/attributes", "* filter=evil diff=evil\n")
	for _, hook := range hooks {
		tr.Must(os.WriteFile(tr.In(gitDir+"/hooks/"+hook), []byte("#!/bin/sh\nexec "+p+" </dev/null\n"), 0o755))
	}
}

// WasSprung reports whether the program ran since it was last asked.
func (tr *Trap) WasSprung() bool {
	err := os.Remove(tr.sprung)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tr.T.Fatal(err)
	}
	return err == nil
}

// Careless runs git in the repository without any guard.
func (tr *Trap) Careless(args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = exec.CommandContext(ctx, "git", append([]string{"-C", tr.In("r")}, args...)...).Run() // it may fail
}

// LoseBlob deletes the object of the file f, which careless git would fetch from the remote
// that the configuration names, and makes a new commit of the same tree. It returns the object's ID.
func (tr *Trap) LoseBlob() string {
	tr.T.Helper()
	safe := []string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull}
	blob := tr.Git("r", nil, append(safe, "rev-parse", "HEAD:f")...)
	next := tr.Git("r", nil, append(safe, "commit-tree", "-m", "2", "HEAD^{tree}")...)
	tr.Must(os.Remove(tr.In("r/.git/objects/" + blob[:2] + "/" + blob[2:])))
	tr.WasSprung()
	if tr.Careless("-c", "core.fsmonitor=false", "cat-file", "-p", blob); !tr.WasSprung() {
		tr.T.Error("the trap is not armed: a missing object is not fetched")
	}
	tr.Write("r/.git/refs/heads/main", next+"\n")
	return blob
}

// Ignoring is a "git check-ignore" that runs in a repository until Close. It reads info/exclude and core.excludesFile when it is
// asked first, and .gitignore files when it is asked for a path below them.
type Ignoring struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// CheckIgnore starts git in the repository dir with env, such as GIT_CONFIG_GLOBAL, added to an environment without a configuration.
func CheckIgnore(t testing.TB, dir string, env ...string) *Ignoring {
	t.Helper()
	cmd := exec.Command("git", "-C", dir, "check-ignore", "--stdin", "-z", "-v", "-n", "--no-index")
	cmd.Env = append(append(os.Environ(), "GIT_FLUSH=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1"), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &Ignoring{t, cmd, in, bufio.NewReader(out)}
}

// Close ends git.
func (g *Ignoring) Close() {
	_ = g.in.Close()
	_ = g.cmd.Wait() // it fails if no path was ignored
}

// Ignores reports which paths, relative to the repository, git ignores. Directories must exist.
func (g *Ignoring) Ignores(paths ...string) []bool {
	g.t.Helper()
	var ignored []bool
	for some := range slices.Chunk(paths, 100) { // so many fit into a pipe
		// Without "./" a name that begins with ":" would be pathspec magic.
		if _, err := io.WriteString(g.in, "./"+strings.Join(some, "\x00./")+"\x00"); err != nil {
			g.t.Fatal(err)
		}
		for _, p := range some {
			var said [4]string // the file, the line, the pattern and the path
			for i := range said {
				text, err := g.out.ReadString(0)
				if err != nil {
					g.t.Fatalf("git check-ignore %q: %v", p, err)
				}
				said[i] = strings.TrimSuffix(text, "\x00")
			}
			ignored = append(ignored, said[0] != "" && !strings.HasPrefix(said[2], "!"))
		}
	}
	return ignored
}
