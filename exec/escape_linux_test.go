package exec

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/exec/entry"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// secretVariable is in the environment of the test, as tokens are in that of a server.
const secretVariable = "CTXFS_TEST_SECRET"

// escape is an attempt to get out of the sandbox.
type escape struct {
	name string
	// script is for sh. It exits with 0 if it got out, and with 1 if it was refused. $WS is the workspace's path on the host.
	script string
	// env has variables of the command besides WS.
	env map[string]string
	// weaken removes what protects against the attempt.
	weaken func(w *weakened)
	// rootOnly says that only root can remove the protection.
	rootOnly bool
	// twice says that the settings of a kernel may refuse the attempt too.
	twice bool
	// landlock is the version of Landlock that refuses the attempt too; 0 if none does.
	landlock int
}

// weakened is a sandbox that lacks a protection.
type weakened struct {
	args []string
	env  []string
	user User
	more []*os.File
	ws   string
	step entry.Step
	// vars are the command's. first runs before the first step, which has none of them.
	vars  map[string]string
	first []string
	// err is why the protection could not be removed.
	err error
}

// drop removes an option and its n values.
func drop(option string, n int) func(*weakened) {
	return func(w *weakened) {
		for i := slices.Index(w.args, option); i >= 0; i = slices.Index(w.args, option) {
			w.args = slices.Delete(w.args, i, i+1+n)
		}
	}
}

// bind shows a directory of the host.
func bind(path string) func(*weakened) {
	return func(w *weakened) { w.before("--bind-fd", "--bind", path, path) }
}

func (w *weakened) before(option string, args ...string) {
	w.args = slices.Insert(w.args, slices.Index(w.args, option), args...)
}

func (w *weakened) replace(old, now string) {
	for i, a := range w.args {
		if a == old {
			w.args[i] = now
		}
	}
}

// shown is where an attempt finds the workspace once the sandbox shows it: not in /tmp, which Landlock permits.
const shown = "/srv/workspace"

func bindWorkspace(w *weakened) { w.before("--bind-fd", "--bind", w.ws, shown) }

func both(first, second func(*weakened)) func(*weakened) {
	return func(w *weakened) {
		first(w)
		second(w)
	}
}

func asRoot(w *weakened) {
	w.user = User{0, 0}
	innerRoot(w)
}

func allCapabilities(w *weakened) {
	w.replace("--cap-drop", "--cap-add")
	drop("--disable-userns", 0)(w) // it makes a second namespace, which does not own the network
	innerRoot(w)                   // so does another user than 0
}

func innerRoot(w *weakened) {
	for _, option := range []string{"--uid", "--gid"} {
		w.args[slices.Index(w.args, option)+1] = "0"
	}
}

// callerFirst has setsid(1) run before the limits and Landlock hold, with the command's variables.
func callerFirst(w *weakened) {
	for name, value := range w.vars {
		w.before("--bind-fd", "--setenv", name, value)
	}
	w.first = []string{"setsid"}
}

// loaded counts the programs that the linker of the C library has started in this process, by what LD_DEBUG has it write.
const loaded = `n=0; while read line; do case $line in *"initialize program"*) n=$((n+1));; esac; done </context/decoy/ld.$$
	unset LD_DEBUG LD_DEBUG_OUTPUT; rm /context/decoy/ld.*; test $n -gt 1`

// findEntries lists the entries of /proc/sys but for those of the sandbox's own IPC and PID namespaces, which a command may change: no other
// process has them. Everybody may open ns_last_pid.
const findEntries = `find /proc/sys -type f ! -path '/proc/sys/fs/mqueue/*' ! -path '/proc/sys/kernel/msg*' ! -path '/proc/sys/kernel/shm*' \
	! -path /proc/sys/kernel/sem ! -name auto_msgmni ! -name pid_max ! -name ns_last_pid 2>/dev/null`

// connects attempts to reach one of some sockets of the host.
func connects(name string, weaken func(*weakened), paths ...string) escape {
	return escape{
		name: name, weaken: weaken,
		script: `perl -MSocket -e 'for (@ARGV) { socket(S, AF_UNIX, SOCK_STREAM, 0); exit 0 if connect(S, pack_sockaddr_un($_)) } exit 1' ` + strings.Join(paths, " "),
	}
}

// bindRun shows the sockets that newHost has made, at the places of those of the host.
func bindRun(w *weakened) { w.before("--bind-fd", "--bind", filepath.Join(w.ws, "run"), "/run") }

func bindState(w *weakened) {
	bindWorkspace(w)
	w.err = os.Chmod(filepath.Join(w.ws, ".contexts", ".ctxfs"), 0o711) // as if the server's user ran the command
}

func devicesOfHost(w *weakened) {
	w.replace("--dev", "--dev-bind")
	w.args = slices.Insert(w.args, slices.Index(w.args, "--dev-bind")+1, "/dev")
}

// contextWithDevices shows the context's folder without nodev.
func contextWithDevices(w *weakened) {
	i := slices.Index(w.args, "--bind-fd")
	w.args[i], w.args[i+1] = "--dev-bind", filepath.Join(w.ws, ".contexts", string(testContext))
}

// rootOfHost runs the command as the root of the machine, in no user namespace.
func rootOfHost(w *weakened) {
	allCapabilities(w)
	w.user = User{0, 0}
	for option, n := range map[string]int{"--unshare-user": 0, "--uid": 1, "--gid": 1} {
		drop(option, n)(w)
	}
}

var (
	noFilter  = drop("--add-seccomp-fd", 1)
	hostNet   = drop("--unshare-net", 0)
	hostPIDs  = drop("--unshare-pid", 0)
	serverEnv = func(w *weakened) { w.env = os.Environ() }
)

// call attempts a system call that the filter refuses. Without the filter it gets another result than EPERM and ENOSYS.
func call(name string, number int, args ...string) escape {
	list := strings.Join(append([]string{strconv.Itoa(number)}, args...), ", ")
	return escape{
		name:   "system call " + name,
		script: fmt.Sprintf(`perl -e '$a = "/"; exit(syscall(%s) == -1 && ($! == 1 || $! == 38) ? 1 : 0)'`, list),
		weaken: noFilter, twice: true,
	}
}

// otherABIs are calls by the numbers of other ABIs of the machine: int 0x80 of i386, and x32.
func otherABIs() []escape {
	if runtime.GOARCH != "amd64" {
		return nil // seccomp_linux.go refuses other architectures as a whole
	}
	// push rbx; mov eax, 20 (getpid); int 0x80; pop rbx; ret
	const i386 = `python3 -c 'import ctypes, mmap
code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
code.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")
getpid = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
exit(0 if getpid() > 0 else 1)' || exit 1`
	return []escape{{name: "system call of i386", script: i386, weaken: noFilter, twice: true}, call("getpid of x32", 0x40000000|unix.SYS_GETPID)}
}

// escapes are for a host with these addresses and processes.
func escapes(h *host) []escape {
	return append(append([]escape{
		{name: "reads a file of the workspace", landlock: 2, script: "cat $WS/secret-of-the-workspace", weaken: bindWorkspace},
		{name: "reads another context", landlock: 2, script: "cat $WS/.contexts/ctx_b/app/seeded", weaken: bindWorkspace},
		{name: "reads another context by ..", script: "cat /context/../ctx_b/app/seeded", weaken: func(w *weakened) {
			w.before("--bind-fd", "--bind", filepath.Join(w.ws, ".contexts"), "/ctx_b/..")
			w.args[slices.Index(w.args, "/ctx_b/..")] = "/mnt"
			w.before("--bind-fd", "--symlink", "mnt/ctx_b", "/ctx_b")
		}},
		{name: "sees the server's state", script: "test -e $WS/.contexts/.ctxfs", weaken: bindWorkspace},
		{name: "writes to the workspace", landlock: 2, script: "echo x > $WS/open/made", weaken: bindWorkspace},
		{name: "connects to a socket of the host", script: `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); exit(connect(S, pack_sockaddr_un("$ENV{WS}/host.sock")) ? 0 : 1)'`, weaken: bindWorkspace},
		{name: "connects to an abstract socket", landlock: 6, script: fmt.Sprintf(`perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); exit(connect(S, pack_sockaddr_un("\0%s")) ? 0 : 1)'`, h.abstract), weaken: hostNet},
		{name: "connects to a port of the host", script: fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d'", h.port), weaken: hostNet},
		{name: "has a route to the metadata address", script: `perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0); exit(connect(S, sockaddr_in(80, inet_aton("169.254.169.254"))) ? 0 : 1)'`, weaken: hostNet},
		{name: "sees the host's interfaces", script: `! grep : /proc/net/dev | grep -qv lo: && exit 1; exit 0`, weaken: hostNet},
		{name: "reads the host's /etc", script: "test -e /etc/shadow", weaken: func(w *weakened) { w.before("--bind-fd", "--ro-bind", "/etc", "/etc") }},
		{name: "sees root's home", script: "test -e /root", weaken: bind("/root")},
		{name: "sees /var", script: "test -e /var", weaken: bind("/var")},
		{name: "sees /sys", script: "test -e /sys/kernel", weaken: bind("/sys")},
		{name: "sees the host's /run", script: "ls -A /run | grep -q .", weaken: bind("/run")},
		{name: "sees the host's /tmp", script: "test -e " + h.ws, weaken: bind("/tmp")},
		connects("connects to D-Bus", bindRun, "/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket", "/run/user/*/bus", "$WS/run/dbus/system_bus_socket"),
		connects("connects to Docker", bindRun, "/run/docker.sock", "/var/run/docker.sock", "$WS/run/docker.sock"),
		connects("connects to ctxfs", bindState, "$WS/.contexts/.ctxfs/ctxfs.sock", "/context/../.ctxfs/ctxfs.sock", "/run/ctxfs/ctxfs.sock"),
		{name: "sees the host's devices", script: "test -e /dev/" + h.device, weaken: devicesOfHost},
		{name: "opens a device of the host", script: "for d in mem kmsg vda sda nvme0n1 loop0 fuse; do test -e /dev/$d && (true </dev/$d) && exit 0; done; exit 1", rootOnly: true, weaken: both(asRoot, both(devicesOfHost, drop("--remount-ro", 1)))},
		{name: "makes a device node", script: fmt.Sprintf(`perl -e '$n = "/tmp/null"; exit(syscall(%d, -100, $n, 020666, 0x103) == 0 ? 0 : 1)'`, unix.SYS_MKNODAT), rootOnly: true, weaken: rootOfHost},
		{name: "opens a device node in its context", script: "true </context/null", rootOnly: true, weaken: contextWithDevices},
		{name: "creates a file in the root", landlock: 2, script: "touch /made", weaken: func(w *weakened) {
			i := slices.Index(w.args, "--chdir")
			w.args = slices.Delete(w.args, i-2, i) // --remount-ro /
		}},
		{name: "creates a file in /dev", landlock: 2, script: "touch /dev/made", weaken: drop("--remount-ro", 1)},
		{name: "changes /etc/passwd", landlock: 2, script: "chmod 644 /etc/passwd; echo x >>/etc/passwd", weaken: func(w *weakened) { w.replace("--ro-bind-data", "--bind-data") }},
		{name: "writes to the system's programs", script: "test -w /usr/bin", rootOnly: true, weaken: both(asRoot, func(w *weakened) { w.args[slices.Index(w.args, "/usr")-1] = "--bind" })},
		{name: "opens core_pattern for writing", script: "perl -e 'exit(open(F, \">>\", \"/proc/sys/kernel/core_pattern\") ? 0 : 1)'", rootOnly: true, weaken: asRoot},
		{name: "opens an entry of /proc/sys for writing", script: findEntries + ` | perl -MFcntl -ne 'chomp; if (sysopen(F, $_, O_WRONLY)) { print "$_ "; $n++ } }{ exit($n ? 0 : 1)'`, weaken: allCapabilities},
		{name: "sets the number of the next process", script: "echo 1000 >/proc/sys/kernel/ns_last_pid", weaken: allCapabilities},
		{name: "changes a setting of its network", script: "echo 80 >/proc/sys/net/ipv4/ip_unprivileged_port_start", weaken: allCapabilities},
		{name: "is root", script: "test $(id -u) = 0", weaken: innerRoot},
		{name: "has capabilities, or can get them", script: "grep -q '^Cap.*:.*[1-9a-f]' /proc/self/status", weaken: allCapabilities},
		{name: "opens a raw socket", script: `perl -MSocket -e 'exit(socket(S, AF_INET, SOCK_RAW, 1) ? 0 : 1)'`, weaken: allCapabilities},
		{name: "opens a packet socket", script: `perl -MSocket -e 'exit(socket(S, 17, SOCK_RAW, 0) ? 0 : 1)'`, weaken: both(allCapabilities, noFilter)},
		{name: "opens a socket of a rare family", script: `perl -MSocket -e 'exit(socket(S, 40, SOCK_STREAM, 0) ? 0 : 1)'`, weaken: noFilter},
		{name: "makes a user namespace", script: "unshare -U true", weaken: both(noFilter, drop("--disable-userns", 0))},
		{name: "sees a process of the host", script: fmt.Sprintf("test -e /proc/%d", os.Getpid()), weaken: hostPIDs},
		{name: "signals a process of the host", landlock: 6, script: fmt.Sprintf("kill -0 %d", h.victim), weaken: hostPIDs},
		{name: "reads the server's environment", script: "grep -q " + secretVariable + " /proc/1/environ", weaken: serverEnv},
		{name: "inherits the server's environment", script: "env | grep -q " + secretVariable, weaken: both(serverEnv, drop("--clearenv", 0))},
		{name: "inherits a file of the server", script: `perl -e 'opendir(D, "/proc/self/fd"); exit((grep { $_ > 3 } readdir(D)) ? 0 : 1)'`, weaken: func(w *weakened) { w.more = append(w.more, os.Stdin) }},
		{name: "runs a program of its own before the limits", script: "test -e /context/decoy/ran", env: map[string]string{"PATH": "/context/decoy:/usr/bin:/bin"}, weaken: callerFirst},
		{name: "has a library loaded before the limits", script: loaded, env: map[string]string{"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": "/context/decoy/ld"}, weaken: callerFirst},
		{name: "reads the limits and paths of a sandbox in /proc", script: `tr '\0' '\n' </proc/1/cmdline | grep -q -e Limit[s] -e Path[s]`, weaken: func(w *weakened) { w.first = []string{"env", `S={"Paths":[]}`} }},
		{name: "sees the host's name", script: "test $(uname -n) != ctxfs", weaken: both(drop("--hostname", 1), drop("--unshare-uts", 0))},
		{name: "sees the host's semaphores", script: fmt.Sprintf(`perl -e 'exit(defined(semget(%d, 1, 0)) ? 0 : 1)'`, h.semaphore), weaken: drop("--unshare-ipc", 0)},
		{name: "makes a setuid file by chmod", script: "touch f; chmod 4755 f; test -u f", weaken: noFilter},
		{name: "makes a setgid file by fchmod", script: `perl -e 'open(F, ">f"); chmod(02755, *F); exit(-g "f" ? 0 : 1)'`, weaken: noFilter},
		{name: "makes a setuid file by open", script: `perl -MFcntl -e 'umask 0; sysopen(F, "new$$", O_CREAT | O_WRONLY, 04755); exit(-u "new$$" ? 0 : 1)'`, weaken: noFilter},
		{name: "makes a setuid file by mknod", script: fmt.Sprintf(`perl -e 'umask 0; $n = "node$$"; syscall(%d, -100, $n, 0104755, 0); exit(-u $n ? 0 : 1)'`, unix.SYS_MKNODAT), weaken: noFilter},
		{name: "pushes input into a terminal", script: `perl -e '$x = "a"; ioctl(STDIN, 0x5412, $x); exit($! == 1 ? 1 : 0)'`, weaken: noFilter},
		{name: "pushes input by a request with high bits", script: fmt.Sprintf(`perl -e '$x = "a"; syscall(%d, 0, 0x100005412, $x); exit($! == 1 ? 1 : 0)'`, unix.SYS_IOCTL), weaken: noFilter},
		{name: "uses TIOCLINUX", script: `perl -e '$x = "a"; ioctl(STDIN, 0x541c, $x); exit($! == 1 ? 1 : 0)'`, weaken: noFilter},
	},
		call("keyctl", unix.SYS_KEYCTL, "0", "-3", "0"), call("add_key", unix.SYS_ADD_KEY, "0", "0", "0", "0", "0"), call("request_key", unix.SYS_REQUEST_KEY, "0", "0", "0", "0"),
		call("ptrace", unix.SYS_PTRACE, "0", "0", "0", "0"), call("process_vm_readv", unix.SYS_PROCESS_VM_READV, "$$+0", "0", "0", "0", "0", "0"),
		call("process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, "$$+0", "0", "0", "0", "0", "0"), call("pidfd_getfd", unix.SYS_PIDFD_GETFD, "-1", "0", "0"),
		call("unshare", unix.SYS_UNSHARE, "0"), call("setns", unix.SYS_SETNS, "-1", "0"), call("open_tree", unix.SYS_OPEN_TREE, "-100", "$a", "0"),
		call("mount", unix.SYS_MOUNT, "1", "1", "1", "0", "0"), call("clone3", unix.SYS_CLONE3, "0", "0"), call("openat2", unix.SYS_OPENAT2, "-100", "$a", "0", "0"),
		call("io_uring_setup", unix.SYS_IO_URING_SETUP, "1", "0"), call("io_uring_enter", unix.SYS_IO_URING_ENTER, "-1", "0", "0", "0", "0", "0"),
		call("bpf", unix.SYS_BPF, "7", "0", "0"), call("perf_event_open", unix.SYS_PERF_EVENT_OPEN, "0", "0", "0", "0", "0"), call("userfaultfd", unix.SYS_USERFAULTFD, "1"),
		call("name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, "-100", "$a", "0", "0", "0"), call("adjtimex", unix.SYS_ADJTIMEX, "0"), call("clock_settime", unix.SYS_CLOCK_SETTIME, "0", "0"),
	), slices.Concat(otherABIs(), ofProcess1())...)
}

// ofProcess1 are attempts to reach process 1, which is bwrap and has no limits. Landlock alone protects it: without Landlock the attempts succeed in each
// sandbox, and process 1 has nothing but standard files and the limits of the server's user.
func ofProcess1() []escape {
	if entry.Version() == 0 {
		return nil
	}
	nothing := func(*weakened) {}
	return []escape{
		{name: "opens the memory of process 1", landlock: 2, script: "true 3<>/proc/1/mem", weaken: nothing},
		{name: "reads the variables of process 1", landlock: 2, script: "cat /proc/1/environ", weaken: nothing},
		{name: "opens the program of process 1", landlock: 2, script: "true </proc/1/exe", weaken: nothing},
		{name: "names a file of process 1", landlock: 2, script: "readlink /proc/1/fd/1", weaken: nothing},
	}
}

// host is what of the machine the attempts are about.
type host struct {
	ws, abstract, device    string
	port, victim, semaphore int
}

func newHost(t *testing.T, s *site) *host {
	t.Helper()
	socket := filepath.Join(s.workspace, "host.sock")
	h := &host{ws: s.workspace, abstract: "ctxfs-test-" + filepath.Base(s.workspace)}
	open := filepath.Join(s.workspace, "open")
	if err := errors.Join(os.Mkdir(open, 0o777), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	for network, address := range map[string]string{"unix": socket, "unix ": "@" + h.abstract, "tcp": "127.0.0.1:0"} {
		l, err := net.Listen(strings.TrimSpace(network), address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			h.port = a.Port
		}
	}
	if err := os.Chmod(socket, 0o777); err != nil {
		t.Fatal(err)
	}
	h.sockets(t)
	if os.Geteuid() == 0 {
		node := filepath.Join(s.workspace, ".contexts", string(testContext), "null")
		if err := errors.Join(unix.Mknod(node, unix.S_IFCHR, int(unix.Mkdev(1, 3))), os.Chmod(node, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir("/dev")
	if err != nil {
		t.Fatal(err)
	}
	inside := []string{"null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "ptmx", "fd", "stdin", "stdout", "stderr", "core", "console"}
	for _, e := range entries {
		if !slices.Contains(inside, e.Name()) {
			h.device = e.Name()
		}
	}
	user := s.user(t)
	victim := osexec.Command("sleep", "1000")
	if os.Geteuid() == 0 {
		victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user.UID), Gid: uint32(user.GID)}}
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	h.victim, h.semaphore = victim.Process.Pid, 0x7c000000+victim.Process.Pid // another driver's test has its own
	const create, everybody = 0o1000, 0o666
	id, _, errno := unix.Syscall(unix.SYS_SEMGET, uintptr(h.semaphore), 1, create|everybody)
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID) })
	return h
}

// sockets listens as D-Bus, Docker and ctxfs do on a host.
func (h *host) sockets(t *testing.T) {
	t.Helper()
	for _, name := range []string{"run/dbus/system_bus_socket", "run/docker.sock", ".contexts/.ctxfs/ctxfs.sock"} {
		path := filepath.Join(h.ws, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *site) user(t *testing.T) User {
	t.Helper()
	user, err := s.sandbox.runAs()
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// TestEscapesAreRefused runs each attempt in the sandbox of each driver. Then it removes the protection, to see that the attempt would get
// out.
func TestEscapesAreRefused(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"perl", "bash", "unshare", "python3"} {
		if _, err := osexec.LookPath(program); err != nil {
			t.Skip("the attempts need ", program)
		}
	}
	onEachDriver(t, refusesEscapes)
}

// TestUserNSEscapesAreRefused does the same with a server that an ordinary user runs, in namespaces of its own.
func TestUserNSEscapesAreRefused(t *testing.T) {
	if !namespacestest.Inside() {
		t.Skip("run by TestInNamespaces")
	}
	refusesEscapes(t, newSite(t, "overlay-userns"))
}

// TestInNamespaces runs the tests of the driver that works in a user namespace, in one, as an ordinary user.
func TestInNamespaces(t *testing.T) {
	if namespacestest.Inside() {
		t.Skip("these tests are in one already")
	}
	t.Parallel()
	namespacestest.Run(t, "^TestUserNS")
}

func refusesEscapes(t *testing.T, s *site) {
	h := newHost(t, s)
	// The names are of programs that might run before a command.
	const decoys = `mkdir decoy && for n in setsid env nice prlimit ctxfs; do
		printf '#!/bin/sh\n: >/context/decoy/ran\nexec /usr/bin/%s "$@"\n' $n >decoy/$n && chmod 755 decoy/$n || exit 1; done`
	if exit, _, stderr := s.result(s.start(decoys)); exit.Code != 0 {
		t.Fatal(stderr)
	}
	if s.driver != "overlay" { // keeps the shared sandbox
		s.begin(Command{Sandbox: "dev", Network: byNames("a.test"), Argv: []string{"sleep", "1000"}})
	}
	for _, e := range escapes(h) {
		for _, cmd := range s.sandboxes() {
			cmd.Argv, cmd.Env = []string{"sh", "-c", e.script}, e.variables(s.workspace)
			if exit, out, stderr := s.result(s.begin(cmd)); exit.Reason != Exited || exit.Code == 0 || exit.Code > 125 {
				t.Errorf("%s, in sandbox %q with network %d, terminal %t: %+v, %s%s", e.name, cmd.Sandbox, cmd.Network.Mode, cmd.Pty != nil, exit, out, stderr)
			}
		}
		if s.driver == "overlay" || e.rootOnly && os.Geteuid() != 0 {
			continue // the protections are the same as with copy
		}
		if out, err := s.runWeakened(t, e, false); err != nil && e.twice {
			t.Logf("%s: this kernel refuses it without the protection too", e.name)
		} else if err != nil {
			t.Errorf("%s: the attempt fails without the protection too: %v, %s", e.name, err, out)
		}
		if e.landlock == 0 || entry.Version() < e.landlock {
			continue
		}
		if out, err := s.runWeakened(t, e, true); err == nil {
			t.Errorf("%s: Landlock does not refuse it where another protection is missing: %s", e.name, out)
		}
	}
}

// variables are those of the command. workspace is where it looks for the workspace.
func (e *escape) variables(workspace string) map[string]string {
	env := map[string]string{"WS": workspace}
	maps.Copy(env, e.env)
	return env
}

// sandboxes are commands in a sandbox of their own, and in a shared one with a network, both also with a terminal. overlay makes no
// difference to the others than the first.
func (s *site) sandboxes() []Command {
	if s.driver == "overlay" {
		return []Command{{}}
	}
	shared := Command{Sandbox: "dev", Network: byNames("a.test")}
	terminal, sharedTerminal := Command{Pty: &Pty{}}, shared
	sharedTerminal.Pty = &Pty{}
	return []Command{{}, terminal, shared, sharedTerminal}
}

// runWeakened runs an attempt in a sandbox without what protects against it, with Landlock or without.
func (s *site) runWeakened(t *testing.T, e escape, landlock bool) (string, error) {
	t.Helper()
	access, err := s.contexts.Acquire(t.Context(), testContext, contexts.Write)
	if err != nil {
		t.Fatal(err)
	}
	defer access.Release()
	root, err := rootfs.Descriptor(access.Root)
	if err != nil {
		t.Fatal(err)
	}
	user := s.user(t)
	vars := e.variables(shown)
	b, err := assemble(root, home, vars, user, tmpBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	program, err := b.program(thisProgram)
	if err != nil {
		t.Fatal(err)
	}
	w := &weakened{args: b.args, env: []string{}, user: user, ws: s.workspace, vars: vars}
	if w.step.Environment, err = b.environment(); err != nil {
		t.Fatal(err)
	}
	if landlock {
		w.step.Paths = b.permitted()
	}
	e.weaken(w)
	if w.err != nil {
		t.Fatal(w.err)
	}
	b.args = w.args
	if len(w.more) > 0 {
		w.step.Keep = 5 + len(b.files) // the files of the step and of the options come before it
	}
	step, err := b.step(w.step)
	if err != nil {
		t.Fatal(err)
	}
	argv := entry.Argv(program, step, "sh", "-c", e.script)
	cmd, err := b.command(*s.sandbox.bwrap.Load(), w.user, slices.Concat(w.first, argv))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Env, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = w.env, append(cmd.ExtraFiles, w.more...), &out, &out
	if err := s.starter.start(cmd); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	return out.String(), err
}
