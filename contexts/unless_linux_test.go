package contexts

import (
	"context"
	"errors"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestUnlessSeesWhatWasWrittenMeanwhile has a writer between the two calls of unless: the second call sees the file, and its refusal leaves the context
// as it is, with its callers' handles.
func TestUnlessSeesWhatWasWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	refusal := &fserr.Error{Code: fserr.EBUSY, Kind: fserr.KindContext, Detail: "the file would be lost"}
	for name, end := range map[string]func(m *Manager, ctx context.Context, unless Unless) error{
		"delete": func(m *Manager, ctx context.Context, unless Unless) error {
			_, err := m.Delete(ctx, "ctx_a", unless)
			return err
		},
		"restore": func(m *Manager, ctx context.Context, unless Unless) error {
			_, err := m.Restore(ctx, "ctx_a", "s", unless)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDriver(t, func(t *testing.T, _ *workspace, m *Manager) {
				if _, err := m.Snapshot(t.Context(), "ctx_a", "s"); err != nil {
					t.Fatal(err)
				}
				calls := 0
				err := end(m, t.Context(), func(ctx context.Context) error {
					calls++
					return m.Frozen(ctx, "ctx_a", func(_ context.Context, a *Access) error {
						if _, err := a.Root.Lstat("late"); err == nil {
							return refusal
						}
						_, err := a.Root.MkdirAll("late", 0o755)
						return err
					})
				})
				if !errors.Is(err, refusal) || calls != 2 {
					t.Errorf("%v after %d calls, want the refusal after 2", err, calls)
				}
				a, err := m.Acquire(t.Context(), "ctx_a", Read)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Release()
				if _, err := a.Root.Lstat("late"); err != nil {
					t.Errorf("the refusal changed the context: %v", err)
				}
			})
		})
	}
}
