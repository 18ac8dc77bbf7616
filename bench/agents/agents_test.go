package agents

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRunWritesARowForEachPair(t *testing.T) {
	if _, err := os.Stat("../../client/ts/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"); err != nil {
		t.Skip("make bench-peers installs it:", err)
	}
	for _, program := range []string{"node", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	var out bytes.Buffer
	dir := t.TempDir()
	if err := Run(t.Context(), Options{Source: "..", Dir: t.TempDir(), Out: dir, Rounds: 2, Time: time.Nanosecond, Files: 20}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| EditFile: ", "| Batch: 100 files", "| WatchChanges: ", "| MCP read_text_file: 4.00 KiB", "| MCP edit_file", "| Export: 20 files", "| tar -c "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), " 0.00 us |") {
		t.Errorf("a time is missing:\n%s", &out)
	}
	written, err := os.ReadFile(filepath.Join(dir, "agents.md"))
	if err != nil || !strings.HasSuffix(string(written), out.String()) {
		t.Errorf("agents.md: %v\n%s", err, written)
	}
}

func TestRatioAboveOneMeansThatCtxfsIsFaster(t *testing.T) {
	text := Options{Rounds: 1}.text([]Row{{What: "read", Other: "other", CtxfsTook: time.Millisecond, Theirs: 2 * time.Millisecond}})
	if !strings.Contains(text, "| 1.00 ms | other  | 2.00 ms |    2.00x |") {
		t.Error(text)
	}
}

func TestASideThatFailsIsAnError(t *testing.T) {
	works := side{"works", func(context.Context, int) error { return nil }}
	fails := side{"fails", func(_ context.Context, i int) error {
		if i > 0 {
			return errors.New("the second one fails")
		}
		return nil
	}}
	if _, err := (Options{Rounds: 1, Time: time.Nanosecond}).turns(t.Context(), pair{"both", works, fails}); err == nil || err.Error() != "fails: the second one fails" {
		t.Error(err)
	}
}
