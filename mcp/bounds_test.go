package mcp

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFenceOfManyBackticksIsBounded shows a diff whose only line is a run of backticks. The text is linear in the diff, and so is the time.
func TestFenceOfManyBackticksIsBounded(t *testing.T) {
	t.Parallel()
	s := &Server{limit: DefaultLimit}
	if got := s.fenced("+"+strings.Repeat("`", 1_000_000)+"\n", false); len(got) > 2*DefaultLimit {
		t.Errorf("the result has %d bytes", len(got))
	}
	run := strings.Repeat("`", DefaultLimit/2)
	if got, want := s.fenced("+"+run+"\n", false), "\n"+run+"`\n\n"; !strings.HasSuffix(got, want) || !strings.HasPrefix(got, run+"`diff\n+") {
		t.Errorf("the fence of a run of %d is shorter than the run and one", len(run))
	}
	if got := s.fenced("+a\n", false); got != "```diff\n+a\n```\n\n" {
		t.Errorf("a diff is %q", got)
	}
}

// TestSizeOfTreeIsEstimated compares what leastSize returns with the JSON: never more than it, and close to it for a deep tree.
func TestSizeOfTreeIsEstimated(t *testing.T) {
	t.Parallel()
	deep := []*branch{{Name: "file", Type: "file"}}
	for range 300 {
		below := deep
		deep = []*branch{{Name: "d", Type: "directory", Children: &below}}
	}
	for name, tree := range map[string][]*branch{"empty": {}, "file": {{Name: "a", Type: "file"}}, "deep": deep, "directory": {{Name: "d", Type: "directory", Children: &[]*branch{}}}} {
		data, err := json.MarshalIndent(tree, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if least := leastSize(tree, 0); least > len(data) || least < len(data)/3 {
			t.Errorf("%s: the size is %d, estimated as %d", name, len(data), least)
		}
	}
}
