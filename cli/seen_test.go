package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/servertest"
)

// TestApplyTakesWhatWasShown has a panel change its files after the user has looked at them.
func TestApplyTakesWhatWasShown(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	if err := os.WriteFile(filepath.Join(ws, ".gitignore"), []byte(".env\nout/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "p"}}
	put := func(name, text string) {
		t.Helper()
		s.stdin = text
		s.ok("put", "-", name)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		code, out, errs := s.run(args...)
		if code != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %q, %q; want %q", args, code, out, errs, want)
		}
	}
	// look shows changes. It may name the rejection of what dir/a was before.
	look := func(args ...string) {
		t.Helper()
		if code, _, errs := s.run(args...); code != 0 || errs != "" && !strings.HasPrefix(errs, "decided, but changed since: dir/a rejected by host") {
			t.Fatalf("%v: exit %d, %q", args, code, errs)
		}
	}
	s.ok("mkdir", "/dir")
	put("/dir/a", "one\n")
	put("/dir/b", "one\n")
	for _, verb := range []string{"apply", "approve"} {
		for _, what := range []string{"--all", "dir", "dir/a"} {
			refused("has not shown you these changes", verb, "p", what)
		}
	}

	// Each command that shows changes is a look.
	look("diff", "p")
	for _, by := range [][]string{{"diff"}, {"changes"}, {"diff", "--stat"}, {"diff", "--name-status"}, {"changes", "--json"}, {"review"}} {
		put("/dir/a", strings.Join(by, " ")+"\n")
		refused("changed since you looked: dir/a", "approve", "p", "--all")
		s.stdin = "s\ns\n" // review: skip
		look(append(by, "p")...)
		s.ok("approve", "p", "--all")
		s.ok("reject", "p", "dir")
	}

	// A look against anything else than the base is none.
	put("/dir/a", "two\n")
	for _, by := range [][]string{{"diff", "p", "--against", "workspace"}, {"diff", "p", "dir/b"}} {
		look(by...)
		refused("changed since you looked: dir/a; look again with 'ctxfs diff'", "apply", "p", "dir")
	}
	// Earlier bytes were seen, and then others.
	look("diff", "p")
	put("/dir/a", "three\n")
	look("diff", "p", "dir")
	put("/dir/a", "two\n")
	for _, flag := range []string{"--no-merge", "--dry-run"} {
		refused("changed since you looked: dir/a", "apply", "p", "dir/a", flag)
		refused("changed since you looked: dir/a", "apply", "p", "--all", flag)
	}
	s.ok("apply", "p", "dir/a", "--dry-run", "--unseen")

	// New files below a directory were not seen, and neither was a removal.
	look("diff", "p")
	put("/dir/new", "new\n")
	refused("dir/new", "apply", "p", "dir")
	refused("dir/new", "apply", "p", "--all")
	s.ok("apply", "p", "dir/a")
	if got, err := os.ReadFile(filepath.Join(ws, "dir", "a")); err != nil || string(got) != "two\n" {
		t.Errorf("applied %q, %v", got, err)
	}
	s.ok("rm", "/dir/b")
	refused("no such change any more: dir/b", "apply", "p", "dir/b")
	put("/dir/b", "one\n")

	// Programs name the revision.
	var listed struct{ Summary struct{ Revision string } }
	if err := json.Unmarshal([]byte(s.ok("changes", "p", "--json")), &listed); err != nil || listed.Summary.Revision == "" {
		t.Fatalf("changes --json names the revision %q, %v", listed.Summary.Revision, err)
	}
	put("/dir/b", "two\n")
	for _, verb := range []string{"apply", "approve", "reject", "discard"} {
		refused("is at revision", verb, "p", "--all", "--revision", listed.Summary.Revision)
	}

	// What is left out is named.
	put("/.env", "SECRET=1\n")
	put("/Makefile", "all:\n")
	for _, args := range [][]string{{"apply", "p", "--all", "--unseen"}, {"approve", "p", "/", "--unseen"}, {"apply", "p", "/", "--unseen"}} {
		code, out, errs := s.run(args...)
		if got := out + errs; !strings.Contains(got, ".env") || !strings.Contains(got, "Makefile") {
			t.Errorf("%v: exit %d, %q", args, code, got)
		}
		if _, err := os.Lstat(filepath.Join(ws, ".env")); err == nil {
			t.Errorf("%v took the ignored file", args)
		}
	}
	s.ok("diff", "p", "/.env")
	s.ok("apply", "p", "/.env")

	// The revision of the changes does not say what a new ignored directory holds.
	s.ok("mkdir", "/out")
	put("/out/lib", "good\n")
	revision := func(flags ...string) string {
		t.Helper()
		if err := json.Unmarshal([]byte(s.ok(append([]string{"changes", "p", "--json"}, flags...)...)), &listed); err != nil {
			t.Fatal(err)
		}
		return listed.Summary.Revision
	}
	refused("name the revision that 'ctxfs changes --json --ignored' prints", "apply", "p", "out/lib", "--revision", revision())
	covering := revision("--ignored")
	put("/out/lib", "evil\n")
	refused("is at revision", "apply", "p", "out/lib", "--revision", covering)
	s.ok("apply", "p", "out/lib", "--revision", revision("--ignored"))

	// Nothing can be remembered without a home.
	s.env["HOME"] = ""
	put("/dir/c", "one\n")
	if _, _, errs := s.run("diff", "p"); !strings.Contains(errs, "cannot be remembered (HOME is not set)") {
		t.Errorf("without HOME, diff says %q", errs)
	}
	refused("HOME is not set; give --unseen, or --revision", "apply", "p", "dir")
	s.ok("apply", "p", "dir", "--unseen")
}

// TestReviewApprovesNoLinesThatItCuts has a line of which 'ctxfs review' shows the beginning.
func TestReviewApprovesNoLinesThatItCuts(t *testing.T) {
	s := serve(t)
	s.ok("panel", "open", "long")
	s.stdin = strings.Repeat("x", 5000) + " the end\n"
	s.ok("--panel", "long", "put", "-", "/long")
	s.stdin = "a\nq\n"
	got := s.ok("review", "long")
	for _, want := range []string{"once this has shown it: ctxfs diff ctx_long 'long'\n", "not approved: lines of it are not shown whole", "approved 0, rejected 0"} {
		if !strings.Contains(got, want) {
			t.Errorf("review says %.200q…, want %q", got[max(0, len(got)-600):], want)
		}
	}
	if code, _, errs := s.run("approve", "long", "long"); code == 0 || !strings.Contains(errs, "has not shown you these changes") {
		t.Errorf("approve after it: exit %d, %q", code, errs)
	}
	s.ok("diff", "long")
	s.ok("approve", "long", "long")
}

// TestDecisionsThatAreGoneCanBeWithdrawn approves what the panel takes back or changes then. Changes and diff name it with the commands that withdraw it.
func TestDecisionsThatAreGoneCanBeWithdrawn(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "p"}}
	put := func(p, content string) {
		t.Helper()
		s.stdin = content
		s.ok("put", "-", p)
	}
	put("/gone", "one\n")
	put("/edited", "one\n")
	s.ok("approve", "p", "--all", "--unseen")
	if got := s.ok("changes", "p"); strings.Contains(got, "decided") {
		t.Errorf("changes with the approved ones: %s", got)
	}
	s.ok("rm", "/gone")
	put("/edited", "two\n")
	gone := "decided, but gone: gone approved by host, and 'ctxfs apply' still writes it; to withdraw it: ctxfs reject ctx_p 'gone'\n"
	edited := "decided, but changed since: edited approved by host, and 'ctxfs apply' still writes what was approved; " +
		"decide again with 'ctxfs approve', or: ctxfs reject ctx_p 'edited'\n"
	if got := s.ok("changes", "p"); !strings.HasSuffix(got, "\n"+edited+gone) {
		t.Errorf("changes: %s", got)
	}
	for _, flag := range []string{"--unified=3", "--stat", "--name-status"} {
		_, out, errs := s.run("diff", "p", flag)
		if errs != edited+gone || strings.Contains(out, "decided") {
			t.Errorf("diff %s: %q, and on standard error %q", flag, out, errs)
		}
	}
	if _, _, errs := s.run("diff", "p", "/gone"); errs != gone {
		t.Errorf("diff of one path: %q", errs)
	}
	s.stdin = "q\n"
	if got := s.ok("review", "p"); !strings.HasPrefix(got, edited+gone+"\nedited   hunk 1 of 1") {
		t.Errorf("review: %s", got)
	}
	if _, _, errs := s.run("diff", "p", "--against", "workspace"); errs != "" {
		t.Errorf("diff against the workspace: %q", errs)
	}
	s.ok("reject", "ctx_p", "gone")
	s.ok("approve", "ctx_p", "edited")
	if got := s.ok("changes", "p") + s.ok("review", "p"); strings.Contains(got, "decided, ") {
		t.Errorf("changes and review after all was withdrawn: %s", got)
	}
	if got := s.ok("apply", "p", "--dry-run"); !strings.HasPrefix(got, "edited ") || strings.Contains(got, "gone") {
		t.Errorf("apply would write %s", got)
	}
}

// TestRejectionsOfFilesThatChangedSince rejects a file with two hunks, and a new one. The panel adds a line to both then.
func TestRejectionsOfFilesThatChangedSince(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	var text string
	for i := range 40 {
		text += fmt.Sprintf("line %d\n", i)
	}
	if err := os.WriteFile(filepath.Join(ws, "notes"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "p"}}
	put := func(p, content string) {
		t.Helper()
		s.stdin = content
		s.ok("put", "-", p)
	}
	put("/notes", "first\n"+text+"last\n")
	put("/new", "one\n")
	s.ok("reject", "p", "--all")
	put("/notes", "first\n"+strings.Replace(text, "line 20\n", "line 20\nbetween\n", 1)+"last\n")
	put("/new", "one\ntwo\n")
	got := s.ok("changes", "p")
	if want := "\ndecided, but changed since: new rejected by host, and not as it is now; decide again with 'ctxfs approve', or: ctxfs reject ctx_p 'new'\n"; !strings.HasSuffix(got, want) ||
		!strings.Contains(got, " M±  notes") {
		t.Errorf("changes: %s", got)
	}
	s.expect("approved: 2 files\nleft out  notes  2 of its hunks: rejected\n", "approve", "p", "--all")
}

// TestWhatCouldNotBePrintedWasNotSeen has a disk become full, or a reader go away, before the end of what shows changes.
func TestWhatCouldNotBePrintedWasNotSeen(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "p"}}
	for _, name := range []string{"/a", "/b", "/c"} {
		s.stdin = "new\n"
		s.ok("put", "-", name)
	}
	for _, look := range [][]string{{"changes"}, {"changes", "--json"}, {"diff"}, {"diff", "--stat"}, {"diff", "--name-status"}, {"review"}} {
		s.stdin = "s\ns\ns\n" // review: skip
		whole := len(s.ok(append(look, "p")...))
		s.env["XDG_STATE_HOME"] = t.TempDir()
		rooms := []int{1, whole / 2, whole - 1}
		if look[0] == "review" {
			rooms = rooms[:2] // it shows the last change before it asks
		}
		for _, s.room = range rooms {
			if code, out, errs := s.run(append(look, "p")...); code != 1 || len(out) != s.room || !strings.Contains(errs, "ENOSPC") {
				t.Errorf("%v with room for %d bytes: exit %d, %q, %q", look, s.room, code, out, errs)
			}
			s.room = 0
			if code, out, errs := s.run("approve", "p", "--all"); code != 1 || out != "" {
				t.Errorf("approve after %v: exit %d, %q, %q", look, code, out, errs)
			}
		}
	}
}
