package batch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// TestJournalThatAPowerFailureCut opens a context with a journal whose content was not flushed: the batch has not begun, and is forgotten.
func TestJournalThatAPowerFailureCut(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "zeros": strings.Repeat("\x00", 100), "zeros before a line": strings.Repeat("\x00", 20) + "\n{}\n", "half a header": "0000",
	} {
		t.Run(name, func(t *testing.T) {
			dir, state := t.TempDir(), t.TempDir()
			fine(t, os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600))
			fine(t, os.WriteFile(filepath.Join(state, "journal"), []byte(content), 0o600))
			if !batch.Pending(state) {
				t.Fatal("the journal has another name")
			}
			root, err := rootfs.Open(dir, rootfs.Options{})
			fine(t, err)
			fine(t, batch.Recover(t.Context(), root, state))
			fine(t, root.Close())
			if batch.Pending(state) {
				t.Error("the journal is still there")
			}
		})
	}
}

func fine(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
