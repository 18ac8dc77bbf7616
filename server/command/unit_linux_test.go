package command_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unitLines returns the settings of a unit.
func unitLines(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile("../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// TestUnitForCommandsDiffersWhereSandboxesNeedIt compares both units: a setting that is added to one must be thought of for the other.
func TestUnitForCommandsDiffersWhereSandboxesNeedIt(t *testing.T) {
	t.Parallel()
	plain, exec := unitLines(t, "ctxfs@.service"), unitLines(t, "ctxfs-exec@.service")
	less := slices.DeleteFunc(slices.Clone(plain), func(l string) bool { return slices.Contains(exec, l) })
	more := slices.DeleteFunc(slices.Clone(exec), func(l string) bool { return slices.Contains(plain, l) })
	wantLess := []string{
		"Description=ctxfs for the workspace %f", "ProtectProc=invisible", "ProtectKernelTunables=yes", "ProtectKernelLogs=yes", "ProtectControlGroups=yes", "ProtectHostname=yes",
		"RestrictNamespaces=yes", "MemoryDenyWriteExecute=yes", "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6", "SystemCallFilter=@system-service",
		"SystemCallFilter=~@privileged @resources", "SystemCallFilter=@chown setpriority prlimit64",
	}
	wantMore := []string{
		"Description=ctxfs for the workspace %f, with commands", "Delegate=memory pids cpu", "OOMPolicy=continue",
		"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK", "SystemCallFilter=~@clock @module @reboot @swap @raw-io @cpu-emulation @obsolete",
	}
	if !slices.Equal(less, wantLess) || !slices.Equal(more, wantMore) {
		t.Errorf("the unit for commands lacks %q and has %q; want %q and %q", less, more, wantLess, wantMore)
	}
}

// TestUnitsAreValid has systemd read both units, with a program that this machine has.
func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	for _, name := range []string{"ctxfs@.service", "ctxfs-exec@.service"} {
		data, err := os.ReadFile("../../deploy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		verify := func(content string) string {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			return string(out)
		}
		unit := regexp.MustCompile(`(?m)^(Exec\w+=)ctxfs `).ReplaceAllString(string(data), "${1}/bin/true ")
		if out := verify(unit); out != "" {
			t.Errorf("%s: %s", name, out)
		}
		if out := verify(unit + "\nNoSuchSetting=1\n"); !strings.Contains(out, "NoSuchSetting") {
			t.Errorf("%s: a setting that does not exist is not reported: %q", name, out)
		}
	}
}
