package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

// TestLaterChangesLeaveTheOthersFlushed makes changes that need not be flushed, some of which fail. The next commit is flushed.
func TestLaterChangesLeaveTheOthersFlushed(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Contexts().Create(t.Context(), metadata.Context{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	const full = 2
	at := time.UnixMilli(5).UTC()
	for _, id := range []string{"a", "absent"} {
		if err := s.Contexts().Used(metadata.Later(t.Context()), id, at); (err == nil) != (id == "a") {
			t.Errorf("%s: %v", id, err)
		}
		var is int
		if err := s.write.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&is); err != nil || is != full {
			t.Errorf("after the change of %s, synchronous is %d, %v", id, is, err)
		}
	}
	if c, err := s.Contexts().Get(t.Context(), "a"); err != nil || !c.UsedAt.Equal(at) {
		t.Errorf("the context was used at %v, %v", c.UsedAt, err)
	}
}

// TestLaterChangesThatEndEarlyLeaveTheOthersFlushed ends the context of such changes at any time. The next commit is flushed.
func TestLaterChangesThatEndEarlyLeaveTheOthersFlushed(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Contexts().Create(t.Context(), metadata.Context{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%300)*time.Microsecond)
		_ = s.Contexts().Used(metadata.Later(ctx), "a", time.UnixMilli(5)) // it may have ended before
		cancel()
		var is int
		if err := s.write.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&is); err != nil || is != 2 {
			t.Fatalf("change %d: synchronous is %d, %v", i, is, err)
		}
	}
}
