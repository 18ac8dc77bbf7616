package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/metadata/memory"
)

func TestMain(m *testing.M) {
	namespacestest.Main()
	if code, is := Init(os.Args); is {
		os.Exit(code)
	}
	if os.Getenv(helperVariable) != "" {
		panic(helper())
	}
	if os.Getenv(groupVariable) != "" {
		if err := groupHelper(); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	if err := os.Setenv(secretVariable, "secret"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// testUser runs commands: this user, or another if that is root.
func testUser() *User {
	if os.Geteuid() != 0 {
		return nil
	}
	return &User{UID: 4321, GID: 4321}
}

// needSandbox skips a test where commands cannot be isolated.
func needSandbox(t testing.TB) {
	t.Helper()
	if err := Check(t.Context(), testUser()); err != nil {
		t.Skip(err)
	}
}

// site is a workspace with a context.
type site struct {
	t         testing.TB
	driver    string
	workspace string
	contexts  *contexts.Manager
	*Processes
}

const testContext contexts.ID = "ctx_a"

// mountingDrivers are those besides copy. overlay-userns needs namespaces of its own.
var mountingDrivers = map[string]func(overlay.Options) *overlay.Driver{"overlay": overlay.New, "overlay-userns": overlay.NewUserNS}

// newSite makes a workspace whose file "seeded" is in the contexts, and the contexts ctx_a and ctx_b.
func newSite(t testing.TB, driverName string) *site {
	return newSiteWith(t, driverName, func(*contexts.Config, *Config) {})
}

// newSiteWith is newSite with other settings.
func newSiteWith(t testing.TB, driverName string, change func(*contexts.Config, *Config)) *site {
	t.Helper()
	needSandbox(t)
	dir, err := os.MkdirTemp("", "ctxfs-exec") // t.TempDir's parents admit this user only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, id := range []contexts.ID{testContext, "ctx_b"} {
			// A mount that could not be ended in time stays, for the next server.
			if err := unix.Unmount(filepath.Join(dir, ".contexts", string(id)), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EPERM) {
				t.Error(err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	var owner *rootfs.Owner
	user := testUser()
	if user != nil {
		owner = &rootfs.Owner{UID: user.UID, GID: user.GID}
	}
	for name, content := range map[string]string{"app/seeded": "hello\n", "secret-of-the-workspace": "workspace\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var drv driver.Driver = copyfs.New(copyfs.Options{Owner: owner})
	if mount := mountingDrivers[driverName]; mount != nil {
		mounting := mount(overlay.Options{Owner: owner})
		if err := mounting.Check(t.Context(), dir); err != nil {
			t.Skip("overlay does not work here: ", err)
		}
		drv = mounting
	}
	cfg := Config{Dir: filepath.Join(dir, ".contexts", ".ctxfs", "exec"), User: user, Log: zaptest.NewLogger(t)}
	contextsCfg := contexts.Config{Workspace: dir, Store: memory.New(), Driver: drv, Owner: owner, Seed: seed.Options{Root: "app"}}
	change(&contextsCfg, &cfg)
	m, err := contexts.Open(t.Context(), contextsCfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, id := range []contexts.ID{testContext, "ctx_b"} {
		if _, err := m.Ensure(t.Context(), id, contexts.EnsureOptions{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Gate = m
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &site{t, driverName, dir, m, p}
}

// in returns the site for a test within its own.
func (s *site) in(t *testing.T) *site {
	own := *s
	own.t = t
	return &own
}

// start starts a shell command in ctx_a.
func (s *site) start(script string) *Process {
	s.t.Helper()
	return s.begin(Command{Context: testContext, Argv: []string{"sh", "-c", script}})
}

func (s *site) begin(cmd Command) *Process {
	s.t.Helper()
	if cmd.Context == "" {
		cmd.Context = testContext
	}
	p, err := s.Start(s.t.Context(), cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// waitTime bounds the end of a command: of package managers on a busy machine, and less than the sleep of those that last.
const waitTime = 5 * time.Minute

// killGently kills a process with a grace that is longer than the test waits, and returns its exit.
func (s *site) killGently(p *Process) Exit {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitTime)
	defer cancel()
	if err := p.Kill(ctx, 2*waitTime); err != nil {
		s.t.Fatal(err)
	}
	return *p.Ended()
}

// result waits for a process, and returns its exit and its output: that of a terminal as stdout.
func (s *site) result(p *Process) (exit Exit, stdout, stderr string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitTime)
	defer cancel()
	var out [3]strings.Builder
	err := p.Output(ctx, [2]int64{}, Watching, func(o Output) error {
		out[o.Stream].Write(o.Data)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return *p.Ended(), out[Stdout].String() + out[Terminal].String(), out[Stderr].String()
}

// awaitOutput waits until a process has written a text to standard output.
func (s *site) awaitOutput(p *Process, text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	found := errors.New("found")
	err := p.Output(ctx, [2]int64{}, Watching, func(o Output) error {
		out.Write(o.Data)
		if strings.Contains(out.String(), text) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		s.t.Fatalf("waiting for %q: %v, got %q", text, err, out.String())
	}
}

// wantReason waits until p has ended. A context may be replaced a moment before the end of its commands is recorded.
func (s *site) wantReason(p *Process, want Reason) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if err := p.Wait(ctx); err != nil || p.Ended().Reason != want {
		s.t.Errorf("got %+v, %v; want the reason %v", p.Ended(), err, want)
	}
}

func onEachDriver(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	for _, name := range []string{"copy", "overlay"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newSite(t, name))
		})
	}
}

func TestCommandWorksInContext(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, s *site) {
		exit, out, stderr := s.result(s.start("cat app/seeded; echo made > app/made; pwd; id -un; echo oops >&2; exit 3"))
		if exit.Code != 3 || exit.Reason != Exited || out != "hello\n/context\nagent\n" || stderr != "oops\n" {
			t.Errorf("got %+v, %q, %q", exit, out, stderr)
		}
		made, err := os.ReadFile(filepath.Join(s.workspace, ".contexts", string(testContext), "app/made"))
		if err != nil || string(made) != "made\n" {
			t.Errorf("the file in the context: %q, %v", made, err)
		}
	})
}

func TestExits(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for name, c := range map[string]struct {
		cmd    Command
		code   int
		reason Reason
	}{
		"success":        {Command{Argv: []string{"true"}}, 0, Exited},
		"not found":      {Command{Argv: []string{"no-such-program"}}, 127, Exited},
		"not executable": {Command{Argv: []string{"/context/app/seeded"}}, 126, Exited},
		"own signal":     {Command{Argv: []string{"sh", "-c", "kill -9 $$"}}, 137, Exited},
		"option as name": {Command{Argv: []string{"--help"}}, 127, Exited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exit, out, stderr := s.result(s.begin(c.cmd))
			if exit.Code != c.code || exit.Reason != c.reason {
				t.Errorf("got %+v, %q, %q; want %d and reason %d", exit, out, stderr, c.code, c.reason)
			}
		})
	}
}

func TestTimeLimitEndsCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	if exit, _, _ := s.result(s.begin(Command{Argv: []string{"sleep", "1000"}, Limits: Limits{Wall: 500 * time.Millisecond}})); exit.Reason != TimedOut {
		t.Errorf("got %+v", exit)
	}
}

// TestEndBeginsWithTERM kills a command with a grace that is longer than the test.
func TestEndBeginsWithTERM(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.start("echo ready; exec sleep 1000")
	s.awaitOutput(p, "ready")
	if exit := s.killGently(p); exit.Reason != Killed || exit.Code != 143 {
		t.Errorf("got %+v", exit)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	if err := os.Symlink("../../..", filepath.Join(s.workspace, ".contexts", string(testContext), "out")); err != nil {
		t.Fatal(err)
	}
	ok := []string{"true"}
	for name, c := range map[string]struct {
		cmd  Command
		code fserr.Code
		text string
	}{
		"no command":      {Command{}, fserr.EINVAL, "argv is empty"},
		"NUL":             {Command{Argv: []string{"a\x00b"}}, fserr.EINVAL, "NUL"},
		"bad variable":    {Command{Argv: ok, Env: map[string]string{"A=B": ""}}, fserr.EINVAL, `"A=B"`},
		"too large":       {Command{Argv: []string{"true", strings.Repeat("x", maxArgs)}}, fserr.E2BIG, "131"},
		"both stdins":     {Command{Argv: ok, Stdin: []byte("x"), OpenStdin: true}, fserr.EINVAL, "one of"},
		"cwd missing":     {Command{Argv: ok, Cwd: "/nope"}, fserr.ENOENT, "/nope"},
		"cwd is a file":   {Command{Argv: ok, Cwd: "app/seeded"}, fserr.ENOTDIR, "app/seeded"},
		"cwd leads out":   {Command{Argv: ok, Cwd: "/out"}, fserr.EACCES, "/out"},
		"limit":           {Command{Argv: ok, Limits: Limits{Processes: -1}}, fserr.EINVAL, "processes"},
		"unknown context": {Command{Argv: ok, Context: "ctx_nope"}, fserr.ESTALE, "ctx_nope"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cmd.Context == "" {
				c.cmd.Context = testContext
			}
			_, err := s.Start(t.Context(), c.cmd)
			if fserr.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %s with %q", err, c.code, c.text)
			}
		})
	}
	if n := len(s.List("")); n != 0 {
		t.Errorf("%d processes are known", n)
	}
}

func TestUnavailableNamesReasonAndRemedy(t *testing.T) {
	t.Parallel()
	starter := newStarter()
	defer starter.close()
	err := (&sandboxes{user: &User{0, 0}}).probe(t.Context(), starter)
	var u *Unavailable
	if !errors.As(err, &u) || !strings.Contains(err.Error(), "root") || !strings.Contains(err.Error(), "--exec-user") {
		t.Errorf("as root: %v", err)
	}
	for complaint, want := range map[string]string{
		"bwrap: No permissions to create a new namespace, likely because...": "allow user namespaces",
		"bwrap: Can't mount proc on /newroot/proc: Operation not permitted":  "unmasked",
		"bwrap: setting up uid map: Permission denied":                       "AppArmor",
	} {
		if !strings.Contains(remedy(complaint), want) || explain(complaint) != complaint {
			t.Errorf("%q: %q, %q", complaint, explain(complaint), remedy(complaint))
		}
	}
}

func TestStandardInput(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	if _, out, _ := s.result(s.begin(Command{Argv: []string{"cat"}})); out != "" {
		t.Errorf("without input: %q", out)
	}
	if _, out, _ := s.result(s.begin(Command{Argv: []string{"cat"}, Stdin: []byte("data\n")})); out != "data\n" {
		t.Errorf("with data: %q", out)
	}
	p := s.begin(Command{Argv: []string{"cat"}, OpenStdin: true})
	for i := range 3 {
		line := fmt.Sprintf("line %d\n", i)
		if err := p.Write(t.Context(), []byte(line)); err != nil {
			t.Fatal(err)
		}
		s.awaitOutput(p, line)
	}
	for range 2 {
		if err := p.CloseInput(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Write(t.Context(), []byte("x")); fserr.CodeOf(err) != fserr.EBADF {
		t.Errorf("write after close: %v", err)
	}
	if exit, out, _ := s.result(p); exit.Code != 0 || out != "line 0\nline 1\nline 2\n" {
		t.Errorf("got %+v, %q", exit, out)
	}
}

// TestWriteToProcessThatDoesNotReadEndsWithContext fills the pipe of a command that never reads.
func TestWriteToProcessThatDoesNotReadEndsWithContext(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.begin(Command{Argv: []string{"sleep", "1000"}, OpenStdin: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // clock: the write must block until this ends it
	defer cancel()
	if err := p.Write(ctx, make([]byte, 1<<20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	blocked := make(chan error, 1)
	go func() { blocked <- p.Write(t.Context(), make([]byte, 1<<20)) }()
	if err := p.Kill(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if err := <-blocked; fserr.CodeOf(err) != fserr.EBADF {
		t.Errorf("a blocked write after the kill: %v", err)
	}
}

// TestKillTakesWholeSandbox kills a command that ignores SIGTERM and has a child in another session.
func TestKillTakesWholeSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.start("trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & echo ready; while :; do sleep 1; done")
	s.awaitOutput(p, "ready")
	if err := p.Kill(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if exit := p.Ended(); exit.Reason != Killed {
		t.Errorf("got %+v", exit)
	}
	if left := sandboxed(t, s.workspace); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestSignalReachesCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.start("trap 'echo got; exit 7' USR1; echo ready; while :; do sleep 0.05; done")
	s.awaitOutput(p, "ready")
	if err := p.Signal(10); err != nil {
		t.Fatal(err)
	}
	if exit, out, _ := s.result(p); exit.Code != 7 || !strings.Contains(out, "got") {
		t.Errorf("got %+v, %q", exit, out)
	}
	if err := p.Signal(10); fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("after the end: %v", err)
	}
	if err := p.Signal(99); fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("signal 99: %v", err)
	}
}

// TestChildrenEndWithCommand leaves a child that holds the output open.
func TestChildrenEndWithCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	exit, out, _ := s.result(s.start("sleep 1000 & setsid sleep 1000 & echo done")) // it waits for less than that
	if exit.Code != 0 || out != "done\n" {
		t.Errorf("got %+v, %q", exit, out)
	}
	if left := sandboxed(t, s.workspace); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestContextIsReplacedUnderCommand restores and deletes a context while a command runs in it.
func TestContextIsReplacedUnderCommand(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, s *site) {
		if _, err := s.contexts.Snapshot(t.Context(), testContext, "before"); err != nil {
			t.Fatal(err)
		}
		p := s.start("echo changed > app/seeded; echo ready; sleep 1000")
		s.awaitOutput(p, "ready")
		if _, err := s.contexts.Restore(t.Context(), testContext, "before", nil); err != nil {
			t.Fatal(err)
		}
		s.wantReason(p, ContextClosed)
		if _, out, _ := s.result(s.start("cat app/seeded")); out != "hello\n" {
			t.Errorf("in the restored context: %q", out)
		}
		p = s.start("echo ready; sleep 1000")
		s.awaitOutput(p, "ready")
		if _, err := s.contexts.Delete(t.Context(), testContext, nil); err != nil {
			t.Fatal(err)
		}
		s.wantReason(p, ContextClosed)
		s.ContextDeleted(testContext)
		if n := len(s.List(testContext)); n != 0 {
			t.Errorf("%d processes of a deleted context are known", n)
		}
	})
}

func TestCloseEndsCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.start("trap '' TERM; echo ready; while :; do sleep 1; done")
	s.awaitOutput(p, "ready")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if exit := p.Ended(); exit == nil || exit.Reason != ServerStopped {
		t.Errorf("got %+v", exit)
	}
	if _, err := s.Start(t.Context(), Command{Context: testContext, Argv: []string{"true"}}); fserr.CodeOf(err) != fserr.EAGAIN {
		t.Errorf("start after close: %v", err)
	}
}

// TestExplainAfterCloseFails asks an engine that has never run a command: it would try one.
func TestExplainAfterCloseFails(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Explain(t.Context(), Command{Context: testContext, Argv: []string{"true"}}); fserr.CodeOf(err) != fserr.EAGAIN {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestTooManyCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for range maxRunning {
		s.begin(Command{Argv: []string{"sleep", "1000"}})
	}
	if _, err := s.Start(t.Context(), Command{Context: testContext, Argv: []string{"true"}}); fserr.CodeOf(err) != fserr.EMFILE {
		t.Errorf("got %v", err)
	}
	if exit, _, _ := s.result(s.begin(Command{Context: "ctx_b", Argv: []string{"true"}})); exit.Code != 0 {
		t.Errorf("in another context: %+v", exit)
	}
}

// sandboxed lists the processes whose root shows the workspace's context as /context.
func sandboxed(t testing.TB, workspace string) (left []string) {
	t.Helper()
	mounts, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		data, err := os.ReadFile(m)
		if err == nil && strings.Contains(string(data), filepath.Base(workspace)) && strings.Contains(string(data), " /context ") {
			left = append(left, m)
		}
	}
	return left
}
