package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/cgrouptest"
)

func (s *site) number(id contexts.ID, name string) int {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.workspace, ".contexts", string(id), name))
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestForkBesideWriter forks a context while a command writes the files a, b and c in this order.
func TestForkBesideWriter(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, s *site) {
		// mv makes each file whole at any time.
		p := s.start(`set -e; w() { echo $i > $1.new; mv $1.new $1; }
			i=0; w a; w b; w c; echo ready
			while :; do i=$((i+1)); w a; w b; w c; done`)
		s.awaitOutput(p, "ready")
		for round := range 5 {
			fork := contexts.ID(fmt.Sprintf("ctx_fork%d", round))
			if _, err := s.contexts.Fork(t.Context(), testContext, fork, contexts.EnsureOptions{}); err != nil {
				t.Fatal(err)
			}
			a, b, c := s.number(fork, "a"), s.number(fork, "b"), s.number(fork, "c")
			if a < b || b < c || a > c+1 {
				t.Errorf("the copy has a %d, b %d, c %d, which the context never had together", a, b, c)
			}
			awaitChange(t, func() bool { return s.number(testContext, "a") > a+1 }, "the command did not continue after the fork")
		}
		if p.Ended() != nil {
			t.Errorf("the command ended: %+v", p.Ended())
		}
	})
}

// awaitChange waits until a condition holds that another process makes true.
func awaitChange(t *testing.T, holds func() bool, otherwise string) {
	t.Helper()
	for deadline := time.Now().Add(waitTime); !holds(); {
		if time.Now().After(deadline) { // clock: it bounds a hang
			t.Fatal(otherwise)
		}
	}
}

func (s *site) pause(p *Process) (resume func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	resume, err := p.Pause(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return resume
}

// TestPauseStopsProcessesThatStartOthers pauses shells that start programs in a loop. No signal stops a process that waits in vfork(2).
func TestPauseStopsProcessesThatStartOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.start(`for n in 1 2 3 4; do (i=0; while :; do i=$((i+1)); echo $i > n$n; /bin/true; done) & done; until [ -e n1 ] && [ -e n2 ] && [ -e n3 ] && [ -e n4 ]; do :; done; echo ready; wait`)
	s.awaitOutput(p, "ready")
	for range 40 {
		resume := s.pause(p)
		var before, after [4]string
		for _, got := range []*[4]string{&before, &after} {
			for n := range got {
				data, err := os.ReadFile(filepath.Join(s.workspace, ".contexts", string(testContext), fmt.Sprint("n", n+1)))
				if err != nil {
					t.Fatal(err)
				}
				got[n] = string(data)
			}
		}
		resume()
		if before != after {
			t.Fatalf("a paused command wrote: %q, then %q", before, after)
		}
	}
}

// TestPauseLastsUntilAllResume pauses a command twice: by two callers, such as a fork and a measurement.
func TestPauseLastsUntilAllResume(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.start("echo ready; while :; do :; done")
	s.awaitOutput(p, "ready")
	first, second := s.pause(p), s.pause(p)
	first()
	if threads(p.box.initPID) != allStopped {
		t.Error("the command continues although one caller keeps it paused")
	}
	second()
	awaitChange(t, func() bool {
		return threads(p.box.initPID) == running || threads(children(p.box.initPID)[0]) == running
	}, "the command did not continue")
	if now, later := p.pauses.sum(), p.pauses.sum(); now != later {
		t.Error("the pause did not end")
	}
}

// TestHaltOfPausedCommandKeepsNobodyWaiting halts a command that a caller has paused, which then ends the pause.
func TestHaltOfPausedCommandKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.start("echo ready; while :; do :; done")
	s.awaitOutput(p, "ready")
	resume := s.pause(p)
	proceed, err := p.box.halt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	resume() // it does not wait for proceed
	if threads(p.box.initPID) != allStopped {
		t.Error("the command continues although it is halted")
	}
	proceed()
	awaitChange(t, func() bool {
		return threads(p.box.initPID) == running || threads(children(p.box.initPID)[0]) == running
	}, "the command did not continue")
}

// TestHaltStopsWhatCannotBePaused has a process write whose parent waits for it in the kernel: in vfork(2), until it executes a program. No
// signal stops the parent, and a pause stops a child after its parent only.
func TestHaltStopsWhatCannotBePaused(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/bin/perl"); err != nil {
		t.Skip("it needs perl")
	}
	s := newSite(t, "copy")
	const clone, cloneVfork = unix.SYS_CLONE, unix.CLONE_VFORK | int(unix.SIGCHLD)
	p := s.begin(Command{Argv: []string{"perl", "-e", fmt.Sprintf(`if (syscall(%d, %d, 0, 0, 0, 0) == 0) {
		for (;;) { open(F, ">n.new"); print F ++$i; close F; rename "n.new", "n"; if ($i == 1) { syswrite STDOUT, "ready\n" } } }`, clone, cloneVfork)}})
	s.awaitOutput(p, "ready")
	for range 20 {
		resume, err := p.box.halt(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		init := p.box.initPID
		awaitChange(t, func() bool {
			parents := children(init)
			return len(parents) == 1 && len(children(parents[0])) == 1 && threads(children(parents[0])[0]) == allStopped
		}, "the child runs on")
		if threads(children(init)[0]) == allStopped {
			t.Error("the parent stopped: it does not wait in vfork")
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if p.box.lockPausing(canceled) == nil { // what Pause begins with
			t.Fatal("a fork would take a halted command for a paused one")
		}
		before := s.number(testContext, "n")
		if now := s.number(testContext, "n"); now != before {
			t.Errorf("a halted command wrote %d after %d", now, before)
		}
		resume()
		awaitChange(t, func() bool { return s.number(testContext, "n") > before }, "the command did not continue")
	}
}

// TestPauseKeepsStoppedProcess pauses a command of which one process was stopped before, by the command itself.
func TestPauseKeepsStoppedProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.begin(Command{OpenStdin: true, Argv: []string{"sh", "-c", `sh -c 'kill -STOP $$; echo continued' & while [ "$(cut -d' ' -f3 /proc/$!/stat)" != T ]; do :; done; echo stopped; read line; cut -d' ' -f3 /proc/$!/stat; kill -CONT $!; wait; echo end`}})
	s.awaitOutput(p, "stopped")
	s.pause(p)()
	if err := p.Write(t.Context(), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	exit, out, _ := s.result(p)
	if exit.Code != 0 || out != "stopped\nT\ncontinued\nend\n" {
		t.Errorf("got %+v, %q", exit, out)
	}
}

// TestShellDoesNotSeePause pauses a shell with job control, which runs its next command when one stops.
func TestShellDoesNotSeePause(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.begin(Command{Argv: []string{"bash", "-c", "set -m; echo ready; sh -c 'echo begun; read line'; echo code $?"}, OpenStdin: true})
	s.awaitOutput(p, "begun")
	for range 20 {
		s.pause(p)()
	}
	if err := p.CloseInput(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := s.result(p); out != "ready\nbegun\ncode 1\n" {
		t.Errorf("the shell saw the pause: %q", out)
	}
}

// idle is an execution that ends when it is asked to.
type idle struct{ asked chan struct{} }

func (x idle) wait() Exit {
	<-x.asked
	return Exit{Reason: Exited}
}
func (idle) signal(syscall.Signal) error { return nil }
func (x idle) terminate() error          { close(x.asked); return nil }
func (idle) kill() error                 { return nil }

// TestPauseDoesNotCountForWallLimit pauses a command for much longer than its limit.
func TestPauseDoesNotCountForWallLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Second
		table := &Processes{cfg: Config{Dir: dir, Log: zap.NewNop()}, active: map[contexts.ID]int{}, byID: map[string]*Process{}, stopped: t.Context()}
		p := &Process{
			table: table, cmd: Command{Sandbox: "dev", Limits: Limits{Wall: limit}}, started: time.Now(), box: &box{init: -1, cgroup: &cgroup{}},
			run: idle{make(chan struct{})}, done: make(chan struct{}), kills: make(chan kill, 1), input: make(chan struct{}, 1),
		}
		for i := range p.spools {
			var err error
			if p.spools[i], err = newSpool(filepath.Join(dir, fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			p.spools[i].end()
		}
		table.running.Add(1)
		go p.supervise(contexts.NewRemoteAccess(t.Context(), nil, 0, nil, func() {}))
		time.Sleep(limit / 2)
		resume, err := p.Pause(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if p.Ended() != nil {
			t.Fatalf("a paused command ended: %+v", p.Ended())
		}
		resume()
		<-p.done
		if ran := p.Ended().At.Sub(p.Started()) - time.Hour; p.Ended().Reason != TimedOut || ran < limit || ran > 2*limit {
			t.Errorf("got %+v after %s", p.Ended(), ran)
		}
		table.running.Wait()
	})
}

// TestContinueWaitsForEndOfPause sends SIGCONT to a paused command.
func TestContinueWaitsForEndOfPause(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	p := s.start("trap 'echo got it; exit' CONT; echo ready; while :; do :; done")
	s.awaitOutput(p, "ready")
	resume := s.pause(p)
	if err := p.Signal(int(sigcont)); err != nil {
		t.Fatal(err)
	}
	if got := threads(p.box.initPID); got != allStopped {
		t.Errorf("process 1 runs")
	}
	resume()
	if exit, out, _ := s.result(p); exit.Code != 0 || !strings.Contains(out, "got it") {
		t.Errorf("got %+v, %q", exit, out)
	}
}

// TestPauseKeepsNoDescriptors pauses a command of many processes, and continues it while this process has no descriptor left. It does not run
// beside other tests: it counts the descriptors of this process.
func TestPauseKeepsNoDescriptors(t *testing.T) { //nolint:paralleltest // see above
	t.Run("by signals", func(t *testing.T) { pausesWithoutDescriptors(t, newSite(t, "copy")) })
	t.Run("by a cgroup", func(t *testing.T) { pausesWithoutDescriptors(t, cgroupSite(t, cgrouptest.Need(t, ""))) })
}

func pausesWithoutDescriptors(t *testing.T, s *site) {
	t.Helper()
	const processes, few = 100, 10
	p := s.start(fmt.Sprintf("for i in $(seq %d); do sleep 1000 & done; echo ready; wait", processes))
	s.awaitOutput(p, "ready")
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	paused := func() (n int) {
		if g := p.box.cgroup; g.v2 != "" {
			return (processes + 1) * int(g.counter(g.v2, "cgroup.events", "frozen"))
		}
		for queue := []int{p.box.initPID}; len(queue) > 0; queue = queue[1:] {
			if threads(queue[0]) == allStopped {
				n++
			}
			queue = append(queue, children(queue[0])...)
		}
		return n
	}
	before := descriptors()
	resume := s.pause(p)
	if more := descriptors() - before; more > few {
		t.Errorf("the pause keeps %d descriptors", more)
	}
	if n := paused(); n <= processes {
		t.Errorf("%d processes are stopped", n)
	}
	withoutDescriptors(t, resume)
	awaitChange(t, func() bool { return paused() == 0 }, "processes are stopped")
	if err := p.Kill(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// withoutDescriptors calls f while this process can open nothing.
func withoutDescriptors(t *testing.T, f func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil); err != nil {
			t.Error(err)
		}
	}()
	f()
}

// TestUnreadProcessesAreNotTakenForEnded looks at a process that is stopped and has a child, while this process can
// open nothing. It does not run beside other tests: the limit is that of this process.
func TestUnreadProcessesAreNotTakenForEnded(t *testing.T) { //nolint:paralleltest // see above
	cmd := osexec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & kill -STOP $$; wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	awaitChange(t, func() bool { return threads(pid) == allStopped }, "it does not stop")
	below := children(pid)
	defer func() {
		for _, child := range below {
			_ = unix.Kill(child, unix.SIGKILL)
		}
	}()
	dir := fmt.Sprintf("/proc/%d", pid)
	looks := map[string]func(s *survey){
		"its threads":     func(s *survey) { s.process(pid) },
		"its descriptors": func(s *survey) { s.descriptors(dir) },
		"its memory":      func(s *survey) { s.mapped(pid) },
		"a socket":        func(s *survey) { s.hidden = hasInFlight(dir + "/fdinfo/0") },
		"its children":    func(s *survey) { (&box{initPID: pid}).kept(s) },
	}
	check := func(readable bool) {
		if got := threads(pid); (got == allStopped) != readable || got == ended {
			t.Errorf("readable %t: its activity is %v", readable, got)
		}
		if got, err := childrenOf(pid); (err == nil) != readable || (len(got) == 1) != readable {
			t.Errorf("readable %t: its children are %v, %v", readable, got, err)
		}
		for what, look := range looks {
			s := newSurvey(t.Context())
			if look(s); s.hidden == readable {
				t.Errorf("readable %t: of %s something is hidden: %t", readable, what, s.hidden)
			}
		}
	}
	check(true)
	withoutDescriptors(t, func() {
		check(false)
		pause := &stopping{processes: map[int]*stopped{pid: {pid: pid, ended: true}}}
		if settled, err := pause.look(pid); settled || err != nil {
			t.Errorf("a pause takes the process for stopped: %v", err)
		}
		pause.all = true
		if _, err := pause.look(pid); !errors.Is(err, unix.EMFILE) {
			t.Errorf("a halt misses the child: %v", err)
		}
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for what, look := range looks {
		s := newSurvey(t.Context())
		if look(s); s.hidden {
			t.Errorf("of a process that has ended %s may be hidden", what)
		}
	}
	if got, err := childrenOf(pid); err != nil || got != nil || threads(pid) != ended {
		t.Errorf("after its end: %v, %v", got, err)
	}
}
