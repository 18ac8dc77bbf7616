package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStaleLocks settles a lock of a ref: one that stays and is not older than the move goes. It takes two seconds, since another command may
// still give a lock up.
func TestStaleLocks(t *testing.T) {
	t.Parallel()
	begun := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name  string
		at    time.Time
		stays bool
	}{{"of the move", begun.Add(time.Minute), false}, {"of an earlier command", begun.Add(-time.Minute), true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lock := filepath.Join(t.TempDir(), "HEAD.lock")
			if err := errors.Join(os.WriteFile(lock, nil, 0o600), os.Chtimes(lock, c.at, c.at)); err != nil {
				t.Fatal(err)
			}
			if err := removeStale(t.Context(), lock, begun); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(lock); errors.Is(err, fs.ErrNotExist) == c.stays {
				t.Errorf("the lock: %v", err)
			}
		})
	}
	if err := removeStale(t.Context(), filepath.Join(t.TempDir(), "HEAD.lock"), begun); err != nil {
		t.Errorf("without a lock: %v", err)
	}
}
