package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
)

func TestLimitsEndCommandWithTheirReason(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for _, c := range []struct {
		name, script string
		limits       Limits
		want         Reason
	}{
		{"output", "yes", Limits{OutputBytes: 1 << 20}, OutputExceeded},
		{"output of both streams", "head -c 600K /dev/zero; head -c 600K /dev/zero >&2; sleep 100", Limits{OutputBytes: 1 << 20}, OutputExceeded},
		{"CPU", "while :; do :; done", Limits{CPU: time.Second}, CPUExceeded},
		{"CPU of children", "for i in $(seq 20); do timeout 0.5 sh -c 'while :; do :; done'; done", Limits{CPU: time.Second}, CPUExceeded},
		{"killed by itself", "kill -9 $$", Limits{CPU: time.Second}, Exited},
		{"less output", "head -c 1000K /dev/zero", Limits{OutputBytes: 1 << 20}, Exited},
		{"tmp", "head -c 2M /dev/zero > /tmp/f", Limits{TmpBytes: 1 << 20}, Exited},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exit, _, stderr := s.result(s.begin(Command{Argv: []string{"sh", "-c", c.script}, Limits: c.limits}))
			if exit.Reason != c.want {
				t.Errorf("got %+v, %q", exit, stderr)
			}
			if c.name == "tmp" && !strings.Contains(stderr, "No space left") {
				t.Errorf("/tmp took more than its size: %q", stderr)
			}
		})
	}
}

// quotaSite is a site whose contexts may hold 8 MiB.
func quotaSite(t *testing.T) *site {
	return newSiteWith(t, "copy", func(c *contexts.Config, _ *Config) { c.Quota = contexts.Quota{Bytes: 8 << 20} })
}

func TestQuotaEndsCommand(t *testing.T) {
	t.Parallel()
	s := quotaSite(t)
	begun := time.Now()
	exit, _, _ := s.result(s.start("i=0; while :; do i=$((i+1)); head -c 1M /dev/zero > f$i; [ $i -lt 40 ] || sleep 100; done"))
	if exit.Reason != QuotaExceeded || time.Since(begun) > 15*time.Second {
		t.Errorf("got %+v after %s", exit, time.Since(begun))
	}
	// The context exceeds its quota now: a command may remove files, and may not add any.
	exit, _, _ = s.result(s.start("sleep 2.5; rm f*; echo"))
	if exit.Reason != Exited || exit.Code != 0 {
		t.Errorf("a command that removes files: %+v", exit)
	}
}

func TestQuotaIsNotExceededByLess(t *testing.T) {
	t.Parallel()
	s := quotaSite(t)
	exit, _, _ := s.result(s.start("head -c 7M /dev/zero > f; sleep 2.5"))
	if exit.Reason != Exited || exit.Code != 0 {
		t.Errorf("got %+v", exit)
	}
}

// cgroupCount makes the names of cgroups distinct.
var cgroupCount atomic.Int64

// testCgroup makes a cgroup below the one of this process, in the hierarchy of a controller, or in that of cgroup v2 ("").
func testCgroup(t *testing.T, controller string) string {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip("no cgroups: ", err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	path := ""
	for line := range strings.Lines(string(own)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			path = f[2]
		}
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if (controller == "" && f[2] == "cgroup2") || (controller != "" && f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), controller)) {
			dir := filepath.Join(f[1], path, fmt.Sprintf("ctxfs-test-%d-%d", os.Getpid(), cgroupCount.Add(1)))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Skip("no cgroup can be made: ", err)
			}
			t.Cleanup(func() {
				if err := unix.Rmdir(dir); err != nil {
					t.Errorf("a sandbox left its cgroup: %v", err)
				}
			})
			return dir
		}
	}
	t.Skipf("no cgroup hierarchy with %q", controller)
	return ""
}

// cgroupSite is a site whose sandboxes have cgroups below dirs.
func cgroupSite(t *testing.T, dirs ...string) *site {
	return newSiteWith(t, "copy", func(_ *contexts.Config, c *Config) { c.Cgroups = dirs })
}

// TestMemoryBombEndsItself lets a command take more memory than it may, while the server reads a file of the context.
func TestMemoryBombEndsItself(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, testCgroup(t, "memory"))
	a, err := s.contexts.Acquire(t.Context(), testContext, contexts.Read)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	p := s.begin(Command{Argv: []string{"sh", "-c", "head -c 500M /dev/zero | tail -c 500M; sleep 100"}, Limits: Limits{MemoryBytes: 32 << 20}})
	for p.Ended() == nil {
		begun := time.Now()
		if _, err := a.Root.Stat("/app/seeded"); err != nil || time.Since(begun) > 10*time.Second {
			t.Fatalf("stat: %v after %s", err, time.Since(begun))
		}
	}
	exit := p.Ended()
	if exit.Reason != OutOfMemory || exit.PeakMemory == 0 || exit.PeakMemory > 32<<20 {
		t.Errorf("got %+v", exit)
	}
	small, _, stderr := s.result(s.begin(Command{Argv: []string{"sh", "-c", "head -c 5M /dev/zero | tail -c 5M | wc -c"}, Limits: Limits{MemoryBytes: 32 << 20}}))
	if small.Reason != Exited || small.Code != 0 {
		t.Errorf("a command within its limit: %+v, %q", small, stderr)
	}
}

func TestCPUPercentSlowsCommand(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, testCgroup(t, "cpu"))
	p := s.begin(Command{Argv: []string{"sh", "-c", "trap '' TERM; while :; do :; done"}, Limits: Limits{CPUPercent: 10, Wall: 2 * time.Second}})
	var used time.Duration
	for p.Ended() == nil {
		used = max(used, p.box.cpuTime())
	}
	exit := *p.Ended()
	if exit.Reason != TimedOut || used > time.Second {
		t.Errorf("got %+v with %s of CPU time, want a tenth of 4 s", exit, used)
	}
}

func TestPIDsOfCgroupBoundProcesses(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, testCgroup(t, "pids"))
	p := s.begin(Command{Argv: []string{"sh", "-c", "for i in $(seq 100); do sleep 100 & done; wait"}, Limits: Limits{Processes: 20}})
	if got := p.Enforced(); !slices.Contains(got, Enforced{"processes", 20, byCgroup1}) {
		t.Errorf("the limits are %v", got)
	}
	_, _, stderr := s.result(p)
	if !strings.Contains(stderr, "fork") {
		t.Errorf("100 processes were started: %q", stderr)
	}
}

// TestCgroupFreezesCommand pauses a command by its cgroup v2, which a stopped shell does not see.
func TestCgroupFreezesCommand(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, testCgroup(t, ""))
	p := s.start("echo ready; i=0; while :; do i=$((i+1)); echo $i > n.new; mv n.new n; done")
	s.awaitOutput(p, "ready")
	awaitChange(t, func() bool {
		_, err := os.Stat(filepath.Join(s.workspace, ".contexts", string(testContext), "n"))
		return err == nil
	}, "nothing was written")
	resume := s.pause(p)
	if threads(p.box.initPID) == allStopped {
		t.Error("the sandbox was stopped by a signal")
	}
	before := s.number(testContext, "n")
	if _, err := s.contexts.Fork(t.Context(), "ctx_b", "ctx_c", contexts.EnsureOptions{}); err != nil { // takes some time
		t.Error(err)
	}
	if now := s.number(testContext, "n"); now != before {
		t.Errorf("a frozen command wrote %d after %d", now, before)
	}
	resume()
	awaitChange(t, func() bool { return s.number(testContext, "n") > before }, "the command did not continue")
	resume = s.pause(p)
	if err := p.Kill(t.Context(), 0); err != nil {
		t.Errorf("a frozen command cannot be killed: %v", err)
	}
	resume()
}

func TestEnforcedSaysWhatHolds(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.begin(Command{Argv: []string{"sh", "-c", "cat /proc/self/oom_score_adj /proc/1/oom_score_adj"}, Limits: Limits{Wall: time.Minute}})
	want := []Enforced{
		{"wall_ms", 60000, byServer}, {"processes", 512, byRlimit}, {"open_files", 4096, byRlimit}, {"file_bytes", 16 << 30, byRlimit},
		{"memory_bytes", 4 << 30, ""}, {"tmp_bytes", 1 << 30, byTmpfs},
	}
	if got := p.Enforced(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, out, _ := s.result(p); out != "500\n500\n" {
		t.Errorf("oom_score_adj is %q", out)
	}
	_, err := s.Start(t.Context(), Command{Context: testContext, Argv: []string{"true"}, Limits: Limits{MemoryBytes: 1}})
	if fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("a byte of memory: %v", err)
	}
	if _, err := Open(t.Context(), Config{Dir: t.TempDir(), Cgroups: []string{"/tmp"}}); err == nil {
		t.Error("/tmp was taken for a cgroup")
	}
}

// TestCgroupsOfKilledServerAreSwept leaves the cgroup of a sandbox, as a server does that is killed.
func TestCgroupsOfKilledServerAreSwept(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir := testCgroup(t, "")
	left := filepath.Join(dir, groupPrefix+"left")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	s := cgroupSite(t, dir)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the cgroup is left: %v", err)
	}
	s.result(s.start("true"))
	if got, err := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs")); err != nil || len(got) > 0 {
		t.Errorf("cgroups are left: %q, %v", got, err)
	}
}
