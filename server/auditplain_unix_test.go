//go:build unix

package server

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/internal/statedir"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestAuditLogIsPlainFiles has something else in the place of a file of the audit log. No call waits for it, and the
// file that a link leads to is neither read nor changed.
func TestAuditLogIsPlainFiles(t *testing.T) {
	t.Parallel()
	read := func(b *auditBook, before string) error {
		ignore := func(*ctxfsv1.ReadAuditResponse) error { return nil }
		return b.Read(b.Context(), &ctxfsv1.ReadAuditRequest{Before: before}, ignore)
	}
	for name, c := range map[string]struct {
		// suffix ends the name of the file. oldest is the cursor of an entry in the last file.
		suffix string
		act    func(b *auditBook, oldest string) error
	}{
		"read from the end":  {"", func(b *auditBook, _ string) error { return read(b, "") }},
		"read an older file": {".1", func(b *auditBook, _ string) error { return read(b, "") }},
		"look for a cursor":  {".1", read},
		"continue a log": {"", func(b *auditBook, _ string) error {
			_, err := openRotated(b.file.path, 1, 2)
			return err
		}},
		"begin a file of a log": {".new", func(b *auditBook, _ string) error {
			_, err := b.file.Write([]byte("{}\n"))
			return err
		}},
	} {
		for kind, put := range map[string]func(victim, path string) error{
			"a FIFO": func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
			"a link": os.Symlink,
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				b := newAuditBook(t, 1, 2) // each entry has a file
				b.writeMany(3)
				_, ready := b.page(&ctxfsv1.ReadAuditRequest{Limit: 3})
				path, victim := b.file.path+c.suffix, filepath.Join(t.TempDir(), "victim")
				content, _ := os.ReadFile(path) // there is no new file
				_ = os.Remove(path)
				must(t, errors.Join(os.WriteFile(victim, append(content, "kept"...), 0o600), put(victim, path)))
				ended := make(chan error, 1)
				go func() { ended <- c.act(b, ready.GetBefore()) }()
				select {
				case err := <-ended:
					if other, ok := errors.AsType[*statedir.NotPlainError](err); !ok || other.Path != path || other.Is != kind {
						t.Errorf("got %v", err)
					}
				case <-time.After(time.Minute):
					t.Fatal("it waits")
				}
				if after, err := os.ReadFile(victim); err != nil || string(after) != string(content)+"kept" {
					t.Errorf("the file elsewhere has %q, %v", after, err)
				}
			})
		}
	}
}
