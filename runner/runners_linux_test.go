package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata/memory"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server/services"
)

// lingering is the argument of a runner that takes its time to exit.
const lingering = "lingering"

// TestMain makes the test program a runner, or the init of a sandbox, if it is started as one.
func TestMain(m *testing.M) {
	if code, is := exec.Init(os.Args); is {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "runner" {
		err := Serve(context.Background(), os.Stdin, zap.NewNop(), func(registry grpc.ServiceRegistrar, processes *exec.Processes) {
			ctxfsv1.RegisterExecServiceServer(registry, &services.Exec{Processes: processes})
		})
		if err != nil {
			panic(err)
		}
		if slices.Contains(os.Args, lingering) {
			<-time.After(500 * time.Millisecond) // clock: a server that does not wait for the runner has ended long before
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// depot is a workspace with the contexts ctx_a and ctx_b, and the runners of one server after the other.
type depot struct {
	*testing.T
	cfg Config
}

// newDepot skips the test where commands cannot be isolated.
func newDepot(t *testing.T) *depot {
	t.Helper()
	var user *exec.User
	var owner *rootfs.Owner
	if os.Geteuid() == 0 {
		user, owner = &exec.User{UID: 4321, GID: 4321}, &rootfs.Owner{UID: 4321, GID: 4321}
	}
	if err := exec.Check(t.Context(), user); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "ctxfs-runner") // t.TempDir's parents admit this user only
	d := &depot{T: t}
	d.must(err)
	t.Cleanup(func() { d.must(os.RemoveAll(dir)) })
	d.must(os.Chmod(dir, 0o755))
	m, err := contexts.Open(t.Context(), contexts.Config{
		Workspace: dir, Store: memory.New(), Driver: copyfs.New(copyfs.Options{Owner: owner}), Owner: owner, Seed: seed.Options{},
	})
	d.must(err)
	t.Cleanup(func() { d.must(m.Close()) })
	for _, id := range []contexts.ID{"ctx_a", "ctx_b"} {
		_, err := m.Ensure(t.Context(), id, contexts.EnsureOptions{}, nil)
		d.must(err)
	}
	d.cfg = Config{
		Dir: filepath.Join(dir, ".contexts/.ctxfs/exec"), Program: []string{"/proc/self/exe", "runner"}, Version: "1", Gate: m,
		Engine: exec.Config{User: user}, Log: zaptest.NewLogger(t),
	}
	return d
}

func (d *depot) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// open opens the runners as a server of a version does. The test ends with their end.
func (d *depot) open(version string) *desk {
	d.Helper()
	cfg := d.cfg
	cfg.Version = version
	r, err := Open(d.Context(), cfg)
	d.must(err)
	d.Cleanup(func() { d.must(r.Close(false)) })
	return &desk{d, r}
}

// desk makes calls to runners as a host.
type desk struct {
	*depot
	*Runners
}

func (k *desk) call(ctx context.Context, name string, req, resp proto.Message) error {
	return passed(ctx, k.invoke(withCaller(panels.WithIdentity(ctx, panels.Identity{Role: panels.RoleHost})), "/ctxfs.v1.ExecService/"+name, req, resp))
}

func (k *desk) tryStart(cmd *ctxfsv1.Command) (*ctxfsv1.Process, error) {
	resp := &ctxfsv1.StartResponse{}
	err := k.call(k.Context(), "Start", &ctxfsv1.StartRequest{Command: cmd}, resp)
	return resp.GetProcess(), err
}

func (k *desk) start(cmd *ctxfsv1.Command) string {
	k.Helper()
	p, err := k.tryStart(cmd)
	k.must(err)
	return p.GetProcessId()
}

func (k *desk) get(ctx context.Context, id string) (*ctxfsv1.Process, error) {
	resp := &ctxfsv1.GetProcessResponse{}
	err := k.call(ctx, "GetProcess", &ctxfsv1.GetProcessRequest{ProcessId: id}, resp)
	return resp.GetProcess(), err
}

func (k *desk) wait(id string) *ctxfsv1.Exit {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
	defer cancel()
	resp := &ctxfsv1.WaitResponse{}
	k.must(k.call(ctx, "Wait", &ctxfsv1.WaitRequest{ProcessId: id}, resp))
	return resp.GetProcess().GetExit()
}

// kill kills the newest runner.
func (k *desk) kill() {
	k.Helper()
	newest := k.newest() // none is, once its end is seen
	k.must(unix.Kill(newest.hello.PID, unix.SIGKILL))
	<-newest.link.done
}

// fromStatus returns the error that a status carries.
func fromStatus(err error) error {
	if known, ok := fserrpb.FromStatus(err); ok {
		return known
	}
	return err
}

// inShell is a command of ctx_a that reads its input.
func inShell(script string, identity ...string) *ctxfsv1.Command {
	cmd := &ctxfsv1.Command{ContextId: "ctx_a", Argv: []string{"sh", "-c", script}, OpenStdin: true}
	if len(identity) > 0 {
		cmd.RequestId = identity[0]
	}
	if len(identity) > 1 {
		cmd.Name = identity[1]
	}
	return cmd
}

// TestRepeatedStartRunsOnceAfterACrash kills the runner between a start and its repetition: of a command that has ended, and of one that runs.
func TestRepeatedStartRunsOnceAfterACrash(t *testing.T) {
	t.Parallel()
	k := newDepot(t).open("1")
	short, long := inShell("echo x >>short", "r-short"), inShell("echo x >>long; read line", "r-long", "dev")
	long.Env = map[string]string{"A": "secret-value"}
	ended, lost := k.start(short), k.start(long)
	if exit := k.wait(ended); exit.GetCode() != 0 {
		t.Fatalf("got %v", exit)
	}
	k.kill()
	if again := k.start(short); again != ended {
		t.Errorf("the start of a command that had ended returned %s, before %s", again, ended)
	}
	if again := k.start(long); again != lost {
		t.Errorf("the start of a lost command returned %s, before %s", again, lost)
	}
	if exit := k.wait(lost); exit.GetReason() != ctxfsv1.ExitReason_EXIT_REASON_LOST {
		t.Errorf("the lost command: %v", exit)
	}
	long.Env["A"] = "other"
	if p, err := k.tryStart(long); fserr.CodeOf(fromStatus(err)) != fserr.EEXIST {
		t.Errorf("another command with the request ID: %v, %v", p, err)
	}
	if exit := k.wait(k.start(inShell(`cat short; test "$(cat long)" != "x
x"`, "", "dev"))); exit.GetCode() != 0 {
		t.Errorf("a command ran twice, or its name is not free: %v", exit)
	}
	records, err := filepath.Glob(filepath.Join(k.depot.cfg.Dir, "*", "*"))
	k.must(err)
	for _, name := range records {
		if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), "secret-value") {
			t.Errorf("%s has a variable of a command", name)
		}
	}
}

// TestRepeatedStartRunsOnceAfterAnUpgrade starts commands in the runner of one version, and repeats that with the next.
func TestRepeatedStartRunsOnceAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	before := d.open("1")
	cmd := inShell("echo x >>count; read line", "once", "dev")
	first := before.start(cmd)
	d.must(before.Close(true))

	k := d.open("2")
	if again := k.start(cmd); again != first {
		t.Errorf("the repeated start returned %s, before %s", again, first)
	}
	ran := ""
	err := k.Run(panels.WithIdentity(t.Context(), panels.Identity{Role: panels.RoleHost}), inShell("cat count; true", "", ""), func(m *ctxfsv1.RunResponse) error {
		ran += string(m.GetOutput().GetData())
		return nil
	})
	if err != nil || ran != "x\n" {
		t.Errorf("the command ran so often: %q, %v", ran, err)
	}
	if len(k.all()) != 2 {
		t.Errorf("%d runners, want 2", len(k.all()))
	}
	if p, err := k.tryStart(inShell("true", "once")); fserr.CodeOf(fromStatus(err)) != fserr.EEXIST {
		t.Errorf("another command with the request ID: %v, %v", p, err)
	}
	if p, err := k.tryStart(inShell("true", "", "dev")); fserr.CodeOf(fromStatus(err)) != fserr.EEXIST || !strings.Contains(fmt.Sprint(err), `"dev"`) {
		t.Errorf("another command with the name: %v, %v", p, err)
	}
	k.must(k.call(t.Context(), "SendInput", &ctxfsv1.SendInputRequest{ProcessId: first, Data: []byte("\n")}, &ctxfsv1.SendInputResponse{}))
	older := k.all()[0]
	<-older.handed
	if again := k.start(cmd); again != first {
		t.Errorf("after the older runner: the repeated start returned %s, before %s", again, first)
	}
	k.start(inShell("read line", "", "dev"))
}

// TestStopWaitsForRunners stops the server that started a runner, and one that found it. When Close has returned, the runner's process has ended.
func TestStopWaitsForRunners(t *testing.T) {
	t.Parallel()
	for _, found := range []bool{false, true} {
		d := newDepot(t)
		d.cfg.Program = append(d.cfg.Program, lingering)
		k := d.open("1")
		k.start(inShell("read line"))
		if found {
			d.must(k.Close(true))
			k = d.open("1")
		}
		process, err := unix.PidfdOpen(k.newest().hello.PID, 0)
		d.must(err)
		d.must(k.Close(false))
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0); n != 1 {
			t.Errorf("the runner was found: %v; it has not ended: %v", found, err)
		}
		d.must(unix.Close(process))
	}
}

// TestBoundOfRunningCommandsIsThatOfAllRunners starts as many commands as may run with one version, and one with the next.
func TestBoundOfRunningCommandsIsThatOfAllRunners(t *testing.T) {
	t.Parallel()
	const most = 32
	d := newDepot(t)
	before := d.open("1")
	var last string
	for range most {
		last = before.start(inShell("read line"))
	}
	d.must(before.Close(true))
	k := d.open("2")
	if p, err := k.tryStart(inShell("true")); fserr.CodeOf(fromStatus(err)) != fserr.EMFILE {
		t.Errorf("one more: %v, %v", p, err)
	}
	other := inShell("true")
	other.ContextId = "ctx_b"
	k.wait(k.start(other))
	k.must(k.call(t.Context(), "Kill", &ctxfsv1.KillRequest{ProcessId: last}, &ctxfsv1.KillResponse{}))
	for p, err := k.tryStart(inShell("true")); ; p, err = k.tryStart(inShell("true")) { // it counts until nothing of it runs
		if err == nil {
			k.wait(p.GetProcessId())
			return
		}
		if fserr.CodeOf(fromStatus(err)) != fserr.EMFILE || t.Context().Err() != nil {
			t.Fatalf("after the end of one: %v", err)
		}
	}
}

// TestCommandsThatCannotBeEndedBlockNoOthers kills a runner of whose commands one cannot be ended for a while.
func TestCommandsThatCannotBeEndedBlockNoOthers(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	var stuck atomic.Bool
	stuck.Store(true)
	d.cfg.reap = func(ctx context.Context, dir string) error {
		if stuck.Load() {
			return errors.New("a process cannot be ended")
		}
		return exec.Reap(ctx, dir)
	}
	k := d.open("1")
	repeated := inShell("read line", "once")
	lost := k.start(repeated)
	k.kill()
	dead := k.newest()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.current(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has left: %v", err)
	}
	other := inShell("true")
	other.ContextId = "ctx_b"
	if exit := k.wait(k.start(other)); exit.GetCode() != 0 {
		t.Errorf("a command of another context: %v", exit)
	}
	if exit := k.wait(k.start(inShell("true", "another"))); exit.GetCode() != 0 {
		t.Errorf("a command of the context: %v", exit)
	}
	if dead.isGone() {
		t.Fatal("the runner has left nothing")
	}
	list := &ctxfsv1.ListProcessesResponse{}
	if err := k.call(t.Context(), "ListProcesses", &ctxfsv1.ListProcessesRequest{}, list); err != nil || len(list.GetProcesses()) != 2 {
		t.Errorf("the processes are %v, %v", list, err)
	}
	if p, err := k.get(t.Context(), lost); fserr.CodeOf(fromStatus(err)) != fserr.EAGAIN {
		t.Errorf("the process that cannot be ended: %v, %v", p, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // clock: the call must wait until this ends it
	defer cancel()
	if err := k.call(short, "Start", &ctxfsv1.StartRequest{Command: repeated}, &ctxfsv1.StartResponse{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the repeated start: %v", err)
	}
	stuck.Store(false)
	if again := k.start(repeated); again != lost {
		t.Errorf("the repeated start returned %s, before %s", again, lost)
	}
}

// TestLostLimitsAreLogged adds runners that enforce less than those before.
func TestLostLimitsAreLogged(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.WarnLevel)
	r := &Runners{cfg: Config{Log: zap.New(core)}}
	all := map[string]string{"memory": "cgroup v2", "pids": "cgroup v2"}
	less := maps.Clone(all)
	delete(less, "memory")
	for _, limits := range []map[string]string{nil, less, all, all, less, less} {
		r.noteLimits(greeting{PID: 7, Limits: limits})
	}
	entries := logged.All()
	if len(entries) != 1 || entries[0].ContextMap()["controller"] != "memory" || entries[0].ContextMap()["before"] != "cgroup v2" {
		t.Errorf("logged %v", entries)
	}
}

// TestFilesOfRunnersArePlain has something else in the place of the lock and of the log of runners.
func TestFilesOfRunnersArePlain(t *testing.T) {
	t.Parallel()
	for kind, put := range map[string]func(path string) error{
		"a FIFO": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link": func(path string) error { return os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), path) },
	} {
		dir := t.TempDir()
		for name, open := range map[string]func() error{
			lockName: func() error {
				lock, _, err := lockOf(dir)
				return errors.Join(err, lock.Close())
			},
			logName: func() error {
				r := &Runners{cfg: Config{Dir: dir, Program: []string{"/bin/true"}}}
				return r.run(dir, nil)
			},
		} {
			if err := put(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if other, ok := errors.AsType[*statedir.NotPlainError](open()); !ok || other.Is != kind {
				t.Errorf("%s is %s, and was opened", name, kind)
			}
		}
	}
}
