package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRotatedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(r *rotatedFile, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if n, err := r.Write([]byte(line)); err != nil || n != len(line) {
				t.Fatalf("wrote %d of %q: %v", n, line, err)
			}
		}
	}
	want := func(contents ...string) {
		t.Helper()
		for i, content := range contents {
			name := path
			if i > 0 {
				name = (&rotatedFile{path: path}).numbered(i)
			}
			data, err := os.ReadFile(name)
			if string(data) != content || (content == "") != errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s holds %q, %v, want %q", filepath.Base(name), data, err, content)
			}
		}
	}
	r, err := openRotated(path, 10, 2)
	if err != nil {
		t.Fatal(err)
	}
	write(r, "one\n", "two\n")
	want("one\ntwo\n", "")
	write(r, "three\n")
	want("three\n", "one\ntwo\n", "")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write([]byte("late")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a closed file took a line: %v", err)
	}

	// The next process goes on where this one ended.
	if r, err = openRotated(path, 10, 2); err != nil {
		t.Fatal(err)
	}
	write(r, "4\n", "a line that is longer than the limit\n", "6\n", "7\n")
	want("6\n7\n", "a line that is longer than the limit\n", "three\n4\n", "")
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openRotated(filepath.Dir(path), 10, 2); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a directory was opened as a log: %v", err)
	}
}
