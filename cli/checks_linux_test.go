package cli_test

import (
	"regexp"
	"strings"
	"testing"
)

func TestCheckpointFromTheShell(t *testing.T) {
	s := execShell(t)
	code, _, stderr := s.run("exec", "--checkpoint", "panels/a", "--", "sh", "-c", "echo made > made.txt; echo package other > src/main.go; exit 3")
	found := regexp.MustCompile(`ctxfs diff --entry (\d+) ctx_panels~a; to take it back: ctxfs undo (\d+)`).FindStringSubmatch(stderr)
	if code != 3 || found == nil {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	s.expect("A\tmade.txt\nM\tsrc/main.go\n", "diff", "--entry", found[1], "--name-status", "panels/a")
	if patch := s.ok("diff", "--entry", found[1], "panels/a"); !strings.Contains(patch, "+package other") {
		t.Errorf("the patch is %s", patch)
	}
	if log := s.ok("log"); !strings.Contains(log, "exec") {
		t.Errorf("the log is %s", log)
	}
	s.ok("undo", found[2])
	s.expect("", "diff", "panels/a")
}

func TestApplyWithChecksFromTheShell(t *testing.T) {
	s := execShell(t)
	s.ok("exec", "panels/a", "--", "sh", "-c", "echo package edited > src/main.go")
	code, _, stderr := s.run("apply", "--all", "--unseen", "--check", "cat src/main.go; exit 1", "panels/a")
	if code != 1 || !strings.Contains(stderr, "package edited\n") || !strings.Contains(stderr, "exited with code 1") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if code, _, stderr := s.run("apply", "--all", "--unseen", "--check", "true", "--dry-run", "panels/a"); code != 2 {
		t.Errorf("exit %d, %q", code, stderr)
	}
	code, out, stderr := s.run("apply", "--all", "--unseen", "--check", "grep -q edited src/main.go", "--check-optional", "false", "panels/a")
	if code != 0 || !strings.Contains(out, "applied 1 file") || !strings.Contains(stderr, "check false: failed") {
		t.Errorf("exit %d, %q, %q", code, out, stderr)
	}
}

func TestLimitsFromTheShell(t *testing.T) {
	s := execShell(t)
	for _, c := range []struct {
		flag, value string
		code        int
		stderr      string
	}{
		{"--output", "1M", 125, "--output"},
		{"--tmp", "1MiB", 1, "No space left"},
		{"--memory", "much", 2, "size such as 64M"},
		{"--memory", "-1", 2, "size such as 64M"},
		{"--memory", "99999999T", 2, "size such as 64M"},
	} {
		if code, _, stderr := s.run("exec", c.flag, c.value, "panels/a", "--", "sh", "-c", "head -c 2M /dev/zero > /tmp/f && exec yes"); code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s %s: exit %d, %.200q; want %d, %q", c.flag, c.value, code, stderr, c.code, c.stderr)
		}
	}
}
