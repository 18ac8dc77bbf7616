package batch_test

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/fserr"
)

// nobody is a user that has no rights of its own.
const nobody = 65534

// asUser runs f as an ordinary user if the test runs as root. The thread ends with f.
func asUser(t *testing.T, f func()) {
	t.Helper()
	done := make(chan unix.Errno, 1)
	go func() {
		runtime.LockOSThread()
		if os.Geteuid() == 0 { // of this thread alone
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				done <- errno
				return
			}
		}
		f()
		done <- 0
	}()
	if errno := <-done; errno != 0 {
		t.Fatal(errno)
	}
}

// TestBatchNeedsTheRightToWrite has batches replace files that a write in place may not change.
func TestBatchNeedsTheRightToWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	edit := func(old []byte) ([]byte, error) { return append(old, "!"...), nil }
	for _, s := range []batch.Step{
		{Kind: batch.Write, Path: "ro", Data: []byte("one"), Mode: 0o444},
		{Kind: batch.Write, Path: "rw", Data: []byte("two"), Mode: 0o644},
	} {
		if err := single(w.root, s); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		for _, name := range []string{"", "/ro", "/rw"} {
			if err := os.Chown(w.dir+name, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := batch.Step{Kind: batch.Write, Path: "ro", Data: []byte("x")}
	chmod := func(name string, mode uint32) batch.Step {
		return batch.Step{Kind: batch.Chmod, Path: name, Mode: mode}
	}
	for _, c := range []struct {
		name  string
		steps []batch.Step
		code  fserr.Code
	}{
		{"write", []batch.Step{write}, fserr.EACCES},
		{"edit", []batch.Step{{Kind: batch.Edit, Path: "ro", Edit: edit}}, fserr.EACCES},
		{"copy onto it", []batch.Step{{Kind: batch.Copy, Path: "rw", Dest: "ro"}}, fserr.EACCES},
		{"a file of the batch", []batch.Step{{Kind: batch.Write, Path: "new", Mode: 0o444}, {Kind: batch.Write, Path: "new"}}, fserr.EACCES},
		{"made read-only", []batch.Step{chmod("rw", 0o400), {Kind: batch.Write, Path: "rw"}}, fserr.EACCES},
		{"made writable", []batch.Step{chmod("ro", 0o600), write}, 0},
		{"remove and rename", []batch.Step{{Kind: batch.Rename, Path: "rw", Dest: "ro"}, {Kind: batch.Remove, Path: "ro"}}, 0},
	} {
		asUser(t, func() {
			_, err := batch.New(t.Context(), w.root, c.steps)
			if got := fserr.CodeOf(err); (err != nil || c.code != 0) && got != c.code {
				t.Errorf("%s: %v, want %v", c.name, err, c.code)
			}
		})
	}
}
