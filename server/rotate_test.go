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
	t.Parallel()
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

	// The next process continues where this one ended.
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
	if _, err := openRotated(filepath.Dir(path), 10, 2); err == nil || !strings.Contains(err.Error(), "(a directory)") {
		t.Errorf("a directory was opened as a log: %v", err)
	}
}

// logOf holds lines in path and in path.1, path.2 and so on.
func logOf(t *testing.T, contents ...string) *rotatedFile {
	t.Helper()
	r := &rotatedFile{path: filepath.Join(t.TempDir(), "log"), maxSize: 10, keep: len(contents) - 1}
	for i, content := range contents {
		if err := os.WriteFile(r.numbered(i), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func (r *rotatedFile) wantLogs(t *testing.T, contents ...string) {
	t.Helper()
	for i, content := range contents {
		if data, err := os.ReadFile(r.numbered(i)); err != nil || string(data) != content {
			t.Errorf("%s holds %q, %v, want %q", filepath.Base(r.numbered(i)), data, err, content)
		}
	}
}

// TestRotatedFileKeepsWhatItHas while no new file can be made, as on a full disk.
func TestRotatedFileKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	r := logOf(t, "old ones.\n", "older\n", "oldest\n")
	if err := os.Mkdir(r.path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"a\n", "b\n", "c\n", "d\n"} {
		if n, err := r.Write([]byte(line)); err == nil || n != len(line) {
			t.Errorf("wrote %d of %q, %v", n, line, err)
		}
	}
	r.wantLogs(t, "old ones.\na\nb\nc\nd\n", "older\n", "oldest\n")
	if err := os.Remove(r.path + ".new"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write([]byte("e\n")); err != nil {
		t.Error(err)
	}
	r.wantLogs(t, "e\n", "old ones.\na\nb\nc\nd\n", "older\n")
}

// TestRotatedFileEndsALine that a crash or a full disk has left torn: the next one must not become a part of it.
func TestRotatedFileEndsALine(t *testing.T) {
	t.Parallel()
	r := logOf(t, "{\"op")
	r.maxSize = 100
	for range 2 {
		if n, err := r.Write([]byte("{}\n")); n != 3 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	r.wantLogs(t, "{\"op\n{}\n{}\n")
}
