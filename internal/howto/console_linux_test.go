package howto

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// step is a command of a block ```console, and what the page says that it prints.
type step struct {
	line          int
	command, want string
}

// steps returns the commands of all blocks ```console of a page. A line that begins with "> " continues the command before it.
func steps(page string) []step {
	var list []step
	inside := false
	for i, line := range strings.Split(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			list = append(list, step{line: i + 1, command: line[2:]})
		case strings.HasPrefix(line, "> ") && len(list) > 0 && list[len(list)-1].want == "":
			list[len(list)-1].command += "\n" + line[2:]
		case len(list) > 0:
			list[len(list)-1].want += line + "\n"
		}
	}
	return list
}

// varying matches what differs between two runs, and what stands for it in a comparison.
var varying = []struct {
	form *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`[\w-]{43}`), "TOKEN"},
	{regexp.MustCompile(`\bf1-[0-9a-f]{16}-[a-z2-7]{16}-`), "CURSOR-"},
	{regexp.MustCompile(`("etag": ?)"[\w-]{20}"`), `$1"ETAG"`},
	{regexp.MustCompile(`\b[0-9a-f]{10,40}\b`), "HASH"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ms|us|µs|s)\b`), "DURATION"},
	{regexp.MustCompile(`\bpid( +)\d+`), "pid PID"},
	{regexp.MustCompile(`ctxfs \d+\.\d+\.\d+\S* +`), "ctxfs VERSION "},
	{regexp.MustCompile(` +\n`), "\n"},
}

// alike returns a text as it is compared: home is the home directory of the run.
func alike(text, home string) string {
	text = strings.ReplaceAll(text, home, "/home/me")
	for _, v := range varying {
		text = v.form.ReplaceAllString(text, v.as)
	}
	return strings.TrimRight(text, "\n")
}

// matches compares an output with a page's. A line "..." of the page stands for any lines.
func matches(got, want string) bool {
	var form strings.Builder
	for line := range strings.SplitSeq(want, "\n") {
		if line == "..." {
			form.WriteString(`(?:.*\n)*`)
		} else {
			form.WriteString(regexp.QuoteMeta(line) + "\n")
		}
	}
	return regexp.MustCompile(`^` + form.String() + `$`).MatchString(got + "\n")
}

// TestPagesShowWhatCommandsPrint runs the consoles of all pages, each in a home directory of its own. A tutorial begins with what the
// README's first minute made, the README with nothing, and a how-to with a repository.
func TestPagesShowWhatCommandsPrint(t *testing.T) {
	pages := append([]string{"README.md"}, tracked(t, "docs/*.md")...)
	ran := 0
	for _, page := range pages {
		list := steps(read(t, page))
		if len(list) == 0 {
			continue
		}
		ran += len(list)
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			home := newHome(t)
			switch {
			case page == "README.md":
			case strings.HasPrefix(page, "docs/tutorials/"):
				readme := steps(read(t, "README.md"))
				begun := slices.IndexFunc(readme, func(s step) bool { return strings.HasPrefix(s.command, "ctxfs ") })
				home.follow("README.md", readme[:begun], nil)
				home.must("cd")
			default:
				home.must(`mkdir -p ~/work/app && cd ~/work/app && git init -q -b main && echo '# app' >README.md &&
					printf 'package main\n\nfunc main() {}\n' >main.go && git add . && git commit -qm first && cd`)
			}
			home.follow(page, list, nil)
		})
	}
	if ran < 20 {
		t.Errorf("%d commands found: the test does not see the pages", ran)
	}
}

// tutorial matches a link from README.md or docs/README.md to a tutorial.
var tutorial = regexp.MustCompile(`\]\((?:docs/)?(tutorials/[\w-]+\.md)\)`)

// tutorials returns the tutorials in the order in which a page lists them.
func tutorials(t *testing.T, page string) []string {
	t.Helper()
	var list []string
	for _, link := range tutorial.FindAllStringSubmatch(read(t, page), -1) {
		list = append(list, "docs/"+link[1])
	}
	return list
}

// TestTutorialsWorkOneAfterTheOther follows the README and then all tutorials in one home directory, as a reader does.
func TestTutorialsWorkOneAfterTheOther(t *testing.T) {
	t.Parallel()
	list := tutorials(t, "docs/README.md")
	if readme := tutorials(t, "README.md"); !slices.Equal(list, readme) {
		t.Errorf("README.md lists the tutorials as %q, docs/README.md as %q", readme, list)
	}
	if all := tracked(t, "docs/tutorials/*.md"); !slices.Equal(slices.Sorted(slices.Values(list)), all) {
		t.Errorf("docs/README.md lists the tutorials %q of %q", list, all)
	}
	home := newHome(t)
	for _, page := range append([]string{"README.md"}, list...) {
		home.must("cd") // in a new terminal
		home.follow(page, steps(read(t, page)), map[string]string{})
	}
}

// TestServersOfAPageEnd starts a server as a page does, and then has other variables that name a server.
func TestServersOfAPageEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *home, owner *exec.Cmd){
		"with its home":         func(h *home, _ *exec.Cmd) { h.stop() },
		"with the tests' death": func(_ *home, owner *exec.Cmd) { _ = owner.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := exec.CommandContext(t.Context(), "sleep", "3600")
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			h := newHome(t)
			h.must(fmt.Sprintf("mkdir ~/work && cd ~/work && export %s=%d && ctxfs serve --detach && export CTXFS_ADDRESS=127.0.0.1:1", ownerEnv, owner.Process.Pid))
			servers := h.servers()
			if len(servers) != 1 {
				t.Fatalf("the servers are %v", servers)
			}
			t.Cleanup(func() {
				_ = owner.Process.Kill()
				_ = owner.Wait() // it was killed
			})
			end(h, owner)
			if err := awaitEnd(servers[0], time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
}

// home is an empty home directory, and a shell whose directory and variables last from one command to the next.
type home struct {
	t   *testing.T
	dir string
}

func newHome(t *testing.T) *home {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctxfs") // t.TempDir's path may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	h := &home{t, dir}
	t.Cleanup(func() {
		h.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	h.must("mkdir ~/.state ~/bin && ln -s " + os.Args[0] + " ~/bin/ctxfs")
	return h
}

// servers returns the process IDs of the servers that run below the home directory.
func (h *home) servers() []int {
	var pids []int
	err := filepath.WalkDir(h.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "server.json" {
			return nil // a folder that is just being removed has no server
		}
		data, err := os.ReadFile(path)
		var record struct{ PID int }
		if err == nil {
			err = json.Unmarshal(data, &record)
		}
		if err == nil {
			pids = append(pids, record.PID)
		}
		return nil
	})
	if err != nil {
		h.t.Error(err)
	}
	return pids
}

// stop ends the servers that a page has left running, whatever its variables say.
func (h *home) stop() {
	for _, pid := range h.servers() {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			continue // it was killed
		}
		if err := awaitEnd(pid, time.Minute); err != nil {
			h.t.Error(err)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// awaitEnd waits until a process has ended, which need not be a child; without a bound if that is negative.
func awaitEnd(pid int, bound time.Duration) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(bound/time.Millisecond))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("pid %d did not end within %s", pid, bound)
		default:
			return nil
		}
	}
}

// undoing matches an entry of the log, in a command or where apply prints it.
var undoing = regexp.MustCompile(`\bctxfs undo (\d+)`)

// follow runs the commands of a page, and compares what they print. A command may fail only if the page shows its error. With entries, the
// log had other entries before: follow types the numbers that apply printed in the place of those of the page.
func (h *home) follow(page string, list []step, entries map[string]string) {
	h.t.Helper()
	number := func(text string) string {
		return undoing.ReplaceAllStringFunc(text, func(match string) string {
			if own, found := entries[match]; found {
				return own
			}
			return match
		})
	}
	for _, s := range list {
		out, err := h.run(number(s.command))
		if err != nil && !strings.Contains("\n"+s.want, "\nctxfs: ") {
			h.t.Errorf("%s:%d: %s\n%v\n%s", page, s.line, s.command, err, out)
		}
		if got, want := undoing.FindAllString(out, -1), undoing.FindAllString(s.want, -1); entries != nil && len(got) == len(want) {
			for i := range want {
				entries[want[i]] = got[i]
			}
		}
		if got, want := alike(out, h.dir), number(alike(s.want, h.dir)); !matches(got, want) {
			h.t.Errorf("%s:%d: %s\nprints:\n%s\nthe page says:\n%s", page, s.line, s.command, got, want)
		}
	}
}

// must runs a command that prepares a test.
func (h *home) must(command string) {
	h.t.Helper()
	if out, err := h.run(command); err != nil {
		h.t.Fatalf("%s\n%v\n%s", command, err, out)
	}
}

// run runs a command and returns what it printed on both outputs.
func (h *home) run(command string) (string, error) {
	state := filepath.Join(h.dir, ".state")
	script := fmt.Sprintf("if [ -f %[1]s/env ]; then . %[1]s/env; cd \"$(cat %[1]s/dir)\"; fi\n%[2]s\ncode=$?\nexport -p >%[1]s/env; pwd >%[1]s/dir; exit $code", state, command)
	cmd := exec.CommandContext(h.t.Context(), "sh", "-c", script)
	cmd.Dir = h.dir
	cmd.Env = environ(filepath.Join(h.dir, "bin"), "HOME="+h.dir, "LC_ALL=C",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=me", "GIT_AUTHOR_EMAIL=me@example.com", "GIT_COMMITTER_NAME=me", "GIT_COMMITTER_EMAIL=me@example.com")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// quoted matches a block that names the file from which it is taken.
var quoted = regexp.MustCompile("(?ms)^```(js|ts|json|html)( \\S+)?\n(.*?)^```$")

// TestTutorialsQuoteExamples checks that the programs in tutorials are parts of the examples, which the npm client's tests run.
func TestTutorialsQuoteExamples(t *testing.T) {
	found := 0
	for _, page := range tracked(t, "docs/tutorials/*.md") {
		for _, block := range quoted.FindAllStringSubmatch(read(t, page), -1) {
			file := strings.TrimSpace(block[2])
			if file == "" {
				t.Errorf("%s: a block of %s names no example: %.60s", page, block[1], block[3])
			} else if !strings.Contains(read(t, file), block[3]) {
				t.Errorf("%s: %s does not have\n%s", page, file, block[3])
			}
			found++
		}
	}
	if found == 0 {
		t.Error("no program found")
	}
}
