package overlay

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestUnreadProcessesAreNotTakenForEnded looks for users of a mount while this process can open nothing. It does not
// run beside other tests: the limit is that of this process.
func TestUnreadProcessesAreNotTakenForEnded(t *testing.T) { //nolint:paralleltest // see above
	const none = "no such mount"
	watch := []byte(" sdev:none ")
	check := func(readable bool) {
		if err := notices(none, watch); (err == nil) != readable || err != nil && fserr.CodeOf(err) != fserr.EBUSY {
			t.Errorf("readable %t: got %v", readable, err)
		}
		if got := watches("/proc/self", watch); got == readable {
			t.Errorf("readable %t: it watches: %t", readable, got)
		}
	}
	check(true)
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil); err != nil {
			t.Error(err)
		}
	}()
	check(false)
}
