package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// typist types into the terminal of a process and reads what it shows.
type typist struct {
	t testing.TB
	p *Process
	// at is the offset of the output that was not expected yet.
	at int64
}

// terminal starts a command in a terminal.
func (s *site) terminal(argv ...string) *typist {
	s.t.Helper()
	return &typist{s.t, s.begin(Command{Argv: argv, Pty: &Pty{Cols: 100, Rows: 30}, Env: map[string]string{"PS1": "ready> ", "HISTFILE": ""}}), 0}
}

// expect waits until the terminal shows a text, and returns everything up to it since the last expect.
func (y *typist) expect(text string) string {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), time.Minute)
	defer cancel()
	var seen strings.Builder
	found := errors.New("found")
	err := y.p.Output(ctx, [2]int64{y.at, 0}, Watching, func(o Output) error {
		seen.Write(o.Data)
		if o.Stream != Terminal {
			return fmt.Errorf("output of stream %d", o.Stream)
		}
		if strings.Contains(seen.String(), text) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		y.t.Fatalf("waiting for %q: %v; the terminal shows %q", text, err, seen.String())
	}
	n := strings.Index(seen.String(), text) + len(text)
	y.at += int64(n)
	return seen.String()[:n]
}

func (y *typist) enter(keys string) {
	y.t.Helper()
	if err := y.p.Write(y.t.Context(), []byte(keys)); err != nil {
		y.t.Fatal(err)
	}
}

func (y *typist) end(code int) {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), time.Minute)
	defer cancel()
	if err := y.p.Wait(ctx); err != nil {
		y.t.Fatal(err)
	}
	if exit := y.p.Ended(); exit.Code != code || exit.Reason != Exited {
		y.t.Errorf("the command ended with %+v, want code %d", exit, code)
	}
}

// TestJobControlInTerminal uses a shell as a person does: Ctrl-C, Ctrl-Z, fg, a new size, Ctrl-D.
func TestJobControlInTerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for name, argv := range map[string][]string{"bash": {"bash", "--norc", "--noediting"}, "sh": {"sh", "-i"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := s.in(t).terminal(argv...)
			if first := y.expect("ready> "); strings.Contains(first, "job control") {
				t.Errorf("the shell complains: %q", first)
			}
			y.enter("stty size; tty -s && echo on a $TERM\n")
			y.expect("30 100\r\n")
			y.expect("on a xterm-256color\r\n")
			y.expect("ready> ")
			if err := y.p.Resize(120, 40); err != nil {
				t.Fatal(err)
			}
			y.enter("stty size\n")
			y.expect("40 120\r\n")
			y.expect("ready> ")
			y.enter("cat\n")
			y.enter("alpha\n")
			y.expect("alpha\r\nalpha\r\n") // the terminal's echo, and what cat writes
			y.enter("\x1a")
			y.expect("ready> ")
			y.enter("jobs\n")
			y.expect("Stopped")
			y.expect("ready> ")
			y.enter("fg\n")
			y.expect("cat\r\n")
			y.enter("beta\n")
			y.expect("beta\r\nbeta\r\n")
			y.enter("\x03")
			y.expect("ready> ")
			y.enter("echo code $?\n")
			y.expect("code 130\r\n")
			y.expect("ready> ")
			if err := y.p.CloseInput(t.Context()); err != nil {
				t.Fatal(err)
			}
			y.end(0)
		})
	}
}

// TestTerminalInSharedSandbox uses a shell beside another command of its sandbox.
func TestTerminalInSharedSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	other := s.begin(Command{Sandbox: "dev", Argv: []string{"sh", "-c", "echo shared > /tmp/f; echo ready; exec sleep 1000"}})
	s.awaitOutput(other, "ready")
	y := &typist{t, s.begin(Command{
		Sandbox: "dev", Argv: []string{"bash", "--norc", "--noediting"}, Pty: &Pty{Cols: 100, Rows: 30}, Env: map[string]string{"PS1": "ready> ", "HISTFILE": ""},
	}), 0}
	if first := y.expect("ready> "); strings.Contains(first, "job control") {
		t.Errorf("the shell complains: %q", first)
	}
	y.enter("cat /tmp/f; stty size; echo on $TERM; sh -c 'echo again > /dev/stderr'; ps -o pid= -C sleep | wc -l\n")
	y.expect("shared\r\n30 100\r\non xterm-256color\r\nagain\r\n1\r\n")
	y.expect("ready> ")
	if err := y.p.Resize(120, 40); err != nil {
		t.Fatal(err)
	}
	y.enter("stty size\n")
	y.expect("40 120\r\n")
	y.expect("ready> ")
	y.enter("cat\nalpha\n")
	y.expect("alpha\r\nalpha\r\n") // the terminal's echo, and what cat writes
	y.enter("\x1a")
	y.expect("ready> ")
	y.enter("fg\n")
	y.expect("cat\r\n")
	y.enter("beta\n")
	y.expect("beta\r\nbeta\r\n")
	if err := y.p.Signal(int(unix.SIGINT)); err != nil {
		t.Fatal(err)
	}
	y.expect("ready> ")
	y.enter("echo code $?\n")
	y.expect("code 130\r\n")
	if exit := s.killGently(y.p); exit.Reason != Killed {
		t.Errorf("the shell ended with %+v", exit)
	}
	if other.Ended() != nil {
		t.Error("the other command ended too")
	}
	again := &typist{t, s.begin(Command{Sandbox: "dev", Argv: []string{"sh", "-c", "read line; echo got $line; read line"}, Pty: &Pty{}}), 0}
	again.enter("text\n")
	again.expect("got text")
	if err := again.p.CloseInput(t.Context()); err != nil {
		t.Fatal(err)
	}
	again.end(1)
}

// TestControlCEndsCommandAndNotSandbox types Ctrl-C into a command that is no shell.
func TestControlCEndsCommandAndNotSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	y := s.terminal("sh", "-c", "trap 'echo got; exit 7' INT; echo begun; while :; do sleep 0.05; done")
	y.expect("begun")
	y.enter("\x03")
	y.expect("got")
	y.end(7)
	y = s.terminal("sh", "-c", "echo begun; exec sleep 1000")
	y.expect("begun")
	y.enter("\x03")
	y.end(130)
}

// TestSignalsInTerminal sends signals of each kind.
func TestSignalsInTerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	y := s.terminal("bash", "--norc", "--noediting")
	y.expect("ready> ")
	y.enter("sh -c 'echo started; exec sleep 1000'\n")
	y.expect("started\r\n")
	if err := y.p.Signal(int(unix.SIGINT)); err != nil {
		t.Fatal(err)
	}
	y.expect("ready> ")
	y.enter("trap 'echo got it' USR1; echo $((40+2))\n")
	y.expect("42\r\n")
	if err := y.p.Signal(int(unix.SIGUSR1)); err != nil {
		t.Fatal(err)
	}
	y.enter("\n")
	y.expect("got it")
	if exit := s.killGently(y.p); exit.Reason != Killed {
		t.Errorf("an interactive shell ended with %+v", exit)
	}
	if err := y.p.Resize(10, 10); fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("resize after the end: %v", err)
	}
	if err := y.p.Write(t.Context(), []byte("x")); fserr.CodeOf(err) != fserr.EBADF {
		t.Errorf("write after the end: %v", err)
	}
}

// TestFullScreenProgramsInTerminal pages and edits a file.
func TestFullScreenProgramsInTerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for name, use := range map[string]func(y *typist){
		"less": func(y *typist) {
			y.expect("line 29")
			y.enter("G")
			y.expect("line 500")
			if err := y.p.Resize(100, 50); err != nil {
				y.t.Fatal(err)
			}
			y.enter("g")
			y.expect("line 49") // 30 rows would end at 29
			y.enter("q")
			y.end(0)
		},
		"vim": func(y *typist) {
			y.expect("line 28")
			y.enter("Ochanged\x1b:wq\r")
			y.end(0)
			if _, out, _ := s.result(s.start("head -n 1 lines-vim")); out != "changed\n" {
				y.t.Errorf("the first line is %q", out)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := osexec.LookPath(name); err != nil {
				t.Skip(name, "is not installed")
			}
			s.result(s.start("seq -f 'line %g' 500 > lines-" + name))
			use(s.in(t).terminal(name, "lines-"+name))
		})
	}
}

// TestTerminalRefusesPushedInput tries to type into a real terminal from inside it.
func TestTerminalRefusesPushedInput(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	if _, err := osexec.LookPath("perl"); err != nil {
		t.Skip("the attempts need perl")
	}
	for _, request := range []uint64{unix.TIOCSTI, 1<<32 | unix.TIOCSTI, unix.TIOCLINUX, 7<<40 | unix.TIOCLINUX} {
		y := s.terminal("perl", "-e", fmt.Sprintf(`$x = "\x02a"; $r = syscall(%d, 0, %d, $x); print "errno ", $! + 0, " result $r\n"`, unix.SYS_IOCTL, request))
		y.expect(fmt.Sprintf("errno %d result -1", unix.EPERM))
		y.end(0)
	}
}

// TestTerminalIsTheCommandsOwn checks what a command in a terminal sees of terminals, and that nothing of it is left.
func TestTerminalIsTheCommandsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	one, two := s.terminal("sh", "-c", "read line; echo one $line"), s.terminal("sh", "-c", "ls /dev/pts; echo typed > /dev/tty; sh -c 'echo again > /dev/stderr'; stat -c 'owner %U' /dev/stdin; for f in /dev/pts/*; do test $f = /dev/pts/ptmx || echo found $f; done; echo done")
	shown := two.expect("done")
	if !strings.Contains(shown, "typed") || !strings.Contains(shown, "again\r\n") || !strings.Contains(shown, "owner agent") || strings.Contains(shown, "found") {
		t.Errorf("the command shows %q", shown)
	}
	two.end(0)
	one.enter("hello\n")
	one.expect("one hello")
	one.end(0)
}

func TestTerminalRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	for name, c := range map[string]Command{
		"too wide":  {Pty: &Pty{Cols: 65536}},
		"negative":  {Pty: &Pty{Rows: -1}},
		"and stdin": {Pty: &Pty{}, Stdin: []byte("x")},
	} {
		c.Context, c.Argv = testContext, []string{"true"}
		if _, err := s.Start(t.Context(), c); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("%s: %v", name, err)
		}
	}
	plain := s.start("sleep 1000")
	if err := plain.Resize(80, 24); fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), "no terminal") {
		t.Errorf("resize without a terminal: %v", err)
	}
	y := s.terminal("cat")
	for _, size := range [][2]int{{0, 24}, {80, 0}, {65536, 24}} {
		if err := y.p.Resize(size[0], size[1]); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("resize to %v: %v", size, err)
		}
	}
	for code, argv := range map[int][]string{127: {"no-such-program"}, 126: {"/context/app/seeded"}} {
		y := s.terminal(argv...)
		y.end(code)
	}
}

// TestWriteToTerminalThatNobodyReadsEndsWithContext fills the buffer of a terminal in raw mode.
func TestWriteToTerminalThatNobodyReadsEndsWithContext(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	y := s.terminal("sh", "-c", "stty raw -echo; echo begun; sleep 1000")
	y.expect("begun")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // clock: the write must block until this ends it
	defer cancel()
	if err := y.p.Write(ctx, make([]byte, 1<<20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := y.p.Resize(90, 20); err != nil {
		t.Error(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := y.p.Write(t.Context(), make([]byte, 1<<20)); fserr.CodeOf(err) != fserr.EBADF {
			t.Errorf("a blocked write after the kill: %v", err)
		}
	})
	if err := y.p.Kill(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

// TestAClosedTerminalTakesNoSize: a command's terminal is closed a moment before its exit is known.
func TestAClosedTerminalTakesNoSize(t *testing.T) {
	t.Parallel()
	theirs, ours, err := openTerminal(Pty{Cols: 80, Rows: 24}, User{UID: os.Getuid(), GID: os.Getgid()})
	if err != nil {
		t.Skipf("no terminal here: %v", err)
	}
	if err := (console{ours}).resize(Pty{Cols: 90, Rows: 20}); err != nil {
		t.Errorf("while it is open: %v", err)
	}
	if err := errors.Join(theirs.Close(), ours.Close()); err != nil {
		t.Fatal(err)
	}
	if err := (console{ours}).resize(Pty{Cols: 80, Rows: 24}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after its end: %v, want os.ErrClosed", err)
	}
}
