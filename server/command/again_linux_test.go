package command_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// person is an ordinary user with a workspace, and with this test's binary for ctxfs.
type person struct {
	*testing.T
	dir, program, ws string
}

// newPerson skips, and says why, where the driver cannot work.
func newPerson(t *testing.T) *person {
	t.Helper()
	namespacestest.Alone(t)
	dir := namespacestest.Dir(t)
	p := &person{T: t, dir: dir, program: namespacestest.Binary(t, dir, os.Args[0]), ws: filepath.Join(dir, "ws")}
	p.sh("mkdir ws && echo seeded > ws/file && cd ws && git init -q . && git add . && git -c user.name=t -c user.email=t@example.com commit -qm first")
	t.Cleanup(func() { p.sh("chmod -R u+rwx ws") })
	if why := p.refused(); why != "" {
		t.Skipf("not tested here: %s", why)
	}
	return p
}

// command is ctxfs with arguments, as the person.
func (p *person) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.Context(), p.program, args...)
	cmd.Env = append(os.Environ(), programEnv+"=1", "TMPDIR="+p.dir, "HOME="+p.dir)
	namespacestest.AsUser(cmd)
	return cmd
}

func (p *person) sh(script string) string {
	p.Helper()
	cmd := exec.CommandContext(context.Background(), "sh", "-c", script)
	cmd.Env = append(os.Environ(), "TMPDIR="+p.dir, "HOME="+p.dir)
	namespacestest.AsUser(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// refused is why doctor says that the driver does not work.
func (p *person) refused() string {
	out, err := p.command("doctor", "--workspace", p.ws, "--disk-reserve", "0", "--driver", server.DriverUserNS).Output()
	if err != nil && strings.Contains(string(out), "fail  driver") {
		return string(out)
	}
	return ""
}

// running is a started ctxfs serve.
type running struct {
	*person
	cmd *exec.Cmd
	// out is what follows the banner.
	out   *bufio.Reader
	stdin io.WriteCloser
	// pid is the server's, as server.json has it; pidfd shows its end.
	pid, pidfd int
	banner     string
}

func (p *person) serve(env ...string) *running {
	p.Helper()
	r := &running{person: p, cmd: p.command("serve", "--workspace", p.ws, "--disk-reserve", "0", "--driver", server.DriverUserNS, "--exit-on-stdin-close", "--log-level", "error")}
	r.cmd.Env = append(r.cmd.Env, env...)
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	p.must(err)
	r.stdin, err = r.cmd.StdinPipe()
	p.must(err)
	p.must(r.cmd.Start())
	p.Cleanup(func() { // both processes have ended, unless the test failed
		_ = r.stdin.Close()
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	r.out = bufio.NewReader(out)
	for !strings.Contains(r.banner, "\ntry ") {
		line, err := r.out.ReadString('\n')
		if r.banner += line; err != nil {
			p.Fatalf("serve said %q, %v", r.banner, err)
		}
	}
	data, err := os.ReadFile(filepath.Join(p.ws, ".contexts/.ctxfs/server.json"))
	p.must(err)
	var record server.Record
	p.must(json.Unmarshal(data, &record))
	r.pid = record.PID
	r.pidfd, err = unix.PidfdOpen(r.pid, 0)
	p.must(err)
	return r
}

func (p *person) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// ended waits for both processes, and returns the exit code of the one that was started.
func (r *running) ended() int {
	r.Helper()
	end := []unix.PollFd{{Fd: int32(r.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(end, int(patience.Milliseconds()))
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll(end, int(patience.Milliseconds()))
	}
	if n != 1 {
		r.Errorf("the server is left: %v", errors.Join(err, syscall.Kill(r.pid, syscall.SIGKILL)))
	}
	r.must(unix.Close(r.pidfd))
	_, err = io.Copy(io.Discard, r.out) // both held the other end
	r.must(err)
	var exit *exec.ExitError
	if err := r.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), r.dir+"/ws") {
		r.Errorf("a mount can be seen: %v\n%s", err, mounts)
	}
	return r.cmd.ProcessState.ExitCode()
}

// fs is a client with the host's token, as the panel demo.
func (r *running) fs() (ctxfsv1.FsServiceClient, context.Context) {
	r.Helper()
	cc, ctx := r.dial()
	return ctxfsv1.NewFsServiceClient(cc), metadata.AppendToOutgoingContext(ctx, "ctxfs-panel", "demo")
}

// dial connects as the host.
func (r *running) dial() (*grpc.ClientConn, context.Context) {
	r.Helper()
	state := filepath.Join(r.ws, ".contexts/.ctxfs")
	token, err := os.ReadFile(filepath.Join(state, "host.token"))
	r.must(err)
	cc, err := grpc.NewClient("unix://"+filepath.Join(state, "ctxfs.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	r.must(err)
	r.Cleanup(func() { r.must(cc.Close()) })
	return cc, metadata.AppendToOutgoingContext(r.Context(), "authorization", "Bearer "+strings.TrimSpace(string(token)))
}

func (r *running) write(name string) {
	r.Helper()
	fs, ctx := r.fs()
	_, err := fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: name, Content: &ctxfsv1.WriteFileRequest_Text{Text: name}})
	r.must(err)
}

func (r *running) wantContent(name, want string) {
	r.Helper()
	fs, ctx := r.fs()
	got, err := fs.ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: name})
	if err != nil || string(got.GetData()) != want {
		r.Errorf("%s holds %q, %v, want %q", name, got.GetData(), err, want)
	}
}

// refusesRoot calls without a token, as the user of this test. If that is root, the server does not know the caller.
func (r *running) refusesRoot() {
	r.Helper()
	fs, _ := r.fs()
	_, err := fs.Stat(metadata.AppendToOutgoingContext(r.Context(), "ctxfs-panel", "demo"), &ctxfsv1.StatRequest{Path: "/"})
	if want := map[bool]codes.Code{true: codes.Unauthenticated}[os.Geteuid() == 0]; status.Code(err) != want {
		r.Errorf("without a token: %v, want %v", err, want)
	}
}

// TestUserNSServe goes through the life of a server that an ordinary user starts.
func TestUserNSServe(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	r := p.serve()
	if r.pid == r.cmd.Process.Pid || !strings.Contains(r.banner, "driver   overlay-userns (only this server sees the files)") {
		t.Errorf("pid %d of %d said %s", r.pid, r.cmd.Process.Pid, r.banner)
	}
	r.wantContent("file", "seeded\n")
	for i := range 50 {
		r.write(fmt.Sprintf("new-%d", i))
	}
	r.write("file")
	if out := p.sh("ls -A ws/.contexts/ctx_demo"); out != "" {
		t.Errorf("others see %q", out)
	}
	r.refusesRoot()
	p.must(syscall.Kill(r.pid, syscall.SIGKILL))
	if code := r.ended(); code != 128+9 {
		t.Errorf("killed, it ends with %d", code)
	}
	r = p.serve()
	for i := range 50 {
		r.wantContent(fmt.Sprintf("new-%d", i), fmt.Sprintf("new-%d", i))
	}
	r.wantContent("file", "file")
	p.must(r.cmd.Process.Signal(syscall.SIGTERM))
	if code := r.ended(); code != 0 {
		t.Errorf("asked to stop, it ends with %d", code)
	}
	if left := p.sh("ls ws/.contexts/.ctxfs/server.json ws/.contexts/.ctxfs/ctxfs.sock 2>/dev/null || true"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestUserNSServesACopy serves a workspace that was copied, as from a backup; then one whose copy lost the extended attributes.
func TestUserNSServesACopy(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.sh("mkdir ws/dir && echo old > ws/dir/old && cd ws && git add . && git -c user.name=t -c user.email=t@example.com commit -qm second")
	r := p.serve()
	r.write("file")
	fs, ctx := r.fs()
	_, err := fs.Rm(ctx, &ctxfsv1.RmRequest{Path: "dir", Recursive: true})
	p.must(err)
	_, err = fs.Mkdir(ctx, &ctxfsv1.MkdirRequest{Path: "dir"})
	p.must(err)
	r.write("dir/new")
	p.must(r.cmd.Process.Signal(syscall.SIGTERM))
	r.ended()
	// The kernel's work directory is closed even to its owner, and empty.
	p.sh("cp -a ws copy 2>/dev/null; tar -C ws --exclude=work/work -cf ws.tar . && mkdir bare && tar -C bare -xpf ws.tar")
	t.Cleanup(func() { p.sh("chmod -R u+rwx copy bare") })
	p.ws = filepath.Join(p.dir, "copy")
	r = p.serve()
	r.wantContent("file", "file")
	r.wantContent("dir/new", "dir/new")
	fs, ctx = r.fs()
	if list, err := fs.Readdir(ctx, &ctxfsv1.ReaddirRequest{Path: "dir"}); err != nil || len(list.GetEntries()) != 1 {
		t.Errorf("dir holds %v, %v, want one entry", list, err)
	}
	p.must(r.cmd.Process.Signal(syscall.SIGTERM))
	r.ended()
	p.ws = filepath.Join(p.dir, "bare")
	r = p.serve()
	fs, ctx = r.fs()
	_, err = fs.ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: "file"})
	if err == nil || !strings.Contains(err.Error(), "extended attributes") {
		t.Errorf("without its attributes: %v", err)
	}
	p.must(r.cmd.Process.Signal(syscall.SIGTERM))
	r.ended()
	out, err := p.command("doctor", "--repair", "--workspace", p.ws, "--disk-reserve", "0", "--driver", server.DriverUserNS).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "took ctx_demo as it is") {
		t.Errorf("doctor --repair: %v\n%s", err, out)
	}
	r = p.serve()
	r.wantContent("file", "file")
	r.wantContent("dir/new", "dir/new")
	p.must(r.cmd.Process.Signal(syscall.SIGTERM))
	r.ended()
}

// TestUserNSServeEnds has every way to end it end both of its processes.
func TestUserNSServeEnds(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	for _, c := range []struct {
		name string
		end  func(r *running) error
		want int
	}{
		{"a signal to the process in server.json", func(r *running) error { return syscall.Kill(r.pid, syscall.SIGTERM) }, 0},
		{"a signal to the one that was started", func(r *running) error { return r.cmd.Process.Signal(os.Interrupt) }, 0},
		{"the end of the terminal", func(r *running) error { return r.cmd.Process.Signal(syscall.SIGHUP) }, 0},
		{"the end of standard input", func(r *running) error { return r.stdin.Close() }, 0},
		{"kill -9 of the one that was started", func(r *running) error { return r.cmd.Process.Kill() }, -1},
	} {
		r := p.serve()
		r.write("file")
		p.must(c.end(r))
		if code := r.ended(); code != c.want {
			t.Errorf("%s: exit %d, want %d", c.name, code, c.want)
		}
	}
}

func TestUserNSExitCodes(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	serve := []string{"serve", "--driver", server.DriverUserNS, "--disk-reserve", "0", "--workspace"}
	p.sh("echo handed > handed")
	child := []string{"run", "--driver", server.DriverUserNS, "--disk-reserve", "0", "--workspace", p.ws, "--", "sh", "-c"}
	for _, c := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"no workspace", append(serve, p.ws+"/none"), 1, "no such file"},
		{"a bad setting", append(serve, p.ws, "--listen", "0.0.0.0:1"), 64, "TLS"},
		{"a command's own", []string{"run", "--ephemeral", "--driver", server.DriverUserNS, "--disk-reserve", "0", "--workspace", p.ws, "--", "sh", "-c", "cat " + p.ws + "/file; exit 7"}, 7, "seeded"},
		{"a file that the child was handed", append(child, "cat <&3; exit 5"), 5, "handed"},
		{"the child sees the context", append(child, "cd "+p.ws+"/.contexts/ctx_run && git status --short . >/dev/null 2>&1; mv file moved && cat moved; exit 4"), 4, "seeded"},
	} {
		cmd := p.command(c.args...)
		handed, err := os.Open(filepath.Join(p.dir, "handed"))
		p.must(err)
		cmd.ExtraFiles = []*os.File{handed}
		out, err := cmd.CombinedOutput()
		p.must(handed.Close())
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(string(out), c.text) || strings.Count(string(out), "ctxfs:") > 1 {
			t.Errorf("%s: %v, %q, want %d, %q", c.name, err, out, c.code, c.text)
		}
	}
	if left := p.sh("ls -d ctxfs-run-* ctxfs-notify-* 2>/dev/null || true"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestUserNSTellsSystemd listens as systemd does, to the process that it started and no other.
func TestUserNSTellsSystemd(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	at := &net.UnixAddr{Name: filepath.Join(p.dir, "systemd"), Net: "unixgram"}
	in, err := net.ListenUnixgram("unixgram", at)
	p.must(err)
	defer func() { p.must(in.Close()) }()
	p.must(os.Chmod(at.Name, 0o777))
	raw, err := in.SyscallConn()
	p.must(err)
	p.must(raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1) }))
	p.must(err)
	r := p.serve("NOTIFY_SOCKET=" + at.Name)
	told := func(want string) {
		t.Helper()
		p.must(in.SetReadDeadline(time.Now().Add(patience)))
		buf, oob := make([]byte, 4096), make([]byte, 4096)
		n, k, _, _, err := in.ReadMsgUnix(buf, oob)
		p.must(err)
		list, err := syscall.ParseSocketControlMessage(oob[:k])
		p.must(err)
		cred, err := syscall.ParseUnixCredentials(&list[0])
		p.must(err)
		if !strings.HasPrefix(string(buf[:n]), want) || int(cred.Pid) != r.cmd.Process.Pid {
			t.Errorf("pid %d tells %q, want %d, %q", cred.Pid, buf[:n], r.cmd.Process.Pid, want)
		}
	}
	told("READY=1")
	p.must(r.cmd.Process.Signal(syscall.SIGTERM))
	r.ended()
	told("STOPPING=1")
}

func TestUserNSIsNotForRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not tested here: it is about root")
	}
	ws := t.TempDir()
	for _, args := range [][]string{{"serve"}, {"run", "--", "true"}} {
		args = append([]string{args[0], "--driver", server.DriverUserNS, "--workspace", ws}, args[1:]...)
		if code, _, _, err := run(t, nil, args...); code != 1 || !strings.Contains(err.Error(), "as root, who has --driver overlay") {
			t.Errorf("%v: exit %d, %v", args, code, err)
		}
	}
	if line, code := driverLine(t, ws, "--driver", server.DriverUserNS); code != 1 || !strings.Contains(line, "as root, who has --driver overlay") {
		t.Errorf("doctor: exit %d, %s", code, line)
	}
}
