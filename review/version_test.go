package review

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// TestFileThatGetsANameIsReadWhole changes a file while its content is read. A further name, which a new layer gives to a file of the
// layer that it shares, is no change.
func TestFileThatGetsANameIsReadWhole(t *testing.T) {
	for name, c := range map[string]struct {
		change func(file string) error
		want   error
	}{
		"name":    {func(file string) error { return os.Link(file, file+".link") }, nil},
		"content": {func(file string) error { return os.WriteFile(file, []byte("new content"), 0o600) }, errUnstable},
		"both":    {func(file string) error { return errors.Join(os.Link(file, file+".link"), os.Truncate(file, 0)) }, errUnstable},
		"nothing": {func(string) error { return nil }, nil},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		root, err := rootfs.Open(dir, rootfs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = readVersion(t.Context(), root, "file", reader{read: func(ctx context.Context, r io.Reader) (string, int64, error) {
			hash, size, err := hashOf(ctx, r)
			return hash, size, errors.Join(err, c.change(file))
		}})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}
}
