package howto

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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

// TestPagesShowWhatCommandsPrint runs the consoles of all pages, each in a home directory of its own. A command may
// fail only if the page shows its error.
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
			for _, s := range list {
				out, err := home.run(s.command)
				if err != nil && !strings.Contains("\n"+s.want, "\nctxfs: ") {
					t.Errorf("%s:%d: %s\n%v\n%s", page, s.line, s.command, err, out)
				}
				if got, want := alike(out, home.dir), alike(s.want, home.dir); !matches(got, want) {
					t.Errorf("%s:%d: %s\nprints:\n%s\nthe page says:\n%s", page, s.line, s.command, got, want)
				}
			}
		})
	}
	if ran < 20 {
		t.Errorf("%d commands found: the test does not see the pages", ran)
	}
}

// home is a home directory with ~/work/app, a repository, and a shell whose directory and variables last from one command to the next.
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
		_, _ = h.run("cd ~/work && ctxfs stop") // fails if the page has stopped it
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	setup := fmt.Sprintf(`mkdir -p ~/.state ~/bin ~/work/app && ln -s %s ~/bin/ctxfs && cd ~/work/app && git init -q -b main && echo '# app' >README.md &&
		printf 'package main\n\nfunc main() {}\n' >main.go && git add . && git commit -qm first && cd`, os.Args[0])
	if out, err := h.run(setup); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return h
}

// run runs a command and returns what it printed on both outputs.
func (h *home) run(command string) (string, error) {
	state := filepath.Join(h.dir, ".state")
	script := fmt.Sprintf("if [ -f %[1]s/env ]; then . %[1]s/env; cd \"$(cat %[1]s/dir)\"; fi\n%[2]s\ncode=$?\nexport -p >%[1]s/env; pwd >%[1]s/dir; exit $code", state, command)
	cmd := exec.CommandContext(context.Background(), "sh", "-c", script) // also after the test, to clean up
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), programEnv+"=1", "HOME="+h.dir, "PATH="+filepath.Join(h.dir, "bin")+":"+os.Getenv("PATH"), "CTXFS_DISK_RESERVE=0", "LC_ALL=C",
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
