// Package howto runs the commands of the documentation's how-tos.
package howto

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/cli"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
	"github.com/ctxfs/ctxfs/server/command"
)

// programEnv makes the test binary be ctxfs.
const programEnv = "CTXFS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := command.UntilSignal(context.Background())
	if owner, err := strconv.Atoi(os.Getenv(ownerEnv)); err == nil {
		go func() {
			if awaitEnd(owner, -time.Millisecond) == nil {
				stop()
			}
		}()
	}
	env := command.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Args: os.Args[1:], Version: "0.0.0-test"}
	root := cli.Root(cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Version: "0.0.0-test", PlanSeed: env.PlanSeed}, command.Commands(env)...)
	code := cli.Run(ctx, root, os.Args[1:])
	stop()
	os.Exit(code)
}

// ownerEnv is the process of the tests. A server that a page starts in the background ends with it, also when the tests are killed.
const ownerEnv = "CTXFS_TEST_OWNER"

// environ is the environment of the programs that a test runs, with more variables.
func environ(bin string, more ...string) []string {
	return append(append(os.Environ(), programEnv+"=1", fmt.Sprint(ownerEnv, "=", os.Getpid()), "PATH="+bin+":"+os.Getenv("PATH"), "CTXFS_DISK_RESERVE=0"), more...)
}

// systemctl starts and stops one server without systemd.
const systemctl = `#!/bin/sh
set -eu
case "$1" in
  start)
    rm -f "$DIR/ready"
    ctxfs serve --workspace "$DIR/work" --driver "$DRIVER" --disk-reserve 0 --log-level error --ready-file "$DIR/ready" </dev/null >"$DIR/log" 2>&1 &
    echo $! >"$DIR/pid"
    for i in $(seq 1200); do [ ! -s "$DIR/ready" ] || exit 0; sleep 0.05; done
    exit 1 ;;
  stop)
    [ -e "$DIR/pid" ] || exit 0
    read -r pid <"$DIR/pid"
    kill "$pid" 2>/dev/null || exit 0
    while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done ;;
esac
`

// machine is where the commands run: /srv/work and /backup are directories of the test's.
type machine struct {
	*testing.T
	dir, driver string
}

func newMachine(t *testing.T, driver string) *machine {
	ws := servertest.Workspace(t)
	if choice, err := server.ChooseDriver(t.Context(), driver, ws); err != nil || choice.Name != driver {
		t.Skipf("not tested here: %v", err)
	}
	dir, err := os.MkdirTemp("", "ctxfs") // t.TempDir's path may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t, dir, driver}
	m.sh("mkdir bin backup && mv " + ws + " work && ln -s " + os.Args[0] + " bin/ctxfs")
	if err := os.WriteFile(filepath.Join(dir, "bin", "systemctl"), []byte(systemctl), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.sh("systemctl stop x")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return m
}

// sh runs a script and returns what it printed.
func (m *machine) sh(script string) string {
	m.Helper()
	cmd := exec.CommandContext(context.Background(), "sh", "-euc", script)
	cmd.Dir = m.dir
	cmd.Env = environ(filepath.Join(m.dir, "bin"), "CTXFS_DRIVER="+m.driver, "DIR="+m.dir, "DRIVER="+m.driver,
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return string(out)
}

// blocks returns the commands of a section, a string for each block.
func (m *machine) blocks(file, heading string) []string {
	m.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", file))
	if err != nil {
		m.Fatal(err)
	}
	_, section, found := strings.Cut(string(data), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var list []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		list = append(list, strings.NewReplacer("/srv/work", m.dir+"/work", "/backup", m.dir+"/backup").Replace(block[1]))
	}
	if !found || len(list) != 2 {
		m.Fatalf("docs/how-to/%s, %q: %d blocks, want one to back up and one to restore", file, heading, len(list))
	}
	return list
}

// show describes the panel's folder on the disk: names, types, modes, times and targets, and what the files hold. The server mounts
// a context of overlay at its first use.
const show = `cd work && ctxfs -c ctx_panels~editor stat / >/dev/null && cd .contexts/ctx_panels~editor && find . -printf '%p %y %m %T@ %l\n' | sort && cat README.md moved/main.go new/deep`

// diff shows the work in the panel's context.
const diff = "cd work && ctxfs diff ctx_panels~editor"

// TestBackups backs up, damages and restores a context by each way that is for its driver.
func TestBackups(t *testing.T) {
	for driver, all := range map[string]string{server.DriverCopy: "All contexts, driver copy", server.DriverOverlay: "All contexts, driver overlay"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, driver)
			m.sh(`systemctl start x; cd work; ctxfs panel open panels/editor >&2; alias e="ctxfs -c ctx_panels~editor"
				e mv src moved; e mkdir new; echo kept | e put - new/deep >&2; echo edited | e put - README.md >&2`)
			want, work := m.sh(show), m.sh(diff)
			for _, heading := range []string{"One context", all} {
				blocks := m.blocks("backup.md", heading)
				m.sh(blocks[0])
				m.sh("cd work && ctxfs -c ctx_panels~editor rm -r moved new README.md")
				m.sh(blocks[1])
				if got := m.sh(show); got != want {
					t.Errorf("%s, restored:\n%s\nwant:\n%s", heading, got, want)
				}
				if got := m.sh(diff); got != work || !strings.Contains(got, "+kept") {
					t.Errorf("%s, restored, has the changes\n%s\nwant:\n%s", heading, got, work)
				}
			}
			if list := m.sh("cd work && ctxfs panel open panels/editor && ctxfs context list"); strings.Contains(list, "ctx_backup") {
				t.Errorf("a fork is left:\n%s", list)
			}
		})
	}
}
