package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEditFromTheShell(t *testing.T) {
	s := serve(t)
	s.stdin = "one\ntwo\nthree\ntwo\n"
	s.ok("put", "-", "/f")
	s.stdin = ""
	const diff = "--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n-one\n+1\n two\n three\n two\n"
	s.expect(diff, "edit", "f", "--old", "one", "--new", "1", "--dry-run")
	s.expect("one\n", "cat", "f", "--lines", "1")
	s.expect(diff, "edit", "f", "--old", "one", "--new", "1")
	s.ok("edit", "f", "--old", "two", "--new", "2", "--all")
	s.ok("edit", "f", "--lines", "2-1", "--new", "1.5")
	s.expect("1\n1.5\n2\nthree\n2\n", "cat", "f")
	s.expect("1.5\n2\n", "cat", "f", "--lines", "2-3")
	s.expect("", "cat", "f", "--lines", "9")
	for want, args := range map[string][]string{
		"ctxfs: EINVAL: the text of --old occurs 2 times, in lines 3, 5; add text around it until it occurs once, or use --all or --lines, edit 'f'\n":                                                {"--old", "2\n"},
		"ctxfs: EINVAL: the text of --old is not in the file; the nearest lines are 4: \"three\"; read these lines again, and copy --old from the file exactly, with its spaces and tabs, edit 'f'\n": {"--old", "thre e"},
		"ctxfs: edit needs one of --old and --lines\n":           {"--new", "x"},
		"ctxfs: --lines is \"x\"; give lines such as 3-5 or 3\n": {"--lines", "x"},
		"ctxfs: EINVAL: lines 9 to 9 are not in the file, which has 5; read the file again; --lines 5-4 inserts before line 5, edit 'f'\n": {"--lines", "9"},
	} {
		if code, _, errs := s.run(append([]string{"edit", "f"}, args...)...); code == 0 || errs != want {
			t.Errorf("edit %q: exit %d\n%swant\n%s", args, code, errs, want)
		}
	}
}

func TestPutWithAnEtag(t *testing.T) {
	s := serve(t)
	local := filepath.Join(t.TempDir(), "f")
	etag := func() string {
		t.Helper()
		for line := range strings.Lines(s.ok("stat", "f")) {
			if tag, ok := strings.CutPrefix(line, "etag"); ok {
				return strings.TrimSpace(tag)
			}
		}
		t.Fatal("stat prints no etag")
		return ""
	}
	for _, size := range []int{1, 100 << 10} { // one call, and a stream
		must(t, os.WriteFile(local, make([]byte, size), 0o600))
		s.ok("put", local, "/f")
		before := etag()
		s.ok("put", local, "/f", "--if-match", before)
		code, _, errs := s.run("put", local, "/f", "--if-match", before)
		if code != 1 || !strings.Contains(errs, "ESTALE: the file has changed: its etag is "+etag()+", and not that of --if-match; read the file again") {
			t.Errorf("put with an earlier etag: exit %d, %s", code, errs)
		}
		code, _, errs = s.run("edit", "f", "--lines", "1", "--new", "x", "--if-match", before)
		if code != 1 || !strings.Contains(errs, "ESTALE") {
			t.Errorf("edit with an earlier etag: exit %d, %s", code, errs)
		}
	}
	if code, _, errs := s.run("put", filepath.Dir(local), "/", "--if-match", "x"); code != 2 || !strings.Contains(errs, "--if-match needs a file") {
		t.Errorf("put of a directory: exit %d, %s", code, errs)
	}
}
