package ring

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogKeepsItsNewestLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	log := &File{File: file, Most: 1000}
	for i := range 500 {
		if _, err := fmt.Fprintf(log, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) > 1000 {
			t.Fatalf("%d bytes after line %d, %v", len(data), i, err)
		}
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		for at, line := range lines {
			if want := fmt.Sprintf("line %d", i-len(lines)+1+at); line != want {
				t.Fatalf("after line %d: %q instead of %q", i, line, want)
			}
		}
		if i > 100 && len(lines) < 30 {
			t.Fatalf("%d lines are left after line %d", len(lines), i)
		}
	}
	if _, err := log.Write([]byte(strings.Repeat("x", 5000))); err != nil { // one line that is larger than all
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() > 1000 {
		t.Errorf("%d bytes, %v", st.Size(), err)
	}
}
