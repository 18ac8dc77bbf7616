package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// window is a terminal in which ctxfs runs.
type window struct {
	t           *testing.T
	master, tty *os.File
	cmd         *exec.Cmd
	before      *unix.Termios
	shown       chan []byte
	seen        string
}

// window starts ctxfs in a terminal of its own.
func (s *shell) window(args ...string) *window {
	s.t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		s.t.Skipf("no terminal here: %v", err)
	}
	w := &window{t: s.t, master: os.NewFile(uintptr(fd), "master"), shown: make(chan []byte, 1000)}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	if err == nil {
		w.tty, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	w.resize(100, 30)
	w.before = w.mode()
	w.cmd = exec.Command(os.Args[0], args...)
	w.cmd.Dir, w.cmd.Env = s.dir, append(os.Environ(), programEnv+"=1", "TERM=xterm")
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = w.tty, w.tty, w.tty
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := w.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(w.shown)
		for {
			buf := make([]byte, 4096)
			n, err := w.master.Read(buf)
			if n > 0 {
				w.shown <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	s.t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // it may have ended
		_ = w.cmd.Wait()
		_ = w.tty.Close()
		_ = w.master.Close()
		for range w.shown { // until the reader has ended
		}
	})
	return w
}

func (w *window) resize(cols, rows uint16) {
	w.t.Helper()
	if err := unix.IoctlSetWinsize(int(w.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows}); err != nil {
		w.t.Fatal(err)
	}
	if err := unix.SetNonblock(int(w.master.Fd()), true); err != nil { // Fd made it block
		w.t.Fatal(err)
	}
}

func (w *window) mode() *unix.Termios {
	w.t.Helper()
	mode, err := unix.IoctlGetTermios(int(w.tty.Fd()), unix.TCGETS)
	if err != nil {
		w.t.Fatal(err)
	}
	return mode
}

// restored reports whether the terminal has the mode that it had before ctxfs ran.
func (w *window) restored() bool { return *w.mode() == *w.before }

func (w *window) enter(keys string) {
	w.t.Helper()
	if _, err := io.Copy(w.master, strings.NewReader(keys)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *window) expect(text string) {
	w.t.Helper()
	late := time.After(clocktest.Patience)
	for {
		if _, rest, ok := strings.Cut(w.seen, text); ok {
			w.seen = rest
			return
		}
		select {
		case more := <-w.shown:
			w.seen += string(more)
		case <-late:
			w.t.Fatalf("waiting for %q: the terminal shows %q", text, w.seen)
		}
	}
}

// end waits until ctxfs has ended, and checks its exit code and that the terminal is as before.
func (w *window) end(code int) {
	w.t.Helper()
	_ = w.cmd.Wait() // the state has the code
	if got := w.cmd.ProcessState.ExitCode(); got != code {
		for len(w.shown) > 0 {
			w.seen += string(<-w.shown)
		}
		w.t.Errorf("exit %d, want %d: the terminal shows %q", got, code, w.seen)
	}
	if !w.restored() {
		w.t.Error("the terminal was not restored")
	}
}

// TestShellInTerminal uses a shell, changes the size of the window, leaves, and returns.
func TestShellInTerminal(t *testing.T) {
	s := execShell(t)
	w := s.window("shell", "panels/a", "--env", "PS1=ready> ", "--name", "work", "--", "sh")
	w.expect("ready> ")
	if w.restored() {
		t.Error("the terminal is not raw")
	}
	w.enter("stty size; echo $TERM\n")
	w.expect("30 100\r\nxterm\r\n")
	w.expect("ready> ")
	w.resize(90, 20)
	w.enter("while ! stty size | grep '20 90'; do :; done; kept=yes\n") // the signal may come later than the keys
	w.expect("\n20 90\r\n")
	w.expect("ready> ")
	w.enter("cat\n")
	w.enter("alpha\n")
	w.expect("alpha\r\nalpha\r\n")
	w.enter("\x03")
	w.expect("ready> ")
	w.enter("cat\n")
	w.enter("beta\n")
	w.expect("beta\r\nbeta\r\n")
	w.enter("\x1a")
	w.expect("Stopped")
	w.expect("ready> ")
	w.enter("fg\n")
	w.expect("cat\r\n")
	w.enter("gamma\n")
	w.expect("gamma\r\ngamma\r\n")
	w.enter("\x04")
	w.expect("ready> ")
	w.enter("\x1d")
	w.expect("'ctxfs attach p-")
	w.end(0)
	if got := s.ok("ps", "panels/a"); !strings.Contains(got, "work") {
		t.Fatalf("ps printed %s", got)
	}
	w = s.window("attach", "work")
	w.enter("echo $kept\n")
	w.expect("\nyes\r\n")
	w.enter("exit 7\n")
	w.end(7)
}

// TestTerminalIsRestoredBySignals stops, continues and ends ctxfs by signals.
func TestTerminalIsRestoredBySignals(t *testing.T) {
	s := execShell(t)
	w := s.window("exec", "-it", "panels/a", "--", "sh", "-c", "echo begun; exec cat")
	w.expect("begun")
	await := func(what string, is func() bool) {
		t.Helper()
		clocktest.Await(t, what, is)
	}
	signal := func(sig syscall.Signal) {
		t.Helper()
		if err := w.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGTSTP)
	stat := fmt.Sprintf("/proc/%d/stat", w.cmd.Process.Pid)
	await("it is stopped", func() bool {
		data, err := os.ReadFile(stat)
		return err == nil && bytes.Contains(data, []byte(") T "))
	})
	if !w.restored() {
		t.Error("the terminal is raw while ctxfs is stopped")
	}
	signal(syscall.SIGCONT)
	await("the terminal is raw again", func() bool { return !w.restored() })
	w.enter("again\n")
	w.expect("again\r\nagain\r\n")
	signal(syscall.SIGTERM)
	w.end(143)
	await("the command has ended with the connection", func() bool { return !strings.Contains(s.ok("ps", "panels/a"), "p-") })
}

// TestExecInTerminalExits checks the exit codes and what is printed after the terminal is restored.
func TestExecInTerminalExits(t *testing.T) {
	s := execShell(t)
	for code, args := range map[int][]string{
		3:   {"exec", "-it", "panels/a", "--", "sh", "-c", "exit 3"},
		127: {"exec", "-it", "panels/a", "--", "no-such-program"},
		124: {"exec", "-it", "panels/a", "--time-limit", "300ms", "--", "sleep", "100"},
		125: {"exec", "-it", "panels/a", "-w", "nope", "--", "true"},
	} {
		s.window(args...).end(code)
	}
}

// TestCommandsByName names commands, and gives wrong flags and names.
func TestCommandsByName(t *testing.T) {
	s := execShell(t)
	id := strings.TrimSpace(s.ok("exec", "-dt", "--name", "dev", "--label", "task=7", "panels/a", "--", "sh", "-c", "echo begun; exec sleep 1000"))
	for s.ok("logs", "dev") == "" && t.Context().Err() == nil { // the command has not begun
	}
	s.expect("begun\r\n", "logs", "dev")
	if got := s.ok("ps", "--json"); !strings.Contains(got, `"task": "7"`) && !strings.Contains(got, `"task":"7"`) {
		t.Errorf("ps --json printed %s", got)
	}
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"exec", "-t", "panels/a", "--", "true"}, 2, "--tty needs a terminal"},
		{[]string{"shell", "panels/a"}, 2, "--tty needs a terminal"},
		{[]string{"shell"}, 2, "shell CONTEXT"},
		{[]string{"exec", "-d", "--name", "dev", "panels/a", "--", "true"}, 125, `"dev"`},
		{[]string{"exec", "--name", "a b", "panels/a", "--", "true"}, 125, `bad name "a b"`},
		{[]string{"exec", "--label", "x", "panels/a", "--", "true"}, 2, "KEY=VALUE"},
		{[]string{"attach", "nope"}, 2, "'ctxfs ps -a'"},
		{[]string{"attach", "p-nope"}, 125, "'ctxfs ps -a'"},
		{[]string{"kill", "nope"}, 2, "'ctxfs ps -a'"},
	} {
		if code, _, stderr := s.run(c.args...); code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("ctxfs %s: exit %d, %q; want %d, %q", strings.Join(c.args, " "), code, stderr, c.code, c.stderr)
		}
	}
	s.ok("panel", "open", "panels/b")
	other := strings.TrimSpace(s.ok("exec", "-d", "--name", "dev", "panels/b", "--", "sleep", "1000"))
	if code, _, stderr := s.run("attach", "dev"); code != 2 || !strings.Contains(stderr, id) || !strings.Contains(stderr, other) {
		t.Errorf("a name in two contexts: exit %d, %q", code, stderr)
	}
	s.expect("", "kill", other)
	s.expect("", "kill", "dev")
	s.stdin = "from here\n"
	input := strings.TrimSpace(s.ok("exec", "-di", "--name", "in", "panels/a", "--", "cat"))
	s.expect("from here\n", "attach", "-i", input)
}
