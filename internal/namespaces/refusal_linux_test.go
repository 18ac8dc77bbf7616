package namespaces

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRefusalNamesTheSetting(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings settings
		err      error
		want     string
	}{
		{"switched off", settings{maximum: "0"}, unix.ENOSPC, "sysctl user.max_user_namespaces is 0"},
		{"used up", settings{maximum: "10"}, unix.ENOSPC, "as many user namespaces as sysctl user.max_user_namespaces allows (10)"},
		{"Debian", settings{clone: "0", maximum: "9"}, unix.EPERM, "sysctl kernel.unprivileged_userns_clone is 0"},
		{"Ubuntu", settings{clone: "1", apparmor: "1"}, unix.EACCES, "refused (EACCES): sysctl kernel.apparmor_restrict_unprivileged_userns is 1"},
		{"a container", settings{seccomp: true}, unix.EPERM, "refused (EPERM): by a seccomp filter"},
		{"a container with a user namespace", settings{nested: true}, unix.EPERM, "by the user namespace that ctxfs runs in"},
		{"a security module", settings{}, unix.EPERM, "by a security module"},
		{"an old kernel", settings{}, unix.EINVAL, "CONFIG_USER_NS"},
		{"nested", settings{}, unix.EUSERS, "nested too deeply"},
		{"something else", settings{}, unix.ENOENT, ""},
		{"something without errno", settings{}, errors.New("x"), ""},
	} {
		got := c.settings.refusal(fmt.Errorf("fork/exec: %w", c.err))
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
