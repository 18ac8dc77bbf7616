package exec

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// TestHostileSandboxLeavesWhatTheKernelCountsForItsUser has two commands take all inotify instances and watches, and all pseudo terminals, that they get.
// A third gets as many, and the server, which may have the same user, gets an instance and a terminal. All commands in a shared sandbox have the quota
// together.
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
	quota := map[string]int64{}
	for _, q := range quotas() {
		quota[q.Name] = q.Value
	}
	if quota["max_inotify_instances"] == 0 {
		t.Fatal("this kernel has no limit of inotify instances")
	}
	for _, sandbox := range []string{"", "dev"} {
		t.Run("sandbox "+sandbox, func(t *testing.T) {
			s := s.in(t)
			for i := range 3 {
				name := sandbox
				if name != "" {
					name += strconv.Itoa(i)
				}
				p := s.begin(Command{Argv: []string{"perl", "-e", takeAll(30_000)}, Sandbox: name, Limits: Limits{Files: 40_000}})
				defer func() {
					if err := p.Kill(t.Context(), 0); err != nil {
						t.Error(err)
					}
				}()
				s.awaitOutput(p, "done")
				var out strings.Builder
				if err := p.Output(t.Context(), [2]int64{}, Present, func(o Output) error { out.Write(o.Data); return nil }); err != nil {
					t.Fatal(err)
				}
				mine := taken(t, out.String())
				if n := int64(mine["inotify"]); n != quota["max_inotify_instances"] {
					t.Errorf("command %d got %d inotify instances, not its %d", i, n, quota["max_inotify_instances"])
				}
				if n := mine["terminals"]; n != sandboxTerminals {
					t.Errorf("command %d opened %d pseudo terminals, not its %d", i, n, sandboxTerminals)
				}
				if n := int64(mine["watches"]); n != min(30_000, quota["max_inotify_watches"]) {
					t.Errorf("command %d got %d inotify watches, not its %d", i, n, quota["max_inotify_watches"])
				}
			}
			if exit, out, _ := s.result(s.begin(Command{Argv: []string{"test", "-t", "0"}, Pty: &Pty{}, Sandbox: sandbox})); exit.Code != 0 {
				t.Errorf("ctxfs opened no terminal for a command: %+v, %s", exit, out)
			}
			if sandbox != "" { // another command of a sandbox that has nothing left
				_, out, _ := s.result(s.begin(Command{Argv: []string{"perl", "-e", strings.Replace(takeAll(10), "sleep 1000", "", 1)}, Sandbox: sandbox + "0"}))
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
