package exec

import (
	"context"
	"fmt"
	"math"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/exec/entry"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/cgrouptest"
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
		{"CPU of children", "while :; do timeout 0.5 sh -c 'while :; do :; done'; done", Limits{CPU: time.Second}, CPUExceeded},
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
	exit, _, _ := s.result(s.start("i=0; while :; do i=$((i+1)); head -c 1M /dev/zero > f$i; [ $i -lt 40 ] || sleep 1000; done"))
	if exit.Reason != QuotaExceeded {
		t.Errorf("got %+v", exit)
	}
	// The context exceeds its quota now: a command may remove files, and may not add any.
	exit, _, _ = s.result(s.start("sleep 2.5; rm f*; echo"))
	if exit.Reason != Exited || exit.Code != 0 {
		t.Errorf("a command that removes files: %+v", exit)
	}
}

// measuredGate is a gate whose contexts have a quota. A context exceeds it, always by as much, once it has the file "big".
type measuredGate struct {
	*site
	// running counts the baselines that were asked for while something of the context ran.
	running int
}

// Acquire implements Gate.
func (g *measuredGate) Acquire(ctx context.Context, id contexts.ID, use contexts.Use) (*contexts.Access, error) {
	access, err := g.contexts.Acquire(ctx, id, use)
	if err != nil {
		return nil, err
	}
	return contexts.NewRemoteAccess(access.Closing(), access.Root, access.Generation, measuredUse{g, access}, access.Release), nil
}

type measuredUse struct {
	*measuredGate
	*contexts.Access
}

func (u measuredUse) HasQuota() bool { return true }

func (u measuredUse) Baseline(ctx context.Context) contexts.Usage {
	u.running += len(sandboxed(u.t, u.workspace))
	return u.Usage(ctx)
}

func (u measuredUse) Usage(context.Context) contexts.Usage {
	if _, err := u.Root.Stat("/big"); err != nil {
		return contexts.Usage{}
	}
	return contexts.Usage{Bytes: 20 << 20, Over: true}
}

// TestQuotaEndsCommandThatExceedsItAtOnce has commands write all that they write before the server can measure anything.
func TestQuotaEndsCommandThatExceedsItAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	gate := &measuredGate{site: s}
	s.cfg.Gate = gate
	for _, cmd := range []Command{{}, {Sandbox: "dev"}} {
		cmd.Argv = []string{"sh", "-c", ">big; echo wrote; sleep 1000"}
		if exit, out, _ := s.result(s.begin(cmd)); exit.Reason != QuotaExceeded || out != "wrote\n" {
			t.Errorf("sandbox %q: got %+v, %q", cmd.Sandbox, exit, out)
		}
		// The context exceeds its quota now: a command may run as long as nothing is added.
		cmd.Argv = []string{"sh", "-c", "sleep 1.5; rm big"}
		if exit, _, _ := s.result(s.begin(cmd)); exit.Reason != Exited || exit.Code != 0 {
			t.Errorf("sandbox %q: a command that removes files: %+v", cmd.Sandbox, exit)
		}
	}
	if gate.running > 0 {
		t.Errorf("something ran already when a context was measured: %d", gate.running)
	}
}

// slowGate is a gate whose contexts have a quota and are measured by a function of the test.
type slowGate struct {
	*site
	measure func(ctx context.Context) contexts.Usage
	// before is what the context takes when a command begins.
	before contexts.Usage
}

// Acquire implements Gate.
func (g *slowGate) Acquire(ctx context.Context, id contexts.ID, use contexts.Use) (*contexts.Access, error) {
	access, err := g.contexts.Acquire(ctx, id, use)
	if err != nil {
		return nil, err
	}
	return contexts.NewRemoteAccess(access.Closing(), access.Root, access.Generation, slowUse{g, access}, access.Release), nil
}

type slowUse struct {
	*slowGate
	*contexts.Access
}

func (slowUse) HasQuota() bool                             { return true }
func (u slowUse) Baseline(context.Context) contexts.Usage  { return u.before }
func (u slowUse) Usage(ctx context.Context) contexts.Usage { return u.measure(ctx) }
func (u slowUse) Yield(p contexts.Pauser)                  { u.Access.Yield(p) }

// TestCommandIsPausedWhileMeasuringTakesLong has measurements take as long as the test pleases: without a pause a command could write meanwhile
// what it can. A command that the quota ends is ended by the measurement for which it was paused.
func TestCommandIsPausedWhileMeasuringTakesLong(t *testing.T) {
	t.Parallel()
	over := contexts.Usage{Bytes: 20 << 20, Over: true}
	for _, c := range []struct {
		name string
		// first is what the first measurement returns.
		first contexts.Usage
		cmd   Command
	}{
		{"it was not measured before", contexts.Usage{}, Command{}},
		{"the file system has lost space", contexts.Usage{Max: contexts.Quota{Bytes: 1}, Floor: &disk.Space{Bytes: math.MaxInt64}}, Command{}},
		{"the file system has lost entries", contexts.Usage{Max: contexts.Quota{Entries: 1}, Floor: &disk.Space{Entries: math.MaxInt64}}, Command{}},
		{"a shared sandbox", contexts.Usage{}, Command{Sandbox: "dev"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "copy")
			s.measureTime = time.Millisecond
			started, measured := make(chan *Process, 1), 0
			s.cfg.Gate = &slowGate{site: s, measure: func(ctx context.Context) contexts.Usage {
				if measured++; measured == 1 {
					return c.first
				}
				p := <-started
				awaitChange(t, func() bool { return threads(p.box.initPID) == allStopped || ctx.Err() != nil }, "the command runs while it is measured")
				return over
			}}
			c.cmd.Argv = []string{"sh", "-c", "while :; do echo $((i=i+1)) > n.new; mv n.new n; done"}
			p := s.begin(c.cmd)
			started <- p
			if exit, _, _ := s.result(p); exit.Reason != QuotaExceeded || measured != 2 {
				t.Errorf("got %+v after %d measurements", exit, measured)
			}
		})
	}
}

// TestCommandRunsOnWhileMeasuredThatFits has a measurement take long although the file system has lost nothing.
func TestCommandRunsOnWhileMeasuredThatFits(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	s.measureTime = time.Millisecond
	fits := contexts.Usage{Floor: new(disk.Space)}
	measured, started, paused := 0, make(chan *Process, 1), make(chan time.Duration)
	s.cfg.Gate = &slowGate{site: s, before: fits, measure: func(context.Context) contexts.Usage {
		if measured++; measured == 2 {
			p := <-started
			for at, last := 0, s.number(testContext, "n"); at < 20; {
				if now := s.number(testContext, "n"); now != last {
					at, last = at+1, now
				}
			}
			paused <- p.pauses.sum()
		}
		return fits
	}}
	p := s.start("while :; do echo $((i=i+1)) > n.new; mv n.new n; done")
	started <- p
	if sum := <-paused; sum != 0 {
		t.Errorf("the command was paused for %s", sum)
	}
	if err := p.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
}

// TestPausedCommandEndsWhenAsked kills a command that is paused to be measured. It gets its grace.
func TestPausedCommandEndsWhenAsked(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []string{"", "dev"} {
		t.Run("sandbox "+sandbox, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "copy")
			s.measureTime = time.Millisecond
			s.cfg.Gate = &slowGate{site: s, measure: func(ctx context.Context) contexts.Usage {
				<-ctx.Done()
				return contexts.Usage{}
			}}
			p := s.begin(Command{Sandbox: sandbox, Argv: []string{"sh", "-c", "trap 'echo bye; exit' TERM; echo ready; while :; do :; done"}})
			s.awaitOutput(p, "ready")
			awaitChange(t, func() bool { return threads(p.box.initPID) == allStopped }, "the command runs while it is measured")
			if err := p.Kill(t.Context(), waitTime); err != nil {
				t.Fatal(err)
			}
			if exit, out, _ := s.result(p); exit.Reason != Killed || !strings.Contains(out, "bye") {
				t.Errorf("got %+v, %q", exit, out)
			}
		})
	}
}

// TestQuotaCountsWhatCommandKeeps has commands keep 20 MiB in files without a name, where the quota is 8 MiB. It takes some seconds: a command is
// looked at every second.
func TestQuotaCountsWhatCommandKeeps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   Reason
	}{
		"more": {"exec 3>f; rm f; head -c 20M /dev/zero >&3; sleep 60", QuotaExceeded},
		"less": {"exec 3>f; rm f; head -c 7M /dev/zero >&3; exec 4<>f; rm f; sleep 2.5", Exited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := quotaSite(t)
			if exit, _, stderr := s.result(s.start(c.script)); exit.Reason != c.want || exit.Code != 0 && c.want == Exited {
				t.Errorf("got %+v, %q", exit, stderr)
			}
		})
	}
	t.Run("two commands together", func(t *testing.T) {
		t.Parallel()
		s := quotaSite(t)
		const script = "exec 3>f$$; rm f$$; head -c 6M /dev/zero >&3; sleep 60"
		one, other := s.start(script), s.begin(Command{Sandbox: "dev", Argv: []string{"sh", "-c", script}})
		select { // the quota ends one of them, or both
		case <-one.done:
		case <-other.done:
			one, other = other, one
		}
		if got := one.Ended(); got.Reason != QuotaExceeded {
			t.Errorf("got %+v", got)
		}
		if err := other.Kill(t.Context(), 0); err != nil {
			t.Error(err)
		}
	})
}

// TestKeptFilesAreFound has commands keep 20 MiB in a file without a name, in each way there is.
func TestKeptFilesAreFound(t *testing.T) {
	t.Parallel()
	const python, size = "/usr/bin/python3", 20 << 20
	// The scripts in Python have fd, a file of 20 MiB that was unlinked.
	const begin = "import ctypes, os, socket, time\nfd = os.open('f', os.O_RDWR | os.O_CREAT); os.unlink('f'); os.posix_fallocate(fd, 0, 20 << 20)\n"
	const end = "\nprint('ready', flush=True); time.sleep(1000)"
	const mapped = "m = ctypes.CDLL(None).mmap; m.argtypes = [ctypes.c_void_p] + [ctypes.c_long] * 5; m(None, 4096, 3, 1, fd, 0); os.close(fd)"
	for name, c := range map[string]struct {
		argv         []string
		sees, hidden bool
		// dir says that what is found is a directory, which takes less.
		dir bool
	}{
		"a descriptor":           {[]string{"sh", "-c", "exec 3>f; rm f; head -c 20M /dev/zero >&3; echo ready; sleep 1000"}, true, false, false},
		"of another process":     {[]string{"sh", "-c", "(exec 3>f; rm f; head -c 20M /dev/zero >&3; echo ready; exec sleep 1000) & exec sleep 1000"}, true, false, false},
		"in a removed directory": {[]string{"sh", "-c", "mkdir d; exec 3>d/f; rm -r d; head -c 20M /dev/zero >&3; echo ready; sleep 1000"}, true, false, false},
		"it never had a name":    {[]string{python, "-c", "import os, time; fd = os.open('.', os.O_RDWR | os.O_TMPFILE); os.posix_fallocate(fd, 0, 20 << 20)" + end}, true, false, false},
		"not dumpable":           {[]string{python, "-c", begin + "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)" + end}, os.Geteuid() == 0, false, false},
		"a working directory":    {[]string{"sh", "-c", "mkdir d; cd d; rmdir ../d; echo ready; sleep 1000"}, true, false, true},
		"mapped, and open":       {[]string{python, "-c", begin + strings.TrimSuffix(mapped, "; os.close(fd)") + end}, true, false, false},
		"mapped, and closed":     {[]string{python, "-c", begin + mapped + end}, os.Geteuid() == 0, os.Geteuid() != 0, false},
		"in flight":              {[]string{python, "-c", begin + "a, b = socket.socketpair(socket.AF_UNIX); socket.send_fds(a, [b'x'], [fd]); os.close(fd)" + end}, false, true, false},
		"in flight to a listener": {[]string{python, "-c", begin + "a, b = (socket.socket(socket.AF_UNIX) for _ in '12'); a.bind('/tmp/s'); a.listen(); " +
			"b.connect('/tmp/s'); socket.send_fds(b, [b'x'], [fd]); os.close(fd); b.close()" + end}, false, true, false},
		"it has a name":      {[]string{"sh", "-c", "exec 3>f; head -c 20M /dev/zero >&3; echo ready; sleep 1000"}, false, false, false},
		"in /tmp":            {[]string{"sh", "-c", "exec 3>/tmp/f; rm /tmp/f; head -c 20M /dev/zero >&3; echo ready; sleep 1000"}, false, false, false},
		"an unused socket":   {[]string{python, "-c", "import socket, time; a, b = socket.socketpair(socket.AF_UNIX)" + end}, false, false, false},
		"a shared sandbox's": {[]string{"sh", "-c", "exec 3>f; rm f; head -c 20M /dev/zero >&3; echo ready; sleep 1000"}, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(c.argv[0]); c.argv[0] == python && err != nil {
				t.Skip("it needs Python")
			}
			s := newSite(t, "copy")
			cmd := Command{Argv: c.argv}
			if name == "a shared sandbox's" {
				cmd.Sandbox = "dev"
			}
			p := s.begin(cmd)
			s.awaitOutput(p, "ready")
			survey := newSurvey(t.Context())
			p.box.kept(survey)
			found, hidden := survey.found, survey.kept(time.Now()).hidden
			if sees := len(found) == 1 && (c.dir || found.Usage().Bytes >= size); sees != c.sees || hidden != c.hidden || len(found) > 1 {
				t.Errorf("found %v, hidden %t", found, hidden)
			}
			if err := p.Kill(t.Context(), 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// lossyRoot is a root whose file system has as much free as the test pleases.
type lossyRoot struct {
	rootfs.Root
	free int64
}

func (r *lossyRoot) Statfs(string) (rootfs.Statfs, error) {
	return rootfs.Statfs{Bsize: 1, Bfree: uint64(r.free)}, nil
}

// TestHiddenFilesTakeWhatTheFileSystemLost has a context in which something may be hidden, of which the size cannot be known.
func TestHiddenFilesTakeWhatTheFileSystemLost(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	quota := contexts.Quota{Bytes: 100 * mib}
	for name, c := range map[string]struct {
		hidden      bool
		lost, shows int64
		// moments says that nothing is hidden in every third look, early that no look is due.
		moments, early, want bool
	}{
		"nothing is hidden":        {lost: 500 * mib},
		"less than the quota":      {hidden: true, lost: 80 * mib},
		"more than the quota":      {hidden: true, lost: 95 * mib, want: true},
		"the context shows it":     {hidden: true, lost: 80 * mib, shows: 60 * mib},
		"the file system got more": {hidden: true, lost: -95 * mib},
		"hidden for moments":       {hidden: true, lost: 95 * mib, moments: true},
		"looks that are not due":   {hidden: true, lost: 95 * mib, early: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := &lossyRoot{free: 1000 * mib}
			own := newKeeper()
			table := &Processes{keepers: map[contexts.ID]*keeper{"": own}, measureTime: time.Minute}
			use := contexts.Usage{Bytes: 10*mib + c.shows, Max: quota}
			access := contexts.NewRemoteAccess(t.Context(), root, 0, toldQuota{usage: func() contexts.Usage { return use }}, func() {})
			g := gauge{Process: &Process{table: table}, access: access, looks: lookEvery, shown: 10 * mib, free: root.free}
			over := false
			for i := range 9 {
				if i == 3 { // after a look in which nothing was hidden for a moment
					root.free -= c.lost
				}
				own.last = kept{at: time.Now().Add(time.Hour), hidden: c.hidden && !(c.moments && i%3 == 2)}
				g.look(t.Context(), !c.early)
				over = over || g.known.Over
			}
			if over != c.want || g.guessed != c.want || g.known.Bytes < 10*mib+c.shows {
				t.Errorf("got %+v", g.known)
			}
		})
	}
}

// TestFreeSpaceIsLookedAtInTime has a command write the same in each tick, and counts what it has written when its context is measured.
func TestFreeSpaceIsLookedAtInTime(t *testing.T) {
	t.Parallel()
	const mib, gib = 1 << 20, 1 << 30
	for name, c := range map[string]struct {
		quota, use, writes, rest int64
		// wantTicks is after how many ticks the context is measured, wantLooks in how many looks, wantLost whether for the space.
		wantTicks, wantLooks int64
		wantLost             bool
	}{
		"a small quota":                   {64 * mib, mib, 100 * mib, 0, 1, 1, true},
		"a small quota, and slow":         {64 * mib, 4 * mib, 20 * mib, 0, 4, 4, true},
		"it may take much, and does":      {20 * gib, 19 * gib, 250 * mib, 0, 5, 2, true},
		"it may take little, as others":   {20 * gib, 20*gib - mib, 10 * mib, 0, 7, 7, true},
		"others wrote a little":           {20 * gib, 20 * gib, mib, 0, 10, 10, false},
		"it exceeds its quota":            {20 * gib, 30 * gib, 100 * mib, 0, 1, 1, true},
		"it exceeds its quota, and waits": {20 * gib, 30 * gib, 0, 0, 10, 10, false},
		"idle":                            {20 * gib, mib, 0, 0, 10, 1, false},
		"no quota of bytes":               {0, mib, 100 * mib, 0, 10, 1, false},
		"it was measured just now":        {64 * mib, mib, 100 * mib, 3, 3, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := &lossyRoot{free: 1000 * gib}
			g := gauge{access: contexts.NewRemoteAccess(t.Context(), root, 0, nil, func() {}), rest: c.rest}
			g.known = contexts.Usage{Bytes: c.use, Max: contexts.Quota{Bytes: c.quota}, Floor: &disk.Space{Bytes: root.free - c.quota + c.use}}
			var ticks, looks int64
			for {
				n := g.wait()
				root.free -= n * c.writes
				ticks, looks = ticks+n, looks+1
				due, lost := g.after(n)
				if !due && !lost {
					continue
				}
				if lost != c.wantLost || ticks != c.wantTicks || looks != c.wantLooks {
					t.Errorf("after %d ticks and %d looks, lost is %t; want %d, %d, %t", ticks, looks, lost, c.wantTicks, c.wantLooks, c.wantLost)
				}
				break
			}
		})
	}
	g := gauge{access: contexts.NewRemoteAccess(t.Context(), &lossyRoot{}, 0, nil, func() {})}
	if n := g.wait(); n != lookTicks {
		t.Errorf("a context that was not measured is looked at after %d ticks", n)
	}
}

// toldQuota is a quota of which a function tells what the context takes.
type toldQuota struct {
	contexts.Remote
	usage func() contexts.Usage
}

func (toldQuota) HasQuota() bool                         { return true }
func (q toldQuota) Usage(context.Context) contexts.Usage { return q.usage() }

// TestCommandThatFillsItsContextRunsTwoTicksMore has the file system lose all space that the context could take, and counts by a clock of its own
// for how long the command runs on.
func TestCommandThatFillsItsContextRunsTwoTicksMore(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]time.Duration{"measuring is quick": time.Millisecond, "measuring takes long": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const free = 1000
				table := &Processes{cfg: Config{Log: zap.NewNop()}, keepers: map[contexts.ID]*keeper{}, measureTime: measureTime}
				p := &Process{table: table, box: &box{init: -1, cgroup: &cgroup{}}}
				p.before = contexts.Usage{Max: contexts.Quota{Bytes: 10}, Floor: &disk.Space{Bytes: free - 10}}
				quota := toldQuota{usage: func() contexts.Usage {
					time.Sleep(takes)
					return contexts.Usage{Bytes: 20, Over: true}
				}}
				access := contexts.NewRemoteAccess(t.Context(), &lossyRoot{free: free - 20}, 0, quota, func() {})
				over, begun := make(chan Reason, 1), time.Now()
				p.watchQuota(t.Context(), t.Context(), access, over)
				if got := <-over; got != QuotaExceeded {
					t.Errorf("it ends with reason %d", got)
				}
				if ran := time.Since(begun) - p.pauses.sum(); ran > 2*quotaTick {
					t.Errorf("it ran for %s", ran)
				}
			})
		})
	}
}

// TestWhatCommandsKeepIsLookedAtAgain has the file system lose space after a moment ago nothing was kept.
func TestWhatCommandsKeepIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	old := kept{at: time.Now().Add(-watchEvery / 2)}
	for _, due := range []bool{false, true} {
		access := contexts.NewRemoteAccess(t.Context(), &lossyRoot{}, 0, nil, func() {})
		own := newKeeper()
		own.last = old
		g := gauge{Process: &Process{table: &Processes{keepers: map[contexts.ID]*keeper{"": own}}}, access: access}
		g.look(t.Context(), due)
		if again := g.kept.at != old.at; again == due {
			t.Errorf("due is %t, looked at again is %t", due, again)
		}
	}
}

// TestThreadMayHaveFilesOfItsOwn has a thread leave the table of descriptors of its process, as clone(2) can begin one.
func TestThreadMayHaveFilesOfItsOwn(t *testing.T) {
	t.Parallel()
	shared := make(chan [2]bool)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		before := sharesFiles(os.Getpid(), unix.Gettid())
		if err := unix.Unshare(unix.CLONE_FILES); err != nil {
			t.Error(err)
		}
		shared <- [2]bool{before, sharesFiles(os.Getpid(), unix.Gettid())}
	}()
	if got := <-shared; got != [2]bool{true, false} {
		t.Errorf("it has the files of its process: %v, want true and then false", got)
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

// cgroupSite is a site whose sandboxes have cgroups below dirs.
func cgroupSite(t *testing.T, dirs ...string) *site {
	return newSiteWith(t, "copy", func(_ *contexts.Config, c *Config) { c.Cgroups = dirs })
}

// TestMemoryBombEndsItself lets a command take more memory than it may, while the server reads a file of the context.
func TestMemoryBombEndsItself(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, cgrouptest.Need(t, "memory"))
	a, err := s.contexts.Acquire(t.Context(), testContext, contexts.Read)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	p := s.begin(Command{Argv: []string{"sh", "-c", "head -c 500M /dev/zero | tail -c 500M; sleep 100"}, Limits: Limits{MemoryBytes: 32 << 20}})
	for p.Ended() == nil {
		if _, err := a.Root.Stat("/app/seeded"); err != nil {
			t.Fatal(err)
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

// TestMemoryOfCommandFitsTheGroupAbove gives the cgroup above those of commands less memory than a command gets otherwise.
func TestMemoryOfCommandFitsTheGroupAbove(t *testing.T) {
	t.Parallel()
	dir := cgrouptest.Need(t, "memory")
	const group = 64 << 20
	if err := write(filepath.Join(dir, "memory.limit_in_bytes"), strconv.Itoa(group)); err != nil {
		t.Fatal(err)
	}
	s := cgroupSite(t, dir)
	for _, c := range []struct {
		name    string
		cmd     Command
		profile Profile
		want    int64
	}{
		{"by default", Command{}, Profile{}, group / 2},
		{"as a panel asks", Command{OfPanel: true, Limits: Limits{MemoryBytes: group}}, Profile{}, group / 2},
		{"less", Command{OfPanel: true, Limits: Limits{MemoryBytes: 8 << 20}}, Profile{}, 8 << 20},
		{"as a host asks", Command{Limits: Limits{MemoryBytes: group - 1}}, Profile{}, group - 1},
		{"more than there is", Command{Limits: Limits{MemoryBytes: 2 * group}}, Profile{}, group},
		{"of a profile", Command{OfPanel: true}, Profile{Limits: Limits{MemoryBytes: group - 1}}, group - 1},
	} {
		c.profile.Name, c.profile.Network.Mode = defaultProfile, NetworkNone
		s.cfg.Profiles = &Profiles{ByName: map[string]*Profile{defaultProfile: &c.profile}}
		plan, err := s.plan(&c.cmd)
		if err != nil || plan.limits.MemoryBytes != c.want || c.cmd.Limits.MemoryBytes != c.want {
			t.Errorf("%s: got %+v, %v; want %d", c.name, plan, err, c.want)
		}
	}
	s.cfg.Profiles = BuiltinProfiles()
	if exit, _, _ := s.result(s.start("head -c 60M /dev/zero | tail -c 60M")); exit.Reason != OutOfMemory || exit.PeakMemory > group/2 {
		t.Errorf("got %+v", exit)
	}
	shared := Command{Argv: []string{"sleep", "1000"}, Sandbox: "dev", Limits: Limits{MemoryBytes: 2 * group}}
	first := s.begin(shared)
	shared.Argv = []string{"true"}
	s.result(s.begin(shared)) // it asks for the same
	s.killGently(first)
}

// TestTCPBuffersOfCommandAreBounded looks at the cgroup of a command. Version 1 counts the buffers apart from other memory.
func TestTCPBuffersOfCommandAreBounded(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, cgrouptest.Need(t, "memory"))
	p := s.begin(Command{Argv: []string{"sleep", "1000"}, Limits: Limits{MemoryBytes: 32 << 20}})
	got, err := os.ReadFile(filepath.Join(p.box.cgroup.v1["memory"], "memory.kmem.tcp.limit_in_bytes"))
	if err == nil && string(got) != strconv.Itoa(32<<20)+"\n" {
		t.Errorf("the limit is %s", got)
	}
	if err := p.Kill(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Skip("the kernel does not count them: ", err)
	}
}

// TestEpollWatchesAndPipesCountAsMemory has commands take what the kernel counts for their user. The memory limit of the sandbox ends them, so that an
// operator can raise the user's limits.
func TestEpollWatchesAndPipesCountAsMemory(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, cgrouptest.Need(t, "memory"))
	for name, script := range map[string]string{
		"epoll watches": fmt.Sprintf(`my @e = map { syscall(%d, 0, 0) } 1 .. 1000; my $event = pack("x12");
			for (1 .. 1000) { my $set = syscall(%d, 0); syscall(%d, $set, 1, $_, $event) == 0 or exit 3 for @e }`,
			unix.SYS_EVENTFD2, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL),
		"pipes": `use IO::Handle; for (1 .. 5000) { pipe(my $r, my $w) or exit 3; $w->blocking(0); syswrite($w, "x" x 65536); push @p, $r, $w }`,
	} {
		cmd := Command{Argv: []string{"perl", "-e", script + " sleep 1000"}, Limits: Limits{MemoryBytes: 32 << 20, Files: 12_000}}
		if exit, _, stderr := s.result(s.begin(cmd)); exit.Reason != OutOfMemory {
			t.Errorf("%s: got %+v, %s", name, exit, stderr)
		}
	}
}

func TestCPUPercentSlowsCommand(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, cgrouptest.Need(t, "cpu"))
	p := s.begin(Command{Argv: []string{"sh", "-c", "trap '' TERM; while :; do :; done"}, Limits: Limits{CPUPercent: 10, Wall: 2 * time.Second}})
	var used time.Duration
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; p.Ended() == nil; <-tick.C {
		used = max(used, p.box.cpuTime())
	}
	exit := *p.Ended()
	if ran := exit.At.Sub(p.Started()); exit.Reason != TimedOut || used > ran/4 {
		t.Errorf("got %+v with %s of CPU time, want a tenth of %s", exit, used, ran)
	}
}

func TestPIDsOfCgroupBoundProcesses(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, cgrouptest.Need(t, "pids"))
	p := s.begin(Command{Argv: []string{"sh", "-c", "for i in $(seq 100); do sleep 100 & done; wait"}, Limits: Limits{Processes: 20}})
	if got := p.Enforced(); !slices.Contains(got, Enforced{"processes", 20, byCgroup1}) {
		t.Errorf("the limits are %v", got)
	}
	_, _, stderr := s.result(p)
	if !strings.Contains(stderr, "fork") {
		t.Errorf("100 processes were started: %q", stderr)
	}
}

// TestSandboxesOfContextShareProcesses gives the cgroup above those of commands a limit. Commands in sandboxes of their own, and in shared ones, get
// less the more sandboxes their context has.
func TestSandboxesOfContextShareProcesses(t *testing.T) {
	t.Parallel()
	dir := cgrouptest.Need(t, "pids")
	const first = 180
	if err := write(filepath.Join(dir, "pids.max"), strconv.Itoa(first*processesPart)); err != nil {
		t.Fatal(err)
	}
	s := cgroupSite(t, dir)
	bomb := []string{"perl", "-e", `$| = 1; for (1 .. 500) { my $p = fork; last if !defined $p; $p or sleep(1000), exit; $n++ } print "$n\n"; sleep 1000`}
	for beside, sandbox := range []string{"", "dev", "", "test"} {
		p := s.begin(Command{Argv: bomb, Sandbox: sandbox})
		t.Cleanup(func() { _ = p.Kill(context.Background(), 0) }) // it may have ended
		want := max(first/(beside+1), leastProcesses)
		s.awaitOutput(p, "\n")
		var out strings.Builder
		if err := p.Output(t.Context(), [2]int64{}, Present, func(o Output) error { out.Write(o.Data); return nil }); err != nil {
			t.Fatal(err)
		}
		got, err := strconv.Atoi(strings.TrimSpace(out.String()))
		if err != nil || got > want+processesBeside || got < want-processesBeside || !slices.Contains(p.Enforced(), Enforced{"processes", int64(want), byCgroup1}) {
			t.Errorf("beside %d sandboxes, in %q: it started %q processes, want about %d; limits %v", beside, sandbox, out.String(), want, p.Enforced())
		}
	}
}

// TestContextGetsQuarterOfProcesses adds up what all sandboxes of a context get.
func TestContextGetsQuarterOfProcesses(t *testing.T) {
	t.Parallel()
	table := &Processes{cgroups: &cgroups{}}
	sum, total := 0, table.processesFor(0)*processesPart
	for beside := range maxRunning {
		sum += table.processesFor(beside)
	}
	if most := max(total/4+total/64, maxRunning*leastProcesses); sum > most {
		t.Errorf("%d sandboxes of a context get %d of %d processes", maxRunning, sum, total)
	}
}

// TestCgroupFreezesCommand pauses a command by its cgroup v2, which a stopped shell does not see.
func TestCgroupFreezesCommand(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, cgrouptest.Need(t, ""))
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
	p := s.begin(Command{Argv: []string{"true"}, Limits: Limits{Wall: time.Minute}})
	want := []Enforced{
		{"wall_ms", 60000, byServer}, {"processes", 512, byRlimit}, {"open_files", 4096, byRlimit}, {"file_bytes", 16 << 30, byRlimit},
		{"memory_bytes", 4 << 30, ""}, {"tmp_bytes", 1 << 30, byTmpfs},
	}
	if got := p.Enforced(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	_, err := s.Start(t.Context(), Command{Context: testContext, Argv: []string{"true"}, Limits: Limits{MemoryBytes: 1}})
	if fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("a byte of memory: %v", err)
	}
	if _, err := Open(t.Context(), Config{Dir: t.TempDir(), Cgroups: []string{"/tmp"}}); err == nil {
		t.Error("/tmp was taken for a cgroup")
	}
}

// TestKernelEndsCommandsBeforeServer looks at all processes of a sandbox, with the spare of a shared one. A command tries to lower its oom_score_adj.
func TestKernelEndsCommandsBeforeServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for _, cmd := range s.sandboxes() {
		cmd.Argv = []string{"sh", "-c", "sleep 0.1; { echo 999 >/proc/self/oom_score_adj; } 2>/dev/null; cat /proc/[0-9]*/oom_score_adj | sort -u | tr '\\n' ' '"}
		exit, out, stderr := s.result(s.begin(cmd))
		if out != "1000 " && (entry.Version() > 0 || out != "1000 999 ") { // see killFirst
			t.Errorf("sandbox %q: oom_score_adj is %q; %+v, %s", cmd.Sandbox, out, exit, stderr)
		}
	}
}

// TestCgroupsOfKilledServerAreSwept leaves the cgroup of a sandbox, as a server does that is killed.
func TestCgroupsOfKilledServerAreSwept(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir := cgrouptest.Need(t, "")
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

// groupVariable makes the test program an engine in the cgroup that it is started in.
const groupVariable = "CTXFS_TEST_GROUP_HELPER"

// groupHelper prints the cgroup that an engine takes, and that of the next engine, which it starts. Between the two it moves itself as an
// engine does once it makes cgroups with limits.
func groupHelper() error {
	c, err := openCgroups(nil)
	if err != nil {
		return err
	}
	fmt.Println(c.v2)
	if os.Getenv(groupVariable) == "next" || c.v2 == "" {
		return nil
	}
	if err := moveBelow(c.v2, ownGroup); err != nil {
		return err
	}
	next := osexec.CommandContext(context.Background(), "/proc/self/exe")
	next.Env, next.Stdout, next.Stderr = append(os.Environ(), groupVariable+"=next"), os.Stdout, os.Stderr
	return next.Run()
}

// TestNextEngineFindsDelegatedCgroup starts an engine in a cgroup that is marked as systemd does, and a second one from it: as after a crash of
// a runner.
func TestNextEngineFindsDelegatedCgroup(t *testing.T) {
	t.Parallel()
	dir := cgrouptest.Need(t, "")
	own := filepath.Join(dir, ownGroup)
	t.Cleanup(func() {
		if err := (&cgroup{v2: own}).remove(); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err != nil {
		t.Skip("a cgroup cannot be marked: ", err)
	}
	engine := osexec.CommandContext(t.Context(), "sh", "-c", `echo $$ >"$1/cgroup.procs" && exec "$2"`, "sh", dir, os.Args[0])
	engine.Env = append(os.Environ(), groupVariable+"=first")
	out, err := engine.CombinedOutput()
	if want := dir + "\n" + dir + "\n"; err != nil || string(out) != want {
		t.Errorf("the engines took %q, %v; want %q", out, err, want)
	}
	for name, want := range map[string]string{dir: dir, own: dir, filepath.Join(dir, "app"): "", filepath.Join(own, ownGroup): ""} {
		if got := delegatedAt(name); got != want {
			t.Errorf("in %s an engine takes %q, want %q", name, got, want)
		}
	}
}
