package namespaces

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"github.com/moby/sys/userns"
	"golang.org/x/sys/unix"
)

// settings are what may keep a user from having namespaces; "" is one that this kernel does not have.
type settings struct {
	// clone is kernel.unprivileged_userns_clone (Debian), maximum user.max_user_namespaces, apparmor
	// kernel.apparmor_restrict_unprivileged_userns (Ubuntu).
	clone, maximum, apparmor string
	seccomp, nested          bool
}

func readSettings() settings {
	read := func(name string) string {
		data, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	status, _ := os.ReadFile("/proc/self/status") // without it seccomp is not told
	return settings{
		clone: read("kernel/unprivileged_userns_clone"), maximum: read("user/max_user_namespaces"),
		apparmor: read("kernel/apparmor_restrict_unprivileged_userns"),
		seccomp:  bytes.Contains(status, []byte("\nSeccomp:\t2")), nested: userns.RunningInUserNS(),
	}
}

// refusal names what made the start of a process in a user namespace fail, "" when that was something else.
func (s settings) refusal(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC) && s.maximum == "0":
		return "user namespaces are off: sysctl user.max_user_namespaces is 0"
	case errors.Is(err, unix.ENOSPC):
		return "there are as many user namespaces as sysctl user.max_user_namespaces allows (" + s.maximum + "), or they are nested too deeply"
	case errors.Is(err, unix.EUSERS):
		return "user namespaces are nested too deeply"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return "the kernel has no user namespaces (CONFIG_USER_NS)"
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES):
		return ""
	}
	return "user namespaces are refused (" + errnoName(err) + "): " + s.forbids()
}

func errnoName(err error) string {
	if errors.Is(err, unix.EACCES) {
		return "EACCES"
	}
	return "EPERM"
}

// forbids names what most likely answered EPERM.
func (s settings) forbids() string {
	switch {
	case s.clone == "0":
		return "sysctl kernel.unprivileged_userns_clone is 0"
	case s.apparmor == "1":
		return "sysctl kernel.apparmor_restrict_unprivileged_userns is 1, and AppArmor has no profile that allows them to ctxfs"
	case s.seccomp:
		return "by a seccomp filter (a container's?)"
	case s.nested:
		return "by the user namespace that ctxfs runs in (a container's?)"
	}
	return "by a security module, or in a chroot"
}

// Forbids names the setting that most likely refuses a mount within the namespaces, which could be had; "" when none is known.
func Forbids() string {
	s := readSettings()
	switch {
	case s.apparmor == "1":
		return s.forbids()
	case s.seccomp:
		return "by a seccomp filter (a container's?)"
	}
	return ""
}
