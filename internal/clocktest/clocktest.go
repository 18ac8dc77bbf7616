// Package clocktest steps a clock, for tests of whatever measures time while somebody sets it, and waits for what a test expects.
package clocktest

import (
	"testing"
	"time"
	"unsafe"
)

// Stepped returns t, which time.Now gave, as it would be had the wall clock been set forward by so much, in whole seconds, just
// before: Now reads two clocks, and only one of them is ever set. No function of package time makes such a Time.
func Stepped(t time.Time, by time.Duration) time.Time {
	// The seconds are the bits from 30 on of the first word (time.Time's documentation of wall).
	*(*uint64)(unsafe.Pointer(&t)) += uint64(by/time.Second) << 30 //nolint:gosec // a test's
	return t
}

// Patience bounds a wait that only ends early: a machine that is busy may take a minute for what takes a moment elsewhere. A test that
// waits so long hangs.
const Patience = 5 * time.Minute

// Await looks again and again until holds returns true, and fails the test when it never does. It is for what has no event to wait for.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("after %v it does not hold that %s", Patience, what)
		}
	}
}

// IsFromNow calls get and reports whether it returned a time that is so much later than a moment of the call, to the millisecond.
func IsFromNow(later time.Duration, get func() time.Time) bool {
	earliest := time.Now().Add(later)
	at := get()
	return !at.Before(earliest.Truncate(time.Millisecond)) && !at.After(time.Now().Add(later))
}
