package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/cgrouptest"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// station is a workspace in whose contexts commands run, and the processes that serve it one after the other.
type station struct {
	*testing.T
	ws, driver, user string
}

// atStations runs a test with each driver whose commands outlive the server.
func atStations(t *testing.T, test func(s *station)) {
	t.Parallel()
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(newStation(t, driver))
		})
	}
}

// newStation skips the test where commands, or the driver, do not work.
func newStation(t *testing.T, driver string) *station {
	t.Helper()
	s := &station{T: t, ws: servertest.Workspace(t), driver: driver}
	t.Cleanup(s.clear)
	if os.Geteuid() == 0 {
		s.user = "4321:4321"
		if err := os.Chmod(filepath.Dir(s.ws), 0o755); err != nil { // that user passes through it
			t.Fatal(err)
		}
	}
	cfg := server.DefaultConfig()
	cfg.ExecUser = s.user
	if err := server.ExecRefusal(t.Context(), cfg, s.ws); err != nil {
		t.Skip(err)
	}
	if driver == server.DriverOverlay {
		namespacestest.Mounting(t)
		if why := server.OverlayRefusal(t.Context(), t.TempDir()); why != "" {
			t.Skipf("no driver %s: %s", driver, why)
		}
	}
	return s
}

// clear ends what a test leaves that fails while no server runs: a runner, with its commands, and mounts.
func (s *station) clear() {
	for _, pid := range s.runners() {
		_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	s.must(err)
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, s.ws) {
			_ = unix.Unmount(at, unix.MNT_DETACH) // the next line may be below it
		}
	}
}

// served is a server that runs.
type served struct {
	*station
	cmd *exec.Cmd
	// ended receives how it ended, and is closed then.
	ended chan error
	exec  ctxfsv1.ExecServiceClient
	cc    *grpc.ClientConn
}

func (s *station) serve(env ...string) *served {
	s.Helper()
	r := &served{station: s, cmd: exec.CommandContext(context.Background(), os.Args[0],
		"serve", "--workspace", s.ws, "--disk-reserve", "0", "--driver", s.driver, "--exec-user", s.user, "--log-level", "warn")}
	r.cmd.Env, r.cmd.Stderr = append(append(os.Environ(), programEnv+"=1"), env...), os.Stderr
	var err error
	r.cc, err = grpc.NewClient("unix://"+filepath.Join(s.state(), "ctxfs.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	s.must(err)
	s.Cleanup(func() { s.must(r.cc.Close()) })
	s.must(r.cmd.Start())
	r.ended = make(chan error, 1)
	go func() {
		r.ended <- r.cmd.Wait()
		close(r.ended)
	}()
	s.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		for range r.ended {
		}
	})
	s.must(startedServer(s.ws, r.cmd, r.ended))
	r.exec = ctxfsv1.NewExecServiceClient(r.cc)
	return r
}

func (s *station) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *station) state() string { return filepath.Join(s.ws, ".contexts/.ctxfs") }

// end ends the server by a signal, and waits.
func (r *served) end(signal syscall.Signal) {
	r.Helper()
	r.must(r.cmd.Process.Signal(signal))
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.Fatalf("the server does not end by %v", signal)
	}
}

// seed makes a context.
func (r *served) seed(id string) {
	r.Helper()
	stream, err := ctxfsv1.NewContextServiceClient(r.cc).EnsureContext(r.Context(), &ctxfsv1.EnsureContextRequest{ContextId: id})
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		r.Fatal(err)
	}
}

// begin starts a shell with an open input in a context.
func (r *served) begin(id, script string) string {
	r.Helper()
	started, err := r.exec.Start(r.Context(), &ctxfsv1.StartRequest{Command: &ctxfsv1.Command{ContextId: id, Argv: []string{"sh", "-c", script}, OpenStdin: true}})
	r.must(err)
	return started.GetProcess().GetProcessId()
}

func (r *served) input(process, text string) {
	r.Helper()
	_, err := r.exec.SendInput(r.Context(), &ctxfsv1.SendInputRequest{ProcessId: process, Data: []byte(text)})
	r.must(err)
}

// output follows a process until its end.
func (r *served) output(process string) (string, *ctxfsv1.Exit) {
	r.Helper()
	stream, err := r.exec.FollowOutput(r.Context(), &ctxfsv1.FollowOutputRequest{ProcessId: process, Follow: true})
	r.must(err)
	var text strings.Builder
	for {
		m, err := stream.Recv()
		r.must(err)
		text.Write(m.GetOutput().GetData())
		if p := m.GetExited(); p != nil {
			return text.String(), p.GetExit()
		}
	}
}

// attached is output by Attach: from the first byte on, also of what was written before the caller came, with an input in the same call.
func (r *served) attached(process, input string) (string, *ctxfsv1.Exit) {
	r.Helper()
	stream, err := r.exec.Attach(r.Context())
	r.must(err)
	r.must(stream.Send(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Open{Open: &ctxfsv1.AttachOpen{ProcessId: process}}}))
	r.must(stream.Send(&ctxfsv1.AttachRequest{Action: &ctxfsv1.AttachRequest_Stdin{Stdin: []byte(input)}}))
	var text strings.Builder
	for {
		m, err := stream.Recv()
		r.must(err)
		if o := m.GetOutput(); o != nil {
			if o.GetOffset() != int64(text.Len()) {
				r.Errorf("output at %d after %d bytes", o.GetOffset(), text.Len())
			}
			text.Write(o.GetData())
		}
		if p := m.GetExited(); p != nil {
			r.must(stream.CloseSend())
			return text.String(), p.GetExit()
		}
	}
}

func (r *served) wantReason(process string, want ctxfsv1.ExitReason) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	ended, err := r.exec.Wait(ctx, &ctxfsv1.WaitRequest{ProcessId: process})
	if got := ended.GetProcess().GetExit().GetReason(); err != nil || got != want {
		r.Errorf("process %s ended with %v, %v, want %v", process, got, err, want)
	}
}

func (r *served) read(id, path string) string {
	r.Helper()
	got, err := ctxfsv1.NewFsServiceClient(r.cc).ReadFile(r.Context(), &ctxfsv1.ReadFileRequest{ContextId: id, Path: path})
	r.must(err)
	return string(got.GetData())
}

// await waits for what another process does.
func (s *station) await(what string, ok func() bool) {
	s.Helper()
	awaitTrue(s.T, what, ok)
}

func (s *station) exists(name string) bool {
	_, err := os.Stat(filepath.Join(s.ws, ".contexts", name))
	return err == nil
}

// runners returns the PIDs of the runners that run, by their log.
func (s *station) runners() []int {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.state(), "exec/runner.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s.must(err)
	var pids []int
	for line := range strings.Lines(string(data)) {
		var entry struct{ PID int }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.PID == 0 {
			continue
		}
		if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", entry.PID)); err == nil && string(cmdline) == "ctxfs\x00runner\x00" {
			pids = append(pids, entry.PID)
		}
	}
	return pids
}

// killRunner kills the runner, and waits until it has ended.
func (s *station) killRunner() {
	s.Helper()
	pids := s.runners()
	if len(pids) != 1 {
		s.Fatalf("runners: %v, want one", pids)
	}
	fd, err := unix.PidfdOpen(pids[0], 0)
	s.must(err)
	defer func() { _ = unix.Close(fd) }()
	s.must(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
	s.await("the runner ends", func() bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n == 1
	})
}

// running lists the processes of this machine that have a word in their environment or their command line. What a command starts inherits its
// environment.
func (s *station) running(word string) (pids []string) {
	s.Helper()
	for _, file := range []string{"environ", "cmdline"} {
		names, err := filepath.Glob("/proc/[0-9]*/" + file)
		s.must(err)
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), word) {
				pids = append(pids, name)
			}
		}
	}
	return pids
}

// mark returns a word that no other test uses, for environments and command lines.
func (s *station) mark() string {
	return fmt.Sprintf("mark-%s-%d-%d", strings.ReplaceAll(s.Name(), "/", "-"), os.Getpid(), time.Now().UnixNano())
}

// commandsAtOnce is how many commands run while their server is killed.
const commandsAtOnce = 20

// TestCommandsOutliveAKilledServer kills a server while commands of two contexts run. They continue while no server runs, and the next server has
// all that they write.
func TestCommandsOutliveAKilledServer(t *testing.T) {
	atStations(t, func(s *station) {
		before := s.serve()
		before.seed("ctx_a")
		before.seed("ctx_b")
		var processes []string
		for n := range commandsAtOnce {
			processes = append(processes, before.begin("ctx_a", fmt.Sprintf("seq 1000; until test -e go; do sleep 0.02; done; echo x >went-%d; read line; echo $line; exit 3", n)))
		}
		held := before.begin("ctx_b", "trap '' TERM; echo up; read line")
		before.end(syscall.SIGKILL)
		s.must(os.WriteFile(filepath.Join(s.ws, ".contexts/ctx_a/go"), nil, 0o644))
		for n := range processes {
			s.await("a command continues without a server", func() bool { return s.exists(fmt.Sprintf("ctx_a/went-%d", n)) })
		}

		after := s.serve()
		list, err := after.exec.ListProcesses(s.Context(), &ctxfsv1.ListProcessesRequest{Running: true})
		if err != nil || len(list.GetProcesses()) != commandsAtOnce+1 {
			s.Fatalf("%d processes run, %v", len(list.GetProcesses()), err)
		}
		// It pauses them too.
		if _, err := ctxfsv1.NewContextServiceClient(after.cc).Snapshot(s.Context(), &ctxfsv1.SnapshotRequest{ContextId: "ctx_a", Name: "beside"}); err != nil {
			s.Error(err)
		}
		var want strings.Builder
		for n := range 1000 {
			fmt.Fprintln(&want, n+1)
		}
		for n, p := range processes {
			var text string
			var exit *ctxfsv1.Exit
			if line := fmt.Sprintf("line %d\n", n); n%2 == 0 {
				text, exit = after.attached(p, line)
			} else {
				after.input(p, line)
				text, exit = after.output(p)
			}
			if text != want.String()+fmt.Sprintf("line %d\n", n) || exit.GetCode() != 3 || exit.GetReason() != ctxfsv1.ExitReason_EXIT_REASON_EXITED {
				s.Errorf("command %d wrote %d bytes and ended with %v", n, len(text), exit)
			}
		}
		if got := after.read("ctx_a", "/went-0"); got != "x\n" {
			s.Errorf("what a command wrote without a server: %q", got)
		}
		// The next server has the gate too: a deletion ends the command first.
		if _, err := ctxfsv1.NewContextServiceClient(after.cc).DeleteContext(s.Context(), &ctxfsv1.DeleteContextRequest{ContextId: "ctx_b", DiscardChanges: true}); err != nil {
			s.Error(err)
		}
		s.await("a command ends with its context", func() bool { // its exit is known a moment after it has left the context
			got, err := after.exec.GetProcess(s.Context(), &ctxfsv1.GetProcessRequest{ProcessId: held})
			return err != nil || got.GetProcess().GetExit() != nil
		})
		after.end(syscall.SIGTERM)
		if pids := s.runners(); len(pids) > 0 {
			s.Errorf("after an orderly stop runners are left: %v", pids)
		}
		if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), s.ws) {
			s.Errorf("a mount is left: %v", err)
		}
	})
}

// TestKilledRunnerLosesItsCommands kills the runner, once with the server and once without. Commands have a child in a session of its own, which
// a signal to their group does not reach.
func TestKilledRunnerLosesItsCommands(t *testing.T) {
	atStations(t, func(s *station) {
		r := s.serve()
		r.seed("ctx_a")
		mark := s.mark()
		begin := func() string {
			script := "export MARK=" + mark + "; trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; echo one; sleep 1000; :' & read line"
			process := r.begin("ctx_a", script)
			s.await("the command writes", func() bool {
				p, err := r.exec.GetProcess(s.Context(), &ctxfsv1.GetProcessRequest{ProcessId: process})
				return err == nil && p.GetProcess().GetStdoutBytes() == 4
			})
			s.await("its children run", func() bool {
				n := 0
				for _, name := range s.running(mark) {
					if line, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline")); err == nil && string(line) == "sleep\x001000\x00" {
						n++
					}
				}
				return n == 1
			})
			return process
		}
		first := begin()
		s.killRunner()
		r.wantReason(first, ctxfsv1.ExitReason_EXIT_REASON_LOST)
		if text, _ := r.output(first); text != "one\n" {
			s.Errorf("the output of a lost command: %q", text)
		}
		if left := s.running(mark); len(left) > 0 {
			s.Errorf("processes are left: %v", left)
		}
		// Nothing has the context any more.
		if _, err := ctxfsv1.NewContextServiceClient(r.cc).Snapshot(s.Context(), &ctxfsv1.SnapshotRequest{ContextId: "ctx_a", Name: "after"}); err != nil {
			s.Error(err)
		}

		second := begin()
		r.end(syscall.SIGKILL)
		s.killRunner()
		r = s.serve()
		if left := s.running(mark); len(left) > 0 {
			s.Errorf("when the next server serves, processes are left: %v", left)
		}
		r.wantReason(second, ctxfsv1.ExitReason_EXIT_REASON_LOST)
		r.wantReason(first, ctxfsv1.ExitReason_EXIT_REASON_LOST)
		if text, exit := r.output(r.begin("ctx_a", "echo new")); text != "new\n" || exit.GetCode() != 0 {
			s.Errorf("a new command: %q, %v", text, exit)
		}
	})
}

// TestReplacedFolderEndsItsCommand replaces the folder of a context, or its mount, while a command runs and no server does.
func TestReplacedFolderEndsItsCommand(t *testing.T) {
	atStations(t, func(s *station) {
		r := s.serve()
		r.seed("ctx_a")
		r.seed("ctx_b")
		process, other := r.begin("ctx_a", "read line"), r.begin("ctx_b", "read line; echo $line")
		r.end(syscall.SIGKILL)
		folder := filepath.Join(s.ws, ".contexts/ctx_a")
		if s.driver == server.DriverOverlay {
			s.must(unix.Unmount(folder, unix.MNT_DETACH))
		} else {
			s.must(os.Rename(folder, folder+"-aside"))
			s.must(os.CopyFS(folder, os.DirFS(folder+"-aside")))
		}
		r = s.serve()
		r.wantReason(process, ctxfsv1.ExitReason_EXIT_REASON_CONTEXT_CLOSED)
		s.await("the context can be used again", func() bool {
			_, err := ctxfsv1.NewFsServiceClient(r.cc).Stat(s.Context(), &ctxfsv1.StatRequest{ContextId: "ctx_a", Path: "/src/main.go"})
			return err == nil
		})
		r.input(other, "fine\n")
		if text, _ := r.output(other); text != "fine\n" {
			s.Errorf("the command of another context: %q", text)
		}
	})
}

// TestKeptCommandIsFollowedThroughARestart runs a command through the Go client while its server is upgraded, and while it is killed.
func TestKeptCommandIsFollowedThroughARestart(t *testing.T) {
	t.Parallel()
	s := newStation(t, server.DriverCopy)
	r := s.serve()
	r.seed("ctx_a")
	c, err := client.Dial(t.Context(), client.WithAddress("unix://"+filepath.Join(s.state(), "ctxfs.sock")), client.WithGetenv(func(string) string { return "" }))
	s.must(err)
	t.Cleanup(func() { s.must(c.Close()) })
	var out, stderr strings.Builder
	var exit *ctxfsv1.Exit
	said := make(chan string, 10)
	ran := make(chan error, 1)
	go func() {
		ran <- c.RunCommand(t.Context(), &ctxfsv1.Command{
			ContextId: "ctx_a", OnDisconnect: ctxfsv1.OnDisconnect_ON_DISCONNECT_KEEP,
			Argv: []string{"sh", "-c", "for f in one two three; do echo $f; echo err >&2; while [ ! -e $f ]; do sleep 0.02; done; done; exit 3"},
		}, func(m *ctxfsv1.RunResponse) error {
			exit = m.GetExited().GetExit()
			if o := m.GetOutput(); o.GetStream() == ctxfsv1.OutputStream_OUTPUT_STREAM_STDERR {
				stderr.Write(o.GetData())
			} else if o != nil {
				out.Write(o.GetData())
				said <- string(o.GetData())
			}
			return nil
		})
	}()
	once := &ctxfsv1.StartRequest{Command: &ctxfsv1.Command{ContextId: "ctx_a", Argv: []string{"sleep", "1000"}, RequestId: "once"}}
	first, err := r.exec.Start(t.Context(), once)
	s.must(err)
	for i, signal := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGKILL} {
		word := []string{"one", "two"}[i]
		if got := <-said; got != word+"\n" {
			t.Fatalf("it said %q, want %q", got, word)
		}
		r.end(signal)
		s.must(os.WriteFile(filepath.Join(s.ws, ".contexts/ctx_a", word), nil, 0o644)) // the command continues without a server
		r = s.serve()
		again, err := r.exec.Start(t.Context(), once)
		if err != nil || again.GetProcess().GetProcessId() != first.GetProcess().GetProcessId() {
			t.Errorf("the repeated start after %v: %v, %v", signal, again, err)
		}
	}
	<-said
	s.must(os.WriteFile(filepath.Join(s.ws, ".contexts/ctx_a/three"), nil, 0o644))
	s.must(<-ran)
	if exit.GetCode() != 3 || out.String() != "one\ntwo\nthree\n" || stderr.String() != "err\nerr\nerr\n" {
		t.Errorf("got %v, %q, %q", exit, &out, &stderr)
	}
}

// TestStopKeepsOrEndsCommands stops a server in both ways.
func TestStopKeepsOrEndsCommands(t *testing.T) {
	t.Parallel()
	s := newStation(t, server.DriverOverlay)
	r := s.serve()
	r.seed("ctx_a")
	process := r.begin("ctx_a", "read line; echo $line")
	waited := make(chan error, 1)
	go func() {
		_, err := r.exec.Wait(metadata.AppendToOutgoingContext(s.Context()), &ctxfsv1.WaitRequest{ProcessId: process})
		waited <- err
	}()
	r.end(syscall.SIGUSR1)
	if err := <-waited; status.Code(err) != codes.Unavailable {
		s.Errorf("a caller that waits for a command that is kept: %v", err)
	}
	r = s.serve()
	r.input(process, "kept\n")
	if text, exit := r.output(process); text != "kept\n" || exit.GetCode() != 0 {
		s.Errorf("after the stop that keeps: %q, %v", text, exit)
	}
	script := "trap '' TERM; read line; : " + s.mark()
	r.begin("ctx_a", script)
	r.end(syscall.SIGTERM)
	if left := s.running(script); len(left) > 0 {
		s.Errorf("after an orderly stop processes are left: %v", left)
	}
	if left, err := filepath.Glob(filepath.Join(s.state(), "exec/[0-9]*")); err != nil || len(left) > 0 {
		s.Errorf("after an orderly stop output is left: %v, %v", left, err)
	}
}

// TestNewerServerFindsOlderRunner replaces a server by one of another version.
func TestNewerServerFindsOlderRunner(t *testing.T) {
	t.Parallel()
	s := newStation(t, server.DriverCopy)
	r := s.serve(versionEnv + "=1.0.0")
	r.seed("ctx_a")
	older, ended := r.begin("ctx_a", "echo older; read line; echo $line"), r.begin("ctx_a", "echo ended")
	r.output(ended)
	r.end(syscall.SIGUSR1)

	r = s.serve(versionEnv + "=2.0.0")
	newer := r.begin("ctx_a", "echo newer; read line")
	if pids := s.runners(); len(pids) != 2 {
		t.Fatalf("runners: %v, want two", pids)
	}
	list, err := r.exec.ListProcesses(t.Context(), &ctxfsv1.ListProcessesRequest{ContextId: "ctx_a"})
	if got := list.GetProcesses(); err != nil || len(got) != 3 || got[0].GetProcessId() != newer {
		t.Fatalf("processes: %v, %v", got, err)
	}
	r.input(older, "line\n")
	if text, exit := r.output(older); text != "older\nline\n" || exit.GetCode() != 0 {
		t.Errorf("the older runner's command: %q, %v", text, exit)
	}
	s.await("the older runner ends", func() bool { return len(s.runners()) == 1 })
	s.await("the newer one has its records", func() bool { return !s.exists(".ctxfs/exec/1") })
	for process, want := range map[string]string{older: "older\nline\n", ended: "ended\n"} {
		if text, exit := r.output(process); text != want || exit.GetReason() != ctxfsv1.ExitReason_EXIT_REASON_EXITED {
			t.Errorf("after the older runner: %q, %v, want %q", text, exit, want)
		}
	}
}

// TestManyCommandsLeaveNothing runs short commands in a row: 40, or as many as CTXFS_COMMANDS says.
func TestManyCommandsLeaveNothing(t *testing.T) {
	t.Parallel()
	total, err := strconv.Atoi(os.Getenv("CTXFS_COMMANDS"))
	if err != nil {
		total = 40
	}
	s := newStation(t, server.DriverCopy)
	groups := cgrouptest.All(t)
	var env []string
	if len(groups) > 0 {
		env = append(env, "CTXFS_EXEC_CGROUP="+strings.Join(groups, ","))
	}
	r := s.serve(env...)
	r.seed("ctx_a")
	word := s.mark()
	one := func() string {
		process := r.begin("ctx_a", "echo made; : "+word)
		if text, exit := r.output(process); text != "made\n" || exit.GetCode() != 0 {
			t.Errorf("got %q, %v", text, exit)
		}
		return process
	}
	remove := func(process string) {
		_, err := r.exec.RemoveProcess(t.Context(), &ctxfsv1.RemoveProcessRequest{ProcessId: process})
		s.must(err)
	}
	remove(one()) // opens what stays open
	pids := append(s.runners(), r.cmd.Process.Pid)
	open := func() (n int) {
		for _, pid := range pids {
			entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			s.must(err)
			n += len(entries)
		}
		return n
	}
	mounts := func() int {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pids[0]))
		s.must(err)
		return strings.Count(string(data), s.ws)
	}
	descriptors, mounted := open(), mounts()
	var workers sync.WaitGroup
	var mu sync.Mutex
	var processes []string
	for range 4 {
		workers.Go(func() {
			for range total / 4 {
				process := one()
				mu.Lock()
				processes = append(processes, process)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	list, err := r.exec.ListProcesses(t.Context(), &ctxfsv1.ListProcessesRequest{})
	s.must(err)
	if n := len(list.GetProcesses()); n != min(len(processes), 100) {
		t.Errorf("%d processes are kept of %d", n, len(processes))
	}
	for _, p := range list.GetProcesses() {
		remove(p.GetProcessId())
	}
	if left := s.running(word); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left, err := filepath.Glob(filepath.Join(s.state(), "exec/1/p-*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if left := cgrouptest.Left(groups); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
	s.await("descriptors are closed", func() bool { return open() <= descriptors })
	if now := mounts(); now != mounted {
		t.Errorf("%d mounts, before %d", now, mounted)
	}
}

// TestUserNSCommandsEndWithServer kills a server in namespaces of its own, which runs commands itself.
func TestUserNSCommandsEndWithServer(t *testing.T) {
	p := newPerson(t)
	r := p.serve()
	r.wantContent("file", "seeded\n")
	// As the host, and not as its panel: that has no right to run commands.
	commands := func(r *running) (ctxfsv1.ExecServiceClient, context.Context) {
		cc, ctx := r.dial()
		return ctxfsv1.NewExecServiceClient(cc), ctx
	}
	c, ctx := commands(r)
	s := &station{T: t, ws: p.ws}
	script := "echo one; sleep 1000; : " + s.mark()
	started, err := c.Start(ctx, &ctxfsv1.StartRequest{Command: &ctxfsv1.Command{ContextId: "ctx_demo", Argv: []string{"sh", "-c", script}}})
	if status.Code(err) == codes.FailedPrecondition {
		p.must(r.cmd.Process.Signal(syscall.SIGTERM))
		r.ended()
		t.Skip(err)
	}
	p.must(err)
	if left, err := filepath.Glob(filepath.Join(s.state(), "exec/[0-9]*")); err != nil || len(left) > 0 {
		t.Errorf("there is a runner: %v, %v", left, err)
	}
	p.must(syscall.Kill(r.pid, syscall.SIGKILL))
	r.ended()
	r = p.serve()
	if left := s.running(script); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	c, ctx = commands(r)
	got, err := c.GetProcess(ctx, &ctxfsv1.GetProcessRequest{ProcessId: started.GetProcess().GetProcessId()})
	if exit := got.GetProcess().GetExit(); err != nil || exit.GetReason() != ctxfsv1.ExitReason_EXIT_REASON_SERVER_STOPPED {
		t.Errorf("the process of a killed server: %v, %v", got, err)
	}
	p.must(r.cmd.Process.Signal(syscall.SIGTERM))
	r.ended()
}

// TestServerKeepsItsInotifyInstance looks at the files of a server that watches nothing: commands of its user may take all other instances later.
func TestServerKeepsItsInotifyInstance(t *testing.T) {
	t.Parallel()
	r := newStation(t, server.DriverCopy).serve()
	dir := fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid)
	files, err := os.ReadDir(dir)
	r.must(err)
	n := 0
	for _, f := range files {
		if target, _ := os.Readlink(filepath.Join(dir, f.Name())); target == "anon_inode:inotify" { // some are closed meanwhile
			n++
		}
	}
	if n != 1 {
		t.Errorf("the server has %d instances of inotify", n)
	}
}
