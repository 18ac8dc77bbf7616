//go:build unix

package statedir

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOnlyPlainFilesAreOpened puts other things in the place of a file. No open waits for another program or follows a link.
func TestOnlyPlainFilesAreOpened(t *testing.T) {
	const limit = 8
	victim := filepath.Join(t.TempDir(), "victim")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for is, make := range map[string]func(path string) error{
		"a FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":      func(path string) error { return os.Symlink(victim, path) },
		"a socket": func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
		"it has more than 8 bytes": func(path string) error { return os.WriteFile(path, []byte("123456789"), 0o600) },
	} {
		must(os.WriteFile(victim, []byte("kept"), 0o600))
		path := filepath.Join(t.TempDir(), "f")
		must(make(path))
		_, err := ReadFile(path, limit)
		for how, err := range map[string]error{"read": err, "write": WriteFile(path, nil, 0o600)} {
			other, ok := errors.AsType[*NotPlainError](err)
			if how == "write" && strings.HasPrefix(is, "it has") {
				if err != nil {
					t.Errorf("write to a plain file: %v", err)
				}
			} else if !ok || other.Is != is || other.Path != path {
				t.Errorf("%s %s: %v", how, is, err)
			}
		}
		if data, err := os.ReadFile(victim); err != nil || string(data) != "kept" {
			t.Errorf("%s: the file outside has %q, %v", is, data, err)
		}
	}
	path := filepath.Join(t.TempDir(), "f")
	if _, err := ReadFile(path, limit); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	must(WriteFile(path, []byte("12345678"), 0o600))
	if data, err := ReadFile(path, limit); err != nil || string(data) != "12345678" {
		t.Errorf("a file: %q, %v", data, err)
	}
}
