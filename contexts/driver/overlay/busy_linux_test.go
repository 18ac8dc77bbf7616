package overlay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestAMountWaitsWhileASandboxHasACopy(t *testing.T) {
	for _, c := range []struct {
		name string
		// busy is how long the upper directory is in use, patience how long the caller waits.
		busy, patience time.Duration
		err            error
		took           time.Duration
	}{
		{"not at all", 0, time.Minute, nil, 0},
		{"some milliseconds", 35 * time.Millisecond, time.Minute, nil, 40 * time.Millisecond},
		{"for ever", time.Hour, time.Minute, unix.EBUSY, busyTime},
		{"longer than the caller waits", time.Hour, 25 * time.Millisecond, unix.EBUSY, 25 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				begun := time.Now()
				_, err := whenFree(ctx, func() (int, error) {
					if time.Since(begun) < c.busy {
						return -1, &kernelError{call: "mount", err: unix.EBUSY}
					}
					return 3, nil
				})
				if took := time.Since(begun); !errors.Is(err, c.err) || took != c.took {
					t.Errorf("%v after %s, want %v after %s", err, took, c.err, c.took)
				}
			})
		})
	}
}
