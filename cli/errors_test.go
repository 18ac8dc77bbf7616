package cli

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/refusals"
)

// forPrograms are texts that the commands cannot be answered with: they are about fields that the commands set themselves.
var forPrograms = []string{
	"the context_id belongs to the batch, not to a step", "if_match and if_none_match are both set", "mode or mode_octal is required", "a buffer_size of", "a chunk_size of",
	"if_match and if_none_match need a path, not a handle", "atime_ns and mtime_ns are required", "WriteStream", "needs a flag that creates the file", "if_match needs a file that exists",
	"dest_if_match needs", "if_none_match is %.40q", "mode_octal %.20q", "a panel may call FsService", "set one of against and journal_id", "grace_ms is", "its host gets another by RenewToken",
	"set one of stdin, open_stdin and pty", "request_id", "a site of a snapshot has no live_reload", "a length of %d exceeds", "max_count is", "wall_ms of check",
}

// TestHintsOfTheServerBecomeCommands reads what the server's sources say to callers. The commands must not repeat the names of RPCs
// and of their fields.
func TestHintsOfTheServerBecomeCommands(t *testing.T) {
	t.Parallel()
	words := regexp.MustCompile(`\b(` + strings.Join(refusals.Names(), "|") + `)\b`)
	texts, err := refusals.Texts("..")
	if err != nil || len(texts) < 500 {
		t.Fatalf("%d texts were found: %v", len(texts), err)
	}
	for _, reason := range fserrpb.Reasons() {
		texts = append(texts, refusals.Text{File: "fserrpb", Text: path.Base(reason.ListedBy) + " lists them all"})
	}
	for _, text := range texts {
		programs := slices.ContainsFunc(forPrograms, func(part string) bool { return strings.Contains(text.Text, part) })
		if found := words.FindString(inCommands(text.Text)); found != "" && !programs {
			t.Errorf("%s: %q names %s: add it to commandWords", text.File, text.Text, found)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	names := []string{"context", "panel", "snapshot", "ls"}
	for word, want := range map[string]string{"contxt": "context", "Panle": "panel", "snapshots": "snapshot", "zebra": "", "l": "ls"} {
		if got := didYouMean(word, names); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
