package memory

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunWritesARowForEachOperation(t *testing.T) {
	for _, needed := range []string{"../peers/node/node_modules/memfs/package.json", "../../client/ts/dist/esm/sandbox/index.js"} {
		if _, err := os.Stat(needed); err != nil {
			t.Skip("make bench-peers installs it:", err)
		}
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip(err)
	}
	var out bytes.Buffer
	dir := t.TempDir()
	if err := Run(t.Context(), Options{Source: "..", Out: dir, Rounds: 1, Files: 20}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| write a new file", "| write an existing file", "| read a file", "| list 20 names", "| delete a file"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &out)
		}
	}
	written, err := os.ReadFile(filepath.Join(dir, "sandbox.md"))
	if err != nil || !strings.HasSuffix(string(written), out.String()) {
		t.Errorf("sandbox.md: %v\n%s", err, written)
	}
}

func TestMissingTimeIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "peers", "node"), 0o755); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "node"), []byte("#!/bin/sh\necho '{\"rows\":[{\"what\":\"read\",\"sandbox\":1,\"fs\":2}]}'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if err := Run(t.Context(), Options{Source: dir, Rounds: 1, Files: 1}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "read: a time is missing") {
		t.Errorf("a reply without the time of memfs: %v", err)
	}
}
