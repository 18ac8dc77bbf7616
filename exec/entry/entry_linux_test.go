package entry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stepping is argv after a step, as this test program. It has files besides the standard ones.
func stepping(t *testing.T, s Step, files []*os.File, argv ...string) *osexec.Cmd {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "step")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // it was only read
	argv = Argv(os.Args[0], strconv.Itoa(3+len(files)), argv...)
	cmd := osexec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.ExtraFiles = append(files, f)
	return cmd
}

// become runs argv after a step, as this test program, and returns its output and exit code.
func become(t *testing.T, s Step, env []string, argv ...string) (string, int) {
	t.Helper()
	cmd := stepping(t, s, nil, argv...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	out, err := cmd.CombinedOutput()
	var exit *osexec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestLimitsAreThoseOfTheCommand(t *testing.T) {
	t.Parallel()
	s := Step{Nice: 3, Limits: []Limit{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_NOFILE, 40}, {unix.RLIMIT_FSIZE, 4096}}}
	out, code := become(t, s, nil, "bash", "-c", "ulimit -c; ulimit -Sn; ulimit -Hn; ulimit -f; nice; ls /proc/self/fd | wc -l")
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 minus the niceness, which the tests may run with themselves
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("0\n40\n40\n4\n%d\n4\n", min(20-raw+3, 19)); code != 0 || out != want { // the last: three and that of the directory
		t.Errorf("got %q, code %d; want %q", out, code, want)
	}
}

// TestCommandBeginsWithAByte gives a step a pipe with a byte, and one that ends without.
func TestCommandBeginsWithAByte(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"x": "begun\n", "": "ctxfs: wait for the beginning: EOF\n"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		_, err = w.WriteString(text)
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		cmd := stepping(t, Step{Begin: 3}, []*os.File{r}, "/bin/echo", "begun")
		out, err := cmd.CombinedOutput()
		if string(out) != want || (err == nil) != (text != "") {
			t.Errorf("after %q: %q, %v; want %q", text, out, err, want)
		}
	}
}

// spare starts a spare, whose output is in out when it has ended, and returns the socket for its order.
func spare(t *testing.T, out *bytes.Buffer) (cmd *osexec.Cmd, socket int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	defer theirs.Close()
	argv := SpareArgv(os.Args[0], "3")
	cmd = osexec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = []string{}, out, out, []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, fds[0]
}

// order gives a spare an order, whose standard files are in, out and err of the directory that it returns.
func order(t *testing.T, socket int, o Order) (dir string) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	fds := []int{int(at.Fd())}
	for _, file := range []struct{ name, content string }{
		{"in", "typed\n"}, {"out", ""}, {"err", ""}, {"environment", "ONE=1\x00PATH=/usr/bin:/bin\x00TWO=2\x00"}, {"order", string(text)},
	} {
		name := filepath.Join(dir, file.name)
		if err := os.WriteFile(name, []byte(file.content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fds = append(fds, int(f.Fd()))
	}
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSpareBecomesACommand(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd, socket := spare(t, &out)
	dir := order(t, socket, OrderOf(
		Step{Limits: []Limit{{unix.RLIMIT_NOFILE, 40}}},
		"bash", "-c", "pwd; cat; echo $ONE-$TWO; ulimit -n; cat /proc/self/status | grep -c State; ls /proc/self/fd | wc -l >&2; exit 7",
	))
	err := cmd.Wait()
	got, failed := os.ReadFile(filepath.Join(dir, "out"))
	if want := dir + "\ntyped\n1-2\n40\n1\n"; cmd.ProcessState.ExitCode() != 7 || string(got) != want || failed != nil || out.Len() > 0 {
		t.Errorf("got %q, %v, %v and %q; want %q", got, err, failed, out.String(), want)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "err")); err != nil || string(got) != "4\n" { // three and that of the directory
		t.Errorf("%q files are open, %v", got, err)
	}
	if err := unix.Close(socket); err != nil {
		t.Error(err)
	}
}

// TestSpareConfirmsBeforeTheCommandRuns counts the confirmations of spares that become a command, that cannot, and whose starter is gone.
func TestSpareConfirmsBeforeTheCommandRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step Step
		argv []string
		gone bool
		code int
		// confirmed is how many packets arrive: a spare may confirm twice. ran is how many times the command ran.
		confirmed, ran int
	}{
		"it runs":                    {argv: []string{"sh", "-c", "echo ran"}, confirmed: 1, ran: 1},
		"it is killed at once":       {argv: []string{"sh", "-c", "echo ran; kill -9 $$"}, code: -1, confirmed: 1, ran: 1},
		"there is no such program":   {argv: []string{"no-such-program"}, code: exitNotFound, confirmed: 1},
		"its interpreter is missing": {argv: []string{"./bad"}, code: exitNotFound, confirmed: 2},
		"the step fails":             {step: Step{Limits: []Limit{{-1, 0}}}, argv: []string{"true"}, code: exitFailed, confirmed: 1},
		"the starter is gone":        {argv: []string{"sh", "-c", "echo ran"}, gone: true, code: exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			cmd, socket := spare(t, &out)
			if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			dir := order(t, socket, OrderOf(c.step, c.argv...))
			if err := os.WriteFile(filepath.Join(dir, "bad"), []byte("#!/no/such/shell\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.gone {
				if err := unix.Close(socket); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the code is checked
			confirmed := 0
			for b := make([]byte, 1); !c.gone; confirmed++ {
				if n, err := unix.Read(socket, b); n <= 0 {
					if err != nil {
						t.Error(err)
					}
					break
				}
			}
			got, err := os.ReadFile(filepath.Join(dir, "out"))
			if ran := strings.Count(string(got), "ran"); cmd.ProcessState.ExitCode() != c.code || confirmed != c.confirmed || ran != c.ran || err != nil {
				t.Errorf("code %d, %d confirmations, ran %d times, %v, %q", cmd.ProcessState.ExitCode(), confirmed, ran, err, out.String())
			}
		})
	}
}

func TestSpareEndsWithItsStarter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd, socket := spare(t, &out)
	if err := unix.Close(socket); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestExitCodesSayWhyACommandDidNotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"plain": "text", "no-shell": "echo by $1", "bad": "#!/no/such/shell\n"} {
		mode := os.FileMode(0o755)
		if name == "plain" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		argv []string
		code int
		out  string
	}{
		{[]string{"no-such-program"}, exitNotFound, "ctxfs: no-such-program: no such program in PATH"},
		{[]string{dir + "/nothing"}, exitNotFound, "no such file"},
		{[]string{dir + "/bad"}, exitNotFound, "its interpreter"},
		{[]string{dir + "/plain"}, exitNotExecutable, "/plain: permission denied"},
		{[]string{dir}, exitNotExecutable, "directory"},
		{[]string{dir + "/no-shell", "hand"}, 0, "by hand"},
		{[]string{"sh", "-c", "exit 7"}, 7, ""},
	} {
		if out, code := become(t, Step{}, nil, c.argv...); code != c.code || !strings.Contains(out, c.out) {
			t.Errorf("%q: code %d, %q; want %d, %q", c.argv, code, out, c.code, c.out)
		}
	}
	if out, code := become(t, Step{Limits: []Limit{{-1, 0}}}, nil, "true"); code != exitFailed || !strings.Contains(out, "limit -1") {
		t.Errorf("an unknown limit: code %d, %q", code, out)
	}
}

// TestCommandKeepsOneFile has a step keep one of three files, with Landlock and without.
func TestCommandKeepsOneFile(t *testing.T) {
	t.Parallel()
	for _, paths := range [][]Path{nil, {{"/", All}}} {
		var files []*os.File
		for range 3 {
			f, err := os.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			files = append(files, f)
		}
		const script = "for n in 3 4 5 6; do [ -e /proc/self/fd/$n ] && echo $n; done; true"
		cmd := stepping(t, Step{Keep: 4, Terminals: 5, Paths: paths}, files, "bash", "-c", script)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "4\n" {
			t.Errorf("%v: got %q, %v", paths, out, err)
		}
	}
}

// TestStepWaitsForProcessThatKeepsFiles waits for a process that has a file, one that closes it, and one that has an eventfd alone.
func TestStepWaitsForProcessThatKeepsFiles(t *testing.T) {
	t.Parallel()
	if err := unix.CloseRange(3, 1<<30, unix.CLOSE_RANGE_CLOEXEC); err != nil { // what started the test may have left it a file
		t.Fatal(err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	eventFile := os.NewFile(uintptr(event), "eventfd")
	t.Cleanup(func() { _ = eventFile.Close() })
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	for name, c := range map[string]struct {
		files    []*os.File
		script   string
		patience time.Duration
		want     string
	}{
		"it has none":       {nil, "exec sleep 1000", time.Minute, ""},
		"it has an eventfd": {[]*os.File{eventFile}, "exec sleep 1000", time.Minute, ""},
		"it keeps a file":   {[]*os.File{eventFile, dir}, "exec sleep 1000", 50 * time.Millisecond, "keeps file 4, " + dir.Name()},
		"it closes a file":  {[]*os.File{dir}, "sleep 0.1; exec 3<&-; exec sleep 1000", time.Minute, ""},
		"it has ended":      {[]*os.File{dir}, "exit 0", time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := osexec.CommandContext(t.Context(), "sh", "-c", c.script)
			cmd.ExtraFiles = c.files
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			err := awaitClosed(cmd.Process.Pid, c.patience)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestPathsAreAllThatACommandReaches tries each access inside of the paths and outside.
func TestPathsAreAllThatACommandReaches(t *testing.T) {
	t.Parallel()
	if Version() == 0 {
		t.Skip("the kernel has no Landlock that can be used")
	}
	inside, outside := t.TempDir(), t.TempDir()
	for _, dir := range []string{inside, outside} {
		if err := errors.Join(os.Mkdir(dir+"/one", 0o755), os.Mkdir(dir+"/two", 0o755), os.WriteFile(dir+"/one/f", []byte("content"), 0o600), os.WriteFile(dir+"/one/h", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	paths := []Path{{inside, All}, {"/usr", Execute}, {"/bin", Execute}, {"/lib", Execute}, {"/lib64", Execute}, {"/etc/ld.so.cache", Read}, {"/dev", Use}, {"/", List}, {"/no/such/path", Read}}
	for _, c := range []struct {
		name, script string
		code         int
	}{
		{"reads", "cat one/f", 1},
		{"writes", "echo x > one/g", 2},
		{"creates a directory", "mkdir one/d", 1},
		{"renames into another directory", "mv one/f two/f", 1},
		{"removes", "rm one/h", 1},
		{"executes", "cp /usr/bin/true t && ./t", 1},
	} {
		if out, code := become(t, Step{Paths: paths}, nil, "sh", "-c", "cd "+inside+"; "+c.script); code != 0 {
			t.Errorf("%s inside: code %d, %s", c.name, code, out)
		}
		if out, code := become(t, Step{Paths: paths}, nil, "sh", "-c", "cd "+outside+"; "+c.script); code != c.code || !strings.Contains(out, "denied") {
			t.Errorf("%s outside: code %d, %s", c.name, code, out)
		}
	}
	if out, code := become(t, Step{Paths: paths}, nil, "ls", outside); code != 0 || !strings.Contains(out, "one") {
		t.Errorf("lists outside: code %d, %s", code, out)
	}
}

// TestCommandHasNoLandlock has a command make a ruleset: its rules would keep unlinked files.
func TestCommandHasNoLandlock(t *testing.T) {
	t.Parallel()
	if Version() == 0 {
		t.Skip("the kernel has no Landlock that can be used")
	}
	script := fmt.Sprintf("$n = syscall(%d, 0, 0, 1); print $n < 0 && $!{ENOSYS} ? 'none' : 'some'", unix.SYS_LANDLOCK_CREATE_RULESET)
	for _, c := range []struct {
		name string
		step Step
		want string
	}{
		{"a command", Step{}, "none"},
		{"a restricted command", Step{Paths: []Path{{"/", Execute}}}, "none"},
		{"a program that begins commands", Step{Keep: 2, Paths: []Path{{"/", Execute}}}, "some"},
	} {
		if out, code := become(t, c.step, nil, "perl", "-MErrno", "-e", script); code != 0 || out != c.want {
			t.Errorf("%s: it has %q, code %d", c.name, out, code)
		}
	}
}
