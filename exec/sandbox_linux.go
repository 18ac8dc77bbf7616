package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/exec/entry"
)

// systemDirs are bound read-only, or copied as links, as the host has them.
var systemDirs = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// systemFiles are bound read-only if the host has them. None of them holds a secret.
var systemFiles = []string{
	"/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/protocols", "/etc/services",
}

// bundle is what a bwrap is started with: options, and the files that they name by descriptor. The caller closes it.
type bundle struct {
	files []*os.File
	args  []string
	// env has the command's variables as NAME=VALUE. bwrap itself, and what runs before the limits hold, have none of them.
	env []string
	// beside is the number of other sandboxes of the context.
	beside int
	// begin is the descriptor of Step.Begin.
	begin int
	// unrestricted is set in tests: the sandbox then is that of a kernel without Landlock.
	unrestricted bool
}

func (b *bundle) add(args ...string) { b.args = append(b.args, args...) }

// pass adds a file, and returns the number that it has in bwrap.
func (b *bundle) pass(f *os.File) string {
	b.files = append(b.files, f)
	return strconv.Itoa(2 + len(b.files))
}

// thisProgram is by its inode: an upgrade may have replaced the file.
const thisProgram = "/proc/self/exe"

// program passes this program, or a copy of it, and returns its path in the sandbox.
func (b *bundle) program(path string) (string, error) {
	f, err := reference(path)
	if err != nil {
		return "", err
	}
	return "/proc/self/fd/" + b.pass(f), nil
}

// enter returns the arguments that do a step in the sandbox and then become argv. The sandbox must have everything that it shows: Landlock
// permits these paths alone.
func (b *bundle) enter(s entry.Step, argv ...string) ([]string, error) {
	program, err := b.program(thisProgram) // it is gone before a command begins
	if err != nil {
		return nil, err
	}
	if s.Environment, err = b.environment(); err != nil {
		return nil, err
	}
	s.Inside, s.Begin, s.Quotas = true, b.begin, quotas(b.beside)
	if !b.unrestricted {
		s.Paths = append(s.Paths, b.permitted()...)
	}
	fd, err := b.step(s)
	if err != nil {
		return nil, err
	}
	return entry.Argv(program, fd, argv...), nil
}

// step passes a step, and returns the descriptor of its file.
func (b *bundle) step(s entry.Step) (fd string, err error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return b.data(data)
}

// environment passes the variables, and returns the descriptor of their file.
func (b *bundle) environment() (int, error) {
	fd, err := b.data(terminated(b.env))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(fd)
}

// terminated returns strings with a NUL behind each.
func terminated(list []string) []byte { return []byte(strings.Join(list, "\x00") + "\x00") }

// terminals passes the directory that has the terminals of commands which start later, and returns its descriptor. It is not shown.
func (b *bundle) terminals() (int, error) {
	fd, err := unix.Open("/dev/pts", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: "/dev/pts", Err: err}
	}
	return strconv.Atoi(b.pass(os.NewFile(uintptr(fd), "/dev/pts")))
}

// permitted lists the paths that the sandbox shows, for Landlock.
func (b *bundle) permitted() []entry.Path {
	list := []entry.Path{{Path: "/", Access: entry.List}}
	mounts, _ := b.describe()
	for _, m := range mounts {
		access := entry.Execute
		switch {
		case m.Kind == "link":
			continue
		case m.Kind == "data", m.Kind == "proc": // a command that writes its oom_score_adj would not end before the server
			access = entry.Read
		case m.Kind == "dev":
			access = entry.Use
		case m.Writable:
			access = entry.All
		}
		list = append(list, entry.Path{Path: m.Path, Access: access})
	}
	return list
}

// data passes content as a file that bwrap reads.
func (b *bundle) data(content []byte) (fd string, err error) {
	f, err := memoryFile(content)
	if err != nil {
		return "", err
	}
	return b.pass(f), nil
}

func (b *bundle) close() {
	for _, f := range b.files {
		_ = f.Close() // it was only read
	}
}

// memoryFile returns a file without a name that has content, to be read from its beginning.
func memoryFile(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("ctxfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "memory")
	if _, err := f.WriteAt(content, 0); err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return f, nil
}

// addition changes what a sandbox is given, before its root becomes read-only.
type addition func(*bundle) error

// assemble makes the options of a sandbox in which user runs a command in dir with env and a /tmp of a size. root is the context's folder, which
// it takes over. The caller adds --new-session unless the command has a terminal of its own.
func assemble(root *os.File, dir string, env map[string]string, user User, tmp int64, more ...addition) (b *bundle, err error) {
	made := &bundle{env: environment(env)}
	b = made
	defer func() {
		if err != nil {
			made.close()
		}
	}()
	rootFD := b.pass(root)
	b.add("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup", "--disable-userns")
	b.add("--uid", strconv.Itoa(user.UID), "--gid", strconv.Itoa(user.GID), "--cap-drop", "ALL")
	b.add("--die-with-parent", "--hostname", "ctxfs", "--clearenv")
	b.system()
	if err := b.identities(user); err != nil {
		return nil, err
	}
	b.add("--proc", "/proc", "--dev", "/dev", "--size", strconv.Itoa(shmBytes), "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
	b.add("--size", strconv.FormatInt(tmp, 10), "--perms", "1777", "--tmpfs", "/tmp", "--size", strconv.Itoa(homeBytes), "--perms", "0700", "--tmpfs", agentHome)
	b.add("--dir", "/run", "--bind-fd", rootFD, home)
	for _, add := range more {
		if err := add(b); err != nil {
			return nil, err
		}
	}
	b.add("--remount-ro", "/", "--chdir", dir)
	filter, err := seccompFilter()
	if err != nil {
		return nil, err
	}
	fd, err := b.data(filter)
	if err != nil {
		return nil, err
	}
	b.add("--add-seccomp-fd", fd)
	return b, nil
}

func (b *bundle) system() {
	b.add("--ro-bind", "/usr", "/usr")
	for _, dir := range systemDirs {
		if target, err := os.Readlink(dir); err == nil {
			b.add("--symlink", target, dir)
		} else {
			b.add("--ro-bind-try", dir, dir)
		}
	}
	for _, file := range systemFiles {
		b.add("--ro-bind-try", file, file)
	}
}

// identities adds the files in /etc that name users, groups and hosts.
func (b *bundle) identities(user User) error {
	for _, f := range []struct{ path, content string }{
		{"/etc/passwd", fmt.Sprintf("agent:x:%d:%d:agent:%s:/bin/sh\n", user.UID, user.GID, agentHome)},
		{"/etc/group", fmt.Sprintf("agent:x:%d:\n", user.GID)},
		{"/etc/hosts", "127.0.0.1 localhost ctxfs\n::1 localhost\n"},
		{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
		{"/etc/resolv.conf", ""},
	} {
		fd, err := b.data([]byte(f.content))
		if err != nil {
			return err
		}
		b.add("--perms", "0444", "--ro-bind-data", fd, f.path)
	}
	return nil
}

// command returns the bwrap that runs argv. It has an empty environment, and the options stand in a file, so that /proc shows neither.
func (b *bundle) command(bwrap string, user User, argv []string) (*osexec.Cmd, error) {
	args := b.args
	if st, err := os.Stat(bwrap); err == nil && st.Mode()&os.ModeSetuid == 0 {
		// The first sets the quotas. The second lets the first step give both up for all that it becomes.
		args = append(args[:len(args):len(args)], "--cap-add", "CAP_SYS_RESOURCE", "--cap-add", "CAP_SETPCAP")
	} // else bwrap refuses the option
	fd, err := b.data(terminated(args))
	if err != nil {
		return nil, err
	}
	// It outlives the call that starts it.
	cmd := osexec.CommandContext(context.Background(), bwrap, append([]string{"--args", fd, "--"}, argv...)...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{}, "/", b.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user.UID), Gid: uint32(user.GID)}
	}
	return cmd, nil
}

// lookUp finds bwrap as an absolute path.
func lookUp() (string, error) {
	path, err := osexec.LookPath("bwrap")
	if err != nil {
		return "", &Unavailable{"bubblewrap is not installed", "apt install bubblewrap"}
	}
	return filepath.Abs(path)
}
