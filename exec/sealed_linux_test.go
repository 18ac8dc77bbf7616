package exec

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/exec/entry"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// reach is a program of perl that tries each way from one process into another, and prints those that are not refused. An error such as ETXTBSY or EIO
// is no refusal. victim reads which processes they are.
var reach = fmt.Sprintf(`
	use Fcntl;
	sub tried { my ($what, $done) = @_; my $error = $! + 0; push @got, $what unless !$done and grep { $error == $_ } 1, 2, 3, 13 }
	sub attack {
		my $p = "/proc/$_[0]"; @got = ();
		for my $f (qw(exe mem maps smaps environ auxv), map { "fd/$_" } 0 .. 9) { for my $how (O_RDONLY, O_RDWR) { tried("open $f", sysopen(F, "$p/$f", $how)) } }
		for my $d (qw(cwd root fd fdinfo map_files)) { tried("list $d", opendir(D, "$p/$d")); tried("enter $d", chdir("$p/$d")) }
		for my $l (qw(exe cwd root)) { tried("read link $l", defined readlink("$p/$l")) }
		tried("truncate exe", truncate("$p/exe", 0)); tried("chmod exe", chmod(0, "$p/exe"));
		tried("ptrace", syscall(%d, 0x4206, $_[0] + 0, 0, 0) == 0); # PTRACE_SEIZE
		@got
	}
`, unix.SYS_PTRACE)

// TestSealedProgramIsOutOfReach runs a program that does not make itself undumpable. Nothing but the mode of its file keeps a process of the same user
// from it.
func TestSealedProgramIsOutOfReach(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"perl", "sleep"} {
		if _, err := osexec.LookPath(program); err != nil {
			t.Skip("the attempts need ", program)
		}
	}
	if namespacestest.Inside() {
		t.Skip("the user has capabilities")
	}
	sleep, err := osexec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	var user syscall.SysProcAttr
	owner := os.Getuid()
	if u := testUser(); u != nil {
		owner, user.Credential = u.UID, &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
	}
	for name, c := range map[string]struct {
		owner, mode int
		reached     bool
	}{
		"owned by the server": {os.Getuid(), execOnly, false},
		"owned by its user":   {owner, execOnly, false},
		"readable":            {os.Getuid(), 0o555, true},
		"readable by its own": {owner, 0o511, true},
	} {
		program, err := sealed(sleep)
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		path := fmt.Sprintf("/proc/self/fd/%d", program.Fd())
		checkSealed(t, path)
		if err := errors.Join(os.Chown(path, c.owner, -1), unix.Chmod(path, uint32(c.mode))); err != nil {
			t.Fatal(err)
		}
		victim := osexec.CommandContext(t.Context(), "/proc/self/fd/3", "1000")
		victim.ExtraFiles, victim.SysProcAttr, victim.Dir = []*os.File{program}, &user, "/"
		if err := victim.Start(); err != nil { // it returns after execve(2)
			t.Fatal(err)
		}
		attacker := osexec.CommandContext(t.Context(), "perl", "-e", reach+`print "$_\n" for attack($ARGV[0])`, strconv.Itoa(victim.Process.Pid))
		attacker.SysProcAttr, attacker.Dir = &user, "/"
		out, err := attacker.CombinedOutput()
		_ = victim.Process.Kill()
		_ = victim.Wait()
		if err != nil || (len(out) > 0) != c.reached {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// checkSealed tries to change a sealed program, as its owner or as root.
func checkSealed(t *testing.T, path string) {
	t.Helper()
	for _, flags := range []int{os.O_WRONLY, os.O_RDWR} {
		if f, err := os.OpenFile(path, flags, 0); err == nil {
			if _, err := f.WriteAt([]byte{0}, 0); !errors.Is(err, unix.EPERM) {
				t.Errorf("it can be written: %v", err)
			}
			if err := f.Truncate(0); !errors.Is(err, unix.EPERM) {
				t.Errorf("it can be truncated: %v", err)
			}
			_ = f.Close()
		}
	}
	if fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC|unix.MFD_EXEC); err == nil { // Linux 6.3
		_ = unix.Close(fd)
		for _, mode := range []uint32{0, 0o644} {
			if err := unix.Chmod(path, mode); !errors.Is(err, unix.EPERM) {
				t.Errorf("its mode can be %o: %v", mode, err)
			}
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&0o7777 != execOnly {
		t.Errorf("its mode is %o, %v", st.Mode, err)
	}
}

// TestSharedSandboxIsOutOfReach attacks init and the spares of a shared sandbox while 100 commands start in it, which takes seconds.
func TestSharedSandboxIsOutOfReach(t *testing.T) {
	t.Parallel()
	keepsCommandsOut(t, newSite(t, "copy"))
}

// TestUserNSSharedSandboxIsOutOfReach does the same with a server that an ordinary user runs.
func TestUserNSSharedSandboxIsOutOfReach(t *testing.T) {
	if !namespacestest.Inside() {
		t.Skip("run by TestInNamespaces")
	}
	keepsCommandsOut(t, newSite(t, "overlay-userns"))
}

func keepsCommandsOut(t *testing.T, s *site) {
	t.Helper()
	for _, landlock := range []bool{true, false} {
		if landlock && entry.Version() == 0 {
			continue
		}
		s.sandbox.unrestricted = !landlock
		name := fmt.Sprintf("landlock-%t", landlock)
		run := func(script ...string) *Process { return s.begin(Command{Sandbox: name, Argv: script}) }
		// A spare that became a command meanwhile is in reach. Process 1 is bwrap: see TestEscapesAreRefused.
		attacker := run("perl", "-e", reach+`
			sub ours { open(C, "/proc/$_[0]/cmdline") or return 0; my $c = <C>; $_[0] > 1 && $c =~ /\0init\0(await|serve)\0/ }
			$| = 1; print "begun\n"; $SIG{TERM} = sub { $ended = 1 };
			until ($ended) {
				opendir(P, "/proc"); my @all = grep { /^\d+$/ && $_ != $$ } readdir(P);
				for (@all) {
					next unless ours($_); my @reached = attack($_);
					next unless ours($_);
					$seen{$_} = 1; print "process $_: @reached\n" if @reached;
				}
			}
			print "attacked ", scalar(keys %seen), "\n"`)
		s.awaitOutput(attacker, "begun")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 25 {
					p, err := s.Start(t.Context(), Command{Context: testContext, Sandbox: name, Argv: []string{"sleep", "0.02"}}) // as long as init waits before it makes a spare
					if err == nil {
						err = p.Wait(t.Context())
					}
					if err != nil || p.Ended().Code != 0 {
						t.Errorf("%v, %+v", err, p.Ended())
					}
				}
			})
		}
		wg.Wait()
		for _, pid := range programsOf(t, attacker.box.initPID) {
			exe := fmt.Sprintf("/proc/%d/exe", pid)
			if target, err := os.Readlink(exe); err != nil || !strings.HasPrefix(target, "/memfd:ctxfs") {
				t.Errorf("process %d executes %s, %v", pid, target, err)
				continue
			}
			checkSealed(t, exe)
			fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
			if err != nil {
				t.Fatal(err)
			}
			for _, fd := range fds {
				target, err := os.Readlink(fd)
				if standard := strings.Contains("012", filepath.Base(fd)); !standard && target != os.DevNull && strings.HasPrefix(target, "/") {
					t.Errorf("process %d has the file %s, %v", pid, target, err)
				}
			}
		}
		if err := attacker.Signal(15); err != nil {
			t.Fatal(err)
		}
		exit, out, stderr := s.result(attacker)
		out = strings.TrimPrefix(out, "begun\n")
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(out, "attacked "), "\n"))
		if exit.Code != 0 || err != nil || n < 10 {
			t.Errorf("Landlock %t: got %+v, %.2000s, %s", landlock, exit, out, stderr)
		}
	}
}

// programsOf lists the processes below a process 1 that are of this program: init and the spare.
func programsOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(children)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			if cmdline, err := os.ReadFile("/proc/" + field + "/cmdline"); err == nil && strings.Contains(string(cmdline), "\x00init\x00") {
				pids = append(append(pids, child), programsOf(t, child)...)
			}
		}
	}
	return pids
}

// TestCommandBeginsOnceProcess1HasClosedItsFiles has process 1 keep a file. It takes as long as the first step of a command waits.
func TestCommandBeginsOnceProcess1HasClosedItsFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	if err := s.sandbox.probe(t.Context(), s.starter); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		options []string
		want    string
	}{
		{[]string{"--sync-fd", "FD"}, "ctxfs: process 1 keeps file "},
		{[]string{"--ro-bind-data", "FD", "/file"}, "begun\n"},
	} {
		fd, err := unix.Open("/usr/share", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := assemble(os.NewFile(uintptr(fd), "/usr/share"), home, nil, s.user(t), tmpBytes, func(b *bundle) error {
			file, err := b.data(nil)
			c.options[1] = file
			b.add(c.options...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		argv, err := b.enter(entry.Step{}, "echo", "begun")
		if err != nil {
			t.Fatal(err)
		}
		cmd, err := b.command(*s.sandbox.bwrap.Load(), s.user(t), argv)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := s.starter.start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); (err == nil) != (c.want == "begun\n") || !strings.HasPrefix(out.String(), c.want) {
			t.Errorf("%q: %v, %s", c.options, err, out.String())
		}
	}
}
