//go:build unix

package catalog

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMarkersOfAnotherKindAreNotOpened puts other things in the place of the files that Make reads. A start neither waits for them nor
// changes a file that a link leads to.
func TestMarkersOfAnotherKindAreNotOpened(t *testing.T) {
	kinds := map[string]func(t *testing.T, path, victim string) error{
		"FIFO":      func(_ *testing.T, path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(_ *testing.T, path, _ string) error { return os.Mkdir(path, 0o700) },
		"link":      func(_ *testing.T, path, victim string) error { return os.Symlink(victim, path) },
		"large file": func(_ *testing.T, path, _ string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 1<<40)
		},
		"socket": func(t *testing.T, path, _ string) error {
			t.Chdir(filepath.Dir(path)) // the path of a socket is short
			l, err := net.Listen("unix", filepath.Base(path))
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
	}
	for _, name := range []string{".gitignore", ".ignore", ".metadata_never_index", ".git", StateDir + "/FORMAT"} {
		for kind, put := range kinds {
			t.Run(name+" is a "+kind, func(t *testing.T) {
				l, err := NewLayout(t.TempDir(), "")
				must(t, err)
				must(t, os.MkdirAll(l.State, 0o700))
				victim := filepath.Join(t.TempDir(), "victim")
				must(t, os.WriteFile(victim, []byte("*\n"), 0o600))
				path := filepath.Join(l.Dir, name)
				must(t, put(t, path, victim))
				made := make(chan error, 1)
				go func() { made <- l.Make("0.1.0") }()
				select {
				case err = <-made:
				case <-time.After(time.Minute):
					t.Fatal("the start waits")
				}
				if refused := path == l.Format; refused != (err != nil) || refused && !strings.Contains(err.Error(), path) {
					t.Errorf("the start: %v", err)
				}
				if data, err := os.ReadFile(victim); err != nil || string(data) != "*\n" {
					t.Errorf("the file outside has %q, %v", data, err)
				}
			})
		}
	}
}
