package cli_test

import (
	"strings"
	"testing"
)

func TestFeedContinuesAtACursor(t *testing.T) {
	s := serve(t)
	begun := strings.Fields(s.ok("feed", "--no-follow"))
	if len(begun) != 2 || begun[0] != "ready" {
		t.Fatalf("the first feed prints %q", begun)
	}
	s.ok("mkdir", "/d")
	s.ok("mv", "README.md", "/d/moved")
	out := s.ok("feed", "--cursor", begun[1], "--no-follow")
	for _, want := range []string{"1  panels/test  Mkdir         /d\n", "2  panels/test  Rename        /README.md  /d/moved\n", "ready  "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if out := s.ok("feed", "/src", "--cursor", begun[1], "--no-follow"); strings.Contains(out, "Mkdir") {
		t.Errorf("the feed of /src has changes of others:\n%s", out)
	}
	if code, _, errs := s.run("--panel", "panels/other", "feed", "--cursor", begun[1]); code != 1 || !strings.Contains(errs, "without a cursor") {
		t.Errorf("a foreign cursor: exit %d, %s", code, errs)
	}
}
