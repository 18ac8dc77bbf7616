package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBatchFromTheShell(t *testing.T) {
	s := serve(t)
	s.stdin = `[{"writeFile": {"path": "a.txt", "text": "one\n"}}, {"mkdir": {"path": "d"}}, {"rename": {"path": "a.txt", "dest": "d/b.txt"}}]`
	s.expect("steps carried out: 3, 4 B\n", "batch", "-")
	s.expect("one\n", "cat", "d/b.txt")
	file := filepath.Join(t.TempDir(), "steps.json")
	steps := `{"steps": [{"editFile": {"path": "d/b.txt", "edits": [{"oldText": "one", "newText": "two"}]}}, {"rm": {"path": "nowhere"}}]}`
	if err := os.WriteFile(file, []byte(steps), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"batch", file}, {"batch", "--dry-run", file}} {
		code, _, errs := s.run(args...)
		if want := "ctxfs: ENOENT: no such file or directory (steps[1]; nothing was changed), rm 'nowhere'\n"; code != 1 || errs != want {
			t.Errorf("%v: exit %d, %q, want %q", args, code, errs, want)
		}
	}
	s.expect("one\n", "cat", "d/b.txt")
	s.stdin = `[{"editFile": {"path": "d/b.txt", "edits": [{"oldText": "one", "newText": "two"}]}}]`
	s.expect("diff --git a/d/b.txt b/d/b.txt\n--- a/d/b.txt\n+++ b/d/b.txt\n@@ -1 +1 @@\n-one\n+two\n", "batch", "--dry-run", "-")
	s.expect("one\n", "cat", "d/b.txt")
	for text, want := range map[string]string{`[{"write": {}}]`: "is no list of steps", `{"context_id": "ctx_x", "steps": []}`: "name the context with -c ID", `[]`: "1 to 1000 steps"} {
		s.stdin = text
		if code, _, errs := s.run("batch", "-"); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, want %q", text, code, errs, want)
		}
	}
}
