//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/cli"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// TestReviewOfNamesThatAreNotUTF8 uses a name with a byte of Latin-1.
func TestReviewOfNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "p"}}
	const name = "caf\xe9"
	for _, text := range []string{"a\n", "b\n"} {
		s.stdin = text
		s.ok("put", "-", name)
		if out := s.ok("diff", "p", name); !strings.Contains(out, "+"+text) {
			t.Errorf("the difference is %q", out)
		}
		if text == "a\n" {
			s.ok("approve", "p", name)
			s.ok("discard", "p", name)
			s.ok("reject", "p", name) // else the approval of what is gone is named from now on
		}
	}
	if err := os.WriteFile(filepath.Join(ws, name), []byte("the user's\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := s.run("apply", "p", name)
	if code != 1 || strings.Contains(errs, "disk") || !strings.Contains(errs, `"caf\xe9": add add`) || !strings.Contains(errs, `changed these files too: caf\xe9`) {
		t.Errorf("a conflict: exit %d, %q", code, errs)
	}
	if code, _, errs := s.run("--json", "apply", "p", name); code != 1 || !strings.Contains(errs, `"code":"CONFLICT"`) || !strings.Contains(errs, `"rawPath":"L2NhZuk="`) {
		t.Errorf("a conflict in JSON: exit %d, %q", code, errs)
	}
	if err := os.Remove(filepath.Join(ws, name)); err != nil {
		t.Fatal(err)
	}
	s.ok("apply", "p", name)
	if data, err := os.ReadFile(filepath.Join(ws, name)); string(data) != "b\n" {
		t.Errorf("the workspace has %q, %v", data, err)
	}
}

// TestCommandsThatWithdrawDecisionsNameTheFile approves files whose names mean something to a shell, to ctxfs or to a
// terminal. The agent removes some, and changes the others. A shell reads the commands that changes prints.
func TestCommandsThatWithdrawDecisionsNameTheFile(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	ws := servertest.Workspace(t)
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "p"}}
	put := func(p, content string) {
		t.Helper()
		s.stdin = content
		s.ok("put", "-", p)
	}
	names := []string{"plain", "two words", "it's", "$(touch ran)", "`touch ran`; touch ran", "-n", "--all", "dir/-n", "*", "~", "\x1b[31mred\\'s", "line\nbreak", "caf\xe9", "é", "é\x7f"}
	s.ok("mkdir", "/dir")
	for _, name := range names {
		put("/"+name, "one\n")
	}
	s.ok("approve", "p", "--all", "--unseen")
	for i, name := range names {
		if i%2 == 0 {
			s.ok("rm", "/"+name)
		} else {
			put("/"+name, "two\n")
		}
	}
	out := s.ok("changes", "p")
	if strings.ContainsFunc(out, func(r rune) bool { return r < ' ' && r != '\n' || r == '\x7f' || r == '\ufffd' }) {
		t.Errorf("changes prints names as they are: %q", out)
	}
	commands := regexp.MustCompile(`: ctxfs (reject ctx_p .*)\n`).FindAllStringSubmatch(out, -1)
	if len(commands) != len(names) {
		t.Fatalf("%d commands for %d names: %s", len(commands), len(names), out)
	}
	for _, c := range commands {
		words := exec.Command(bash, "-c", `printf '%s\0' `+c[1])
		words.Dir = t.TempDir()
		args, err := words.Output()
		if made, _ := os.ReadDir(words.Dir); err != nil || len(made) > 0 {
			t.Errorf("%s: %v, and it made %v", c[1], err, made)
		}
		s.ok(strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")...)
	}
	if out := s.ok("changes", "p"); strings.Contains(out, "decided") {
		t.Errorf("changes after all was withdrawn: %s", out)
	}
}

// rawRow is a command line with a name that is not UTF-8.
type rawRow struct {
	args []string
	// want is in what the command prints, or in its refusal.
	want string
	// code is its exit code.
	code int
}

// rows runs command lines. What they say of names has other bytes escaped.
func (s *shell) rows(rows ...rawRow) {
	s.t.Helper()
	for _, r := range rows {
		code, out, errs := s.run(r.args...)
		if code != r.code || !strings.Contains(out+errs, r.want) {
			s.t.Errorf("ctxfs %q: exit %d, %q, %q; want %d, %q", r.args, code, out, errs, r.code, r.want)
		}
		for _, bad := range []string{"EIO", "invalid UTF-8", "\xe9", "\ufffd"} {
			if strings.Contains(errs, bad) {
				s.t.Errorf("ctxfs %q: %q", r.args, errs)
			}
		}
	}
}

// takesNames finds commands that take a path, a pattern or a command line, by their usage.
var takesNames = regexp.MustCompile(`PATH|FROM|LOCAL|FILE|FOLDER|PATTERN|COMMAND|REPOSITORY|ZONE|METHOD|PROCESS`)

// TestEveryCommandTakesOrRefusesNamesThatAreNotUTF8 has a row for every command that takes such names.
func TestEveryCommandTakesOrRefusesNamesThatAreNotUTF8(t *testing.T) {
	s := execShell(t, func(cfg *server.Config) { cfg.Gateway = "127.0.0.1:0" })
	s.env["CTXFS_PANEL"] = "panels/a"
	const (
		name, dir = "caf\xe9.txt", "d\xe9"
		shown     = `caf\xe9.txt"`
	)
	theirs := filepath.Join(s.dir, name)
	local := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(local, []byte(`[{"mkdir": {"rawPath": "L3rp"}}]`), 0o600))
	s.stdin = "one\n"
	rows := map[string][]rawRow{}
	add := func(command string, list ...rawRow) {
		t.Helper()
		s.rows(list...)
		rows[command] = append(rows[command], list...)
	}

	// Files.
	add("put", rawRow{[]string{"put", "-", name}, "1 file", 0}, rawRow{[]string{"put", local, "up" + name}, "1 file", 0})
	add("get", rawRow{[]string{"get", name, local + "2"}, "1 file", 0})
	add("mkdir", rawRow{[]string{"mkdir", dir}, "", 0})
	add("cp", rawRow{[]string{"cp", name, dir + "/a"}, "1 file", 0})
	add("mv", rawRow{[]string{"mv", dir + "/a", dir + "/b"}, "", 0})
	add("ln", rawRow{[]string{"ln", "-s", name, dir + "/l"}, "", 0})
	add("ls", rawRow{[]string{"ls", name}, shown, 0}, rawRow{[]string{"--json", "ls", name}, `"rawName": "Y2Fm6S50eHQ="`, 0})
	add("tree", rawRow{[]string{"tree", dir}, "b", 0})
	add("cat", rawRow{[]string{"cat", name}, "one\n", 0}, rawRow{[]string{"cat", "no" + name}, `nocaf\xe9.txt`, 1})
	add("stat", rawRow{[]string{"stat", name}, `caf\xe9.txt`, 0})
	add("glob", rawRow{[]string{"glob", "caf*"}, shown, 0}, rawRow{[]string{"glob", "caf\xe9*"}, `caf\xe9*`, 1})
	add("grep", rawRow{[]string{"grep", "one", name}, shown, 0}, rawRow{[]string{"grep", "caf\xe9", "."}, `caf\xe9`, 1})
	add("edit", rawRow{[]string{"edit", name, "--old", "one", "--new", "two"}, "", 0}, rawRow{[]string{"edit", name, "--old", "caf\xe9", "--new", "x"}, `caf\xe9`, 1})
	add("watch", rawRow{[]string{"watch", "no" + name}, `nocaf\xe9.txt`, 1})
	add("feed", rawRow{[]string{"feed", "--no-follow", name}, "ready", 0})
	add("export", rawRow{[]string{"export", "panels/a", dir, "-o", local + ".tar"}, "", 0})
	add("import", rawRow{[]string{"import", "panels/a", dir + "2", "-i", local + ".tar"}, "", 0})
	add("context export", rawRow{[]string{"context", "export", "panels/a", local + ".2.tar"}, "", 0})
	add("context import", rawRow{[]string{"context", "import", "ctx_i", local + ".tar"}, "ctx_i", 0})
	add("batch", rawRow{[]string{"batch", local}, "steps carried out: 1", 0})
	add("call", rawRow{[]string{"call", "ReadFile", "path=" + name}, "raw_path", 2}, rawRow{[]string{"call", "ReadFile", "raw_path=/" + name}, "", 0})
	add("open", rawRow{[]string{"open", "panels/a", name}, "/caf%E9.txt", 0}, rawRow{[]string{"open", "panels/a", "--root", dir}, `d\xe9`, 1})
	add("rm", rawRow{[]string{"rm", "-r", dir + "2", "up" + name}, "", 0})

	// Reviews.
	add("diff", rawRow{[]string{"diff", "panels/a", name}, "+two", 0}, rawRow{[]string{"diff", "--name-status", "panels/a", name}, shown, 0})
	add("changes", rawRow{[]string{"changes", "panels/a", name}, shown, 0}, rawRow{[]string{"--json", "changes", "panels/a", name}, `"rawPath": "L2NhZuk`, 0})
	s.stdin = "q\n"
	add("review", rawRow{[]string{"review", "panels/a", name}, "approved 0", 0})
	s.stdin = ""
	add("approve", rawRow{[]string{"approve", "panels/a", name}, "approved", 0})
	add("reject", rawRow{[]string{"reject", "panels/a", name, "-m", "caf\xe9"}, `"caf\xe9"`, 1}, rawRow{[]string{"reject", "panels/a", name}, "rejected", 0})
	add("apply", rawRow{[]string{"apply", "panels/a", "no" + name}, `nocaf\xe9.txt`, 1},
		rawRow{[]string{"apply", "panels/a", name, "--check", "test -f " + name}, "applied", 0})
	add("log", rawRow{[]string{"log", "--path", name}, "apply", 0}, rawRow{[]string{"--json", "log", "--path", name}, `"rawPath": "L2NhZuk`, 0})
	add("undo", rawRow{[]string{"undo", "1"}, shown, 0}, rawRow{[]string{"undo", "2"}, shown, 0})
	add("discard", rawRow{[]string{"discard", "panels/a", dir + "/b"}, "discarded", 0})
	for _, with := range []string{"workspace", "context"} {
		s.stdin = "mine " + with
		s.ok("put", "-", name)
		must(t, os.WriteFile(theirs, []byte("theirs "+with), 0o600))
		add("rebase", rawRow{[]string{"rebase", "panels/a", name}, shown, 1}, rawRow{[]string{"rebase", "panels/a", name, "--on-conflict", "record"}, shown, 0})
		s.rows(rawRow{[]string{"conflicts", "panels/a"}, shown, 0})
		add("resolve", rawRow{[]string{"resolve", "panels/a", "no" + name}, `nocaf\xe9.txt`, 1}, rawRow{[]string{"resolve", "panels/a", name, "--with", with}, shown, 0})
	}

	// Git.
	add("git status", rawRow{[]string{"git", "status"}, shown, 0}, rawRow{[]string{"git", "status", name}, shown, 0}, rawRow{[]string{"git", "status", "--repo", name}, shown, 1})
	add("git diff", rawRow{[]string{"git", "diff", name}, "+mine context", 0})
	add("git stage", rawRow{[]string{"git", "stage", "-m", "m", "no" + name}, "no such change", 1}, rawRow{[]string{"git", "stage", "-m", "caf\xe9", name}, `"caf\xe9"`, 1},
		rawRow{[]string{"git", "stage", "-m", "m", name}, "1 file", 0})
	words := strings.Fields(s.ok("git", "staged"))
	if len(words) < 9 {
		t.Fatalf("git staged printed %q", words)
	}
	id := words[8] // after the head
	add("git show", rawRow{[]string{"git", "show", id, "--stat"}, shown, 0}, rawRow{[]string{"git", "show", id, name}, "+mine context", 0}, rawRow{[]string{"--json", "git", "show", id}, `"rawPath": "L2NhZuk`, 0})
	must(t, os.WriteFile(theirs, []byte("third"), 0o600))
	servertest.Git(t, s.dir, "add", name)
	servertest.Git(t, s.dir, "commit", "-qm", "second")
	add("git pull", rawRow{[]string{"git", "pull", "/", name, "--dest", dir}, `created   "d\xe9/caf\xe9.txt"`, 0}, rawRow{[]string{"git", "pull", "/", "no" + name}, `nocaf\xe9.txt`, 1},
		rawRow{[]string{"git", "pull", "/", name}, `caf\xe9.txt`, 1})
	add("git branches", rawRow{[]string{"git", "branches", name}, shown, 1})

	// Commands.
	add("exec", rawRow{[]string{"exec", "panels/a", "--", "cat", name}, "mine context", 0},
		rawRow{[]string{"exec", "panels/a", "--sandbox", "s", "-w", dir, "--", "cat", name}, "third", 0},
		rawRow{[]string{"exec", "panels/a", "-w", "no" + name, "--", "true"}, `nocaf\xe9.txt`, 125},
		rawRow{[]string{"exec", "panels/a", "-e", "A=caf\xe9", "--", "true"}, `"caf\xe9"`, 125},
		rawRow{[]string{"exec", "panels/a", "--checkpoint", "--", "cp", name, "copy" + name}, "", 0})
	s.rows(rawRow{[]string{"ps", "-a", "panels/a"}, `"cat caf\xe9.txt"`, 0}, rawRow{[]string{"--json", "ps", "-a", "panels/a"}, `"rawCwd": "ZOk="`, 0})
	add("explain-exec", rawRow{[]string{"explain-exec", "panels/a", "-w", dir, "--", "cat", name}, `"/context/d\xe9"`, 0})
	add("shell", rawRow{[]string{"shell", "-d", "panels/a", "--", "cat", name}, "p-", 0})
	for _, command := range []string{"logs", "attach", "kill"} {
		add(command, rawRow{[]string{command, name}, shown, 2})
	}

	// Further places of names.
	add("zones resolve", rawRow{[]string{"zones", "resolve", "panels/a", name}, "/caf\xe9.txt\n", 0}, rawRow{[]string{"--json", "zones", "resolve", "panels/a", "no/" + name}, `no/caf\\xe9.txt`, 1})
	add("zones clear", rawRow{[]string{"zones", "clear", "panels/a", dir}, `d\xe9`, 1})
	add("zones explain", rawRow{[]string{"zones", "explain", dir}, `d\xe9`, 1})
	add("template build", rawRow{[]string{"template", "build", dir}, `d\xe9`, 1})
	s.rows(rawRow{[]string{"panel", "open", "panels/b", "--seed-from", dir}, `d\xe9`, 1})

	for _, command := range commandsBelow(cli.Root(cli.Env{}), "") {
		if path := command.Annotations["path"]; takesNames.MatchString(command.Use) && rows[path] == nil && path != "help" {
			t.Errorf("there is no row for ctxfs %s", path)
		}
	}
}

// commandsBelow returns the commands below cmd. The annotation "path" is how they are called.
func commandsBelow(cmd *cobra.Command, path string) (list []*cobra.Command) {
	for _, c := range cmd.Commands() {
		at := strings.TrimSpace(path + " " + c.Name())
		c.Annotations = map[string]string{"path": at}
		list = append(append(list, c), commandsBelow(c, at)...)
	}
	return list
}

// TestRepositoriesAndContextsWithNamesThatAreNotUTF8 has a repository in a directory with such a name, and a second context that changes the same file.
func TestRepositoriesAndContextsWithNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	const repo = "r\xe9"
	must(t, os.Mkdir(filepath.Join(ws, repo), 0o755), os.WriteFile(filepath.Join(ws, repo, "f"), []byte("f\n"), 0o600))
	inner := filepath.Join(ws, repo)
	servertest.Git(t, ws, "config", "user.name", "J\xe9")
	servertest.Git(t, inner, "init", "-q", "-b", "main")
	servertest.Git(t, inner, "add", "f")
	servertest.Git(t, inner, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first")
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{}, stdin: "g\n"}
	for _, panel := range []string{"q", "p"} {
		s.env["CTXFS_PANEL"] = panel
		s.ok("put", "-", repo+"/f")
		s.ok("put", "-", "README.md")
		s.ok("changes", panel)
	}
	s.env = map[string]string{}
	s.rows(
		rawRow{[]string{"changes", "p"}, `"r\xe9/f"`, 0},
		rawRow{[]string{"--json", "changes", "p"}, `r\\xe9`, 0},
		rawRow{[]string{"--panel", "p", "git", "repositories"}, `unusable`, 0},
		rawRow{[]string{"--panel", "p", "git", "status"}, `"r\xe9/f"`, 0},
		rawRow{[]string{"--panel", "p", "git", "diff"}, "+g", 0},
		rawRow{[]string{"--panel", "p", "git", "stage", "-m", "m", repo + "/f"}, `r\xe9`, 1},
		rawRow{[]string{"--panel", "p", "git", "stage", "-m", "m", "--repo", repo}, `r\xe9`, 1},
		rawRow{[]string{"--panel", "p", "git", "branches", repo}, `r\xe9`, 1},
		rawRow{[]string{"--panel", "p", "git", "branches", `/r\xe9`}, `r\xe9`, 1},
		rawRow{[]string{"apply", "p", repo + "/f", "--commit", "-m", "m"}, "rename its folder", 1},
		rawRow{[]string{"apply", "p", repo + "/f"}, "applied", 0},
		rawRow{[]string{"undo", "1"}, `"r\xe9/f"`, 0},
		rawRow{[]string{"--panel", "p", "git", "stage", "-m", "m", "README.md"}, "1 file", 0},
		rawRow{[]string{"--panel", "p", "--json", "git", "staged"}, "README.md", 0},
		rawRow{[]string{"apply", "p", "README.md", "--commit", "-m", "m"}, `J\xe9`, 0},
		rawRow{[]string{"undo", "3", "--commit", "-m", "m"}, `J\xe9`, 0},
	)
	servertest.Git(t, ws, "checkout", "-qb", "b\xe9")
	s.env["CTXFS_PANEL"] = "other"
	s.ok("put", "-", "README.md")
	s.ok("changes", "other")
	s.rows(
		rawRow{[]string{"git", "repositories"}, `b\xe9`, 0},
		rawRow{[]string{"git", "branches", "/"}, `b\xe9`, 0},
		rawRow{[]string{"git", "stage", "-m", "m", "README.md"}, `b\xe9`, 1},
		rawRow{[]string{"apply", "other", "README.md", "--commit", "-m", "m"}, "git branch -m", 1},
	)
}
