package exec

import (
	"context"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/exec/entry"
)

// sandboxes knows whether this machine can isolate commands, and for which user.
type sandboxes struct {
	user *User
	// works is set when a command ran.
	works atomic.Bool
	bwrap atomic.Pointer[string]
	// unrestricted is set in tests: shared sandboxes then are those of a kernel without Landlock.
	unrestricted bool
}

// probe fails with *Unavailable if commands cannot be isolated here. It runs a command until one has succeeded.
func (s *sandboxes) probe(ctx context.Context, starter *starter) error {
	if s.works.Load() {
		return nil
	}
	user, err := s.runAs()
	if err != nil {
		return err
	}
	bwrap, err := lookUp()
	if err != nil {
		return err
	}
	if err := checkFeatures(ctx, starter, bwrap); err != nil {
		return err
	}
	s.bwrap.Store(&bwrap)
	if err := s.runTrue(ctx, starter, bwrap, user); err != nil {
		return err
	}
	s.works.Store(true)
	return nil
}

// runAs returns the user of commands, which is never root.
func (s *sandboxes) runAs() (User, error) {
	user := User{os.Geteuid(), os.Getegid()}
	if s.user != nil {
		user = *s.user
	}
	if user.UID == 0 || user.GID == 0 {
		return user, &Unavailable{"a command must not run as root, and the workspace belongs to root too", "ctxfs serve --exec-user UID:GID, a user that is not root"}
	}
	return user, nil
}

// features are the options that bwrap needs beyond those of its first versions.
var features = []string{"--bind-fd", "--ro-bind-fd", "--disable-userns", "--json-status-fd", "--add-seccomp-fd", "--args", "--size"}

// maxHelp bounds what bwrap says about its options, in bytes.
const maxHelp = 64 << 10

func checkFeatures(ctx context.Context, starter *starter, bwrap string) error {
	help, err := memoryFile(nil)
	if err != nil {
		return err
	}
	defer help.Close()
	cmd := osexec.CommandContext(ctx, bwrap, "--help")
	cmd.Env, cmd.Stdout = []string{}, help
	err = starter.start(cmd)
	switch {
	case ctx.Err() != nil && err != nil:
		return ctx.Err()
	case err != nil:
		return &Unavailable{"bwrap cannot be started: " + err.Error(), ""}
	}
	if err := cmd.Wait(); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	out, err := io.ReadAll(io.NewSectionReader(help, 0, maxHelp))
	if err != nil {
		return err
	}
	for _, option := range features {
		if !strings.Contains(string(out), option+" ") {
			return &Unavailable{fmt.Sprintf("%s has no option %s", bwrap, option), "install bubblewrap 0.10, or a version that your distribution has patched"}
		}
	}
	return nil
}

// runTrue runs true(1) in a sandbox.
func (s *sandboxes) runTrue(ctx context.Context, starter *starter, bwrap string, user User) error {
	fd, err := unix.Open("/usr/share", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &Unavailable{"/usr/share cannot be opened: " + err.Error(), ""}
	}
	b, err := assemble(os.NewFile(uintptr(fd), "/usr/share"), home, nil, user, tmpBytes)
	if err != nil {
		return &Unavailable{err.Error(), ""}
	}
	defer b.close()
	b.add("--new-session")
	argv, err := b.enter(Limits{}.step(0), "true")
	if err != nil {
		return err
	}
	cmd, err := b.command(bwrap, user, argv)
	if err != nil {
		return err
	}
	complaint, err := memoryFile(nil)
	if err != nil {
		return err
	}
	defer complaint.Close()
	cmd.Stderr = complaint
	if err := starter.start(cmd); err != nil {
		return &Unavailable{"bwrap cannot be started: " + err.Error(), ""}
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it may have ended
	err = cmd.Wait()
	if !stop() {
		return ctx.Err()
	}
	if err != nil {
		text := make([]byte, 4<<10)
		n, _ := complaint.ReadAt(text, 0) // less is no error here
		return &Unavailable{explain(string(text[:n])), remedy(string(text[:n]))}
	}
	return nil
}

// explain returns the first line of what bwrap wrote.
func explain(complaint string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(complaint), "\n")
	if line == "" {
		return "bwrap failed without a message"
	}
	if strings.Contains(line, "source path") && strings.Contains(line, "Permission denied") {
		return line + ": the user that runs commands cannot reach the folder of the context, or one of its profile; it needs the x permission on every directory above"
	}
	return line
}

// remedies has what helps against messages of bwrap, by a part of them.
var remedies = []struct{ part, remedy string }{
	{"execvp /proc/self/fd", "let everybody execute the ctxfs program: chmod a+rx"},
	{"No permissions to create", "allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces=15000; in a container, a seccomp profile that allows them"},
	{"Creating new namespace failed", "allow user namespaces: sysctl user.max_user_namespaces=15000; in a container, a seccomp profile that allows them"},
	{"uid map", "allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap"},
	{"mount proc", "a fresh /proc needs an unmasked one: in a container systempaths=unconfined; in a systemd unit neither ProtectKernelTunables nor ProtectProc"},
	{"loopback", "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap"},
	{"Unexpected capabilities", "start the server without ambient capabilities"},
}

func remedy(complaint string) string {
	for _, r := range remedies {
		if strings.Contains(complaint, r.part) {
			return r.remedy
		}
	}
	return ""
}

// Version is what bwrap says of itself, "" if it cannot be run.
func Version(ctx context.Context) string {
	out, err := osexec.CommandContext(ctx, "bwrap", "--version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Protections names what isolates commands here.
func Protections() string {
	if entry.Version() == 0 {
		return "user namespaces and a filter of system calls; the kernel has no Landlock, a second protection of files"
	}
	return "user namespaces, a filter of system calls and Landlock"
}

// Check reports whether commands can be isolated here, by running one. It fails with *Unavailable.
func Check(ctx context.Context, user *User) error {
	starter := newStarter()
	defer starter.close()
	return (&sandboxes{user: user}).probe(ctx, starter)
}
