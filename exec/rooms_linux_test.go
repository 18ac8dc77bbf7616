package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/exec/entry"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/cgrouptest"
)

// inRoom runs a shell command in the shared sandbox "dev".
func (s *site) inRoom(script string) *Process {
	s.t.Helper()
	return s.begin(Command{Sandbox: "dev", Argv: []string{"sh", "-c", script}})
}

func TestServerAnswersNextCommand(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, s *site) {
		server := s.begin(Command{Sandbox: "dev", Argv: []string{"python3", "-u", "-m", "http.server", "3000", "--bind", "127.0.0.1"}})
		s.awaitOutput(server, "Serving")
		fetch := []string{"curl", "-sS", "-m", "60", "http://localhost:3000/app/seeded"}
		if exit, out, stderr := s.result(s.begin(Command{Sandbox: "dev", Argv: fetch})); exit.Code != 0 || out != "hello\n" {
			t.Errorf("in the same sandbox: %+v, %q, %q", exit, out, stderr)
		}
		for name, cmd := range map[string]Command{
			"own sandbox": {}, "another name": {Sandbox: "other"}, "another profile": {Sandbox: "dev", Profile: "packages"}, "another context": {Sandbox: "dev", Context: "ctx_b"},
		} {
			cmd.Argv = fetch
			if exit, out, _ := s.result(s.begin(cmd)); exit.Code == 0 {
				t.Errorf("%s: %q", name, out)
			}
		}
		if err := server.Kill(t.Context(), time.Second); err != nil || server.Ended().Reason != Killed {
			t.Errorf("%v, %+v", err, server.Ended())
		}
		if left := sandboxed(t, s.workspace); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestSpareIsOutOfReach looks for the spare of a shared sandbox, which becomes its next command, and kills it.
func TestSpareIsOutOfReach(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	keeper := s.inRoom("echo up; sleep 1000")
	s.awaitOutput(keeper, "up")
	exit, out, _ := s.result(s.inRoom(`until [ "$spare" ]; do for p in /proc/[0-9]*; do
		if tr '\0' ' ' <$p/cmdline 2>/dev/null | grep -q ' init await 3 $'; then spare=${p#/proc/}; fi; done; done
		echo found; for f in environ maps mem fd/3 exe; do head -c1 /proc/$spare/$f 2>/dev/null && echo $f; done
		kill -9 $spare
		# Its socket is open until its last thread has ended.
		while grep -q '^State:.*[RSD] (' /proc/$spare/status 2>/dev/null || [ "$(ls /proc/$spare/task 2>/dev/null | wc -l)" -gt 1 ]; do :; done`))
	if exit.Code != 0 || out != "found\n" {
		t.Errorf("got %+v, %q", exit, out)
	}
	for range 3 {
		if exit, out, _ := s.result(s.inRoom("echo again")); exit.Code != 0 || out != "again\n" {
			t.Errorf("the next command: %+v, %q", exit, out)
		}
	}
}

// TestCommandOutlivesItsSpare kills the spare that a command was given to, and counts how often the command ran. The spare is stopped before: it cannot
// have taken the order. Beside it are a stopped process and a zombie.
func TestCommandOutlivesItsSpare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// stop is what the keeper does with the spare before the command starts, and then what is done with the command.
		stop   string
		script string
		then   func(keeper, p *Process) error
		reason Reason
		code   int
		ran    string
	}{
		"killed with the order":  {"STOP", "", func(keeper, _ *Process) error { return keeper.Signal(10) }, Exited, 0, "1"},
		"killed before":          {"KILL", "", func(_, _ *Process) error { return nil }, Exited, 0, "1"},
		"killed by its caller":   {"STOP", "", func(_, p *Process) error { return p.Kill(t.Context(), 0) }, Killed, 0, "0"},
		"signaled, then killed":  {"STOP", "", func(keeper, p *Process) error { return errors.Join(p.Signal(15), keeper.Signal(10)) }, Exited, 128 + 9, "0"},
		"continued":              {"STOP", "", func(keeper, _ *Process) error { return keeper.Signal(12) }, Exited, 0, "1"},
		"killed after it began":  {"CONT", "kill -9 $$", func(_, _ *Process) error { return nil }, Exited, 128 + 9, "1"},
		"killed in its terminal": {"STOP", "", func(keeper, _ *Process) error { return keeper.Signal(10) }, Exited, 0, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "copy")
			keeper := s.inRoom(`
				sleep 1000 & kill -STOP $!
				sh -c 'true & exec sleep 1000' &
				until [ "$spare" ]; do for p in /proc/[0-9]*; do
					if tr '\0' ' ' <$p/cmdline 2>/dev/null | grep -q ' init await 3 $'; then spare=${p#/proc/}; fi; done; done
				kill -` + c.stop + ` $spare
				trap 'kill -KILL $spare' USR1
				trap 'kill -CONT $spare' USR2
				echo found; while :; do sleep 0.05; done`)
			s.awaitOutput(keeper, "found")
			cmd := Command{Sandbox: "dev", Argv: []string{"sh", "-c", "echo >>/tmp/ran; echo out; [ -t 0 ] || cat; " + c.script}}
			if strings.Contains(name, "terminal") {
				cmd.Pty = &Pty{}
			} else {
				cmd.Stdin = []byte("typed\n")
			}
			p := s.begin(cmd)
			if err := c.then(keeper, p); err != nil {
				t.Fatal(err)
			}
			exit, out, stderr := s.result(p)
			_, ran, _ := s.result(s.inRoom("touch /tmp/ran; wc -l </tmp/ran"))
			want := map[bool]string{true: "out\ntyped\n"}[c.ran == "1"]
			if cmd.Pty != nil {
				want = "out\r\n"
			}
			if exit.Reason != c.reason || c.reason == Exited && exit.Code != c.code || out != want || ran != c.ran+"\n" {
				t.Errorf("got %+v, %q, %q; ran %s times, want %s", exit, out, stderr, ran, c.ran)
			}
		})
	}
}

// TestCommandIsGivenToFewSpares gives a command to spares that have ended.
func TestCommandIsGivenToFewSpares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dead  int32
		want  report
		spare int32
	}{
		"none has ended": {0, report{ID: 1, Exited: true, Code: 7}, 1},
		"all but one":    {maxSpares - 1, report{ID: 1, Exited: true, Code: 7}, maxSpares},
		"all":            {maxSpares, report{ID: 1, Exited: true, Error: "3 processes ended before they became it"}, maxSpares},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine, theirs, err := socketPair()
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Close()
			conn, err := net.FileConn(theirs)
			closeAll([]*os.File{theirs})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var files []*os.File
			var made atomic.Int32
			d := &initd{engine: conn.(*net.UnixConn), running: map[uint32]*child{}, spares: make(chan *spare, 1), newSpare: func() (*spare, error) { //nolint:forcetypeassert // it is one
				s, err := newSpare()
				if made.Add(1) <= c.dead && err == nil {
					err = s.process.Kill()
					_ = s.confirms() // it waits until the spare has ended
				}
				for _, i := range []int{0, 4} { // as an earlier spare may have read them
					if _, err := io.Copy(io.Discard, files[i]); err != nil {
						t.Error(err)
					}
				}
				return s, err
			}}
			spec, err := json.Marshal(launch{entry.OrderOf(entry.Step{}, "/bin/sh", "-c", "echo $A; exit 7"), []byte("/"), false})
			if err != nil {
				t.Fatal(err)
			}
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			for _, content := range [][]byte{spec, nil, nil, nil, []byte("A=ran\x00")} {
				f, err := memoryFile(content)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
			closeAll(files[2:3])
			if files[2], err = os.OpenFile(out.Name(), os.O_WRONLY, 0); err != nil {
				t.Fatal(err)
			}
			d.start(1, files)
			var got [2]report
			for i := range got {
				if _, err := receive(engine, &got[i]); err != nil {
					t.Fatal(err)
				}
			}
			if c.want.Error != "" {
				c.want.Code = killedCode
			}
			written, err := os.ReadFile(out.Name())
			if want := strings.Repeat("ran\n", min(1, c.want.Code%killedCode)); got != [2]report{{ID: 1, Started: true}, c.want} || made.Load() != c.spare || string(written) != want || err != nil {
				t.Errorf("got %+v of %d spares, %q, %v", got, made.Load(), written, err)
			}
			if exit := got[1].exit(); (exit.Reason == SandboxFailed) != (c.want.Error != "") {
				t.Errorf("the exit is %+v", exit)
			}
		})
	}
}

// TestSharedSandboxIsShared checks what commands of one sandbox have in common, and what not.
func TestSharedSandboxIsShared(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	keeper := s.inRoom("echo mine >/tmp/file; echo mine >~/file; sleep 1000 & echo $!; wait")
	s.awaitOutput(keeper, "\n")
	exit, out, stderr := s.result(s.begin(Command{
		Sandbox: "dev", Cwd: "app", Stdin: []byte("input\n"), Env: map[string]string{"A": "own"},
		Argv: []string{"sh", "-c", "cat /tmp/file ~/file; cat; echo $A; pwd; id -un; ulimit -c; echo oops >&2; exit 3"},
	}))
	if exit.Code != 3 || exit.Reason != Exited || out != "mine\nmine\ninput\nown\n/context/app\nagent\n0\n" || stderr != "oops\n" {
		t.Errorf("got %+v, %q, %q", exit, out, stderr)
	}
	for script, code := range map[string]int{"kill -9 $$": 137, "exit 200": 200, "no-such-program": 127, "exec /context/app/seeded": 126} {
		if exit, _, _ := s.result(s.inRoom(script)); exit.Code != code || exit.Reason != Exited {
			t.Errorf("%s: %+v", script, exit)
		}
	}
	if err := keeper.Kill(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if exit, out, _ := s.result(s.inRoom("cat /tmp/file")); exit.Code == 0 {
		t.Errorf("/tmp outlived the sandbox: %q", out)
	}
}

// TestLimitsOfSharedSandbox begins a sandbox with limits, which those of its other commands are.
func TestLimitsOfSharedSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	of := Limits{TmpBytes: 1 << 20, Processes: 50, MemoryBytes: 64 << 20}
	s.begin(Command{Sandbox: "dev", Limits: of, Argv: []string{"sleep", "1000"}})
	for name, own := range map[string]Limits{"none": {}, "the same": of, "its own": {Wall: time.Minute, CPU: time.Second, Files: 100, FileBytes: 4096, OutputBytes: 1 << 20}} {
		cmd := Command{Context: testContext, Sandbox: "dev", Limits: own, Argv: []string{"bash", "-c", "stat -f -c '%S %b' /tmp; ulimit -u"}}
		e, err := s.Explain(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		p := s.begin(cmd)
		got := p.Enforced()
		for _, want := range []Enforced{{"tmp_bytes", 1 << 20, byTmpfs}, {"processes", 50, byRlimit}, {"memory_bytes", 64 << 20, ""}} {
			if !slices.Contains(got, want) || !slices.Contains(e.Limits, want) {
				t.Errorf("%s: the limits are %v, explained as %v; want %v", name, got, e.Limits, want)
			}
		}
		if own.CPU > 0 && !slices.Contains(got, Enforced{"cpu_ms", 1000, byRlimit}) {
			t.Errorf("%s: the limits are %v", name, got)
		}
		if exit, out, stderr := s.result(p); out != fmt.Sprintf("4096 256\n%d\n", 50+processesBeside) {
			t.Errorf("%s: %+v, %q, %q", name, exit, out, stderr)
		}
	}
	for limit, own := range map[string]Limits{
		"memory_bytes 67108864": {MemoryBytes: 32 << 20}, "tmp_bytes 1048576": {TmpBytes: 2 << 20}, "processes 50": {Processes: 51}, "cpu_percent 0": {CPUPercent: 50},
	} {
		cmd := Command{Context: testContext, Sandbox: "dev", Limits: own, Argv: []string{"true"}}
		if _, err := s.Start(t.Context(), cmd); fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), limit) {
			t.Errorf("%v: %v, want EINVAL with %q", own, err, limit)
		}
		if _, err := s.Explain(t.Context(), cmd); fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), limit) {
			t.Errorf("%v, explained: %v, want EINVAL with %q", own, err, limit)
		}
	}
}

// TestFewProcessesInSharedSandbox limits a shared sandbox to fewer processes than init has threads: they do not count.
func TestFewProcessesInSharedSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for range 2 { // the second begins beside what the first left
		p := s.begin(Command{Sandbox: "dev", Limits: Limits{Processes: 3}, Argv: []string{"sh", "-c", "sleep 0.1 & sleep 0.1 & wait; echo fine"}})
		if exit, out, stderr := s.result(p); out != "fine\n" {
			t.Errorf("got %+v, %q, %q", exit, out, stderr)
		}
	}
}

// TestMemoryOfSharedSandbox lets a command take more memory than the sandbox has, and then ends the sandbox, as the kernel does itself with a
// cgroup v2.
func TestMemoryOfSharedSandbox(t *testing.T) {
	t.Parallel()
	s := cgroupSite(t, cgrouptest.Need(t, "memory"))
	keeper := s.begin(Command{Sandbox: "dev", Limits: Limits{MemoryBytes: 64 << 20}, Argv: []string{"sh", "-c", "echo ready; exec sleep 1000"}})
	s.awaitOutput(keeper, "ready")
	own := s.inRoom("kill -9 $$")
	if exit, _, _ := s.result(own); exit.Reason != Exited || exit.Code != 137 {
		t.Errorf("a command that killed itself: %+v", exit)
	}
	beside := s.begin(Command{Sandbox: "dev", OpenStdin: true, Argv: []string{"sh", "-c", "echo ready; read line; exit 1"}})
	s.awaitOutput(beside, "ready")
	if exit, _, _ := s.result(s.inRoom(`exec perl -e '$x = "x" x 500_000_000'`)); exit.Reason != OutOfMemory {
		t.Errorf("the command that took the memory: %+v", exit)
	}
	if err := beside.CloseInput(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, _, _ := s.result(beside); exit.Reason != Exited || exit.Code != 1 {
		t.Errorf("a command beside it: %+v", exit)
	}
	later := s.inRoom("echo ready; exec sleep 1000")
	s.awaitOutput(later, "ready")
	if err := keeper.box.kill(); err != nil {
		t.Fatal(err)
	}
	if exit, _, _ := s.result(keeper); exit.Reason != OutOfMemory {
		t.Errorf("a command that ran meanwhile, and ended with the sandbox: %+v", exit)
	}
	if exit, _, _ := s.result(later); exit.Reason != SandboxFailed {
		t.Errorf("a command that began later: %+v", exit)
	}
}

// TestEndInSharedSandbox ends commands in each way. Another command of the sandbox continues.
func TestEndInSharedSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	keeper := s.inRoom("trap 'echo signaled' USR1; echo ready; while :; do sleep 0.05; done")
	s.awaitOutput(keeper, "ready")
	for name, c := range map[string]struct {
		cmd    Command
		end    func(*Process) error
		reason Reason
	}{
		"exit":  {Command{Argv: []string{"sh", "-c", "sleep 3333 & echo ready"}}, func(*Process) error { return nil }, Exited},
		"kill":  {Command{Argv: []string{"sh", "-c", "trap '' TERM; sleep 3333 & echo ready; wait; wait"}}, func(p *Process) error { return p.Kill(t.Context(), 50*time.Millisecond) }, Killed},
		"limit": {Command{Limits: Limits{Wall: time.Second}, Argv: []string{"sh", "-c", "sleep 3333 & echo ready; wait"}}, func(*Process) error { return nil }, TimedOut},
	} {
		c.cmd.Sandbox = "dev"
		p := s.begin(c.cmd)
		if c.reason != TimedOut { // the limit may end it before it says so
			s.awaitOutput(p, "ready")
		}
		if err := c.end(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if exit, _, _ := s.result(p); exit.Reason != c.reason {
			t.Errorf("%s: %+v", name, exit)
		}
		if exit, out, _ := s.result(s.inRoom("pgrep -x sleep -a | grep 3333")); exit.Code != 1 {
			t.Errorf("%s: left %q", name, out)
		}
	}
	if err := keeper.Signal(10); err != nil {
		t.Fatal(err)
	}
	s.awaitOutput(keeper, "signaled")
	if _, err := s.contexts.Delete(t.Context(), testContext, nil); err != nil {
		t.Fatal(err)
	}
	if exit, _, _ := s.result(keeper); exit.Reason != ContextClosed {
		t.Errorf("after the deletion: %+v", exit)
	}
}

// TestHostileSharedSandbox attacks the init of a shared sandbox from within: its memory and descriptors are out of reach, and when it is
// killed or stopped, its commands end and the next one gets a sandbox that works.
func TestHostileSharedSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	attempts := `
		exec 2>/dev/null
		init=$(pgrep -P 1 | head -n 1)
		ls -l /proc/$init/fd/ | grep -q . && echo "lists descriptors"
		for fd in 0 1 2 3 4 5 6 7 8; do true </proc/$init/fd/$fd && echo "opens descriptor $fd"; true >/proc/$init/fd/$fd && echo "writes descriptor $fd"; done
		head -c 1 /proc/$init/mem && echo "opens memory"; head -c 1 /proc/$init/environ | grep -q . && echo "reads environment"
		cat /proc/$init/maps | grep -q . && echo "reads maps"; readlink /proc/$init/exe && echo "names the program"; true >>/proc/$init/exe && echo "writes the program"
		perl -e 'opendir(D, "/proc/self/fd"); print "inherits a file\n" if grep { $_ > 3 } readdir(D)'
		echo tried $((init > 1))`
	if exit, out, _ := s.result(s.inRoom(attempts)); exit.Code != 0 || out != "tried 1\n" {
		t.Errorf("got %+v, %q", exit, out)
	}
	for _, how := range []string{"KILL", "STOP"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			room := func(script string) *Process {
				return s.begin(Command{Sandbox: how, Argv: []string{"sh", "-c", script}})
			}
			victim := room("echo ready; sleep 1000")
			s.awaitOutput(victim, "ready")
			attacker := room("kill -" + how + " $(pgrep -P 1 | head -n 1); echo done; sleep 1000")
			if how == "STOP" {
				s.awaitOutput(attacker, "done")
				if err := attacker.Kill(t.Context(), time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}
			for _, p := range []*Process{victim, attacker} {
				if exit, _, _ := s.result(p); exit.Reason != SandboxFailed && exit.Reason != Killed {
					t.Errorf("got %+v", exit)
				}
			}
			if exit, out, stderr := s.result(room("echo fine")); out != "fine\n" {
				t.Errorf("afterwards: %+v, %q, %q", exit, out, stderr)
			}
		})
	}
}

// TestStoppedInitEndsItsSandbox begins a command in a shared sandbox whose init another command has stopped.
func TestStoppedInitEndsItsSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	attacker := s.inRoom("kill -STOP $(pgrep -P 1 | head -n 1); echo done; sleep 1000")
	s.awaitOutput(attacker, "done")
	usually := s.reportTime
	s.reportTime = time.Millisecond
	for _, p := range []*Process{s.inRoom("echo victim"), attacker} {
		if exit, _, _ := s.result(p); exit.Reason != SandboxFailed {
			t.Errorf("got %+v", exit)
		}
	}
	s.reportTime = usually
	if exit, out, stderr := s.result(s.inRoom("echo fine")); out != "fine\n" {
		t.Errorf("afterwards: %+v, %q, %q", exit, out, stderr)
	}
}

// TestStartThatMayHaveHappenedIsNotRepeated ends a sandbox before the engine knows whether a command began in it. EAGAIN would have its caller
// run it twice.
func TestStartThatMayHaveHappenedIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, reports := range map[string][]report{"no report": nil, "a report": {{Started: true}}} {
		table := &Processes{reportTime: time.Hour}
		p := &Process{table: table}
		for i := range p.spools {
			var err error
			if p.spools[i], err = newSpool(filepath.Join(t.TempDir(), "spool")); err != nil {
				t.Fatal(err)
			}
		}
		down := make(chan struct{})
		close(down)
		m := &member{room: &room{table: table, users: 2, box: &box{init: -1, cgroup: &cgroup{}}, down: down}, process: p, started: make(chan report, 1), exited: make(chan report, 1)}
		for _, rep := range reports {
			m.started <- rep
		}
		if err := m.awaitStart(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if exit := p.run.wait(); exit.Reason != SandboxFailed {
			t.Errorf("%s: got %+v", name, exit)
		}
	}
}

func TestTooManySharedSandboxes(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for i := range maxRooms {
		s.begin(Command{Sandbox: strconv.Itoa(i), Argv: []string{"sleep", "1000"}})
	}
	true_ := []string{"true"}
	if _, err := s.Start(t.Context(), Command{Context: testContext, Sandbox: "more", Argv: true_}); fserr.CodeOf(err) != fserr.EMFILE {
		t.Errorf("got %v", err)
	}
	for name, cmd := range map[string]Command{"existing": {Sandbox: "0"}, "another context": {Context: "ctx_b", Sandbox: "more"}, "own": {}} {
		cmd.Argv = true_
		if exit, _, _ := s.result(s.begin(cmd)); exit.Code != 0 {
			t.Errorf("%s: %+v", name, exit)
		}
	}
	if _, err := s.Start(t.Context(), Command{Context: testContext, Sandbox: "0", Network: byNames("a.test"), Argv: true_}); fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), "another network") {
		t.Errorf("another network: %v", err)
	}
	if _, err := s.Start(t.Context(), Command{Context: testContext, Sandbox: "a/b", Argv: true_}); fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("bad name: %v", err)
	}
}

// TestSharedSandboxUnderLoad lets many commands come and go, some of whose callers give up, and leaves nothing.
func TestSharedSandboxUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 6 {
				ctx, cancel := context.WithCancel(t.Context())
				if worker == 0 {
					time.AfterFunc(time.Duration(i)*4*time.Millisecond, cancel)
				}
				p, err := s.Start(ctx, Command{Context: testContext, Sandbox: "dev", Argv: []string{"echo", "-n", strconv.Itoa(i)}})
				cancel()
				if worker == 0 && (errors.Is(err, context.Canceled) || fserr.CodeOf(err) == fserr.EAGAIN) { // it gave up, maybe while it waited for the context
					continue
				}
				if err != nil {
					t.Errorf("worker %d: %v", worker, err)
					return
				}
				if err := p.Wait(t.Context()); err != nil || p.Ended().Code != 0 || p.Written(Stdout) != 1 {
					t.Errorf("worker %d: %v, %+v, %d bytes", worker, err, p.Ended(), p.Written(Stdout))
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := sandboxed(t, s.workspace); len(left) > 0 || len(s.rooms.open) > 0 {
		t.Errorf("left: %v, %v", left, s.rooms.open)
	}
}

// TestReportsThatMakeNoSense is what a hostile init can say.
func TestReportsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, reports := range map[string][]report{
		"unknown command":   {{ID: 9, Started: true}},
		"exit before start": {{ID: 1, Exited: true}},
		"two starts":        {{ID: 1, Started: true}, {ID: 1, Started: true}},
		"nothing":           {{ID: 1}},
		"error after start": {{ID: 1, Started: true}, {ID: 1, Error: "x"}},
		"two exits":         {{ID: 1, Started: true}, {ID: 1, Exited: true}, {ID: 1, Exited: true}},
		"error and exit":    {{ID: 1, Error: "x"}, {ID: 1, Exited: true}},
	} {
		r := &room{members: map[uint32]*member{1: {id: 1, started: make(chan report, 1), exited: make(chan report, 1)}}}
		for i, rep := range reports {
			if err := r.take(rep); (err != nil) != (i == len(reports)-1) {
				t.Errorf("%s: report %d: %v", name, i, err)
			}
		}
	}
}

// TestMessagesThatAreMalformed sends what init cannot have sent. No descriptor may stay.
func TestMessagesThatAreMalformed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"no JSON": "{", "too large": `{"Error":"` + strings.Repeat("x", maxMessage) + `"}`, "wrong type": `{"ID":"x"}`, "negative": `{"ID":-1}`} {
		conn, theirs, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		err = unix.Sendmsg(int(theirs.Fd()), []byte(text), unix.UnixRights(int(write.Fd())), nil, 0)
		closeAll([]*os.File{write, theirs})
		if err != nil {
			t.Fatal(err)
		}
		var rep report
		if files, err := receive(conn, &rep); err == nil || len(files) > 0 {
			t.Errorf("%s: %+v, %v, %v", name, rep, files, err)
		}
		if err := read.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := read.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the file that was passed is open", name)
		}
		closeAll([]*os.File{read})
		_ = conn.Close()
	}
}

// TestListenersThatAreNone passes other files in place of listeners.
func TestListenersThatAreNone(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	good, err := tcp.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll([]*os.File{good, null})
	unixListener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer unixListener.Close()
	path, err := unixListener.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	for name, c := range map[string]struct {
		files []*os.File
		ok    bool
	}{
		"both": {[]*os.File{good, good}, true}, "one": {[]*os.File{good}, false}, "three": {[]*os.File{good, good, good}, false}, "none": {nil, false},
		"no socket": {[]*os.File{good, null}, false}, "no TCP": {[]*os.File{path, good}, false},
	} {
		conn, theirs, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		var fds []int
		for _, f := range c.files {
			fds = append(fds, int(f.Fd()))
		}
		data, err := json.Marshal(struct{}{})
		if err == nil {
			err = unix.Sendmsg(int(theirs.Fd()), data, unix.UnixRights(fds...), nil, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		web, socks, err := takeListeners(t.Context(), conn)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_, _ = web.Close(), socks.Close()
		}
		closeAll([]*os.File{theirs})
		_ = conn.Close()
	}
}

// TestRoomsOfReplacedContext restores a context while commands share a sandbox. The next one sees the restored files.
func TestRoomsOfReplacedContext(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, s *site) {
		if _, err := s.contexts.Snapshot(t.Context(), testContext, "before"); err != nil {
			t.Fatal(err)
		}
		list := []*Process{s.inRoom("echo changed >app/seeded; echo ready; sleep 1000"), s.inRoom("echo ready; sleep 1000")}
		for _, p := range list {
			s.awaitOutput(p, "ready")
		}
		if _, err := s.contexts.Restore(t.Context(), testContext, "before", nil); err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			s.wantReason(p, ContextClosed)
		}
		if _, out, _ := s.result(s.inRoom("cat app/seeded")); out != "hello\n" {
			t.Errorf("in the restored context: %q", out)
		}
	})
}
