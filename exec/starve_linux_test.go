package exec

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// takeAll is a program of perl that takes as much as it gets of what the kernel counts for each user, writes how much that is, and holds it. It must
// not take what the machine has not: it ends at a number that no sandbox should reach.
func takeAll(most int) string {
	return fmt.Sprintf(`
use strict; use Fcntl; my $most = %d; my @held;
sub take { my ($name, $what) = @_; my $n = 0; while ($n < $most && $what->($n) >= 0) { $n++ } print "$name $n\n"; }
take("inotify", sub { syscall(%d, 0) });
take("watches", sub { my $p = "/tmp/w$_[0]"; mkdir $p; syscall(%d, 3, $p, 0x100) });
take("terminals", sub { sysopen(my $t, "/dev/ptmx", O_RDWR | O_NOCTTY) or return -1; push @held, $t; 0 });
$| = 1; print "done\n"; sleep 1000;
`, most, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH)
}

// taken reads what a program of takeAll writes.
func taken(t *testing.T, out string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for line := range strings.Lines(out) {
		if name, number, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = n
		}
	}
	return all
}

// TestHostileSandboxLeavesWhatTheKernelCountsForItsUser has commands in some sandboxes of a context take all inotify instances and watches, and all
// pseudo terminals, that they get. A command of another context gets its whole part. The server, which may have the same user, gets an instance and a
// terminal. All commands in a shared sandbox have the quota together.
func TestHostileSandboxLeavesWhatTheKernelCountsForItsUser(t *testing.T) {
	leavesWhatTheKernelCounts(t, newSite(t, "copy"))
}

// TestUserNSHostileSandboxLeavesWhatTheKernelCountsForItsUser does the same with a server that an ordinary user runs, in namespaces of its own.
func TestUserNSHostileSandboxLeavesWhatTheKernelCountsForItsUser(t *testing.T) {
	if !namespacestest.Inside() {
		t.Skip("run by TestInNamespaces")
	}
	leavesWhatTheKernelCounts(t, newSite(t, "overlay-userns"))
}

func leavesWhatTheKernelCounts(t *testing.T, s *site) {
	for _, test := range []struct {
		sandbox         string
		sandboxes       int
		hostile, victim contexts.ID
	}{{"", 9, "ctx_a", "ctx_b"}, {"dev", maxRooms, "ctx_b", "ctx_a"}} {
		t.Run("sandbox "+test.sandbox, func(t *testing.T) {
			s := s.in(t)
			for i := range test.sandboxes {
				cmd := Command{Context: test.hostile}
				if test.sandbox != "" {
					cmd.Sandbox = test.sandbox + strconv.Itoa(i)
				}
				s.takesAll(t, cmd, i)
			}
			s.takesAll(t, Command{Context: test.victim}, 0)
			inSandbox := Command{Context: test.hostile, Argv: []string{"test", "-t", "0"}, Pty: &Pty{}}
			if test.sandbox != "" {
				inSandbox.Sandbox = test.sandbox + "0"
			}
			if exit, out, _ := s.result(s.begin(inSandbox)); exit.Code != 0 {
				t.Errorf("ctxfs opened no terminal for a command: %+v, %s", exit, out)
			}
			if test.sandbox != "" { // another command of a sandbox that has nothing left
				inSandbox.Argv, inSandbox.Pty = []string{"perl", "-e", strings.Replace(takeAll(10), "sleep 1000", "", 1)}, nil
				_, out, _ := s.result(s.begin(inSandbox))
				if mine := taken(t, out); mine["inotify"] != 0 || mine["terminals"] != 0 {
					t.Errorf("a sandbox got more than its quota: %v", mine)
				}
			}
			if os.Geteuid() != 0 { // the server has the same user
				fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
				if err != nil {
					t.Fatal(err)
				}
				if err := unix.Close(fd); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// takesAll has a command take all that it gets. It gets what a sandbox gets that begins beside some others of its context. The command holds it to the
// end of the test.
func (s *site) takesAll(t *testing.T, cmd Command, beside int) {
	t.Helper()
	const most = 30_000
	cmd.Argv, cmd.Limits = []string{"perl", "-e", takeAll(most)}, Limits{Files: most + 10_000}
	p := s.begin(cmd)
	t.Cleanup(func() {
		if err := p.Kill(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
	s.awaitOutput(p, "done")
	var out strings.Builder
	if err := p.Output(t.Context(), [2]int64{}, Present, func(o Output) error { out.Write(o.Data); return nil }); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"terminals": sandboxTerminals}
	for _, q := range quotas(beside) {
		want[map[string]string{"max_inotify_instances": "inotify", "max_inotify_watches": "watches"}[q.Name]] = min(most, int(q.Value))
	}
	if got := taken(t, out.String()); !maps.Equal(got, want) {
		t.Errorf("beside %d other sandboxes of %s a command in sandbox %q got %v, not its %v", beside, cmd.Context, cmd.Sandbox, got, want)
	}
}

// TestContextGetsHalfOfWhatTheKernelCountsForItsUser adds up the quotas of all sandboxes of a context.
func TestContextGetsHalfOfWhatTheKernelCountsForItsUser(t *testing.T) {
	t.Parallel()
	sums, first := map[string]int64{}, map[string]int64{}
	for beside := range maxRunning {
		for _, q := range quotas(beside) {
			if q.Value < 1 {
				t.Errorf("a sandbox beside %d others gets %s=%d", beside, q.Name, q.Value)
			}
			sums[q.Name] += q.Value
			if beside == 0 {
				first[q.Name] = q.Value
			}
		}
	}
	for name, sum := range sums {
		if half := first[name] * sandboxPart / 2; sum > half+half/16+maxRunning { // each of them has at least one
			t.Errorf("%d sandboxes of a context get %s=%d, more than about half, %d", maxRunning, name, sum, half)
		}
	}
}

// TestCommandsHaveTheirPartOfTheUsersLimits compares the limits that the kernel counts for each user with those of this process.
func TestCommandsHaveTheirPartOfTheUsersLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for _, cmd := range s.sandboxes() {
		cmd.Argv = []string{"cat", "/proc/self/limits"}
		_, out, _ := s.result(s.begin(cmd))
		for name, resource := range map[string]int{"Max pending signals": unix.RLIMIT_SIGPENDING, "Max msgqueue size": unix.RLIMIT_MSGQUEUE} {
			var own unix.Rlimit
			if err := unix.Getrlimit(resource, &own); err != nil {
				t.Fatal(err)
			}
			at := strings.Index(out, name)
			if at < 0 {
				t.Fatalf("no %q in %q", name, out)
			}
			fields := strings.Fields(out[at+len(name):])
			if want := strconv.FormatUint(own.Max/sandboxPart, 10); fields[0] != want || fields[1] != want {
				t.Errorf("sandbox %q: %s is %v, want %s", cmd.Sandbox, name, fields[:2], want)
			}
		}
	}
}
